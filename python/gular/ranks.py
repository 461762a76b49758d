"""Which of how many processes this one is. It is asked when an epoch begins, and not before."""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple, Optional, Tuple

from . import _gular
from .errors import OptionError, RankError, RankWarning


class Seat(NamedTuple):
    """A rank and the world size."""

    rank: int
    world_size: int


#: Whether a rank of the environment alone was told in this process.
_told = False


def given(rank: Optional[int], world_size: Optional[int]) -> Optional[Seat]:
    """The seat that the user gave, if any."""
    if (rank is None) != (world_size is None):
        raise OptionError("option `rank`: give both `rank` and `world_size`, or neither")
    return None if rank is None or world_size is None else Seat(rank, world_size)


def distributed() -> Optional[Seat]:
    """That of ``torch.distributed``, where somebody initialised it."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Seat(distributed.get_rank(), distributed.get_world_size())


def found(own: Optional[Seat]) -> Seat:
    """The seat of this process: its ``own``, or as ``torch.distributed`` or the launcher says.

    :raises gular.RankError: where the environment says half of it, or two things.
    """
    return own or distributed() or Seat(*_gular.ranks()[:2])


def begun(own: Optional[Seat], stacklevel: int) -> Seat:
    """The seat with which an epoch begins. Where the environment alone shards it, that is said once."""
    global _told
    seat = found(own)
    if seat.world_size > 1 and own is None and distributed() is None and not _told:
        _told = True
        warnings.warn(
            f"this process takes the share of rank {seat.rank} of {seat.world_size}, as its environment says "
            f"({_gular.ranks()[2]}); torch.distributed is not initialised. For all samples, pass `rank=0, world_size=1`",
            RankWarning,
            stacklevel=stacklevel + 1,
        )
    return seat


def compared(own: Optional[Seat], seat: Seat) -> None:
    """Compares the seat that an epoch began with.

    :raises gular.RankError: where ``torch.distributed``, initialised since, says otherwise.
    """
    other = None if own else distributed()
    if other is not None and other != seat:
        raise RankError(
            f"this epoch was begun as rank {seat.rank} of {seat.world_size}, but torch.distributed, which was "
            f"initialised since, says rank {other.rank} of {other.world_size}",
            "call `init_process_group` before the epoch begins: before `for batch in loader`",
        )


def options(own: Optional[Seat]) -> Tuple[int, int]:
    """The seat that a loader is made with: it is set when an epoch begins."""
    return own or Seat(0, 1)
