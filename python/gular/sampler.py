"""The loader's order as a sampler of PyTorch's own ``DataLoader``."""

from __future__ import annotations

import warnings
from typing import Iterator, Optional, Sized

from . import _gular, ranks
from .errors import EmptyBatchWarning
from .settings import epoch_number

#: Positions that are looked up at a time.
_AT_ONCE = 1024


class ElasticSampler:
    """Numbers of samples in the order of :class:`gular.DataLoader`, each once per epoch over all ranks.

    ::

        data = gular.GularDataset("bundle", decode=True, transform=augment)
        sampler = gular.ElasticSampler(data)
        loader = torch.utils.data.DataLoader(data, batch_size=64, sampler=sampler, num_workers=8)
        for epoch in range(90):
            sampler.set_epoch(epoch)
            for images, labels in loader: ...

    It needs no memory, whatever the number of samples. torchdata's ``StatefulDataLoader`` resumes it
    within an epoch, with workers too; after a resume with another number of ranks, call ``set_epoch`` with
    ``consumed``, the samples that all ranks together have had.

    :param data: What has as many samples: a :class:`gular.GularDataset`.
    :param seed: As that of the loader.
    :param drop_last: Leave out samples at the end of the order so that all ranks have as many. Without
        it, some ranks may have one more, on which a training over several ranks can wait for ever.
    :param rank: As of the loader, with ``world_size``: unless given, found when an epoch begins.
    """

    def __init__(
        self, data: Sized, seed: int = 0, rank: Optional[int] = None, world_size: Optional[int] = None, *, drop_last: bool = False
    ) -> None:
        self._n, self._seed, self._drop_last = len(data), seed, drop_last
        self._own = ranks.given(rank, world_size)
        self._epoch = self._consumed = 0

    def set_epoch(self, epoch: int, consumed: int = 0) -> None:
        """The epoch that the next iteration gives. Call it before each: PyTorch does not count epochs."""
        self._epoch, self._consumed = epoch_number(epoch), consumed

    def __len__(self) -> int:
        return len(self._positions(ranks.found(self._own)))

    def __iter__(self) -> Iterator[int]:
        seat = ranks.begun(self._own, stacklevel=2)
        if (self._n - self._consumed) % seat.world_size and not self._drop_last:
            warnings.warn(
                f"some of {seat.world_size} ranks have one sample more than others, for which a training of all of them can wait "
                "for ever: pass `drop_last=True`",
                EmptyBatchWarning,
                stacklevel=2,
            )
        positions = self._positions(seat)
        for start in range(0, len(positions), _AT_ONCE):
            yield from _gular.elastic(self._n, self._seed, self._epoch, list(positions[start : start + _AT_ONCE]))

    def _positions(self, seat: ranks.Seat) -> range:
        left = self._n - self._consumed
        end = self._n - left % seat.world_size if self._drop_last else self._n
        return range(self._consumed + seat.rank, end, seat.world_size)
