"""`gular adopt` of Arrow files that `datasets`, pyarrow and polars' format of views wrote."""

import pathlib
import subprocess

from _shared import GULAR, check, extract, finish, gular, make_images, skip

try:
    import datasets
    import numpy
    import pyarrow
    import pyarrow.feather
except ImportError as missing:
    skip("adopt_arrow", missing.name, "pip install datasets pyarrow")
    finish()

made = sorted(make_images().items())
IMAGES = [data for _, (data, _) in made]
LABELS = [label for _, (_, label) in made]
KEYS = [key for key, _ in made]
NAMES = ["ash", "birch", "cedar"]


def adopted(name, path, keys, images=IMAGES, labels=LABELS, options=()):
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


def write(path, table, format="stream", rows=17, **options):
    make = {"stream": pyarrow.ipc.new_stream, "file": pyarrow.ipc.new_file}[format]
    with make(path, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=rows)


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
    data.save_to_disk("saved", num_shards=2)
    report = adopted("save_to_disk", "saved", KEYS, options=["--key-column", "name"])
    check("save_to_disk: class names", report["classes"] in (NAMES, len(NAMES)), report)
    check("save_to_disk: an array is a field", "boxes" in report["fields"], report)
    check("save_to_disk: what is left out is said", "words" in report["left_out"], report)

    # What `load_dataset` caches of a folder of images.
    pathlib.Path("flat").mkdir()
    for i, (key, (image, _)) in enumerate(made):
        (pathlib.Path("flat") / f"{i:03d}{pathlib.Path(key).suffix}").write_bytes(image)
    datasets.load_dataset("imagefolder", data_dir="flat", cache_dir="cache", split="train")
    (cached,) = pathlib.Path("cache").rglob("*.arrow")
    said = gular("adopt", cached, "--out", "none", refused=True)
    check("a cache of paths only is refused", "paths" in said and "hint" in said, said)
    saved = datasets.Dataset.from_file(str(cached))
    saved.save_to_disk("embedded")
    report = gular("adopt", "embedded", "--out", "out-embedded")
    check("save_to_disk embeds", report["splits"] == {"train": len(made)}, report)


def pyarrow_files():
    table = pyarrow.table({"image": pyarrow.array(IMAGES, pyarrow.binary()), "label": LABELS, "key": KEYS})
    write("stream-train.arrow", table)
    adopted("stream", "stream-train.arrow", KEYS)
    write("file.arrow", table, "file")
    adopted("file", "file.arrow", KEYS)
    views = table.set_column(0, "image", pyarrow.array(IMAGES, pyarrow.binary_view()))
    views = views.set_column(2, "key", pyarrow.array(KEYS, pyarrow.string_view()))
    write("views.arrow", views, "file")
    adopted("views", "views.arrow", KEYS)
    large = table.set_column(0, "image", pyarrow.array(IMAGES, pyarrow.large_binary()))
    some = [None if i % 7 == 0 else label for i, label in enumerate(LABELS)]
    large = large.set_column(1, "label", pyarrow.array(some, pyarrow.int16()))
    write("large.arrow", large)
    adopted("large, labels missing", "large.arrow", KEYS, labels=some)
    several = pyarrow.table({"left": IMAGES, "right": IMAGES[::-1], "cls": [NAMES[i] for i in LABELS], "note": ["x"] * len(KEYS), "key": KEYS})
    write("several.arrow", several)
    for column, images in (("left", IMAGES), ("right", IMAGES[::-1])):
        report = adopted(f"several, {column}", "several.arrow", KEYS, images, options=["--image-column", column])
        check(f"several, {column}: class names of words", report["classes"] in (NAMES, len(NAMES)), report)
    sliced = table.slice(13, 20)
    write("sliced.arrow", sliced, rows=7)
    adopted("sliced", "sliced.arrow", KEYS[13:33], IMAGES[13:33], LABELS[13:33])


def refusals():
    table = pyarrow.table({"image": IMAGES, "label": LABELS})
    for name, write_it, reason in (
        ("lz4", lambda p: pyarrow.feather.write_feather(table, p), "LZ4"),
        ("zstd", lambda p: write(p, table, options=pyarrow.ipc.IpcWriteOptions(compression="zstd")), "ZSTD"),
    ):
        write_it(f"{name}.arrow")
        said = gular("adopt", f"{name}.arrow", "--out", "none", refused=True)
        check(f"{name} is refused", reason in said and "hint" in said and not pathlib.Path("none").exists(), said)
    coded = pyarrow.table({"image": IMAGES, "label": pyarrow.array([NAMES[i] for i in LABELS]).dictionary_encode()})
    write("coded.arrow", coded)
    said = gular("adopt", "coded.arrow", "--out", "none", refused=True)
    check("a dictionary is refused", "dictionary" in said, said)
    whole = pathlib.Path("stream-train.arrow").read_bytes()
    for cut in (3, 1000, len(whole) // 2):
        pathlib.Path("cut.arrow").write_bytes(whole[:cut])
        said = subprocess.run([GULAR, "adopt", "cut.arrow", "--out", "none"], capture_output=True, text=True)
        check(f"cut after {cut} bytes", said.returncode and "cut.arrow" in said.stderr, said.stderr)


hugging_face()
pyarrow_files()
refusals()
finish()
