"""A dataset by index, for loaders that are not ours."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _gular
from .arrays import converter
from .waiting import made


class GularDataset:
    """A split by index, for PyTorch's own ``DataLoader``; any sampler, any number of workers.

    ``data[i]`` is ``(value, label)``. The value is the stored bytes of ``field``; a NumPy array
    where it is of numbers; and with ``decode=True`` the picture, uint8 ``[height, width, 3]``, or of
    field ``mask`` its values, ``[height, width]``: indices of a palette, and uint16 where it has 16
    bits. It goes through ``transform``. The label is the class index, or -1 where it is unknown. Bytes
    are compared with their digests when they are first read.

    The first four arguments are those of ``tutorials/python/gular_dataset.py``. Pickles as its
    arguments, and opens the bundle again in each process, so ``fork`` and ``spawn`` both work.

    :param orientation: Whether pictures are turned as their EXIF orientation says.
    :param path: A bundle's folder, or a URL, which is fetched once into the node's cache.
    :param progress: A function such as ``print``, called with a line now and then of what is being
        fetched.
    """

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        split: str = "train",
        field: str = "image",
        transform: Optional[Callable[[Any], Any]] = None,
        *,
        decode: bool = False,
        orientation: bool = True,
        cache: Union[None, str, "os.PathLike[str]"] = None,
        token_files: Sequence[Union[str, "os.PathLike[str]"]] = (),
        progress: Optional[Callable[[str], Any]] = None,
    ) -> None:
        self.path, self.split, self.field, self.transform = os.fspath(path), split, field, transform
        self._settings = json.dumps(
            {
                "source": self.path,
                "split": split,
                "field": field,
                "decode": decode,
                "orientation": orientation,
                "cache": None if cache is None else os.fspath(cache),
                "token_files": [os.fspath(file) for file in token_files],
            }
        )
        self._progress = progress
        self._array = converter("numpy")[1]
        self._opened: Tuple[int, Any] = (0, None)
        about = json.loads(self._open().about())
        self.classes: List[str] = about["classes"]
        #: The label of each class.
        self.class_to_idx: Dict[str, int] = {name: label for label, name in enumerate(self.classes)}
        self.fields: Dict[str, Any] = {field["name"]: field for field in about["fields"]}
        #: Samples of each shard, in order: what an order by windows is made of.
        self.sizes: List[int] = about["sizes"]
        #: The bundle's digest.
        self.bundle_digest: str = about["digest"]

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, index: int) -> Tuple[Any, int]:
        value = self.raw(index)
        return (self.transform(value) if self.transform else value), self.label(index)

    def raw(self, index: int) -> Any:
        """The value before the transform."""
        value = self._open().value(self._at(index))
        return value if isinstance(value, bytes) else self._array(value)

    @property
    def targets(self) -> List[int]:
        """The class indices of all samples, as of ``ImageFolder``; -1 where they are unknown."""
        label = self._open().label
        return [int(label(index)) for index in range(len(self))]

    def label(self, index: int) -> int:
        """The class index; -1 where it is unknown."""
        return int(self._open().label(self._at(index)))

    def key(self, index: int) -> str:
        """The sample's key: its path when it was packed."""
        return str(self._open().key(self._at(index)))

    def digest(self, index: int) -> Optional[bytes]:
        """The BLAKE3 digest of the stored bytes; ``None`` for field ``label``."""
        found: Optional[bytes] = self._open().digest(self._at(index))
        return found

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_opened": (0, None)}

    def _at(self, index: int) -> int:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"sample {index} of {n}")
        return int(index) % n

    def _open(self) -> Any:
        # Not across a fork, where another thread may have held one of its locks.
        if self._opened[0] != os.getpid():
            self._opened = (os.getpid(), made(_gular.Dataset.make(self._settings), self._progress))
        return self._opened[1]
