"""Changes of each picture after cutting and resizing: chosen here, made by the loader's threads.

``augment=[VerticalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1)]`` makes them in this order. What moves
a picture moves its ``mask``. Random numbers are a function of (seed, epoch, sample), so neither the
number of threads nor that of ranks, nor a restart, changes a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Tuple, Union


@dataclass(frozen=True)
class HorizontalFlip:
    """Mirrors left to right with probability ``p``: where the transform does not."""

    p: float = 0.5

    def _json(self) -> Dict[str, Any]:
        return {"horizontal_flip": {"p": self.p}}


@dataclass(frozen=True)
class VerticalFlip:
    """Mirrors top to bottom with probability ``p``: ``RandomVerticalFlip``."""

    p: float = 0.5

    def _json(self) -> Dict[str, Any]:
        return {"vertical_flip": {"p": self.p}}


@dataclass(frozen=True)
class QuarterTurns:
    """With probability ``p`` turns by 0 to 3 quarters, each as likely, as ``torch.rot90``;
    pictures that are not square by 0 or 2. For satellite images and microscopes."""

    p: float = 1.0

    def _json(self) -> Dict[str, Any]:
        return {"quarter_turns": {"p": self.p}}


@dataclass(frozen=True)
class Shift:
    """Moves by up to ``pixels`` in each direction; zeros come in. Of the size of the picture this
    is ``RandomCrop(size, padding=pixels)``; :class:`gular.PadCrop` is for other sizes."""

    pixels: int

    def _json(self) -> Dict[str, Any]:
        return {"shift": {"pixels": self.pixels}}


@dataclass(frozen=True)
class ColorJitter:
    """``torchvision.transforms.ColorJitter``, with one number per strength: a factor from
    1 - strength to 1 + strength, and up to ± ``hue`` (at most 0.5), in a random order."""

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def _json(self) -> Dict[str, Any]:
        return {
            "color_jitter": {
                "brightness": self.brightness,
                "contrast": self.contrast,
                "saturation": self.saturation,
                "hue": self.hue,
            }
        }


@dataclass(frozen=True)
class Grayscale:
    """Takes the colours away with probability ``p``, and keeps three channels: ``RandomGrayscale``."""

    p: float = 0.1

    def _json(self) -> Dict[str, Any]:
        return {"grayscale": {"p": self.p}}


@dataclass(frozen=True)
class Erasing:
    """Overwrites a random rectangle with probability ``p``: ``RandomErasing``. ``value`` is in
    units of the stored pixels, 0 to 255 for those of 8 bits. The mask stays."""

    p: float = 0.5
    scale: Tuple[float, float] = (0.02, 0.33)
    ratio: Tuple[float, float] = (0.3, 3.3)
    value: float = 0.0

    def _json(self) -> Dict[str, Any]:
        return {"erasing": {"p": self.p, "scale": self.scale, "ratio": self.ratio, "value": self.value}}


Change = Union[HorizontalFlip, VerticalFlip, QuarterTurns, Shift, ColorJitter, Grayscale, Erasing]
