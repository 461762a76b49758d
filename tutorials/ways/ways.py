"""One training run, fed six ways, from a federation as far away as a real one.

    python ways.py --images 1000 --latency 20ms --limit-rate 100MB/s

makes pictures, publishes them as files, as one zip and as a bundle, and trains on them six times, each
time with an empty cache at the federation. It prints a table, and writes ways.json, which the notebook
plots. Nothing is measured that is not equal: all ways give the same samples in the same order, so
their losses are equal to the last bit.
"""

import argparse
import collections
import concurrent.futures
import functools
import io
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import time
import urllib.request
import zipfile
from urllib.parse import urlsplit

import gular
import numpy as np
import torch
from PIL import Image

GULAR = os.environ.get("GULAR_BIN", "gular")
SIDE = 96
CLASSES = 4
BATCH = 32
EPOCHS = 2
# Shards of a window: the streamed bundle begins when two of them are there.
WINDOW = 2


def make_images(folder, n):
    """`folder/class0/00000.png` and so on: a gradient for each class, and noise.

    PNG gives back each pixel as it was, whoever decodes it; noise makes a file of 28 KB of each.
    """
    chance = np.random.default_rng(0)
    slope = np.linspace(0, 64, SIDE)
    for i in range(n):
        label = i % CLASSES
        base = slope[:, None] if label < 2 else slope[None, :]
        base = base if label % 2 else 64 - base
        pixels = base[..., None] + chance.integers(0, 192, (SIDE, SIDE, 3))
        path = folder / f"class{label}" / f"{i:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path, compress_level=1)


def say(*args):
    """Runs the program; its JSON object."""
    done = subprocess.run([GULAR, *map(str, args), "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


class Federation:
    """`gular federation serve` while the `with` block lasts, its cache empty at the start."""

    def __init__(self, folder, *options):
        self.folder, self.options = folder, [*options, "--public-read", "--cold"]

    def __enter__(self):
        command = [GULAR, "federation", "serve", self.folder, *self.options, "--json", "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = json.loads(self.process.stdout.readline())
        self.url = said["url"]
        os.environ["SSL_CERT_FILE"] = said["ca"]
        scopes = ["--read", "/", "--create", "/"]
        minted = subprocess.run([GULAR, "federation", "token", self.folder, *scopes], stdout=subprocess.PIPE, check=True)
        os.environ["BEARER_TOKEN"] = minted.stdout.decode().strip()
        trust = ssl.create_default_context(cafile=said["ca"])
        counts = f"https://{urlsplit(self.url).netloc}/.well-known/gular-counts"
        self._counts = functools.partial(urllib.request.urlopen, counts, context=trust)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def counts(self):
        """What clients asked of it so far, and were sent."""
        with self._counts() as answer:
            return json.load(answer)


def publish(work, n):
    """Makes the pictures, and publishes them in three forms."""
    images = work / "images"
    make_images(images, n)
    with zipfile.ZipFile(work / "images.zip", "w", zipfile.ZIP_STORED) as file:
        for path in sorted(images.rglob("*.png")):
            file.write(path, path.relative_to(images))
    shard = max(n * SIDE * SIDE * 3 // 16, 1 << 20)
    packed = say("pack", images, work / "bundle", "--shard-size", shard)
    with Federation(work / "federation") as federation:
        say("publish", "-r", images, f"{federation.url}/images", "--jobs", 8)
        say("publish", work / "images.zip", f"{federation.url}/images.zip")
        say("publish", work / "bundle", f"{federation.url}/bundle/v1")
    return packed["digest"].replace(":", "=")


def batches_of(read, keys, threads):
    """Batches of what `read` gives for each key, in this order; `threads` read ahead."""
    ahead = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        keys = iter(keys)
        while True:
            while len(ahead) < 4 * BATCH and (key := next(keys, None)) is not None:
                ahead.append((pool.submit(read, key), int(key.split("/")[0].removeprefix("class"))))
            if not ahead:
                return
            batch = [ahead.popleft() for _ in range(min(BATCH, len(ahead)))]
            pictures = np.stack([picture.result() for picture, _ in batch])
            yield torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous(), torch.tensor([label for _, label in batch])


def decode(bytes):
    return np.asarray(Image.open(io.BytesIO(bytes)).convert("RGB"))


class Files:
    """A way that opens each picture by itself."""

    def __init__(self, orders, threads, read):
        self.orders, self.threads, self.read = orders, threads, read

    def epoch(self, number):
        return batches_of(lambda key: decode(self.read(key)), self.orders[number], self.threads)


class Bundle:
    """A way whose batches Gular's loader makes."""

    def __init__(self, source, threads, **options):
        self.loader = loader(source, threads, **options)

    def epoch(self, number):
        self.loader.set_epoch(number)
        return ((batch["image"], batch["label"]) for batch in self.loader)


def loader(source, threads, **options):
    return gular.DataLoader(
        source, "train", BATCH, order="window", window=WINDOW, seed=1, workers=threads, transform=gular.Resize(SIDE, SIDE),
        numbers="stored", output="torch", epochs=EPOCHS, **options,
    )  # fmt: skip


def local_files(run):
    return Files(run.orders, run.threads, lambda key: (run.work / "images" / key).read_bytes())


def pelicanfs(run):
    from pelicanfs.core import PelicanFileSystem

    url = urlsplit(run.federation.url)
    fs = PelicanFileSystem(f"pelican://{url.netloc}", skip_instance_cache=True)
    return Files(run.orders, run.threads, lambda key: fs.cat_file(f"{url.path}/images/{key}"))


def pelicanfs_file_cache(run):
    from fsspec.implementations.cached import SimpleCacheFileSystem
    from pelicanfs.core import PelicanFileSystem

    url = urlsplit(run.federation.url)
    target = PelicanFileSystem(f"pelican://{url.netloc}", skip_instance_cache=True)
    # `filecache` keeps a list of its files, which several threads damage; this one looks for each.
    fs = SimpleCacheFileSystem(fs=target, cache_storage=str(run.scratch), skip_instance_cache=True)

    def read(key):
        with fs.open(f"{url.path}/images/{key}", "rb") as file:
            return file.read()

    return Files(run.orders, run.threads, read)


def one_zip(run):
    say("fetch", f"{run.federation.url}/images.zip", run.scratch)
    with zipfile.ZipFile(run.scratch / "images.zip") as file:
        file.extractall(run.scratch)
    return Files(run.orders, run.threads, lambda key: (run.scratch / key).read_bytes())


def bundle(run):
    say("fetch", f"{run.federation.url}/bundle/v1#{run.digest}", run.scratch / "bundle")
    return Bundle(run.scratch / "bundle", run.threads)


def bundle_streamed(run):
    return Bundle(f"{run.federation.url}/bundle/v1#{run.digest}", run.threads, cache=run.scratch)


WAYS = {
    "local files": local_files,
    "pelicanfs": pelicanfs,
    "pelicanfs, file cache": pelicanfs_file_cache,
    "one zip": one_zip,
    "a bundle": bundle,
    "a bundle, streamed": bundle_streamed,
}

Run = collections.namedtuple("Run", "work scratch federation digest orders threads")


def network():
    """A small network, with the same weights every time."""
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.AvgPool2d(4), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, CLASSES)
    )


def train(way, run):
    """Trains for two epochs on the batches of a way: losses, seconds, and what was moved."""
    # One thread computes, so that sums are made in one order; the others are for the data.
    torch.set_num_threads(1)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    measured = {"epochs": [], "losses": []}
    begun = time.perf_counter()
    before = run.federation.counts()
    fed = way(run)
    for epoch in range(EPOCHS):
        for images, labels in fed.epoch(epoch):
            measured.setdefault("first_batch", time.perf_counter() - begun)
            loss = torch.nn.functional.cross_entropy(model(images.float() / 255), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            measured["losses"].append(loss.item())
        now, after = time.perf_counter(), run.federation.counts()
        measured["epochs"].append(
            {
                "seconds": now - begun,
                "bytes": after["bytes_sent"] - before["bytes_sent"],
                "requests": after["requests"] - before["requests"],
            }
        )
        begun, before = now, after
    return measured


class Case:
    """Pictures that are published, the order in which every way gives them, and the network's terms."""

    def __init__(self, work, n, latency="20ms", limit_rate="100MB/s", threads=2):
        self.work, self.threads = work, threads
        self.terms = ["--latency", latency, "--limit-rate", limit_rate]
        self.digest = publish(work, n)
        # The order of the bundle's windows, which files can be opened in as well.
        made, self.orders = loader(work / "bundle", threads), []
        for epoch in range(EPOCHS):
            made.set_epoch(epoch)
            self.orders.append([key for batch in made for key in batch["key"]])

    def measure(self, name, before=lambda federation: None):
        """What way `name` takes; `before` is called with the federation, whose cache is empty."""
        scratch = self.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        with Federation(self.work / "federation", *self.terms) as federation:
            before(federation)
            return train(WAYS[name], Run(self.work, scratch, federation, self.digest, self.orders, self.threads))

    def measure_all(self):
        """Each way's name and what was measured."""
        return {name: self.measure(name) for name in WAYS}

    def damage(self, federation):
        """Fetches the bundle, which leaves a copy in the federation's cache, and flips a byte of a shard there."""
        folder = self.work / "first"
        shutil.rmtree(folder, ignore_errors=True)
        say("fetch", f"{federation.url}/bundle/v1#{self.digest}", folder)
        copies = self.work / "federation" / "cache" / "gular" / "bundle" / "data"
        shard = next(path for path in sorted(copies.iterdir()) if ".index." not in path.name)
        shard.chmod(0o644)
        with shard.open("r+b") as file:
            file.seek(-1000, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1000, os.SEEK_END)
            file.write(bytes([byte ^ 1]))


def table(measured):
    lines = [f"{'':24}{'first batch':>13}{'cold epoch':>12}{'warm epoch':>12}{'moved cold':>12}{'warm':>10}{'requests':>10}"]
    for name, way in measured.items():
        cold, warm = way["epochs"]
        seconds = [way["first_batch"], cold["seconds"], warm["seconds"]]
        lines.append(
            f"{name:24}{seconds[0]:>11.2f} s{seconds[1]:>10.2f} s{seconds[2]:>10.2f} s"
            f"{cold['bytes'] / 1e6:>9.1f} MB{warm['bytes'] / 1e6:>7.1f} MB{cold['requests']:>10}"
        )
    return "\n".join(lines)


def all_equal(measured):
    """Whether every loss of every way is that of the first."""
    losses = [way["losses"] for way in measured.values()]
    return all(other == losses[0] for other in losses)


# What says that a folder is one of this script.
MARKER = ".gular-ways"


def empty(folder):
    """Empties the folder of an earlier run. Whatever else it holds is left alone."""
    if folder.exists() and not (folder / MARKER).is_file():
        if not folder.is_dir() or any(folder.iterdir()):
            raise SystemExit(f"error: `{folder}` was not made by this script, which deletes what its folder holds\nhint: name a folder that does not exist: --work ways")
    elif folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("ways"), help="a new folder, or that of an earlier run, which is emptied")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--latency", default="20ms")
    parser.add_argument("--limit-rate", default="100MB/s")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    empty(args.work)
    measured = Case(args.work, args.images, args.latency, args.limit_rate, args.threads).measure_all()
    (args.work / "ways.json").write_text(json.dumps(measured))
    print(table(measured))
    print("all losses equal" if all_equal(measured) else "LOSSES DIFFER")


if __name__ == "__main__":
    main()
