"""An iterable dataset; imported when it is asked for, since it imports PyTorch."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

from .loader import DataLoader, _distributed

try:
    from torch.utils.data import IterableDataset as _Iterable
    from torch.utils.data import get_worker_info
except ImportError:
    _Iterable = object  # type: ignore[assignment, misc]

    def get_worker_info() -> Any:
        return None


class GularIterable(_Iterable):  # type: ignore[misc, valid-type]
    """Batches of :class:`gular.DataLoader` inside PyTorch's, whose workers share them.

    ::

        data = gular.GularIterable("bundle", batch_size=64)
        for batch in torch.utils.data.DataLoader(data, batch_size=None, num_workers=2): ...

    For code that insists on a ``DataLoader`` of PyTorch's: by itself :class:`gular.DataLoader` is
    faster, as nothing travels between processes. Takes its arguments. Each worker of each rank
    gives its share of every epoch, so that all together give each sample once, and reads with
    one thread. Without :meth:`set_epoch` before each epoch all have the same order, as with
    ``DistributedSampler``.
    """

    def __init__(self, source: Union[str, "os.PathLike[str]"], split: str = "train", batch_size: int = 64, **options: Any):
        rank, world_size = options.pop("rank", None), options.pop("world_size", None)
        if rank is None and world_size is None:
            rank, world_size = _distributed()
        if rank is None:
            # As the launcher says; asked here, as workers may not have its environment.
            probe = DataLoader(source, split, batch_size, **{**options, "workers": 1})
            rank, world_size = probe.rank, probe.world_size
            del probe
        self._seat = (int(rank), int(world_size))
        self._arguments = (os.fspath(source), split, batch_size, options)
        self._epoch = 0
        self._state: Optional[Mapping[str, Any]] = None
        self._loader: Optional[DataLoader] = None

    def __iter__(self) -> Iterator[Any]:
        worker, workers = _worker()
        source, split, batch_size, options = self._arguments
        rank, world_size = self._seat
        if workers > 1:
            options = {"workers": 1, **options}
        loader = DataLoader(
            source, split, batch_size, rank=rank * workers + worker, world_size=world_size * workers, **options
        )
        state, self._state = self._state, None
        if state is not None:
            loader.load_state_dict(state)
        else:
            loader.set_epoch(self._epoch)
        self._epoch = loader.epoch + 1
        self._loader = loader
        return iter(loader)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives; call it before workers are started."""
        self._epoch, self._state = int(epoch), None

    def state_dict(self) -> Dict[str, Any]:
        """Where this process, or this worker, stands: as :meth:`gular.DataLoader.state_dict`."""
        if self._loader is None:
            return dict(self._state or {"epoch": self._epoch, "consumed": 0, "fresh": True})
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken."""
        self._loader = None
        if state.get("fresh"):
            self._epoch, self._state = int(state["epoch"]), None
        else:
            self._state = dict(state)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_loader": None, "_state": self.state_dict() if self._loader else self._state}


def _worker() -> Tuple[int, int]:
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)
