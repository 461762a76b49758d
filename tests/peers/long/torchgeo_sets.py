"""Datasets of torchgeo, laid out as the real ones: each is packed by one command, and an epoch has what torchgeo reads."""

import dataclasses
import io
import json
import os
import pathlib
import sys
import traceback
import typing
import warnings

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), os.environ["GULAR_PYTHON"]]

from _shared import check, finish, skip
from _shared import gular as program

try:
    import h5py
    import numpy as np
    import pandas as pd
    import rasterio
    import torchgeo.datasets
    from PIL import Image
    from rasterio.enums import Resampling
    from rasterio.transform import from_origin
except ImportError as missing:
    skip("torchgeo_sets", missing.name, "pip install torchgeo h5py")
    finish()

import gular

warnings.filterwarnings("ignore")
noise = np.random.default_rng(0)
SETS = []


@dataclasses.dataclass
class Set:
    """One dataset: how a small one is made, read by torchgeo, and packed."""

    # The class of torchgeo, and the arguments of each of its splits that is compared: ours -> theirs.
    name: str
    # The words of `gular pack`; SRC and the files that options name are in the dataset's folder.
    pack: list
    # Key of torchgeo's data -> name of our field, or a function of our sample.
    same: dict
    # Our key of torchgeo's sample i.
    key: typing.Callable
    splits: dict
    make: typing.Callable
    # What SRC is, and torchgeo's root.
    src: str = "."
    root: str = "."
    arguments: dict = dataclasses.field(default_factory=dict)
    fields: tuple = ()
    size: tuple | None = None
    options: dict = dataclasses.field(default_factory=dict)
    # Whether torchgeo reads windows of scenes.
    tiles: bool = False
    # Words of the refusal, where no command reads it.
    refused: str = ""
    # The largest difference of pictures and boxes, where another order of sums rounds in another way.
    within: typing.Any = 0
    title: str = ""


def like(name, pack, same, key, splits=None, **options):
    """Registers the maker of a dataset's files, which is called in its folder."""

    def register(make):
        default = {"train": {"split": "train"}}
        words = pack if isinstance(pack, list) else pack.split()
        SETS.append(Set(name, words, same, key, default if splits is None else splits, make, **options))
        return make

    return register


def split_words(*names):
    """Splits that have the same names as ours."""
    return {name: {"split": name} for name in names}


def file_of(*names):
    """Our key, of a class with a list `files`: the path below SRC."""
    return lambda data, i: os.path.relpath(at(data.files[i], *names))


def at(value, *names):
    for name in names:
        value = value[name]
    return value


def below(path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write(path, text):
    below(path).write_text(text)


def smooth(height, width, bands=3, top=255):
    """Pixels that differ from file to file, without edges that decoders of JPEG smear."""
    y, x = np.mgrid[0:height, 0:width]
    speeds = noise.uniform(0.5, 2, (bands, 3))
    waves = [(np.sin(a * x / 9 + c) + np.cos(b * y / 7 + c) + 2) / 4 for a, b, c in speeds]
    return (np.stack(waves, axis=-1) * top).astype(np.uint8 if top == 255 else np.uint16)


def picture(path, array=None, size=(32, 32), **options):
    array = smooth(*size) if array is None else array
    Image.fromarray(array).save(below(path), **options)


def tiff(path, array=None, bands=3, size=(32, 32), dtype="uint16", top=None, corner=(600_000, 5_300_000), metres=10, crs="EPSG:32632", **options):
    if array is None:
        shape = (bands, *size)
        if np.issubdtype(np.dtype(dtype), np.floating):
            array = noise.standard_normal(shape).astype(dtype)
        else:
            array = noise.integers(0, top or min(np.iinfo(dtype).max, 10_000), shape).astype(dtype)
    array = array if array.ndim == 3 else array[None]
    place = {} if crs is None else {"crs": crs, "transform": from_origin(*corner, metres, metres)}
    shape = {"count": array.shape[0], "height": array.shape[1], "width": array.shape[2], "dtype": array.dtype}
    with rasterio.open(below(path), "w", driver="GTiff", **shape, **place, **options) as file:
        file.write(array)


def classes(size=(32, 32), n=5, dtype=np.uint8):
    return noise.integers(0, n, size).astype(dtype)


def mask(path, size=(32, 32), n=5):
    picture(path, classes(size, n))


def colours(path, table):
    """A table for `--mask-colours`, numbered like a colour map of torchgeo."""
    write(path, "".join(f"c{i},{r},{g},{b}\n" for i, (r, g, b) in enumerate(table)))


def bilinear(array, size):
    """What GDAL makes of one band in memory."""
    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", count=1, height=array.shape[0], width=array.shape[1], dtype=array.dtype) as file:
            file.write(array, 1)
        with memory.open() as file:
            return file.read(1, out_shape=size, resampling=Resampling.bilinear)


def epoch(bundle, split, fields, size, more):
    """Key -> the values of every field."""
    options = {"batch_size": 2, "output": "numpy", "shuffle": False, "numbers": "stored", "transform": gular.Resize(*size), **more}
    found = {}
    for batch in gular.DataLoader(bundle, split, fields=list(fields), **options):
        for i, key in enumerate(batch["key"]):
            found[key] = {name: values[i] for name, values in batch.items() if name != "key" and values is not None}
    return found


def values(theirs):
    return np.asarray(theirs.numpy() if hasattr(theirs, "numpy") else theirs)


def differs(ours, theirs, within):
    """What differs between two arrays; their types may differ, since torchgeo converts."""
    ours, theirs = np.asarray(ours), values(theirs)
    if ours.shape != theirs.shape:
        return f"ours is {ours.shape}, theirs {theirs.shape}"
    if not ours.size or np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"):
        return None
    off = np.abs(ours.astype(float) - theirs.astype(float))
    return None if (off <= within).all() else f"they differ by up to {off.max()}"


def windows(theirs, bundle, split):
    """What torchgeo reads at the place of each of our tiles, of a scene of pixels of one metre."""
    samples = {}
    for batch in gular.DataLoader(bundle, split, fields=["image_transform"], transform=gular.Resize(32), shuffle=False, output="numpy"):
        for key, (left, _, _, top, _, _) in zip(batch["key"], batch["image_transform"]):
            samples[key] = theirs[slice(left, left + 32, 1), slice(top - 32, top, 1)]
    return samples


def compare(of):
    """Packs, reads an epoch of every split, and compares sample by sample."""
    bundle = pathlib.Path("..", f"{pathlib.Path.cwd().name}.bundle").resolve()
    if of.refused:
        told = program("pack", of.src, bundle, *of.pack, refused=True)
        return ([] if of.refused in told else [told]), 1
    program("pack", of.src, bundle, *of.pack)
    wrong, n = [], 0
    for split, arguments in of.splits.items():
        theirs = getattr(torchgeo.datasets, of.name)(of.root, **arguments, **of.arguments)
        samples = windows(theirs, bundle, split) if of.tiles else {of.key(theirs, i): theirs[i] for i in range(len(theirs))}
        first = next(iter(samples.values()))
        size = of.size or first[next(iter(of.same))].shape[-2:]
        found = epoch(bundle, split, of.fields, size, of.options)
        if sorted(found) != sorted(samples):
            wrong.append(f"{split}: our keys are {sorted(found)[:3]}, theirs {sorted(samples)[:3]}")
            continue
        n += len(found)
        for key, sample in samples.items():
            for name, ours in of.same.items():
                ours = ours(found[key]) if callable(ours) else found[key][ours]
                why = differs(ours, sample[name], of.within if name in ("image", "bbox_xyxy") else 0)
                wrong += [f"{split} {key} {name}: {why}"] if why else []
    return wrong, n


def main():
    chosen = sys.argv[1:]
    top, equal = pathlib.Path.cwd(), 0
    for of in SETS:
        if chosen and of.name not in chosen:
            continue
        title = of.title or of.name
        folder = top / title.replace(" ", "_")
        folder.mkdir()
        os.chdir(folder)
        try:
            of.make()
            wrong, n = compare(of)
            what = "it is refused in one sentence" if of.refused else "an epoch has what torchgeo reads"
            check(f"{title}: {what}", n and not wrong, f"{n} samples; {wrong[:3]}")
            equal += bool(n and not wrong and not of.refused)
        except Exception as error:
            check(f"{title}: an epoch has what torchgeo reads", False, "".join(traceback.format_exception(error))[-2500:])
        os.chdir(top)
    check("forty of torchgeo's datasets are read", bool(chosen) or equal >= 40, equal)


# Pictures in folders of classes.


EUROSAT = "ds/images/remote_sensing/otherDatasets/sentinel_2/tif"


def lists(prefix, splits, line="{path}", between="-"):
    """`--labels` for a list of each split."""
    return [word for split in splits for word in ("--labels", f"{prefix}{between}{split}.txt={{split={split}}}{line}")]


@like(
    "EuroSAT",
    ["--as", "arrays", "--images", f"{EUROSAT}/{{label}}/{{key}}.tif", *lists("eurosat", ("train", "val", "test"), "{path}.jpg")],
    {"image": "image", "label": "label"},
    lambda data, i: os.path.relpath(data.imgs[i][0]),
    split_words("train", "val", "test"),
)
def eurosat():
    names = [f"{label}_{i}" for label in ("Forest", "River", "Pasture") for i in range(4)]
    for name in names:
        tiff(f"{EUROSAT}/{name.split('_')[0]}/{name}.tif", bands=13, size=(64, 64), crs=None)
    for split, part in (("train", names[::2]), ("val", names[1::4]), ("test", names[3::4])):
        write(f"eurosat-{split}.txt", "".join(f"{name}.jpg\n" for name in part))


@like(
    "RESISC45",
    ["--images", "NWPU-RESISC45/{label}/{key}.jpg", *lists("resisc45", ("train", "val", "test"))],
    {"image": "image", "label": "label"},
    lambda data, i: os.path.relpath(data.imgs[i][0]),
    split_words("train", "val", "test"),
)
def resisc45():
    names = [f"{label}_{i:03}" for label in ("airplane", "bridge", "lake") for i in range(4)]
    for name in names:
        picture(f"NWPU-RESISC45/{name.split('_')[0]}/{name}.jpg", size=(256, 256), quality=90)
    for split, part in (("train", names[::2]), ("val", names[1::4]), ("test", names[3::4])):
        write(f"resisc45-{split}.txt", "".join(f"{name}.jpg\n" for name in part))


@like(
    "UCMerced",
    ["--images", "UCMerced_LandUse/Images/{label}/{key}.tif", *lists("uc_merced", ("train", "val", "test")), "--as", "arrays"],
    {"image": "image", "label": "label"},
    lambda data, i: os.path.relpath(data.imgs[i][0]),
    split_words("train", "val", "test"),
)
def ucmerced():
    names = [f"{label}{i:02}" for label in ("beach", "harbor") for i in range(6)]
    for name in names:
        picture(f"UCMerced_LandUse/Images/{name[:-2]}/{name}.tif", size=(256, 256))
    for split, part in (("train", names[::2]), ("val", names[1::4]), ("test", names[3::4])):
        write(f"uc_merced-{split}.txt", "".join(f"{name}.tif\n" for name in part))


@like("PatternNet", [], {"image": "image", "label": "label"}, lambda data, i: os.path.relpath(data.imgs[i][0], "PatternNet/images"), {"train": {}}, src="PatternNet/images")
def patternnet():
    for label in ("airplane", "cemetery"):
        for i in range(3):
            picture(f"PatternNet/images/{label}/{label}{i:03}.jpg", size=(256, 256))


@like("FireRisk", [], {"image": "image", "label": "label"}, lambda data, i: os.path.relpath(data.imgs[i][0], "FireRisk"), split_words("train", "val"), src="FireRisk")
def fire_risk():
    for split in ("train", "val"):
        for label in ("High", "Very_Low", "Water"):
            for i in range(2):
                picture(f"FireRisk/{split}/{label}/{split}{label}{i}.png", size=(32, 32))


# Arrays in HDF5.


@like(
    "So2Sat",
    ["--images", "{split}/sen2/{key}.npy"],
    {"image": lambda ours: np.concatenate([ours["sen1"].astype("f4"), ours["image"]]), "label": "label"},
    lambda data, i: f"{data.split.replace('validation', 'val')}/sen2/{i:07}.npy",
    {"train": {"split": "train"}, "val": {"split": "validation"}, "test": {"split": "test"}},
    fields=["sen1"],
    # torchgeo's numbers are f32, too.
    options={"numbers": "f32", "normalise": ([0] * 10, [1] * 10, 1)},
)
def so2sat():
    for name in ("training", "validation", "testing"):
        with h5py.File(f"{name}.h5", "w") as file:
            file["sen1"] = noise.standard_normal((5, 32, 32, 8))
            file["sen2"] = noise.standard_normal((5, 32, 32, 10))
            file["label"] = np.eye(17)[noise.integers(0, 17, 5)]


# Pairs, and masks.


LEVIR = {"image": lambda ours: np.stack([ours["image"], ours["b"]]), "mask": lambda ours: ours["mask"][None] > 0}


@like(
    "LEVIRCD",
    ["--images", "A/{split}_{key}.png", "--field", "b=B/{split}_{key}.png", "--mask", "label/{split}_{key}.png"],
    LEVIR,
    file_of("image1"),
    split_words("train", "val", "test"),
    fields=["b", "mask"],
)
def levircd():
    for split, n in (("train", 3), ("val", 2), ("test", 2)):
        for i in range(n):
            for folder in "AB":
                picture(f"{folder}/{split}_{i + 1}.png")
            picture(f"label/{split}_{i + 1}.png", classes(n=2) * 255)


@like(
    "LEVIRCDPlus",
    ["--images", "{split}/A/{key}.png", "--field", "b={split}/B/{key}.png", "--mask", "{split}/label/{key}.png"],
    LEVIR,
    lambda data, i: os.path.relpath(data.files[i]["image1"], "LEVIR-CD+"),
    split_words("train", "test"),
    src="LEVIR-CD+",
    fields=["b", "mask"],
)
def levircd_plus():
    for split, n in (("train", 3), ("test", 2)):
        for i in range(n):
            for folder in "AB":
                picture(f"LEVIR-CD+/{split}/{folder}/{split}_{i + 1}.png")
            picture(f"LEVIR-CD+/{split}/label/{split}_{i + 1}.png", classes(n=2) * 255)


@like(
    "LandCoverAI",
    ["--images", "output/{key}.jpg", "--mask", "output/{key}_m.png", "--labels", "train.txt={split=train}{path}", "--labels", "val.txt={split=val}{path}", "--labels", "test.txt={split=test}{path}"],
    {"image": "image", "mask": "mask"},
    lambda data, i: f"output/{data.ids[i].strip()}.jpg",
    split_words("train", "val", "test"),
    fields=["mask"],
)
def landcover_ai():
    names = [f"M-33-7-A-d-2-3_{i}" for i in range(12)]
    for name in names:
        picture(f"output/{name}.jpg", quality=90)
        mask(f"output/{name}_m.png")
    for split, part in (("train", names[::2]), ("val", names[1::4]), ("test", names[3::4])):
        write(f"{split}.txt", "".join(f"{name}\n" for name in part))


@like(
    "LoveDA",
    ["--images", "{split}/{scene}/images_png/{key}.png", "--mask", "{split}/{scene}/masks_png/{key}.png"],
    {"image": "image", "mask": "mask"},
    file_of("image"),
    split_words("train", "val"),
    fields=["mask"],
)
def loveda():
    for split, n in (("Train", 4), ("Val", 2)):
        for scene in ("Rural", "Urban"):
            for i in range(n):
                picture(f"{split}/{scene}/images_png/{i}.png")
                mask(f"{split}/{scene}/masks_png/{i}.png", n=8)


@like(
    "DeepGlobeLandCover",
    "--images {split=train}data/training_data/images/{key}_sat.jpg --images {split=test}data/test_data/images/{key}_sat.jpg"
    " --mask data/{*}/masks/{key}_mask.png --mask-colours colours.csv",
    {"image": "image", "mask": "mask"},
    lambda data, i: os.path.relpath(data.image_fns[i]),
    split_words("train", "test"),
    fields=["mask"],
)
def deepglobe():
    table = torchgeo.datasets.DeepGlobeLandCover.colormap
    colours("colours.csv", table)
    for split, at in (("training", 100), ("test", 200)):
        for i in range(at, at + 3):
            picture(f"data/{split}_data/images/{i}_sat.jpg", quality=90)
            picture(f"data/{split}_data/masks/{i}_mask.png", np.array(table, np.uint8)[classes(n=7)])


@like(
    "Potsdam2D",
    "--as arrays --images {split=train}4_Ortho_RGBIR/{key:top_potsdam_2_1[0-2]}_RGBIR.tif --images {split=test}4_Ortho_RGBIR/{key:top_potsdam_[57]_13}_RGBIR.tif"
    " --mask {key}_label.tif --mask-colours colours.csv",
    {"image": "image", "mask": "mask"},
    file_of("image"),
    split_words("train", "test"),
    fields=["mask"],
)
def potsdam():
    table = torchgeo.datasets.Potsdam2D.colormap
    colours("colours.csv", table)
    for name in ("2_10", "2_11", "2_12", "5_13", "7_13"):
        tiff(f"4_Ortho_RGBIR/top_potsdam_{name}_RGBIR.tif", bands=4, dtype="uint8", metres=0.05)
        tiff(f"top_potsdam_{name}_label.tif", np.array(table, np.uint8)[classes(n=6)].transpose(2, 0, 1), metres=0.05)


@like(
    "Vaihingen2D",
    "--as arrays --images {split=train}top/{key:top_mosaic_09cm_area1[15]?}.tif --images {split=test}top/{key:top_mosaic_09cm_area[68]}.tif --mask {key}.tif --mask-colours colours.csv",
    {"image": "image", "mask": "mask"},
    file_of("image"),
    split_words("train", "test"),
    fields=["mask"],
)
def vaihingen():
    table = torchgeo.datasets.Vaihingen2D.colormap
    colours("colours.csv", table)
    for area in (1, 11, 15, 6, 8):
        picture(f"top/top_mosaic_09cm_area{area}.tif")
        picture(f"top_mosaic_09cm_area{area}.tif", np.array(table, np.uint8)[classes(n=6)])


# The heights have half the resolution, which torchgeo resamples bilinearly and we leave alone.
@like(
    "DFC2022",
    "--as arrays --images {region}/BDORTHO/{key}.tif --field dem={region}/RGEALTI/{key}_RGEALTI.tif --mask {region}/UrbanAtlas/{key}_UA2012.tif --align ignore",
    {
        "image": lambda ours: np.concatenate([ours["image"], bilinear(ours["dem"].reshape(16, 16), (32, 32))[None]]),
        "mask": "mask",
    },
    lambda data, i: os.path.relpath(data.files[i]["image"], "labeled_train"),
    src="labeled_train",
    fields=["mask", "dem"],
)
def dfc2022():
    for folder in ("unlabeled_train", "val"):
        pathlib.Path(folder).mkdir()
    for i in range(4):
        region, name = f"labeled_train/{('Nantes', 'Brest')[i % 2]}", f"44-2013-03{i}0-67{i}0-LA93-0M50-E080"
        tiff(f"{region}/BDORTHO/{name}.tif", dtype="uint8", metres=0.5)
        tiff(f"{region}/RGEALTI/{name}_RGEALTI.tif", bands=1, dtype="float32", size=(16, 16), metres=1)
        tiff(f"{region}/UrbanAtlas/{name}_UA2012.tif", bands=1, dtype="uint8", top=15, metres=0.5)


@like(
    "GID15",
    "--as arrays --images GID/img_dir/{split:train|val}/{key}.tif --mask GID/ann_dir/{split}/{key}_15label.png --unlabelled skip",
    {"image": "image", "mask": "mask"},
    file_of("image"),
    split_words("train", "val"),
    fields=["mask"],
)
def gid15():
    for split, n in (("train", 3), ("val", 2), ("test", 1)):
        for i in range(n):
            name = f"GF2_PMS1__{split}_{i}"
            picture(f"GID/img_dir/{split}/{name}.tif")
            if split != "test":
                mask(f"GID/ann_dir/{split}/{name}_15label.png", n=16)


# Masks are 0 and 255, of which torchgeo makes 0 and 1.
@like(
    "InriaAerialImageLabeling",
    "--as arrays --images {split=val}{*:train}/images/{key:[a-z]+[1-5]}.tif --images {split=train}{*:train}/images/{key:[a-z]+([6-9]|[1-3][0-9])}.tif"
    " --mask train/gt/{key}.tif --mask-colours colours.csv --unlabelled skip",
    {"image": "image", "mask": "mask"},
    lambda data, i: os.path.relpath(data.files[i]["image"], "AerialImageDataset"),
    split_words("train", "val"),
    src="AerialImageDataset",
    fields=["mask"],
)
def inria():
    write("colours.csv", "no,0,0,0\nbuilding,255,255,255\n")
    for name in ("austin1", "austin5", "austin6", "vienna12", "vienna36"):
        tiff(f"AerialImageDataset/train/images/{name}.tif", dtype="uint8", metres=0.3)
        tiff(f"AerialImageDataset/train/gt/{name}.tif", classes(n=2) * 255, metres=0.3)
    tiff("AerialImageDataset/test/images/bellingham1.tif", dtype="uint8", metres=0.3)


@like(
    "ETCI2021",
    "--images {split:train}/{scene}/tiles/vv/{key}_vv.png --images {split=val}test/{scene}/tiles/vv/{key}_vv.png --field vh={*}/{scene}/tiles/vh/{key}_vh.png"
    " --field water={*}/{scene}/tiles/water_body_label/{key}.png --mask {*}/{scene}/tiles/flood_label/{key}.png",
    {
        "image": lambda ours: np.concatenate([ours["image"], ours["vh"]]),
        "mask": lambda ours: np.stack([ours["water"][0] if ours["water"].ndim == 3 else ours["water"], ours["mask"]]) > 0,
    },
    file_of("vv"),
    split_words("train", "val"),
    fields=["vh", "water", "mask"],
)
def etci2021():
    pathlib.Path("test_internal").mkdir()
    for split in ("train", "test"):
        for scene in ("bangladesh_20170314t115609", "nebraska_20190309t121203"):
            for i in range(2):
                name, tiles = f"{scene}_x-{i}_y-{split}", f"{split}/{scene}/tiles"
                picture(f"{tiles}/vv/{name}_vv.png")
                picture(f"{tiles}/vh/{name}_vh.png")
                picture(f"{tiles}/water_body_label/{name}.png", classes(n=2) * 255)
                picture(f"{tiles}/flood_label/{name}.png", classes(n=2) * 255)


@like(
    "GeoNRW",
    "--as arrays --images {split=train}{*:aachen|koeln}/{key}_rgb.jp2 --images {split=test}{*:neuss}/{key}_rgb.jp2"
    " --field dem={*}/{key}_dem.tif --mask {*}/{key}_seg.tif",
    # torchvision's ToTensor divides bytes by 255.
    {"image": lambda ours: ours["image"].astype("f4") / 255, "dem": lambda ours: ours["dem"].reshape(1, 32, 32), "mask": "mask"},
    lambda data, i: os.path.relpath(data.file_list[i]),
    split_words("train", "test"),
    fields=["dem", "mask"],
    within=1e-7,
)
def geonrw():
    of = torchgeo.datasets.GeoNRW
    for city in of.train_list + of.test_list:
        pathlib.Path(city).mkdir()
    for i, city in enumerate(("aachen", "aachen", "koeln", "neuss", "neuss")):
        name = f"{city}/{290 + i}_5622"
        picture(f"{name}_rgb.jp2", irreversible=False)
        at = {"metres": 1, "corner": (290_000 + 1000 * i, 5_623_000), "crs": "EPSG:25832"}
        tiff(f"{name}_dem.tif", bands=1, dtype="float32", **at)
        tiff(f"{name}_seg.tif", bands=1, dtype="uint8", top=11, **at)


@like(
    "XView2",
    "--images {split}/images/{key}_pre_disaster.png --field post={split}/images/{key}_post_disaster.png --mask {split}/targets/{key}_pre_disaster_target.png"
    " --field after={split}/targets/{key}_post_disaster_target.png --unlabelled skip",
    {
        "image": lambda ours: np.stack([ours["image"], ours["post"]]),
        "mask": lambda ours: np.clip(ours["after"].reshape(32, 32).astype(int) - ours["mask"], 0, 4),
    },
    lambda data, i: os.path.relpath(data.files[i]["image1"]),
    split_words("train", "test"),
    fields=["post", "mask", "after"],
)
def xview2():
    for split, n in (("train", 3), ("test", 2)):
        for i in range(n):
            for time in ("pre", "post"):
                picture(f"{split}/images/hurricane-harvey_{i:08}_{time}_disaster.png")
                mask(f"{split}/targets/hurricane-harvey_{i:08}_{time}_disaster_target.png")


# A {date} that is one word makes {key} alone the name of a sample, to which lists refer.
@like(
    "BRIGHTDFC2025",
    "--as arrays --images {*:train}/pre-event/{key}_{date:pre_disaster}.tif --field post={*:train}/post-event/{key}_post_disaster.tif --mask {*:train}/target/{key}_building_damage.tif"
    " --labels dfc25_track2_trainval/train_setlevel.txt={split=train}{path} --labels dfc25_track2_trainval/holdout_setlevel.txt={split=val}{path} --unlabelled skip",
    {"image": lambda ours: np.stack([ours["image"][0], np.repeat(ours["post"].reshape(1, 32, 32), 3, 0)]), "mask": lambda ours: ours["mask"][None]},
    lambda data, i: os.path.basename(data.sample_paths[i]["image_pre"]).removesuffix("_pre_disaster.tif"),
    split_words("train", "val"),
    src="dfc25_track2_trainval",
    fields=["post", "mask"],
)
def bright():
    top = "dfc25_track2_trainval"
    names = {"train": ["noto-earthquake_00000000", "noto-earthquake_00000001", "turkey-earthquake_00000007"], "holdout": ["hawaii-wildfire_00000003"], "val": ["beirut-explosion_00000009"]}
    for split, keys in names.items():
        write(f"{top}/{split}_setlevel.txt", "".join(f"{key}\n" for key in keys))
        for key in keys:
            at = f"{top}/{'val' if split == 'val' else 'train'}"
            tiff(f"{at}/pre-event/{key}_pre_disaster.tif", dtype="uint8", metres=0.5)
            tiff(f"{at}/post-event/{key}_post_disaster.tif", bands=1, dtype="uint8", metres=0.5)
            if split != "val":
                tiff(f"{at}/target/{key}_building_damage.tif", bands=1, dtype="uint8", top=4, metres=0.5)


# Values of masks are 0, 64, 127 and 254, which torchgeo numbers.
@like(
    "CaFFe",
    "--images sar_images/{split}/{key}__{part}.png --mask zones/{split}/{key}_zones__{part}.png --field front=fronts/{split}/{key}_front__{part}.png --mask-colours colours.csv",
    {"image": "image", "mask_zones": "mask", "mask_front": lambda ours: ours["front"].reshape(32, 32) > 0},
    lambda data, i: os.path.relpath(data.fpaths[i], "caffe").replace("zones/", "sar_images/").replace("_zones_", "_"),
    split_words("train", "val", "test"),
    src="caffe",
    fields=["mask", "front"],
)
def caffe():
    write("colours.csv", "na,0,0,0\nrock,64,64,64\nglacier,127,127,127\nocean,254,254,254\n")
    for split in ("train", "val", "test"):
        for i in range(3):
            start, end = f"COL_2011-11-13_TDX_7_1_{split}", f"_{i}_0_0_0.png"
            picture(f"caffe/sar_images/{split}/{start}_{end}", smooth(32, 32, 1)[..., 0])
            picture(f"caffe/zones/{split}/{start}_zones_{end}", np.array([0, 64, 127, 254], np.uint8)[classes(n=4)])
            picture(f"caffe/fronts/{split}/{start}_front_{end}", classes(n=2) * 255)


# Boxes. torchgeo's are in pixels, ours are fractions of the picture. Pascal VOC counts pixels from 1, which torchgeo leaves as it is.


def pixels(ours, size=(32, 32)):
    """Our boxes in pixels."""
    boxes = np.load(io.BytesIO(ours["boxes"])) if isinstance(ours["boxes"], bytes) else np.asarray(ours["boxes"])
    return boxes.reshape(-1, 4) * np.array([size[1], size[0], size[1], size[0]])


def labels(ours):
    return np.load(io.BytesIO(ours["box_labels"])) if isinstance(ours["box_labels"], bytes) else np.asarray(ours["box_labels"])


def boxes(n=3, size=(32, 32)):
    """Whole numbers, left, top, right, bottom."""
    corner = noise.integers(1, 16, (n, 2))
    return np.concatenate([corner, corner + noise.integers(2, 16, (n, 2))], 1)


VOC = {"image": "image", "bbox_xyxy": lambda ours: pixels(ours) + [1, 1, 0, 0], "label": labels}


# Categories count from 1; torchgeo reads image i of `positive image set` for the id i - 1.
@like(
    "VHR10",
    ["--images", "positive image set/{key}.jpg", "--labels", "NWPU VHR-10 dataset/annotations.json", "--unlabelled", "skip"],
    {"image": "image", "bbox_xyxy": pixels, "label": lambda ours: labels(ours) + 1},
    lambda data, i: f"positive image set/{i + 1:03}.jpg",
    {"train": {"split": "positive"}},
    src="NWPU VHR-10 dataset",
    fields=["boxes", "box_labels"],
    within=1e-5,
)
def vhr10():
    top = "NWPU VHR-10 dataset"
    pathlib.Path(f"{top}.zip").touch()
    images, annotations = [], []
    for i in range(4):
        picture(f"{top}/positive image set/{i + 1:03}.jpg", quality=90)
        images.append({"id": i, "file_name": f"{i + 1:03}.jpg", "height": 32, "width": 32})
        for left, topmost, right, bottom in boxes().tolist():
            box = [left, topmost, right - left, bottom - topmost]
            ring = [left, topmost, right, topmost, right, bottom, left, bottom]
            of = {"image_id": i, "category_id": int(noise.integers(1, 11)), "bbox": box, "iscrowd": 0, "area": box[2] * box[3], "segmentation": [ring]}
            annotations.append({"id": len(annotations), **of})
    picture(f"{top}/negative image set/001.jpg", quality=90)
    names = torchgeo.datasets.VHR10.categories[1:]
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(names)]
    write(f"{top}/annotations.json", json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def voc(path, rows, names, size=(32, 32)):
    """An annotation of Pascal VOC."""
    objects = "".join(
        f"<object><name>{name}</name><difficult>0</difficult><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for (a, b, c, d), name in zip(rows, names)
    )
    name = pathlib.Path(path).stem
    write(path, f"<annotation><filename>{name}.jpg</filename><size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>{objects}</annotation>")


@like(
    "DIOR",
    ["--images", "Images_trainval/{key}.jpg", "--labels", "Annotations_trainval", "--classes", "classes.txt"],
    VOC,
    lambda data, i: data.sample_df.iloc[i]["image_path"],
    fields=["boxes", "box_labels"],
    within=1e-5,
)
def dior():
    names = torchgeo.datasets.DIOR.classes
    write("classes.txt", "\n".join(names))
    rows = []
    for i in range(4):
        picture(f"Images_trainval/{i:05}.jpg", quality=90)
        voc(f"Annotations_trainval/{i:05}.xml", boxes().tolist(), noise.choice(names, 3))
        rows.append({"split": "train", "image_path": f"Images_trainval/{i:05}.jpg", "label_path": f"Annotations_trainval/{i:05}.xml"})
    pd.DataFrame(rows).to_csv("sample_df.csv", index=False)


# A row for each box.
@like(
    "EverWatch",
    ["--labels", "everwatch-benchmark/train.csv", "--classes", "classes.txt"],
    {"image": "image", "bbox_xyxy": pixels, "label": labels},
    lambda data, i: data.annot_df.loc[i]["image_path"].iloc[0],
    {"train": {"split": "train"}},
    src="everwatch-benchmark",
    fields=["boxes", "box_labels"],
    within=1e-5,
)
def everwatch():
    names = torchgeo.datasets.EverWatch.classes
    write("classes.txt", "\n".join(names))
    rows = []
    for i in range(3):
        picture(f"everwatch-benchmark/{i}.png")
        rows += [f"{i}.png,{name},{','.join(map(str, box))}" for box, name in zip(boxes().tolist(), noise.choice(names, 3))]
    write("everwatch-benchmark/train.csv", "image_path,label,xmin,ymin,xmax,ymax\n" + "\n".join(rows) + "\n")


# The classes of torchgeo are not in alphabetical order.
@like(
    "ForestDamage",
    ["--images", "{area}/Images/{key}.JPG", "--labels", "Data_Set_Larch_Casebearer", "--classes", "classes.txt"],
    VOC,
    lambda data, i: os.path.relpath(data.files[i]["image"], "Data_Set_Larch_Casebearer"),
    {"train": {}},
    src="Data_Set_Larch_Casebearer",
    refused="has no name, or no `bndbox`",
)
def forest_damage():
    write("classes.txt", "other\nH\nLD\nHD\n")
    for i, area in enumerate(("Bebehojd_20190527", "Ekbacka_20190527", "Jallasvag_20190527")):
        top = f"Data_Set_Larch_Casebearer/{area}"
        picture(f"{top}/Images/B{i:02}_0000.JPG", format="jpeg", quality=90)
        objects = "".join(
            f"<object><tree>Larch</tree><damage>{name}</damage><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
            for (a, b, c, d), name in zip(boxes().tolist(), ("H", "LD", "other"))
        )
        write(f"{top}/Annotations/B{i:02}_0000.xml", f"<annotation><filename>B{i:02}_0000.JPG</filename><size><width>32</width><height>32</height></size>{objects}</annotation>")


def marine_debris():
    for i in range(4):
        name = f"2016042{i}_153114_0e14_16816-29821-16"
        tiff(f"source/{name}.tif", dtype="uint8", crs=None)
        array = np.concatenate([boxes(i + 1).astype("f8"), np.ones((i + 1, 1))], 1)
        np.save(below(f"labels/{name}.npy"), array)
        np.savez(below(f"npz/{name}.npz"), array)


DEBRIS = "--as arrays --images source/{key}.tif --unlabelled skip --labels none --field found="
# Arrays with a row for each box differ in shape. The hint says how they are packed.
like(
    "NASAMarineDebris",
    DEBRIS + "labels/{key}.npy",
    {},
    None,
    refused="arrays of any shape are stored as files of another kind, such as .npz",
)(marine_debris)
like(
    "NASAMarineDebris",
    DEBRIS + "npz/{key}.npz",
    {"image": "image", "bbox_xyxy": lambda ours: np.load(io.BytesIO(ours["found"]))["arr_0"][:, :4]},
    lambda data, i: os.path.relpath(data.source[i]),
    {"train": {}},
    fields=["found"],
    title="NASAMarineDebris with boxes in npz",
)(marine_debris)


# Sound in place of a mask.
@like(
    "ADVANCE",
    "--images {label}/{key}.jpg --field sound=./sound/{label}/{key}.wav",
    {"image": "image", "label": "label", "audio": lambda ours: np.frombuffer(ours["sound"][44:], "<i2")[None]},
    lambda data, i: os.path.relpath(data.files[i]["image"], "vision"),
    {"train": {}},
    src="vision",
    fields=["sound"],
)
def advance():
    import scipy.io.wavfile

    for label in ("airport", "sparse shrub land", "train station"):
        for i in range(2):
            picture(f"vision/{label}/{i}_{label[:3]}.jpg", quality=90)
            scipy.io.wavfile.write(below(f"sound/{label}/{i}_{label[:3]}.wav"), 22050, noise.integers(-99, 99, 100).astype(np.int16))


# Bands of Sentinel-1 and -2 in a file each; one patch may have several classes.


BANDS_S2 = {"B01": 60, "B02": 10, "B03": 10, "B04": 10, "B05": 20, "B06": 20, "B07": 20, "B08": 10, "B8A": 20, "B09": 60, "B11": 20, "B12": 20}
# GDAL adds up in single precision, which decides ties at a factor of 6 by chance.
TIES = np.array([metres == 60 for metres in BANDS_S2.values()]).reshape(-1, 1, 1)


@like(
    "BigEarthNetV2",
    ["--as", "arrays", "--images", "BigEarthNet-S2/{*}/{*}/{key}_{band}.tif", "--align", "resample", "--mask", "Reference_Maps/{*}/{*}/{key}_reference_map.tif"]
    + ["--labels", "metadata.parquet", "--key-column", "patch_id", "--label-column", "labels", "--split-column", "split", "--columns", "none", "--classes", "classes.txt"],
    {
        "image": "image",
        "mask": lambda ours: np.vectorize(torchgeo.datasets.BigEarthNetV2.clc_codes.get)(ours["mask"])[None],
        "label": "labels",
    },
    lambda data, i: data.metadata_df.loc[i]["patch_id"],
    split_words("train", "val"),
    arguments={"bands": "s2"},
    fields=["mask", "labels"],
    within=TIES,
)
def bigearthnet_v2():
    of = torchgeo.datasets.BigEarthNetV2
    write("classes.txt", "\n".join(of.class_set))
    pathlib.Path("BigEarthNet-S1").mkdir()
    rows = []
    for i in range(6):
        tile, patch = "S2A_MSIL2A_20170613T101031_N9999_R022_T33UUP", f"S2A_MSIL2A_20170613T101031_N9999_R022_T33UUP_{26 + i}_57"
        for band, metres in BANDS_S2.items():
            tiff(f"BigEarthNet-S2/{tile}/{patch}/{patch}_{band}.tif", bands=1, size=(1200 // metres,) * 2, metres=metres)
        codes = np.array(list(of.clc_codes), np.uint16)
        tiff(f"Reference_Maps/{tile}/{patch}/{patch}_reference_map.tif", codes[classes((120, 120), len(codes))], metres=10)
        found = sorted(noise.choice(of.class_set, 3, replace=False).tolist())
        rows.append({"patch_id": patch, "labels": found, "split": ("train", "validation")[i % 3 == 2], "s1_name": f"S1_{i}"})
    pd.DataFrame(rows).to_parquet("metadata.parquet")


@like(
    "CloudCoverDetection",
    "--as arrays --images {split}/{*}/{key}/{band:B02|B03|B04|B08}.tif --mask {split}/{*:train_labels|test_labels}/{key}.tif",
    {"image": "image", "mask": "mask"},
    lambda data, i: f"{data.split}/{data.metadata.iat[i, 0]}",
    split_words("train", "test"),
    fields=["mask"],
)
def cloud_cover():
    for split in ("train", "test"):
        chips = [f"{split[:2]}{i:02}" for i in range(3)]
        pd.DataFrame({"chip_id": chips, "location": "Chifunfu", "datetime": "2020-04-29"}).to_csv(below(f"{split}/{split}_metadata.csv"), index=False)
        for chip in chips:
            for band in ("B02", "B03", "B04", "B08"):
                tiff(f"{split}/{split}_features/{chip}/{band}.tif", bands=1)
            tiff(f"{split}/{split}_labels/{chip}.tif", bands=1, dtype="uint8", top=2)


@like(
    "RwandaFieldBoundary",
    "--as arrays --images source/{split}/{date}/{key}_{band}.tif --mask labels/{split}/{key}.tif --unlabelled skip",
    {"image": "image", "mask": "mask"},
    lambda data, i: f"{data.split}/{i:02}",
    fields=["mask"],
)
def rwanda():
    of = torchgeo.datasets.RwandaFieldBoundary
    for i in range(of.splits["train"]):
        for date in of.dates:
            for band in of.all_bands:
                tiff(f"source/train/{date}/{i:02}_{band}.tif", bands=1, size=(16, 16), dtype="uint8", top=255)
        tiff(f"labels/train/{i:02}.tif", bands=1, size=(16, 16), dtype="uint8", top=2)


@like(
    "SEN12MS",
    "--as arrays --images {season}/s2_{scene}/{*}_s2_{*}_{key:p[0-9]+}.tif --field s1={season}/s1_{scene}/{*}_s1_{*}_{key:p[0-9]+}.tif"
    " --field lc={season}/lc_{scene}/{*}_lc_{*}_{key:p[0-9]+}.tif --labels train_list.txt={split=train}{path} --labels test_list.txt={split=test}{path}",
    {"image": lambda ours: np.concatenate([ours["s1"].transpose(2, 0, 1) if ours["s1"].shape[-1] == 2 else ours["s1"], ours["image"].astype("f4")]), "mask": lambda ours: ours["lc"].transpose(2, 0, 1)[0] if ours["lc"].shape[-1] == 4 else ours["lc"][0]},
    lambda data, i: (lambda parts: f"{parts[0]}_{parts[1]}/s2_{parts[3]}/{data.ids[i]}")(data.ids[i].split("_")),
    split_words("train", "test"),
    fields=["s1", "lc"],
)
def sen12ms():
    for season in torchgeo.datasets.SEN12MS.light_filenames[:4]:
        pathlib.Path(season).mkdir()
    listed = []
    for i in range(6):
        season, scene = ("ROIs1158_spring", "ROIs1868_summer")[i % 2], f"{i % 3}"
        for kind, bands, dtype in (("s1", 2, "float32"), ("s2", 13, "uint16"), ("lc", 4, "uint16")):
            tiff(f"{season}/{kind}_{scene}/{season}_{kind}_{scene}_p{i}.tif", bands=bands, dtype=dtype, top=17 if kind == "lc" else None)
        listed.append(f"{season}_s2_{scene}_p{i}.tif\n")
    write("train_list.txt", "".join(listed[:4]))
    write("test_list.txt", "".join(listed[4:]))


@like(
    "TreeSatAI",
    ["--as", "arrays", "--images", "aerial/60m/{key}.tif", "--field", "s1=s1/60m/{key}.tif", "--field", "s2=s2/60m/{key}.tif", "--align", "ignore"]
    + [word for split in ("train", "test") for word in ("--labels", f"{split}_filenames.lst={{split={split}}}{{path}}")],
    {"image_aerial": "image", "image_s1": lambda ours: ours["s1"].transpose(2, 0, 1), "image_s2": lambda ours: ours["s2"].transpose(2, 0, 1)},
    lambda data, i: f"aerial/60m/{data.files[i]}",
    split_words("train", "test"),
    fields=["s1", "s2"],
)
def treesat():
    names, found = [f"Abies_alba_{i}_{4000 + i}_WEFL_NLF.tif" for i in range(6)], {}
    for name in names:
        tiff(f"aerial/60m/{name}", bands=4, dtype="uint8", size=(304, 304), metres=0.2)
        tiff(f"s1/60m/{name}", bands=3, dtype="float32", size=(6, 6))
        tiff(f"s2/60m/{name}", bands=12, size=(6, 6))
        found[name] = [["Abies", 0.93], ["Picea", 0.07]]
    write("labels/TreeSatBA_v9_60m_multi_labels.json", json.dumps(found))
    write("train_filenames.lst", "\n".join(names[:4]))
    write("test_filenames.lst", "\n".join(names[4:]))


# The months of BioMassters as bands of one year, and the biomass as a map.
@like(
    "BioMassters",
    "--as arrays --images {split}_features/{key}_S2_{date:[0-9]+}.tif --field agbm=train_agbm/{key}_agbm.tif --unlabelled skip",
    {"image_S2": "image", "label": lambda ours: ours["agbm"].reshape(1, 32, 32)},
    lambda data, i: f"train/{sorted(data.df['chip_id'].unique())[i]}",
    arguments={"sensors": ["S2"], "as_time_series": True},
    fields=["agbm"],
)
def biomassters():
    rows = []
    for chip in ("0003d2eb", "000aa810", "0a1b2c3d"):
        for month in range(12):
            name = f"{chip}_S2_{month:02}.tif"
            tiff(f"train_features/{name}", bands=11)
            rows.append({"filename": name, "chip_id": chip, "satellite": "S2", "split": "train", "month": f"m{month}", "corresponding_agbm": f"{chip}_agbm.tif"})
        tiff(f"train_agbm/{chip}_agbm.tif", bands=1, dtype="float32")
    pd.DataFrame(rows).to_csv("biomassters_features_metadata.csv", index=False)


@like(
    "FieldsOfTheWorld",
    "--as arrays --images s2_images/window_b/{key}.tif --field a=s2_images/window_a/{key}.tif --mask label_masks/semantic_2class/{key}.tif"
    " --labels austria/chips_austria.parquet --key-column aoi_id --label-column none --split-column split --columns none",
    {"image": lambda ours: np.concatenate([ours["image"], ours["a"]]), "mask": "mask"},
    lambda data, i: os.path.relpath(data.files[i]["win_b"], "austria"),
    split_words("train", "val", "test"),
    src="austria",
    fields=["a", "mask"],
)
def ftw():
    rows = []
    for i in range(6):
        aoi = f"g{i}_00011_1"
        for window in "ab":
            tiff(f"austria/s2_images/window_{window}/{aoi}.tif", bands=4)
        tiff(f"austria/label_masks/semantic_2class/{aoi}.tif", bands=1, dtype="uint8", top=2)
        rows.append({"aoi_id": aoi, "split": ("train", "val", "test")[i % 3]})
    pd.DataFrame(rows).to_parquet("austria/chips_austria.parquet")


@like(
    "HySpecNet11k",
    ["--as", "arrays", "--images", "patches/{*}/{*}/{key}-{date:SPECTRAL_IMAGE}.TIF"]
    + [word for split in ("train", "val") for word in ("--labels", f"hyspecnet-11k/splits/easy/{split}.csv={{split={split}}}{{*}}/{{*}}/{{path}}-DATA.npy")],
    # torchgeo leaves out bands in which water absorbs the light.
    {"image": lambda ours: ours["image"][0][[torchgeo.datasets.HySpecNet11k.all_bands.index(band) for band in torchgeo.datasets.HySpecNet11k.default_bands]]},
    lambda data, i: os.path.basename(data.files[i]).removesuffix("-DATA.npy"),
    split_words("train", "val"),
    src="hyspecnet-11k",
)
def hyspecnet():
    listed = []
    for i in range(4):
        tile = "ENMAP01-____L2A-DT0000004950_20221103T162438Z_001_V010110_20221118T145147Z"
        part = f"{tile}-Y0145{i}273_X04392{i}566"
        tiff(f"hyspecnet-11k/patches/{tile}/{part}/{part}-SPECTRAL_IMAGE.TIF", bands=224, dtype="int16", size=(16, 16), metres=30)
        listed.append(f"{tile}/{part}/{part}-DATA.npy\n")
    write("hyspecnet-11k/splits/easy/train.csv", "".join(listed[:3]))
    write("hyspecnet-11k/splits/easy/val.csv", "".join(listed[3:]))


# Series, and files of arrays.


# The classes of a task are the last folders; torchgeo gives the label in a list.
@like(
    "MillionAID",
    ["--images", "{split}/{*}/{*}/{label}/{key}.jpg"],
    {"image": "image", "label": lambda ours: ours["label"].reshape(1)},
    lambda data, i: os.path.relpath(data.files[i]["image"]),
    split_words("train", "test"),
)
def million_aid():
    for split in ("train", "test"):
        for at in ("agriculture_land/grassland/meadow", "water_area/lake/lake", "transportation_land/railway_area/viaduct"):
            for i in range(2):
                picture(f"{split}/{at}/P{split}{at[-3:]}{i}.jpg", quality=90)


@like(
    "SKIPPD",
    "--images {split=train}{part:trainval}/images_log/{key}.npy --images {split=test}{part:test}/images_log/{key}.npy --field pv_log={part}/pv_log/{key}.npy --labels none",
    {"image": "image", "label": lambda ours: ours["pv_log"].astype("f4").reshape(())},
    lambda data, i: f"{data.split}/images_log/{i:07}.npy",
    {"train": {"split": "trainval"}, "test": {"split": "test"}},
    src="2017_2019_images_pv_processed_nowcast.hdf5",
    arguments={"task": "nowcast"},
    fields=["pv_log"],
)
def skippd():
    with h5py.File("2017_2019_images_pv_processed_nowcast.hdf5", "w") as file:
        for split, n in (("trainval", 4), ("test", 2)):
            file[f"{split}/images_log"] = smooth(64, 64 * n).reshape(64, n, 64, 3).transpose(1, 0, 2, 3)
            file[f"{split}/pv_log"] = noise.random(n)
            times = np.array([pd.Timestamp("2017-03-09 07:45").to_pydatetime()] * n)
            np.save(f"times_{split}_nowcast.npy", times, allow_pickle=True)


# Series of one length; see below for others.
@like(
    "PASTIS",
    "--as arrays --images DATA_S2/S2_{key}.npy --axes tcyx --field s=ANNOTATIONS/TARGET_{key}.npy --labels none",
    {"image": "image", "mask": lambda ours: ours["s"][0]},
    lambda data, i: f"DATA_S2/S2_{data.idxs[i]}.npy",
    {"train": {}},
    src="PASTIS-R",
    fields=["s"],
)
def pastis():
    patches = [{"type": "Feature", "geometry": None, "properties": {"ID_PATCH": 10000 + i, "Fold": f"{i % 5 + 1}"}} for i in range(4)]
    write("PASTIS-R/metadata.geojson", json.dumps({"type": "FeatureCollection", "features": patches}))
    for i in range(4):
        below(f"PASTIS-R/DATA_S2/S2_{10000 + i}.npy")
        np.save(f"PASTIS-R/DATA_S2/S2_{10000 + i}.npy", noise.integers(0, 9000, (7, 10, 32, 32), dtype=np.int16))
        np.save(below(f"PASTIS-R/ANNOTATIONS/TARGET_{10000 + i}.npy"), noise.integers(0, 20, (3, 32, 32), dtype=np.uint8))


# Class 3 is the substation, and torchgeo gives it with its complement.
@like(
    "Substation",
    "--as arrays --images image_stack/{key}.npz --axes tcyx --mask mask/{key}.npz --labels none",
    {"image": lambda ours: ours["image"].reshape(-1, 32, 32), "mask": lambda ours: np.stack([ours["mask"] != 3, ours["mask"] == 3])},
    lambda data, i: f"image_stack/{data.image_filenames[i]}",
    {"train": {}},
    fields=["mask"],
)
def substation():
    for i in range(4):
        np.savez_compressed(below(f"image_stack/image_{i}.npz"), noise.integers(0, 9000, (4, 13, 32, 32)).astype("f4"))
        np.savez_compressed(below(f"mask/image_{i}.npz"), classes(n=4))


@like(
    "OSCD",
    ["--as", "arrays", "--images", "Onera Satellite Change Detection dataset - Images/{key}/{date:imgs_1_rect|imgs_2_rect}/{band}.tif"]
    + ["--mask", "Onera Satellite Change Detection dataset - Train Labels/{key}/cm/cm.png", "--mask-colours", "colours.csv", "--labels", "none"],
    {"image": "image", "mask": lambda ours: ours["mask"][None]},
    lambda data, i: data.files[i]["region"],
    fields=["mask"],
)
def oscd():
    of = torchgeo.datasets.OSCD
    write("colours.csv", "same,0,0,0\nchange,255,255,255\n")
    for region in ("abudhabi", "paris"):
        images = f"Onera Satellite Change Detection dataset - Images/{region}"
        for time in (1, 2):
            for band in of.all_bands:
                tiff(f"{images}/imgs_{time}_rect/{band}.tif", bands=1)
        write(f"{images}/dates.txt", "date_1: 20160120\ndate_2: 20180328\n")
        picture(f"Onera Satellite Change Detection dataset - Train Labels/{region}/cm/cm.png", classes(n=2) * 255)


@like(
    "SolarPlantsBrazil",
    "--as arrays --images {split}/input/img({key}).tif --mask {split}/labels/target({key}).tif --align ignore",
    {"image": "image", "mask": lambda ours: ours["mask"] > 0},
    lambda data, i: os.path.relpath(data.image_paths[i]),
    split_words("train", "val", "test"),
    fields=["mask"],
)
def solar_plants():
    for split, n in (("train", 3), ("val", 2), ("test", 2)):
        for i in range(n):
            tiff(f"{split}/input/img({i}).tif", bands=4, dtype="float32")
            tiff(f"{split}/labels/target({i}).tif", bands=1, dtype="uint8", top=2)


# Numbers of each place, in a table each, which also say the place: one table is read, since two would say it twice.
@like(
    "USAVars",
    ["--as", "arrays", "--images", "uar/{date:tile}_{key}.tif", "--labels", "treecover.csv", "--columns", "treecover", "--key-column", "ID", "--label-column", "none"]
    + [word for split in ("train", "val", "test") for word in ("--labels", f"{split}_split.txt={{split={split}}}tile_{{path}}.tif")],
    {"image": lambda ours: ours["image"][0], "labels": lambda ours: np.array([ours["treecover"]], "f4").reshape(1)},
    lambda data, i: data.files[i].removeprefix("tile_").removesuffix(".tif"),
    split_words("train", "val", "test"),
    fields=["treecover"],
    arguments={"labels": ["treecover"]},
)
def usavars():
    ids = [f"{i},{1000 + i}" for i in range(6)]
    for i in ids:
        tiff(f"uar/tile_{i}.tif", bands=4, dtype="uint8", metres=1)
    for name in ("treecover", "elevation", "population", "income", "nightlights", "roads", "housing"):
        pd.DataFrame({"ID": ids, "lon": noise.random(6), "lat": noise.random(6), name: noise.random(6) * 100}).to_csv(f"{name}.csv", index=False)
    for split, part in (("train", ids[::2]), ("val", ids[1::4]), ("test", ids[3::4])):
        write(f"{split}_split.txt", "".join(f"tile_{i}.tif\n" for i in part))


@like(
    "TropicalCyclone",
    "--images {split}/{key}.jpg --labels training_set_labels.csv --labels test_set_labels.csv --key-column image_id --label-column wind_speed",
    {"image": "image", "label": "label"},
    lambda data, i: f"{data.split}/{data.labels.iat[i, 0]}.jpg",
    split_words("train", "test"),
)
def cyclone():
    for split, name in (("train", "training_set"), ("test", "test_set")):
        keys = [f"{split[:2]}a_{i:03}" for i in range(3)]
        for key in keys:
            picture(f"{split}/{key}.jpg", size=(366, 366), quality=90)
        pd.DataFrame({"image_id": keys, "wind_speed": [43, 25, 60]}).to_csv(f"{name}_labels.csv", index=False)
        pd.DataFrame({"image_id": keys, "storm_id": "abs", "relative_time": [0, 1800, 3600], "ocean": 2}).to_csv(f"{name}_features.csv", index=False)


@like(
    "COWCCounting",
    ["--images", "{place}/{*:train|test}/{key}.png", "--labels", "COWC_train_list_64_class.txt={split=train}{path} {label}", "--labels", "COWC_test_list_64_class.txt={split=test}{path} {label}"],
    {"image": "image", "label": "label"},
    lambda data, i: data.images[i],
    split_words("train", "test"),
)
def cowc():
    for name in torchgeo.datasets.COWCCounting.filenames:
        pathlib.Path(name).touch()
    for split in ("train", "test"):
        lines = []
        for place in ("Potsdam_ISPRS", "Toronto_ISPRS"):
            for i in range(3):
                picture(f"{place}/{split}/{place}.{i}.{split}.png")
                lines.append(f"{place}/{split}/{place}.{i}.{split}.png {i * 3}\n")
        write(f"COWC_{split}_list_64_class.txt", "".join(lines))


@like(
    "SkyScript",
    ["--images", "{*:images[0-9]}/{key}.jpg", "--key-column", "filepath", "--label-column", "none"]
    + [word for split, name in torchgeo.datasets.SkyScript.caption_files.items() for word in ("--labels", f"{name}={{split={split}}}")],
    {"image": "image"},
    lambda data, i: data.captions.iloc[i, 0],
    split_words("train", "val", "test"),
)
def skyscript():
    of = torchgeo.datasets.SkyScript
    for folder in of.image_dirs:
        picture(f"{folder}/a{folder}_US_0.jpg", quality=90)
    for (split, name), folders in zip(of.caption_files.items(), (of.image_dirs[:3], of.image_dirs[3:5], of.image_dirs[5:])):
        rows = [{"filepath": f"{folder}/a{folder}_US_0.jpg", "title_multi_objects": f"a lake, and {folder}"} for folder in folders]
        pd.DataFrame(rows).to_csv(name, index=False)


# Files of several bands each: here that of 10 m is compared. Masks count from 1. The lists of splits have the numbers of rows of another table.
@like(
    "SeasoNet",
    "--as arrays --images {season}/{*}/{key}_10m_RGB.tif --mask {season}/{*}/{key}_labels.tif",
    {"image": "image", "mask": lambda ours: ours["mask"].astype(int) - 1},
    lambda data, i: os.path.relpath(data.files.iloc[i][0]) + "_10m_RGB.tif",
    arguments={"bands": ["10m_RGB"]},
    fields=["mask"],
)
def seasonet():
    rows = []
    for season in ("spring", "summer", "fall", "winter", "snow"):
        pathlib.Path(season).mkdir()
    for file in torchgeo.datasets.SeasoNet.metadata:
        if file["ext"] != ".zip":
            pathlib.Path(file["name"]).touch()
    for i, season in enumerate(("spring", "spring", "summer", "winter")):
        name = f"32UME_20180{i + 3}01T000000_51_8_6_9{i}"
        tiff(f"{season}/{name}/{name}_10m_RGB.tif", size=(120, 120))
        tiff(f"{season}/{name}/{name}_labels.tif", array=classes((120, 120), 33) + 1)
        rows.append({"Season": season.capitalize(), "Grid": 1, "Latitude": 51, "Longitude": 8, "Satellite": "A", "Year": 2018, "Month": 4, "Day": 1, "Path": f"{season}/{name}"})
    pd.DataFrame(rows).to_csv("meta.csv", index_label="Index")
    pathlib.Path("splits").mkdir()
    write("splits/train.csv", "\n".join(map(str, range(4))))


# Buildings are polygons in degrees. torchgeo reads pictures of 439 x 406 pixels.
@like(
    "SpaceNet1",
    "--as arrays --images 3band/3band_{key}.tif --mask geojson/Geo_{key}.geojson --labels none",
    {"image": "image", "mask": "mask"},
    lambda data, i: os.path.relpath(data.images[i], "SN1_buildings/train"),
    src="SN1_buildings/train",
    fields=["mask"],
)
def spacenet():
    for i in range(3):
        left, top = -43.6 + i / 100, -22.9
        place = {"crs": "EPSG:4326", "metres": 4.5e-6, "corner": (left, top)}
        name = f"AOI_1_RIO_img{i + 1}"
        tiff(f"SN1_buildings/train/3band/3band_{name}.tif", size=(406, 439), dtype="uint8", **place)
        features = []
        for x, y in noise.uniform(0.1, 0.8, (6, 2)) * 400:
            corners = np.array([[0, 0], [31.3, 4.2], [25.7, 40.1], [3.1, 33.3], [0, 0]]) + [x, y]
            ring = [[left + 4.5e-6 * a, top - 4.5e-6 * b] for a, b in corners]
            features.append({"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}})
        write(f"SN1_buildings/train/geojson/Geo_{name}.geojson", json.dumps({"type": "FeatureCollection", "features": features}))


@like(
    "SSL4EOL",
    "--as arrays --images {scene}/{date}/all_bands.tif --labels none",
    {"image": lambda ours: ours["image"].reshape(-1, 32, 32)},
    lambda data, i: data.scenes[i],
    {"train": {"split": "oli_sr"}},
    src="ssl4eo_l_oli_sr",
)
def ssl4eo():
    for i in range(3):
        tiff(f"ssl4eo_l_oli_sr/{i:07}/LC08_044034_20200{i + 1}15/all_bands.tif", bands=7, dtype="uint8", size=(32, 32), metres=30)


@like(
    "MapInWild",
    "--as arrays --images s2_summer/{key}.tif --field wc=ESA_WC/{key}.tif --field viirs=VIIRS/{key}.tif --mask mask/{key}.tif --labels none",
    {"image": lambda ours: np.concatenate([(ours[name].transpose(2, 0, 1) if ours[name].shape[-1] == 1 else ours[name].reshape(-1, 32, 32)) for name in ("wc", "viirs")] + [ours["image"]]), "mask": lambda ours: ours["mask"][None] != 0},
    lambda data, i: f"s2_summer/{data.ids[i]}.tif",
    arguments={"modality": ["mask", "esa_wc", "viirs", "s2_summer"]},
    fields=["wc", "viirs", "mask"],
)
def mapinwild():
    for links in torchgeo.datasets.MapInWild.modality_urls.values():
        for link in links:
            if not link.endswith(".csv"):
                pathlib.Path(os.path.basename(link).split(".")[0]).mkdir(exist_ok=True)
    ids = [200 + i for i in range(4)]
    pd.DataFrame({"train": ids, "validation": None, "test": None}).to_csv("split_IDs.csv", index=False)
    for i in ids:
        tiff(f"s2_summer/{i}.tif", bands=10)
        tiff(f"ESA_WC/{i}.tif", bands=1, dtype="uint8", top=100)
        tiff(f"VIIRS/{i}.tif", bands=1, dtype="float32")
        tiff(f"mask/{i}.tif", bands=1, dtype="uint8", top=3)


# torchgeo makes a mask and a box of each instance.
def instances(ours):
    found = ours["gt_instance"].reshape(1, 24, 24)
    return found == np.unique(found[found != 0])[:, None, None]


@like(
    "ZueriCrop",
    "--images data/{key}.npy --axes tyxc --mask gt/{key}.npy --field gt_instance=gt_instance/{key}.npy",
    {"image": "image", "mask": instances, "label": lambda ours: np.array([np.unique(ours["mask"][one])[0] for one in instances(ours)])},
    lambda data, i: f"data/{i:07}.npy",
    {"train": {}},
    src="ZueriCrop.hdf5",
    fields=["mask", "gt_instance"],
)
def zueri_crop():
    write("labels.csv", "")
    with h5py.File("ZueriCrop.hdf5", "w") as file:
        file["data"] = noise.integers(0, 9999, (5, 7, 24, 24, 9), dtype=np.int16)
        file["gt"] = noise.integers(0, 5, (5, 24, 24, 1), dtype=np.uint8)
        file["gt_instance"] = noise.integers(0, 5, (5, 24, 24, 1), dtype=np.uint8)


def multi_hot(names, known):
    return np.isin(np.arange(len(known)), [known.index(name) for name in names])


# The classes of a patch are in a JSON file of its own, which is a field.
@like(
    "BigEarthNet",
    "--as arrays --images {*:BigEarthNet-v1.0}/{*}/{key}_{band}.tif --align resample --field classes={*:BigEarthNet-v1.0}/{*}/{key}_labels_metadata.json"
    " --labels bigearthnet-train.csv={split=train}{path},{*} --labels bigearthnet-val.csv={split=val}{path},{*} --labels bigearthnet-test.csv={split=test}{path},{*}",
    {"image": "image", "label": lambda ours: multi_hot(json.loads(ours["classes"])["labels"], torchgeo.datasets.BigEarthNet.class_sets[43])},
    lambda data, i: os.path.basename(data.folders[i]["s2"]),
    split_words("train", "val", "test"),
    arguments={"bands": "s2", "num_classes": 43},
    fields=["classes"],
    within=TIES,
)
def bigearthnet():
    names = [f"S2A_MSIL2A_20170613T101031_{i}_57" for i in range(6)]
    for name in names:
        for band, metres in BANDS_S2.items():
            tiff(f"BigEarthNet-v1.0/{name}/{name}_{band}.tif", bands=1, size=(1200 // metres,) * 2, metres=metres)
        found = noise.choice(torchgeo.datasets.BigEarthNet.class_sets[43], 3, replace=False).tolist()
        write(f"BigEarthNet-v1.0/{name}/{name}_labels_metadata.json", json.dumps({"labels": found}))
    for split, part in (("train", names[::2]), ("val", names[1::4]), ("test", names[3::4])):
        write(f"bigearthnet-{split}.csv", "".join(f"{name},S1_{name}\n" for name in part))


# Boxes that are turned are kept as their files, which are read here as torchgeo reads them.


def dota_boxes(ours):
    lines = [line.split() for line in ours["found"].decode().splitlines()[2:]]
    return np.array([[float(number) for number in line[:8]] for line in lines])


@like(
    "DOTA",
    "--images {split}/images/{key}.png --field found={split}/annotations/version2.0/{key}.txt",
    {"image": "image", "bbox": dota_boxes},
    lambda data, i: data.sample_df.iloc[i]["image_path"],
    split_words("train", "val"),
    fields=["found"],
)
def dota():
    rows = []
    for split, n in (("train", 3), ("val", 2)):
        for i in range(n):
            image, text = f"{split}/images/P{i:04}.png", f"{split}/annotations/version2.0/P{i:04}.txt"
            picture(image)
            lines = [f"{a}.0 {b}.0 {c}.0 {b}.0 {c}.0 {d}.0 {a}.0 {d}.0 plane 0\n" for a, b, c, d in boxes().tolist()]
            write(text, "imagesource:GoogleEarth\ngsd:0.146\n" + "".join(lines))
            rows.append({"image_path": image, "annotation_path": text, "split": split, "version": "2.0"})
    pd.DataFrame(rows).to_csv("samples.csv", index=False)


def soda_boxes(ours):
    corners = np.array([of["poly"] for of in json.loads(ours["found"])["annotations"]]).reshape(-1, 4, 2)
    return np.concatenate([corners.min(1), corners.max(1)], 1)


@like(
    "SODAA",
    "--images Images/{key}.jpg --field found=Annotations/{*}/{key}.json --labels sample_df.csv --key-column image_path --label-column none --split-column split --columns none",
    {"image": "image", "bbox_xyxy": soda_boxes, "label": lambda ours: np.array([of["category_id"] for of in json.loads(ours["found"])["annotations"]])},
    lambda data, i: data.sample_df.iloc[i]["image_path"],
    split_words("train", "val"),
    fields=["found"],
)
def soda():
    rows = []
    for i, split in enumerate(("train", "train", "train", "val", "val")):
        image, text = f"Images/{i:05}.jpg", f"Annotations/{split}/{i:05}.json"
        picture(image, quality=90)
        found = [{"poly": [a, b, c, b, c, d, a, d], "category_id": int(a % 9)} for a, b, c, d in boxes().tolist()]
        write(text, json.dumps({"annotations": found}))
        rows.append({"image_path": image, "label_path": text, "split": split})
    pd.DataFrame(rows).to_csv("sample_df.csv", index=False)


@like(
    "CopernicusBenchCloudS2",
    ["--as", "arrays", "--images", "s2_toa/{key}.tif", "--mask", "cloud/{key}.tif"]
    + [word for split in ("train", "val") for word in ("--labels", f"cloud_s2/{split}.csv={{split={split}}}{{path}}")],
    {"image": "image", "mask": "mask"},
    lambda data, i: f"s2_toa/{data.files[i]}.tif",
    split_words("train", "val"),
    src="cloud_s2",
    fields=["mask"],
)
def copernicus_clouds():
    names = [f"ROI_0000{i}__20200526T134213" for i in range(5)]
    for name in names:
        tiff(f"cloud_s2/s2_toa/{name}.tif", bands=13)
        tiff(f"cloud_s2/cloud/{name}.tif", bands=1, dtype="uint8", top=4)
    for split, part in (("train", names[:3]), ("val", names[3:])):
        write(f"cloud_s2/{split}.csv", "".join(f"{name}\n" for name in part))


@like(
    "CopernicusBenchDFC2020S1",
    ["--as", "arrays", "--images", "s1/{scene}_s1_{key:p[0-9]+}.tif", "--mask", "dfc/{scene}_dfc_{key:p[0-9]+}.tif", "--labels", "none"],
    {"image": "image", "mask": "mask"},
    lambda data, i: f"s1/{data.files[i].replace('dfc', 's1')}",
    src="dfc2020_s1s2",
    fields=["mask"],
)
def copernicus_dfc():
    names = [f"ROIs0000_validation_dfc_0_p{i}.tif" for i in range(4)]
    names = [name.replace("_dfc_0_", "_0_dfc_") for name in names]
    for name in names:
        tiff(f"dfc2020_s1s2/s1/{name.replace('dfc', 's1')}", bands=2, dtype="float32")
        tiff(f"dfc2020_s1s2/dfc/{name}", bands=1, dtype="uint8", top=11)
    write("dfc2020_s1s2/dfc-train-new.csv", "\n".join(names))


# The classes are in an order of their own.
@like(
    "CopernicusBenchEuroSATS2",
    ["--as", "arrays", "--images", "all_imgs/{label}/{key}.tif", "--classes", "classes.txt", *lists("eurosat_s2/eurosat", ("train", "val"), "{path}.jpg")],
    {"image": "image", "label": "label"},
    lambda data, i: f"all_imgs/{data.files[i].split('_')[0]}/{data.files[i].replace('.jpg', '.tif')}",
    split_words("train", "val"),
    src="eurosat_s2",
)
def copernicus_eurosat():
    write("classes.txt", "\n".join(torchgeo.datasets.CopernicusBenchEuroSATS2.classes))
    names = [f"{label}_{i}" for label in ("SeaLake", "Forest", "AnnualCrop") for i in range(4)]
    for name in names:
        tiff(f"eurosat_s2/all_imgs/{name.split('_')[0]}/{name}.tif", bands=13)
    for split, part in (("train", names[::2]), ("val", names[1::2])):
        write(f"eurosat_s2/eurosat-{split}.txt", "".join(f"{name}.jpg\n" for name in part))


@like(
    "CopernicusBenchLCZS2",
    [],
    {"image": "image", "label": "label"},
    lambda data, i: f"{data.split}/sen2/{i:07}.npy",
    split_words("train", "val", "test"),
    options={"numbers": "f32", "normalise": ([0] * 10, [1] * 10, 1)},
)
def copernicus_zones():
    for split in ("train", "val", "test"):
        with h5py.File(f"lcz_{split}.h5", "w") as file:
            file["sen2"] = noise.standard_normal((4, 32, 32, 10)).astype("f4")
            file["label"] = np.eye(17)[noise.integers(0, 17, 4)]


# A column of 0 and 1 for each class, of which several are 1.
@like(
    "CopernicusBenchBigEarthNetS2",
    ["--as", "arrays", "--images", "{*:BigEarthNet-S2-5%}/{key}.tif", "--key-column", "s2", "--columns", "none"]
    + ["--label-column", ",".join(f"c{i:02}" for i in range(19))]
    + [word for split in ("train", "val") for word in ("--labels", f"bigearthnet_s1s2/multilabel-{split}.csv={{split={split}}}")],
    {"image": "image", "label": "labels"},
    lambda data, i: f"BigEarthNet-S2-5%/{data.files.iloc[i, 1]}",
    split_words("train", "val"),
    src="bigearthnet_s1s2",
    fields=["labels"],
)
def copernicus_bigearthnet():
    for split, n in (("train", 4), ("val", 3)):
        rows = []
        for i in range(n):
            name = f"S2A_MSIL2A_20170613T101031_{split}_{i}.tif"
            tiff(f"bigearthnet_s1s2/BigEarthNet-S2-5%/{name}", bands=12)
            rows.append({"s1": f"S1{i}.tif", "s2": name, **{f"c{c:02}": int(c % 5 == i or c == 3) for c in range(19)}})
        pd.DataFrame(rows).to_csv(f"bigearthnet_s1s2/multilabel-{split}.csv", index=False)


# A map of numbers as the target, which has places without a value.
@like(
    "CopernicusBenchAQNO2S5P",
    ["--as", "arrays", "--images", "s5p_annual/{key}/{*}.tif", "--field", "target=label_annual/{key}.tif", "--labels", "none"],
    {"image": "image", "mask": lambda ours: ours["target"].reshape(32, 32)},
    lambda data, i: f"s5p_annual/{data.files[i]}/2021-01-01_2021-12-31.tif",
    src="airquality_s5p/no2",
    fields=["target"],
)
def copernicus_no2():
    names = [f"EEA_{i}" for i in range(4)]
    for name in names:
        tiff(f"airquality_s5p/no2/s5p_annual/{name}/2021-01-01_2021-12-31.tif", bands=1, dtype="float32")
        target = noise.standard_normal((32, 32)).astype("f4")
        target[3:9, 4:7] = np.nan
        tiff(f"airquality_s5p/no2/label_annual/{name}.tif", target)
    write("airquality_s5p/no2/train.csv", "\n".join(names))


# Tiles of scenes: torchgeo reads a window that is given by its place on the Earth.
@like(
    "Airphen",
    "--tile 32 --labels none",
    {"image": "image"},
    None,
    {"train": {}},
    src="zones",
    root="zones",
    tiles=True,
)
def airphen():
    tiff("zones/zone.tif", bands=8, size=(96, 64), metres=1)


def refuses(name, pack, words, src=".", title=""):
    """Registers a layout that no single command reads, with words of the refusal."""
    return like(name, pack, {}, None, {}, src=src, refused=words, title=title)


# A few of its pictures are smaller by some rows, and torchgeo resizes them.
@refuses("UCMerced", "--as arrays", "to one with `--fit pad` or `--fit crop`", title="UCMerced with pictures of two sizes")
def ucmerced_sizes():
    for i, height in enumerate((256, 256, 256, 249)):
        for label in ("beach", "harbor"):
            picture(f"{label}/{label}{i:02}.tif", size=(height, 256))


# Its series differ in length, and torchgeo gives each as it is.
@refuses("PASTIS", "--as arrays --axes tcyx --labels none", "pack the arrays of each type and shape into a bundle of their own", title="PASTIS with series of several lengths")
def pastis_lengths():
    for i in range(3):
        np.save(f"S2_{i}.npy", noise.integers(0, 9000, (5 + i, 10, 32, 32), dtype=np.int16))


@refuses("ChaBuD", "", "its groups seem to be samples", "train_eval.hdf5")
def chabud():
    with h5py.File("train_eval.hdf5", "w") as file:
        for i in range(3):
            for name, bands in (("pre_fire", 12), ("post_fire", 12), ("mask", 1)):
                file[f"patch{i}_0/{name}"] = noise.integers(0, 2, (32, 32, bands), dtype=np.uint16)


@refuses("QuakeSet", "", "its groups seem to be samples", "earthquakes.h5")
def quakeset():
    with h5py.File("earthquakes.h5", "w") as file:
        for i in range(3):
            for name in ("patch_0/before", "patch_0/pre", "patch_0/post", "patch_1/before"):
                file[f"event{i}/{name}"] = noise.random((32, 32, 2), dtype=np.float32)


@refuses("CropHarvest", "", "if each file is one sample, save its dataset as an .npy file", "features/arrays")
def crop_harvest():
    for i in range(3):
        with h5py.File(below(f"features/arrays/{i}_kenya.h5"), "w") as file:
            file["array"] = noise.random((12, 18))


@refuses("DigitalTyphoon", "", "np.save", "WP")
def digital_typhoon():
    for i in range(3):
        with h5py.File(below(f"WP/image/197901/{i}.h5"), "w") as file:
            file["Infrared"] = noise.random((64, 64), dtype=np.float32)
    write("WP/aux_data.csv", "id,image_path,wind\n197901,0.h5,30\n")


# Each file has all samples of a country.
@refuses("SustainBenchCropYield", "--as arrays --images usa/{split}_{key:hists}.npz", "can be read in more than one way", "soybeans")
def sustain_bench():
    for split in ("train", "dev", "test"):
        np.savez(below(f"soybeans/usa/{split}_hists.npz"), data=noise.random((6, 32, 32, 9)))


@refuses("FAIR1M", "--as arrays --images part1/images/{key}.tif --labels train/part1/labelXml", "it has no `size` of the image", "train")
def fair1m():
    tiff("train/part1/images/0.tif", dtype="uint8", crs=None)
    points = "".join(f"<point>{x},{y}</point>" for x, y in ((1, 2), (9, 2), (9, 8), (1, 8)))
    found = f"<object><possibleresult><name>Bus</name></possibleresult><points>{points}</points></object>"
    write("train/part1/labelXml/0.xml", f"<annotation><source><filename>0.tif</filename></source><objects>{found}</objects></annotation>")


# A point and numbers, and no pixels.
@refuses("WesternUSALiveFuelMoisture", "", "to pack files of any kind, add `--as bytes`")
def fuel_moisture():
    point = {"type": "Feature", "properties": {"percent(t)": 1.0}, "geometry": {"type": "Point", "coordinates": [1, 2]}}
    write("feature_0.geojson", json.dumps(point))


# Polygons in degrees, scenes in UTM.
@refuses(
    "BeninSmallHolderCashews",
    "--images imagery/{*}/{*}/{key}_{date:[0-9]+}_{band:B02|B03|B04}_10m.tif --labels none --mask labels/{key}.geojson --mask-class class --tile 32",
    "ogr2ogr -t_srs EPSG:",
)
def benin():
    for date in ("20191105", "20191110"):
        for band in ("B02", "B03", "B04"):
            tiff(f"imagery/00/00_{date}/00_{date}_{band}_10m.tif", bands=1, size=(64, 64))
    ring = [[10.34, 47.8], [10.35, 47.8], [10.35, 47.9], [10.34, 47.8]]
    field = {"type": "Feature", "properties": {"class": 1}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    write("labels/00.geojson", json.dumps({"type": "FeatureCollection", "features": [field]}))


if __name__ == "__main__":
    main()
    finish()
