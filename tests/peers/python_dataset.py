"""tutorials/python/gular_dataset.py against the Rust program and PyTorch itself.

Same bytes, same labels, same orders; pickling; several DataLoader workers,
forked and spawned.
"""

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


if __name__ == "__main__":
    make_images()
    bytes_and_labels()
    orders()
    pickling_and_workers()
    lines = len(pathlib.Path(gular_dataset.__file__).read_text().splitlines())
    check("one file below 200 lines", lines < 200, str(lines))
    print(f"torch {torch.__version__}, numpy {np.__version__}")
    sys.exit(failures > 0)
