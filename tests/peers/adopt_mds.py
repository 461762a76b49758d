"""`gular adopt` of shards that MosaicML Streaming wrote, read by the program and by our Python reader.

The package's own `__init__` imports transformers, torchvision and every text
dataset; its writer needs none of these, so it is imported past them.
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import types

from _shared import GULAR, check, extract, finish, gular, make_images, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tutorials" / "python"))

try:
    import numpy
    from PIL import Image

    found = importlib.util.find_spec("streaming")
    if found is None:
        raise ImportError("no streaming", name="mosaicml-streaming")
    for name in ("streaming", "streaming.base"):
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(found.origin).parent.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    from streaming.base.format.mds.writer import MDSWriter
except ImportError as missing:
    install = "pip install --no-deps mosaicml-streaming Brotli catalogue cramjam python-snappy zstd"
    skip("adopt_mds", missing.name, install)
    finish()

import gular_dataset

made = sorted(make_images().items())
KEYS = [key for key, _ in made]
IMAGES = dict((key, data) for key, (data, _) in made)
LABELS = dict((key, label) for key, (_, label) in made)


def write(out, keys, columns, sample, **options):
    with MDSWriter(columns=columns, out=str(out), size_limit=options.pop("size_limit", 1 << 20), **options) as writer:
        for i, key in enumerate(keys):
            writer.write(sample(i, key))


def refuses(name, path, *reasons, next_step="hint"):
    said = gular("adopt", path, "--out", "none", refused=True)
    check(name, all(reason in said for reason in (*reasons, next_step)) and not pathlib.Path("none").exists(), said)


def images():
    columns = {
        "image": "jpeg",
        "label": "int",
        "path": "str",
        "tile": "ndarray:uint8:4,5",
        "box": "ndarray",
        "score": "float32",
        "note": "json",
        "anything": "pkl",
    }

    def sample(i, key):
        return {
            "image": IMAGES[key],
            "label": LABELS[key],
            "path": key,
            "tile": numpy.full((4, 5), i, "uint8"),
            "box": numpy.full((2, 2), i, "int16"),
            "score": i / 2,
            "note": {"i": i},
            "anything": {i},
        }

    splits = {split: [key for key in KEYS if key.startswith(split)] for split in ("train", "val")}
    for split, keys in splits.items():
        write(f"written/{split}", keys, columns, sample)
    n_shards = len(list(pathlib.Path("written").rglob("*.mds")))
    check("several shards", n_shards > 2, n_shards)
    report = gular("adopt", "written/train", "written/val", "--out", "bundle")
    check("splits by folder", report["splits"] == {split: len(keys) for split, keys in splits.items()}, report)
    check("keys by column", report["keys"] == "path", report)
    fields = {"image", "label", "tile", "box", "score", "note"}
    check("fields", set(report["fields"]) == fields, report)
    check("pickles are left out", "pickles" in report["left_out"].get("anything", ""), report)
    wrong = [key for key in KEYS if extract("bundle", key) != IMAGES[key]]
    check("every image by the program", not wrong, wrong[:3])
    gular("verify", "bundle")
    for split, keys in splits.items():
        data = gular_dataset.GularDataset("bundle", split)
        found = [(data.key(i), data.raw(i), data.label(i)) for i in range(len(data))]
        check(f"{split} by our Python reader", found == [(k, IMAGES[k], LABELS[k]) for k in keys])
        for field, expected in (("tile", numpy.full((4, 5), 7, "uint8")), ("box", numpy.full((2, 2), 7, "int16"))):
            values = gular_dataset.GularDataset("bundle", split, field=field)
            value = numpy.asarray(values[7][0])
            check(f"{split}: {field}", value.dtype == expected.dtype and (value == expected).all(), value)
    gular("convert", "bundle", "copy", "--envelope", "tar")
    check("a copy needs them no more", all(extract("copy", key) == IMAGES[key] for key in KEYS[::9]))


def pixels():
    same = [numpy.full((16, 12, 3), i, "uint8") for i in range(9)]
    write("pil", range(9), {"image": "pil", "label": "uint8"}, lambda i, _: {"image": Image.fromarray(same[i]), "label": i % 3})
    report = gular("adopt", "pil", "--out", "pil-bundle")
    data = gular_dataset.GularDataset("pil-bundle", "train")
    found = [(numpy.asarray(data[i][0]), data.label(i)) for i in range(9)]
    right = all((image == same[i]).all() and label == i % 3 for i, (image, label) in enumerate(found))
    check("PIL pixels of one size", right and report["keys"] == "file/row", report)
    write("sizes", range(3), {"image": "pil"}, lambda i, _: {"image": Image.new("RGB", (8 + i, 8))})
    refuses("PIL pixels of several sizes are refused", "sizes", "differ")


def refusals():
    one = ({"image": "jpeg"}, lambda i, key: {"image": IMAGES[key]})
    write("squeezed", KEYS[:5], *one, compression="zstd", hashes=["sha1"])
    refuses("compressed shards are refused with what to do", "squeezed", "zstd -d shard.00000.mds.zstd")
    write("whole", KEYS[:20], *one, size_limit=200_000)
    shard = sorted(pathlib.Path("whole").glob("*.mds"))[-1]
    shutil.move(shard, "last.mds")
    refuses("a missing shard is refused", "whole", shard.name, next_step="to adopt only some shards, give each of them by name")
    report = gular("adopt", *sorted(pathlib.Path("whole").glob("*.mds")), "--out", "part")
    check("shards by name need no list", 0 < report["splits"]["train"] < 20, report)
    data = pathlib.Path("last.mds").read_bytes()
    for cut in (2, 30, len(data) // 2, len(data) - 1):
        pathlib.Path("cut.mds").write_bytes(data[:cut])
        said = subprocess.run([GULAR, "adopt", "cut.mds", "--out", "none"], capture_output=True, text=True)
        check(f"cut after {cut} bytes", said.returncode == 2 and "cut.mds" in said.stderr, said.stderr)
    said = subprocess.run([GULAR, "pack", "images", "none", "--envelope", "mds"], capture_output=True, text=True)
    check("nothing is packed as MDS", said.returncode == 2 and "read by `gular adopt`" in said.stderr, said.stderr)


images()
pixels()
refusals()
finish()
