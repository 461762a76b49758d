"""MNIST, EMNIST, CIFAR-10 and CIFAR-100 in their own files: packed, they are what torchvision reads."""

import gzip
import pathlib
import pickle
import struct
import sys

from _shared import check, finish, gular, skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))

try:
    import numpy as np
    from torchvision import datasets
except ImportError as missing:
    skip("torchvision_files", missing.name, "pip install torchvision numpy")
    finish()

from gular_dataset import GularDataset

noise = np.random.default_rng(0)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_files(folder, before, test, first_label):
    folder.mkdir(parents=True)
    for split, n in ("train", 70), (test, 30):
        images = noise.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        labels = noise.integers(first_label, 10, n, dtype=np.uint8)
        for content, array in ("images-idx3", images), ("labels-idx1", labels):
            name = folder / f"{before}{split}-{content}-ubyte"
            name.write_bytes(idx(array))
            pathlib.Path(f"{name}.gz").write_bytes(gzip.compress(idx(array)))


def text(value):
    return b"U" + bytes([len(value)]) + value.encode()


def batch(n, labels):
    """A batch as Python 2 pickled it."""
    images = noise.integers(0, 256, (n, 3072), dtype=np.uint8)
    made = b"\x80\x02}q\x01("
    for name, n_classes in labels.items():
        made += text(name) + b"]q\x02(" + b"".join(b"K" + bytes([i]) for i in noise.integers(0, n_classes, n)) + b"e"
    made += text("data") + b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
    made += b"(K\x01M" + struct.pack("<H", n) + b"M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07"
    made += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
    return made + struct.pack("<I", images.size) + images.tobytes() + b"tbu."


class Cifar10(datasets.CIFAR10):
    """Without the digests of the published files."""

    meta = {**datasets.CIFAR10.meta, "md5": None}

    def _check_integrity(self):
        return True


class Cifar100(datasets.CIFAR100):
    meta = {**datasets.CIFAR100.meta, "md5": None}

    def _check_integrity(self):
        return True


def compare(name, folder, read, *options):
    gular("pack", folder, name, *options)
    for split in "train", "test":
        expected = read(split == "train")
        images = GularDataset(name, split, "image")
        labels = GularDataset(name, split, "label")
        wrong = [] if len(images) == len(expected.data) else [f"{len(images)} samples"]
        for i in range(len(images)):
            row = int(images.key(i).rsplit("/", 1)[1])
            image = np.asarray(images.raw(i)).squeeze()
            if image.tobytes() != np.asarray(expected.data[row]).tobytes():
                wrong.append(f"pixels of {row}")
            if int(np.asarray(labels.raw(i)).ravel()[0]) != int(expected.targets[row]):
                wrong.append(f"label of {row}")
        check(f"{name}: {split}", not wrong, f"otherwise: {wrong[:5]}")


def main():
    root = pathlib.Path("root")
    idx_files(root / "MNIST" / "raw", "", "t10k", 0)
    compare("mnist", root / "MNIST", lambda train: datasets.MNIST(root, train))
    idx_files(root / "EMNIST" / "raw", "emnist-letters-", "test", 1)
    compare("emnist", root / "EMNIST", lambda train: datasets.EMNIST(root, "letters", train=train))
    ten, hundred = root / "cifar-10-batches-py", root / "cifar-100-python"
    ten.mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (ten / name).write_bytes(batch(20, {"labels": 10}))
    names = {"label_names": [f"class {i}" for i in range(10)], "num_vis": 3072}
    (ten / "batches.meta").write_bytes(pickle.dumps(names, 2))
    compare("cifar-10", ten, lambda train: Cifar10(root, train))
    hundred.mkdir()
    for name in "train", "test":
        (hundred / name).write_bytes(batch(100, {"coarse_labels": 20, "fine_labels": 100}))
    names = {f"{kind}_label_names": [f"{kind} {i}" for i in range(n)] for kind, n in (("fine", 100), ("coarse", 20))}
    (hundred / "meta").write_bytes(pickle.dumps(names, 0))
    compare("cifar-100", hundred, lambda train: Cifar100(root, train))


main()
finish()
