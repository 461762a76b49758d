"""The real pelicanfs works with our federation, and reads a bundle that we published there."""

import importlib.util
import os
import pathlib
import random
import subprocess
import sys
from urllib.parse import urlsplit

from _shared import GULAR, federation

HERE = pathlib.Path(__file__).parent


def make_bundle(folder):
    """Bytes behind the head of a JPEG: nothing here looks at pixels."""
    source, chance = pathlib.Path("images"), random.Random(1)
    for i in range(16):
        image = source / f"class{i % 2}" / f"{i}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(b"\xff\xd8\xff\xe0" + chance.randbytes(200_000))
    command = [GULAR, "pack", source, folder, "--shard-size", "1MiB", "--check-images", "none", "--quiet"]
    subprocess.run(command, check=True)


def bundle_is_read(host, path, bundle, token_file):
    """Every file of the bundle, listed and read by pelicanfs, is that of the folder."""
    from pelicanfs.core import PelicanFileSystem

    headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    fs = PelicanFileSystem(f"pelican://{host}", headers=headers)
    expected = {f"{path}/v1/manifest.json": bundle / "manifest.json"}
    for file in (bundle / "data").iterdir():
        expected[f"{path}/data/{file.name}"] = file
    assert len(expected) > 6, "several shards"
    found = fs.find(path)
    assert sorted(found) == sorted(expected), found
    for name, file in expected.items():
        assert fs.cat(name) == file.read_bytes(), f"{name} has other bytes"


def main():
    if importlib.util.find_spec("pelicanfs") is None:
        print("skip pelicanfs_reads: pelicanfs missing, install: pip install pelicanfs==1.5.0")
        return 0
    folder, bundle = (pathlib.Path(name) for name in ("federation", "bundle"))
    make_bundle(bundle)
    with federation(folder) as said:
        url = urlsplit(said["url"])
        token_file = pathlib.Path(said["token"])
        check = [sys.executable, HERE / "_pelicanfs_check.py", url.netloc, url.path, token_file]
        failed = subprocess.run(check).returncode != 0
        try:
            publish = [GULAR, "publish", bundle, f"{said['url']}/birds/v1", "--quiet"]
            subprocess.run([*publish, "--token", token_file], check=True)
            bundle_is_read(url.netloc, f"{url.path}/birds", bundle, token_file)
            print("ok published_bundle_is_read")
        except Exception as error:  # whatever pelicanfs raises is the finding
            failed = True
            print(f"fail published_bundle_is_read: {type(error).__name__}: {error}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
