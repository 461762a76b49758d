"""One measurement of one peer in a process of its own; prints one line of JSON.

    run.py images --images DIR --n N [--source DIR]
    run.py pack --peer P --images DIR --store PATH
    run.py load --peer P --stack S --images DIR --store PATH [--workers N --batch N --size N --seconds S]
    run.py facts …   what `load` decodes: the same arguments

`cargo xtask bench peers` calls this; see there for what the numbers mean.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import sys
import time

import meter
from stacks import STACKS, Normalise
from stores import PEERS, Collate, listed

# Images whose pixels are compared: the first by path.
COMPARED = 8
# Images on which the extent of decoding is counted.
COUNTED = 64


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["images", "pack", "load", "facts"])
    parser.add_argument("--peer", choices=PEERS)
    parser.add_argument("--stack", choices=[*STACKS, "own"], default="pillow")
    parser.add_argument("--images", required=True)
    parser.add_argument("--store", default="")
    parser.add_argument("--source")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=3)
    settings = parser.parse_args()
    if settings.verb == "images":
        return say(make(settings) if not settings.source else choose(settings))
    peer = PEERS[settings.peer]
    needs = peer.needs + (() if settings.stack == "own" else STACKS[settings.stack].needs)
    absent = [name for name in needs if importlib.util.find_spec(name) is None]
    if absent:
        lacking = peer if absent[0] in peer.needs else STACKS[settings.stack]
        return say({"missing": absent, "install": lacking.install})
    store = peer(settings.images, settings.store)
    say({"pack": pack, "load": load, "facts": facts}[settings.verb](store, settings))


def say(record):
    # Peers print what they like; the record is the last line.
    print("\n" + json.dumps(record), flush=True)
    # Some leave threads that never end.
    sys.stdout.flush()
    os._exit(0)


def make(settings):
    """JPEGs of about 100 KB, 500 by 375: noise at several scales, as photographs have it."""
    import numpy
    from PIL import Image

    noise = numpy.random.default_rng(0)
    for i in range(settings.n):
        total = numpy.zeros((375, 500, 3), "float32")
        for side, weight in ((4, 90), (16, 50), (64, 25), (250, 14)):
            layer = noise.normal(size=(side * 3 // 4, side, 3)).astype("float32") * weight
            layers = [Image.fromarray(layer[..., c]).resize((500, 375), Image.Resampling.BICUBIC) for c in range(3)]
            total += numpy.stack([numpy.asarray(x) for x in layers], axis=-1)
        folder = pathlib.Path(settings.images) / f"class-{i % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        picture = numpy.clip(total + 128, 0, 255).astype("uint8")
        Image.fromarray(picture).save(folder / f"{i:06d}.jpg", quality=92)
    return described(settings)


def choose(settings):
    """So many JPEGs, spread over all of a folder; the class is a file's folder, or in
    a folder of files its name up to the first `_`."""
    root = pathlib.Path(settings.source)
    found = sorted(p for p in root.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
    if not found:
        sys.exit(f"no JPEG below `{root}`")
    n = min(settings.n, len(found))
    for i in range(n):
        path = found[i * len(found) // n]
        label = path.name.split("_")[0] if path.parent == root else path.parent.name
        folder = pathlib.Path(settings.images) / label
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / f"{i:06d}.jpg")
    return described(settings)


def described(settings):
    sizes = [path.stat().st_size for path, _ in listed(settings.images)]
    return {"images": len(sizes), "bytes": sum(sizes), "made": not settings.source}


def pack(store, settings):
    target = pathlib.Path(settings.store)
    if target.exists():
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    watch = meter.Watch()
    store.pack()
    seconds = watch.elapsed()
    files = [p for p in ([target] if target.is_file() else target.rglob("*")) if p.is_file()]
    return {"pack_seconds": seconds, "bytes": sum(p.stat().st_size for p in files), "files": len(files)}


def load(store, settings):
    import torch

    # More would spin at barriers beside the workers.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    own = settings.stack == "own"
    stack = None if own else STACKS[settings.stack]
    normalise = Normalise()
    begin = time.perf_counter()
    warm = 2 + 2 * settings.workers
    images, watch, first = 0, None, None
    for count, (batch, labels) in enumerate(store.loader(None if own else Collate(stack, settings.size), settings)):
        pixels = batch if own else normalise(batch, stack.chw)
        if first is None:
            first = time.perf_counter() - begin
            expected = (settings.batch, 3, settings.size, settings.size)
            if tuple(pixels.shape) != expected or pixels.dtype != torch.float32 or len(labels) != settings.batch:
                sys.exit(f"a batch is {tuple(pixels.shape)} {pixels.dtype}, expected {expected} float32")
        if watch:
            images += len(labels)
            if watch.elapsed() >= settings.seconds:
                break
        elif count + 1 >= warm:
            watch = meter.Watch()
    return {**watch.rates(images), "first_batch_s": first, "memory_bytes": meter.memory_bytes()}


def facts(store, settings):
    """Which bytes the peer hands to its decoder, and what that makes of them."""
    paths = [path for path, _ in listed(settings.images)]
    stored = store.samples()
    digests = None if stored is None else sorted(hashlib.sha256(bytes(data)).hexdigest() for data in stored)
    found = {
        "order": store.order,
        "bytes_digest": digests and hashlib.sha256("".join(digests).encode()).hexdigest(),
        "as_in_files": digests == sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths),
    }
    if settings.stack == "own":
        return {**found, "decoder": store.own, "dct": "full", "decodes": "whole images, encoded again"}
    stack = STACKS[settings.stack](settings.size)
    random.seed(0)
    some = [path.read_bytes() for path in paths[:COUNTED]]
    for data in some:
        stack(data)
    mean, reduced = stack.pixels / len(some), stack.reduced / len(some)
    whole = hashlib.sha256()
    for path in paths[:COMPARED]:
        picture = stack.whole(path.read_bytes())
        whole.update(f"{picture.shape[1]}x{picture.shape[0]}\n".encode())
        whole.update(picture.tobytes())
    return {
        **found,
        "decoder": stack.decoder,
        "dct": f"reduced for {100 * reduced:.0f} % of crops" if reduced else "full",
        "decodes": "whole images",
        "pixels_an_image": round(mean),
        "pixel_digest": whole.hexdigest(),
    }


main()
