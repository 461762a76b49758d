"""tutorials/python/gular_dataset.py against the Rust program and PyTorch itself.

Same bytes, same labels, same orders; pickling; several DataLoader workers,
forked and spawned. Payloads `raw` and `reencoded` against Pillow's pixels.
"""

import io
import json
import os
import pathlib
import pickle
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tutorials" / "python"))

try:
    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, DistributedSampler
except ImportError as missing:
    print(f"skip python_dataset: {missing.name} missing, install: pip install torch numpy pillow")
    sys.exit(0)

import gular_dataset
from gular_dataset import ElasticSampler, GularDataset, WindowSampler

GULAR = os.environ["GULAR_BIN"]
PRINT_ORDER = os.path.join(os.environ["GULAR_PEER_EXAMPLES"], "print_order")
PRINT_TALLY = os.path.join(os.environ["GULAR_PEER_EXAMPLES"], "print_tally")
failures = 0


def check(name, holds, why=""):
    global failures
    print(f"ok {name}" if holds else f"fail {name}: {why}")
    failures += not holds


def make_images():
    noise = np.random.default_rng(0)
    for i in range(60):
        split, label = ("val" if i % 5 == 0 else "train"), f"class {i % 3}"
        folder = pathlib.Path("images") / split / label
        folder.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 256, (200 + i, 300, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / (f"{i}.png" if i % 4 else f"{i}.jpg"))
    subprocess.run([GULAR, "pack", "images", "bundle", "--shard-size", "1MiB", "--quiet"], check=True)


def rust_order(order, seed, epoch, rank, world, sizes):
    args = [PRINT_ORDER, order, seed, epoch, rank, world, ",".join(map(str, sizes))]
    return json.loads(subprocess.run([str(a) for a in args], check=True, capture_output=True).stdout)


def length_and_label(item):
    return len(item[0]), item[1]


def bytes_and_labels():
    for split in ["train", "val"]:
        data = GularDataset("bundle", split)
        files = {data.key(i): i for i in range(len(data))}
        expected = {str(p.relative_to("images")) for p in pathlib.Path("images", split).rglob("*.*")}
        check(f"keys of {split}", set(files) == expected, f"{len(files)} of {len(expected)}")
        same = all(data.raw(i) == pathlib.Path("images", key).read_bytes() for key, i in files.items())
        check(f"bytes of {split}", same, "a sample differs from its file")
        named = all(data.classes[data[i][1]] == key.split("/")[1] for key, i in files.items())
        check(f"labels of {split}", named, "a label differs from its folder")
    listed = subprocess.run([GULAR, "inspect", "bundle", "--samples", "1000", "--json"], check=True, capture_output=True)
    rows = [r for r in json.loads(listed.stdout)["sample_list"] if r["split"] == "train"]
    data = GularDataset("bundle", "train")
    same = [(r["key"], r["label"], "blake3:" + data.digest(i).hex()) for i, r in enumerate(rows)]
    ours = [(data.key(i), data.label(i), r["digest"]) for i, r in enumerate(rows)]
    check("same numbering as gular inspect", same == ours and len(rows) == len(data))
    try:
        data[len(data)]
        check("a sample past the end is an IndexError", False, "none was raised")
    except IndexError:
        check("a sample past the end is an IndexError", True)


def orders():
    data = GularDataset("bundle", "train")
    check("several shards", len(data.sizes) > 3, str(data.sizes))
    for world in [1, 2, 3]:
        for rank in range(world):
            for seed, epoch in [(0, 0), (7, 3), (2**40 + 1, 11)]:
                what = f"rank {rank} of {world}, seed {seed}, epoch {epoch}"
                ours = ElasticSampler(len(data), seed, rank, world)
                ours.set_epoch(epoch)
                check(f"elastic {what}", list(ours) == rust_order("elastic", seed, epoch, rank, world, data.sizes))
                ours = WindowSampler(data.sizes, 2, seed, rank, world)
                ours.set_epoch(epoch)
                check(f"window {what}", list(ours) == rust_order("window:2", seed, epoch, rank, world, data.sizes))
                theirs = DistributedSampler(data, world, rank, seed=seed)
                theirs.set_epoch(epoch)
                check(f"torch {what}", list(theirs) == rust_order("torch", seed, epoch, rank, world, data.sizes))
    whole = ElasticSampler(len(data), 5)
    first = list(whole)[:10]
    rest = []
    for rank in range(3):
        resumed = ElasticSampler(len(data), 5, rank, 3)
        resumed.set_epoch(0, consumed=10)
        check(f"length when resumed, rank {rank}", len(resumed) == len(list(resumed)))
        rest += list(resumed)
    check("resumed with another world size", sorted(first + rest) == list(range(len(data))))


def tallies():
    data = GularDataset("bundle", "train")
    for seed, epoch, consumed in [(0, 0, len(data)), (7, 3, 17), (2**40 + 1, 2**33, len(data))]:
        args = [PRINT_TALLY, "bundle", seed, epoch, consumed]
        told = subprocess.run([str(a) for a in args], check=True, capture_output=True).stdout
        order = ElasticSampler(len(data), seed)
        order.set_epoch(epoch)
        ours = gular_dataset.tally(data, order.order(), epoch, range(consumed))
        check(f"tally of seed {seed}, epoch {epoch}, {consumed} positions", ours == json.loads(told), f"{ours}, {told}")


def draws():
    # The same values are in the tests of crates/order/src/draw.rs and runtime/tests/sampling.rs.
    weighted = gular_dataset.WeightedSampler([i * i for i in range(10)], seed=7)
    weighted.set_epoch(3)
    check("weighted order", list(weighted) == [6, 9, 7, 7, 8, 9, 9, 8, 7, 6], str(list(weighted)))
    check("checksum of weights", weighted.checksum() == 2849359914551407473, str(weighted.checksum()))
    balanced = gular_dataset.BalancedSampler([0, 0, 0, 0, 0, 2, 2, 0, -1, 5], seed=7)
    balanced.set_epoch(3)
    check("balanced order", list(balanced) == [6, 9, 7, 5, 9, 1, 3, 6, 9, 0], str(list(balanced)))
    folds = gular_dataset.folds(10, 3, seed=5).tolist()
    check("folds", folds == [0, 2, 2, 0, 1, 0, 0, 1, 1, 2], str(folds))
    chosen = gular_dataset.selection([1, 5, 7])
    check("checksum of a selection", chosen == 5267654460873892068, str(chosen))
    halves = [list(gular_dataset.WeightedSampler(range(1, 100), 1, rank, 2)) for rank in range(2)]
    whole = list(gular_dataset.WeightedSampler(range(1, 100), 1))
    check("ranks share what is drawn", [whole[0::2], whole[1::2]] == halves)


def pickling_and_workers():
    data = GularDataset("bundle", "train", transform=bytes)
    again = pickle.loads(pickle.dumps(data))
    check("pickling", all(data[i] == again[i] for i in range(len(data))))
    check("a pickled dataset carries no shard", len(pickle.dumps(data)) < 20_000, str(len(pickle.dumps(data))))
    expected = [length_and_label(data[i]) for i in ElasticSampler(len(data), 1)]
    for workers, context in [(0, None), (2, "fork"), (3, "spawn")]:
        loader = DataLoader(data, 8, sampler=ElasticSampler(len(data), 1), num_workers=workers,
                            multiprocessing_context=context, collate_fn=list)
        got = [length_and_label(item) for batch in loader for item in batch]
        check(f"{workers} workers, {context}", got == expected, f"{len(got)} of {len(expected)}")


def pack(source, out, *options):
    subprocess.run([GULAR, "pack", source, out, "--labels", "none", "--quiet", *options], check=True)
    data = GularDataset(out, "train")
    with open(os.path.join(out, "manifest.json"), "rb") as f:
        return data, json.load(f), {data.key(i): data[i][0] for i in range(len(data))}


def sums_are(name, manifest, arrays):
    pixels = np.concatenate([a.reshape(-1, a.shape[-1]) for a in arrays]).astype(object)
    expected = {"pixels": len(pixels), "sum": [str(n) for n in pixels.sum(0)],
                "sum_of_squares": [str(n) for n in (pixels * pixels).sum(0)]}
    check(f"statistics of {name}", manifest["statistics"] == expected, str(manifest["statistics"]))


def pixels():
    noise = np.random.default_rng(1)
    folder = pathlib.Path("modes")
    folder.mkdir()
    for mode, channels in [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)]:
        value = noise.integers(0, 256, (30, 40, channels), dtype=np.uint8)
        Image.fromarray(value.squeeze()).save(folder / f"{mode}.png")
    Image.open(folder / "RGB.png").quantize(50).save(folder / "P.png")
    _, manifest, values = pack("modes", "raw", "--payload", "raw", "--size", "40x30")
    for key, value in values.items():
        same = np.array_equal(value, np.asarray(Image.open(folder / key).convert("RGB")))
        check(f"raw pixels of {key} are Pillow's", value.dtype == np.uint8 and same, str(value.shape))
    check("raw samples", len(values) == 5, str(list(values)))
    sums_are("raw", manifest, list(values.values()))

    deep = pathlib.Path("deep")
    deep.mkdir()
    for i in range(3):
        Image.fromarray(noise.integers(0, 65536, (30, 40), dtype=np.uint16)).save(deep / f"{i}.png")
    _, manifest, values = pack("deep", "u16", "--payload", "raw", "--size", "40x30", "--channels", "1")
    for key, value in values.items():
        same = np.array_equal(value[..., 0], np.asarray(Image.open(deep / key)))
        check(f"16-bit pixels of {key} are Pillow's", value.dtype == np.uint16 and same, str(value.shape))
    sums_are("u16", manifest, list(values.values()))

    smooth = pathlib.Path("smooth")
    smooth.mkdir()
    y, x = np.mgrid[0:90, 0:140]
    Image.fromarray(np.stack([x, y * 2, x + y], 2).astype(np.uint8)).save(smooth / "slope.png")
    source = Image.open(smooth / "slope.png")
    _, _, values = pack("smooth", "crop", "--payload", "raw", "--size", "48")
    # The short side 48, the long one rounded down, then the middle.
    resized = source.resize((140 * 48 // 90, 48), Image.Resampling.BILINEAR)
    left = round((resized.width - 48) / 2)
    theirs = np.asarray(resized.crop((left, 0, left + 48, 48))).astype(int)
    far = np.abs(values["slope.png"].astype(int) - theirs).max()
    check("a resized crop is Pillow's to within 1", far <= 1, str(far))

    _, manifest, values = pack("smooth", "jpeg", "--payload", "reencoded", "--max-side", "70", "--quality", "95")
    check("reencoded field", manifest["fields"][0]["media_types"] == ["image/jpeg"], str(manifest["fields"]))
    stored = Image.open(io.BytesIO(values["slope.png"]))
    check("reencoded is JPEG of the size asked for", (stored.format, stored.size) == ("JPEG", (70, 45)), str(stored))
    theirs = np.asarray(source.resize((70, 45), Image.Resampling.BILINEAR)).astype(int)
    far = np.abs(np.asarray(stored).astype(int) - theirs).mean()
    check("reencoded pixels are near Pillow's", far < 2, str(far))


def views():
    keys = [GularDataset("bundle", "train").key(i) for i in range(5)]
    pathlib.Path("t.csv").write_text("file_name,label\n" + "".join(f"{key},new\n" for key in keys[1:4]))
    pathlib.Path("keys").write_text("\n".join(keys))
    derive = [GULAR, "derive", "bundle", "part", "--labels", "t.csv", "--keys", "keys", "--quiet"]
    subprocess.run(derive, check=True)
    data, labels = GularDataset("part", "train"), GularDataset("part", "train", "label")
    names = {data.key(i): data.classes[data.label(i)] for i in range(len(data))}
    expected = {key: "new" if key in keys[1:4] else key.split("/")[1] for key in keys}
    check("labels of a view", names == expected, str(names))
    check("labels of a view as a field", all(labels[i][0] == data.label(i) for i in range(len(data))))
    manifest_path = pathlib.Path("part/manifest.json")
    text = manifest_path.read_text()
    manifest = json.loads(text)
    path = pathlib.Path("part/data", manifest["shards"][0]["view"]["name"])
    whole = path.read_bytes()
    words = 4 * -(-int.from_bytes(whole[48:52], "little") // 32)

    def refused():
        try:
            return GularDataset("part", "train")[0] is None
        except ValueError:
            return True

    for what, damaged in [
        ("of another index", whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]),
        ("that is longer", whole + b"\0"),
        ("that is cut", whole[:50]),
        ("of more samples", whole[:56] + b"\xff" + whole[57:]),
        ("with a label too far", whole[: 56 + words] + b"\xff" * 4 + whole[60 + words :]),
    ]:
        path.write_bytes(damaged)
        check(f"a view {what} is refused", refused())
    path.write_bytes(whole)
    check("a whole view is not", not refused())
    manifest_path.write_text(text.replace('"version":2', '"version":1', 1))
    check("a view in version 1 is refused", refused())


if __name__ == "__main__":
    make_images()
    bytes_and_labels()
    views()
    pixels()
    orders()
    tallies()
    draws()
    pickling_and_workers()
    lines = len(pathlib.Path(gular_dataset.__file__).read_text().splitlines())
    check("one file below 400 lines", lines < 400, str(lines))
    print(f"torch {torch.__version__}, numpy {np.__version__}")
    sys.exit(failures > 0)
