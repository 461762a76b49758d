"""What is done to each picture: chosen here, done by the loader's threads.

Random parts and mirrorings are a function of (seed, epoch, sample), so neither the number of
threads nor that of ranks, nor a restart, changes a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple, Union

Size = Union[int, Tuple[int, int]]


def _size(size: Size) -> Dict[str, Any]:
    """Of a square, or of (height, width)."""
    height, width = size if isinstance(size, (tuple, list)) and len(size) == 2 else (size, size)
    return {"width": width, "height": height}


@dataclass(frozen=True)
class RandomCrop:
    """A random part, resized to ``size`` pixels (a square, or height and width), at times
    mirrored: for training.

    As torchvision's ``RandomResizedCrop`` and ``RandomHorizontalFlip``: ``scale`` is the part
    of the picture's area, ``ratio`` its width / height, ``flip`` the probability of mirroring.
    """

    size: Size = 224
    scale: Tuple[float, float] = (0.08, 1.0)
    ratio: Tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def _json(self) -> Dict[str, Any]:
        return {"random": {**_size(self.size), "scale": self.scale, "ratio": self.ratio, "flip": self.flip}}


@dataclass(frozen=True)
class PadCrop:
    """A random part of ``size`` pixels as it is, of the picture with ``padding`` zeros on each
    side, at times mirrored: as for CIFAR.

    As torchvision's ``RandomCrop(size, padding, pad_if_needed=True)``.
    """

    size: Size
    padding: int = 0
    flip: float = 0.5

    def _json(self) -> Dict[str, Any]:
        return {"pad": {**_size(self.size), "padding": self.padding, "flip": self.flip}}


@dataclass(frozen=True)
class CenterCrop:
    """The short side made ``resize_short`` pixels, then the middle of ``size`` (a square, or
    height and width).

    As torchvision's ``Resize`` and ``CenterCrop``. ``resize_short`` is 8/7 of the shorter side
    of ``size`` unless given, as 224 is cut from 256.
    """

    size: Size = 224
    resize_short: Optional[int] = None

    def _json(self) -> Dict[str, Any]:
        return {"center": {**_size(self.size), "resize_short": self.resize_short}}


@dataclass(frozen=True)
class Whole:
    """The whole picture, of whatever size it has, for the function ``each``, which makes one of
    ``size`` pixels (a square, or height and width) of it."""

    size: Size = 224

    def _json(self) -> Dict[str, Any]:
        return {"whole": _size(self.size)}


@dataclass(frozen=True)
class Resize:
    """The whole picture, stretched to ``height`` by ``width`` pixels; without ``width``, a square."""

    height: int
    width: Optional[int] = None

    def _json(self) -> Dict[str, Any]:
        return {"resize": {"width": self.height if self.width is None else self.width, "height": self.height}}
