"""The loader: a split of a bundle as batches."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _gular
from .arrays import converter
from .errors import OptionError
from .transforms import CenterCrop, PadCrop, RandomCrop, Resize

Transform = Union[RandomCrop, PadCrop, CenterCrop, Resize]


class DataLoader:
    """Batches of one split, made ahead by threads of Rust; no worker processes.

    Each batch is a dictionary:

    ========  =========================================================================
    image     ``numbers`` of shape ``[n, channels, height, width]`` (``layout="NCHW"``,
              or ``"channels_last"`` with that order of memory) or
              ``[n, height, width, channels]`` (``"NHWC"``)
    label     int64 ``[n]``: class indices, -100 where unknown (``unknown_labels``);
              absent in a bundle without labels
    index     int64 ``[n]``: numbers of the samples within the split
    key       list of ``n`` str: keys of the samples
    weight    float32 ``[n]``, with ``mixup`` or ``cutmix`` alone: the part that is the sample's
              own; ``other_label``, int64 ``[n]``, is the class of the rest
    others    each name in ``fields``: a ``mask`` of shape ``[n, height, width]``, moved as
              its image; other numbers ``[n, …]`` of their own type; bytes as a list
    ========  =========================================================================

    ``n`` is ``batch_size``, or less in the last batch; in evaluations over several ranks it may
    be 0 there. Arrays are the loader's own memory, lent until the last reference is gone, and
    may be written to. Where so many are kept that the loader could not go on, the next ones are
    copies, so ``list(loader)`` works.

    :param source: A bundle's folder, or a URL (``pelican://…``), with ``#blake3=…`` or without,
        which is fetched once into the node's cache.
    :param split: ``"train"``, ``"val"`` or ``"test"``.
    :param batch_size: Samples per batch, on each rank.
    :param order: ``"elastic"`` (a keyed permutation that no number of ranks changes),
        ``"torch"`` (that of ``DistributedSampler``, padding included) or ``"window"`` (shards
        permuted, samples within ``window`` of them: reads each shard once per epoch).
    :param window: Shards per window, of order ``window``.
    :param shuffle: ``False`` gives the samples in the bundle's order; with several ranks padded
        as ``DistributedSampler`` does.
    :param seed: Of the order and of the random parts of the transform.
    :param drop_last: Leave out what does not fill the last batch of all ranks.
    :param rank: Which process this is, with ``world_size``; unless given, from
        ``torch.distributed`` where it is initialised, else as the launcher says (``RANK`` and
        ``WORLD_SIZE``, Slurm, Open MPI and others).
    :param world_size: How many processes share each epoch.
    :param workers: Threads that decode; 0 takes as many as this process may use cores.
    :param slots: Batches in memory at a time, lent ones included; at least 2.
    :param size: Pixels of the images, a square's side or height and width, where ``transform`` is
        not given.
    :param transform: :class:`~gular.RandomCrop` (default for ``train``),
        :class:`~gular.PadCrop`, :class:`~gular.CenterCrop` (default for ``val`` and ``test``) or
        :class:`~gular.Resize`.
    :param mixup: Blend the samples of a batch in pairs as torchvision's ``MixUp(alpha=mixup)``:
        the loss is ``weight * loss(label) + (1 - weight) * loss(other_label)``.
    :param cutmix: The same as ``CutMix(alpha=cutmix)``; with ``mixup`` too, one of them by turns.
    :param read_ahead: Bytes of samples that may be read before a thread needs them; 16 MiB unless
        given.
    :param numbers: ``"f32"``, ``"f16"`` or ``"bf16"``, normalised; ``"stored"`` keeps ``uint8``,
        or the field's own type.
    :param layout: ``"NCHW"``, ``"NHWC"`` or ``"channels_last"``.
    :param normalise: ``"imagenet"``, ``"bundle"`` (by the statistics in its manifest),
        ``"scaled"`` (0 to 1 and nothing else), or ``(mean, std)`` or ``(mean, std, scale)``:
        value / scale, less mean, divided by std.
    :param bands: Channels to take, by number from 0, in any order.
    :param depth: ``"u8"`` or ``"u16"``: bits of pixels, where the bundle's are not to stay.
    :param fields: Further fields that batches have.
    :param on_bad_sample: ``"fail"``, ``"skip"`` (the batch is smaller) or ``"replace"``.
    :param unknown_labels: ``"refuse"``, ``"drop"`` or ``"ignore"`` (label -100).
    :param orientation: Whether pictures are turned as their EXIF orientation says;
        torchvision's ``ImageFolder`` does not.
    :param jpeg: Which library decodes JPEG, where there are several: ``"turbo"`` or ``"zune"``.
    :param keys: Only the samples with these keys.
    :param never: Not the samples with these digests (``blake3:…``).
    :param fold: ``(number, of)`` or ``(number, of, held_out, seed)``: cross-validation.
    :param draw: ``None`` (each sample once per epoch), ``"class"`` (each class as often as any
        other) or one weight per sample of the split; order ``elastic`` only.
    :param epochs: How many epochs there are to be: none past the last is made ahead.
    :param output: ``"torch"``, ``"numpy"``, ``"jax"``, ``"dlpack"`` (:class:`gular.Array`);
        ``"auto"`` takes PyTorch where it can be imported, else NumPy.
    :param as_tuple: Batches are tuples of these fields instead, such as ``("image", "label")``.
    :param check: When samples are compared with their digests: ``"first_touch"``,
        ``"always"``, ``"on_fetch"`` (whoever brought the files did).
    :param map_files: Map files instead of reading them: only those that nobody cuts short.
    :param digest: The bundle digest that is wanted; another one is an error.
    :param cache: The node's folder of fetched bundles.
    :param token_files: Files with tokens for a URL.
    """

    def __init__(
        self,
        source: Union[str, "os.PathLike[str]"],
        split: str = "train",
        batch_size: int = 64,
        *,
        order: Optional[str] = None,
        shuffle: bool = True,
        window: int = 8,
        seed: int = 0,
        drop_last: bool = False,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        workers: int = 0,
        slots: int = 4,
        read_ahead: Optional[int] = None,
        size: Union[None, int, Tuple[int, int]] = None,
        transform: Optional[Transform] = None,
        mixup: Optional[float] = None,
        cutmix: Optional[float] = None,
        numbers: str = "f32",
        layout: str = "NCHW",
        normalise: Union[str, Sequence[Any]] = "imagenet",
        bands: Optional[Sequence[int]] = None,
        depth: Optional[str] = None,
        fields: Sequence[str] = (),
        on_bad_sample: str = "fail",
        unknown_labels: str = "refuse",
        orientation: bool = True,
        jpeg: Optional[str] = None,
        keys: Optional[Iterable[str]] = None,
        never: Optional[Iterable[str]] = None,
        fold: Optional[Sequence[int]] = None,
        draw: Union[None, str, Sequence[float]] = None,
        epochs: Optional[int] = None,
        output: str = "auto",
        as_tuple: Optional[Sequence[str]] = None,
        check: str = "first_touch",
        map_files: bool = False,
        digest: Optional[str] = None,
        cache: Union[None, str, "os.PathLike[str]"] = None,
        token_files: Sequence[Union[str, "os.PathLike[str]"]] = (),
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "source")}
        if keys is not None:
            arguments["keys"] = keys = list(keys)
        if never is not None:
            arguments["never"] = never = list(never)
        self._arguments = (os.fspath(source), arguments)
        self._as_tuple = None if as_tuple is None else tuple(as_tuple)
        output, self._convert = converter(output)
        if numbers == "bf16" and output == "numpy":
            raise OptionError(
                "option `numbers`: NumPy has no bfloat16",
                'take `numbers="f16"` or `"f32"`, or another `output`',
            )
        taken = {"image", "label", "index", "key", "weight", "other_label"}.intersection(fields)
        if taken:
            raise OptionError(f"option `fields`: every batch has `{min(taken)}` already, or something of that name")
        if rank is None and world_size is None:
            rank, world_size = _distributed()
        settings = {
            "source": os.fspath(source),
            "split": split,
            "batch_size": batch_size,
            "order": _order(order, shuffle, window),
            "seed": seed,
            "drop_last": drop_last,
            "rank": rank,
            "world_size": world_size,
            "workers": workers,
            "slots": slots,
            "read_ahead": read_ahead,
            "transform": _transform(transform, size, split),
            "mixup": mixup,
            "cutmix": cutmix,
            "numbers": numbers,
            "layout": layout,
            "normalise": _normalise(normalise),
            "depth": depth,
            "bands": None if bands is None else list(bands),
            "fields": list(fields),
            "on_bad_sample": on_bad_sample,
            "unknown_labels": unknown_labels,
            "apply_orientation": orientation,
            "jpeg": jpeg,
            "only": keys,
            "never": never,
            "fold": _fold(fold),
            "draw": _draw(draw),
            "across_epochs": None,
            "n_epochs": epochs,
            "check": check,
            "map": map_files,
            "digest": digest,
            "cache": None if cache is None else os.fspath(cache),
            "token_files": [os.fspath(file) for file in token_files],
        }
        self._loader = _gular.Loader(json.dumps(settings, default=_plain))
        self._about = json.loads(self._loader.about())
        self._pid = os.getpid()
        self._epoch = 0
        self._iterations = 0

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return self._loader.n_steps()

    def __iter__(self) -> Iterator[Any]:
        """The batches of the next epoch; after ``load_state_dict``, those that are left of it.

        Each call begins an epoch, and ends the one before it wherever that is.
        """
        epoch = self._epoch
        self._epoch = epoch + 1
        self._iterations += 1
        self._loader.begin(epoch)
        return self._batches(self._iterations)

    def _batches(self, iteration: int) -> Iterator[Any]:
        try:
            while iteration == self._iterations:
                fields = self._loader.next()
                if fields is None:
                    return
                # Handed over, so that this frame keeps no batch that the caller let go.
                made = [self._made(fields)]
                del fields
                yield made.pop()
        finally:
            # Not of a loader that was forked, or whose next epoch was begun.
            if iteration == self._iterations and os.getpid() == self._pid:
                self._loader.leave()

    def _made(self, fields: Dict[str, Any]) -> Any:
        convert = self._convert
        for name, value in fields.items():
            if isinstance(value, _gular.Array):
                fields[name] = convert(value)
        if self._as_tuple is None:
            return fields
        try:
            return tuple(fields[name] for name in self._as_tuple)
        except KeyError as missing:
            names = "`, `".join(fields)
            raise OptionError(f"option `as_tuple`: a batch has no {missing}, but `{names}`") from None

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives: from its start, or what is left of it where
        the state of it was just loaded. Without this call each iteration gives the epoch after
        that of the one before, from 0."""
        self._epoch = int(epoch)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration gives."""
        return self._epoch

    def state_dict(self) -> Dict[str, Any]:
        """Where the training stands: a dictionary of plain values, below 1 KB as JSON.

        Counts batches that were handed out, not those made ahead. All ranks have the same but
        for ``tally``, the proof of what each delivered: see :func:`gular.merge_states`.
        """
        state: Dict[str, Any] = json.loads(self._loader.state())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken: the next iteration gives what was left of its
        epoch, or the epoch after it where nothing was. Reads nothing.

        Orders ``elastic`` and ``window`` go on with any number of ranks.
        """
        self._iterations += 1
        epoch, over = self._loader.restore(json.dumps(dict(state), default=_plain))
        self._epoch = epoch + 1 if over else epoch

    def check_delivered(self, state: Optional[Mapping[str, Any]] = None) -> str:
        """Proves that what ``state`` (by default this loader's) says was delivered is what the
        order has: ``1,281,167 samples, each once``.

        With several ranks, give it the merged states of all: :func:`gular.merge_states`.

        :raises gular.DeliveryError: with the first difference.
        """
        text = self._loader.state() if state is None else json.dumps(dict(state), default=_plain)
        return self._loader.check_delivered(text)

    def stats(self) -> Dict[str, Any]:
        """Sums since the loader was made: batches, samples, seconds in each phase, and which
        side waits for the other (``bottleneck``)."""
        stats: Dict[str, Any] = json.loads(self._loader.stats())
        return stats

    @property
    def classes(self) -> List[str]:
        """Names of the classes; a label is a position in this list."""
        return list(self._about["classes"])

    @property
    def n_samples(self) -> int:
        """Samples of an epoch, of all ranks together."""
        return int(self._about["n_samples"])

    @property
    def digest(self) -> str:
        """The bundle's digest, which is its identity: ``blake3:…``."""
        return str(self._about["digest"])

    @property
    def folder(self) -> str:
        """Where the bundle is on this machine."""
        return str(self._about["folder"])

    @property
    def rank(self) -> int:
        """Which of the ranks this is, from 0."""
        return int(self._about["rank"])

    @property
    def world_size(self) -> int:
        """How many ranks share each epoch."""
        return int(self._about["world_size"])

    def __repr__(self) -> str:
        source, arguments = self._arguments
        return f"gular.DataLoader({source!r}, {arguments['split']!r}, {arguments['batch_size']})"

    def __reduce__(self) -> Tuple[Any, ...]:
        """As its arguments and its state: another process opens the bundle for itself."""
        source, arguments = self._arguments
        return _made_again, (source, arguments, self.state_dict(), self._epoch)


def merge_states(states: Iterable[Mapping[str, Any]]) -> Dict[str, Any]:
    """One state of those that the ranks have after the same step, to be saved.

    With PyTorch::

        states = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(states, loader.state_dict())
        state = gular.merge_states(states)
    """
    merged: Dict[str, Any] = json.loads(_gular.merge_states([json.dumps(dict(state)) for state in states]))
    return merged


def _made_again(source: str, arguments: Dict[str, Any], state: Dict[str, Any], epoch: int) -> DataLoader:
    loader = DataLoader(source, **arguments)
    loader.load_state_dict(state)
    if not state["consumed"]:
        loader.set_epoch(epoch)
    return loader


def _distributed() -> Tuple[Optional[int], Optional[int]]:
    """Rank and world size of ``torch.distributed``, where somebody initialised it."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None, None
    return distributed.get_rank(), distributed.get_world_size()


def _order(order: Optional[str], shuffle: bool, window: int) -> Any:
    if not shuffle:
        if order not in (None, "torch"):
            raise OptionError(f"option `order`: `{order}` permutes", "leave `order` out with `shuffle=False`")
        return {"torch": {"shuffle": False}}
    orders: Dict[Optional[str], Any] = {
        None: "elastic",
        "elastic": "elastic",
        "torch": {"torch": {"shuffle": True}},
        "window": {"window": {"shards": window}},
    }
    if order not in orders:
        raise OptionError(f"option `order`: `{order}` is not one of `elastic`, `torch`, `window`")
    return orders[order]


def _transform(transform: Optional[Transform], size: Union[None, int, Tuple[int, int]], split: str) -> Any:
    if transform is None:
        if size is None:
            return None
        transform = RandomCrop(size) if split == "train" else CenterCrop(size)
    elif size is not None:
        raise OptionError("option `size`: `transform` has a size", "give one of them")
    if not isinstance(transform, (RandomCrop, PadCrop, CenterCrop, Resize)):
        raise OptionError(
            f"option `transform`: {transform!r} is not one that the loader's threads know",
            "use gular.RandomCrop, gular.PadCrop, gular.CenterCrop or gular.Resize, and apply others to the batch",
        )
    return transform._json()


def _normalise(normalise: Union[str, Sequence[Any]]) -> Any:
    if isinstance(normalise, str):
        return normalise
    parts = list(normalise)
    if len(parts) not in (2, 3):
        raise OptionError(f"option `normalise`: {parts!r} is not (mean, std) or (mean, std, scale)")
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
    return {"weights": [float(weight) for weight in draw]}


def _plain(value: Any) -> Any:
    """Numbers of NumPy and PyTorch, and paths, as JSON has them."""
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor a text")
