"""Read a Gular bundle from Python: a map-style dataset and its samplers.

One file, to be copied into your project. Needs numpy; torch only if you hand
the classes to a DataLoader. Written from FORMAT.md alone:

    data = GularDataset("bundle", "train", transform=decode_and_augment)
    order = ElasticSampler(len(data), seed=7, rank=0, world=1)
    loader = torch.utils.data.DataLoader(data, 64, sampler=order, num_workers=4)
    for epoch in range(10):
        order.set_epoch(epoch)
        for images, labels in loader: ...

`data[i]` is `(value, label)`: the stored bytes of field `image` (a numpy array
for a fixed field), through `transform`; the class index, or -1. Indices count
as in Rust, so every order here gives the samples that the Rust loader gives.
Digests are not compared here: run `gular verify` once where the bundle arrives.
"""

import bisect
import json
import os

import numpy as np

_DTYPES = {"U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "I64": "<i8",
           "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}


def tensors(path):
    """The tensors of a safetensors file, as numpy views of a memory map, and its metadata."""
    file = np.memmap(path, mode="r")
    start = 8 + int.from_bytes(file[:8].tobytes(), "little")
    header = json.loads(file[8:start].tobytes())
    metadata = header.pop("__metadata__", {})
    found = {}
    for name, t in header.items():
        first, last = t["data_offsets"]
        found[name] = file[start + first : start + last].view(_DTYPES[t["dtype"]]).reshape(t["shape"])
    return found, metadata


def view(path, samples, entry):
    """Which rows of an index of `samples` count, and the labels of some: FORMAT.md, "View"."""
    with open(path, "rb") as f:
        data = f.read()
    n, m = np.frombuffer(data, "<u4", 2, 48).tolist() if len(data) >= 56 else (0, 0)
    words = 4 * -(-n // 32)
    if data[:16] != b"gular-view\0\0\1\0\0\0" or n != samples or len(data) != 56 + words + 8 * m:
        raise ValueError(f"{path}: not a view of {samples} samples")
    if data[16:48].hex() != entry["index"]["blake3"]:
        raise ValueError(f"{path}: the view of another index than {entry['index']['name']}")
    bits = np.unpackbits(np.frombuffer(data, np.uint8, words, 56), bitorder="little")
    rows = np.frombuffer(data, "<u4", m, 56 + words)
    labels = np.frombuffer(data, "<i4", m, 56 + words + 4 * m)
    if bits.sum() != entry["samples"] or bits[n:].any():
        raise ValueError(f"{path}: {bits.sum()} samples count, the manifest says {entry['samples']}")
    if (rows[1:] <= rows[:-1]).any() or (rows >= n).any() or not bits[rows].all():
        raise ValueError(f"{path}: its labels are not of samples that count, in order")
    return {"view.rows": np.flatnonzero(bits), "view.labels": dict(zip(rows.tolist(), labels.tolist()))}


class GularDataset:
    """A split of a local bundle. Pickles as its arguments, so workers open their own maps."""

    def __init__(self, path, split="train", field="image", transform=None):
        self.path, self.split, self.field, self.transform = os.fspath(path), split, field, transform
        with open(os.path.join(self.path, "manifest.json"), "rb") as f:
            manifest = json.loads(f.read())
        if manifest["format"] != "gular-bundle" or manifest["version"] not in (1, 2):
            raise ValueError(f"{path}: format {manifest['format']} {manifest['version']}, expected gular-bundle 1 or 2")
        if manifest["version"] == 1 and any("view" in s for s in manifest["shards"]):
            raise ValueError(f"{path}: version 1 has no views, and a shard lists one")
        self.classes = manifest.get("classes", [])
        self.fields = {f["name"]: f for f in manifest["fields"]}
        if field not in self.fields:
            raise KeyError(f"{path} has no field {field!r}; it has {sorted(self.fields)}")
        self.shards = [s for s in manifest["shards"] if s["split"] == split]
        if not self.shards:
            raise KeyError(f"{path} has no split {split!r}; it has {sorted({s['split'] for s in manifest['shards']})}")
        self.sizes = [s["samples"] for s in self.shards]
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(int).tolist()
        self._open = {}

    def __len__(self):
        return self.starts[-1]

    def __getstate__(self):
        return {**self.__dict__, "_open": {}}

    def _shard(self, number):
        if number not in self._open:
            entry = self.shards[number]
            # Packed or fetched, copied as published, or all in one folder (a job's sandbox).
            folders = [os.path.join(self.path, *way) for way in (["data"], ["..", "data"], [])]
            there = (d for d in folders if os.path.exists(os.path.join(d, entry["name"])))
            data = next(there, folders[0])
            shard = np.memmap(os.path.join(data, entry["name"]), mode="r")
            if len(shard) != entry["bytes"]:
                raise ValueError(f"{entry['name']}: {len(shard)} bytes, the manifest says {entry['bytes']}")
            at = tensors(os.path.join(data, entry["index"]["name"]))[0]
            if "view" in entry:
                at.update(view(os.path.join(data, entry["view"]["name"]), len(at["key.offsets"]) - 1, entry))
            self._open[number] = shard, at
        return self._open[number]

    def _row(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        index = int(index) % len(self)
        number = bisect.bisect_right(self.starts, index) - 1
        (shard, at), row = self._shard(number), index - self.starts[number]
        # Of a derived bundle, the row of the shard that is this sample.
        return shard, at, int(at["view.rows"][row]) if "view.rows" in at else row

    def key(self, index):
        """The sample's key: its path when it was packed."""
        _, at, row = self._row(index)
        first, last = at["key.offsets"][row : row + 2]
        return at["key.bytes"][first:last].tobytes().decode()

    def digest(self, index):
        """The BLAKE3 digest that the stored bytes of the field must have."""
        _, at, row = self._row(index)
        return at[f"{self.field}.digest"][row].tobytes()

    def raw(self, index):
        """The stored value of the field: bytes, or a numpy array when it is fixed."""
        shard, at, row = self._row(index)
        field, name = self.fields[self.field], self.field
        if name == "label":
            # A view may give another than the shard has, and some shards have none of 8 bytes.
            return np.array(self.label(index), np.int64)
        if field["kind"] == "bytes":
            first = int(at[f"{name}.offset"][row])
            return shard[first : first + int(at[f"{name}.length"][row])].tobytes()
        dtype = np.dtype(_DTYPES[field["dtype"].upper()])
        size = dtype.itemsize * int(np.prod(field["shape"], dtype=np.int64))
        base = f"{name}.base"
        first = int(at[base][0]) + row * size if base in at else int(at[f"{name}.offset"][row])
        return np.array(shard[first : first + size].view(dtype).reshape(field["shape"]))

    def label(self, index):
        """The class index; -1 when it is unknown."""
        _, at, row = self._row(index)
        if row in at.get("view.labels", ()):
            return at["view.labels"][row]
        return int(at["label"][row]) if "label" in at else -1

    def __getitem__(self, index):
        value = self.raw(index)
        return (self.transform(value) if self.transform else value), self.label(index)


# Orders: FORMAT.md, "Orders". uint64 arithmetic of numpy wraps, as it must.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _key(*parts):
    k = np.zeros(1, np.uint64)
    for part in parts:
        part = np.uint64(part & (2**64 - 1)) if isinstance(part, int) else part.astype(np.uint64)
        k = _mix(k + part + _GOLDEN)
    return k


def keyed_permutation(n, seed, epoch, stream):
    """The keyed permutation of range(n), as an int64 array."""
    x = np.arange(n, dtype=np.uint64)
    if n < 2:
        return x.astype(np.int64)
    half = np.uint64(((n - 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << int(half)) - 1)
    rounds = _mix(_key(seed, epoch, stream) + np.arange(1, 13, dtype=np.uint64) * _GOLDEN)
    todo = np.ones(n, bool)
    while todo.any():
        left, right = x[todo] >> half, x[todo] & mask
        for r in rounds:
            left, right = right, left ^ (_mix(right + r) & mask)
        x[todo] = left << half | right
        todo = x >= n
    return x.astype(np.int64)


# The tally of an epoch: FORMAT.md, "The tally of an epoch".
_M = 2**61 - 1
_IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
_COLUMNS_AND_DIAGONALS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def _blake3_of_block(words):
    """The first 8 bytes of BLAKE3 of messages of 64 bytes: uint32 [16, n] to uint64 [n]."""
    state = [np.full(words.shape[1], x, np.uint32) for x in [*_IV, *_IV[:4], 0, 0, 64, 11]]
    for _ in range(7):
        for (a, b, c, d), two in zip(_COLUMNS_AND_DIAGONALS, words.reshape(8, 2, -1)):
            for word, first, second in zip(two, (16, 8), (12, 7)):
                state[a] = state[a] + state[b] + word
                state[d] = _turn(state[d] ^ state[a], first)
                state[c] = state[c] + state[d]
                state[b] = _turn(state[b] ^ state[c], second)
        words = words[[2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]]
    low, high = (state[i] ^ state[i + 8] for i in range(2))
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


def _turn(x, n):
    return x >> np.uint32(n) | x << np.uint32(32 - n)


def terms(epoch, positions, samples, digests):
    """What samples with `digests` (uint8 [n, 32]) add to a tally at `positions` of `epoch`."""
    message = np.zeros((len(positions), 64), np.uint8)
    message[:, :8] = np.frombuffer(b"gularsum", np.uint8)
    numbers = [np.full(len(positions), epoch), positions, samples]
    message[:, 8:32] = np.stack(numbers, 1).astype("<u8").view(np.uint8).reshape(-1, 24)
    message[:, 32:] = digests
    return _blake3_of_block(np.ascontiguousarray(message.view("<u4").T)) % np.uint64(_M)


def tally(data, order, epoch=0, positions=None):
    """The `tally` of a state that has delivered `positions` (all of them, if None) of `order`."""
    positions = np.arange(len(order)) if positions is None else np.asarray(positions, np.int64)
    samples = np.asarray(order, np.int64)[positions]
    digests = np.stack([np.frombuffer(data.digest(i), np.uint8) for i in samples.tolist()])
    ranges, powers = [0] * 8, [0] * 7
    for position, term in zip(positions.tolist(), terms(epoch, positions, samples, digests).tolist()):
        ranges[position * 8 // len(order)] += term
        for k in range(7):
            term = term * (position + 1) % _M
            powers[k] += term
    return {"count": len(positions), "broken": 0, "ranges": [s % _M for s in ranges], "powers": [s % _M for s in powers]}


class _Sampler:
    """Deals a global order to ranks; resumes from `consumed`, for any world size but with `torch`."""

    def __init__(self, n, seed=0, rank=0, world=1):
        self.n, self.seed, self.rank, self.world = n, seed, rank, world
        self.epoch = self.consumed = 0

    def set_epoch(self, epoch, consumed=0):
        """Call before each epoch; `consumed` counts the positions all ranks together are past."""
        self.epoch, self.consumed = epoch, consumed

    def __iter__(self):
        return iter(self.order()[self.consumed + self.rank :: self.world].tolist())

    def __len__(self):
        return len(range(self.consumed + self.rank, self.n, self.world))


def folds(n, of, seed=0):
    """The fold, 0 to `of` - 1, that each sample of a split of n is in."""
    return keyed_permutation(n, seed, 0, 1 << 60) % of


def selection(chosen):
    """The `selection` of a state whose loader uses the samples `chosen` alone."""
    return int(_key(0, 0, np.asarray(chosen)).sum(dtype=np.uint64))


class WeightedSampler(_Sampler):
    """As many samples as there are weights (0 to 2**32 - 1), drawn by them with replacement."""

    def __init__(self, weights, seed=0, rank=0, world=1):
        super().__init__(len(weights), seed, rank, world)
        self.weights = np.asarray(weights, np.uint64)

    def checksum(self):
        return int(_key(0, self.weights, np.arange(self.n)).sum(dtype=np.uint64))

    def order(self):
        sums = np.cumsum(self.weights)
        draws = _key(self.seed, self.epoch, np.arange(self.n) + (1 << 62))
        return np.searchsorted(sums, _high_of_product(draws, int(sums[-1])), "right")


def mixture(weights, seed, steps):
    """Which of several bundles with these weights each of the first steps takes its batch from."""
    sums = np.cumsum(np.asarray(weights, np.uint64))
    draws = _key(seed, 0, np.arange(steps) + (1 << 62))
    return np.searchsorted(sums, _high_of_product(draws, int(sums[-1])), "right")


def _high_of_product(a, b):
    """The upper 64 bits of the products of a and the number b."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    b_low, b_high = np.uint64(b & (2**32 - 1)), np.uint64(b >> 32)
    one = (a >> half) * b_low + ((a & low) * b_low >> half)
    two = (a & low) * b_high + (one & low)
    return (a >> half) * b_high + (one >> half) + (two >> half)


class BalancedSampler(_Sampler):
    """As many samples as there are labels: each class, and each sample of it, as often as another."""

    def __init__(self, labels, seed=0, rank=0, world=1):
        super().__init__(len(labels), seed, rank, world)
        labels = np.asarray(labels)
        self.classes = [np.flatnonzero(labels == label) for label in np.unique(labels[labels >= 0])]

    def order(self):
        n_classes, order, passes = len(self.classes), [], {}
        for i in range(-(-self.n // n_classes)):
            for number in keyed_permutation(n_classes, self.seed, self.epoch, (1 << 62) + i).tolist():
                samples = self.classes[number]
                place = number, i // len(samples)
                if place not in passes:
                    stream = (1 << 61) + i // len(samples) * n_classes + number
                    passes[place] = samples[keyed_permutation(len(samples), self.seed, self.epoch, stream)]
                order.append(passes[place][i % len(samples)])
        return np.asarray(order[: self.n], np.int64)


class ElasticSampler(_Sampler):
    """Each sample once an epoch, for any number of ranks."""

    def order(self):
        return keyed_permutation(self.n, self.seed, self.epoch, 0)


class WindowSampler(_Sampler):
    """Shards permuted, samples permuted within `window` consecutive ones; `sizes` is `data.sizes`."""

    def __init__(self, sizes, window, seed=0, rank=0, world=1):
        super().__init__(sum(sizes), seed, rank, world)
        self.sizes, self.window = sizes, window

    def order(self):
        starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        shards = keyed_permutation(len(self.sizes), self.seed, self.epoch, 1)
        parts = []
        for number, first in enumerate(range(0, len(shards), self.window)):
            inside = [np.arange(starts[s], starts[s + 1]) for s in shards[first : first + self.window]]
            inside = np.concatenate(inside)
            parts.append(inside[keyed_permutation(len(inside), self.seed, self.epoch, 2 + number)])
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
