"""Training batches from Gular bundles, decoded by Rust threads, lent without a copy.

    import gular

    loader = gular.DataLoader("bundle", split="train", batch_size=64)
    for epoch in range(90):
        for batch in loader:
            train(batch["image"], batch["label"])
"""

from ._gular import VERSION as __version__
from .arrays import Array
from .errors import (
    BundleError,
    DeliveryError,
    Error,
    ForkError,
    OptionError,
    RankError,
    SampleError,
    StateError,
    TransferError,
)
from .loader import DataLoader, merge_states
from .transforms import CenterCrop, RandomCrop, Resize

__all__ = [
    "Array",
    "BundleError",
    "CenterCrop",
    "DataLoader",
    "DeliveryError",
    "Error",
    "ForkError",
    "OptionError",
    "RandomCrop",
    "RankError",
    "Resize",
    "SampleError",
    "StateError",
    "TransferError",
    "__version__",
    "merge_states",
]
