"""One class a peer: how it packs a folder `class/file`, and how it loads that.

`pack` writes JPEG bytes as they are wherever the format can. `samples` gives them
back, in any order, so that what was packed can be compared. `loader` never ends.
"""

import importlib.util
import os
import pathlib
import random
import sys
import types


def listed(images):
    """(path, label), sorted by path."""
    classes = sorted(p for p in pathlib.Path(images).iterdir() if p.is_dir())
    return [(path, label) for label, folder in enumerate(classes) for path in sorted(folder.iterdir())]


def forever(loader):
    while True:
        yield from loader


class Collate:
    """Makes a batch of (JPEG bytes, label); the stack is made once in each process."""

    def __init__(self, stack, size):
        self.make, self.process = lambda: stack(size), None

    def __getstate__(self):
        return {**self.__dict__, "process": None, "stack": None}

    def __call__(self, samples):
        import numpy
        import torch

        if self.process != os.getpid():
            self.process, self.stack = os.getpid(), self.make()
            random.seed(os.getpid())
            torch.set_num_threads(1)
        pictures = numpy.stack([self.stack(data) for data, _ in samples])
        return torch.from_numpy(pictures), torch.tensor([label for _, label in samples])


def torch_loader(dataset, collate, settings, **options):
    from torch.utils.data import DataLoader

    if settings.workers:
        options |= {"persistent_workers": True, "prefetch_factor": 4}
    return DataLoader(
        dataset, batch_size=settings.batch, num_workers=settings.workers, drop_last=True, collate_fn=collate, **options
    )


class Files:
    """A folder of files, as torchvision's ImageFolder reads it."""

    title, needs, install = "PyTorch DataLoader, files", ("torch",), "pip install torch"
    order = "permutation"

    def __init__(self, images, store):
        self.images, self.store = images, store

    def pack(self):
        pass

    def __len__(self):
        self.items = listed(self.images)
        return len(self.items)

    def __getitem__(self, index):
        path, label = self.items[index]
        return path.read_bytes(), label

    def samples(self):
        return (self[i][0] for i in range(len(self)))

    def loader(self, collate, settings):
        return forever(torch_loader(self, collate, settings, shuffle=True))


class Gular(Files):
    """The bundle, by our one-file Python reader in PyTorch's DataLoader."""

    title = "gular bundle, Python reader"

    def __len__(self):
        if not hasattr(self, "data"):
            sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tutorials/python"))
            import gular_dataset

            self.data = gular_dataset.GularDataset(self.store, "train")
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class WebDataset:
    title, needs, install = "webdataset", ("torch", "webdataset"), "pip install torch webdataset"
    order = "shards, then a buffer of 1000"

    def __init__(self, images, store):
        self.images, self.store = images, store

    def pack(self):
        import webdataset

        os.makedirs(self.store)
        with webdataset.ShardWriter(os.path.join(self.store, "%05d.tar"), maxcount=250, maxsize=64e6, verbose=0) as out:
            for i, (path, label) in enumerate(listed(self.images)):
                out.write({"__key__": f"{i:07d}", "jpg": path.read_bytes(), "cls": str(label).encode()})

    def dataset(self):
        import webdataset

        shards = sorted(str(p) for p in pathlib.Path(self.store).glob("*.tar"))
        return webdataset.WebDataset(shards, shardshuffle=len(shards), empty_check=False)

    def samples(self):
        return (sample["jpg"] for sample in self.dataset())

    def loader(self, collate, settings):
        import webdataset

        def batch(samples):
            return collate([(data, int(label)) for data, label in samples])

        # Without repeat a worker whose shards hold less than a batch has none to give.
        data = self.dataset().repeat().shuffle(1000).to_tuple("jpg", "cls")
        data = data.batched(settings.batch, collation_fn=batch, partial=False)
        options = {"persistent_workers": True, "prefetch_factor": 4} if settings.workers else {}
        return forever(webdataset.WebLoader(data, batch_size=None, num_workers=settings.workers, **options))


class HuggingFace:
    title, needs, install = "datasets, Arrow", ("torch", "datasets"), "pip install torch datasets"
    order = "permutation"

    def __init__(self, images, store):
        self.images, self.store = images, store

    def pack(self):
        import datasets

        datasets.disable_progress_bars()
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        cache = f"{self.store}.cache"
        made = datasets.Dataset.from_generator(
            rows, gen_kwargs={"images": self.images}, features=features, cache_dir=cache, split="train"
        )
        made.save_to_disk(self.store, max_shard_size="256MB")

    def __len__(self):
        if not hasattr(self, "data"):
            import datasets

            # The bytes; decoding is the stack's.
            self.data = datasets.load_from_disk(self.store).cast_column("image", datasets.Image(decode=False))
        return len(self.data)

    def __getitems__(self, indices):
        found = self.data[list(indices)]
        return [(image["bytes"], label) for image, label in zip(found["image"], found["label"], strict=True)]

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def samples(self):
        return (self[i][0] for i in range(len(self)))

    def loader(self, collate, settings):
        return forever(torch_loader(self, collate, settings, shuffle=True))


def rows(images):
    for path, label in listed(images):
        yield {"image": {"bytes": path.read_bytes(), "path": None}, "label": label}


def streaming():
    """The package's writer and reader. Its `__init__` would import transformers and
    torchvision too, at versions that the other peers cannot use."""
    if "streaming" not in sys.modules:
        folder = pathlib.Path(importlib.util.find_spec("streaming").origin).parent
        for name in ("streaming", "streaming.base"):
            package = types.ModuleType(name)
            package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = package
    from streaming.base.dataset import StreamingDataset
    from streaming.base.format.mds import reader
    from streaming.base.format.mds.writer import MDSWriter
    from streaming.base.util import clean_stale_shared_memory

    return MDSWriter, StreamingDataset, reader, clean_stale_shared_memory


class Streaming:
    title, needs = "MosaicML Streaming", ("torch", "streaming")
    install = "pip install --no-deps mosaicml-streaming Brotli catalogue cramjam python-snappy zstd xxhash"
    order = "within blocks of its own"

    def __init__(self, images, store):
        self.images, self.store = images, store

    def pack(self):
        writer = streaming()[0]
        with writer(out=self.store, columns={"image": "jpeg", "label": "int"}) as out:
            for path, label in listed(self.images):
                out.write({"image": path.read_bytes(), "label": label})

    def dataset(self, batch, shuffle):
        _, dataset, reader, clean = streaming()
        clean()
        # The bytes; decoding is the stack's.
        decode = reader.mds_decode
        reader.mds_decode = lambda encoding, data: data if encoding == "jpeg" else decode(encoding, data)
        return dataset(local=self.store, shuffle=shuffle, batch_size=batch)

    def samples(self):
        return (sample["image"] for sample in self.dataset(1, False))

    def loader(self, collate, settings):
        def batch(samples):
            return collate([(sample["image"], sample["label"]) for sample in samples])

        return forever(torch_loader(self.dataset(settings.batch, True), batch, settings))


class Ffcv:
    """Takes no JPEG as it is: decodes and encodes again, at quality 90."""

    title, needs = "FFCV", ("torch", "ffcv", "cv2")
    install = "apt-get install libopencv-dev libturbojpeg0-dev pkg-config; pip install numba opencv-python-headless ffcv"
    order = "permutation"
    own = "libjpeg-turbo, fast DCT (FFCV)"

    def __init__(self, images, store):
        self.images, self.store = images, store

    def __len__(self):
        self.items = listed(self.images)
        return len(self.items)

    def __getitem__(self, index):
        from PIL import Image

        path, label = self.items[int(index)]
        return Image.open(path).convert("RGB"), label

    def pack(self):
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter

        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
        DatasetWriter(self.store, fields, num_workers=len(os.sched_getaffinity(0))).from_indexed_dataset(self)

    def samples(self):
        return None

    def loader(self, _collate, settings):
        import numpy
        from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
        from stacks import MEAN, STD

        normalise = NormalizeImage(numpy.array(MEAN) * 255, numpy.array(STD) * 255, numpy.float32)
        image = [RandomResizedCropRGBImageDecoder((settings.size, settings.size)), RandomHorizontalFlip()]
        image += [normalise, ToTensor(), ToTorchImage(convert_back_int16=False)]
        label = [IntDecoder(), ToTensor(), Squeeze()]
        return forever(Loader(
            self.store,
            batch_size=settings.batch,
            num_workers=max(1, settings.workers),
            order=OrderOption.RANDOM,
            os_cache=True,
            drop_last=True,
            pipelines={"image": image, "label": label},
        ))


PEERS = {
    "files": Files,
    "webdataset": WebDataset,
    "datasets": HuggingFace,
    "streaming": Streaming,
    "ffcv": Ffcv,
    "gular-python": Gular,
}
