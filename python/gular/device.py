"""Batches on a device: the next one is copied while this one is trained on."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Tuple

from .arrays import _imported
from .errors import OptionError


class Copies:
    """Copies batches of PyTorch's tensors to a device, one ahead.

    For a GPU each batch is copied to pinned memory, which gives the loader's memory back, and
    from there on a stream of its own; the stream that computes waits for that copy alone, and
    ``record_stream`` keeps its memory from being given to others meanwhile. For the CPU tensors
    stay as they are.
    """

    def __init__(self, device: Any) -> None:
        self._torch = _imported("torch", "torch")
        self.device = self._checked(device)
        self._stream: Any = None
        if self.device.type == "cuda":
            self._stream = self._torch.cuda.Stream(self.device)

    def _checked(self, device: Any) -> Any:
        try:
            found = self._torch.device(device)
        except (RuntimeError, TypeError):
            raise OptionError(f"option `device`: {device!r} is not a device of PyTorch", 'use `"cuda"`, `"cuda:1"` or `"cpu"`') from None
        if found.type not in ("cpu", "cuda"):
            raise OptionError(
                f"option `device`: batches are copied to `cuda` devices only, and this is `{found}`",
                "leave `device` out, and move each batch with `.to(…)`",
            )
        if found.type == "cuda" and not self._torch.cuda.is_available():
            raise OptionError(
                f"option `device`: PyTorch finds no GPU here for `{found}`",
                "leave `device` out; `nvidia-smi` shows whether this machine has a driver and a GPU",
            )
        if found.type == "cuda" and (found.index or 0) >= self._torch.cuda.device_count():
            raise OptionError(f"option `device`: there is no `{found}`, as PyTorch finds {self._torch.cuda.device_count()} GPUs")
        return found

    def ahead(self, batches: Iterator[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
        """Each of ``batches``, on the device, once the next one is on its way."""
        waiting = None
        while True:
            # Nothing here keeps a batch that was handed over.
            sent = failed = None
            try:
                batch = next(batches, None)
                sent = None if batch is None else self._send(batch)
                del batch
            except Exception as error:
                # It is that of the next batch: this one is good.
                failed = error
            if waiting is not None:
                ready = [self._received(*waiting)]
                waiting = None
                yield ready.pop()
            if failed is not None:
                raise failed
            if sent is None:
                return
            waiting = sent

    def _send(self, batch: Dict[str, Any]) -> Tuple[Dict[str, Any], Any]:
        if self._stream is None:
            return {name: self._moved(value, False) for name, value in batch.items()}, None
        with self._torch.cuda.stream(self._stream):
            sent = {name: self._moved(value, True) for name, value in batch.items()}
        return sent, self._stream.record_event()

    def _moved(self, value: Any, pinned: bool) -> Any:
        if not isinstance(value, self._torch.Tensor):
            return value
        if pinned:
            # PyTorch keeps the pinned memory until this stream is past the copy.
            return value.pin_memory().to(self.device, non_blocking=True)
        return value.to(self.device)

    def _received(self, batch: Dict[str, Any], copied: Any) -> Dict[str, Any]:
        if copied is not None:
            computing = self._torch.cuda.current_stream(self.device)
            computing.wait_event(copied)
            for value in batch.values():
                if isinstance(value, self._torch.Tensor):
                    value.record_stream(computing)
        return batch
