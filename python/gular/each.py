"""The user's function of each sample, called beside the loader's threads: by processes, or by
threads of Python.

Each of these serves one channel (``python/src/function_channels.rs``): a socket that brings the places of arrays
and takes those of results, and two memories that both ends see, in which the arrays are.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import inspect
import io
import json
import mmap
import operator
import os
import pickle
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import types
import warnings
import weakref
from multiprocessing import spawn
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from . import _gular
from .errors import Error, FunctionError, OptionError, ReplacedProcessWarning

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

#: The most characters of an exception, and of where it happened.
_LONGEST = 1 << 16

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
        called = _called(function)
        #: ``"processes"`` or ``"threads"``.
        self.where = where or ("threads" if not _has_gil() and _is_safe_in_threads(called, function) else "processes")
        if self.where not in ("processes", "threads"):
            raise OptionError(f'option `each_in`: {where!r}, expected `"processes"` or `"threads"`')
        if self.where == "threads" and (reason := _not_in_threads(called, function)):
            raise OptionError(f"option `each_in`: {reason[0]}", reason[1])
        setup = _setup(function) if self.where == "processes" else b""
        self.channels = _gular.Channels(workers, collected, self.where == "processes")
        #: By channel.
        self._processes: List[subprocess.Popen[bytes]] = []
        #: Those that are gone, with the samples that they had begun.
        self._gone: List[_Gone] = []
        weakref.finalize(self, _end, os.getpid(), self.channels, self._processes)
        ends = self.channels.ends()
        #: How many there are.
        self.n = len(ends)
        ends.reverse()
        try:
            while ends:
                end = ends.pop()
                if self.where == "threads":
                    # Transforms have generators of their own.
                    own = copy.deepcopy(called) if isinstance(called, _Adapted) else called
                    connection, *memories = end
                    work = _Server(socket.socket(fileno=connection), memories, own, False, collected).serve
                    threading.Thread(target=work, name=f"gular-each-{len(ends)}", daemon=True).start()
                    continue
                self._processes.append(_started(end, setup, collected))
        except BaseException:
            for end in ends:
                for file in end:
                    os.close(file)
            raise
        if self.where == "processes":
            work = functools.partial(_replace, self.channels, self._processes, self._gone, setup, collected)
            threading.Thread(target=work, name="gular-each-watch", daemon=True).start()

    def hint(self, error: FunctionError) -> Optional[str]:
        """What to do about an error of a process that is gone, if it is one."""
        said = (gone.hint for gone in reversed(self._gone) if gone.reason in error.what)
        return next(said, None)

    @property
    def replaced(self) -> int:
        """How many processes were replaced, as they were gone."""
        return self.channels.n_replaced()


def _has_gil() -> bool:
    """Whether only one thread at a time runs Python, as in all but free-threaded ones (PEP 703)."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def _not_in_threads(called: Callable[..., Any], function: Any) -> Optional[Tuple[str, str]]:
    """Why ``function`` cannot run in threads, and what to do about it."""
    if isinstance(called, _Torchvision):
        return (
            "transforms of torchvision draw from one generator for all threads, so that their results would depend on timing",
            'leave `each_in` out, or give `each_in="processes"`',
        )
    if not isinstance(called, _Adapted) and _generators(function):
        return (
            "the function uses a generator of random numbers, or a transform of albumentations, that all threads would share",
            'draw from its argument `rng`, give the transform itself as `each`, or leave `each_in` out',
        )
    return None


def _is_safe_in_threads(called: Callable[..., Any], function: Any) -> bool:
    """Whether threads give what processes do, also where they run at the same time."""
    return _not_in_threads(called, function) is None and (isinstance(called, _Adapted) or _uses_only_its_argument(function))


class _Gone(NamedTuple):
    """A process that is gone."""

    #: The sample that it had begun.
    key: Optional[str]
    reason: str
    hint: str


#: Signals of compiled code that fails.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)

_LESS_MEMORY = "give the loader fewer `workers`, or the job more memory"


def _how(code: Optional[int], key: Optional[str]) -> _Gone:
    """How a process ended, and what can be done."""
    again = "make the loader again, with `load_state_dict` to go on"
    if code is None:
        return _Gone(key, "the process that called it closed its connection", again)
    if code >= 0:
        return _Gone(key, f"the process that called it ended with the exit code {code}", f"do not end the process in `each`; {again}")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code == signal.SIGKILL:
        return _Gone(key, f"the process that called it was ended by {name}, as Linux does where memory is short", _LESS_MEMORY)
    reason = f"the process that called it was ended by {name}"
    if -code in _CRASHES:
        return _Gone(key, reason, "compiled code that `each` calls has crashed: call the function with this sample alone to see where")
    return _Gone(key, reason, again)


def _replace(
    channels: _gular.Channels, processes: "List[subprocess.Popen[bytes]]", found: List[_Gone], setup: bytes, collected: bool
) -> None:
    """Starts a process in place of each one that is gone, until the loader ends."""
    while (one := channels.gone()) is not None:
        number, key = one
        try:
            code: Optional[int] = processes[number].wait(5)
        except subprocess.TimeoutExpired:
            processes[number].kill()
            code = None
        gone = _how(code, key)
        found.append(gone)
        ends = channels.replace(gone.reason)
        if ends is None:
            continue
        try:
            processes[number] = _started(ends, setup, collected)
        except Exception:
            # The end of its connection is noticed, and this one ends as that one did.
            continue
        sample = "" if key is None else f" while it had sample {key!r}"
        # Where warnings are errors, nobody would get it from this thread.
        with contextlib.suppress(Warning):
            warnings.warn(f"`each`: {gone.reason}{sample}; another one continues", ReplacedProcessWarning, stacklevel=1)


def _started(ends: Tuple[int, int, int], setup: bytes, collected: bool) -> "subprocess.Popen[bytes]":
    """A process for a channel, whose ends are its own then."""
    try:
        os.pwrite(ends[1], setup, 0)
        return _process(ends, len(setup), collected)
    finally:
        for file in ends:
            os.close(file)


def _process(ends: Tuple[int, int, int], setup: int, collected: bool) -> "subprocess.Popen[bytes]":
    if not sys.executable:
        raise OptionError("option `each`: this program does not know which Python started it", 'give `each_in="threads"`')
    code = f"import sys; sys.path[:] = {list(map(str, sys.path))!r}; from gular.each import main; main()"
    arguments = [*ends, setup, int(collected), os.getpid()]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, "-c", code, *map(str, arguments)]
    # One per core: libraries are not to start threads for all cores in each.
    alone = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return subprocess.Popen(command, pass_fds=ends, stdin=subprocess.DEVNULL, env={**os.environ, **alone})


def _end(pid: int, channels: _gular.Channels, processes: "List[subprocess.Popen[bytes]]") -> None:
    if os.getpid() != pid:
        # They are those of the process that forked this one.
        return
    channels.end()
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
    number, *memories, setup, collected, parent = map(int, sys.argv[1:7])
    connection = socket.socket(fileno=number)
    # A process that the function starts must not keep the connection open when this one is gone.
    for file in (number, *memories):
        os.set_inheritable(file, False)
    os.register_at_fork(after_in_child=connection.close)
    threading.Thread(target=_watch, args=(connection, parent), daemon=True).start()
    try:
        prepared, pickled = pickle.loads(os.pread(memories[0], setup, 0))
        if prepared:
            spawn.prepare(prepared)
        function = pickle.loads(pickled)
        called = _called(function)
    except Error as error:
        _tell(connection, {"error": str(error)})
        return
    except BaseException as error:
        _tell(connection, {"error": f"it cannot be loaded in another process: {_told(error)}"})
        return
    for module, name, value in (("cv2", "setNumThreads", 0), ("torch", "set_num_threads", 1)):
        getattr(sys.modules.get(module), name, lambda _: None)(value)
    server = _Server(connection, memories, called, True, bool(collected))
    server.generators = [] if isinstance(called, _Adapted) else _generators(function)
    server.serve()
    # Threads and handlers of the user's modules have nothing to do here any more.
    os._exit(0)


def _watch(connection: socket.socket, parent: int) -> None:
    """Ends this process as soon as the other end is closed, also while the function runs; or when its
    parent is gone, of which a forked process may still hold the other end."""
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", 0))
    while not poll.poll(1000) and os.getppid() == parent:
        pass
    os._exit(0)


class _Server:
    """Calls a function with the samples of one channel."""

    def __init__(
        self, connection: socket.socket, memories: Sequence[int], called: Callable[..., Any], is_alone: bool, collected: bool
    ) -> None:
        import numpy

        self._connection, self._called = connection, called
        self._memories = [_Memory(memory) for memory in memories]
        #: Whether the generators of this process are those of one sample at a time.
        self._is_alone = is_alone
        self._collected = collected
        #: What draws numbers in the function, besides its argument.
        self.generators: List[Any] = []
        #: The fields for which the transform was prepared.
        self._checked: Optional[Tuple[Any, ...]] = None
        self._bits = numpy.random.Philox(0)
        self._random = numpy.random.Generator(self._bits)
        #: That of a generator that has given nothing.
        self._state = self._bits.state
        self._key = self._state["state"]["key"]

    def serve(self) -> None:
        with self._connection:
            _tell(self._connection, {})
            inbox = _Inbox(self._connection)
            while (group := inbox.next()) is not None:
                since = time.perf_counter_ns()
                answers = list(self._answers(group))
                took = time.perf_counter_ns() - since
                try:
                    inbox.send(b"".join([took.to_bytes(8, sys.byteorder), *answers]))
                except OSError:
                    # The loader is gone.
                    break
        for memory in self._memories:
            memory.close()

    def _answers(self, group: bytes) -> Iterator[bytes]:
        which, n, end = _GROUP.unpack_from(group)
        memory = self._memories[which]
        memory.begin(end)
        at = _GROUP.size
        for sample in range(n):
            number, epoch, first, second, has_label, label, values_len, key_len = _GIVEN.unpack_from(group, at)
            values_at = at + _GIVEN.size
            at = values_at + values_len + key_len
            memory.count(sample + 1)
            try:
                key, values = group[at - key_len : at].decode(), memory.values(group[values_at : values_at + values_len])
                given = _Given(number, epoch, (first, second), label if has_label else None, key, values)
                yield self._made(memory, given)
            except BaseException as error:
                # Names of files may have bytes that are not text.
                text = _told(error).encode(errors="backslashreplace")
                yield _MADE.pack(True, False, 0, 0, 0, len(text)) + text

    def _made(self, memory: "_Memory", given: "_Given") -> bytes:
        self._seed(given.random)
        sample = given.values.sample()
        if given.label is not None:
            sample["label"] = given.label
        sample["key"], sample["index"], sample["epoch"] = given.key, given.number, given.epoch
        if isinstance(self._called, _Adapted) and self._checked != given.values.kinds:
            self._called.check(given.values.entries)
            self._checked = given.values.kinds
        returned = self._called(dict(sample), self._random)
        if self._collected:
            at, length = memory.packed(returned)
            return _MADE.pack(False, given.label is not None, given.label or 0, at, length, 2) + b"[]"
        result = _merged(sample, returned)
        if result.keys() != sample.keys():
            extra = set(result) - set(sample)
            raise _Refused(
                f"it returned `{min(extra)}`, which batches do not have: give the fields of the sample, or `collate` to put samples together yourself"
            )
        if result["key"] != given.key or result["index"] != given.number or result["epoch"] != given.epoch:
            changed = next(name for name in ("key", "index", "epoch") if result[name] != sample[name])
            raise _Refused(f"it returned another `{changed}`, which says which sample this is")
        label = 0 if given.label is None else _label(result["label"])
        text, end = memory.written(given.values, sample, result)
        return _MADE.pack(False, given.label is not None, label, 0, end, len(text)) + text

    def _seed(self, words: Tuple[int, int]) -> None:
        """Makes all random numbers those of the sample."""
        import numpy

        self._key[:] = words
        self._bits.state = self._state
        if isinstance(self._called, _Adapted):
            self._called.seed(words[0], self._random)
        if not self._is_alone:
            return
        for number, generator in enumerate(self.generators):
            _reseed(generator, words[1] + number)
        random.seed(words[0])
        numpy.random.seed(words[0] & 0xFFFFFFFF)
        if "torch" in sys.modules:
            sys.modules["torch"].default_generator.manual_seed(words[0] >> 1)


#: A group of samples: the number of their memory, how many they are, and where their values end.
_GROUP = struct.Struct("=IIQ")

#: A sample: its index and epoch, random bits, whether it has a label, the label, and the lengths of its
#: values as JSON and of its key, which follow.
_GIVEN = struct.Struct("=QQQQQqQQ")

#: A result: whether there is none, whether it has a label, the label, where its memory is, and the
#: length of its values as JSON, or of why there is none, which follow.
_MADE = struct.Struct("=QQqQQQ")


class _Given(NamedTuple):
    """A sample as it is given."""

    number: int
    epoch: int
    random: Tuple[int, int]
    label: Optional[int]
    key: str
    values: "_Values"


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
    return f"{message[:_LONGEST]}\n\n{''.join(told.format()).rstrip()[-_LONGEST:]}"


def _label(label: Any) -> int:
    """A class index.

    :raises _Refused: where it is not a whole number.
    """
    try:
        number = operator.index(label.item() if hasattr(label, "item") else label)
    except TypeError:
        number = -(1 << 63) - 1
    if not -(1 << 63) <= number < 1 << 63:
        raise _Refused(f"it returned {label!r} as `label`, expected the index of a class; with `collate`, labels may be anything")
    return number


def _merged(sample: Dict[str, Any], returned: Any) -> Dict[str, Any]:
    if returned is None:
        raise _Refused("it returned nothing: return the sample, or its new picture")
    if isinstance(returned, Mapping):
        return {**sample, **returned}
    if hasattr(returned, "__array__") or hasattr(returned, "__array_interface__"):
        return {**sample, "image": returned}
    raise _Refused(f"it returned a {type(returned).__name__}, expected the sample, a dictionary, or its new picture")


class _Values:
    """The fields of a sample in memory. Samples of the same sizes, at the same place, share them."""

    def __init__(self, memory: "_Memory", text: bytes) -> None:
        #: Name, type, shape and place of each.
        self.entries: List[Dict[str, Any]] = json.loads(text)
        #: What a transform has to know of them.
        self.kinds = tuple((entry["name"], entry["dtype"], entry["picture"], entry["on_image"]) for entry in self.entries)
        self._memory = memory
        self._arrays = [(entry["name"], memory.array(entry)) for entry in self.entries]
        self._unchanged: Optional[bytes] = None

    def unchanged(self) -> bytes:
        """The answer where they are left as they are."""
        if self._unchanged is None:
            made = [_made(entry, entry["dtype"], entry["shape"], False, entry["at"], entry["len"]) for entry in self.entries]
            self._unchanged = json.dumps(made).encode()
        return self._unchanged

    def sample(self) -> Dict[str, Any]:
        """Arrays on the memory, and the bytes of fields that have any number of them."""
        # A function may change the shape of its own.
        return {name: self._memory.stored(array) if array.__class__ is tuple else array.view() for name, array in self._arrays}


def _made(field: Dict[str, Any], dtype: Optional[str], shape: Sequence[int], planes: bool, at: int, length: int) -> Dict[str, Any]:
    return {"name": field["name"], "dtype": dtype, "shape": list(shape), "planes": planes, "at": at, "len": length}


class _Memory:
    """A memory that both ends see. It only grows."""

    #: The most fields of different places that are remembered.
    _MOST = 256

    def __init__(self, file: int) -> None:
        import numpy

        self._file = file
        self._map: Any = b""
        self._size = 0
        #: All of it as bytes.
        self._whole: Any = None
        #: Where the next result may be written that does not fit where its sample was.
        self._end = 0
        self._known: Dict[bytes, _Values] = {}
        self._texts: Dict[Any, bytes] = {}
        #: Types, which are found faster than their names, as NumPy and the loader have them.
        self._types = {short: numpy.dtype(name) for short, name in _DTYPES.items()}
        self._names = {dtype: short for short, dtype in self._types.items()}

    def close(self) -> None:
        # The map goes with the last array on it.
        self._known.clear()
        self._map = self._whole = None
        os.close(self._file)

    def begin(self, end: int) -> None:
        """Begins a group, whose values end at ``end``."""
        self._mapped(end)
        self._end = end

    def count(self, n: int) -> None:
        """Tells how many samples of the group were begun, also if this process does not survive."""
        _COUNT.pack_into(self._map, 0, n)

    def _mapped(self, end: int) -> Any:
        """The memory, of ``end`` bytes or more."""
        import numpy

        if self._size < end:
            self._size = os.fstat(self._file).st_size
            if self._size < end:
                # Rarely more than once.
                self._size = end + end // 4
                os.ftruncate(self._file, self._size)
            # Arrays keep the one before.
            self._map = mmap.mmap(self._file, self._size)
            self._whole = numpy.frombuffer(self._map, "uint8")
            self._known.clear()
        return self._map

    def values(self, text: bytes) -> _Values:
        values = self._known.get(text)
        if values is None:
            if len(self._known) >= self._MOST:
                self._known.clear()
            values = self._known[text] = _Values(self, text)
        return values

    def array(self, entry: Dict[str, Any]) -> Any:
        """An array on the memory; for bytes, where they are."""
        import numpy

        at, length = entry["at"], entry["len"]
        if entry["dtype"] is None:
            return at, length
        dtype = self._types[entry["dtype"]]
        return numpy.frombuffer(self._map, dtype, length // dtype.itemsize, at).reshape(entry["shape"])

    def stored(self, place: Tuple[int, int]) -> Any:
        at, length = place
        return _read_bytes(self._map[at : at + length])

    def written(self, values: _Values, sample: Dict[str, Any], result: Dict[str, Any]) -> Tuple[bytes, int]:
        """Where the fields of ``result`` are: in place of those of ``sample`` where that has room and
        nothing of the result is still there, or behind them."""
        import numpy

        if all(result[entry["name"]] is sample[entry["name"]] for entry in values.entries):
            # Changed in place, or not at all.
            return values.unchanged(), self._end
        _check_boxes(result)
        made: List[Tuple[Dict[str, Any], Any, Optional[str], Any, bool, int]] = []
        for field in values.entries:
            name = field["name"]
            value = result[name]
            if field["dtype"] is None:
                value = _written_bytes(name, value)
                made.append((field, value, None, (), False, len(value)))
            else:
                value, planes = _array(name, value, sample[name], field["picture"])
                made.append((field, value, self._names[value.dtype], value.shape, planes, value.nbytes))
        whole = self._whole
        in_place = not any(
            field["dtype"] is not None and value is not sample[field["name"]] and numpy.may_share_memory(value, whole) for field, value, *_ in made
        )
        end, entries, copied = self._end, [], []
        for field, value, dtype, shape, planes, length in made:
            if dtype is not None and value is sample[field["name"]]:
                at = field["at"]
            else:
                if in_place and length <= field["len"]:
                    at = field["at"]
                else:
                    at, end = end, _aligned(end + length)
                copied.append((at, length, dtype, value))
            entries.append((dtype, shape, planes, at, length))
        mapped = self._mapped(max(end, 1))
        for at, length, dtype, value in copied:
            if dtype is None:
                mapped[at : at + length] = value
            else:
                numpy.copyto(numpy.frombuffer(mapped, value.dtype, value.size, at).reshape(value.shape), value)
        self._end = end
        key = (values.kinds, tuple(entries))
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= self._MOST:
                self._texts.clear()
            text = json.dumps([_made(field, *entry) for field, entry in zip(values.entries, entries)]).encode()
            self._texts[key] = text
        return text, end

    def packed(self, result: Any) -> Tuple[int, int]:
        """Writes any ``result``: the memory of its arrays and tensors as it is, and the rest pickled."""
        parts: List[pickle.PickleBuffer] = []
        file = io.BytesIO()
        _Pickler(file, 5, buffer_callback=parts.append).dump(result)
        head = file.getbuffer()
        views = [head, *(part.raw() for part in parts)]
        at, places = _aligned(8 + 16 * len(views)), []
        for view in views:
            places.append((at, view.nbytes))
            at = _aligned(at + view.nbytes)
        start = self._end
        mapped = self._mapped(start + at)
        struct.pack_into(f"=Q{2 * len(views)}Q", mapped, start, len(views), *(n for place in places for n in place))
        for (place, length), view in zip(places, views):
            mapped[start + place : start + place + length] = view
        self._end = start + at
        return start, at


#: How many samples of a group were begun, at the start of its memory.
_COUNT = struct.Struct("=Q")


def _aligned(at: int) -> int:
    return -(-at // _ALIGN) * _ALIGN


def unpacked(value: bytes) -> Any:
    """The result that :meth:`_Memory.packed` wrote; its arrays may be written to."""
    memory = memoryview(bytearray(value))
    (n,) = struct.unpack_from("=Q", memory)
    places = struct.unpack_from(f"={2 * n}Q", memory, 8)
    views = [memory[at : at + length] for at, length in zip(places[::2], places[1::2])]
    return pickle.loads(views[0], buffers=views[1:])


class _Pickler(pickle.Pickler):
    """Pickles tensors by arrays of their memory, which is then not copied."""

    def reducer_override(self, value: Any) -> Any:
        if not _is_tensor(value) or value.is_sparse:
            return NotImplemented
        is_brain = value.dtype == sys.modules["torch"].bfloat16
        value = value.detach().cpu().contiguous()
        return _tensor, ((value.view(sys.modules["torch"].int16) if is_brain else value).numpy(), is_brain)


def _tensor(array: Any, is_brain: bool) -> Any:
    import torch

    made = torch.from_numpy(array)
    return made.view(torch.bfloat16) if is_brain else made


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
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name not in _NAMES and array.dtype != bool:
        raise _Refused(f"it returned {array.dtype} as `{name}`, expected {was.dtype}")
    is_float = array.dtype.kind == "f"
    if is_picture and is_float and was.dtype.kind == "f":
        # Pixels, of whatever precision.
        array = array.astype(was.dtype, copy=False)
    elif not (is_picture and is_float) and array.dtype != was.dtype:
        cast = array.astype(was.dtype)
        if not numpy.array_equal(cast, array, equal_nan=is_float):
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


#: What is said of each box.
_OF_BOXES = ("box_labels", "box_crowd", "keypoints")
#: Points, which the transforms of other libraries are not given.
_POINTS = ("keypoints", "points")


def _check_boxes(result: Dict[str, Any]) -> None:
    import numpy

    if "boxes" not in result or isinstance(result["boxes"], bytes):
        return
    shape = numpy.shape(result["boxes"])
    if len(shape) != 2 or shape[1] != 4:
        raise _Refused(f"it returned `boxes` of shape {list(shape)}, expected [n, 4]: left, top, right and bottom, from 0 to 1")
    for name in _OF_BOXES:
        if name in result and len(result[name]) != shape[0]:
            raise _Refused(f"it returned {shape[0]} `boxes` and {len(result[name])} `{name}`")


def _called(function: Any) -> Callable[..., Any]:
    """``function`` as it is called with a sample and random numbers."""
    if isinstance(function, _Adapted):
        return function
    kinds = _libraries(function)
    if type(function).__module__ == "torch.nn.modules.container":
        kinds = [kind for part in function.children() for kind in _libraries(part)]
    if any(kind.split(".")[0] in ("albumentations", "albumentationsx") for kind in kinds):
        return _Albumentations(function)
    if any(kind.startswith("torchvision.transforms.v2") for kind in kinds):
        return _Torchvision(function, True)
    if any(kind.startswith("torchvision.transforms") for kind in kinds):
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


def _libraries(value: Any) -> List[str]:
    """The modules of the classes that something is of."""
    return [kind.__module__ for kind in type(value).__mro__]


def _generators(function: Any) -> List[Any]:
    """What draws random numbers, apart from the function's argument, and would draw the same in each
    process: generators and transforms that the function refers to."""
    return [value for value in _reached(function) if _is_generator(value)]


def _is_generator(value: Any) -> bool:
    library = _libraries(value)[0].partition(".")[0]
    is_numbers = isinstance(value, random.Random) or type(value).__name__ == "Generator" and library in ("numpy", "torch")
    return is_numbers or hasattr(value, "set_random_seed") and not isinstance(value, types.ModuleType)


def _uses_only_its_argument(function: Any) -> bool:
    """Whether ``function`` is seen to draw no random numbers but those of its argument: it refers to
    no module that might, and to none of NumPy's own generators."""
    reached = _reached(function)
    modules = {value.__name__ for value in reached if isinstance(value, types.ModuleType)}
    return modules <= {"numpy", "math"} and not any(map(_is_of_shared_generator, reached))


def _is_of_shared_generator(value: Any) -> bool:
    """Whether it is what `random` and `numpy.random` have, such as `rand`, or belongs to some object."""
    module = str(getattr(value, "__module__", None))
    of_object = isinstance(value, types.BuiltinMethodType) and not isinstance(value.__self__, (types.ModuleType, type(None)))
    return of_object or module == "random" or module.startswith("numpy.random")


def _reached(function: Any) -> List[Any]:
    """What ``function`` refers to, and what that refers to; modules, whose content is not looked at."""
    found: List[Any] = []
    seen: Set[int] = set()
    ahead: List[Any] = [function]
    while ahead and len(seen) < 10_000:
        value = ahead.pop()
        if id(value) in seen or isinstance(value, (type, str, bytes, int, float)):
            continue
        seen.add(id(value))
        found.append(value)
        if isinstance(value, types.ModuleType) or _is_generator(value):
            continue
        if isinstance(value, types.FunctionType):
            names = sorted(set(_names(value.__code__)))
            if _may_draw(value.__code__):
                ahead.append(random)
            ahead.extend(value.__globals__[name] for name in names if name in value.__globals__)
            ahead.extend(cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value)
            ahead.extend(value.__defaults__ or ())
        elif isinstance(value, types.MethodType):
            ahead += [value.__func__, value.__self__]
        elif isinstance(value, functools.partial):
            ahead += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, dict):
            ahead.extend(value.values())
        elif isinstance(value, (list, tuple, set)):
            ahead.extend(value)
        elif _libraries(value)[0].partition(".")[0] not in ("numpy", "torch"):
            ahead.extend(vars(value).values() if hasattr(value, "__dict__") else ())
            ahead.append(getattr(type(value), "__call__", None))
    return found


def _may_draw(code: types.CodeType) -> bool:
    """Whether it imports something, or names what is called `random` of anything but its own values."""
    before = ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME" or step.argval == "random" and before in ("LOAD_GLOBAL", "LOAD_DEREF"):
            return True
        before = step.opname
    return any(_may_draw(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _reseed(generator: Any, seed: int) -> None:
    if hasattr(generator, "set_random_seed"):
        generator.set_random_seed(seed & 0xFFFFFFFF)
    elif hasattr(generator, "bit_generator"):
        bits = generator.bit_generator
        bits.state = type(bits)(seed).state
    elif hasattr(generator, "manual_seed"):
        generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    else:
        generator.seed(seed)


class _Adapted:
    """A transform of another library, which has its own words for the fields of a sample."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform
        #: Further pictures, and other fields on the pixels of the image.
        self._pictures: List[str] = []
        self._masks: List[str] = []

    def check(self, values: List[Dict[str, Any]]) -> None:
        """Notes what moves with the image.

        :raises _Refused: where the transform does not move some of it.
        """
        on_image = [value for value in values if value["on_image"] and value["name"] != "image"]
        points = [value["name"] for value in on_image if value["name"] in _POINTS]
        if points:
            raise _Refused(f"`{points[0]}` would not follow the picture: leave it out of `fields`, or move it in a function of your own")
        self._pictures = [value["name"] for value in on_image if value["picture"]]
        self._masks = [value["name"] for value in on_image if not value["picture"] and value["dtype"] is not None]

    def seed(self, seed: int, rng: Any) -> None:
        """Makes the transform's own random numbers those of a sample."""

    def __call__(self, sample: Dict[str, Any], rng: Any) -> Any:
        """Calls the transform with the fields of a sample."""
        raise NotImplementedError


def _kept(sample: Dict[str, Any], numbers: Any) -> Dict[str, Any]:
    """What is said of the boxes that a transform has kept, by their numbers."""
    return {name: sample[name][numbers] for name in _OF_BOXES if name in sample}


class _Albumentations(_Adapted):
    def __init__(self, transform: Any) -> None:
        super().__init__(transform)
        if not hasattr(transform, "set_random_seed"):
            raise OptionError(
                "option `each`: this release of albumentations cannot be given random numbers", '`pip install "albumentations>=1.4.18"`'
            )
        self._seeded = False
        self._python: Any = None
        #: The pictures that the transform was told of.
        self._targets: List[str] = []

    def check(self, values: List[Dict[str, Any]]) -> None:
        super().check(values)
        if any(value["name"] == "boxes" for value in values) and self._boxes() is None:
            raise _Refused(
                'the boxes would not follow the picture: give the chain `bbox_params=albumentations.BboxParams(format="pascal_voc")`'
            )
        if self._pictures != self._targets:
            self._transform.add_targets({name: "image" for name in self._pictures})
            self._targets = self._pictures

    def _boxes(self) -> Any:
        return getattr(self._transform, "processors", {}).get("bboxes")

    def seed(self, seed: int, rng: Any) -> None:
        if not hasattr(self._transform, "set_random_state"):
            self._transform.set_random_seed(seed & 0xFFFFFFFF)
            return
        if not self._seeded:
            self._python, self._seeded = random.Random(), True
            self._transform.set_random_state(rng, self._python)
        self._python.seed(seed)

    def __call__(self, sample: Dict[str, Any], rng: Any) -> Dict[str, Any]:
        import numpy

        names = ["image", *self._pictures]
        given = {name: sample[name] for name in names}
        if self._masks:
            given["masks"] = [sample[name] for name in self._masks]
        boxes = self._boxes() if "boxes" in sample else None
        if boxes is not None:
            n, size = len(sample["boxes"]), sample["image"].shape[1::-1]
            corners = _boxes_as(boxes.params.format, sample["boxes"], size).reshape(n, 4)
            # Further columns stay with their boxes.
            given["bboxes"] = numpy.concatenate([corners, numpy.arange(n).reshape(n, 1)], 1)
            given.update({name: sample.get("box_labels", numpy.zeros(n, "int64")) for name in boxes.params.label_fields or ()})
        made = self._transform(**given)
        result = {name: made[name] for name in names}
        result.update(zip(self._masks, made.get("masks", ())))
        if boxes is not None:
            image = made["image"]
            size = image.shape[1::-1] if not _is_tensor(image) else (image.shape[2], image.shape[1])
            found = numpy.asarray(made["bboxes"], "float64").reshape(-1, 5)
            result["boxes"] = _boxes_from(boxes.params.format, found[:, :4], size)
            result.update(_kept(sample, found[:, 4].astype("int64")))
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

    def check(self, values: List[Dict[str, Any]]) -> None:
        super().check(values)
        others = [value["name"] for value in values if value["on_image"] and value["name"] != "image"]
        if others and not self._is_v2:
            raise _Refused(f"`{others[0]}` would not follow the picture: use torchvision.transforms.v2, which moves both")

    def __call__(self, sample: Dict[str, Any], rng: Any) -> Any:
        import torch

        image = sample["image"]
        if not self._is_v2:
            from PIL import Image

            is_grey = image.ndim == 3 and image.shape[2] == 1
            made = self._transform(Image.fromarray(image[:, :, 0] if is_grey else image))
            return {"image": made if _is_tensor(made) else _as_array(made)}
        from torchvision import tv_tensors
        from torchvision.transforms.v2 import functional

        names = ["image", *self._pictures]
        given: Dict[str, Any] = {name: tv_tensors.Image(torch.from_numpy(sample[name]).permute(2, 0, 1)) for name in names}
        given.update({name: tv_tensors.Mask(torch.from_numpy(sample[name])) for name in self._masks})
        if "boxes" in sample:
            height, width = image.shape[:2]
            # In double precision torchvision's SanitizeBoundingBoxes drops boxes at the edges by rounding.
            boxes = torch.from_numpy(sample["boxes"] * [width, height, width, height]).reshape(-1, 4).float()
            given["boxes"] = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))  # type: ignore[call-arg, unused-ignore]
            # Boxes are dropped with their labels, by this name.
            given["labels"] = torch.arange(len(boxes))
        made = self._transform(given)
        result = {name: made[name] for name in [*names, *self._masks]}
        if "boxes" in given:
            boxes = made["boxes"]
            if not isinstance(boxes, tv_tensors.BoundingBoxes):
                raise _Refused("the boxes are plain tensors at the end, which do not say what their numbers are: leave out `ToPureTensor`")
            corners = functional.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
            height, width = boxes.canvas_size
            result["boxes"] = corners.double().numpy() / [width, height, width, height]
            result.update(_kept(sample, made["labels"].numpy()))
        return result


def _as_array(picture: Any) -> Any:
    import numpy

    return numpy.asarray(picture)


def _tell(connection: socket.socket, answer: Dict[str, Any]) -> None:
    _send(connection, json.dumps(answer).encode())


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(4, sys.byteorder) + message)


class _Inbox:
    """What the loader asks. It may ask the next thing before it has the answer to the one before."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""

    def send(self, message: bytes) -> None:
        """Answers, and reads what the loader asks meanwhile: it may not read before it has asked."""
        left = memoryview(len(message).to_bytes(4, sys.byteorder) + message)
        poll = select.poll()
        poll.register(self._connection, select.POLLIN | select.POLLOUT)
        while left:
            try:
                left = left[self._connection.send(left, socket.MSG_DONTWAIT) :]
                continue
            except BlockingIOError:
                ready = poll.poll()
            if any(event & ~select.POLLOUT for _, event in ready):
                more = self._connection.recv(1 << 16)
                if not more:
                    raise ConnectionResetError
                self._read += more

    def next(self) -> Optional[bytes]:
        """The next message; ``None`` at the end."""
        while len(self._read) < 4 or len(self._read) < 4 + int.from_bytes(self._read[:4], sys.byteorder):
            try:
                more = self._connection.recv(1 << 16)
            except OSError:
                return None
            if not more:
                return None
            self._read += more
        end = 4 + int.from_bytes(self._read[:4], sys.byteorder)
        message, self._read = self._read[4:end], self._read[end:]
        return message
