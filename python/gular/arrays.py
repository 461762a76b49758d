"""Fields of a batch as arrays of NumPy, PyTorch or JAX, without a copy."""

from __future__ import annotations

import builtins
import ctypes
from typing import Any, Callable, Tuple

from . import _gular
from .errors import OptionError


class Array(_gular.Array):
    """Numbers of one field of a batch, in the loader's own memory.

    ``numpy.asarray``, ``numpy.from_dlpack``, ``torch.from_dlpack`` and
    ``jax.numpy.from_dlpack`` view it without a copy. The memory goes back to the loader when
    the last view is gone. ``memoryview(array)`` works from Python 3.12 on, where classes can
    speak the buffer protocol; before, and on all versions, :meth:`memoryview` does. bfloat16
    has no format there and none in NumPy: take it by DLPack.
    """

    def memoryview(self) -> builtins.memoryview:
        """A writable view of the bytes, one-dimensional and in the order of memory."""
        memory = (ctypes.c_uint8 * self.nbytes).from_address(self.ptr)
        # The view keeps the memory's owner, and that the array.
        memory._array = self  # type: ignore[attr-defined]
        return builtins.memoryview(memory).cast("B")

    def __buffer__(self, flags: int, /) -> builtins.memoryview:
        return self.memoryview()


def converter(output: str) -> Tuple[str, Callable[[_gular.Array], Any]]:
    """Whose arrays a batch is to have, and what makes them of lent ones."""
    if output == "auto":
        output = next((name for name in ("torch", "numpy") if _can_import(name)), "")
        if not output:
            hint = 'pip install torch, or pip install numpy; `output="dlpack"` needs neither'
            raise OptionError("option `output`: neither PyTorch nor NumPy is installed", hint)
    if output == "torch":
        return output, _torch()
    if output == "numpy":
        return output, _imported("numpy", output).asarray
    if output == "jax":
        return output, _imported("jax.numpy", output).from_dlpack
    if output == "dlpack":
        return output, Array
    raise OptionError(f"option `output`: `{output}` is not one of `auto`, `torch`, `numpy`, `jax`, `dlpack`")


def _torch() -> Callable[[_gular.Array], Any]:
    torch = _imported("torch", "torch")
    missing = {name for name in ("uint16", "uint32") if not hasattr(torch, name)}
    if not missing:
        return torch.from_dlpack

    def convert(array: _gular.Array) -> Any:
        # PyTorch before 2.3 lacks these types: the next larger one, copied.
        if array.dtype in missing:
            numpy = _imported("numpy", "torch")
            wide = numpy.asarray(array).astype("int32" if array.dtype == "uint16" else "int64")
            return torch.from_numpy(wide)
        return torch.from_dlpack(array)

    return convert


def _can_import(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def _imported(name: str, output: str) -> Any:
    try:
        module = __import__(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise OptionError(f"option `output`: `{output}` needs {package}: {error}", f"pip install {package}") from error
    for part in name.split(".")[1:]:
        module = getattr(module, part)
    return module
