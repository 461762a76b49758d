"""An iterable dataset; imported when it is asked for, since it imports PyTorch."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

from . import _gular
from .errors import EmptyBatchWarning, OptionError, StateError
from .loader import DataLoader, Sample
from .settings import distributed, epoch_number, listed, refuse_unknown, selected, settings, state_of

try:
    from torch.utils.data import IterableDataset as _Iterable
    from torch.utils.data import get_worker_info
except ImportError:
    _Iterable = object  # type: ignore[assignment, misc]

    def get_worker_info() -> Any:
        return None


#: The options of a loader that nobody chose.
_DEFAULTS: Dict[str, Any] = dict(DataLoader.__init__.__kwdefaults__ or {})


class GularIterable(_Iterable):  # type: ignore[misc, valid-type]
    """Batches of :class:`gular.DataLoader` inside PyTorch's, whose workers share them.

    ::

        data = gular.GularIterable("bundle", batch_size=64)
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2)
        for epoch in range(90):
            data.set_epoch(epoch)
            for batch in loader: ...

    For code that requires PyTorch's ``DataLoader``: by itself :class:`gular.DataLoader` is faster,
    as nothing travels between processes. Takes its arguments. Each worker of each rank gives its
    share of every epoch, so that all together give each sample once, and reads with one thread.

    Workers get a copy of this object when PyTorch starts them, for each epoch unless they are
    persistent. What they give does not change this one, so without :meth:`set_epoch` before each
    epoch they give the same order again, as with ``DistributedSampler``. Without workers each
    iteration gives the next epoch.
    """

    def __init__(self, source: Union[str, "os.PathLike[str]"], split: str = "train", batch_size: int = 64, **options: Any):
        for name in ("keys", "never"):
            # Each epoch reads them again, and so does each worker.
            if options.get(name) is not None:
                options[name] = listed(name, options[name])
        refuse_unknown("gular.GularIterable", set(options) - set(_DEFAULTS), ["split", "batch_size", *_DEFAULTS])
        rank, world_size = options.pop("rank", None), options.pop("world_size", None)
        if (rank is None) != (world_size is None):
            raise OptionError("option `rank`: give both `rank` and `world_size`, or neither")
        if rank is None:
            rank, world_size = distributed()
        if rank is None or world_size is None:
            # As the launcher says; asked here, as workers may not have its environment.
            rank, world_size = _gular.ranks()
        self._seat = (int(rank), int(world_size))
        self._arguments = (os.fspath(source), split, batch_size, options)
        #: The epoch to give next; `None`: that of the state.
        self._epoch: Optional[int] = 0
        self._state: Optional[Mapping[str, Any]] = None
        #: The process that loaded the state.
        self._loaded_in = 0
        self._loader: Optional[DataLoader] = None
        self._n_steps: Optional[int] = None

    def __len__(self) -> int:
        """Batches of a whole epoch of this rank, where at most one worker gives them. With
        more, each ends with a smaller batch of its own, so there are a few more in all."""
        if self._n_steps is None:
            source, split, batch_size, options = self._arguments
            rank, world_size = self._seat
            of = {**_DEFAULTS, **options, "split": split, "batch_size": batch_size, "rank": rank, "world_size": world_size}
            # Of the indexes alone: no loader is made.
            self._n_steps = _gular.n_steps(settings(source, of), selected(of, Sample), of["progress"])
        return self._n_steps

    def __iter__(self) -> Iterator[Any]:
        worker, workers = _worker()
        if self._state is not None and self._epoch is None and workers and self._loaded_in != os.getpid():
            raise StateError(
                "worker processes were given a state, but not the epoch",
                "call `set_epoch` before each epoch, beginning with the state's `epoch`: "
                "otherwise every epoch would give what was left of that one",
            )
        loader = self._share(worker, max(workers, 1))
        if self._state is not None:
            loader.load_state_dict(self._state)
        if self._epoch is not None:
            loader.set_epoch(self._epoch)
        self._epoch, self._state = loader.epoch + 1, None
        self._loader = loader
        return iter(loader)

    def _share(self, worker: int, workers: int) -> DataLoader:
        source, split, batch_size, options = self._arguments
        rank, world_size = self._seat
        if workers > 1:
            options = {"workers": 1, **options}
        with warnings.catch_warnings():
            if workers > 1:
                # That a worker may have an empty batch is nothing to a training run.
                warnings.simplefilter("ignore", EmptyBatchWarning)
            return DataLoader(
                source, split, batch_size, rank=rank * workers + worker, world_size=world_size * workers, **options
            )

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives: from its start, or what is left of it where
        the state of it was loaded. Call it before workers are started."""
        self._epoch, self._loader = epoch_number(epoch), None
        if self._state is not None and self._state.get("epoch") != self._epoch:
            self._state = None

    def state_dict(self) -> Dict[str, Any]:
        """The position of this process, or of this worker, as :meth:`gular.DataLoader.state_dict`.

        :raises gular.StateError: where this process has not begun the epoch. With workers, they
            have, and the main process does not know how far they are.
        """
        if self._loader is None:
            raise StateError(
                "this process has not begun the epoch, so it does not know its position",
                "where workers make the batches, save the epoch's number and give it to "
                "`set_epoch`; use `num_workers=0`, or gular.DataLoader, to resume within an epoch",
            )
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken: the next iteration gives what was left of its epoch.

        With workers, call :meth:`set_epoch` too before each epoch, first with ``state["epoch"]``.
        """
        self._state, self._epoch = state_of(state), None
        self._loaded_in, self._loader = os.getpid(), None

    def __getstate__(self) -> Dict[str, Any]:
        # What this process has begun is its own.
        return {**self.__dict__, "_loader": None}


def _worker() -> Tuple[int, int]:
    """Which of how many workers of PyTorch's this process is; of 0 in the main process."""
    info = get_worker_info()
    return (0, 0) if info is None else (info.id, info.num_workers)
