"""Makes two sets as they are found: patches with a file for each band and their heights, and pairs of pictures."""

import pathlib

import numpy as np
import rasterio
from PIL import Image

SIDE, NODATA = 60, -9999
# Metres of a pixel of each band, and its reflectance x 10,000 without and with trees of 30 m.
BANDS = {"B02": (10, 900, 250), "B04": (10, 1500, 200), "B08": (10, 2200, 3400), "B11": (20, 2900, 1200), "B01": (60, 1000, 500)}


def hills(random, side, rows):
    """Smooth noise from 0 to 1, with features of some `rows` pixels."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    smooth = np.fft.ifft2(np.fft.fft2(random.standard_normal((side, side))) * np.exp(-((frequency * rows) ** 2))).real
    return (smooth - smooth.min()) / np.ptp(smooth)


def write(path, array, place, metres=10, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = array.shape
    where = {"crs": "EPSG:32633", "transform": rasterio.Affine(metres, 0, 400_000 + 600 * place, 0, -metres, 5_200_000)}
    shape = {"count": count, "height": height, "width": width, "dtype": array.dtype}
    with rasterio.open(path, "w", driver="GTiff", compress="deflate", **shape, **where, **options) as file:
        file.write(array)


for number in range(56):
    random = np.random.default_rng(number)
    trees = hills(random, SIDE, 16)
    # Some slopes are in the shade, so that one band alone does not tell the height.
    light = 0.4 + 0.6 * hills(random, SIDE, 12)
    name, split = f"S2A_33UVP_{number:02}", "val" if number >= 44 else "train"
    for band, (metres, bare, forest) in BANDS.items():
        fine = (bare + (forest - bare) * trees) * light * random.normal(1, 0.05, (SIDE, SIDE))
        n = SIDE * 10 // metres
        pixels = fine.reshape(n, SIDE // n, n, SIDE // n).mean((1, 3)).astype(np.uint16)
        write(pathlib.Path("patches", split, name, f"{name}_{band}.tif"), pixels[None], number, metres, nodata=0)
    heights = (30 * trees).astype(np.float32)
    # Between the laser's tracks nothing was measured.
    heights[:, random.integers(SIDE) :: 7] = NODATA
    write(pathlib.Path("heights", f"{name}.tif"), heights[None], number, nodata=NODATA)

for number in range(40):
    random = np.random.default_rng(100 + number)
    split = "val" if number >= 32 else "train"
    ground = np.stack([60 + 120 * hills(random, 64, 8) for _ in range(3)])
    changed = np.zeros((64, 64), bool)
    town = changed.copy()
    for new in (False, False, True, True):
        y, x = random.integers(0, 48, 2)
        house = np.s_[y : y + random.integers(8, 16), x : x + random.integers(8, 16)]
        changed[house], town[house] = new, not new
    # The second picture was taken in another light.
    before, after = (np.where(houses, 220, ground) * light for houses, light in ((town, 1), (town | changed, random.uniform(0.7, 1.1))))
    for folder, picture in (("A", before), ("B", after)):
        pixels = np.clip(picture + random.normal(0, 6, picture.shape), 0, 255).astype(np.uint8)
        write(pathlib.Path("pairs", split, folder, f"{number}.tif"), pixels, number)
    labels = pathlib.Path("pairs", split, "label")
    labels.mkdir(exist_ok=True)
    Image.fromarray(np.where(changed, 255, 0).astype(np.uint8)).save(labels / f"{number}.png")
pathlib.Path("changes.csv").write_text("name,r,g,b\nsame,0,0,0\nchanged,255,255,255\n")
