"""Small datasets as torchvision's own classes read them: packed, they have the same images, splits and targets.

Each function lays one out under its name. Those that cannot be packed are refused, and the hint works.
"""

import bz2
import collections
import contextlib
import gzip
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import types

from _shared import check, finish, gular, sha, skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))

try:
    import h5py
    import numpy as np
    import pycocotools
    import torch
    from PIL import Image
    from scipy.io import savemat
    from torchvision import datasets
except ImportError as missing:
    skip("pack_torchvision", missing.name, "pip install torchvision h5py numpy pillow pycocotools scipy")
    finish()

from gular_dataset import GularDataset

# What is made here has not the digests of the published files.
for module in vars(datasets).values():
    if isinstance(module, types.ModuleType) and hasattr(module, "check_integrity"):
        module.check_integrity = lambda path, md5=None: os.path.isfile(path)

noise = np.random.default_rng(0)
root = pathlib.Path("root")


def pixels(*shape):
    return noise.integers(0, 256, shape, dtype=np.uint8)


def lay(folder, files):
    """Writes files: a text, bytes, an array as an image, or `None` for an image of noise."""
    for path, content in files.items():
        path = root / folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            content = pixels(20, 24, 3)
        if isinstance(content, np.ndarray):
            Image.fromarray(content).save(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root / folder


def images(*paths):
    return dict.fromkeys(paths)


def classes(pattern, names, n=2):
    """Paths of `n` images of each class."""
    return images(*(pattern.format(name=name, i=i) for name in names for i in range(1, n + 1)))


def seen(image):
    image = image if isinstance(image, Image.Image) else Image.fromarray(np.asarray(image).squeeze())
    return sha(image.convert("RGB").tobytes())


def stored(value):
    return Image.open(io.BytesIO(value)) if isinstance(value, bytes) else value


def both(data, target):
    """The name of the class and its number, of a dataset that has both."""
    return str(data.classes[target]), target


def table(value):
    return np.load(io.BytesIO(value))


def compare(name, source, splits, *options, say=both, ours=None, **fields):
    """Samples are equal by split, pixels and what `say` makes of targets.

    Ours are the name of the class and its number, through `ours`; or the values of `fields`, each through its function.
    """
    report = gular("pack", source, f"bundle {name}", *options)
    wrong, n = [], 0
    for split, peers in splits.items():
        peers = peers if isinstance(peers, list) else [peers]
        expected = collections.Counter(repr((seen(image), say(peer, target))) for peer in peers for image, target in (peer[i] for i in range(len(peer))))
        try:
            data = GularDataset(f"bundle {name}", split, "image")
            more = {field: GularDataset(f"bundle {name}", split, field) for field in fields}
        except KeyError as missing:
            wrong.append(missing)
            continue
        found = collections.Counter()
        for i in range(len(data)):
            label = data.label(i)
            of_class = (data.classes[label] if 0 <= label < len(data.classes) else None, label)
            meaning = tuple(read(more[field].raw(i)) for field, read in fields.items()) if fields else of_class
            found[repr((seen(stored(data.raw(i))), ours(meaning) if ours else meaning))] += 1
        n += len(data)
        wrong += [(split, "only torchvision", *list(expected - found)[:2])] if expected - found else []
        wrong += [(split, "only gular", *list(found - expected)[:2])] if found - expected else []
    wrong += [f"{report['samples']} samples, {n} in the splits of torchvision"] if n != report["samples"] else []
    check(name, n and not wrong, wrong)


def refused(name, source, *words):
    """Refused with all of these words; what was said."""
    said = gular("pack", source, f"bundle {name}", refused=True)
    check(f"{name} is refused", all(word in said for word in words), said)
    return said


def name(meaning):
    return meaning[0]


def number(meaning):
    return meaning[1]


def target(_, value):
    return value


def of_class(data, value):
    return str(data.classes[value])


# Class folders.


def image_folder():
    made = lay("imagefolder", {**classes("train/{name}/{i}.png", ["b", "a", "ü ß"]), **classes("val/{name}/{i}.jpg", ["a", "b", "ü ß"])})
    compare("ImageFolder", made, {split: datasets.ImageFolder(made / split) for split in ("train", "val")})


def caltech101():
    made = lay("caltech101", classes("101_ObjectCategories/{name}/image_{i:04}.jpg", ["BACKGROUND_Google", "Faces", "ant", "bass"]))
    lay("caltech101/Annotations", {"ant/annotation_0001.mat": b"MATLAB 5.0"})
    compare("Caltech101", made, {"train": datasets.Caltech101(root)}, say=lambda data, i: (data.categories[i], i))


def caltech256():
    made = lay("caltech256", images(*(f"256_ObjectCategories/{of}/{of[:3]}_{i:04}.jpg" for of in ("001.ak47", "002.american-flag") for i in (1, 2))))
    compare("Caltech256", made, {"train": datasets.Caltech256(root)}, say=lambda data, i: (data.categories[i], i))


def country211():
    made = lay("country211", {k: v for split in ("train", "valid", "test") for k, v in classes(split + "/{name}/{i}.jpg", ["AD", "ZW"]).items()})
    compare("Country211", made, {ours: datasets.Country211(root, split) for ours, split in (("train", "train"), ("val", "valid"), ("test", "test"))})


def rendered_sst2():
    made = lay("rendered-sst2", {k: v for split in ("train", "valid", "test") for k, v in classes(split + "/{name}/{i}.png", ["negative", "positive"]).items()})
    compare("RenderedSST2", made, {ours: datasets.RenderedSST2(root, split) for ours, split in (("train", "train"), ("val", "val"), ("test", "test"))})


def eurosat():
    made = lay("eurosat", classes("2750/{name}/{name}_{i}.jpg", ["AnnualCrop", "Forest", "SeaLake"]))
    compare("EuroSAT", made, {"train": datasets.EuroSAT(root)})


def imagenette():
    made = lay("imagenette2-160", {k: v for split in ("train", "val") for k, v in classes(split + "/{name}/{name}_{i}.JPEG", ["n01440764", "n02102040"]).items()})
    compare("Imagenette", made, {split: datasets.Imagenette(root, split, size="160px") for split in ("train", "val")}, say=lambda data, i: (data.wnids[i], i))


def imagenet():
    wnids = ["n01440764", "n01443537"]
    made = lay("imagenet", {k: v for split in ("train", "val") for k, v in classes(split + "/{name}/{name}_{i}.JPEG", wnids).items()})
    torch.save(({wnid: (wnid,) for wnid in wnids}, []), made / "meta.bin")
    compare("ImageNet", made, {split: datasets.ImageNet(made, split) for split in ("train", "val")}, say=lambda data, i: (data.wnids[i], i))


def inaturalist():
    names = ["00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris", "00001_Plantae_T_M_R_R_Rosa_canina"]
    made = lay("inat 2021", {k: v for version in ("2021_train", "2021_valid") for k, v in classes(version + "/{name}/{name}_{i}.jpg", names).items()})
    compare(
        "INaturalist 2021",
        made,
        {ours: datasets.INaturalist(made, version) for ours, version in (("train", "2021_train"), ("val", "2021_valid"))},
        say=lambda data, i: (data.all_categories[i], i),
    )
    made = lay("inat", {**classes("2018/Plantae/{name}/{i}.jpg", ["0"]), **classes("2018/Fungi/{name}/a{i}.jpg", ["1", "2"])})
    compare("INaturalist 2018", made, {"train": datasets.INaturalist(made, "2018")}, "--images", "2018/{super}/{label}/{key}.jpg", ours=number, say=target)


def omniglot():
    made = lay("omniglot-py", {})
    for part in "background", "evaluation":
        lay("omniglot-py", {f"images_{part}/{path}_{i:02}.png": pixels(20, 24) for path in ("Greek/character01/0394", "Greek/character02/0395", "Latin/character01/0396") for i in (1, 2)})
    datasets.Omniglot._check_integrity = lambda self: True
    peers = {"train": datasets.Omniglot(root, True), "test": datasets.Omniglot(root, False)}
    compare("Omniglot", made, peers, ours=name, say=lambda data, i: data._characters[i])


def sun397():
    made = lay("SUN397", {**images(*(f"a/abbey/sun_a{i}.jpg" for i in "bc"), *(f"a/apartment_building/outdoor/sun_b{i}.jpg" for i in "bc")), "ClassName.txt": "/a/abbey\n/a/apartment_building/outdoor\n"})
    compare("SUN397", made, {"train": datasets.SUN397(root)}, say=lambda data, i: (data.classes[i].replace(" ", "_"), i), ours=lambda m: (m[0].replace(" ", "_"), m[1]))


def lfw_people():
    people = {"Aaron_Eckhart": 1, "Zydrunas_Ilgauskas": 3}
    made = lay("lfw-py", images(*(f"lfw_funneled/{person}/{person}_{i:04}.jpg" for person, n in people.items() for i in range(1, n + 1))))
    of = lambda people: "".join(f"{person}\t{n}\n" for person, n in people.items())
    lay("lfw-py", {"lfw-names.txt": of(people), "people.txt": f"1\n{len(people)}\n{of(people)}", "lfw-funneled.tgz": b"", "peopleDevTrain.txt": f"2\n{of(people)}"})
    # Its lists name persons, not images.
    compare("LFWPeople", made / "lfw_funneled", {"train": datasets.LFWPeople(root, "10fold")}, say=lambda data, i: (sorted(data.class_to_idx)[i], i))


# Lists and tables.


def food101():
    made = lay("food-101", classes("images/{name}/{i}.jpg", ["pie", "ribs"], 3))
    for split, numbers in ("train", (1, 3)), ("test", (2,)):
        of = {kind: [f"{kind}/{i}" for i in numbers] for kind in ("pie", "ribs")}
        lay("food-101/meta", {f"{split}.json": json.dumps(of), f"{split}.txt": "".join(f"{path}\n" for paths in of.values() for path in paths)})
    lay("food-101/meta", {"classes.txt": "pie\nribs\n", "labels.txt": "Pie\nRibs\n"})
    compare("Food101", made, {split: datasets.Food101(root, split) for split in ("train", "test")})


def dtd():
    made = lay("dtd/dtd", {**classes("images/{name}/{name}_{i}.jpg", ["banded", "woven"], 3), "imdb/imdb.mat": b"MATLAB 5.0"})
    for i, split in enumerate(("train", "val", "test"), 1):
        lay("dtd/dtd/labels", {f"{split}1.txt": f"banded/banded_{i}.jpg\nwoven/woven_{i}.jpg\n", f"{split}2.txt": "banded/banded_1.jpg\n"})
    compare("DTD", made, {split: datasets.DTD(root, split) for split in ("train", "val", "test")})


def aircraft():
    made = lay("fgvc-aircraft-2013b", {**images(*(f"data/images/{i:07}.jpg" for i in range(6))), "data/variants.txt": "727-200\nF/A-18\nBAE 146-200\n"})
    for at, split in enumerate(("train", "val", "test")):
        lay("fgvc-aircraft-2013b/data", {f"images_variant_{split}.txt": f"{2 * at:07} F/A-18\n{2 * at + 1:07} {'727-200' if at else 'BAE 146-200'}\n"})
    splits = {split: datasets.FGVCAircraft(root, split) for split in ("train", "val", "test")}
    # Their classes are in the order of variants.txt.
    compare("FGVCAircraft", made, splits, ours=name, say=of_class)


def oxford_pets():
    made = lay("oxford-iiit-pet", images(*(f"images/{breed}_{i}.jpg" for breed in ("Abyssinian", "great_pyrenees") for i in range(1, 5))))
    line = lambda breed, i: f"{breed}_{i} {1 if breed[0] == 'A' else 2} {1 if breed[0] == 'A' else 2} 1\n"
    for split, numbers in ("trainval", (1, 3)), ("test", (2,)):
        lay("oxford-iiit-pet/annotations", {f"{split}.txt": "".join(line(breed, i) for breed in ("Abyssinian", "great_pyrenees") for i in numbers)})
    lay("oxford-iiit-pet/annotations", {"list.txt": "#Image CLASS-ID SPECIES BREED ID\n#Group\n" + line("Abyssinian", 1), **{f"trimaps/{breed}_{i}.png": noise.integers(1, 4, (20, 24), dtype=np.uint8) for breed in ("Abyssinian", "great_pyrenees") for i in range(1, 5)}})
    of = {"train": "trainval", "test": "test"}
    splits = {ours: datasets.OxfordIIITPet(root, split) for ours, split in of.items()}
    compare("OxfordIIITPet", made, splits, say=lambda data, i: (data.classes[i].lower(), i), ours=lambda m: (m[0].replace("_", " ").lower(), m[1]))
    lists = [f"{made}/annotations/{split}.txt={{split={ours}}}{{path}} {{*}} {{*}} {{*}}" for ours, split in of.items()]
    options = ["--images", "images/{key}.jpg", "--mask", "annotations/trimaps/{key}.png", *(word for line in lists for word in ("--labels", line)), "--unlabelled", "skip"]
    splits = {ours: datasets.OxfordIIITPet(root, split, target_types="segmentation") for ours, split in of.items()}
    compare("OxfordIIITPet's trimaps", made, splits, *options, say=lambda _, mask: (np.asarray(mask).tolist(),), mask=lambda value: np.asarray(stored(value)).tolist())


def gtsrb():
    made = lay("gtsrb", {f"GTSRB/Training/{of:05}/{i:05}_00000.ppm": pixels(9, 8, 3) for of in (0, 3, 14) for i in range(2)})
    for of in 0, 3, 14:
        lay("gtsrb", {f"GTSRB/Training/{of:05}/GT-{of:05}.csv": f"Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n00000_00000.ppm;8;9;1;1;7;8;{of}\n"})
    lay("gtsrb", {f"GTSRB/Final_Test/Images/{i:05}.ppm": pixels(9, 8, 3) for i in range(3)})
    lay("gtsrb", {"GT-final_test.csv": "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n" + "".join(f"{i:05}.ppm;8;9;1;1;7;8;{of}\n" for i, of in enumerate((14, 0, 3)))})
    # torchvision numbers the folders of training, but takes the test images' numbers from the table; with all 43 classes these agree.
    of = {0: 0, 1: 3, 2: 14}
    splits = {split: datasets.GTSRB(root, split) for split in ("train", "test")}
    compare("GTSRB", made, splits, ours=lambda m: int(m[0]), say=lambda data, i: of[i] if data._split == "train" else i)


def places365():
    made = lay("places365", {"categories_places365.txt": "/a/airfield 0\n/a/apartment_building/outdoor 1\n"})
    lay("places365", classes("data_256_standard/a/airfield/{i:08}.jpg", ["_"]) | classes("data_256_standard/a/apartment_building/outdoor/{i:08}.jpg", ["_"]) | classes("val_256/Places365_val_{i:08}.jpg", ["_"]))
    train = [(f"/a/airfield/{i:08}.jpg", 0) for i in (1, 2)] + [(f"/a/apartment_building/outdoor/{i:08}.jpg", 1) for i in (1, 2)]
    lay("places365", {"places365_train_standard.txt": "".join(f"{path} {of}\n" for path, of in train), "places365_val.txt": "Places365_val_00000001.jpg 1\nPlaces365_val_00000002.jpg 0\n"})
    compare("Places365", made, {"train": datasets.Places365(made, "train-standard", small=True), "val": datasets.Places365(made, "val", small=True)}, ours=number, say=target)


def celeba():
    made = lay("celeba", images(*(f"img_align_celeba/{i:06}.jpg" for i in range(1, 9))))
    names = [f"{i:06}.jpg" for i in range(1, 9)]
    card = next(card for card in gular("pack", "--list-datasets") if card["name"] == "celeba")
    attributes = card["label_column"].split(",")
    flags = noise.integers(0, 2, (8, 40)) * 2 - 1
    flags[:, 0] = -1
    flags[0] = -1
    lay("celeba", {
        "list_eval_partition.txt": "".join(f"{file} {0 if i < 4 else i // 2 - 1}\n" for i, file in enumerate(names)),
        "identity_CelebA.txt": "".join(f"{file} {2880 + 7 * i}\n" for i, file in enumerate(names)),
        "list_attr_celeba.txt": f"8\n{' '.join(attributes)} \n" + "".join(f"{file} {' '.join(f'{v:2}' for v in row)}\n" for file, row in zip(names, flags)),
        "list_bbox_celeba.txt": "8\nimage_id x_1 y_1 width height\n" + "".join(f"{file}     {95 + i}  71 226 {313 - i}\n" for i, file in enumerate(names)),
        "list_landmarks_align_celeba.txt": "8\nlefteye_x lefteye_y\n" + "".join(f"{file} {69 + i} 109\n" for i, file in enumerate(names)),
    })
    of = {"train": "train", "val": "valid", "test": "test"}
    splits = {ours: datasets.CelebA(root, split, target_type=["attr", "identity"]) for ours, split in of.items()}
    compare("CelebA", made, splits, say=lambda _, t: (t[0].tolist(), int(t[1])), labels=lambda v: v.tolist(), identity=lambda v: int(v))
    classes = json.loads(pathlib.Path("bundle CelebA/manifest.json").read_text())["classes"]
    check("CelebA's attributes keep their names and order", classes == attributes, classes)


def flickr():
    captions = {f"{1000092795 + i}.jpg": [f'Two "young" guys, {i} and {j} .' for j in range(5)] for i in range(4)}
    made = lay("flickr30k", images(*(f"flickr30k_images/{file}" for file in captions)))
    lay("flickr30k", {"results_20130124.token": "".join(f"{file}#{j}\t{text}\n" for file, texts in captions.items() for j, text in enumerate(texts))})
    peer = datasets.Flickr30k(made / "flickr30k_images", made / "results_20130124.token")
    texts = lambda value: json.loads(value)
    compare("Flickr30k", made, {"train": peer}, say=lambda _, t: (t,), caption=texts)
    # As Kaggle has Flickr8k; torchvision reads the page of its authors.
    made = lay("flickr8k", images(*(f"Images/{file[:-4]}_{i:x}.jpg" for i, file in enumerate(captions))))
    names = {file: f"{file[:-4]}_{i:x}.jpg" for i, file in enumerate(captions)}
    quoted = lambda text: '"' + text.replace('"', '""') + '"'
    lay("flickr8k", {"captions.txt": "image,caption\n" + "".join(f"{names[file]},{quoted(text)}\n" for file, texts in captions.items() for text in texts)})
    page = "".join(f"<tr><td><a href='x'>http://x/{file[:-4]}/</a><ul>{''.join(f'<li>{text}</li>' for text in texts)}</ul></td></tr>" for file, texts in captions.items())
    lay("flickr8k page", {"page.html": f"<table>{page}</table>"})
    compare("Flickr8k", made, {"train": datasets.Flickr8k(made / "Images", root / "flickr8k page/page.html")}, say=lambda _, t: (t,), caption=texts)


# Masks and boxes.


def cityscapes():
    files = {}
    for split, city in ("train", "aachen"), ("val", "ulm"), ("test", "bonn"):
        for i in range(2):
            files |= images(f"leftImg8bit/{split}/{city}/{city}_00000{i}_000019_leftImg8bit.png")
            for kind in "labelIds", "instanceIds", "color":
                files[f"gtFine/{split}/{city}/{city}_00000{i}_000019_gtFine_{kind}.png"] = noise.integers(0, 34, (20, 24), dtype=np.uint8)
            files[f"gtFine/{split}/{city}/{city}_00000{i}_000019_gtFine_polygons.json"] = "{}"
    made = lay("cityscapes", files)
    splits = {split: datasets.Cityscapes(made, split, target_type="semantic") for split in ("train", "val", "test")}
    compare("Cityscapes", made, splits, say=lambda _, mask: (np.asarray(mask).tolist(),), mask=lambda value: np.asarray(stored(value)).tolist())


def voc():
    box = "<object><name>{}</name><difficult>0</difficult><bndbox><xmin>{}</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object>"
    files, names = {}, [f"2007_00000{i}" for i in range(6)]
    for i, file in enumerate(names):
        objects = "".join(box.format(kind, at) for at, kind in enumerate(["dog", "bicycle"][: i % 2 + 1], i + 1))
        files[f"Annotations/{file}.xml"] = f"<annotation><filename>{file}.jpg</filename><size><width>24</width><height>20</height><depth>3</depth></size>{objects}</annotation>"
        files[f"JPEGImages/{file}.jpg"] = None
    masks = {f"SegmentationClass/{file}.png": noise.integers(0, 21, (20, 24), dtype=np.uint8) for file in names[1:5]}
    for part, used in ("Main", names), ("Segmentation", names[1:5]):
        half = len(used) // 2
        files |= {f"ImageSets/{part}/train.txt": "".join(f"{file}\n" for file in used[:half]), f"ImageSets/{part}/val.txt": "".join(f"{file}\n" for file in used[half:]), f"ImageSets/{part}/trainval.txt": "".join(f"{file}\n" for file in used)}
    made = lay("VOCdevkit/VOC2012", files | masks)

    def objects(_, target):
        found = [(o["name"], [int(o["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")]) for o in target["annotation"]["object"]]
        # VOC counts pixels from 1, and the last belongs to the box.
        return ([[(l - 1) / 24, (t - 1) / 20, r / 24, b / 20] for _, (l, t, r, b) in found], [["bicycle", "dog"].index(kind) for kind, _ in found])


    def near(say):
        def rounded(*args):
            boxes, labels = say(*args)
            return [[round(float(v), 5) for v in row] for row in boxes], [int(v) for v in labels]

        return rounded

    splits = {split: datasets.VOCDetection(root, "2012", split) for split in ("train", "val")}
    compare("VOCDetection", root / "VOCdevkit", splits, say=near(objects), ours=near(lambda m: m), boxes=lambda v: table(v).tolist(), box_labels=lambda v: table(v).tolist())
    lists = [f"{made}/ImageSets/Segmentation/{split}.txt={{split={split}}}{{path}}" for split in ("train", "val")]
    options = ["--images", "JPEGImages/{key}.jpg", "--mask", "SegmentationClass/{key}.png", *(word for line in lists for word in ("--labels", line)), "--unlabelled", "skip"]
    splits = {split: datasets.VOCSegmentation(root, "2012", split) for split in ("train", "val")}
    compare("VOCSegmentation", made, splits, *options, say=lambda _, mask: (np.asarray(mask).tolist(),), mask=lambda value: np.asarray(stored(value)).tolist())


def kitti():
    kinds = ["Car", "Pedestrian", "DontCare"]
    line = "{} 0.00 0 -1.58 {}.00 2.50 20.25 17.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n"
    files = images(*(f"training/image_2/{i:06}.png" for i in range(3)), "testing/image_2/000000.png")
    made = lay("Kitti/raw", files | {f"training/label_2/{i:06}.txt": "".join(line.format(kind, i + at) for at, kind in enumerate(kinds[: i + 1])) for i in range(3)})
    order = sorted(kinds)
    objects = lambda _, target: ([[round(v / s, 5) for v, s in zip(o["bbox"], (24, 20, 24, 20))] for o in target], [order.index(o["type"]) for o in target])
    compare("Kitti", made, {"train": datasets.Kitti(root)}, say=objects, boxes=lambda v: table(v).round(5).tolist(), box_labels=lambda v: table(v).tolist())


def wider_face():
    files, rows = {}, "{} 3 5 6 2 0 1 0 0 0 \n"
    for split in "train", "val":
        paths = [f"{event}/{event.replace('--', '_')}_{split}{i}.jpg" for event in ("0--Parade", "1--Handshaking") for i in range(2)]
        files |= images(*(f"WIDER_{split}/images/{path}" for path in paths))
        files[f"wider_face_split/wider_face_{split}_bbx_gt.txt"] = "".join(f"{path}\n{i + 1}\n" + "".join(rows.format(at) for at in range(i + 1)) for i, path in enumerate(paths))
    files |= images("WIDER_test/images/0--Parade/0_Parade_9.jpg") | {"wider_face_split/wider_face_test_filelist.txt": "0--Parade/0_Parade_9.jpg\n"}
    made = lay("widerface", files)
    objects = lambda _, target: ([[round(v, 5) for v in (x / 24, y / 20, (x + w) / 24, (y + h) / 20)] for x, y, w, h in target["bbox"].tolist()] if target else [],)
    compare("WIDERFace", made, {split: datasets.WIDERFace(root, split) for split in ("train", "val")}, say=objects, boxes=lambda v: table(v).round(5).tolist())


def coco():
    size = {"width": 24, "height": 20}
    folders = {"train": (9, 25, 30), "val": (139, 285)}
    made = lay("coco", images(*(f"{split}2017/{i:012}.jpg" for split, ids in folders.items() for i in ids)))
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    for split, ids in folders.items():
        listed = [{"id": i, "file_name": f"{i:012}.jpg", **size} for i in ids]
        of = [{"id": 10 * i + j, "image_id": i, "category_id": (1, 18)[j], "bbox": [j, 2, 5, 6 + j], "area": 30, "iscrowd": 0} for i in ids for j in range(2)]
        lay("coco/annotations", {f"instances_{split}2017.json": json.dumps({"images": listed, "annotations": of, "categories": categories})})
        of = [{"id": 10 * i + j, "image_id": i, "caption": f"caption {j} of {i}"} for i in ids for j in range(5)]
        lay("coco/annotations", {f"captions_{split}2017.json": json.dumps({"images": listed, "annotations": of})})
    share = lambda x, y, w, h: [round(v, 5) for v in (x / 24, y / 20, (x + w) / 24, (y + h) / 20)]
    objects = lambda _, found: ([share(*of["bbox"]) for of in found], [[1, 18].index(of["category_id"]) for of in found])
    silence = contextlib.redirect_stdout(io.StringIO())
    with silence:
        splits = {split: datasets.CocoDetection(made / f"{split}2017", made / f"annotations/instances_{split}2017.json") for split in folders}
    compare("CocoDetection", made, splits, say=objects, boxes=lambda v: table(v).round(5).tolist(), box_labels=lambda v: table(v).tolist())
    with silence:
        splits = {split: datasets.CocoCaptions(made / f"{split}2017", made / f"annotations/captions_{split}2017.json") for split in folders}
    options = [word for split in folders for word in ("--images", f"{{split={split}}}{split}2017/{{key}}.jpg", "--labels", f"{made}/annotations/captions_{split}2017.json")]
    compare("CocoCaptions", made, splits, *options, say=lambda _, texts: (texts,), caption=json.loads)


# Rows of pixels; MNIST, EMNIST and CIFAR are in torchvision_files.


def idx(array):
    kind = {"uint8": 8, "int32": 12}[array.dtype.name]
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()


def idx_of_others():
    for kind in "FashionMNIST", "KMNIST":
        made = lay(f"{kind}/raw", {f"{split}-{part}-ubyte": idx(array) for split, n in (("train", 20), ("t10k", 10)) for part, array in (("images-idx3", pixels(n, 28, 28)), ("labels-idx1", noise.integers(0, 10, n, dtype=np.uint8)))})
        of = getattr(datasets, kind)
        compare(kind, made, {"train": of(root, train=True), "test": of(root, train=False)}, ours=number, say=target)


def qmnist():
    files = {f"qmnist-{split}-{part}-ubyte": idx(array) for split, n in (("train", 20), ("test", 10)) for part, array in (("images-idx3", pixels(n, 28, 28)),)}
    for split, n in ("train", 20), ("test", 10):
        rows = noise.integers(0, 10, (n, 8), dtype=np.int32)
        files[f"qmnist-{split}-labels-idx2-int"] = idx(rows)
    made = lay("QMNIST/raw", files | {f"{file}.gz": gzip.compress(content) for file, content in files.items()})
    splits = {"train": datasets.QMNIST(root, "train", download=False), "test": datasets.QMNIST(root, "test", download=False)}
    compare("QMNIST", made, splits, ours=number, say=target)


def stl10():
    files = {"class_names.txt": "".join(f"{kind}\n" for kind in ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"))}
    for split, n in ("train", 20), ("test", 10):
        files |= {f"{split}_X.bin": pixels(n, 3, 96, 96).tobytes(), f"{split}_y.bin": noise.integers(1, 11, n, dtype=np.uint8).tobytes()}
    files |= {"unlabeled_X.bin": pixels(3, 3, 96, 96).tobytes(), "fold_indices.txt": "0 1\n" * 10}
    made = lay("stl10_binary", files)
    datasets.STL10._check_integrity = lambda self: True
    splits = {"train": datasets.STL10(root, "train"), "test": datasets.STL10(root, "test")}
    compare("STL10", made, splits)


def fer2013():
    rows = [(i % 7, pixels(48 * 48), usage) for i, usage in enumerate(["Training"] * 8 + ["PublicTest"] * 3 + ["PrivateTest"] * 3)]
    written = [(emotion, " ".join(map(str, values)), usage) for emotion, values, usage in rows]
    peers = lambda folder: {"train": datasets.FER2013(folder, "train"), "test": datasets.FER2013(folder, "test")}
    made = lay("fer/fer2013", {"fer2013.csv": "emotion,pixels,Usage\n" + "".join(f"{e},{p},{u}\n" for e, p, u in written)})
    # torchvision's test images are those of both tests; ours are for validation and for the test.
    peer = peers(root / "fer")
    splits = {"train": peer["train"], "val": torch.utils.data.Subset(peer["test"], range(3)), "test": torch.utils.data.Subset(peer["test"], range(3, 6))}
    compare("FER2013", made, splits, ours=number, say=target)
    made = lay("icml/fer2013", {"icml_face_data.csv": "emotion, Usage, pixels\n" + "".join(f"{e},{u},{p}\n" for e, p, u in written)})
    peer = peers(root / "icml")
    splits = {"train": peer["train"], "val": torch.utils.data.Subset(peer["test"], range(3)), "test": torch.utils.data.Subset(peer["test"], range(3, 6))}
    compare("FER2013's icml_face_data.csv", made, splits, ours=number, say=target)


def pcam():
    folder, word = lay("pcam", {"x": ""}), {"train": "train", "val": "valid", "test": "test"}
    (folder / "x").unlink()
    for split in word.values():
        for part, data in ("x", pixels(6, 96, 96, 3)), ("y", noise.integers(0, 2, (6, 1, 1, 1), dtype=np.uint8)):
            with h5py.File(folder / f"camelyonpatch_level_2_split_{split}_{part}.h5", "w") as file:
                file.create_dataset(part, data=data)
    compare("PCAM", folder, {ours: datasets.PCAM(root, ours) for ours in word}, ours=number, say=target)


# Out of reach: what the hint says is done literally, and is right.


def converted(name, made):
    """What is to be packed, once the command of the hint was run."""
    said = refused(name, made, "not read")
    command, then = re.search(r"of the dataset: `(.*)`; then (.*)", said).groups()
    subprocess.run(["bash", "-ec", command], cwd=made, check=True, env=os.environ | {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})
    packs = re.fullmatch("pack `(.*)`", then)
    return made / packs[1] if packs else made


def flowers102():
    made = lay("flowers-102", images(*(f"jpg/image_{i:05}.jpg" for i in range(1, 10))))
    savemat(made / "imagelabels.mat", {"labels": np.array([[1, 2, 3] * 3], dtype=np.uint8)})
    savemat(made / "setid.mat", {"trnid": [[1, 2, 3]], "valid": [[4, 9, 5]], "tstid": [[6, 7, 8]]})
    splits = {split: datasets.Flowers102(root, split) for split in ("train", "val", "test")}
    compare("Flowers102", converted("Flowers102", made), splits, ours=number, say=target)


def stanford_cars():
    made = lay("stanford_cars", images(*(f"cars_{split}/{i:05}.jpg" for split in ("train", "test") for i in range(1, 5))) | {"devkit/README.txt": ""})
    names = ["Audi TTS Coupe 2012", "Ram C/V Cargo Van Minivan 2012", "smart fortwo Convertible 2012"]
    savemat(made / "devkit/cars_meta.mat", {"class_names": np.array([names], dtype=object)})
    kinds = [(of, "O") for of in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
    for path, n in ("devkit/cars_train_annos.mat", (1, 2, 3, 1)), ("cars_test_annos_withlabels.mat", (3, 2, 1, 1)):
        savemat(made / path, {"annotations": np.array([[(1, 2, 3, 4, of, f"{i:05}.jpg") for i, of in enumerate(n, 1)]], dtype=kinds)})
    splits = {split: datasets.StanfordCars(root, split) for split in ("train", "test")}
    compare("StanfordCars", converted("StanfordCars", made), splits)


def svhn():
    made = lay("svhn", {"x": ""})
    for split, n in ("train", 12), ("test", 6):
        savemat(made / f"{split}_32x32.mat", {"X": pixels(32, 32, 3, n), "y": np.array([[i % 10 + 1] for i in range(n)], dtype=np.uint8)})
    datasets.SVHN._check_integrity = lambda self: True
    split_list = {split: [*of[:2], None] for split, of in datasets.SVHN.split_list.items()}
    datasets.SVHN.split_list = split_list
    splits = {split: datasets.SVHN(made, split) for split in ("train", "test")}
    compare("SVHN", converted("SVHN", made), splits, ours=lambda m: int(m[0]), say=target)


def semantic_boundaries():
    names = ["2008_000002", "2008_000003", "2008_000004"]
    made = lay("sbd", images(*(f"img/{of}.jpg" for of in names)) | {"train.txt": "".join(f"{of}\n" for of in names[:2]), "val.txt": f"{names[2]}\n", "inst/x.mat": b"", "cls/x": ""})
    for of in names:
        savemat(made / f"cls/{of}.mat", {"GTcls": np.array([[(noise.integers(0, 21, (20, 24), dtype=np.uint8),)]], dtype=[("Segmentation", "O")])})
    splits = {split: datasets.SBDataset(made, split, mode="segmentation") for split in ("train", "val")}
    compare("SBDataset", converted("SBDataset", made), splits, say=lambda _, mask: (np.asarray(mask).tolist(),), mask=lambda value: np.asarray(stored(value)).tolist())


def clevr():
    files = images(*(f"images/{split}/CLEVR_{split}_{i:06}.png" for split in ("train", "val", "test") for i in range(3)))
    for split in "train", "val":
        files[f"scenes/CLEVR_{split}_scenes.json"] = json.dumps({"scenes": [{"image_filename": f"CLEVR_{split}_{i:06}.png", "objects": [{}] * (3 * i + 3)} for i in range(3)]})
    made = lay("clevr/CLEVR_v1.0", files)
    splits = {split: datasets.CLEVRClassification(root, split) for split in ("train", "val")}
    compare("CLEVRClassification", converted("CLEVRClassification", made), splits, ours=number, say=target)


def semeion():
    rows = [" ".join([f"{v}.0000" for v in noise.integers(0, 2, 256)] + ["1" if i % 10 == of else "0" for of in range(10)]) for i in range(20)]
    made = lay("semeion", {"semeion.data": "".join(f"{row} \n" for row in rows)})
    datasets.SEMEION._check_integrity = lambda self: True
    compare("SEMEION", converted("SEMEION", made), {"train": datasets.SEMEION(made, download=False)}, ours=number, say=target)


def usps():
    made = lay("usps", {"x": ""})
    for file, n in ("usps.bz2", 15), ("usps.t.bz2", 10):
        rows = [f"{i % 10 + 1} " + " ".join(f"{at}:{v:.6f}" for at, v in enumerate(noise.uniform(-1, 1, 256), 1)) for i in range(n)]
        (made / file).write_bytes(bz2.compress("".join(f"{row} \n" for row in rows).encode()))
    compare("USPS", converted("USPS", made), {"train": datasets.USPS(made, True), "test": datasets.USPS(made, False)}, ours=number, say=target)


def lsun():
    refused("LSUN", lay("bedroom_val_lmdb", {"data.mdb": b"", "lock.mdb": b""}), "LMDB", "import lmdb", "pack `images/`")


tests = [value for value in list(vars().values()) if isinstance(value, types.FunctionType) and value.__code__.co_argcount == 0 and value.__module__ == "__main__"]
for test in tests if len(sys.argv) == 1 else [globals()[word] for word in sys.argv[1:]]:
    try:
        test()
    except Exception as told:
        check(test.__name__, False, repr(told))
finish()
