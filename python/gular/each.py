"""The user's function of each sample, called beside the loader's threads: by processes, or by
threads of Python.

Each of these serves one channel (``python/src/function_channels.rs``): a socket that brings the names of arrays
and takes those of results, and memory that both ends see, in which the arrays are.
"""

from __future__ import annotations

import copy
import inspect
import io
import json
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import weakref
from multiprocessing import spawn
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from . import _gular
from .errors import Error, OptionError

#: Values in shared memory begin at a multiple of this.
_ALIGN = 64

#: Names of types as the loader has them, and as NumPy has them. NumPy has no bfloat16.
_DTYPES = {
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "u32": "uint32",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}
_NAMES = {name: short for short, name in _DTYPES.items()}

#: What a sample has besides its fields.
_ABOUT = ("label", "key", "index", "epoch")

#: Whether this process serves a loader of another one.
_serving = False


class Workers:
    """The processes or threads that call ``function`` for a loader with ``workers`` threads."""

    def __init__(self, function: Callable[..., Any], where: Optional[str], workers: int, collected: bool) -> None:
        if _serving:
            raise Error(
                "this script makes a DataLoader while the processes that call its `each` import it",
                'write what the script does below `if __name__ == "__main__":`, or `pip install cloudpickle`, with which it is not imported',
            )
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise OptionError("option `each`: its samples are arrays of NumPy, which is not installed", "`pip install numpy`") from None
        has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
        #: ``"processes"`` or ``"threads"``.
        self.where = where or ("processes" if has_lock else "threads")
        if self.where not in ("processes", "threads"):
            raise OptionError(f'option `each_in`: {where!r}, expected `"processes"` or `"threads"`')
        called = _called(function)
        if self.where == "threads" and isinstance(called, _Torchvision):
            raise OptionError(
                "option `each_in`: transforms of torchvision draw from one generator for all threads, so that their results would depend on timing",
                'leave `each_in` out, or give `each_in="processes"`',
            )
        setup = _setup(function) if self.where == "processes" else b""
        self.channels = _gular.Channels(workers, collected)
        processes: List[subprocess.Popen[bytes]] = []
        weakref.finalize(self, _end, processes)
        ends = self.channels.ends()
        #: How many there are.
        self.n = len(ends)
        for number, (connection, memory) in enumerate(ends):
            if self.where == "threads":
                # Transforms have generators of their own.
                own = copy.deepcopy(called) if isinstance(called, _Adapted) else called
                work = _Server(socket.socket(fileno=connection), memory, own, False, collected).serve
                threading.Thread(target=work, name=f"gular-each-{number}", daemon=True).start()
                continue
            os.pwrite(memory, setup, 0)
            try:
                processes.append(_started(connection, memory, len(setup), collected))
            finally:
                os.close(connection)
                os.close(memory)


def _started(connection: int, memory: int, setup: int, collected: bool) -> "subprocess.Popen[bytes]":
    if not sys.executable:
        raise OptionError("option `each`: this program does not know which Python started it", 'give `each_in="threads"`')
    code = f"import sys; sys.path[:] = {sys.path!r}; from gular.each import main; main()"
    arguments = [connection, memory, setup, int(collected)]
    command = [sys.executable, "-c", code, *map(str, arguments)]
    # One per core: libraries are not to start threads for all cores in each.
    alone = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return subprocess.Popen(command, pass_fds=(connection, memory), stdin=subprocess.DEVNULL, env={**os.environ, **alone})


def _end(processes: "List[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


def _setup(function: Any) -> bytes:
    """What a new process needs to have ``function``."""
    hint = 'define it with `def` at the top of a module, `pip install cloudpickle`, or give `each_in="threads"`'
    try:
        # It writes down functions of notebooks and of the script itself.
        import cloudpickle as pickler  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        pickler = pickle
    try:
        pickled = pickler.dumps(function)
    except Exception as error:
        raise OptionError(f"option `each`: it cannot be sent to another process: {error}", hint) from None
    prepared: Dict[str, Any] = {}
    if pickler is pickle and b"__main__" in pickled:
        if not os.path.exists(getattr(sys.modules["__main__"], "__file__", "")):
            raise OptionError("option `each`: other processes cannot import what a notebook or a prompt defines", hint)
        prepared = spawn.get_preparation_data("gular-each")
        prepared.pop("authkey", None)
    return pickle.dumps((prepared, pickled))


def main() -> None:
    """A process that serves one channel."""
    global _serving
    _serving = True
    # The process that uses the samples ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    number, memory, setup, collected = map(int, sys.argv[1:5])
    connection = socket.socket(fileno=number)
    threading.Thread(target=_watch, args=(connection,), daemon=True).start()
    try:
        prepared, pickled = pickle.loads(os.pread(memory, setup, 0))
        if prepared:
            spawn.prepare(prepared)
        called = _called(pickle.loads(pickled))
    except Error as error:
        _send(connection, {"error": str(error)})
        return
    except BaseException as error:
        _send(connection, {"error": f"it cannot be loaded in another process: {_told(error)}"})
        return
    for module, name, value in (("cv2", "setNumThreads", 0), ("torch", "set_num_threads", 1)):
        getattr(sys.modules.get(module), name, lambda _: None)(value)
    _Server(connection, memory, called, True, bool(collected)).serve()
    # Threads and handlers of the user's modules have nothing to do here any more.
    os._exit(0)


def _watch(connection: socket.socket) -> None:
    """Ends this process as soon as the other end is closed, also while the function runs."""
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", 0))
    poll.poll()
    os._exit(0)


class _Server:
    """Calls a function with the samples of one channel."""

    def __init__(
        self, connection: socket.socket, memory: int, called: Callable[..., Any], is_alone: bool, collected: bool
    ) -> None:
        import numpy

        self._connection, self._called = connection, called
        self._memory = _Memory(memory)
        #: Whether the generators of this process are those of one sample at a time.
        self._is_alone = is_alone
        self._collected = collected
        self._bits = numpy.random.Philox(0)
        self._random = numpy.random.Generator(self._bits)
        #: That of a generator that has given nothing.
        self._state = self._bits.state

    def serve(self) -> None:
        with self._connection:
            _send(self._connection, {"ready": True})
            while (given := _received(self._connection)) is not None:
                try:
                    answer = self._made(given)
                except BaseException as error:
                    answer = {"error": _told(error)}
                try:
                    _send(self._connection, answer)
                except OSError:
                    # The loader is gone.
                    return

    def _made(self, given: Dict[str, Any]) -> Dict[str, Any]:
        self._seed(given["random"])
        sample = {value["name"]: self._memory.value(value) for value in given["values"]}
        for name in _ABOUT:
            if given[name] is not None:
                sample[name] = given[name]
        result = _merged(sample, self._called(dict(sample), self._random))
        label = result.get("label")
        label = None if label is None or given["label"] is None else int(label)
        if self._collected:
            at, length = self._memory.packed(result, given["end"])
            return {"label": label, "values": [], "at": at, "len": length}
        extra = set(result) - set(sample)
        if extra:
            raise _Refused(
                f"it returned `{min(extra)}`, which batches do not have: give the fields of the sample, or `collate` to put samples together yourself"
            )
        return {"label": label, **self._memory.written(given, sample, result)}

    def _seed(self, words: List[int]) -> None:
        """Makes all random numbers those of the sample."""
        import numpy

        self._state["state"]["key"][:] = words
        self._bits.state = self._state
        if isinstance(self._called, _Adapted):
            self._called.seed(words[0], self._random)
        if not self._is_alone:
            return
        import random

        random.seed(words[0])
        numpy.random.seed(words[0] & 0xFFFFFFFF)
        if "torch" in sys.modules:
            sys.modules["torch"].default_generator.manual_seed(words[0] >> 1)


class _Refused(Exception):
    """What a function returned is not possible."""


def _told(error: BaseException) -> str:
    """An exception in words: its message first, then the lines of the user's code."""
    if isinstance(error, _Refused):
        return str(error)
    told = traceback.TracebackException.from_exception(error)
    while told.stack and told.stack[0].filename == __file__:
        del told.stack[0]
    message = "".join(told.format_exception_only()).strip()
    return f"{message}\n\n{''.join(told.format()).rstrip()}"


def _merged(sample: Dict[str, Any], returned: Any) -> Dict[str, Any]:
    if returned is None:
        raise _Refused("it returned nothing: return the sample, or its new picture")
    if isinstance(returned, Mapping):
        return {**sample, **returned}
    if hasattr(returned, "__array__") or hasattr(returned, "__array_interface__"):
        return {**sample, "image": returned}
    raise _Refused(f"it returned a {type(returned).__name__}, expected the sample, a dictionary, or its new picture")


class _Memory:
    """The memory that both ends see. It only grows."""

    def __init__(self, file: int) -> None:
        import numpy

        self._file = file
        self._map: Optional[mmap.mmap] = None
        self._size = 0
        #: Types, which are found faster than their names, as NumPy and the loader have them.
        self._types = {short: numpy.dtype(name) for short, name in _DTYPES.items()}
        self._names = {dtype: short for short, dtype in self._types.items()}

    def _mapped(self, end: int) -> mmap.mmap:
        """The memory, of ``end`` bytes or more."""
        if self._map is None or self._size < end:
            self._size = os.fstat(self._file).st_size
            if self._size < end:
                # Rarely more than once.
                self._size = end + end // 4
                os.ftruncate(self._file, self._size)
            # Arrays keep the one before.
            self._map = mmap.mmap(self._file, self._size)
        return self._map

    def value(self, value: Dict[str, Any]) -> Any:
        """An array on the memory, or the bytes of a field that has any number of them."""
        import numpy

        at, length = value["at"], value["len"]
        mapped = self._mapped(at + max(length, 1))
        if value["dtype"] is None:
            return _read_bytes(mapped[at : at + length])
        dtype = self._types[value["dtype"]]
        return numpy.frombuffer(mapped, dtype, length // dtype.itemsize, at).reshape(value["shape"])

    def written(self, given: Dict[str, Any], sample: Dict[str, Any], result: Dict[str, Any]) -> Dict[str, Any]:
        """Where the fields of ``result`` are, behind those of ``sample``, which it may still show."""
        import numpy

        entries: List[Dict[str, Any]] = []
        copied: List[Tuple[Dict[str, Any], Any]] = []
        end = given["end"]
        for field in given["values"]:
            name = field["name"]
            value = result[name]
            if field["dtype"] is None:
                value = _written_bytes(name, value)
                entry = {"dtype": None, "shape": (), "planes": False, "len": len(value)}
            else:
                was = sample[name]
                value, planes = _array(name, value, was, field["picture"])
                entry = {"dtype": self._names[value.dtype], "shape": value.shape, "planes": planes, "len": value.nbytes}
            entry["name"] = name
            entries.append(entry)
            if field["dtype"] is not None and value is was:
                # Changed in place, or not at all.
                entry["at"] = field["at"]
                continue
            entry["at"] = end
            end = _aligned(end + entry["len"])
            copied.append((entry, value))
        mapped = self._mapped(max(end, 1))
        for entry, value in copied:
            place = entry["at"]
            if entry["dtype"] is None:
                mapped[place : place + entry["len"]] = value
            else:
                to = numpy.frombuffer(mapped, value.dtype, value.size, place).reshape(value.shape)
                numpy.copyto(to, value)
        return {"values": entries, "at": 0, "len": end}

    def packed(self, result: Dict[str, Any], start: int) -> Tuple[int, int]:
        """Writes all of ``result``: the memory of its arrays as it is, and the rest pickled."""
        parts: List[pickle.PickleBuffer] = []
        head = pickle.dumps(_plain(result), 5, buffer_callback=parts.append)
        views = [memoryview(head), *(part.raw() for part in parts)]
        at, places = _aligned(8 + 16 * len(views)), []
        for view in views:
            places.append((at, view.nbytes))
            at = _aligned(at + view.nbytes)
        mapped = self._mapped(start + at)
        struct.pack_into(f"=Q{2 * len(views)}Q", mapped, start, len(views), *(n for place in places for n in place))
        for (place, length), view in zip(places, views):
            mapped[start + place : start + place + length] = view
        return start, at


def _aligned(at: int) -> int:
    return -(-at // _ALIGN) * _ALIGN


def unpacked(value: bytes) -> Dict[str, Any]:
    """The sample that :meth:`_Memory.packed` wrote; its arrays may be written to."""
    memory = memoryview(bytearray(value))
    (n,) = struct.unpack_from("=Q", memory)
    places = struct.unpack_from(f"={2 * n}Q", memory, 8)
    views = [memory[at : at + length] for at, length in zip(places[::2], places[1::2])]
    sample: Dict[str, Any] = pickle.loads(views[0], buffers=views[1:])
    for name in sample.pop("tensors"):
        sample[name] = sys.modules["torch"].from_numpy(sample[name])
    return sample


def _plain(result: Dict[str, Any]) -> Dict[str, Any]:
    """With arrays of NumPy for tensors, whose memory is then not pickled."""
    tensors = [name for name, value in result.items() if _is_tensor(value)]
    return {**result, **{name: _of_tensor(result[name]) for name in tensors}, "tensors": tensors}


def _is_tensor(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _of_tensor(value: Any) -> Any:
    value = value.detach().cpu()
    if value.dtype == sys.modules["torch"].bfloat16:
        value = value.float()
    return value.numpy()


def _array(name: str, value: Any, was: Any, is_picture: bool) -> Tuple[Any, bool]:
    """An array of the type of ``was``, or of floats for a picture; and whether its bands are first."""
    import numpy

    if value is was:
        return was, False
    is_tensor = _is_tensor(value)
    array = _of_tensor(value) if is_tensor else numpy.asarray(value)
    if array.dtype.name not in _NAMES and array.dtype != bool:
        raise _Refused(f"it returned {array.dtype} as `{name}`, expected {was.dtype}")
    is_float = array.dtype.kind == "f"
    if not (is_picture and is_float) and array.dtype != was.dtype:
        cast = array.astype(was.dtype)
        if not numpy.array_equal(cast, array):
            raise _Refused(f"it returned {array.dtype} as `{name}`, whose values {was.dtype} does not have")
        array = cast
    if not is_picture:
        # A mask of torchvision may have an axis of one band.
        return (array[0], False) if is_tensor and array.ndim == was.ndim + 1 and len(array) == 1 else (array, False)
    if not is_tensor or array.ndim != 3:
        return array, False
    if array.dtype == was.dtype:
        return array.transpose(1, 2, 0), False
    return array, True


def _read_bytes(value: bytes) -> Any:
    """The array of an npy file, or other bytes as they are."""
    if value[:6] != b"\x93NUMPY":
        return value
    import numpy

    return numpy.load(io.BytesIO(value), allow_pickle=False)


def _written_bytes(name: str, value: Any) -> bytes:
    import numpy

    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    array = _of_tensor(value) if _is_tensor(value) else numpy.asarray(value)
    if array.dtype == object:
        raise _Refused(f"it returned a {type(value).__name__} as `{name}`, expected bytes, a text or an array")
    file = io.BytesIO()
    numpy.save(file, array, allow_pickle=False)
    return file.getvalue()


def _called(function: Any) -> Callable[..., Any]:
    """``function`` as it is called with a sample and random numbers."""
    if isinstance(function, _Adapted):
        return function
    library = type(function).__module__
    if library.startswith(("albumentations.", "albumentationsx.")):
        return _Albumentations(function)
    parts = function.modules() if hasattr(function, "modules") and "torch" in sys.modules else [function]
    libraries = [type(part).__module__ for part in parts]
    if any(name.startswith("torchvision.transforms.v2") for name in libraries):
        return _Torchvision(function, True)
    if any(name.startswith("torchvision.transforms") for name in libraries):
        return _Torchvision(function, False)
    if not callable(function):
        raise OptionError(f"option `each`: {function!r} is not a function, nor a transform of albumentations or torchvision")
    try:
        inspect.signature(function).bind({}, None)
    except TypeError:
        raise OptionError(
            f"option `each`: {function!r} cannot be called with a sample and random numbers", "write it as `def each(sample, rng): …`"
        ) from None
    except ValueError:
        # A function of C does not say.
        pass
    called: Callable[..., Any] = function
    return called


class _Adapted:
    """A transform of another library, which has its own words for the fields of a sample."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform

    def seed(self, seed: int, rng: Any) -> None:
        """Makes the transform's own random numbers those of a sample."""


class _Albumentations(_Adapted):
    def __init__(self, transform: Any) -> None:
        super().__init__(transform)
        if not hasattr(transform, "set_random_seed"):
            raise OptionError(
                "option `each`: this release of albumentations cannot be given random numbers", '`pip install "albumentations>=1.4.18"`'
            )
        self._seeded = False
        self._python: Any = None

    def seed(self, seed: int, rng: Any) -> None:
        if not hasattr(self._transform, "set_random_state"):
            self._transform.set_random_seed(seed & 0xFFFFFFFF)
            return
        if not self._seeded:
            import random

            self._python, self._seeded = random.Random(), True
            self._transform.set_random_state(rng, self._python)
        self._python.seed(seed)

    def __call__(self, sample: Dict[str, Any], rng: Any) -> Dict[str, Any]:
        import numpy

        given = {"image": sample["image"]}
        if "mask" in sample:
            given["mask"] = sample["mask"]
        boxes = getattr(self._transform, "processors", {}).get("bboxes")
        names: List[str] = []
        if boxes is not None and "boxes" in sample:
            names = list(boxes.params.label_fields or [])
            size = sample["image"].shape[1::-1]
            given["bboxes"] = _boxes_as(boxes.params.format, sample["boxes"], size)
            of_boxes = [sample[name] for name in ("box_labels", "box_crowd") if name in sample]
            given.update(zip(names, of_boxes))
        made = self._transform(**given)
        result = {name: made[name] for name in ("image", "mask") if name in given}
        if "bboxes" in given:
            image = made["image"]
            size = image.shape[1::-1] if not _is_tensor(image) else (image.shape[2], image.shape[1])
            found = numpy.asarray(made["bboxes"], "float64").reshape(-1, max(4, numpy.shape(given["bboxes"])[-1]))[:, :4]
            result["boxes"] = _boxes_from(boxes.params.format, found, size)
            kept = dict(zip(("box_labels", "box_crowd"), names))
            result.update({name: numpy.asarray(made[of], "int64") for name, of in kept.items() if name in sample})
        return result


def _boxes_as(form: str, boxes: Any, size: Tuple[int, int]) -> Any:
    """Boxes, fractions of left, top, right and bottom, in a form of albumentations."""
    import numpy

    left, top, right, bottom = boxes.T
    if form == "yolo":
        return numpy.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], 1)
    if form == "albumentations":
        return boxes
    width, height = size
    pixels = boxes * [width, height, width, height]
    if form == "coco":
        pixels[:, 2:] -= pixels[:, :2]
    return pixels


def _boxes_from(form: str, boxes: Any, size: Tuple[int, int]) -> Any:
    import numpy

    if form == "albumentations":
        return boxes
    if form == "yolo":
        (x, y, w, h) = boxes.T
        return numpy.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)
    boxes = boxes.copy()
    if form == "coco":
        boxes[:, 2:] += boxes[:, :2]
    width, height = size
    return boxes / [width, height, width, height]


class _Torchvision(_Adapted):
    """Transforms that draw from the generators of the process."""

    def __init__(self, transform: Any, is_v2: bool) -> None:
        super().__init__(transform)
        self._is_v2 = is_v2

    def __call__(self, sample: Dict[str, Any], rng: Any) -> Any:
        import torch

        image = sample["image"]
        if not self._is_v2:
            from PIL import Image

            is_grey = image.ndim == 3 and image.shape[2] == 1
            made = self._transform(Image.fromarray(image[:, :, 0] if is_grey else image))
            return {"image": made if _is_tensor(made) else _as_array(made)}
        from torchvision import tv_tensors

        given: Dict[str, Any] = {"image": tv_tensors.Image(torch.from_numpy(image).permute(2, 0, 1))}
        if "mask" in sample:
            given["mask"] = tv_tensors.Mask(torch.from_numpy(sample["mask"]))
        if "boxes" in sample:
            height, width = image.shape[:2]
            boxes = torch.from_numpy(sample["boxes"] * [width, height, width, height])
            given["boxes"] = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))  # type: ignore[call-arg, unused-ignore]
        if "box_labels" in sample:
            given["labels"] = torch.from_numpy(sample["box_labels"])
        made = self._transform(given)
        result = {name: made[name] for name in ("image", "mask") if name in given}
        if "boxes" in given:
            height, width = made["boxes"].canvas_size
            result["boxes"] = made["boxes"].numpy() / [width, height, width, height]
        if "labels" in given:
            result["box_labels"] = made["labels"]
        return result


def _as_array(picture: Any) -> Any:
    import numpy

    return numpy.asarray(picture)


def _send(connection: socket.socket, answer: Dict[str, Any]) -> None:
    text = json.dumps(answer).encode()
    connection.sendall(struct.pack("=I", len(text)) + text)


def _received(connection: socket.socket) -> Optional[Dict[str, Any]]:
    """What the loader asks next; ``None`` at the end."""
    head = _read(connection, 4)
    text = head and _read(connection, struct.unpack("=I", head)[0])
    return json.loads(text) if text else None


def _read(connection: socket.socket, length: int) -> Optional[bytes]:
    read = bytearray()
    while len(read) < length:
        try:
            more = connection.recv(length - len(read))
        except OSError:
            return None
        if not more:
            return None
        read += more
    return bytes(read)
