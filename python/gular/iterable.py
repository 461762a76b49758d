"""An iterable dataset; imported when it is asked for, since it imports PyTorch."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

from . import _gular, ranks
from .errors import EmptyBatchWarning, RankError, StateError
from .loader import DataLoader, Sample
from .settings import epoch_number, listed, refuse_unknown, selected, settings, state_of
from .waiting import made

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
    """Batches of :class:`gular.DataLoader` inside PyTorch's, whose workers make them in turns.

    ::

        data = gular.GularIterable("bundle", batch_size=64)
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2)
        for epoch in range(90):
            data.set_epoch(epoch)
            for batch in loader: ...

    For code that requires PyTorch's ``DataLoader``: by itself :class:`gular.DataLoader` is faster,
    as nothing travels between processes. Takes its arguments, and gives its batches, in its order,
    with any number of workers. Each worker reads with one thread.

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
        self._own = ranks.given(options.pop("rank", None), options.pop("world_size", None))
        #: The process that pickled this, and its seat: workers that it starts may not have its environment.
        self._found: Optional[Tuple[int, ranks.Seat]] = None
        self._arguments = (os.fspath(source), split, batch_size, options)
        #: The epoch to give next; `None`: that of the state.
        self._epoch: Optional[int] = 0
        self._state: Optional[Mapping[str, Any]] = None
        #: The process that loaded the state.
        self._loaded_in = 0
        self._loader: Optional[DataLoader] = None
        #: Where this worker began, and how many batches it has given since.
        self._begun: Dict[str, Any] = {}
        self._given = 0
        #: Batches of an epoch, by the number of ranks.
        self._n_steps: Dict[int, int] = {}

    def __len__(self) -> int:
        """Batches of a whole epoch of this rank."""
        world_size = ranks.found(self._own).world_size
        if world_size not in self._n_steps:
            source, split, batch_size, options = self._arguments
            of = {**_DEFAULTS, **options, "split": split, "batch_size": batch_size, "rank": 0, "world_size": world_size}
            # Of the indexes alone: no loader is made.
            asked = selected(of, Sample)
            self._n_steps[world_size] = made(_gular.n_steps(settings(source, of), asked is not None), of["progress"], asked)
        return self._n_steps[world_size]

    def __iter__(self) -> Iterator[Any]:
        worker, workers = _worker()
        if self._state is not None and self._epoch is None and workers and self._loaded_in != os.getpid():
            raise StateError(
                "worker processes were given a state, but not the epoch",
                "call `set_epoch` before each epoch, beginning with the state's `epoch`: "
                "otherwise every epoch would give what was left of that one",
            )
        loader, given = self._made(worker, workers), 0
        if self._state is not None:
            state = dict(self._state)
            of, given = state.pop("worker", None), int(state.pop("given", 0))
            if of is not None and list(of) != [worker, workers]:
                raise StateError(
                    f"the state is of worker {of[0]} of {of[1]}, and this is worker {worker} of {workers}",
                    "resume with the same `num_workers`",
                )
            loader.load_state_dict(state)
        if self._epoch is not None:
            loader.set_epoch(self._epoch)
        self._epoch, self._state = loader.epoch + 1, None
        loader._turns = (worker + given * max(workers, 1), max(workers, 1))
        batches = iter(loader)
        self._loader, self._given = loader, given
        self._begun = {**loader.state_dict(), "worker": [worker, workers]} if workers else {}
        return self._counted(batches)

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._given += 1
            kept = [batch]
            del batch
            yield kept.pop()

    def _made(self, worker: int, workers: int) -> DataLoader:
        source, split, batch_size, options = self._arguments
        if workers > 1:
            options = {"workers": 1, **options}
        seat, parent = self._own, multiprocessing.parent_process()
        if seat is None and workers and self._found is not None and parent is not None and parent.pid == self._found[0]:
            seat = self._found[1]
        of_rank = {} if seat is None else {"rank": seat.rank, "world_size": seat.world_size}
        with warnings.catch_warnings():
            if worker > 0:
                # The first one says it.
                warnings.simplefilter("ignore", EmptyBatchWarning)
            return DataLoader(source, split, batch_size, **of_rank, **options)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives: from its start, or what is left of it where
        the state of it was loaded. Call it before workers are started."""
        self._epoch, self._loader = epoch_number(epoch), None
        if self._state is not None and self._state.get("epoch") != self._epoch:
            self._state = None

    def state_dict(self) -> Dict[str, Any]:
        """The position of this process, or of this worker, as :meth:`gular.DataLoader.state_dict`.
        That of a worker is for the same worker of as many.

        :raises gular.StateError: where this process has not begun the epoch. With workers, they
            have, and the main process does not know how far they are.
        """
        if self._loader is None:
            raise StateError(
                "this process has not begun the epoch, so it does not know its position",
                "where workers make the batches, save the epoch's number and give it to "
                "`set_epoch`; use `num_workers=0`, or gular.DataLoader, to resume within an epoch",
            )
        if self._begun:
            return {**self._begun, "given": self._given}
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken: the next iteration gives what was left of its epoch.

        With workers, call :meth:`set_epoch` too before each epoch, first with ``state["epoch"]``.
        """
        self._state, self._epoch = state_of(state), None
        self._loaded_in, self._loader = os.getpid(), None

    def __getstate__(self) -> Dict[str, Any]:
        # What this process has begun is its own.
        found: Optional[Tuple[int, ranks.Seat]]
        try:
            found = (os.getpid(), ranks.found(self._own))
        except RankError:
            # It may be known where this is going.
            found = None
        return {**self.__dict__, "_loader": None, "_begun": {}, "_found": found}


def _worker() -> Tuple[int, int]:
    """Which of how many workers of PyTorch's this process is; of 0 in the main process."""
    info = get_worker_info()
    return (0, 0) if info is None else (info.id, info.num_workers)
