"""Envelope `hdf5`: h5py reads what we write, in several processes at once, and so do HDF5's own tools."""

import json
import multiprocessing
import shutil
import subprocess

from _shared import check, finish, gular, make_images, shards, skip

try:
    import h5py
    import numpy
except ImportError as missing:
    skip("hdf5_reads", missing.name, "pip install h5py numpy")
    finish()


def samples(path):
    """Key -> (image, label) of a shard; at the top, so that spawned processes find it."""
    with h5py.File(path, "r") as file:
        ends, key_ends = file["image.offsets"][...], file["key.offsets"][...]
        labels = file["label"][...]
        found = {}
        for i, label in enumerate(labels):
            key = file["key.bytes"][key_ends[i] : key_ends[i + 1]].tobytes().decode()
            found[key] = file["image.bytes"][ends[i] : ends[i + 1]].tobytes(), int(label)
        return found


def h5py_reads(made, files):
    found = {}
    for file in files:
        found |= samples(file)
    check("h5py: every key, image and label", found == made, len(found))
    with h5py.File(files[0], "r") as file:
        about = {name: value.decode() for name, value in file.attrs.items()}
        check("h5py: attributes", about == {"format": "gular-shard", "version": "1", "split": "train"}, about)
        classes = [name.decode() for name in file["label"].attrs["classes"]]
        check("h5py: class names", classes == ["class 0", "class 1", "class 2"], classes)
        types = {name: (data.dtype.str, data.chunks) for name, data in file.items()}
        wanted = {name: ("<i8" if name == "label" or name.endswith("offsets") else "|u1", None) for name in types}
        check("h5py: little-endian, contiguous", len(types) == 5 and types == wanted, types)
        places = {name: data.id.get_offset() for name, data in file.items()}
        aligned = [name for name, place in places.items() if place % 64]
        check("h5py: data is aligned", places["image.bytes"] == 4096 and not aligned, places)


def processes_read_together(made, files):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        results = pool.map(samples, files * 4, chunksize=1)
    wrong = [i for i, found in enumerate(results) if any(made.get(k) != v for k, v in found.items())]
    total = sum(len(found) for found in results)
    check("h5py: several processes at once", total == 4 * len(made) and not wrong, (total, wrong))


def raw_arrays_read():
    gular("pack", "images", "raw", "--envelope", "hdf5", "--payload", "raw", "--size", "24x20")
    gular("convert", "raw", "plain", "--envelope", "shards")
    from safetensors.numpy import load_file

    wrong = []
    for ours, plain in zip(shards("raw"), shards("plain"), strict=True):
        arrays = load_file(plain)
        with h5py.File(ours, "r") as file:
            wrong += [name for name in arrays if not name.startswith("_pad.") and not numpy.array_equal(file[name][...], arrays[name])]
            shape = file["image"].shape[1:]
    check("h5py: raw images", not wrong and shape == (20, 24, 3), (wrong, shape))


def tools_read(files):
    for tool in (["h5ls", "-rv"], ["h5dump", "-H"], ["h5dump", "-o", "data.txt"], ["h5stat"]):
        name = " ".join(tool)
        if not shutil.which(tool[0]):
            skip(name, tool[0], "apt-get install hdf5-tools")
            continue
        results = [subprocess.run([*tool, file], capture_output=True, text=True) for file in files]
        said = [r.stderr for r in results if r.returncode or r.stderr.strip()]
        check(f"{name} accepts every shard", not said, said[:1])
    if shutil.which("h5dump"):
        out = subprocess.run(["h5dump", "-d", "label", "-y", files[0]], capture_output=True, text=True, check=True).stdout
        numbers = [int(word.strip(",")) for word in out.split("DATA {")[1].split("}")[0].split()]
        check("h5dump: labels", numbers == [label for _, label in samples(files[0]).values()], numbers)


def main():
    made = make_images()
    report = gular("pack", "images", "bundle", "--envelope", "hdf5", "--shard-size", "1MiB")
    files = shards("bundle", "train") + shards("bundle", "val")
    check("several shards", len(files) > 2, json.dumps(report))
    h5py_reads(made, files)
    processes_read_together(made, files)
    tools_read(files)
    raw_arrays_read()
    finish()


if __name__ == "__main__":
    main()
