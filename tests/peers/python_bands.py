"""A file for each band or date, and masks in colours: an epoch has what rasterio and NumPy read."""

import io
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import numpy as np
    import rasterio
    import rasterio.drivers
    import shapefile
    from PIL import Image
    from rasterio.enums import Resampling, WktVersion
    from rasterio.transform import from_origin
except ImportError as missing:
    print(f"skip python_bands: {missing.name} missing, install: pip install numpy rasterio pillow pyshp")
    sys.exit(0)

import gular
from _shared import check, finish
from _shared import gular as program

noise = np.random.default_rng(11)
# Bands of BigEarthNet's patches of Sentinel-2, with their resolutions in metres.
METRES = dict(B01=60, B02=10, B03=10, B04=10, B05=20, B06=20, B07=20, B08=10, B8A=20, B09=60, B11=20, B12=20)


def write(path, array, metres, corner=(600_000, 5_300_000), **options):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    array = array if array.ndim == 3 else array[None]
    place = dict(crs="EPSG:32632", transform=from_origin(*corner, metres, metres))
    shape = dict(count=array.shape[0], height=array.shape[1], width=array.shape[2], dtype=array.dtype)
    with rasterio.open(path, "w", driver="GTiff", compress="deflate", **shape, **place, **options) as file:
        file.write(array)


def resampled(path, size):
    with rasterio.open(path) as file:
        return file.read(1, out_shape=size, resampling=Resampling.bilinear)


def epoch(bundle, field="image", **options):
    """The values of one epoch, by key."""
    options = dict(batch_size=3, output="numpy", shuffle=False, numbers="stored", **options)
    batches = list(gular.DataLoader(bundle, **options))
    return {key: value for batch in batches for key, value in zip(batch["key"], batch[field])}


def patches():
    keys = [f"S2A_T33UUP_{i}_45" for i in range(4)]
    for key in keys:
        for band, metres in METRES.items():
            side = 1200 // metres
            write(f"ben/tile/{key}/{key}_{band}.tif", noise.integers(1, 10_000, (side, side), dtype=np.uint16), metres)
    told = program("pack", "ben", "none", "--as", "arrays", refused=True)
    check("files that are bands are asked about", "{key}_{band}.{ext}" in told, told)
    options = ["--as", "arrays", "--labels", "none", "--images", "{*}/{*}/{key}_{band}.tif"]
    told = program("pack", "ben", "none", *options, refused=True)
    check("bands of other sizes are named", "B01" in told and "--align resample" in told, told)
    report = program("pack", "ben", "ben.bundle", *options, "--align", "resample")
    check("bands are in the order of their numbers", report["bands"] == list(METRES), str(report["bands"]))
    found = epoch("ben.bundle", transform=gular.Resize(120))
    check("one sample is made of all bands", sorted(found) == keys, str(list(found)))
    worst = dict.fromkeys(METRES, 0)
    for key, image in found.items():
        for i, (band, metres) in enumerate(METRES.items()):
            expected = resampled(f"ben/tile/{key}/{key}_{band}.tif", (120, 120))
            worst[band] = max(worst[band], int(np.abs(image[i].astype(int) - expected).max()))
    # GDAL adds up in single precision, which decides ties at a factor of 6 by chance.
    right = all(worst[band] <= (metres == 60) for band, metres in METRES.items())
    check("coarse bands have the values of GDAL's bilinear", right, str(worst))
    few = program("pack", "ben", "few.bundle", *options[:-1], "{*}/{*}/{key}_{band:B04|B03|B02}.tif")
    check("a pattern chooses bands and their order", few["bands"] == ["B04", "B03", "B02"], str(few))
    found = epoch("few.bundle", transform=gular.Resize(120))
    same = [(found[key] == image[[3, 2, 1]]).all() for key, image in epoch("ben.bundle", transform=gular.Resize(120)).items()]
    check("and they are the same bands", all(same), str(same))


def shapes_of(path, features, crs):
    """A shapefile, with the system in ESRI's words as GDAL writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with shapefile.Writer(str(path), shapeType=shapefile.POLYGON) as file:
        file.field("id", "N", 5)
        for feature in features:
            file.poly(feature["geometry"]["coordinates"])
            file.record(feature["properties"]["id"])
    system = rasterio.crs.CRS.from_string(crs).to_wkt(version=WktVersion.WKT1_ESRI)
    path.with_suffix(".prj").write_text(system)


def polygons():
    """Masks of GeoJSON and of shapefiles, against rasterio's own."""
    from rasterio.features import rasterize

    places = {"EPSG:32632": (600_000, 5_300_000, 10), "EPSG:4326": (10.0, 48.0, 0.0001)}
    for crs, (left, top, metres) in places.items():
        folder = pathlib.Path("polygons", crs.replace(":", ""))
        expected = {}
        for i in range(4):
            path = folder / f"images/{i}.tif"
            path.parent.mkdir(parents=True, exist_ok=True)
            transform = from_origin(left + i * 100 * metres, top, metres, metres)
            image = noise.integers(1, 10_000, (2, 90, 100), dtype=np.uint16)
            with rasterio.open(path, "w", driver="GTiff", count=2, height=90, width=100, dtype="uint16", crs=crs, transform=transform) as file:
                file.write(image)
            features, shapes = [], []
            for number in range(12):
                # Stars, which cross themselves, some partly outside.
                middle = noise.uniform(-10, 110, 2)
                angles = np.arange(7) * (2 * np.pi * 3 / 7) + noise.uniform(0, 6)
                points = [middle + noise.uniform(5, 30) * np.array([np.cos(a), np.sin(a)]) for a in angles]
                ring = [list(transform * point) for point in points]
                geometry = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
                features.append({"type": "Feature", "properties": {"id": number % 5 + 1}, "geometry": geometry})
                shapes.append((geometry, number % 5 + 1))
            whole = {"type": "FeatureCollection", "features": features}
            if crs != "EPSG:4326":
                whole["crs"] = {"type": "name", "properties": {"name": f"urn:ogc:def:crs:EPSG::{crs[5:]}"}}
            (folder / f"images/{i}.geojson").write_text(json.dumps(whole))
            shapes_of(folder / f"shapes/{i}", features, crs)
            expected[f"{i}.tif"] = rasterize(shapes, (90, 100), transform=transform)
        options = ["--as", "arrays", "--labels", "none", "--images", "{key}.tif", "--mask", "{key}.geojson", "--mask-class", "id"]
        program("pack", folder / "images", f"{folder}.bundle", *options)
        found = epoch(f"{folder}.bundle", "mask", fields=["mask"], transform=gular.Resize(90, 100))
        same = [int((found[key] != mask).sum()) for key, mask in expected.items()]
        check(f"polygons are what GDAL makes of them, {crs}", len(found) == 4 and not any(same), str(same))
        of_shapes = [*options[:-3], "./" + str(folder / "shapes/{key}.shp"), "--mask-class", "id"]
        program("pack", folder / "images", f"{folder}.shapes", *of_shapes)
        found = epoch(f"{folder}.shapes", "mask", fields=["mask"], transform=gular.Resize(90, 100))
        same = [int((found[key] != mask).sum()) for key, mask in expected.items()]
        check(f"and those of shapefiles, {crs}", len(found) == 4 and not any(same), str(same))
        program("pack", folder / "images", f"{folder}.tiles", *options, "--tile", "32")
        tiles = epoch(f"{folder}.tiles", "mask", fields=["mask"], transform=gular.Resize(32))
        right = []
        for key, tile in tiles.items():
            name, _, place = key.rpartition("/")
            y, x = (int(part) for part in re.findall(r"\d+", place)[-2:])
            part = expected[f"{name.removesuffix('.tif')}.tif"][y : y + 32, x : x + 32]
            right.append((tile[: part.shape[0], : part.shape[1]] == part).all())
        check(f"and in tiles, {crs}", len(right) >= 4 * 9 and all(right), f"{sum(right)} of {len(right)}: {list(tiles)[:3]}")
    wrong = json.loads((pathlib.Path("polygons/EPSG4326/images/0.geojson")).read_text())
    pathlib.Path("polygons/EPSG32632/images/0.geojson").write_text(json.dumps(wrong))
    told = program("pack", "polygons/EPSG32632/images", "none", *options, refused=True)
    check("coordinates in another system are named", "EPSG:4326" in told and "ogr2ogr" in told, told)


def scenes():
    for scene in ("L1", "L2"):
        fine = noise.integers(1, 60_000, (200, 240), dtype=np.uint16)
        coarse = noise.integers(1, 60_000, (100, 120), dtype=np.uint16)
        write(f"scenes/{scene}_B8.TIF", fine, 15, nodata=0)
        write(f"scenes/{scene}_B4.TIF", coarse, 30, nodata=0)
    options = ["--labels", "none", "--images", "{key}_{band}.TIF", "--align", "resample"]
    program("pack", "scenes", "tiles.bundle", *options, "--tile", "64", "--overlap", "16")
    found = epoch("tiles.bundle", transform=gular.Resize(64))
    right = []
    for key, tile in found.items():
        scene, place = key.split("/")
        row, column = (int(part[1:]) for part in place.split("_"))
        bands = [resampled(f"scenes/{scene}_{band}.TIF", (200, 240)) for band in ("B4", "B8")]
        right.append((tile == np.stack(bands)[:, row : row + 64, column : column + 64]).all())
    check("tiles are windows of the joined scene", len(right) == 2 * 4 * 5 and all(right), f"{sum(right)} of {len(right)}")


def decoded_scenes():
    """Scenes that are decoded as a whole: their tiles are the windows that rasterio reads."""
    pathlib.Path("decoded").mkdir()
    kinds = {"jp2": dict(driver="JP2OpenJPEG", QUALITY="100", REVERSIBLE="YES", YCBCR420="NO"), "png": dict(driver="PNG")}
    if not any(driver == "JP2OpenJPEG" for driver in rasterio.drivers.raster_driver_extensions().values()):
        del kinds["jp2"]
    for extension, how in kinds.items():
        for count, dtype in ((1, np.uint16), (3, np.uint8)):
            pixels = noise.integers(0, np.iinfo(dtype).max, (count, 150, 170), dtype=dtype)
            path = f"decoded/{extension}{count}/a.{extension}"
            pathlib.Path(path).parent.mkdir()
            place = {} if extension == "png" else dict(crs="EPSG:32632", transform=from_origin(600_000, 5_300_000, 10, 10))
            with rasterio.open(path, "w", count=count, height=150, width=170, dtype=dtype, **how, **place) as file:
                file.write(pixels)
            pathlib.Path(path).with_suffix(f".{extension}.aux.xml").unlink(missing_ok=True)
            mask = noise.integers(0, 9, (150, 170), dtype=np.uint8)
            pathlib.Path(f"decoded/{extension}{count}-mask").mkdir()
            Image.fromarray(mask).save(f"decoded/{extension}{count}-mask/a.png")
            options = ["--labels", "none", "--images", f"{{key}}.{extension}", "--mask", f"./decoded/{extension}{count}-mask/{{key}}.png"]
            bundle = f"decoded.{extension}{count}"
            program("pack", f"decoded/{extension}{count}", bundle, *options, "--tile", "64", "--overlap", "8")
            found = {field: epoch(bundle, field, fields=["mask"], transform=gular.Resize(64)) for field in ("image", "mask")}
            right = []
            with rasterio.open(path) as file:
                for key, tile in found["image"].items():
                    row, column = (int(part[1:]) for part in key.rsplit("/", 1)[1].split("_"))
                    whole = file.read(window=rasterio.windows.Window(column, row, 64, 64))
                    right.append((tile == whole).all() and (found["mask"][key] == mask[row : row + 64, column : column + 64]).all())
            check(f"tiles of {extension} with {count} bands and their masks", len(right) == 9 and all(right), str(right))


def series():
    dates = ["20230514", "20221102", "20230601"]
    images = {}
    for key in ("a", "b"):
        for date in dates:
            images[key, date] = noise.integers(0, 255, (3, 20, 24), dtype=np.uint8)
            write(f"series/{key}/{date}.tif", images[key, date], 10)
    options = ["--as", "arrays", "--labels", "none", "--images", "{key}/{date}.tif"]
    program("pack", "series", "series.bundle", *options)
    found = epoch("series.bundle", transform=gular.Resize(20, 24))
    same = [(found[key] == np.stack([images[key, date] for date in sorted(dates)])).all() for key in found]
    check("dates are in the order of time", len(same) == 2 and all(same), str({key: image.shape for key, image in found.items()}))
    told = epoch("series.bundle", "image_dates", transform=gular.Resize(20, 24), fields=["image_dates"])
    check("the dates are a field", {bytes(value) for value in told.values()} == {b"20221102\n20230514\n20230601"}, str(told))


def files_that_say_more():
    """What rasterio writes beside the pixels, and may differ from file to file."""
    from rasterio.control import GroundControlPoint
    from rasterio.rpc import RPC

    shape = dict(driver="GTiff", count=2, height=20, width=24, dtype="int16")
    plain = dict(crs="EPSG:32633", transform=from_origin(500_000, 5e6, 10, 10))
    pathlib.Path("said").mkdir()
    pixels = noise.integers(-100, 3000, (2, 20, 24), dtype=np.int16)
    points = [GroundControlPoint(row, column, 10 + column / 100, 50 - row / 100, 30 * row) for row, column in ((0, 0), (20, 0), (0, 24), (20, 24), (7.25, 3.5))]
    numbers = noise.uniform(-1, 1, 92).round(6)
    names = "err_bias err_rand line_off samp_off lat_off long_off height_off line_scale samp_scale lat_scale long_scale height_scale".split()
    lists = "line_num_coeff line_den_coeff samp_num_coeff samp_den_coeff".split()
    model = RPC(**dict(zip(names, numbers[:12])), **{name: list(numbers[12 + 20 * i : 32 + 20 * i]) for i, name in enumerate(lists)})
    for name in ("scaled", "area", "point", "model", "nothing"):
        with rasterio.open(f"said/{name}.tif", "w", **shape, **({} if name in ("area", "point", "model") else plain)) as file:
            file.write(pixels)
            for band, (text, wavelength) in enumerate((("0.4427", "µm"), ("559.8", "Nanometers")), 1):
                file.set_band_description(band, f"B{band}")
                file.update_tags(band, wavelength=text, wavelength_units=wavelength)
            if name == "scaled":
                file.scales, file.offsets = (2.75e-5, 1.0), (-0.2, 100.0)
            if name in ("area", "point"):
                file.update_tags(AREA_OR_POINT=name.title())
                file.gcps = (points, rasterio.CRS.from_epsg(4326))
            if name == "model":
                file.rpcs = model
    program("pack", "said", "said.bundle", "--as", "arrays", "--labels", "none")
    kept = ["image_scale", "image_offset", "image_gcps", "image_rpc", "image_crs", "image_transform"]
    found = {field: epoch("said.bundle", field, fields=kept) for field in kept}
    right = {}
    for path in sorted(pathlib.Path("said").iterdir()):
        key = path.name
        with rasterio.open(path) as file:
            gcps, crs = file.gcps
            gcps = [[gcp.col, gcp.row, gcp.x, gcp.y, gcp.z] for gcp in gcps]
            stored = found["image_gcps"][key]
            stored = np.load(io.BytesIO(stored)) if isinstance(stored, bytes) else np.asarray(stored)
            rpc = numbers if file.rpcs else np.full(92, np.nan)
            where = found["image_crs"][key].decode()
            right[key] = (
                tuple(found["image_scale"][key]) == file.scales
                and tuple(found["image_offset"][key]) == file.offsets
                and np.array_equal(stored, np.reshape(gcps, (-1, 5)))
                and np.allclose(found["image_rpc"][key], rpc, atol=1e-12, equal_nan=True)
                and (rasterio.CRS.from_string(where) if where else None) == (crs or file.crs)
            )
    check("scales, offsets, control points and RPC are those that rasterio reads", len(right) == 5 and all(right.values()), str(right))
    bands = json.loads(pathlib.Path("said.bundle/manifest.json").read_text())["fields"][0]["bands"]
    expected = [{"name": "B1", "wavelength_nm": "442.7"}, {"name": "B2", "wavelength_nm": "559.8"}]
    check("bands have their wavelengths", bands == expected, str(bands))
    tiles = program("pack", "said", "said.tiles", "--as", "arrays", "--labels", "none", "--tile", "16", "--overlap", "4")
    moved = epoch("said.tiles", "image_rpc", fields=["image_rpc"])["model.tif/r000004_c000008"]
    check("and tiles those of their corner", np.allclose(moved[:4] - numbers[:4], [0, 0, -4, -8]), f"{moved[:4]} {tiles['samples']}")


def nearly_one_size():
    """Images, masks and heights of nearly one size, against windows that rasterio reads."""
    sizes = {"a": (60, 64), "b": (64, 64), "c": (64, 57), "d": (63, 62)}
    for name, (height, width) in sizes.items():
        write(f"near/x/{name}.tif", noise.integers(1, 9000, (3, height, width), dtype=np.uint16), 10, nodata=0)
        write(f"near/z/{name}.tif", noise.normal(size=(height, width)).astype(np.float32), 10)
        pathlib.Path("near/y").mkdir(exist_ok=True)
        Image.fromarray(noise.integers(0, 5, (height, width), dtype=np.uint8)).save(f"near/y/{name}.png")
    options = ["--as", "arrays", "--labels", "none", "--images", "x/{key}.tif", "--mask", "y/{key}.png", "--field", "height=z/{key}.tif"]
    told = program("pack", "near", "none", *options, refused=True)
    check("arrays of several sizes are asked about", "--fit pad" in told, told)
    for fit, (h, w) in {"pad": (64, 64), "crop": (60, 57)}.items():
        program("pack", "near", f"{fit}.bundle", *options, "--fit", fit)
        fields = ["mask", "height", "image_transform"]
        found = {field: epoch(f"{fit}.bundle", field, fields=fields, transform=gular.Resize(h, w)) for field in ["image", *fields]}
        right = {}
        for name, (height, width) in sizes.items():
            key = f"x/{name}.tif"
            left, top = (max(0, width - w) // 2, max(0, height - h) // 2) if fit == "crop" else (0, 0)
            place = rasterio.windows.Window(left, top, w, h)
            mask = np.full((h, w), 255, np.uint8)
            inside = np.asarray(Image.open(f"near/y/{name}.png"))[top : top + h, left : left + w]
            mask[: inside.shape[0], : inside.shape[1]] = inside
            with rasterio.open(f"near/x/{name}.tif") as image, rasterio.open(f"near/z/{name}.tif") as heights:
                right[name] = (
                    (found["image"][key] == image.read(window=place, boundless=True)).all(),
                    (found["mask"][key] == mask).all(),
                    (np.squeeze(found["height"][key]) == heights.read(1, window=place, boundless=True, fill_value=0)).all(),
                    tuple(found["image_transform"][key]) == image.window_transform(place).to_gdal(),
                )
        check(f"--fit {fit}: the windows that rasterio reads", all(map(all, right.values())), str(right))
    # Whatever is drawn, mask and image stay together, and what is beyond is ignored.
    write("moved/x/a.tif", np.arange(1, 57 * 64 + 1, dtype=np.uint16).reshape(57, 64), 10)
    write("moved/x/b.tif", np.arange(1, 64 * 60 + 1, dtype=np.uint16).reshape(64, 60), 10)
    for name in "ab":
        with rasterio.open(f"moved/x/{name}.tif") as file:
            write(f"moved/y/{name}.tif", (file.read(1) % 7).astype(np.uint8), 10)
    program("pack", "moved", "moved.bundle", "--as", "arrays", "--labels", "none", "--images", "x/{key}.tif", "--mask", "y/{key}.tif", "--fit", "pad")
    loader = gular.DataLoader("moved.bundle", batch_size=2, output="numpy", numbers="stored", fields=["mask"], transform=gular.Resize(64), augment=[gular.HorizontalFlip(), gular.QuarterTurns()])
    batches = [batch for _ in range(5) for batch in loader]
    right = [(batch["mask"] == np.where(batch["image"][:, 0] == 0, 255, batch["image"][:, 0] % 7)).all() for batch in batches]
    check("padded masks move with their images", len(right) >= 5 and all(right), str(right))


def masks_in_colours():
    colours = np.array([[255, 255, 255], [0, 0, 255], [0, 255, 255]], np.uint8)
    pathlib.Path("colours.csv").write_text("name,r,g,b\nroads,255,255,255\nbuildings,0,0,255\nplants,0,255,255\n")
    classes = {}
    for i in range(4):
        classes[f"{i}.png"] = noise.integers(0, 3, (24, 32), dtype=np.uint8)
        for folder, pixels in (("pictures", noise.integers(0, 255, (24, 32, 3), dtype=np.uint8)), ("masks", colours[classes[f"{i}.png"]])):
            pathlib.Path(folder).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(f"{folder}/{i}.png")
    options = ["--labels", "none", "--mask", "./masks/{key}.png", "--images", "{key}.png"]
    told = program("pack", "pictures", "none", *options, refused=True)
    check("masks in colours are asked about", "--mask-colours" in told, told)
    program("pack", "pictures", "masks.bundle", *options, "--mask-colours", "colours.csv")
    found = epoch("masks.bundle", "mask", transform=gular.Resize(24, 32), fields=["mask"])
    same = [(found[key] == mask).all() for key, mask in classes.items()]
    check("colours are the classes of the table", all(same), str(same))


patches()
polygons()
scenes()
decoded_scenes()
series()
masks_in_colours()
nearly_one_size()
files_that_say_more()
finish()
