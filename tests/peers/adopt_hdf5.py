"""We adopt what h5py writes where it lies in whole runs, and refuse what does not, saying why."""

import io
import itertools
import json
import pathlib

from _shared import check, extract, finish, gular, skip

try:
    import h5py
    import numpy as np
    from PIL import Image
except ImportError as missing:
    skip("adopt_hdf5", missing.name, "pip install h5py numpy pillow")
    finish()

N = 60
noise = np.random.default_rng(0)
pixels = noise.integers(0, 256, (N, 16, 20, 3), dtype=np.uint8)
labels = np.arange(N) % 3
keys = [f"class {i % 3}/{i:03d}.png" for i in range(N)]


def png(image):
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


encoded = [png(image[: 4 + i % 7]) for i, image in enumerate(pixels)]


def contiguous(file):
    file["images"] = pixels
    file["labels"] = labels


def whole_sample_chunks(file):
    file.create_dataset("images", data=pixels, chunks=(7, 16, 20, 3))
    file["labels"] = labels.astype(">i4")


def resizable(file):
    file.create_dataset("images", data=pixels, chunks=(1, 16, 20, 3), maxshape=(None, 16, 20, 3))
    file["labels"] = labels.astype("u1")


def one_chunk(file):
    file.create_dataset("images", data=pixels, chunks=pixels.shape)
    file["labels"] = labels.astype("u8")


def resizable_all_ways(file):
    file.create_dataset("images", data=pixels, chunks=(2, 16, 20, 3), maxshape=(None, None, 20, 3))
    file["labels"] = labels


def in_a_group(file):
    file["train/images"] = pixels
    file["train/labels"] = labels.astype("i2")
    file["train/mean"] = np.zeros(3)


def vlen(file):
    images = file.create_dataset("image", (N,), dtype=h5py.vlen_dtype(np.uint8))
    for i, image in enumerate(encoded):
        images[i] = np.frombuffer(image, np.uint8)
    file["label"], file["key"] = labels, keys
    file["label"].attrs["classes"] = ["ant", "bee", "cow"]


def one_void_an_image(file):
    for key, image in zip(keys, encoded):
        file[key] = np.void(image)


def one_dataset_of_u8_an_image(file):
    for key, image in zip(keys, encoded):
        file[key] = np.frombuffer(image, np.uint8)


def one_array_an_image(file):
    for key, image in zip(keys, pixels):
        file[key] = image


def bytes_and_offsets(file):
    file["image.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
    file["image.offsets"] = np.array([0, *itertools.accumulate(map(len, encoded))], dtype="i8")
    file["label"] = labels
    file["key"] = np.array([key.encode() for key in keys])


def gzip(file):
    file.create_dataset("images", data=pixels, chunks=(1, 16, 20, 3), compression="gzip")
    file["labels"] = labels


def lzf(file):
    file.create_dataset("images", data=pixels, chunks=(1, 16, 20, 3), compression="lzf")


def fletcher32(file):
    file.create_dataset("images", data=pixels, chunks=(1, 16, 20, 3), fletcher32=True)


def auto_chunks(file):
    file.create_dataset("images", data=np.zeros((2000, 32, 32, 3), "u1"), chunks=True)
    file["labels"] = np.zeros(2000, "i8")


def compact(file):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((4, 3, 3))
    h5py.h5d.create(file.id, b"images", h5py.h5t.NATIVE_UINT8, space, plist)


def external(file):
    file.create_dataset("images", pixels.shape, "u1", external=[("external.raw", 0, pixels.nbytes)])[...] = pixels


def virtual(file):
    layout = h5py.VirtualLayout(shape=pixels.shape, dtype="u1")
    layout[...] = h5py.VirtualSource("contiguous-earliest-0.h5", "images", shape=pixels.shape)
    file.create_virtual_dataset("images", layout)


def unwritten(file):
    file.create_dataset("images", pixels.shape, "u1", chunks=(1, 16, 20, 3))[3] = 1
    file["more"] = np.zeros(pixels.nbytes, "u1")


def big_endian(file):
    file["images"] = pixels.astype(">u2")


def bytes_without_offsets(file):
    file["image.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)


BYTES = [image.tobytes() for image in pixels]
# What is read, as which images, and where its keys come from.
READ = [
    (contiguous, BYTES, False),
    (whole_sample_chunks, BYTES, False),
    (resizable, BYTES, False),
    (resizable_all_ways, BYTES, False),
    (one_chunk, BYTES, False),
    (in_a_group, BYTES, False),
    (vlen, encoded, True),
    (bytes_and_offsets, encoded, True),
    (one_void_an_image, encoded, True),
    (one_dataset_of_u8_an_image, encoded, True),
    (one_array_an_image, BYTES, True),
]
# What is refused, and a word of the reason.
REFUSED = [
    (gzip, "gzip"),
    (lzf, "lzf"),
    (fletcher32, "fletcher32"),
    (auto_chunks, "split its samples"),
    (compact, "compactly"),
    (external, "other files"),
    (virtual, "virtual"),
    (unwritten, "never written"),
    (big_endian, "big-endian"),
    (bytes_without_offsets, "no offsets"),
]
VARIANTS = list(itertools.product(["earliest", "v108", "v110", "latest"], [0, 1024]))


def write(how, version, block):
    path = f"{how.__name__}-{version}-{block}.h5"
    bounds = version if version in ("earliest", "latest") else (version, version)
    with h5py.File(path, "w", libver=bounds, userblock_size=block) as file:
        how(file)
    return path


def labels_of(bundle):
    """Labels by the index beside the only shard."""
    from safetensors.numpy import load_file

    (index,) = pathlib.Path(bundle, "data").glob("*.index.safetensors")
    return load_file(index).get("label", np.array([])).tolist()


def adopted(how, images, has_keys, version, block):
    path = write(how, version, block)
    out = f"{path}.bundle"
    options = ["--image-column", "train/images", "--label-column", "train/labels"] if how is in_a_group else []
    report = gular("adopt", path, "--out", out, *options)
    if report["splits"] != {"train": N}:
        return report
    gular("verify", out)
    arrays = images is BYTES
    plain = f"{path}.plain"
    gular("convert", out, plain, "--envelope", "hdf5")
    (shard,) = pathlib.Path(plain, "data").glob("*.h5")
    with h5py.File(shard) as file:
        ends = file["key.offsets"][...]
        names = [file["key.bytes"][a:b].tobytes().decode() for a, b in itertools.pairwise(ends)]
        if arrays:
            found = [image.tobytes() for image in file["image"]]
        else:
            ends = file["image.offsets"][...]
            found = [file["image.bytes"][a:b].tobytes() for a, b in itertools.pairwise(ends)]
        found_labels = file["label"][...].tolist() if "label" in file else None
    order = sorted(range(N), key=keys.__getitem__) if "one_" in how.__name__ and has_keys else range(N)
    if found != [images[i] for i in order]:
        return "other images"
    if has_keys and names != [keys[i] for i in order]:
        return f"other keys: {names[:3]}"
    if "one_" not in how.__name__ or not has_keys:
        if found_labels != labels.tolist():
            return f"other labels: {found_labels}"
    if not arrays and extract(out, keys[5]) != images[5]:
        return "other bytes by inspect --extract"
    return None


def main():
    for how, images, has_keys in READ:
        wrong = {}
        for version, block in VARIANTS:
            why = adopted(how, images, has_keys, version, block)
            if why:
                wrong[version, block] = why
        check(f"adopt: {how.__name__}", not wrong, wrong)
    classes = json.loads(pathlib.Path("vlen-latest-0.h5.bundle", "manifest.json").read_text())["classes"]
    check("adopt: class names", classes == ["ant", "bee", "cow"], classes)
    for how, word in REFUSED:
        wrong = {}
        for version, block in VARIANTS:
            # HDF5 1.8 knows no virtual datasets.
            if how is virtual and version in ("earliest", "v108"):
                continue
            said = gular("adopt", write(how, version, block), "--out", "none", refused=True)
            if word not in said or "hint" not in said or pathlib.Path("none").exists():
                wrong[version, block] = said
        check(f"adopt: refuses {how.__name__}", not wrong, wrong)
    finish()


if __name__ == "__main__":
    main()
