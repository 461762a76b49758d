"""Envelope `arrow`: `datasets` and pyarrow read what we write."""

import io

from _shared import check, finish, gular, make_images, shards, skip

try:
    import datasets
    import numpy
    import pyarrow
    from PIL import Image
except ImportError as missing:
    skip("arrow_reads", missing.name, "pip install datasets pyarrow pillow")
    finish()

made = make_images()
CLASSES = ["class 0", "class 1", "class 2"]


def of_split(split):
    return {key: value for key, value in made.items() if key.startswith(f"{split}/")}


def pyarrow_reads():
    found, batches = {}, []
    for file in shards("bundle"):
        with pyarrow.memory_map(file) as source:
            reader = pyarrow.ipc.open_stream(source)
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch.num_rows)
                for row in batch.to_pylist():
                    found[row["key"]] = row["image"]["bytes"], row["label"]
                    if row["image"]["path"] != row["key"]:
                        found[row["key"]] = row["image"]["path"]
    check("pyarrow: every key, image and label", found == made, len(found))
    check("pyarrow: batches are bounded", max(batches) <= 100, batches)


def datasets_reads():
    (val,) = shards("bundle", "val")
    data = datasets.Dataset.from_file(val)
    check("Dataset.from_file: class names", data.features["label"].names == CLASSES, data.features)
    check("Dataset.from_file: an image", isinstance(data.features["image"], datasets.Image), data.features)
    rows = {row["key"]: row for row in data}
    same = [numpy.array_equal(rows[k]["image"], Image.open(io.BytesIO(b))) for k, (b, _) in of_split("val").items()]
    check("Dataset.from_file: decodes", all(same) and len(rows) == len(same), same)

    files = {split: shards("bundle", split) for split in ("train", "val")}
    data = datasets.load_dataset("arrow", data_files=files, cache_dir="cache")
    check("load_dataset: class names", data["train"].features["label"].names == CLASSES, data)
    for split in files:
        encoded = data[split].cast_column("image", datasets.Image(decode=False))
        found = {row["key"]: (row["image"]["bytes"], row["label"]) for row in encoded}
        check(f"load_dataset: every sample of {split}", found == of_split(split), len(found))
    decoded = data["train"][3]["image"].size
    check("load_dataset: decodes", decoded[0] == 160, decoded)
    streamed = datasets.load_dataset("arrow", data_files=files, streaming=True)["val"]
    check("load_dataset, streaming", len(list(streamed)) == len(of_split("val")))


def arrays_are_read():
    gular("pack", "images", "raw", "--envelope", "arrow", "--payload", "raw", "--size", "24x20")
    gular("convert", "raw", "plain", "--envelope", "shards")
    from safetensors.numpy import load_file

    for ours, plain in zip(shards("raw"), shards("plain"), strict=True):
        wanted = load_file(plain)["image"]
        with pyarrow.memory_map(ours) as source:
            column = pyarrow.ipc.open_stream(source).read_all().column("image")
        values = column.combine_chunks().flatten().flatten().flatten().to_numpy().reshape(wanted.shape)
        check("pyarrow: raw images", numpy.array_equal(values, wanted))
        data = datasets.Dataset.from_file(ours).with_format("numpy")
        check("Dataset.from_file: raw images", numpy.array_equal(numpy.stack(data["image"][:]), wanted), data)


gular("pack", "images", "bundle", "--envelope", "arrow", "--shard-size", "1MiB")
check("several shards", len(shards("bundle")) > 2, shards("bundle"))
pyarrow_reads()
datasets_reads()
arrays_are_read()
finish()
