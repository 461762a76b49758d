"""`gular adopt` of Parquet files that `datasets`, pyarrow and DuckDB wrote."""

import pathlib
import subprocess

from _shared import GULAR, check, extract, finish, gular, make_images, skip

try:
    import datasets
    import duckdb
    import numpy
    import pyarrow
    from pyarrow import parquet
except ImportError as missing:
    skip("adopt_parquet", missing.name, "pip install datasets duckdb pyarrow")
    finish()

made = sorted(make_images().items())
IMAGES = [data for _, (data, _) in made]
LABELS = [label for _, (_, label) in made]
KEYS = [key for key, _ in made]
NAMES = ["ash", "birch", "cedar"]


def adopted(name, path, keys=KEYS, images=IMAGES, labels=LABELS, options=()):
    """Adopts; every image by the program, every label by a converted copy."""
    out = f"out-{name}"
    report = gular("adopt", path, "--out", out, *options)
    wrong = [k for k, image in zip(keys, images, strict=True) if extract(out, k) != image]
    check(f"{name}: every image", not wrong, wrong[:3])
    gular("verify", out)
    gular("convert", out, f"copy-{name}", "--envelope", "directory")
    rows = [line.split("\t") for table in pathlib.Path(f"copy-{name}").rglob("samples.tsv") for line in table.read_text().splitlines()]
    column = next(row.index("label") for row in rows if row[0] == "key")
    found = {row[0]: row[column] for row in rows if row[0] != "key"}
    wanted = {k: "-1" if label is None else str(label) for k, label in zip(keys, labels, strict=True)}
    check(f"{name}: every label", found == wanted, sorted(found.items())[:3])
    return report


TABLE = pyarrow.table({"image": pyarrow.array(IMAGES, pyarrow.binary()), "label": LABELS, "key": KEYS})


def write(path, table=TABLE, **options):
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 17} | options
    parquet.write_table(table, path, **options)
    return path


def hugging_face():
    features = datasets.Features({
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=NAMES),
        "name": datasets.Value("string"),
        "boxes": datasets.Array2D(shape=(2, 4), dtype="float32"),
        "words": datasets.Sequence(datasets.Value("string")),
    })
    rows = {
        "image": [{"bytes": data, "path": None} for data in IMAGES],
        "label": LABELS,
        "name": KEYS,
        "boxes": [numpy.full((2, 4), i, dtype="float32") for i in range(len(KEYS))],
        "words": [["a"] * (i % 3) for i in range(len(KEYS))],
    }
    data = datasets.Dataset.from_dict(rows, features=features)
    data.to_parquet("to_parquet.parquet")
    columns = parquet.ParquetFile("to_parquet.parquet").metadata.row_group(0)
    codecs = {columns.column(i).path_in_schema: columns.column(i).compression for i in range(columns.num_columns)}
    check("to_parquet: other columns are snappy", codecs["image.bytes"] == "UNCOMPRESSED" and codecs["label"] == "SNAPPY", codecs)
    report = adopted("to_parquet", "to_parquet.parquet", options=["--key-column", "name"])
    check("to_parquet: class names", report["classes"] in (NAMES, len(NAMES)), report)
    check("to_parquet: what is left out is said", {"boxes", "words"} <= set(report["left_out"]), report)

    # As `datasets` up to 4.5 wrote them.
    table = data.with_format("arrow")[:]
    write("old.parquet", table, compression="snappy", use_dictionary=True)
    said = gular("adopt", "old.parquet", "--out", "none", refused=True)
    command = said.split("`pq.", 1)[1].split("`", 1)[0]
    check("a file of older datasets is refused", "compressed with snappy" in said, said)
    exec(f"parquet.{command}", {"pq": parquet, "parquet": parquet, "FILE": "old.parquet", "NEW": "new.parquet"})
    report = adopted("written anew as it says", "new.parquet", options=["--key-column", "name"])
    check("written anew: class names", report["classes"] in (NAMES, len(NAMES)), report)

    # Of a folder of images there are paths only.
    pathlib.Path("flat").mkdir()
    for i, (key, (image, _)) in enumerate(made):
        (pathlib.Path("flat") / f"{i:03d}{pathlib.Path(key).suffix}").write_bytes(image)
    folder = datasets.load_dataset("imagefolder", data_dir="flat", cache_dir="cache", split="train")
    write("paths.parquet", folder.with_format("arrow")[:])
    said = gular("adopt", "paths.parquet", "--out", "none", refused=True)
    check("paths only are refused", "paths" in said and "hint" in said, said)


def pyarrow_files():
    adopted("plain", write("plain-train.parquet"))
    adopted("version 2 pages", write("v2.parquet", data_page_version="2.0"))
    adopted("dictionaries", write("dictionary.parquet", use_dictionary=True))
    adopted("labels and keys by snappy", write("mixed.parquet", use_dictionary=["label"], compression={"image": "none", "label": "snappy", "key": "snappy"}))
    adopted("labels and keys by zstd and gzip", write("packed.parquet", compression={"image": "none", "label": "zstd", "key": "gzip"}))
    adopted("the same, version 2", write("mixed2.parquet", data_page_version="2.0", compression={"image": "none", "label": "snappy", "key": "snappy"}))
    adopted("small pages", write("pages.parquet", data_page_size=1000, write_batch_size=3, row_group_size=1000))
    adopted("page index and checksums", write("index.parquet", write_page_index=True, write_page_checksum=True))
    adopted("content-defined chunks", write("chunks.parquet", use_content_defined_chunking=True))
    required = pyarrow.schema([pyarrow.field(f.name, f.type, nullable=False) for f in TABLE.schema])
    adopted("nothing nullable", write("required.parquet", TABLE.cast(required)))

    some = [None if i % 7 == 0 else label for i, label in enumerate(LABELS)]
    for kind in ("int8", "uint16", "int64", "uint64"):
        for page in ("1.0", "2.0"):
            table = TABLE.set_column(1, "label", pyarrow.array(some, kind))
            name = f"missing labels, {kind}, {page}"
            adopted(name, write(f"{kind}-{page}.parquet", table, data_page_version=page), labels=some)
        table = TABLE.set_column(1, "label", pyarrow.array(LABELS, kind))
        adopted(f"labels, {kind}", write(f"{kind}.parquet", table))
    adopted("no labels at all", write("none.parquet", TABLE.set_column(1, "label", pyarrow.array([None] * len(KEYS), "int32"))), labels=[None] * len(KEYS))

    several = pyarrow.table({
        "left": IMAGES,
        "right": IMAGES[::-1],
        "mask": [None if i % 5 == 0 else b"mask %d" % i for i in range(len(KEYS))],
        "cls": [NAMES[i] for i in LABELS],
        "hash": pyarrow.array([bytes([i] * 16) for i in range(len(KEYS))], pyarrow.binary(16)),
        "when": pyarrow.array(range(len(KEYS)), pyarrow.timestamp("us")),
        "key": KEYS,
    })
    write("several.parquet", several, use_dictionary=["cls"])
    for column, images in (("left", IMAGES), ("right", IMAGES[::-1])):
        report = adopted(f"several, {column}", "several.parquet", images=images, options=["--image-column", column])
        check(f"several, {column}: class names of words", report["classes"] in (NAMES, len(NAMES)), report)
        check(f"several, {column}: the others are fields", {"hash", "mask"} <= set(report["fields"]), report)
        check(f"several, {column}: times are left out", "when" in report["left_out"], report)

    # One image for all: a page of indices, one entry.
    same = TABLE.set_column(0, "image", pyarrow.array([IMAGES[0]] * len(KEYS), pyarrow.binary()))
    adopted("one image, many times", write("same.parquet", same, use_dictionary=True), images=[IMAGES[0]] * len(KEYS))
    gone = TABLE.set_column(0, "image", pyarrow.array([None, *IMAGES[1:]], pyarrow.binary()))
    said = gular("adopt", write("gone.parquet", gone), "--out", "none", refused=True)
    check("a sample without its image is refused", KEYS[0] in said, said)


def duckdb_files():
    duckdb.register("samples", TABLE)
    duckdb.sql("copy samples to 'duck.parquet' (format parquet, compression uncompressed, row_group_size 2048)")
    adopted("DuckDB", "duck.parquet")


def refusals():
    for codec in ("snappy", "zstd", "gzip", "brotli", "lz4"):
        said = gular("adopt", write(f"{codec}.parquet", compression=codec), "--out", "none", refused=True)
        check(f"{codec} is refused", codec in said and "hint" in said and not pathlib.Path("none").exists(), said)
    encoded = write("delta.parquet", column_encoding={"image": "DELTA_BYTE_ARRAY", "label": "PLAIN", "key": "PLAIN"})
    said = gular("adopt", encoded, "--out", "none", refused=True)
    check("shared prefixes are refused", "DELTA_BYTE_ARRAY" in said, said)
    lists = TABLE.set_column(0, "image", pyarrow.array([list(i[:50]) for i in IMAGES], pyarrow.list_(pyarrow.uint8())))
    said = gular("adopt", write("lists.parquet", lists), "--out", "none", refused=True)
    check("lists are refused", "lists" in said, said)
    whole = pathlib.Path("plain-train.parquet").read_bytes()
    for cut in (3, 1000, len(whole) // 2, len(whole) - 1):
        pathlib.Path("cut.parquet").write_bytes(whole[:cut])
        said = subprocess.run([GULAR, "adopt", "cut.parquet", "--out", "none"], capture_output=True, text=True)
        check(f"cut after {cut} bytes", said.returncode and "cut.parquet" in said.stderr, said.stderr)


hugging_face()
pyarrow_files()
duckdb_files()
refusals()
finish()
