"""Makes satellite scenes and their masks: four bands of reflectance, five kinds of land. Always the same ones."""

import pathlib

import numpy as np
import rasterio

HEIGHT, WIDTH, UNKNOWN = 256, 320, 255
BANDS = ("B02", "B03", "B04", "B08")
# Reflectance x 10,000 of water, forest, grass, bare ground and town.
USUAL = np.array([(600, 500, 300, 150), (300, 450, 250, 3000), (500, 800, 600, 3500), (1200, 1500, 1900, 2400), (1200, 1400, 1700, 2000)])


def hills(random, rows):
    """Smooth noise, with features of some `rows` pixels."""
    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.fftfreq(WIDTH)[None])
    noise = np.fft.fft2(random.standard_normal((HEIGHT, WIDTH))) * np.exp(-((frequency * rows) ** 2))
    smooth = np.fft.ifft2(noise).real
    return smooth / smooth.std()


def make(seed):
    """Pixels `[4, height, width]` and classes `[height, width]`."""
    random = np.random.default_rng(seed)
    classes = np.argmax([hills(random, 30) for _ in USUAL], axis=0).astype(np.uint8)
    pixels = USUAL[classes].transpose(2, 0, 1) * random.normal(1, 0.2, (4, HEIGHT, WIDTH))
    # Roofs and streets: a pixel alone may be bare ground, its neighbours tell.
    pixels *= np.where(classes == 4, random.choice([0.5, 1.5], (HEIGHT, WIDTH)), 1)
    pixels = np.clip(pixels, 1, 10_000).astype(np.uint16)
    # The satellite did not see a corner.
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    unseen = x + y / 2 < 40
    pixels[:, unseen] = 0
    classes[unseen] = UNKNOWN
    return pixels, classes


def write(path, array, place, nodata, names):
    path.parent.mkdir(parents=True, exist_ok=True)
    bands, height, width = array.shape
    where = {"crs": "EPSG:32632", "transform": rasterio.Affine(10, 0, 500_000 + 10_000 * place, 0, -10, 5_300_000)}
    layout = {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"}
    with rasterio.open(path, "w", driver="GTiff", width=width, height=height, count=bands, dtype=array.dtype, nodata=nodata, **where, **layout) as file:
        file.write(array)
        file.descriptions = names


for number, name in enumerate(["train/a", "train/b", "val/c", "new/d"]):
    pixels, classes = make(number)
    scenes, masks = ("new", "truth") if name == "new/d" else ("scenes", "masks")
    name = name.removeprefix("new/")
    write(pathlib.Path(scenes, f"{name}.tif"), pixels, number, 0, BANDS)
    write(pathlib.Path(masks, f"{name}.tif"), classes[None], number, UNKNOWN, ["class"])
