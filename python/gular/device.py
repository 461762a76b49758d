"""Batches on a device: the next one is copied while this one is trained on."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, Iterator, Optional, Tuple

from .arrays import _imported
from .errors import ForkError, OptionError


class Copies:
    """Copies batches of PyTorch's tensors to a device, one ahead.

    For a GPU a thread copies each batch to pinned memory, which gives the loader's memory back, and
    from there on a stream of its own; the stream that computes waits for that copy alone, and
    ``record_stream`` keeps its memory from being given to others meanwhile. The first copy takes
    milliseconds, in which the thread that trains can give work to the GPU. For the CPU tensors
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
        # The end of the thread is waited for here, wherever the iteration ends.
        with ThreadPoolExecutor(1, "gular-copy", self._choose_device) as copier:
            waiting: Optional[Future[Tuple[Dict[str, Any], Any]]] = None
            while True:
                # Nothing here keeps a batch that was handed over.
                sent = failed = None
                try:
                    batch = next(batches, None)
                    sent = None if batch is None else copier.submit(self._send, batch)
                    del batch
                except ForkError:
                    # A process that was forked does not have the thread.
                    raise
                except Exception as error:
                    # It is that of the next batch: this one is good.
                    failed = error
                if waiting is not None:
                    ready = [self._received(*waiting.result())]
                    waiting = None
                    yield ready.pop()
                if failed is not None:
                    raise failed
                if sent is None:
                    return
                waiting = sent

    def _choose_device(self) -> None:
        """For the thread: PyTorch would leave it on GPU 0 and make a context there."""
        if self._stream is not None:
            # Unlike `self.device`, that of the stream always has a number.
            self._torch.cuda.set_device(self._stream.device)

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
