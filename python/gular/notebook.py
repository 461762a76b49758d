"""Batches and bundles to look at, in a notebook or a file: without matplotlib, and without a network."""

from __future__ import annotations

import base64
import html
import json
import os
import shutil
import struct
import subprocess
import sysconfig
import unicodedata
import zlib
from typing import Any, List, Mapping, Optional, Sequence, Union

from .errors import Error, OptionError

#: Pixels of a picture's side on the page of a notebook, of the line below it, and between pictures.
_SIDE, _LINE, _GAP = 128, 18, 6


class Picture:
    """Samples of a batch as one picture, an SVG: a notebook shows it, and ``save`` writes it."""

    def __init__(self, svg: str) -> None:
        #: The picture's text.
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the picture to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def show(batch: Mapping[str, Any], *, classes: Optional[Sequence[str]] = None, layout: str = "NCHW", most: int = 32, columns: int = 8) -> Picture:
    """The samples of a batch of :class:`gular.DataLoader` as one picture, with their classes, masks and boxes.

    Numbers of 8 bits are shown as they are, others from the 2nd to the 98th percentile of the batch.
    A mask has a colour for each value; 0 is transparent. Needs NumPy.

    :param batch: The dictionary that the loader gave.
    :param classes: Names of the classes, such as ``loader.dataset.classes``.
    :param layout: That of the loader: ``"NCHW"``, ``"NHWC"`` or ``"channels_last"``.
    :param most: The most samples that are shown.
    :param columns: Pictures beside each other.
    """
    import numpy as np

    if "image" not in batch:
        raise OptionError(f"option `batch`: it has no `image`, only {', '.join(map(repr, batch)) or 'nothing'}")
    if layout not in ("NCHW", "NHWC", "channels_last"):
        raise OptionError(f"option `layout`: `{layout}` is not one of `NCHW`, `NHWC`, `channels_last`")
    images = _numpy(batch["image"])
    if images.ndim != 4:
        raise OptionError(f"option `batch`: `image` has the shape {list(images.shape)}; expected four axes, as in `[n, channels, height, width]`")
    if layout != "NHWC":
        images = images.transpose(0, 2, 3, 1)
    images = images[:most, :, :, : 3 if images.shape[3] >= 3 else 1]
    if images.dtype != np.uint8:
        known = images[np.isfinite(images)]
        low, top = np.percentile(known, [2, 98]) if known.size else (0.0, 1.0)
        spread = max(float(top - low), 1e-12)
        images = (np.nan_to_num((images.astype(np.float64) - low) / spread).clip(0, 1) * 255).astype(np.uint8)
    images = np.broadcast_to(images, (*images.shape[:3], 3))
    n, height, width = images.shape[:3]
    columns = max(1, min(columns, n))
    tall = max(1, round(_SIDE * height / max(1, width)))
    rows = -(-n // columns)
    cells: List[str] = []
    for i in range(n):
        x, y = _GAP + i % columns * (_SIDE + _GAP), _GAP + i // columns * (tall + _LINE + _GAP)
        place = f'x="{x}" y="{y}" width="{_SIDE}" height="{tall}"'
        cells.append(f'<image {place} href="{_data_url(_png(np.ascontiguousarray(images[i])))}"/>')
        if "mask" in batch:
            mask = _numpy(batch["mask"])[i]
            if mask.shape[-2:] == (height, width):
                cells.append(f'<image {place} opacity="0.45" href="{_data_url(_png(_coloured(mask.reshape(-1, height, width)[0])))}"/>')
        for left, top, right, bottom in _boxes(batch, i):
            box = f'x="{x + left * _SIDE:.1f}" y="{y + top * tall:.1f}" width="{(right - left) * _SIDE:.1f}" height="{(bottom - top) * tall:.1f}"'
            cells.append(f'<rect {box} fill="none" stroke="#ffb000" stroke-width="1.5"/>')
        cells.append(f'<text x="{x}" y="{y + tall + 13}">{html.escape(_words(batch, i, classes))}</text>')
    size = f'width="{_GAP + columns * (_SIDE + _GAP)}" height="{_GAP + rows * (tall + _LINE + _GAP)}"'
    style = 'font-family="sans-serif" font-size="11" fill="currentColor" image-rendering="pixelated"'
    return Picture(f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(cells)}</svg>')


def _numpy(values: Any) -> Any:
    """An array of PyTorch, JAX, NumPy or DLPack as one of NumPy."""
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu()
        return (values.float() if values.is_floating_point() else values).numpy()
    return np.asarray(values) if hasattr(values, "__array__") or isinstance(values, (list, tuple)) else np.from_dlpack(values)


def _words(batch: Mapping[str, Any], i: int, classes: Optional[Sequence[str]]) -> str:
    """The class of a sample, or its key."""
    if "label" not in batch:
        text = str(batch["key"][i]).rsplit("/", 1)[-1] if "key" in batch else ""
    else:
        label = int(_numpy(batch["label"])[i])
        text = classes[label] if classes is not None and 0 <= label < len(classes) else "unknown" if label < 0 else f"class {label}"
        if "weight" in batch and (weight := float(_numpy(batch["weight"])[i])) < 1:
            text = f"{round(100 * weight)} % {text}"
    # What changes the direction of a text, or is not seen, is left out: an SVG may not even have all of it.
    text = "".join(c for c in text if unicodedata.category(c)[0] != "C")
    return text if len(text) <= 20 else text[:19] + "…"


def _boxes(batch: Mapping[str, Any], i: int) -> Any:
    """Boxes of a sample, as fractions: npy files, as they are in a batch."""
    import io

    import numpy as np

    boxes = batch["boxes"][i] if "boxes" in batch else None
    if isinstance(boxes, (bytes, bytearray, memoryview)):
        boxes = np.load(io.BytesIO(bytes(boxes)), allow_pickle=False)
    return [] if boxes is None else np.asarray(boxes, dtype=np.float64).reshape(-1, 4)


def _coloured(mask: Any) -> Any:
    """Red, green, blue and alpha of a mask: neighbouring numbers have hues far from each other."""
    import numpy as np

    values = np.nan_to_num(mask.astype(np.float64))
    hue = (values[..., None] * 137.507764 / 60 + np.array([0.0, 4.0, 2.0])) % 6
    rgb = 40 + 200 * np.clip(np.abs(hue - 3) - 1, 0, 1)
    return np.concatenate([rgb, np.where(values == 0, 0, 255)[..., None]], axis=-1).astype(np.uint8)


def _png(pixels: Any) -> bytes:
    """A PNG of pixels of 8 bits, ``[height, width, 3 or 4]``."""
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 6 if channels == 4 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


class View:
    """The page of ``gular view``, which a notebook shows as a frame. It is served until :meth:`close`, or the end of Python."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, height: int) -> None:
        self._process, self._height = process, height
        #: The page's address, which contains a secret.
        self.url = url

    def _repr_html_(self) -> str:
        return f'<iframe src="{html.escape(self.url)}" width="100%" height="{self._height}" style="border:0"></iframe>'

    def close(self) -> None:
        """Ends the server."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait()

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if self._process.poll() is None:
            self.close()


def view(source: "Union[str, os.PathLike[str]]", *runs: "Union[str, os.PathLike[str]]", height: int = 800) -> View:
    """Serves the page of a bundle on this machine: samples, duplicates, and what training sees.

    In a notebook, the result is shown as a frame of ``height`` pixels. The page is served until
    :meth:`View.close` or the end of Python, also if that is killed; interrupting a cell does not end
    it. Where the frame stays empty (JupyterHub, VS Code, a notebook on another machine), forward the
    page's port and open ``view.url`` in the browser.

    :param source: A bundle's folder or URL.
    :param runs: Training runs: folders with ``metrics.jsonl``, and ``.csv`` files of predictions.
    """
    program = shutil.which("gular", path=sysconfig.get_path("scripts")) or shutil.which("gular")
    if program is None:
        raise Error("the program `gular` was not found", "install the wheel of Gular, which contains it, or add its folder to PATH")
    command = [program, "view", "--json", "--no-open", "--until-stdin-ends", "--", *map(os.fspath, (source, *runs))]
    # In a session of its own it gets no Ctrl-C of this one; its input ends with this process, however that ends.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    if not line:
        said = process.stderr.read().strip()
        process.wait()
        raise Error(f"`gular view` ended: {said}")
    # What it says later is nobody's to read, and must not fill the pipe.
    process.stderr.close()
    return View(process, json.loads(line)["url"], height)
