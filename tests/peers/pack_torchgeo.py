"""Five layouts of Earth observation, as torchgeo's classes read them: an epoch has the values of rasterio, h5py and Pillow."""

import os
import pathlib
import sys
import warnings

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import h5py
    import numpy as np
    import pandas as pd
    import rasterio
    from PIL import Image
    from rasterio.features import rasterize
    from rasterio.transform import from_origin
except ImportError as missing:
    print(f"skip pack_torchgeo: {missing.name} missing, install: pip install numpy pandas h5py rasterio pillow pyarrow")
    sys.exit(0)

import gular
from _shared import check, finish
from _shared import gular as program

warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
noise = np.random.default_rng(5)
SIZE = (32, 32)


def below(path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def tiff(path, array, **place):
    shape = {"count": array.shape[0], "height": array.shape[1], "width": array.shape[2], "dtype": array.dtype}
    with rasterio.open(below(path), "w", driver="GTiff", **shape, **place) as file:
        file.write(array)


def read(path):
    with rasterio.open(path) as file:
        return file.read()


def picture(path, array):
    Image.fromarray(array).save(below(path))


def opened(path):
    with Image.open(path) as file:
        return np.asarray(file)


def numbers(shape, top=9000, dtype=np.uint16):
    return noise.integers(0, top, shape).astype(dtype)


def epoch(bundle, split="train", fields=(), **options):
    """Key -> the values of every field."""
    options = {"batch_size": 2, "output": "numpy", "shuffle": False, "numbers": "stored", "transform": gular.Resize(*SIZE), **options}
    found = {}
    for batch in gular.DataLoader(bundle, split, fields=list(fields), **options):
        for i, key in enumerate(batch["key"]):
            found[key] = {name: values[i] for name, values in batch.items() if name != "key" and values is not None}
    return found


def same(name, found, expected):
    """Both are key -> field -> values."""
    wrong = [] if sorted(found) == sorted(expected) else [f"keys {sorted(found)[:3]}, expected {sorted(expected)[:3]}"]
    for key in set(found) & set(expected):
        for field, values in expected[key].items():
            if not np.array_equal(np.asarray(found[key][field]), values):
                wrong.append(f"{key} {field}")
    check(f"{name}: an epoch has the values of its files", expected and not wrong, wrong[:3])


def eurosat():
    """13 bands in folders of classes; lists of splits that name .jpg files."""
    names = [f"{label}_{i}" for label in ("Forest", "River") for i in range(4)]
    for name in names:
        tiff(f"eurosat/tif/{name.split('_')[0]}/{name}.tif", numbers((13, *SIZE)))
    for split, part in (("train", names[::2]), ("val", names[1::2])):
        below(f"eurosat/eurosat-{split}.txt").write_text("".join(f"{name}.jpg\n" for name in part))
    lists = [word for split in ("train", "val") for word in ("--labels", f"eurosat/eurosat-{split}.txt={{split={split}}}{{path}}.jpg")]
    program("pack", "eurosat", "eurosat.bundle", "--as", "arrays", "--images", "tif/{label}/{key}.tif", *lists)
    for split, part in (("train", names[::2]), ("val", names[1::2])):
        paths = {f"tif/{name.split('_')[0]}/{name}.tif": int(name.startswith("River")) for name in part}
        same(f"EuroSAT, {split}", epoch("eurosat.bundle", split), {path: {"image": read(f"eurosat/{path}"), "label": label} for path, label in paths.items()})


def levir():
    """Two pictures and the mask of what changed, in folders beside each other."""
    for i in range(4):
        for folder in "AB":
            picture(f"levir/train/{folder}/{i}.png", numbers((*SIZE, 3), 256, np.uint8))
        picture(f"levir/train/label/{i}.png", numbers(SIZE, 2, np.uint8) * 255)
    options = ["--images", "{split}/A/{key}.png", "--field", "b={split}/B/{key}.png", "--mask", "{split}/label/{key}.png"]
    program("pack", "levir", "levir.bundle", *options)
    at = {f"train/A/{i}.png": i for i in range(4)}
    expected = {}
    for key, i in at.items():
        pair = [opened(f"levir/train/{folder}/{i}.png").transpose(2, 0, 1) for folder in "AB"]
        expected[key] = {"image": pair[0], "b": pair[1], "mask": opened(f"levir/train/label/{i}.png")}
    same("LEVIR-CD+", epoch("levir.bundle", fields=["b", "mask"]), expected)


def inria():
    """Splits by the numbers in names; masks of 0 and 255."""
    below("inria/colours.csv").write_text("no,0,0,0\nbuilding,255,255,255\n")
    place = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_000_000, 0.3, 0.3)}
    names = ("austin1", "austin5", "austin6", "vienna36")
    for name in names:
        tiff(f"inria/train/images/{name}.tif", numbers((3, *SIZE), 256, np.uint8), **place)
        tiff(f"inria/train/gt/{name}.tif", numbers((1, *SIZE), 2, np.uint8) * 255, **place)
    options = ["--images", "{split=val}train/images/{key:[a-z]+[1-5]}.tif", "--images", "{split=train}train/images/{key:[a-z]+([6-9]|[1-3][0-9])}.tif"]
    program("pack", "inria", "inria.bundle", "--as", "arrays", *options, "--mask", "train/gt/{key}.tif", "--mask-colours", "inria/colours.csv")
    for split, part in (("val", names[:2]), ("train", names[2:])):
        expected = {f"train/images/{name}.tif": {"image": read(f"inria/train/images/{name}.tif"), "mask": read(f"inria/train/gt/{name}.tif")[0] // 255} for name in part}
        same(f"Inria, {split}", epoch("inria.bundle", split, ["mask"]), expected)


def so2sat():
    """Radar (f64, which batches have as f32) and optical arrays in HDF5, and labels that are one-hot."""
    expected = {}
    below("so2sat/x")
    for name, split in (("training", "train"), ("validation", "val")):
        radar, optical, labels = noise.standard_normal((4, *SIZE, 8)), noise.standard_normal((4, *SIZE, 10)).astype("f4"), noise.integers(0, 17, 4)
        with h5py.File(f"so2sat/{name}.h5", "w") as file:
            file.create_dataset("sen1", data=radar, compression="gzip", chunks=(2, *SIZE, 8))
            file.create_dataset("sen2", data=optical, compression="gzip", shuffle=True)
            file["label"] = np.eye(17)[labels]
        expected[split] = {
            f"{split}/sen2/{i:07}.npy": {"image": optical[i].transpose(2, 0, 1), "sen1": radar[i].transpose(2, 0, 1).astype("f4"), "label": labels[i]} for i in range(4)
        }
    program("pack", "so2sat", "so2sat.bundle", "--images", "{split}/sen2/{key}.npy")
    for split, of in expected.items():
        same(f"So2Sat, {split}", epoch("so2sat.bundle", split, ["sen1"], normalise=([0] * 10, [1] * 10, 1)), of)


def spacenet():
    """Buildings as polygons in degrees."""
    expected, metres = {}, 4.5e-6
    for i in range(3):
        left, top, features = -43.6 + i / 100, -22.9, []
        transform = from_origin(left, top, metres, metres)
        tiff(f"spacenet/3band/3band_img{i}.tif", numbers((3, *SIZE), 256, np.uint8), crs="EPSG:4326", transform=transform)
        for x, y in noise.uniform(0, 22, (4, 2)):
            corners = np.array([[0, 0], [7.3, 1.2], [6.7, 9.1], [1.1, 8.3], [0, 0]]) + [x, y]
            ring = [[left + metres * a, top - metres * b] for a, b in corners]
            features.append({"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}})
        text = pd.Series({"type": "FeatureCollection", "features": features}).to_json(double_precision=15)
        below(f"spacenet/geojson/Geo_img{i}.geojson").write_text(text)
        mask = rasterize([feature["geometry"] for feature in features], out_shape=SIZE, transform=transform, dtype=np.uint8)
        expected[f"3band/3band_img{i}.tif"] = {"image": read(f"spacenet/3band/3band_img{i}.tif"), "mask": mask}
    options = ["--as", "arrays", "--images", "3band/3band_{key}.tif", "--mask", "geojson/Geo_{key}.geojson", "--labels", "none"]
    program("pack", "spacenet", "spacenet.bundle", *options)
    same("SpaceNet", epoch("spacenet.bundle", fields=["mask"]), expected)


for test in (eurosat, levir, inria, so2sat, spacenet):
    test()
finish()
