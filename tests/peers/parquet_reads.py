"""Envelope `parquet`: pyarrow, `datasets` and DuckDB read what we write."""

import io

from _shared import check, finish, gular, make_images, shards, skip

try:
    import datasets
    import duckdb
    import numpy
    import pyarrow.parquet
    from PIL import Image
except ImportError as missing:
    skip("parquet_reads", missing.name, "pip install datasets duckdb pyarrow pillow")
    finish()

made = make_images()
CLASSES = ["class 0", "class 1", "class 2"]


def of_split(split):
    return {key: value for key, value in made.items() if key.startswith(f"{split}/")}


def pyarrow_reads():
    found = {}
    for path in shards("bundle"):
        file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            table.validate(full=True)
            for row in table.to_pylist():
                found[row["key"]] = row["image"]["bytes"], row["label"]
                if row["image"]["path"] != row["key"]:
                    found[row["key"]] = row["image"]["path"]
        columns = [file.metadata.row_group(0).column(i) for i in range(file.metadata.num_columns)]
        codecs = {c.compression for c in columns}
        check("pyarrow: nothing is compressed", codecs == {"UNCOMPRESSED"}, codecs)
    check("pyarrow: every key, image and label", found == made, len(found))
    labels = pyarrow.parquet.read_table(shards("bundle", "val")[0], columns=["label"])
    check("pyarrow: one column", labels.num_columns == 1 and labels.num_rows == len(of_split("val")), labels)


def duckdb_reads():
    files = "', '".join(shards("bundle"))
    rows = duckdb.sql(f"select key, image.bytes, label from read_parquet(['{files}'])").fetchall()
    check("DuckDB: every key, image and label", {k: (b, l) for k, b, l in rows} == made, len(rows))
    counts = duckdb.sql(f"select label, count(*) from read_parquet(['{files}']) group by label").fetchall()
    wanted = {label: sum(l == label for _, l in made.values()) for label in range(3)}
    check("DuckDB: labels are counted", dict(counts) == wanted, counts)


def datasets_reads():
    files = {split: shards("bundle", split) for split in ("train", "val")}
    data = datasets.load_dataset("parquet", data_files=files, cache_dir="cache")
    features = data["train"].features
    check("load_dataset: class names", features["label"].names == CLASSES, features)
    check("load_dataset: an image", isinstance(features["image"], datasets.Image), features)
    for split in files:
        rows = {row["key"]: row for row in data[split]}
        same = [numpy.array_equal(rows[k]["image"], Image.open(io.BytesIO(b))) for k, (b, _) in of_split(split).items()]
        check(f"load_dataset: decodes all of {split}", all(same) and len(rows) == len(same), same)
        encoded = data[split].cast_column("image", datasets.Image(decode=False))
        found = {row["key"]: (row["image"]["bytes"], row["label"]) for row in encoded}
        check(f"load_dataset: every sample of {split}", found == of_split(split), len(found))
    streamed = datasets.load_dataset("parquet", data_files=files, streaming=True)["val"]
    rows = {row["key"]: row["image"].size for row in streamed}
    check("load_dataset, streaming", rows.keys() == of_split("val").keys(), len(rows))


def arrays_are_read():
    gular("pack", "images", "raw", "--envelope", "parquet", "--payload", "raw", "--size", "24x20")
    gular("convert", "raw", "plain", "--envelope", "shards")
    from safetensors.numpy import load_file

    for ours, plain in zip(shards("raw"), shards("plain"), strict=True):
        wanted = load_file(plain)["image"]
        column = pyarrow.parquet.read_table(ours).column("image")
        values = numpy.stack([numpy.frombuffer(v.as_py(), "u1") for v in column]).reshape(wanted.shape)
        check("pyarrow: raw images", numpy.array_equal(values, wanted))
        data = datasets.load_dataset("parquet", data_files=ours, split="train")
        values = numpy.stack([numpy.frombuffer(v, "u1") for v in data["image"]]).reshape(wanted.shape)
        check("load_dataset: raw images", numpy.array_equal(values, wanted), data)


gular("pack", "images", "bundle", "--envelope", "parquet", "--shard-size", "1MiB")
check("several shards", len(shards("bundle")) > 2, shards("bundle"))
pyarrow_reads()
duckdb_reads()
datasets_reads()
arrays_are_read()
finish()
