"""One class a peer: how it packs a folder `class/file`, and how it loads that.

`pack` writes JPEG bytes as they are wherever the format can. `samples` gives them
back, in any order, so that what was packed can be compared. `loader` is an epoch
each time that it is gone through, of (pictures, labels). `ready` imports what a loader needs.
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
        begun = False
        for batch in loader:
            begun = True
            yield batch
        if not begun:
            raise ValueError("an epoch without a batch")


class Collate:
    """Makes a batch of (JPEG bytes, label); the stack is made once in each process."""

    def __init__(self, stack, size):
        self.make, self.process = (stack, size), None

    def __getstate__(self):
        return {**self.__dict__, "process": None, "stack": None}

    def begin(self):
        import torch

        if self.process != os.getpid():
            stack, size = self.make
            self.process, self.stack = os.getpid(), stack(size)
            random.seed(os.getpid())
            torch.set_num_threads(1)

    def one(self, data, label):
        """A picture, for peers that decode before they make batches."""
        self.begin()
        return self.stack(data), label

    def arrays(self, samples):
        import numpy

        pictures, labels = zip(*samples, strict=True)
        return numpy.stack(pictures), numpy.asarray(labels)

    def together(self, samples):
        import torch

        pictures, labels = self.arrays(samples)
        return torch.from_numpy(pictures), torch.from_numpy(labels)

    def __call__(self, samples):
        return self.together([self.one(data, label) for data, label in samples])


def torch_loader(dataset, collate, settings, **options):
    from torch.utils.data import DataLoader

    if settings.workers:
        options |= {"persistent_workers": True, "prefetch_factor": 4}
    return DataLoader(
        dataset, batch_size=settings.batch, num_workers=settings.workers, drop_last=True, collate_fn=collate, **options
    )


class Peer:
    # Distributions whose versions count, and modules that are imported before turns.
    packages, modules = (), ("torch",)
    order = "permutation"

    def __init__(self, images, store):
        self.images, self.store = images, store

    def ready(self):
        for name in self.modules:
            importlib.import_module(name)

    def pack(self):
        pass


class Files(Peer):
    """A folder of files, as torchvision's ImageFolder reads it."""

    title, needs, install = "PyTorch DataLoader, files", ("torch",), "pip install torch"

    def __init__(self, images, store):
        super().__init__(images, store)
        self.items = None

    def __len__(self):
        # Grain asks for it with every sample.
        self.items = self.items or listed(self.images)
        return len(self.items)

    def __getitem__(self, index):
        path, label = self.items[index]
        return path.read_bytes(), label

    def samples(self):
        return (self[i][0] for i in range(len(self)))

    def loader(self, collate, settings):
        return torch_loader(self, collate, settings, shuffle=True)


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


class GularWheel(Peer):
    """The bundle, by the loader of the wheel, with threads in place of worker processes."""

    title, needs, install = "gular.DataLoader", ("torch", "gular"), "cargo xtask dist"
    packages, modules = ("gular",), ("torch", "gular")
    own, decodes = "libjpeg-turbo (gular)", "the crop and its surroundings"

    def samples(self):
        return None

    def options(self, size):
        return {"size": size}

    def loader(self, collate, settings):
        import gular

        loader = gular.DataLoader(
            self.store,
            batch_size=settings.batch,
            workers=settings.workers,
            drop_last=True,
            as_tuple=("image", "label"),
            **self.options(settings.size),
        )
        # Digests are compared when a sample is first read; a row of its own measures that.
        for _ in loader:
            pass
        return loader


class GularNothing(GularWheel):
    """The same with a function of Python for each sample that does nothing."""

    title = "gular.DataLoader, each=nothing"

    def options(self, size):
        return {"size": size, "each": lambda sample, rng: sample}


class GularColour(GularWheel):
    """Crops and flips by the loader, colours by albumentations."""

    title, needs = "gular.DataLoader, each=colours", ("torch", "gular", "albumentations")
    packages = ("gular", "albumentations")

    def options(self, size):
        import albumentations
        from stacks import colours

        return {"size": size, "each": albumentations.Compose(colours())}


class GularWhole(GularColour):
    """Whole pictures, and all by albumentations."""

    title, decodes = "gular.DataLoader, each=all", "whole"

    def options(self, size):
        import gular
        from stacks import all_of_it

        return {"transform": gular.Whole(size), "each": all_of_it(size)}


class WebDataset(Peer):
    title, needs, install = "webdataset", ("torch", "webdataset"), "pip install torch webdataset"
    order = "shards, then a buffer of 1000"
    packages, modules = ("webdataset",), ("torch", "webdataset")

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
        return webdataset.WebLoader(data, batch_size=None, num_workers=settings.workers, **options)


class HuggingFace(Peer):
    title, needs, install = "datasets, Arrow", ("torch", "datasets"), "pip install torch datasets"
    packages, modules = ("datasets", "pyarrow"), ("torch", "datasets")

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
        return torch_loader(self, collate, settings, shuffle=True)


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


class Streaming(Peer):
    packages = ("mosaicml-streaming",)
    title, needs = "MosaicML Streaming", ("torch", "streaming")
    install = "pip install --no-deps mosaicml-streaming Brotli catalogue cramjam python-snappy zstd xxhash"
    order = "within blocks of its own"

    def ready(self):
        streaming()

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

        return torch_loader(self.dataset(settings.batch, True), batch, settings)


class Ffcv(Peer):
    """Takes no JPEG as it is: decodes and encodes again, at quality 90."""

    title, needs = "FFCV", ("torch", "ffcv", "cv2")
    install = "apt-get install libopencv-dev libturbojpeg0-dev pkg-config; pip install numba opencv-python-headless ffcv"
    packages = ("ffcv", "numba")
    own, decodes = "libjpeg-turbo, fast DCT (FFCV)", "whole images, encoded again"

    def __len__(self):
        self.items = listed(self.images)
        return len(self.items)

    def __getitem__(self, index):
        from PIL import Image

        path, label = self.items[int(index)]
        return Image.open(path).convert("RGB"), label

    def pack(self):
        self.write(write_mode="jpg", jpeg_quality=90)

    def write(self, **how):
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter

        fields = {"image": RGBImageField(**how), "label": IntField()}
        DatasetWriter(self.store, fields, num_workers=len(os.sched_getaffinity(0))).from_indexed_dataset(self)

    def pixels(self, size):
        from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
        from ffcv.transforms import RandomHorizontalFlip

        return [RandomResizedCropRGBImageDecoder((size, size)), RandomHorizontalFlip()]

    def samples(self):
        return None

    def loader(self, _collate, settings):
        import numpy
        from ffcv.fields.decoders import IntDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.transforms import NormalizeImage, Squeeze, ToTensor, ToTorchImage
        from stacks import MEAN, STD

        normalise = NormalizeImage(numpy.array(MEAN) * 255, numpy.array(STD) * 255, numpy.float32)
        image = [*self.pixels(settings.size), normalise, ToTensor(), ToTorchImage(convert_back_int16=False)]
        label = [IntDecoder(), ToTensor(), Squeeze()]
        return Loader(
            self.store,
            batch_size=settings.batch,
            num_workers=max(1, settings.workers),
            order=OrderOption.RANDOM,
            os_cache=True,
            drop_last=True,
            pipelines={"image": image, "label": label},
        )


class FfcvRaw(Ffcv):
    """The same of pixels, which it stores as they are."""

    own, decodes, side = "pixels (FFCV)", "whole images, resized before", 256

    def __getitem__(self, index):
        picture, label = super().__getitem__(index)
        return picture.resize((self.side, self.side)), label

    def pack(self):
        self.write(write_mode="raw")

    def pixels(self, _size):
        from ffcv.fields.decoders import SimpleRGBImageDecoder

        return [SimpleRGBImageDecoder()]


class LitData(Peer):
    title, needs, install = "LitData", ("torch", "litdata"), "pip install litdata"
    order = "chunks, then within them"
    packages, modules = ("litdata",), ("torch", "litdata")

    def pack(self):
        import litdata

        workers = len(os.sched_getaffinity(0))
        inputs = listed(self.images)
        litdata.optimize(stored, inputs, output_dir=self.store, chunk_bytes="64MB", num_workers=workers)

    def dataset(self, shuffle):
        import litdata

        return litdata.StreamingDataset(self.store, shuffle=shuffle, drop_last=False)

    def samples(self):
        return (sample["image"] for sample in self.dataset(False))

    def loader(self, collate, settings):
        import litdata

        def batch(samples):
            return collate([(sample["image"], sample["label"]) for sample in samples])

        options = {"persistent_workers": True, "prefetch_factor": 4} if settings.workers else {}
        return litdata.StreamingDataLoader(
            self.dataset(True),
            batch_size=settings.batch,
            num_workers=settings.workers,
            drop_last=True,
            collate_fn=batch,
            **options,
        )


def stored(item):
    path, label = item
    return {"image": path.read_bytes(), "label": label}


class LitDataRaw(Peer):
    """Files as they are. It hands out bytes without their paths, so that labels are zeros."""

    title, needs, install = "LitData, raw files", ("torch", "litdata"), "pip install litdata"
    packages, modules = ("litdata",), ("torch", "litdata")

    def dataset(self):
        import litdata

        # What it keeps of the listing is not of the images.
        return litdata.StreamingRawDataset(str(self.images), cache_dir=f"{self.store}.cache")

    def samples(self):
        data = self.dataset()
        return (data[i] for i in range(len(data)))

    def loader(self, collate, settings):
        def batch(samples):
            return collate([(data, 0) for data in samples])

        return torch_loader(self.dataset(), batch, settings, shuffle=True)


class LanceDb(Peer):
    """A table, and its streaming dataset, which decodes in threads and needs no workers."""

    title, needs, install = "LanceDB, StreamingDataset", ("torch", "lancedb"), "pip install lancedb"
    packages, modules = ("lancedb", "pyarrow"), ("torch", "lancedb", "lancedb.streaming")

    def pack(self):
        import lancedb
        import pyarrow

        schema = pyarrow.schema([("image", pyarrow.binary()), ("label", pyarrow.int64())])

        def batches(items, size=256):
            for at in range(0, len(items), size):
                part = items[at : at + size]
                columns = [[path.read_bytes() for path, _ in part], [label for _, label in part]]
                yield pyarrow.record_batch(columns, schema=schema)

        data = pyarrow.RecordBatchReader.from_batches(schema, batches(listed(self.images)))
        lancedb.connect(self.store).create_table("images", data=data, schema=schema)

    def dataset(self, **options):
        import lancedb
        from lancedb.streaming import StreamingDataset

        table = lancedb.connect(self.store).open_table("images")
        return StreamingDataset(table, **options)

    def samples(self):
        return (sample["image"] for sample in self.dataset(shuffle=False))

    def loader(self, collate, settings):
        return LanceDbEpochs(self, collate, settings)


class LanceDbEpochs:
    """A dataset is of one epoch."""

    def __init__(self, peer, collate, settings):
        self.peer, self.collate, self.settings, self.epoch = peer, collate, settings, 0

    def transform(self, batch):
        pairs = zip(batch.column("image"), batch.column("label"), strict=True)
        return [self.collate.one(data.as_py(), label.as_py()) for data, label in pairs]

    def __iter__(self):
        from torch.utils.data import DataLoader

        threads = max(1, self.settings.workers)
        data = self.peer.dataset(epoch=self.epoch, transform=self.transform, transform_parallelism=threads)
        self.epoch += 1
        options = {"batch_size": self.settings.batch, "num_workers": 0, "drop_last": True}
        return iter(DataLoader(data, collate_fn=self.collate.together, **options))


class Grain(Files):
    """Files as a random-access source, decoded in worker processes."""

    title, needs, install = "Grain", ("torch", "grain"), "pip install grain"
    packages, modules = ("grain",), ("torch", "grain")

    def loader(self, collate, settings):
        import grain

        data = grain.MapDataset.source(self).seed(0).shuffle().repeat()
        data = data.map(Decoded(collate)).batch(settings.batch, drop_remainder=True, batch_fn=collate.arrays)
        # Each worker process decodes; threads in it would only read ahead.
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=settings.batch))
        data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=settings.workers, per_worker_buffer_size=4))
        return Tensors(data)


class Decoded:
    def __init__(self, collate):
        self.collate = collate

    def __call__(self, sample):
        return self.collate.one(*sample)


class Tensors:
    """Batches of arrays as those of tensors, without a copy."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        import torch

        return ((torch.from_numpy(pictures), torch.from_numpy(labels)) for pictures, labels in self.data)


class Datago(Peer):
    """Crops the middle square and resizes it in Rust; it has no labels."""

    title, needs, install = "Datago", ("torch", "numpy", "datago"), "pip install datago"
    packages, modules = ("datago",), ("torch", "datago")
    order = "its own, random"
    own, decodes = "Rust, by Datago", "whole images, and resizes their middle square"

    def samples(self):
        return None

    def loader(self, _collate, settings):
        return DatagoEpochs(self.images, len(listed(self.images)), settings)


class DatagoEpochs:
    def __init__(self, images, n, settings):
        self.images, self.n, self.settings = images, n, settings

    def __iter__(self):
        import json

        import datago
        import numpy
        import torch

        size, batch = self.settings.size, self.settings.batch
        config = {
            "source_type": "file",
            "source_config": {"root_path": str(self.images), "random_sampling": True, "rank": 0, "world_size": 1},
            "image_config": {
                "crop_and_resize": True,
                "default_image_size": size,
                "downsampling_ratio": 32,
                "min_aspect_ratio": 1.0,
                "max_aspect_ratio": 1.0,
                "pre_encode_images": False,
            },
            "limit": self.n,
            "samples_buffer_size": 2 * batch,
        }
        client = datago.DatagoClient(json.dumps(config))
        try:
            pictures = []
            while (sample := client.get_sample()) is not None:
                pictures.append(numpy.asarray(sample.image.to_pil_image().convert("RGB")))
                if len(pictures) == batch:
                    yield torch.from_numpy(numpy.stack(pictures)), torch.zeros(batch, dtype=torch.int64)
                    pictures = []
        finally:
            client.stop()


PEERS = {
    "files": Files,
    "webdataset": WebDataset,
    "datasets": HuggingFace,
    "streaming": Streaming,
    "ffcv": Ffcv,
    "ffcv-raw": FfcvRaw,
    "litdata": LitData,
    "litdata-raw": LitDataRaw,
    "lancedb": LanceDb,
    "grain": Grain,
    "datago": Datago,
    "gular-python": Gular,
    "gular-wheel": GularWheel,
    "gular-each-nothing": GularNothing,
    "gular-each-colour": GularColour,
    "gular-each-whole": GularWhole,
}
