"""Options of a loader as its threads take them: JSON."""

from __future__ import annotations

import difflib
import json
import math
import operator
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._gular import mask
from .errors import OptionError, StateError
from .transforms import CenterCrop, PadCrop, RandomCrop, Resize, Whole

Transform = Union[RandomCrop, PadCrop, CenterCrop, Resize, Whole]


def settings(source: str, of: Mapping[str, Any]) -> str:
    """The options ``of`` a :class:`gular.DataLoader`, all of them, by name."""
    taken = {"image", "label", "index", "key", "weight", "other_label"}.intersection(of["fields"])
    if taken:
        raise OptionError(f"option `fields`: every batch contains `{min(taken)}` already, or another value of that name")
    if of["keys"] is not None and of["select"] is not None:
        raise OptionError("option `select`: `keys` also selects samples", "give either `select` or `keys`")
    same = (
        "split batch_size seed drop_last rank world_size workers slots read_ahead mixup cutmix numbers layout axes mask_fill depth "
        "on_bad_sample unknown_labels jpeg scaling max_pixels never across_epochs check digest"
    )
    bands, cache, limit = of["bands"], of["cache"], of["cache_limit"]
    made: Dict[str, Any] = {name: of[name] for name in same.split()}
    made.update(
        source=source,
        order=_order(of["order"], of["shuffle"], of["window"]),
        transform=_transform(of["transform"], of["size"], of["split"]),
        augment=_augment(of["augment"]),
        normalise=_normalise(of["normalise"]),
        bands=None if bands is None else list(bands),
        fields=list(of["fields"]),
        apply_orientation=of["orientation"],
        only=of["keys"],
        fold=_fold(of["fold"]),
        draw=_draw(of["draw"]),
        n_epochs=of["epochs"],
        map=of["map_files"],
        cache=None if cache is None else os.fspath(cache),
        cache_limit=None if limit is None else str(limit),
        token_files=[os.fspath(file) for file in of["token_files"]],
    )
    return dumped(made)


def dumped(options: Mapping[str, Any]) -> str:
    """Options as JSON.

    :raises gular.OptionError: with the first that cannot be.
    """
    for name, value in options.items():
        try:
            json.dumps(value, default=plain, allow_nan=False)
        except TypeError as error:
            raise OptionError(f"option `{name}`: {error}") from None
        except ValueError:
            raise OptionError(f"option `{name}`: {value!r} is not a finite number") from None
    return json.dumps(options, default=plain)


def refuse_unknown(of: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuses ``names``, and says what Gular has for those of PyTorch's loader.

    :raises TypeError: as Python does for an argument that a function does not have.
    """
    for name in names:
        near = difflib.get_close_matches(name, list(known), 3, 0)
        is_near = bool(difflib.get_close_matches(name, near[:1], 1))
        hint = _OF_PYTORCH.get(name) or (f"did you mean `{near[0]}`?" if is_near else f"the nearest are `{'`, `'.join(near)}`")
        raise TypeError(mask(f"{of} has no option `{name}`: {hint}"))


#: Arguments of PyTorch's loader, and of what is used with it.
_OF_PYTORCH = {
    "dataset": "its first argument is the bundle, a folder or a URL",
    "num_workers": "write `workers=`: threads, 0 for one per core",
    "pin_memory": "not needed; `device=\"cuda\"` copies each batch from pinned memory",
    "pin_memory_device": "not needed; `device=\"cuda\"` copies each batch from pinned memory",
    "collate_fn": "write `collate=`, which gets a list of samples; `as_tuple=(\"image\", \"label\")` gives tuples",
    "sampler": "write `order=`, `shuffle=`, `draw=` or `select=`; ranks share the samples by themselves",
    "batch_sampler": "write `order=`, `shuffle=`, `draw=` or `select=`; ranks share the samples by themselves",
    "persistent_workers": "not needed: its threads stay from epoch to epoch",
    "prefetch_factor": "write `slots=`: batches in memory at a time",
    "multiprocessing_context": "not needed: it has threads, and no worker processes",
    "worker_init_fn": "not needed: it has threads, and no worker processes",
    "timeout": "not needed: it has no worker processes that could hang",
    "generator": "write `seed=`",
    "normalize": "write `normalise=`",
    "dtype": "write `numbers=`: `f32`, `f16`, `bf16` or `stored`",
    "memory_format": "write `layout=\"channels_last\"`",
}


def listed(name: str, value: Any) -> List[Any]:
    """The values of option ``name``, several of them."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise OptionError(f"option `{name}`: {value!r} is not a list")
    return list(value)


def epoch_number(epoch: Any) -> int:
    """The number of an epoch, from 0."""
    try:
        number = operator.index(epoch)
    except TypeError:
        number = -1
    if number < 0:
        raise OptionError(f"{epoch!r} is not the number of an epoch: a whole number of 0 or more")
    return number


def state_of(state: Any) -> Dict[str, Any]:
    """What may be the state of a loader."""
    if not isinstance(state, Mapping):
        raise StateError(f"{state!r} is not the state of a loader", "pass what `state_dict()` of a gular.DataLoader returned")
    return dict(state)


def selected(of: Mapping[str, Any], sample: Any) -> Any:
    """The function ``select`` of the options as it is called with a sample's facts."""
    select = of["select"]
    return None if select is None else lambda *facts: select(sample(*facts))


def _order(order: Optional[str], shuffle: bool, window: int) -> Any:
    if not shuffle:
        if order not in (None, "torch"):
            raise OptionError(f"option `order`: `{order}` shuffles", "leave `order` out with `shuffle=False`")
        return {"torch": {"shuffle": False}}
    orders: Dict[Optional[str], Any] = {
        None: "elastic",
        "elastic": "elastic",
        "torch": {"torch": {"shuffle": True}},
        "window": {"window": {"shards": window}},
    }
    if not isinstance(order, (str, type(None))) or order not in orders:
        raise OptionError(f"option `order`: `{order}` is not one of `elastic`, `torch`, `window`")
    return orders[order]


def _augment(augment: Sequence[Any]) -> List[Any]:
    for change in augment:
        if type(change).__module__ != "gular.augment":
            raise OptionError(
                f"option `augment`: {change!r} is not an augmentation that the loader's threads can do",
                "use those of gular, such as gular.ColorJitter; a function or transform of your own goes in `each=`",
            )
    return [change._json() for change in augment]


def _transform(transform: Optional[Transform], size: Union[None, int, Tuple[int, int]], split: str) -> Any:
    if transform is None:
        if size is None:
            return None
        transform = RandomCrop(size) if split == "train" else CenterCrop(size)
    elif size is not None:
        raise OptionError("option `size`: `transform` has a size already", "give either `size` or `transform`")
    if not isinstance(transform, (RandomCrop, PadCrop, CenterCrop, Resize, Whole)):
        raise OptionError(
            f"option `transform`: {transform!r} is not a transform that the loader's threads can do",
            "use gular.RandomCrop, gular.PadCrop, gular.CenterCrop or gular.Resize; a function or transform of your own goes in `each=`, "
            "with `transform=gular.Whole(224)` if it is to have whole pictures",
        )
    return transform._json()


def _normalise(normalise: Union[None, str, Sequence[Any]]) -> Any:
    if normalise is None or isinstance(normalise, str):
        return normalise
    parts = list(normalise) if isinstance(normalise, (tuple, list)) else []
    if len(parts) not in (2, 3):
        raise OptionError(
            f"option `normalise`: {normalise!r} is not (mean, std) or (mean, std, scale)",
            'use `"scaled"` for numbers from 0 to 1, or `numbers="stored"` for those of the bundle',
        )
    return {"by": {"mean": _list(parts[0]), "std": _list(parts[1]), "scale": parts[2] if parts[2:] else None}}


def _list(value: Any) -> List[float]:
    return [float(value)] if isinstance(value, (int, float)) else [float(one) for one in value]


def _fold(fold: Optional[Sequence[int]]) -> Any:
    if fold is None:
        return None
    if len(fold) not in (2, 4):
        raise OptionError(f"option `fold`: {fold!r} is not (number, of) or (number, of, held_out, seed)")
    number, of, held_out, seed = (*fold, False, 0) if len(fold) == 2 else fold
    return {"number": number, "of": of, "held_out": bool(held_out), "seed": seed}


def _draw(draw: Union[None, str, Sequence[float]]) -> Any:
    if draw is None or isinstance(draw, str):
        return draw
    weights = [float(weight) for weight in draw]
    wrong = next((number for number, weight in enumerate(weights) if not math.isfinite(weight)), None)
    if wrong is not None:
        raise OptionError(f"option `draw`: the weight of sample {wrong} is {weights[wrong]}, not a finite number")
    return {"weights": weights}


def plain(value: Any) -> Any:
    """Numbers of NumPy and PyTorch, and paths, as JSON has them."""
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(mask(f"{value!r} is neither a number nor a text"))
