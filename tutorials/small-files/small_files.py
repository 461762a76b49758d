"""Fetches the same data as many small files, as one zip and as a bundle, and measures each.

    python small_files.py --files 13000

It starts a federation on this machine that is as slow as a distant one, needs Python and `gular` and
nothing else, and writes seconds.tsv and requests.tsv.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import ssl
import subprocess
import time
import urllib.request
import zipfile
from urllib.parse import urlsplit

GULAR = os.environ.get("GULAR_BIN", "gular")
CLASSES = 23
WORK = pathlib.Path("small-files-work")


def gular(*args):
    """Runs the program; its JSON object."""
    done = subprocess.run([GULAR, *map(str, args), "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


class Federation:
    """`gular federation serve` while the `with` block lasts, with an empty cache at the start."""

    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        folder = WORK / "federation"
        command = [GULAR, "federation", "serve", folder, "--public-read", "--cold", *self.options, "--json", "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = json.loads(self.process.stdout.readline())
        self.url = said["url"]
        self.trust = ssl.create_default_context(cafile=said["ca"])
        os.environ["SSL_CERT_FILE"] = said["ca"]
        token = subprocess.run([GULAR, "federation", "token", folder, "--read", "/", "--create", "/"], stdout=subprocess.PIPE, check=True)
        os.environ["BEARER_TOKEN"] = token.stdout.decode().strip()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def requests(self):
        with urllib.request.urlopen(f"https://{urlsplit(self.url).netloc}/.well-known/gular-counts", context=self.trust) as answer:
            return json.load(answer)["requests"]


def make(n, size):
    """`files/class00/00000.bin` and so on; what is in them does not matter."""
    noise = random.Random(0)
    for i in range(n):
        path = WORK / "files" / f"class{i % CLASSES:02}" / f"{i:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(noise.randbytes(size))
    with zipfile.ZipFile(WORK / "files.zip", "w", zipfile.ZIP_STORED) as file:
        for path in sorted((WORK / "files").rglob("*.bin")):
            file.write(path, path.relative_to(WORK / "files"))
    return gular("pack", WORK / "files", WORK / "bundle", "--as", "bytes")["digest"].replace(":", "=")


def publish():
    with Federation() as federation:
        gular("publish", "-r", WORK / "files", f"{federation.url}/files", "--jobs", 8)
        gular("publish", WORK / "files.zip", f"{federation.url}/files.zip")
        gular("publish", WORK / "bundle", f"{federation.url}/bundle/v1")


def fetch(federation, way, digest):
    """Seconds and requests of one fetch into an empty folder."""
    to = WORK / "fetched"
    shutil.rmtree(to, ignore_errors=True)
    arguments = {
        "small files": ["-r", f"{federation.url}/files"],
        "one zip": [f"{federation.url}/files.zip"],
        "a bundle": [f"{federation.url}/bundle/v1#{digest}"],
    }[way]
    before, begun = federation.requests(), time.perf_counter()
    gular("fetch", *arguments, to)
    if way == "one zip":
        with zipfile.ZipFile(to / "files.zip") as file:
            file.extractall(to)
    return time.perf_counter() - begun, federation.requests() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=13000)
    parser.add_argument("--size", type=int, default=20_000, help="bytes of each file")
    parser.add_argument("--latency", default="20ms")
    parser.add_argument("--limit-rate", default="100MB/s")
    args = parser.parse_args()
    WORK.mkdir()
    digest = make(args.files, args.size)
    publish()
    seconds, requests = [], []
    print(f"{'':24}{'seconds':>10}{'requests':>10}")
    for way in ("small files", "one zip", "a bundle"):
        with Federation("--latency", args.latency, "--limit-rate", args.limit_rate) as federation:
            for cache in ("cold", "warm"):
                took, asked = fetch(federation, way, digest)
                seconds.append(f"{way}, {cache} cache\t{took:.2f}\n")
                requests.append(f"{way}, {cache} cache\t{asked}\n")
                print(f"{way + ', ' + cache + ' cache':24}{took:>10.2f}{asked:>10}")
    pathlib.Path("seconds.tsv").write_text("".join(seconds))
    pathlib.Path("requests.tsv").write_text("".join(requests))
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
