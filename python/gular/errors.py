"""What can go wrong: every exception says what failed, names the next step, and shows no secret."""

from __future__ import annotations

from typing import Optional

from ._gular import mask


class Error(Exception):
    """Anything that Gular could not do.

    ``hint`` is what to do next, ``key`` the sample it is about; either may be ``None``.
    """

    hint: Optional[str]
    key: Optional[str]

    def __init__(self, what: str, hint: Optional[str] = None, key: Optional[str] = None) -> None:
        # A path or an option may be a token that was given by mistake. A key is data, by which a
        # program leaves out a sample.
        self.what, self.hint, self.key = mask(what), hint and mask(hint), key
        # Alone: of several arguments OSError takes the first as `errno`.
        super().__init__(self.what)

    def __str__(self) -> str:
        return f"{self.what}\nhint: {self.hint}" if self.hint else self.what


class OptionError(Error, ValueError):
    """An option has an invalid value."""


class BundleError(Error, OSError):
    """The bundle cannot be read, or its bytes are not those that its manifest promises."""


class TransferError(Error, OSError):
    """The bundle cannot be fetched."""

    __str__ = Error.__str__


class SampleError(Error, ValueError):
    """One sample cannot be found, or made into a row of a batch; ``key`` names it."""


class FunctionError(Error, RuntimeError):
    """The function of ``each`` raised an exception, or returned what a batch cannot have; ``key``
    names the sample."""


class StateError(Error, ValueError):
    """What is not a state, or one that this loader cannot continue from."""


class DeliveryError(Error):
    """An epoch was not delivered as its order says."""


class RankError(Error, ValueError):
    """It cannot be told which of how many processes this one is."""


class RankWarning(UserWarning):
    """A loader gives one rank's share of the samples, by what the environment says alone."""


class EmptyBatchWarning(UserWarning):
    """The last batch of each epoch of a training run is empty on some ranks."""


class RepeatedEpochWarning(UserWarning):
    """A training epoch was begun that this process has begun before, with the same random numbers."""


class ReplacedProcessWarning(UserWarning):
    """A process that calls ``each`` was ended, and another one was started in its place."""


class UnmovedFieldWarning(UserWarning):
    """A field that may tell places on the image is not cropped and mirrored with it."""


class ForkError(Error, RuntimeError):
    """A loader was used in a process forked from the one that made it."""
