"""Arrays with their bands first, and fields on the image's pixels: as NumPy reads them."""

import os
import pathlib
import sys
import warnings

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skip python_arrays: {missing.name} missing, install: pip install numpy pillow")
    sys.exit(0)

import gular
from _shared import check, finish
from _shared import gular as program

N = 24
noise = np.random.default_rng(7)


def arrays(folder, made):
    for i, array in enumerate(made):
        pathlib.Path(folder).mkdir(exist_ok=True)
        np.save(f"{folder}/{i:02}.npy", array)


def epoch(bundle, **options):
    """One epoch's batches as one, by name, in the order of the keys."""
    batches = list(gular.DataLoader(bundle, batch_size=5, output="numpy", **options))
    names = [name for name in batches[0] if name != "key"]
    by_key = np.argsort(np.concatenate([batch["key"] for batch in batches]))
    return {name: np.concatenate([batch[name] for batch in batches])[by_key] for name in names}


def bands_first():
    bands = noise.integers(0, 60_000, (N, 12, 64, 48), dtype=np.uint16)
    arrays("first", bands)
    arrays("last", bands.transpose(0, 2, 3, 1).copy())
    axes = [program("pack", name, f"{name}.bundle", "--as", "arrays", "--labels", "none")["axes"] for name in ("first", "last")]
    check("axes are recognised by the shape", axes == ["cyx", "yxc"], str(axes))
    whole = dict(transform=gular.Resize(64, 48), numbers="stored", shuffle=False, bands=[3, 2, 1])
    for name in ("first", "last"):
        found = epoch(f"{name}.bundle", **whole)["image"]
        check(f"bands= takes bands of arrays with bands {name}", (found == bands[:, [3, 2, 1]]).all(), str(found.shape))
    for transform in (gular.RandomCrop((20, 30)), gular.PadCrop((70, 60), padding=5), gular.CenterCrop((32, 32))):
        options = dict(transform=transform, normalise="scaled", augment=[gular.VerticalFlip()])
        first, last = (epoch(f"{name}.bundle", **options)["image"] for name in ("first", "last"))
        check(f"both orders give the same batches with {type(transform).__name__}", (first == last).all())
    arrays("cube", np.zeros((2, 16, 16, 16), np.float32))
    told = program("pack", "cube", "cube.bundle", "--as", "arrays", "--labels", "none", refused=True)
    check("a cube is asked about", "--axes cyx" in told and "--axes yxc" in told, told)
    series = noise.normal(size=(N, 3, 2, 16, 16)).astype(np.float32)
    arrays("series", series)
    program("pack", "series", "series.bundle", "--as", "arrays", "--labels", "none", "--axes", "tcyx")
    found = epoch("series.bundle", transform=gular.Resize(16), numbers="stored", shuffle=False)["image"]
    check("series keep their times", (found == series).all(), str(found.shape))


def beside():
    """The field `depth` of photographs is a function of their pixels."""
    pictures = noise.integers(1, 255, (N, 40, 56), dtype=np.uint8)
    for name in ("images", "depths", "after", "zones", "boxes"):
        pathlib.Path(name).mkdir()
    for i, picture in enumerate(pictures):
        Image.fromarray(picture).convert("RGB").save(f"images/{i:02}.png")
        np.save(f"depths/{i:02}.npy", picture.astype(np.float32) * 2)
        Image.fromarray(picture).convert("RGB").save(f"after/{i:02}.png")
        Image.fromarray(picture).save(f"zones/{i:02}.png")
        np.save(f"boxes/{i:02}.npy", np.zeros((3, 4)))
    fields = [f"--field={name}={folder}/" for name, folder in [("depth", "depths"), ("after", "after"), ("zone", "zones"), ("corners", "boxes")]]
    report = program("pack", "images", "pictures.bundle", "--labels", "none", *fields)
    check("fields on the image's pixels are told", report["on_image"] == ["depth", "after", "zone"], str(report["on_image"]))
    flips = [gular.HorizontalFlip(), gular.VerticalFlip()]
    for name, transform, augment in [
        ("RandomCrop", gular.RandomCrop((40, 40), scale=(1, 1), ratio=(1, 1)), flips),
        ("PadCrop", gular.PadCrop((40, 40), padding=4), [*flips, gular.QuarterTurns()]),
        ("CenterCrop", gular.CenterCrop((30, 30), resize_short=40), flips),
    ]:
        options = dict(transform=transform, augment=augment, numbers="stored", bands=[0])
        found = epoch("pictures.bundle", fields=["depth", "after", "zone"], **options)
        image = found["image"][:, 0].astype(np.float32)
        inside = image > 0
        check(f"a height map goes with its image through {name}", np.allclose(found["depth"][inside], image[inside] * 2, atol=1.01))
        check(f"outside of it is NaN with {name}", np.isnan(found["depth"][~inside]).all() and inside.mean() > 0.7, str(inside.mean()))
        check(f"a second picture goes with its image through {name}", (found["after"] == found["image"]).all())
        if name != "CenterCrop":
            zone = found["zone"]
            check(f"classes go with their image through {name}", (zone[inside] == image[inside]).all() and (zone[~inside] == 255).all())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gular.DataLoader("pictures.bundle", fields=["depth", "corners"])
        gular.DataLoader("pictures.bundle", fields=["corners"], transform=gular.Resize(40))
    said = [str(one.message) for one in told if one.category is gular.UnmovedFieldWarning]
    check("a field that stays behind is said to be so", len(said) == 1 and said[0].startswith("`corners`:"), str(said))
    rows = "".join(f"{i:02}.png,{i},3.5\n" for i in range(N))
    pathlib.Path("points.csv").write_text(f"file,nose_x,nose_y\n{rows}")
    report = program("pack", "images", "points.bundle", "--labels", "points.csv")
    check("points of a table are told to stay", any("may be points" in one for one in report["warnings"]), str(report["warnings"]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gular.DataLoader("points.bundle", fields=["nose_x", "nose_y"])
    said = [str(one.message) for one in told if one.category is gular.UnmovedFieldWarning]
    check("and by the loader", len(said) == 1 and "nose_x" in said[0] and "nose_y" in said[0], str(said))
    report = program("pack", "images", "apart.bundle", "--labels", "none", fields[0], "--axes", "depth=none")
    check("a field can be kept apart", report.get("on_image", []) == [], str(report))


bands_first()
beside()
finish()
