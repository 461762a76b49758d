"""Reads the images of six bundles with other people's tools, and compares them with the photographs.

    python readers.py bundles/ photos/ bench.json

`bundles/` has a bundle of each envelope, `bench.json` is what `gular bench --json` wrote. Prints a table,
and writes bytes.tsv and first.tsv, which pictures.py draws. No code of Gular's is used here.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tarfile

KINDS = (".jpg", ".jpeg", ".png")


def shards(file):
    from safetensors import safe_open

    with safe_open(file, "np") as tensors:
        at, data = tensors.get_tensor("image.offsets"), tensors.get_tensor("image.bytes")
    return [data[begin:end].tobytes() for begin, end in zip(at[:-1], at[1:])]


def arrow(file):
    import pyarrow

    with pyarrow.OSFile(str(file)) as source:
        return [value["bytes"] for value in pyarrow.ipc.open_stream(source).read_all()["image"].to_pylist()]


def parquet(file):
    import duckdb

    return [bytes(row[0]) for row in duckdb.sql(f"select image.bytes from '{file}'").fetchall()]


def hdf5(file):
    import h5py

    with h5py.File(file) as sets:
        at, data = sets["image.offsets"][:], sets["image.bytes"][:]
    return [data[begin:end].tobytes() for begin, end in zip(at[:-1], at[1:])]


def tar(file):
    with tarfile.open(file) as members:
        return [members.extractfile(member).read() for member in members if member.name.lower().endswith(KINDS)]


def squashfs(file):
    listed = subprocess.run(["unsquashfs", "-lc", file], check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [path.removeprefix("squashfs-root/") for path in listed if path.lower().endswith(KINDS)]
    return [subprocess.run(["unsquashfs", "-cat", file, path], check=True, capture_output=True).stdout for path in paths]


READERS = {
    "shards": (shards, ".safetensors", "safetensors"),
    "arrow": (arrow, ".arrow", "pyarrow"),
    "parquet": (parquet, ".parquet", "DuckDB"),
    "hdf5": (hdf5, ".h5", "h5py"),
    "tar": (tar, ".tar", "tarfile"),
    "squashfs": (squashfs, ".squashfs", "unsquashfs"),
}


def main():
    bundles, photos, bench = map(pathlib.Path, sys.argv[1:])
    expected = collections.Counter(path.read_bytes() for path in photos.rglob("*.*"))
    bench = json.loads(bench.read_text())
    first = {}
    for row in bench["rows"]:
        first.setdefault(row["envelope"], row["first_ms"])
    sizes, times = [], []
    print(f"{'':12}{'bytes':>12}{'first batch':>14}   read by")
    for name, (read, suffix, tool) in READERS.items():
        files = [file for file in sorted((bundles / name / "data").glob(f"*{suffix}")) if ".index." not in file.name]
        n_bytes = sum(file.stat().st_size for file in (bundles / name).rglob("*") if file.is_file())
        try:
            found = collections.Counter(image for file in files for image in read(file))
            said = f"{tool}: {found.total()} images, " + ("equal to the photographs" if found == expected else "NOT EQUAL TO THE PHOTOGRAPHS")
        except (ImportError, FileNotFoundError):
            said = f"{tool}: not installed"
        print(f"{name:12}{n_bytes:>12}{first[name]:>11.1f} ms   {said}")
        sizes.append(f"{name}\t{n_bytes}\n")
        times.append(f"{name}\t{first[name]:.1f}\n")
    pathlib.Path("bytes.tsv").write_text("".join(sizes))
    pathlib.Path("first.tsv").write_text("".join(times))


if __name__ == "__main__":
    main()
