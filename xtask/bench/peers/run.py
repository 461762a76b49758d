"""A peer of `cargo xtask bench loader`, which says what the numbers mean.

    run.py pack --peer P --images DIR --store PATH
    run.py host --peer P --stack S --images DIR --store PATH --mode warm|epoch|first

`host` gets ready and says `{"contestants": [P], "facts": …}`. Then it takes turns: for each line
`P<TAB>SECONDS` it answers with a line of JSON, and ends with its input.

    warm    batches for so many seconds, of a loader that goes on from turn to turn
    epoch   a whole epoch, in a process of its own that opens the store: for cold files
    first   the same up to the first batch
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
import traceback
from importlib.metadata import PackageNotFoundError, version

import meter
from stacks import STACKS, Normalise
from stores import PEERS, Collate, forever, listed

# Images whose pixels are compared: the first by path.
COMPARED = 8
# Images on which the extent of decoding is counted.
COUNTED = 64
# What decides rates beside the peer itself.
PACKAGES = ("torch", "numpy", "pillow", "torchvision", "simplejpeg", "opencv-python-headless")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["pack", "host"])
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--stack", choices=[*STACKS, "own"], default="pillow")
    parser.add_argument("--mode", choices=["warm", "epoch", "first"], default="warm")
    parser.add_argument("--images", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    settings = parser.parse_args()
    # Peers print what they like: to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(record):
        answers.write(json.dumps(record) + "\n")
        answers.flush()

    try:
        store = prepared(settings)
        if settings.verb == "pack":
            say(pack(store, settings))
        else:
            serve(store, settings, say)
    except Exception as error:
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {error}"})
    # Some leave threads that never end.
    sys.stderr.flush()
    os._exit(0)


def prepared(settings):
    peer = PEERS[settings.peer]
    stack = None if settings.stack == "own" else STACKS[settings.stack]
    needs = peer.needs + (stack.needs if stack else ())
    absent = [name for name in needs if importlib.util.find_spec(name) is None]
    if absent:
        lacking = peer if absent[0] in peer.needs else stack
        raise ModuleNotFoundError(f"no module {', '.join(absent)}; install: {lacking.install}")
    return peer(settings.images, settings.store)


def pack(store, settings):
    target = pathlib.Path(settings.store)
    if target.exists():
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    watch = meter.Watch()
    store.pack()
    seconds = watch.elapsed()
    files = [p for p in ([target] if target.is_file() else target.rglob("*")) if p.is_file()]
    return {"pack_seconds": seconds, "bytes": sum(p.stat().st_size for p in files), "files": len(files)}


def serve(store, settings, say):
    import torch

    # More would spin at barriers beside the workers.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    if settings.mode == "warm":
        found = facts(store, settings)
        batches = numbers(store, settings, endless=True)
        next(batches)

        def turn(seconds):
            return warm(batches, seconds)
    else:
        # What was imported here need not be imported in each turn.
        store.ready()
        found = {"order": store.order, "decoder": settings.stack}

        def turn(_seconds):
            return apart(lambda: once(store, settings))

    say({"contestants": [settings.peer], "facts": {**found, "versions": versions(store)}})
    for line in sys.stdin:
        try:
            say(turn(float(line.rpartition("\t")[2])))
        except Exception as error:
            traceback.print_exc()
            say({"error": f"{type(error).__name__}: {error}"})


def numbers(store, settings, endless):
    """Batches as a network takes them: f32 NCHW, normalised; each with its number of images."""
    import torch

    own = settings.stack == "own"
    stack = None if own else STACKS[settings.stack]
    normalise = Normalise()
    loader = store.loader(None if own else Collate(stack, settings.size), settings)
    expected = (settings.batch, 3, settings.size, settings.size)
    for batch, labels in forever(loader) if endless else loader:
        if own and batch.dtype == torch.float32:
            pixels = batch
        else:
            pixels = normalise(batch, stack.chw if stack else False)
        if tuple(pixels.shape) != expected or pixels.dtype != torch.float32 or len(labels) != settings.batch:
            raise ValueError(f"a batch is {tuple(pixels.shape)} {pixels.dtype}, expected {expected} float32")
        yield len(labels)


def warm(batches, seconds):
    # What was made before this turn is taken first.
    watch = meter.Watch()
    while watch.elapsed() < seconds / 4:
        next(batches)
    images, watch = 0, meter.Watch()
    while watch.elapsed() < seconds:
        images += next(batches)
    return {**watch.answer(images), "memory_bytes": meter.memory_bytes()}


def once(store, settings):
    """One epoch from opening the store on, or its first batch."""
    watch, images, first = meter.Watch(), 0, None
    due = len(listed(settings.images)) // settings.batch
    for count, n in enumerate(numbers(store, settings, endless=False), start=1):
        images += n
        first = first or watch.elapsed()
        if count >= due or settings.mode == "first":
            break
    if not images:
        raise ValueError("an epoch without a batch")
    return {**watch.answer(images), "ms": first * 1e3}


def apart(work):
    """What `work` returns in a process of its own, which leaves nothing open and nothing mapped."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer = work()
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(answer).encode())
        meter.end_children()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        text = f.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the process of a turn was killed"}


def versions(store):
    found = {}
    for name in (*PACKAGES, *store.packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


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
        return {**found, "decoder": store.own, "dct": "full", "decodes": store.decodes}
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


# Some peers start Python again, which imports this file.
if __name__ == "__main__":
    main()
