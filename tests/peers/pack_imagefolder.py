"""Every layout of Hugging Face's imagefolder documentation: packed, it is what `datasets` reads."""

import collections
import io
import json
import os
import pathlib
import re
import sys
import zipfile

from _shared import check, finish, gular, sha, skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))
os.environ |= {"HF_HOME": str(pathlib.Path("hub").resolve()), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}

try:
    import datasets
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image
except ImportError as missing:
    skip("pack_imagefolder", missing.name, "pip install datasets numpy pillow pyarrow")
    finish()

from gular_dataset import GularDataset

noise = np.random.default_rng(0)
SPLITS = {"train": "train", "validation": "val", "test": "test"}


def picture():
    made = io.BytesIO()
    Image.fromarray(noise.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(made, "png")
    return made.getvalue()


def lay(name, files):
    """Writes files: a text, bytes, or `None` for an image; in a zip where a part of the path is one."""
    for path, content in files.items():
        content = picture() if content is None else content
        content = content.encode() if isinstance(content, str) else content
        archive, zipped, member = path.partition(".zip/")
        at = pathlib.Path(name, archive + ".zip" if zipped else path)
        at.parent.mkdir(parents=True, exist_ok=True)
        if zipped:
            with zipfile.ZipFile(at, "a") as file:
                file.writestr(member, content)
        else:
            at.write_bytes(content)
    return pathlib.Path(name)


def images(*paths):
    return dict.fromkeys(paths)


def seen(image):
    return sha(image.convert("RGB").tobytes())


def value(data, i):
    """The value of a field as Python has it."""
    raw = data.raw(i)
    if isinstance(raw, np.ndarray):
        return raw.item() if raw.size == 1 else raw.tolist()
    return np.load(io.BytesIO(raw)).tolist() if raw[:6] == b"\x93NUMPY" else raw.decode()


def compare(name, made, *options, columns=(), labelled=False, source=None, **reads):
    """`columns` are those of both; `labelled` compares the classes."""
    peers = datasets.load_dataset("imagefolder", data_dir=str(made), **reads)
    report = gular("pack", source or made, f"bundle {name}", *options)
    wrong, n = [], 0
    for split, peer in peers.items():
        expected, found = collections.Counter(), collections.Counter()
        for row in peer:
            label = (peer.features["label"].int2str(row["label"]), row["label"]) if labelled and isinstance(row["label"], int) else row["label"] if labelled else None
            expected[repr((seen(row["image"]), label, *(plain(row[column]) for column in columns)))] += 1
        try:
            data = GularDataset(f"bundle {name}", SPLITS[split], "image")
            more = [GularDataset(f"bundle {name}", SPLITS[split], column) for column in columns]
        except KeyError as missing:
            wrong.append(missing)
            continue
        for i in range(len(data)):
            label = (data.classes[data.label(i)], data.label(i)) if labelled else None
            label = label[0] if labelled and peer.features["label"].dtype in ("string", "large_string") else label
            found[repr((seen(Image.open(io.BytesIO(data.raw(i)))), label, *(value(column, i) for column in more)))] += 1
        n += len(data)
        wrong += [(split, "only datasets", *list(expected - found)[:2])] if expected - found else []
        wrong += [(split, "only gular", *list(found - expected)[:2])] if found - expected else []
    wrong += [f"{report['samples']} samples, {n} in the splits of datasets"] if n != report["samples"] else []
    check(name, n and not wrong, wrong)


def plain(value):
    return float(value) if isinstance(value, float) else value


def label_folders():
    both = lambda split, more="": {f"{more}{split}/{kind}/{i}.png": None for kind in ("cat", "dog") for i in range(2)}
    compare("label folders", lay("folders", both("train") | both("test")), labelled=True)
    compare("label folders without splits", lay("no splits", both("pets")), labelled=True)
    compare("label folders in data", lay("in data", both("train", "data/") | both("validation", "data/") | both("test", "data/")), labelled=True)
    compare("splits by other words", lay("words", both("training") | both("valid") | both("testing")), labelled=True)
    compare("splits by further words", lay("more words", both("train") | both("dev") | both("eval")), labelled=True)
    # `datasets` 5.2.0 looks for labels in the path of the archive, so it reads the folders unpacked.
    for around in "", "data/":
        files = {f"{around}{split}/{kind}/{i}.png": picture() for split in ("train", "test") for kind in ("cat", "dog") for i in range(2)}
        zipped = {re.sub("(train|test)/", r"\1.zip/", path): content for path, content in files.items()}
        compare(f"zip archives of folders {around}", lay(f"unzipped {around}", files), source=lay(f"zips {around}", zipped), labelled=True)
    compare("images without labels", lay("flat", images("train/1.png", "train/2.png", "test/3.png")), "--labels", "none", drop_labels=True)


def metadata():
    rows = lambda names: [{"file_name": name, "text": f"ein Bild, {i}", "weight": i + 0.5, "n": i} for i, name in enumerate(names)]
    csv = lambda rows: ",".join(rows[0]) + "\n" + "".join(",".join(f'"{v}"' if isinstance(v, str) else str(v) for v in row.values()) + "\n" for row in rows)
    lines = lambda rows: "".join(json.dumps(row) + "\n" for row in rows)

    def parquet(rows):
        made = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), made)
        return made.getvalue()

    columns = ("text", "weight", "n")
    for ending, write in ("csv", csv), ("jsonl", lines), ("parquet", parquet):
        names = ["1.png", "2.png", "3.png"]
        compare(f"metadata.{ending} beside", lay(f"beside {ending}", images(*names) | {f"metadata.{ending}": write(rows(names))}), columns=columns)
        compare(f"metadata.{ending} per split", lay(f"per split {ending}", {path: content for split in ("train", "test") for path, content in (images(*(f"{split}/{name}" for name in names)) | {f"{split}/metadata.{ending}": write(rows(names))}).items()}), columns=columns)
        compare(f"metadata.{ending} in archives", lay(f"zipped {ending}", {path: content for split in ("train", "test") for path, content in (images(*(f"{split}.zip/{name}" for name in names)) | {f"{split}.zip/metadata.{ending}": write(rows(names))}).items()}), columns=columns)
        made = lay(f"one zip {ending}", images(*(f"all.zip/{name}" for name in names)) | {f"all.zip/metadata.{ending}": write(rows(names))})
        compare(f"metadata.{ending} in an archive", made, columns=columns, source=made / "all.zip")
        labelled = [{"file_name": name, "label": "ab"[i % 2], "text": f"x {i}"} for i, name in enumerate(names)]
        compare(f"labels in metadata.{ending}", lay(f"labels {ending}", images(*names) | {f"metadata.{ending}": write(labelled)}), columns=("text",), labelled=True)


def captions():
    rows = "".join(json.dumps({"file_name": f"{i}.png", "text": f"This is {i}, the same", "lang": "en"}) + "\n" for i in range(3))
    compare("captions", lay("captions", images("train/0.png", "train/1.png", "train/2.png") | {"train/metadata.jsonl": rows}), columns=("text", "lang"))
    rows = "".join(json.dumps({"file_name": f"{i}.png", "captions": [f"one of {i}", f"another, {i}", "x" * i]}) + "\n" for i in range(3))
    made = lay("lists", images("train/0.png", "train/1.png", "train/2.png") | {"train/metadata.jsonl": rows})
    peer = datasets.load_dataset("imagefolder", data_dir=str(made))["train"]
    gular("pack", made, "bundle lists")
    data = GularDataset("bundle lists", "train", "captions")
    found = {data.key(i).rsplit("/", 1)[-1]: json.loads(data.raw(i)) for i in range(len(data))}
    expected = {f"{i}.png": row["captions"] for i, row in enumerate(sorted(peer, key=lambda row: row["captions"]))}
    check("several captions", sorted(found.values()) == sorted(expected.values()), (found, expected))


def detection():
    rows = [[{"bbox": [[2.0, 3.0, 5.0, 6.0], [0.0, 0.0, 24.0, 20.0]][: i + 1], "categories": [1, 0][: i + 1]}] for i in range(2)]
    text = "".join(json.dumps({"file_name": f"{i}.png", "objects": row[0]}) + "\n" for i, row in enumerate(rows))
    made = lay("objects", images("train/0.png", "train/1.png") | {"train/metadata.jsonl": text})
    peer = datasets.load_dataset("imagefolder", data_dir=str(made))["train"]
    gular("pack", made, "bundle objects")
    boxes, labels = (GularDataset("bundle objects", "train", field) for field in ("boxes", "box_labels"))
    found = {seen(Image.open(io.BytesIO(GularDataset("bundle objects", "train").raw(i)))): (np.array(value(boxes, i)).round(5).tolist(), value(labels, i)) for i in range(2)}
    share = lambda box: [round(v / s, 5) for v, s in zip((box[0], box[1], box[0] + box[2], box[1] + box[3]), (24, 20, 24, 20))]
    expected = {seen(row["image"]): ([share(box) for box in row["objects"]["bbox"]], row["objects"]["categories"]) for row in peer}
    check("object detection", found == expected, (found, expected))


def pairs():
    made = lay("pairs", images(*(f"train/{part}/{i}.png" for part in ("in", "out") for i in range(3))) | {"train/metadata.csv": "input_file_name,output_file_name\n" + "".join(f"in/{i}.png,out/{i}.png\n" for i in range(3))})
    peer = datasets.load_dataset("imagefolder", data_dir=str(made))["train"]
    told = gular("pack", made, "bundle pairs", refused=True)
    check("pairs of images are told by patterns", "--images" in told and "{key}" in told, (told, peer.column_names))


def hub():
    """Parquet as the hub has it: bytes of images, classes by number, further columns, a mask."""
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["zebra", "ant", "cat"]), "text": datasets.Value("string"), "weight": datasets.Value("float64")})
    for n_files in 1, 3:
        made = pathlib.Path(f"hub {n_files}", "data")
        made.mkdir(parents=True)
        peers = {}
        for split, n in ("train", 12), ("test", 5):
            rows = {"image": [{"bytes": picture(), "path": None} for _ in range(n)], "label": [i % 3 for i in range(n)], "text": [f"{split} {i}" for i in range(n)], "weight": [i / 4 for i in range(n)]}
            peers[split] = datasets.Dataset.from_dict(rows, features=features)
            for i in range(n_files):
                peers[split].shard(n_files, i).to_parquet(made / f"{split}-{i:05}-of-{n_files:05}.parquet", batch_size=4)
        gular("pack", made.parent, f"bundle hub {n_files}")
        wrong = []
        for split, peer in peers.items():
            data, texts, weights = (GularDataset(f"bundle hub {n_files}", split, field) for field in ("image", "text", "weight"))
            found = sorted((seen(Image.open(io.BytesIO(data.raw(i)))), data.classes[data.label(i)], data.label(i), value(texts, i), value(weights, i)) for i in range(len(data)))
            expected = sorted((seen(row["image"]), peer.features["label"].int2str(row["label"]), row["label"], row["text"], row["weight"]) for row in peer)
            wrong += [] if found == expected and len(found) == len(peer) else [(split, found[:1], expected[:1])]
        check(f"Parquet of the hub in {n_files} files a split", not wrong, wrong)


def hub_boxes():
    """Boxes in Parquet of the hub, with their classes in the order of their numbers."""
    names = ["truck", "car"]
    made = pathlib.Path("hub boxes")
    made.mkdir()
    objects = [{"bbox": [[2.0, 3.0, 5.0, 6.0], [0.0, 0.0, 24.0, 20.0]][: i + 1], "category": [1, 0][: i + 1]} for i in range(2)]
    for form, feature in {
        "lists": {"bbox": datasets.Sequence(datasets.Sequence(datasets.Value("float32"))), "category": datasets.Sequence(datasets.ClassLabel(names=names))},
        "a list": datasets.Sequence({"bbox": datasets.Sequence(datasets.Value("float32"), length=4), "category": datasets.ClassLabel(names=names)}),
    }.items():
        features = datasets.Features({"image": datasets.Image(), "objects": feature})
        peer = datasets.Dataset.from_dict({"image": [{"bytes": picture(), "path": None} for _ in range(2)], "objects": objects}, features=features)
        source = made / form
        source.mkdir()
        peer.to_parquet(source / "train-00000-of-00001.parquet")
        gular("pack", source, f"bundle {source}")
        boxes, labels = (GularDataset(f"bundle {source}", "train", field) for field in ("boxes", "box_labels"))
        found = sorted((np.array(value(boxes, i)).round(5).tolist(), value(labels, i)) for i in range(2))
        share = lambda box: [round(v / s, 5) for v, s in zip((box[0], box[1], box[0] + box[2], box[1] + box[3]), (24, 20, 24, 20))]
        expected = sorted(([share(box) for box in row["bbox"]], row["category"]) for row in objects)
        check(f"boxes in Parquet of the hub: {form}", found == expected and boxes.classes == names, (found, expected, boxes.classes))


for test in [label_folders, metadata, captions, detection, pairs, hub, hub_boxes]:
    if len(sys.argv) > 1 and test.__name__ not in sys.argv[1:]:
        continue
    try:
        test()
    except Exception as told:
        check(test.__name__, False, repr(told))
finish()
