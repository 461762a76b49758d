"""`gular adopt` of `.beton` files: by FFCV itself where it is installed, else as its documentation lays them out.

FFCV is built from source against OpenCV (150 MB of packages) and needs numba:
`apt-get install libopencv-dev libturbojpeg0-dev pkg-config; pip install ffcv
numba opencv-python-headless`. Without it numpy writes the same structures.
"""

import json
import pathlib
import sys

from _shared import check, extract, finish, gular, make_images, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tutorials" / "python"))

try:
    import io

    import numpy
    from PIL import Image
except ImportError as missing:
    skip("adopt_ffcv", missing.name, "pip install numpy pillow")
    finish()

try:
    from ffcv import fields as ffcv_fields
    from ffcv.writer import DatasetWriter
except ImportError:
    DatasetWriter = None

import gular_dataset

N = 40
PAGE = 1 << 21
IMAGES = [numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for _, (data, _) in sorted(make_images(n=N).items())]
SAME = [image[:64, :48] for image in IMAGES]


class Samples:
    """Image, label, weight, bytes, JSON, array."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        i = int(i)
        blob = numpy.frombuffer(b"b" * (i + 1), "uint8")
        return self.images[i], i % 7, i / 2, blob, {"i": i}, numpy.full((2, 3), i, "float32")


def by_ffcv(path, images, mode):
    fields = {
        "image": ffcv_fields.RGBImageField(write_mode=mode, compress_probability=0.5),
        "label": ffcv_fields.IntField(),
        "weight": ffcv_fields.FloatField(),
        "blob": ffcv_fields.BytesField(),
        "info": ffcv_fields.JSONField(),
        "tile": ffcv_fields.NDArrayField(numpy.dtype("float32"), (2, 3)),
    }
    DatasetWriter(path, fields, page_size=PAGE, num_workers=2).from_indexed_dataset(Samples(images), chunksize=8)


def by_layout(path, images, mode):
    """The structures of FFCV's `types.py`, version 2."""
    header = numpy.dtype([("version", "<u2"), ("fields", "<u2"), ("page", "<u4"), ("samples", "<u8"), ("table", "<u8")], align=True)
    field = numpy.dtype([("type", "u1"), ("name", ("u1", 16)), ("arguments", ("u1", 1024))], align=True)
    image = numpy.dtype([("mode", "u1"), ("width", "<u2"), ("height", "<u2"), ("at", "<u8")])
    blob = numpy.dtype([("at", "<u8"), ("size", "<u8")])
    row = numpy.dtype([("", image), ("", "<i8"), ("", "<f8"), ("", blob), ("", blob), ("", "<u8")], align=True)
    kinds = {"image": 2, "label": 1, "weight": 0, "blob": 3, "info": 5, "tile": 4}
    described = numpy.zeros(len(kinds), field)
    for entry, (name, kind) in zip(described, kinds.items(), strict=True):
        entry["type"] = kind
        entry["name"][: len(name)] = list(name.encode())
    arguments = numpy.zeros(33, "<u8")
    text = json.dumps(numpy.dtype("float32").descr).encode()
    arguments[:2], arguments[32] = (2, 3), len(text)
    described[-1]["arguments"][: 264 + len(text)] = list(arguments.tobytes() + text)
    rows = numpy.zeros(len(images), row)
    start = -(-(header.itemsize + described.nbytes + rows.nbytes) // PAGE) * PAGE
    pages, table = bytearray(), []

    def place(i, data):
        # No value crosses pages.
        if len(pages) % PAGE + len(data) > PAGE:
            pages.extend(bytes(-len(pages) % PAGE))
        table.append((i, start + len(pages), len(data)))
        pages.extend(data)
        return table[-1][1], len(data)

    for i, (picture, label, weight, data, info, tile) in enumerate(map(Samples(images).__getitem__, range(len(images)))):
        raw = mode == "raw" or (mode == "proportion" and i % 2)
        coded = io.BytesIO()
        Image.fromarray(picture).save(coded, "JPEG", quality=90)
        at = place(i, picture.tobytes() if raw else coded.getvalue())[0]
        spans = place(i, data.tobytes()), place(i, json.dumps(info).encode() + b"\0")
        rows[i] = (raw, *picture.shape[1::-1], at), label, weight, *spans, place(i, tile.tobytes())[0]
    pages.extend(bytes(-len(pages) % PAGE))
    head = numpy.array([(2, len(kinds), PAGE, len(images), start + len(pages))], header)
    before = head.tobytes() + described.tobytes() + rows.tobytes()
    allocations = numpy.array(table, "<u8").tobytes()
    pathlib.Path(path).write_bytes(before.ljust(start, b"\0") + bytes(pages) + allocations)


def others(name, bundle):
    """The fields beside the image."""
    data = gular_dataset.GularDataset(bundle, "train")
    check(f"{name}: labels", [data.label(i) for i in range(N)] == [i % 7 for i in range(N)])
    for field, expected in (("weight", lambda i: numpy.float64(i / 2)), ("tile", lambda i: numpy.full((2, 3), i, "float32"))):
        values = gular_dataset.GularDataset(bundle, "train", field=field)
        right = all((numpy.asarray(values[i][0]) == expected(i)).all() for i in range(N))
        check(f"{name}: {field}", right)
    for field, expected in (("blob", lambda i: b"b" * (i + 1)), ("info", lambda i: json.dumps({"i": i}).encode())):
        values = gular_dataset.GularDataset(bundle, "train", field=field)
        check(f"{name}: {field}", all(values.raw(i) == expected(i) for i in range(N)))


def run(writer, write):
    write(f"{writer}-jpg.beton", IMAGES, "jpg")
    bundle = f"{writer}-jpg"
    report = gular("adopt", f"{writer}-jpg.beton", "--out", bundle)
    check(f"{writer}: all fields", len(report["fields"]) == 6 and not report["left_out"], report)
    gular("verify", bundle)
    data = gular_dataset.GularDataset(bundle, "train")
    whole = [data.raw(i) for i in range(N)]
    ends = all(image[:2] == b"\xff\xd8" and image[-2:] == b"\xff\xd9" for image in whole)
    pictures = [numpy.asarray(Image.open(io.BytesIO(image)), "int32") for image in whole]
    # Noise at quality 90 and 4:2:0: colours stay near, and not red where blue was.
    near = all(p.shape == i.shape and abs(p - i).mean() < 60 for p, i in zip(pictures, IMAGES, strict=True))
    check(f"{writer}: JPEG from first to last byte", ends and near)
    check(f"{writer}: by the program", extract(bundle, data.key(7)) == whole[7])
    others(f"{writer}, jpg", bundle)
    write(f"{writer}-raw.beton", SAME, "raw")
    gular("adopt", f"{writer}-raw.beton", "--out", f"{writer}-raw")
    data = gular_dataset.GularDataset(f"{writer}-raw", "train")
    check(f"{writer}: pixels", all((numpy.asarray(data[i][0]) == SAME[i]).all() for i in range(N)))
    others(f"{writer}, raw", f"{writer}-raw")
    for name, images, mode, reason in (("mixed", SAME, "proportion", "are JPEG"), ("sizes", IMAGES, "raw", "different sizes")):
        write(f"{writer}-{name}.beton", images, mode)
        said = gular("adopt", f"{writer}-{name}.beton", "--out", "none", refused=True)
        check(f"{writer}: {name} is refused", reason in said and "write_mode='jpg'" in said, said)


run("layout", by_layout)
if DatasetWriter is not None:
    run("ffcv", by_ffcv)
finish()
