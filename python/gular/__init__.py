"""Training batches from Gular bundles, decoded by Rust threads, lent without a copy.

    import gular

    loader = gular.DataLoader("bundle", split="train", batch_size=64)
    for epoch in range(90):
        for batch in loader:
            train(batch["image"], batch["label"])
"""

import sys

# First, and in words that those versions read: an older Python cannot load the library, and would
# only name a function of its own that it lacks.
if sys.version_info < (3, 9):
    raise ImportError("gular needs Python 3.9 or newer; this is Python {}.{}".format(*sys.version_info))

import atexit
from typing import TYPE_CHECKING, Any

from ._gular import VERSION as __version__
from ._gular import at_exit as _at_exit
from .arrays import Array
from .augment import ColorJitter, Erasing, Grayscale, HorizontalFlip, QuarterTurns, Shift, VerticalFlip
from .dataset import GularDataset
from .errors import (
    BundleError,
    DeliveryError,
    EmptyBatchWarning,
    Error,
    ForkError,
    FunctionError,
    OptionError,
    RankError,
    RankWarning,
    RepeatedEpochWarning,
    ReplacedProcessWarning,
    SampleError,
    StateError,
    TransferError,
    UnmovedFieldWarning,
)
from .loader import DataLoader, Sample, merge_states
from .mix import Mix
from .notebook import Picture, View, show, view
from .sampler import ElasticSampler
from .samples import read_samples
from .transforms import CenterCrop, PadCrop, RandomCrop, Resize, Whole

__all__ = [
    "Array",
    "BundleError",
    "CenterCrop",
    "ColorJitter",
    "DataLoader",
    "DeliveryError",
    "ElasticSampler",
    "EmptyBatchWarning",
    "Erasing",
    "Error",
    "ForkError",
    "FunctionError",
    "Grayscale",
    "GularDataset",
    "GularIterable",
    "HorizontalFlip",
    "Mix",
    "OptionError",
    "PadCrop",
    "Picture",
    "QuarterTurns",
    "RandomCrop",
    "RankError",
    "RankWarning",
    "RepeatedEpochWarning",
    "ReplacedProcessWarning",
    "Resize",
    "Sample",
    "SampleError",
    "Shift",
    "StateError",
    "TransferError",
    "UnmovedFieldWarning",
    "VerticalFlip",
    "View",
    "Whole",
    "__version__",
    "merge_states",
    "read_samples",
    "show",
    "view",
]

# Threads that still run then are not to ask for Python's lock.
atexit.register(_at_exit)

if TYPE_CHECKING:
    from .iterable import GularIterable


def __getattr__(name: str) -> Any:
    # What imports PyTorch waits until somebody asks for it.
    if name == "GularIterable":
        from .iterable import GularIterable

        return GularIterable
    raise AttributeError(f"module `gular` has no {name!r}")
