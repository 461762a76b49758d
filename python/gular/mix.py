"""Several bundles in one training."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _gular
from .errors import OptionError, StateError
from .loader import DataLoader


class Mix:
    """Batches of several loaders without end: each step takes one of a loader that is drawn by
    its weight, the same on every rank.

    ::

        mix = gular.Mix([(photographs, 3), (drawings, 1)], seed=1)
        # (number, batch): which loader it is, from 0, and its next batch.
        for step, (number, batch) in enumerate(mix): ...

    Each loader goes from epoch to epoch by itself; their batch sizes may differ.

    :param loaders: Loaders and their weights, whole numbers.
    :param seed: By which loaders are drawn.
    """

    def __init__(self, loaders: Sequence[Tuple[DataLoader, int]], seed: int = 0) -> None:
        self.loaders: List[DataLoader] = [loader for loader, _ in loaders]
        self.weights = [int(weight) for _, weight in loaders]
        self.seed, self.step = int(seed), 0
        self._epochs: Optional[List[Iterator[Any]]] = None
        # That the weights can be drawn by is checked here.
        self._drawn()
        self._check_ranks()
        for number, loader in enumerate(self.loaders):
            if not len(loader):
                raise OptionError(f"option `split`: loader {number} of the mix has no batches")

    def __iter__(self) -> Iterator[Tuple[int, Any]]:
        """The number of a loader, and its next batch. A second iterator goes on where the first
        one is."""
        while True:
            if self._epochs is None:
                # Again, as ranks are found when an epoch begins.
                self._check_ranks()
                # All of them begin at once, so that each has batches when it is drawn.
                self._epochs = [iter(loader) for loader in self.loaders]
            epochs, number = self._epochs, self._drawn()
            # An epoch may be over where a state was loaded; the one after it is not.
            for _ in range(2):
                batch = [one for one in [next(epochs[number], None)] if one is not None]
                if batch:
                    break
                epochs[number] = iter(self.loaders[number])
            self.step += 1
            yield number, batch.pop()

    def _check_ranks(self) -> None:
        seats = [(loader.rank, loader.world_size) for loader in self.loaders]
        for number, seat in enumerate(seats):
            if seat != seats[0]:
                raise OptionError(f"option `rank`: loader {number} of the mix is of another rank")

    def _drawn(self) -> int:
        return _gular.mixed(self.weights, self.seed, self.step)

    def state_dict(self) -> Dict[str, Any]:
        """The training's position, after the batches taken so far. :func:`gular.merge_states`
        merges those of all ranks."""
        loaders = [loader.state_dict() for loader in self.loaders]
        return {"seed": self.seed, "weights": list(self.weights), "step": self.step, "loaders": loaders}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken, with any number of ranks."""
        try:
            same = (state["seed"], list(state["weights"])) == (self.seed, self.weights)
            step, loaders = int(state["step"]), list(state["loaders"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a mix: {error!r}", "pass what `state_dict()` of a gular.Mix returned") from None
        if not same or len(loaders) != len(self.loaders):
            raise StateError(
                f"the state was saved with seed {state['seed']} and weights {state['weights']}, "
                f"but this mix has {self.seed} and {self.weights}"
            )
        for loader, one in zip(self.loaders, loaders):
            loader.load_state_dict(one)
        self.step, self._epochs = step, None
