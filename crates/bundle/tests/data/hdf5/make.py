"""Made the files beside it, with h5py 3.16 (HDF5 2.0): `make.py`.

Byte `j` of sample `i` is `(7 * i + j) % 251`. They are kept since what each library version writes
differs; `tests/hdf5.rs` reads them.
"""

import h5py
import numpy as np

N = 5


def sample(i, n):
    return ((7 * i + np.arange(n)) % 251).astype("u1")


def pixels(n):
    return np.stack([sample(i, 12).reshape(2, 2, 3) for i in range(n)])


# One dataset an image, in old groups, behind a user block.
with h5py.File("void.h5", "w", libver="earliest", userblock_size=512) as file:
    for i in range(N):
        file[f"class {i % 2}/{i}.jpg"] = np.void(sample(i, 20 + i).tobytes())

# Chunks by a B-tree of version 1; labels of big-endian integers, and texts of one width.
with h5py.File("chunks.h5", "w", libver="earliest") as file:
    file.create_dataset("images", data=pixels(N), chunks=(2, 2, 2, 3))
    file["labels"] = np.arange(N).astype(">i2")
    file["names"] = np.array([f"n{i}" for i in range(N)], dtype="S4")
    file.create_dataset("squeezed", data=pixels(N), chunks=(1, 2, 2, 3), compression="gzip", shuffle=True)
    file.create_dataset("split", data=pixels(N), chunks=(5, 1, 2, 3))
    file.create_dataset("unwritten", (N, 1), "u1", chunks=(1, 1))[3] = 1

# Values of varying length, in a global heap.
with h5py.File("vlen.h5", "w", libver="earliest") as file:
    images = file.create_dataset("images", (N,), dtype=h5py.vlen_dtype(np.uint8))
    for i in range(N - 1):
        images[i] = sample(i, 20 + i)
    file["key"] = [f"a/{i}.jpg" for i in range(N)]
    file["label"] = np.arange(N) % 2
    file["label"].attrs["classes"] = ["left", "right"]

# All that newer libraries do otherwise: headers of version 2, dense links, other chunk indexes.
with h5py.File("latest.h5", "w", libver="latest") as file:
    file.create_dataset("single", data=pixels(N), chunks=(N, 2, 2, 3))
    file.create_dataset("fixed", data=pixels(N), chunks=(2, 2, 2, 3))
    file.create_dataset("extensible", data=pixels(N), chunks=(1, 2, 2, 3), maxshape=(None, 2, 2, 3))
    file.create_dataset("tree", data=pixels(N), chunks=(1, 2, 2, 3), maxshape=(None, None, 2, 3))
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((2, 2, 2, 3))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple((N, 2, 2, 3))
    h5py.Dataset(h5py.h5d.create(file.id, b"implicit", h5py.h5t.STD_U8LE, space, early))[...] = pixels(N)
    file["labels"] = np.arange(N, dtype="u8")

# A fixed array in pages.
with h5py.File("paged.h5", "w", libver="latest") as file:
    file.create_dataset("images", data=[sample(i, 1) for i in range(1100)], chunks=(1, 1))

# A group whose links are in a fractal heap of several blocks.
with h5py.File("dense.h5", "w", libver="latest") as file:
    for i in range(50):
        file[f"g/{i:02}"] = np.void(sample(i, 3).tobytes())
