"""The loader: a split of a bundle as batches."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Set, Tuple, Union

from . import _gular, ranks
from ._gular import mask
from .arrays import converter
from .augment import Change
from .device import Copies
from .each import Workers, unpacked
from .errors import EmptyBatchWarning, Error, FunctionError, OptionError, RankError, RepeatedEpochWarning, UnmovedFieldWarning
from .settings import Transform, epoch_number, listed, plain, refuse_unknown, selected, settings, state_of
from .trainers import Untold, check_accumulation
from .waiting import Lines, made


_RESUME = (
    "to resume, call `load_state_dict` with the `state_dict` that was saved, instead of accelerate's `skip_first_batches`; "
    "Hugging Face's Trainer then needs `ignore_data_skip=True`. Ray's `prepare_data_loader` and `accelerator.prepare` are not "
    "needed: the loader finds its rank"
)

#: What frameworks ask of PyTorch's loader, and what serves instead.
_NOT_HERE = {
    "sampler": _RESUME,
    "batch_sampler": _RESUME,
    "collate_fn": "`collate=` with `each=` puts samples together",
    "num_workers": "`workers` says how many threads decode",
}

#: Training epochs that this process has begun, and whether a repeated one was told.
_begun: Set[Tuple[Any, ...]] = set()
_has_warned = False


class Sample(NamedTuple):
    """What ``select`` is told of a sample. Its ``number`` is what batches have as ``index``, which is
    here, as of each tuple, the method that finds a value."""

    number: int
    """Its number in the split, from 0: ``batch["index"]``."""
    key: str
    """Its key: its path when it was packed."""
    label: Optional[int]
    """Its class index; -1 where it is unknown, ``None`` in a bundle without labels."""
    digest: Optional[str]
    """The digest of its image, ``blake3:…``."""


class Samples:
    """What scripts ask of ``loader.dataset``: how many samples there are, and their classes."""

    def __init__(self, n_samples: int, classes: List[str]) -> None:
        self._n_samples = n_samples
        #: Names of the classes; a label is a position in this list.
        self.classes = classes
        #: The label of each class.
        self.class_to_idx = {name: label for label, name in enumerate(classes)}

    def __len__(self) -> int:
        return self._n_samples


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
              its image, and so is each field on the image's pixels: floats interpolated, a
              second picture made as the image is, other numbers as they are; fields elsewhere
              ``[n, …]`` of their own type; bytes as a list
    ========  =========================================================================

    ``n`` is ``batch_size``, or less in the last batch; in evaluations over several ranks it may
    be 0 there. Arrays are the loader's own memory, lent until the last reference is gone, and
    may be written to. Where so many are kept that the loader could not go on, the next ones are
    copies, so ``list(loader)`` works.

    **Data**

    :param source: A bundle's folder, or a URL (``pelican://…``), with ``#blake3=…`` or without.
        A URL is fetched once into the node's cache; with ``order="window"``, or a
        ``cache_limit``, its shards are fetched while they are needed instead, and batches come as
        soon as those of the first window are there.
    :param split: ``"train"``, ``"val"`` or ``"test"``.
    :param digest: The bundle digest that is wanted; another one is an error.
    :param keys: Only the samples with these keys.
    :param select: Only the samples of which this function of a :class:`gular.Sample` is true;
        called once per sample, when the loader is made. Not with ``keys``.
    :param never: Not the samples with these digests (``blake3:…``).
    :param fold: ``(number, of)`` or ``(number, of, held_out, seed)``: cross-validation.

    **Order**

    :param order: ``"elastic"`` (a keyed permutation that no number of ranks changes),
        ``"torch"`` (that of ``DistributedSampler``, padding included) or ``"window"`` (shards
        permuted, samples within ``window`` of them: reads each shard once per epoch).
    :param window: Shards per window, of order ``window``.
    :param shuffle: ``False`` gives the samples in the bundle's order; with several ranks padded
        as ``DistributedSampler`` does.
    :param seed: Of the order and of the random parts of the transform.
    :param draw: ``None`` (each sample once per epoch), ``"class"`` (each class as often as any
        other) or one weight per sample of the split; order ``elastic`` only.
    :param epochs: How many epochs there are to be: none past the last is made ahead.
    :param across_epochs: Whether the first batches of the next epoch are made while the last of
        this one are used: for ``train`` alone unless given.

    **Batches**

    :param batch_size: Samples per batch, on each rank.
    :param drop_last: Leave out what does not fill the last batch of all ranks.
    :param output: ``"torch"``, ``"numpy"``, ``"jax"``, ``"dlpack"`` (:class:`gular.Array`);
        ``"auto"`` takes PyTorch where it can be imported, else NumPy.
    :param device: Where tensors are to be, such as ``"cuda"``: each batch is copied there while
        the one before it is used, by a thread, from pinned memory and on a stream of its own.
    :param as_tuple: Batches are tuples of these fields instead, such as ``("image", "label")``.
    :param numbers: ``"f32"``, ``"f16"`` or ``"bf16"``, normalised; ``"stored"`` keeps ``uint8``,
        or the field's own type.
    :param layout: ``"NCHW"``, ``"NHWC"`` or ``"channels_last"``.
    :param fields: Further fields that batches have.

    **Pictures**

    :param size: Pixels of the images, a square's side or height and width, where ``transform`` is
        not given. Without both, pictures of one size below 224 pixels keep it (``train`` takes
        random crops of it, with an eighth added around them), and others are 224 pixels:
        ``stats()["fitted"]`` says so.
    :param transform: :class:`~gular.RandomCrop` (default for ``train``),
        :class:`~gular.PadCrop`, :class:`~gular.CenterCrop` (default for ``val`` and ``test``) or
        :class:`~gular.Resize`.
    :param augment: What is then done to each picture: a list of :class:`gular.HorizontalFlip`,
        :class:`gular.VerticalFlip`, :class:`gular.QuarterTurns`, :class:`gular.Shift`,
        :class:`gular.ColorJitter`, :class:`gular.Grayscale` and :class:`gular.Erasing`.
    :param mixup: Blend the samples of a batch in pairs as torchvision's ``MixUp(alpha=mixup)``:
        the loss is ``weight * loss(label) + (1 - weight) * loss(other_label)``.
    :param cutmix: The same as ``CutMix(alpha=cutmix)``; with ``mixup`` too, one of them by turns.
    :param normalise: ``"imagenet"``, ``"bundle"`` (by the statistics in its manifest, those of
        ``bands``), ``"scaled"`` (0 to 1 and nothing else), or ``(mean, std)`` or
        ``(mean, std, scale)``: value / scale, less mean, divided by std. Unless given, 8-bit
        colour and grey take ``"imagenet"`` and others ``"bundle"``, which ``stats()["fitted"]``
        says; without statistics in the manifest they are an error.
    :param bands: Channels to take, by number from 0, in any order: one of grey pictures unless
        given, else all.
    :param axes: What the axes of images that are arrays mean, such as ``"cyx"``, for a bundle that
        does not say it: ``t`` time, ``z`` depth, ``c`` bands, ``y`` rows, ``x`` columns.
    :param mask_fill: The value of mask pixels outside of the stored mask, where the picture is
        padded; unless given, the mask's nodata, or else 255 for ``u8``, 65535 for ``u16``, -1 for
        signed numbers. Losses must ignore it: ``ignore_index=255``.
    :param depth: ``"u8"`` or ``"u16"``: bits of pixels, where the bundle's are not to stay.
    :param orientation: Whether pictures are turned as their EXIF orientation says;
        torchvision's ``ImageFolder`` does not.
    :param jpeg: Which library decodes JPEG, where there are several: ``"turbo"`` or ``"zune"``.
    :param scaling: ``"reduced"``: a JPEG of which a sixth or less is wanted is decoded at a
        fraction of its size, unless ``"full"`` is given.
    :param max_pixels: The most pixels of one picture; 2**28 unless given.

    **A function of your own**

    :param each: A function of your own, called as ``each(sample, rng)`` with every sample, after
        ``transform`` and ``augment``; or a transform of albumentations or torchvision as it is.
        ``sample`` is a dictionary of arrays: ``image`` (``[height, width, channels]``, as stored),
        the other fields, and ``label``, ``key``, ``index`` and ``epoch``; the arrays are lent for
        this call. ``rng``, a ``numpy.random.Generator``, depends on (seed, epoch, sample) alone.
        It returns the sample, fields that are new, or the picture alone. A picture of the type
        that it was given is normalised then; floats in place of whole numbers are final.
    :param each_in: ``"processes"`` (one per thread of the loader; the default) or ``"threads"``,
        for functions that release the GIL. On a free-threaded Python, threads are the default where
        they are sure to give the same.
    :param collate: A function that makes the batch of a list of what ``each`` returned, which may
        differ in shape and be anything that can be pickled. It runs where the loader is used.

    **Broken and unlabelled samples**

    :param on_bad_sample: ``"fail"``, ``"skip"`` (the batch is smaller) or ``"replace"``.
    :param unknown_labels: ``"refuse"``, ``"drop"`` or ``"ignore"`` (label -100).
    :param check: When samples are compared with their digests: ``"first_touch"``,
        ``"always"``, ``"on_fetch"`` (whoever brought the files did).

    **Ranks**

    :param rank: Which process this is, with ``world_size``; unless given, when an epoch begins, from
        ``torch.distributed`` where it is initialised, else as the launcher says (``RANK`` and
        ``WORLD_SIZE``, Slurm, Open MPI and others). ``rank=0, world_size=1`` gives all samples, such
        as to a process that evaluates alone.
    :param world_size: How many processes share each epoch.

    **Threads and memory**

    :param workers: Threads that decode; 0 takes one per core that this process may use, and no
        more than ``OMP_NUM_THREADS``, which batch systems set.
    :param slots: Batches in memory at a time, lent ones included; at least 2.
    :param read_ahead: Bytes of samples that may be read before a thread needs them; 16 MiB unless
        given.
    :param map_files: Map files instead of reading them: only those that nobody cuts short.

    **Data from a URL**

    :param cache: The node's folder of fetched bundles.
    :param cache_limit: The most that a bundle from a URL may take there, in bytes or as
        ``"200GB"``: shards that nobody needs then leave for others. Order ``"window"`` needs a few
        at a time, the others all of the split. Loaders of one process that stream the same URL
        share its room.
    :param token_files: Files with tokens for a URL.
    :param progress: A function such as ``print``, called with a line now and then of what is being
        fetched or waited for, in the thread that waits.
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
        augment: Sequence[Change] = (),
        each: Optional[Callable[..., Any]] = None,
        each_in: Optional[str] = None,
        collate: Optional[Callable[[List[Dict[str, Any]]], Any]] = None,
        mixup: Optional[float] = None,
        cutmix: Optional[float] = None,
        numbers: str = "f32",
        layout: str = "NCHW",
        normalise: Union[None, str, Sequence[Any]] = None,
        bands: Optional[Sequence[int]] = None,
        axes: Optional[str] = None,
        mask_fill: Optional[int] = None,
        depth: Optional[str] = None,
        fields: Sequence[str] = (),
        on_bad_sample: str = "fail",
        unknown_labels: str = "refuse",
        orientation: bool = True,
        jpeg: Optional[str] = None,
        scaling: Optional[str] = None,
        max_pixels: Optional[int] = None,
        keys: Optional[Iterable[str]] = None,
        select: Optional[Callable[[Sample], bool]] = None,
        never: Optional[Iterable[str]] = None,
        fold: Optional[Sequence[int]] = None,
        draw: Union[None, str, Sequence[float]] = None,
        epochs: Optional[int] = None,
        across_epochs: Optional[bool] = None,
        output: str = "auto",
        device: Any = None,
        as_tuple: Optional[Sequence[str]] = None,
        check: str = "first_touch",
        map_files: bool = False,
        digest: Optional[str] = None,
        cache: Union[None, str, "os.PathLike[str]"] = None,
        cache_limit: Union[None, int, str] = None,
        token_files: Sequence[Union[str, "os.PathLike[str]"]] = (),
        progress: Optional[Callable[[str], Any]] = None,
        **unknown: NoReturn,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "source", "unknown")}
        refuse_unknown("gular.DataLoader", unknown, arguments)
        for name in ("keys", "never", "fields", "augment", "token_files"):
            # Without keys, all samples.
            if arguments[name] is not None or name not in ("keys", "never"):
                arguments[name] = listed(name, arguments[name])
        self._arguments = (os.fspath(source), arguments)
        self._as_tuple = None if as_tuple is None else tuple(as_tuple)
        if device is not None and output not in ("auto", "torch"):
            raise OptionError(f"option `device`: arrays of {output} cannot be moved to a device", "leave out `device` or `output`")
        self._copies = None if device is None else Copies(device)
        output, self._convert = converter(output if device is None else "torch")
        if numbers == "bf16" and output == "numpy":
            raise OptionError(
                "option `numbers`: NumPy has no bfloat16",
                'take `numbers="f16"` or `"f32"`, or another `output`',
            )
        #: Rank and world size that the user gave.
        self._own = ranks.given(rank, world_size)
        told = dict(arguments)
        told["rank"], told["world_size"] = ranks.options(self._own)
        asked = selected(told, Sample)
        if each is None and (each_in is not None or collate is not None):
            name = "collate" if collate is not None else "each_in"
            raise OptionError(f"option `{name}`: it is for the samples of `each`, which is not given")
        if collate is not None:
            # What `each` returns is not changed any more.
            others = {"device": None, "as_tuple": None, "mixup": None, "cutmix": None, "normalise": None, "numbers": "f32", "layout": "NCHW"}
            given = next((name for name, usual in others.items() if arguments[name] != usual), None)
            if given is not None:
                raise OptionError(f"option `{given}`: with `collate` batches are what that function returns", f"do it there, and leave out `{given}`")
        made_of = settings(os.fspath(source), told)
        self._collate = collate
        #: The processes or threads that call `each`.
        self._workers = None if each is None else Workers(each, each_in, workers, collate is not None)
        channels = None if self._workers is None else self._workers.channels
        self._loader = made(_gular.Loader.make(made_of, asked is not None, channels), progress, asked)
        self._about = json.loads(self._loader.about())
        self._pid = os.getpid()
        #: The first step that this loader makes, and how many loaders of other processes make them in turns.
        self._turns = (0, 1)
        #: A state that was loaded, and is not continued yet.
        self._pending: Optional[str] = None
        self._untold = Untold()
        #: The seat for which empty batches were warned of.
        self._warned: Optional[ranks.Seat] = None
        self._epoch = 0
        self._iterations = 0
        #: The value of `_iterations` when a state was loaded last.
        self._restored = 0
        if self._own:
            self._warn_of_empty_batches(self._own)
        if self._about["left_behind"]:
            names = ", ".join(f"`{name}`" for name in self._about["left_behind"])
            warnings.warn(
                f"{names}: delivered as stored, and not cropped and mirrored with the image: the bundle does not say "
                "that the values lie on its pixels",
                UnmovedFieldWarning,
                stacklevel=2,
            )
        #: What `state_dict` says where the loader is ahead of the caller.
        self._handed: Optional[str] = None

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return self._loader.n_steps(self.world_size)

    def __iter__(self) -> Iterator[Any]:
        """The batches of the next epoch; after ``load_state_dict``, those that are left of it.

        Each call begins an epoch, and ends the one before it wherever that is: the iterator of
        that one raises an error at its next step.
        """
        seat = ranks.begun(self._own, stacklevel=2)
        self._warn_of_empty_batches(seat)
        if self._arguments[1]["split"] == "train":
            check_accumulation(self._loader.n_steps(seat.world_size))
        if self._pending is not None:
            # Again, as what this rank is may not have been known when it was loaded.
            self._loader.restore(self._pending, seat)
        epoch = self._epoch
        if self._pending is None:
            self._warn_of_repetition(epoch, seat)
        self._epoch = epoch + 1
        self._iterations += 1
        self._handed = self._pending = None
        self._loader.begin(epoch, seat, self._turns)
        return self._batches(self._iterations, seat)

    def stream(self) -> Iterator[Any]:
        """The batches of the next epoch and of those after it, without end."""
        while len(self):
            yield from self

    def _batches(self, iteration: int, seat: ranks.Seat) -> Iterator[Any]:
        try:
            untold = self._untold.state(self)
            if untold is not None:
                self._go_to(untold, seat)
            if self._copies is None:
                yield from map(self._shaped, self._taken(iteration, seat))
                return
            states: Deque[str] = deque()
            # Keeps no batch that the caller let go.
            for one in map(self._shaped, self._copies.ahead(self._noted(iteration, seat, states))):
                if self._is_over(iteration):
                    # Another epoch was begun while this batch was on its way.
                    return
                made = [one]
                del one
                self._handed = states.popleft()
                yield made.pop()
        finally:
            # Not of a loader that was forked, or whose next epoch was begun.
            if iteration == self._iterations and os.getpid() == self._pid:
                self._loader.leave()

    def _go_to(self, state: Mapping[str, Any], seat: ranks.Seat) -> None:
        """Begins what ``state`` leaves of its epoch in place of the epoch that was begun."""
        epoch, over = self._loader.restore(json.dumps(state_of(state), default=plain), seat)
        epoch += over
        self._epoch = epoch + 1
        self._loader.begin(epoch, seat, self._turns)

    def _taken(self, iteration: int, seat: ranks.Seat) -> Iterator[Dict[str, Any]]:
        lines = Lines(self._arguments[1]["progress"])
        while not self._is_over(iteration):
            ranks.compared(self._own, seat)
            before = self._loader.state() if self._collate is not None else None
            try:
                fields = self._loader.next()
            except FunctionError as error:
                hint = None if self._workers is None else self._workers.hint(error)
                if hint is None:
                    raise
                raise FunctionError(error.what, hint, error.key) from None
            if fields is None:
                return
            if isinstance(fields, str):
                lines.say(fields)
                continue
            lines = Lines(self._arguments[1]["progress"])
            # Handed over, so that this frame keeps no batch that the caller let go.
            try:
                made = [self._converted(fields)]
            except BaseException:
                # `collate` failed: this batch was not delivered.
                self._handed = before
                raise
            del fields
            yield made.pop()

    def _is_over(self, iteration: int) -> bool:
        """Whether a state was loaded since this iteration began.

        :raises gular.Error: where another iteration began instead.
        """
        if self._iterations not in (iteration, self._restored):
            raise Error(
                "another iteration over this loader was begun, which ended this one",
                "make a second gular.DataLoader to go over the samples twice at the same time",
            )
        return iteration != self._iterations

    def _noted(self, iteration: int, seat: ranks.Seat, states: Deque[str]) -> Iterator[Dict[str, Any]]:
        for fields in self._taken(iteration, seat):
            states.append(self._loader.state())
            made = [fields]
            del fields
            yield made.pop()

    def _converted(self, fields: Dict[str, Any]) -> Dict[str, Any]:
        convert = self._convert
        if self._collate is not None:
            samples = [unpacked(value) for value in fields["sample"]]
            # Of several ranks some may have none in the last step.
            collated: Dict[str, Any] = self._collate(samples) if samples else []
            return collated
        for name, value in fields.items():
            if isinstance(value, _gular.Array):
                fields[name] = convert(value)
        return fields

    def _shaped(self, fields: Dict[str, Any]) -> Any:
        if self._as_tuple is None:
            return fields
        try:
            return tuple(fields[name] for name in self._as_tuple)
        except KeyError as missing:
            names = "`, `".join(fields)
            raise OptionError(f"option `as_tuple`: a batch has no {missing}; it has `{names}`") from None

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration gives: from its start, or what is left of it where
        the state of it was just loaded. Without this call each iteration gives the epoch after
        that of the one before, from 0."""
        self._epoch = epoch_number(epoch)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration gives."""
        return self._epoch

    def state_dict(self) -> Dict[str, Any]:
        """Where the training stands: a dictionary of plain values, below 1 KB as JSON.

        Counts batches that were handed out, not those made ahead. All ranks have the same but
        for ``tally``, the proof of what each delivered: see :func:`gular.merge_states`.
        """
        state: Dict[str, Any] = json.loads(self._handed or self._loader.state())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where ``state`` was taken: the next iteration gives what was left of its
        epoch, or the epoch after it where nothing was. Reads nothing.

        Orders ``elastic`` and ``window`` go on with any number of ranks.
        """
        state = state_of(state)
        try:
            seat = ranks.found(self._own)
        except RankError:
            # It may be known when the epoch begins.
            seat = ranks.Seat(0, int(state.get("world_size", 1)))
        self._pending = json.dumps(state, default=plain)
        epoch, over = self._loader.restore(self._pending, seat)
        self._iterations += 1
        self._restored = self._iterations
        self._handed = None
        self._epoch = epoch + 1 if over else epoch

    def check_delivered(self, state: Optional[Mapping[str, Any]] = None) -> str:
        """Proves that what ``state`` (by default this loader's) says was delivered is what the
        order has: ``1,281,167 samples, each once``.

        With several ranks, give it the merged states of all: :func:`gular.merge_states`.

        :raises gular.DeliveryError: with the first difference.
        """
        text = json.dumps(self.state_dict() if state is None else state_of(state), default=plain)
        return self._loader.check_delivered(text)

    def stats(self) -> Dict[str, Any]:
        """Sums since the loader was made: batches, samples, seconds in each phase, and which
        side waits for the other (``bottleneck``); ``each_in`` is where ``each`` is called, and ``each_replaced`` counts
        its processes that were ended and replaced; ``waiting_for`` is the shard that is being fetched and waited for now, ``fitted`` what was chosen by the bundle's pictures, and
        ``repaired_blocks`` counts, for each shard, the blocks and indexes that were damaged on this
        machine and fetched again."""
        stats: Dict[str, Any] = json.loads(self._loader.stats())
        if self._workers is not None:
            stats["each_in"], stats["each_workers"] = self._workers.where, self._workers.n
            stats["each_replaced"] = self._workers.replaced
        return stats

    @property
    def classes(self) -> List[str]:
        """Names of the classes; a label is a position in this list."""
        return list(self._about["classes"])

    @property
    def batch_size(self) -> int:
        """Samples per batch, on each rank."""
        return int(self._arguments[1]["batch_size"])

    @property
    def dataset(self) -> Samples:
        """For scripts that ask PyTorch's loader for it: ``len(loader.dataset)`` is
        :attr:`n_samples`, and ``loader.dataset.class_to_idx`` are the labels."""
        return Samples(self.n_samples, self.classes)

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
        """Which of the ranks this is, from 0: as it is known now."""
        return ranks.found(self._own).rank

    @property
    def world_size(self) -> int:
        """How many ranks share each epoch: as it is known now."""
        return ranks.found(self._own).world_size

    @property
    def workers(self) -> int:
        """Threads that decode."""
        return int(self._about["workers"])

    def _warn_of_repetition(self, epoch: int, seat: ranks.Seat) -> None:
        """Warns once of an epoch with the order and the crops of one that this process has begun."""
        global _has_warned
        arguments = self._arguments[1]
        if arguments["split"] != "train" or not arguments["shuffle"] or self._turns[1] > 1:
            return
        if arguments["select"] is not None:
            return
        # Lists of keys may be long.
        lists = tuple(hash(tuple(arguments[name] or ())) for name in ("keys", "never"))
        known = [arguments[name] for name in ("seed", "order", "window", "batch_size", "size", "transform", "augment", "fold", "draw")]
        begun = (self.digest, repr(known), lists, epoch, seat)
        if begun in _begun and not _has_warned:
            _has_warned = True
            warnings.warn(
                f"epoch {epoch} with seed {arguments['seed']} was begun before in this process: its order and its random "
                "numbers are the same again. Make the loader once, before the epochs, or call `set_epoch` on each "
                "new one; for another run, give another `seed`",
                RepeatedEpochWarning,
                stacklevel=3,
            )
        _begun.add(begun)

    def _warn_of_empty_batches(self, seat: ranks.Seat) -> None:
        arguments, world_size, known = self._arguments[1], seat.world_size, self._warned
        self._warned = seat
        is_full = arguments["drop_last"] or arguments["order"] == "torch" or not arguments["shuffle"]
        if known == seat or arguments["split"] != "train" or is_full or self._turns[0]:
            return
        # The last step's samples are dealt to the ranks one by one.
        in_last_step = self.n_samples % (self.batch_size * world_size)
        if 0 < in_last_step < world_size:
            warnings.warn(
                f"the last batch of each epoch is empty on {world_size - in_last_step} of {world_size} ranks, where a "
                'mean over its samples is NaN: pass `drop_last=True`, or `order="torch"`, which repeats samples',
                EmptyBatchWarning,
                stacklevel=3,
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            hint = _NOT_HERE.get(name)
            raise AttributeError(f"a gular.DataLoader has no {name!r}" + (f": {hint}" if hint else ""))

    def __repr__(self) -> str:
        source, arguments = self._arguments
        return mask(f"gular.DataLoader({source!r}, {arguments['split']!r}, {arguments['batch_size']})")

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
    all_states = [state_of(state) for state in states]
    if all_states and all("loaders" in state for state in all_states):
        # Of a gular.Mix: the loaders of each rank, in turn.
        loaders = zip(*(state["loaders"] for state in all_states))
        return {**all_states[0], "loaders": [merge_states(of_ranks) for of_ranks in loaders]}
    merged: Dict[str, Any] = json.loads(_gular.merge_states([json.dumps(state, default=plain) for state in all_states]))
    return merged


def _made_again(source: str, arguments: Dict[str, Any], state: Dict[str, Any], epoch: int) -> DataLoader:
    loader = DataLoader(source, **arguments)
    loader.load_state_dict(state)
    if not state["consumed"]:
        loader.set_epoch(epoch)
    return loader


class _Shown:
    """The signature that ``help`` shows for the class: each option with its default, without types.
    A subclass has a signature of its own."""

    def __init__(self, shown: Callable[..., Any]) -> None:
        signature = inspect.signature(shown)
        parameters = [
            one.replace(annotation=inspect.Parameter.empty)
            for one in signature.parameters.values()
            if one.name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        self._shown = inspect.Signature(parameters)

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if owner is not DataLoader:
            raise AttributeError("__signature__")
        return self._shown


def _sketch(self, source, split="train", batch_size=64, **options): ...  # type: ignore[no-untyped-def]


# `help` shows the signature of the class, then that of `__init__`, which would be the same again.
setattr(DataLoader, "__signature__", _Shown(DataLoader.__init__))
setattr(DataLoader.__init__, "__signature__", inspect.signature(_sketch))
