"""The shell blocks of tutorials/earth run as they are: four training runs, and maps as rasterio reads them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from _shared import GULAR, check, finish, run, skip

try:
    import numpy as np
    import rasterio
    import safetensors  # noqa: F401
    import torch  # noqa: F401
    from PIL import Image
except ImportError as missing:
    skip("tutorials_earth", missing.name, "pip install numpy pillow rasterio safetensors torch")
    finish()

HERE = pathlib.Path.cwd()
EARTH = pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "earth"
N_CLASSES, UNKNOWN = 5, 255
# Guessing by the pixel alone takes a third of the town for bare ground, and comes to 0.6.
LEAST_IOU = 0.75


def as_written():
    """Runs the page beside its scripts; what it printed."""
    programs = HERE / "bin"
    programs.mkdir()
    (programs / "gular").symlink_to(GULAR)
    (programs / "gular-earth").symlink_to(os.environ["GULAR_EARTH_BIN"])
    for script in EARTH.glob("*.py"):
        shutil.copy(script, HERE)
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", (EARTH / "README.md").read_text(), re.M | re.S))
    surroundings = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": os.environ["GULAR_PYTHON"], "OMP_NUM_THREADS": "1"}
    result = subprocess.run(["bash", "-euo", "pipefail", "-x"], input=blocks, capture_output=True, text=True, env=surroundings)
    check("tutorials/earth runs as written", result.returncode == 0, f"{result.stdout[-1000:]} {result.stderr[-3000:]}")
    return result.stdout, surroundings


def iou(found, truth):
    known = truth != UNKNOWN
    pairs = np.bincount(truth[known].astype(int) * N_CLASSES + found[known], minlength=N_CLASSES**2)
    confusion = pairs.reshape(N_CLASSES, N_CLASSES)
    right = confusion.diagonal()
    return (right / (confusion.sum(0) + confusion.sum(1) - right)).mean()


def of_map(name):
    """What is in a map, when it lies where the scene does."""
    with rasterio.open("new/d.tif") as scene, rasterio.open(name) as made:
        where = [(file.crs, file.transform, file.shape) for file in (scene, made)]
        check(f"{name} lies where its scene lies", where[0] == where[1], where)
        check(f"{name} is a map of classes", (made.count, made.dtypes, made.nodata) == (1, ("uint8",), UNKNOWN), made.profile)
        return made.read(1)


said, surroundings = as_written()
with rasterio.open("truth/d.tif") as file:
    truth = file.read(1)
for name in ("map.tif", "map-python.tif"):
    found = of_map(name)
    check(f"{name} leaves out what was not seen", ((found == UNKNOWN) == (truth == UNKNOWN)).all())
    score = iou(np.where(found == UNKNOWN, 0, found), truth)
    check(f"{name} is right: IoU above {LEAST_IOU}", score > LEAST_IOU, score)
    with Image.open(pathlib.Path(name).with_suffix(".png")) as picture:
        colours = np.unique(np.asarray(picture).reshape(-1, 3), axis=0)
        check(f"the picture of {name} has a colour per class", picture.size == truth.shape[::-1] and len(colours) == N_CLASSES + 1, colours)
means = [float(mean) for mean in re.findall(r"val IoU: .*, mean ([0-9.]+)", said)]
check("both training runs say how good they are", len(means) == 2 and min(means) > LEAST_IOU, said)



def placed(found, scenes):
    """The maps of a folder and the files whose place and size they must have."""
    pairs = [(rasterio.open(path), rasterio.open(scenes / path.name)) for path in sorted(pathlib.Path(found).glob("*.tif"))]
    where = [(made.crs, made.transform, made.shape) == (of.crs, of.transform, of.shape) for made, of in pairs]
    check(f"{found} lie where their images lie", len(pairs) >= 8 and all(where), str(where))
    return [(made.name, made.read(1, masked=True), of.read(1, masked=True)) for made, of in pairs]


errors = [np.abs(made - truth).mean() for _, made, truth in placed("heights-found", pathlib.Path("heights"))]
off, mean = map(float, re.search(r"val: ([0-9.]+) m off; the mean height alone is ([0-9.]+) m off", said).groups())
check("heights are far better than their mean, as printed", abs(np.mean(errors) - off) < 0.01 and off < mean / 3, f"{np.mean(errors)} {off} {mean}")
both = either = 0
for name, made, _ in placed("changes-found", pathlib.Path("pairs/val/A")):
    truth = np.asarray(Image.open(f"pairs/val/label/{pathlib.Path(name).stem}.png")) > 0
    both, either = both + (truth & (made == 1)).sum(), either + (truth | (made == 1)).sum()
printed = float(re.search(r"val IoU of what changed: ([0-9.]+)", said)[1])
check("what changed is found, as printed", abs(both / either - printed) < 0.006 and printed > LEAST_IOU, f"{both / either} {printed}")

run(sys.executable, "earth.py", "predict", "weights.safetensors", "new/d.tif", "swapped.tif", env=surroundings)
same = (of_map("swapped.tif") == of_map("map.tif")).mean()
check("Python predicts with the weights of Rust what Rust does", same > 0.999, same)
finish()
