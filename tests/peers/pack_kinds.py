"""What rasterio (GDAL), tifffile, NumPy and Pillow write, packed: the same values, one by one."""

import io
import itertools
import json
import pathlib
import sys
import warnings

from _shared import check, finish, gular, skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))

try:
    import numpy as np
    import pandas as pd
    import rasterio
    import tifffile
    from PIL import Image
except ImportError as missing:
    skip("pack_kinds", missing.name, "pip install numpy pandas pillow rasterio tifffile")
    finish()

from gular_dataset import GularDataset

warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
noise = np.random.default_rng(0)
LABELS = ("--labels", "none")


def values(bundle, field="image"):
    """key -> value of every sample."""
    data = GularDataset(bundle, "train", field)
    return {data.key(i): data.raw(i) for i in range(len(data))}


def same(found, expected):
    found = np.asarray(found)
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def pixels(dtype, bands, height=61, width=83):
    shape = (height, width, bands)
    if np.issubdtype(dtype, np.floating):
        return (noise.standard_normal(shape) * 1e4).astype(dtype)
    info = np.iinfo(dtype)
    return noise.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def folder(name):
    path = pathlib.Path(name)
    path.mkdir()
    return path


def tiff_of_every_kind():
    wrong, n = [], 0
    dtypes = ("uint8", "uint16", "int16", "uint32", "int32", "float32", "float64")
    packings = (None, "deflate", "lzw", "packbits", "zstd")
    for number, (dtype, bands) in enumerate(itertools.product(dtypes, (1, 3, 7))):
        source, expected = folder(f"tiff {number}"), {}
        for packing, planar, tiled in itertools.product(packings, (False, True), (False, True)):
            array = pixels(dtype, bands)
            options = {"compress": packing} if packing else {}
            if tiled:
                options |= {"tiled": True, "blockxsize": 32, "blockysize": 16}
            if packing in ("deflate", "lzw", "zstd"):
                options["predictor"] = 3 if dtype.startswith("float") else 2
            name = f"{packing}-{planar}-{tiled}.tif"
            options["interleave"] = "band" if planar else "pixel"
            if tiled and packing == "zstd":
                options["BIGTIFF"] = "YES"
            with rasterio.open(source / name, "w", driver="GTiff", width=83, height=61, count=bands, dtype=dtype, **options) as file:
                file.write(array.transpose(2, 0, 1))
            expected[name] = array
        for order, big, extra in itertools.product("<>", (False, True), ({}, {"tile": (16, 32)}, {"rowsperstrip": 7})):
            array, chunky = pixels(dtype, bands), {} if bands == 1 else {"planarconfig": "contig"}
            name = f"tifffile-{'big' if order == '>' else 'little'}-{big}-{'-'.join(extra)}.tif"
            tifffile.imwrite(source / name, array, byteorder=order, bigtiff=big, photometric="minisblack", **extra, **chunky)
            expected[name] = array
        gular("pack", source, f"bundle tiff {number}", "--as", "arrays", *LABELS)
        found = values(f"bundle tiff {number}")
        n += len(found)
        wrong += [(dtype, bands, key) for key in expected if not same(found.get(key), expected[key])]
    check("TIFF of every kind has the values that were written", n == 21 * 32 and not wrong, (n, wrong[:5]))


def jpeg_in_tiff():
    y, x = np.mgrid[0:96, 0:128]
    array = np.stack([x, y, (x + y) // 2], axis=2).astype(np.uint8)
    source, expected = folder("jpeg"), {}
    for name, options in {
        "ycbcr": {"photometric": "YCBCR"},
        "rgb": {"photometric": "RGB"},
        "planes": {"interleave": "band"},
    }.items():
        path = source / f"{name}.tif"
        blocks = {"tiled": True, "blockxsize": 64, "blockysize": 32}
        with rasterio.open(path, "w", driver="GTiff", width=128, height=96, count=3, dtype="uint8", compress="jpeg", **blocks, **options) as file:
            file.write(array.transpose(2, 0, 1))
        with rasterio.open(path) as file:
            expected[path.name] = file.read().transpose(1, 2, 0).astype(int)
    gular("pack", source, "bundle jpeg", "--as", "arrays", *LABELS)
    off = {k: np.abs(np.asarray(v).astype(int) - expected[k]).max() for k, v in values("bundle jpeg").items()}
    check("JPEG in TIFF is GDAL's to within 2", len(off) == 3 and max(off.values()) <= 2, off)


def what_a_geotiff_says():
    source = folder("geo")
    transforms = {}
    for i, epsg in enumerate((32632, 4326, 32632)):
        scale = 1e-4 if epsg == 4326 else 10
        transform = rasterio.Affine(scale, 0, 7 + i, 0, -scale, 50 - i)
        if i == 2:
            transform = rasterio.Affine(scale, 0.5, 7, 0.25, -scale, 50)
        profile = {"crs": f"EPSG:{epsg}", "transform": transform, "nodata": -9999}
        with rasterio.open(source / f"{i}.tif", "w", driver="GTiff", width=83, height=61, count=2, dtype="int16", **profile) as file:
            file.write(pixels("int16", 2).transpose(2, 0, 1))
            file.descriptions = ("B04", "B08 & more")
        transforms[f"{i}.tif"] = transform.to_gdal(), f"EPSG:{epsg}"
    gular("pack", source, "bundle geo", "--as", "arrays", *LABELS)
    fields = json.loads(pathlib.Path("bundle geo/manifest.json").read_text())["fields"]
    image = fields[0]
    names = [band["name"] for band in image["bands"]]
    check("names of bands and nodata are in the manifest", names == ["B04", "B08 & more"] and image["nodata"] == "-9999", image)
    crs, moved = values("bundle geo", "image_crs"), values("bundle geo", "image_transform")
    found = {key: (tuple(np.asarray(moved[key])), bytes(crs[key]).decode()) for key in moved}
    check("transform and CRS are GDAL's", found == transforms, (found, transforms))


def systems_that_files_describe_themselves():
    source = folder("systems")
    systems = {
        "web": "EPSG:3857",
        "polar": "EPSG:3413",
        "albers": "+proj=aea +lat_1=29.5 +lat_2=45.5 +lat_0=23 +lon_0=-96 +datum=NAD83 +units=m",
        "feet": "+proj=lcc +lat_1=33 +lat_2=45 +lat_0=39 +lon_0=-96 +x_0=5 +datum=NAD83 +units=us-ft",
        "laea": "+proj=laea +lat_0=5 +lon_0=20 +x_0=10 +y_0=20 +datum=WGS84 +units=m",
        "pole": "+proj=stere +lat_0=90 +lat_ts=70 +lon_0=-40 +datum=WGS84 +units=m",
        "modis": "+proj=sinu +lon_0=0 +R=6371007.181 +units=m",
        "transverse": "+proj=tmerc +lat_0=1 +lon_0=11 +k=0.9996 +x_0=500000 +y_0=10 +datum=WGS84 +units=m",
        "mollweide": "+proj=moll +lon_0=0 +datum=WGS84 +units=m",
    }
    expected = {}
    for (name, text), flavour in itertools.product(systems.items(), ("STANDARD", "ESRI_PE")):
        path = source / f"{name}_{flavour}.tif"
        system = rasterio.CRS.from_user_input(text)
        profile = {"crs": system, "transform": rasterio.Affine(10, 0, 5e5, 0, -10, 5e6), "GEOTIFF_KEYS_FLAVOR": flavour}
        with rasterio.open(path, "w", driver="GTiff", width=8, height=8, count=1, dtype="uint8", **profile) as file:
            file.write(pixels("uint8", 1, 8, 8).transpose(2, 0, 1))
        with rasterio.open(path) as file:
            expected[path.name] = file.crs
    gular("pack", source, "bundle systems", "--as", "arrays", "--images", "{key}.{ext}", *LABELS)
    found = {key: bytes(text).decode() for key, text in values("bundle systems", "image_crs").items()}
    wrong = [key for key, text in found.items() if rasterio.CRS.from_user_input(text) != expected[key]]
    check("a CRS without a code is GDAL's", len(found) == len(expected) and not wrong, wrong)
    coded = [key for key, text in found.items() if text.startswith("EPSG:") != key.startswith(("web", "polar"))]
    check("a code is only that of the whole system", not coded, coded)


def pages_of_microscopes():
    source = folder("pages")
    pages = pixels("uint16", 4)
    planes = pages.transpose(2, 0, 1)
    names = {"axes": "CYX", "Channel": {"Name": list("abcd")}}
    tifffile.imwrite(source / "imagej.tif", planes, imagej=True, metadata={"axes": "CYX"})
    tifffile.imwrite(source / "ome.ome.tif", planes, metadata=names, tile=(16, 32), compression="zlib")
    gular("pack", source, "bundle channels", "--as", "arrays", "--band-names", "ignore", *LABELS)
    found = values("bundle channels")
    check("channels of ImageJ and OME-TIFF are bands", len(found) == 2 and all(same(v, pages) for v in found.values()))
    plain = folder("plain pages")
    tifffile.imwrite(plain / "0.tif", planes, metadata=None, bigtiff=True, photometric="minisblack")
    gular("pack", plain, "bundle bands", "--as", "arrays", *LABELS, "--pages", "bands")
    gular("pack", plain, "bundle first", "--as", "arrays", *LABELS, "--pages", "first")
    check("pages are bands where the user says so", same(values("bundle bands")["0.tif"], pages))
    check("the first page is that of tifffile", same(values("bundle first")["0.tif"], pages[..., :1]))


def scenes_are_cut_as_rasterio_windows():
    source, masks = folder("scenes"), folder("scene masks")
    written = {}
    for i in range(6):
        transform = rasterio.Affine(10, 0, 500_000 + i * 5000, 0, -10, 5_000_000)
        profile = {"crs": "EPSG:32632", "transform": transform, "nodata": 0, "driver": "GTiff"}
        with rasterio.open(source / f"{i}.tif", "w", width=300, height=210, count=4, dtype="uint16", tiled=True, blockxsize=64, blockysize=64, compress="deflate", **profile) as file:
            array = pixels("uint16", 4, 210, 300)
            array[:, 200:] = 0
            file.write(array.transpose(2, 0, 1))
        with rasterio.open(masks / f"{i}.tif", "w", width=300, height=210, count=1, dtype="uint8", **profile) as file:
            file.write(noise.integers(0, 5, (1, 210, 300), dtype=np.uint8))
        written[f"{i}.tif"] = transform
    report = gular(
        "pack", source, "bundle scenes", *LABELS, "--mask", masks, "--tile", 64, "--overlap", 16, "--min-valid", 0.5, "--fractions", "train=0.6,val=0.4"
    )
    manifest = json.loads(pathlib.Path("bundle scenes/manifest.json").read_text())
    names = [field["name"] for field in manifest["fields"]]
    wrong, splits, n = [], {}, 0
    for split in ("train", "val"):
        image, mask, where = (GularDataset("bundle scenes", split, name) for name in ("image", "mask", "image_transform"))
        for i in range(len(image)):
            scene, tile = image.key(i).rsplit("/", 1)
            splits.setdefault(scene, set()).add(split)
            row, column = int(tile[1:].split("_c")[0]), int(tile.split("_c")[1])
            window = rasterio.windows.Window(column, row, 64, 64)
            with rasterio.open(source / scene) as file, rasterio.open(masks / scene) as classes:
                good = same(image.raw(i), file.read(window=window).transpose(1, 2, 0))
                good &= same(mask.raw(i), classes.read(1, window=window))
                good &= tuple(np.asarray(where.raw(i))) == file.window_transform(window).to_gdal()
            wrong += [image.key(i)] * (not good)
            n += 1
    check("tiles, masks and transforms are rasterio's windows", n == report["samples"] and not wrong, wrong[:5])
    check("a scene is in one split", len(splits) == 6 and all(len(s) == 1 for s in splits.values()), splits)
    check("fields of scenes", names == ["image", "mask", "image_crs", "image_transform"], names)
    # Six columns of tiles, of which those from 192 and from 236 on have values in under half of their pixels, and five rows of them.
    check("empty tiles are left out", report["empty_tiles"] == 6 * 2 * 5, report)


def arrays_of_numpy():
    source, expected = folder("arrays"), {}
    array = pixels("float64", 5, 7, 9)
    np.save(source / "c.npy", array)
    np.save(source / "f.npy", np.asfortranarray(array))
    np.save(source / "big.npy", array.astype(">f8"))
    np.savez(source / "one.npz", array)
    np.savez_compressed(source / "small.npz", image=array)
    gular("pack", source, "bundle arrays", "--as", "arrays", "--axes", "yxc", *LABELS)
    found = values("bundle arrays")
    check("NumPy's arrays of both orders", len(found) == 5 and all(same(v, array) for v in found.values()))
    for dtype in ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32"):
        one = folder(f"array {dtype}")
        array = np.asfortranarray((noise.standard_normal((4, 6)) * 50).astype(dtype))
        np.save(one / "a.npy", array.astype(array.dtype.newbyteorder(">")))
        gular("pack", one, f"bundle {dtype}", "--as", "arrays", *LABELS)
        expected = np.ascontiguousarray(array).view("uint8") if dtype == "bool" else np.ascontiguousarray(array)
        check(f"NumPy's {dtype}", same(values(f"bundle {dtype}")["a.npy"], expected))
    bad = folder("array bad")
    np.save(bad / "a.npy", np.zeros(3, "complex64"))
    said = gular("pack", bad, "bundle bad", "--as", "arrays", *LABELS, refused=True)
    check("other types are refused by name", "`<c8`" in said and "a.npy" in said, said)


def masks_and_webp_of_pillow():
    source, masks, expected, pictures = folder("webp"), folder("masks"), {}, {}
    for i in range(8):
        array = noise.integers(0, 256, (40, 30, 3), dtype=np.uint8)
        # Odd widths, so that no centre is on the border of two pixels, where Pillow's floats decide.
        width = 31 + 2 * i
        image = Image.fromarray(array).resize((width, 40))
        image.save(source / f"{i}.webp", lossless=i % 2 == 0, quality=80)
        classes = noise.integers(0, 20, (40, width), dtype=np.uint8)
        mask = Image.fromarray(classes)
        if i % 3 == 1:
            mask = mask.convert("P")
            mask.putpalette([7 * j % 256 for j in range(768)])
        if i % 3 == 2:
            mask = Image.fromarray(classes.astype(np.uint16))
        mask.save(masks / f"{i}_mask.png")
        with Image.open(masks / f"{i}_mask.png") as again:
            expected[f"{i}.webp"] = np.asarray(again).astype(np.uint16)
        with Image.open(source / f"{i}.webp") as again:
            pictures[f"{i}.webp"] = np.asarray(again.convert("RGB"))
    options = ("--mask", f"./{masks}/{{key}}_mask.{{ext}}", *LABELS)
    gular("pack", source, "bundle masks", *options, "--payload", "raw", "--size", "20x24", "--fit", "stretch")
    found = values("bundle masks", "mask")
    nearest = {k: np.asarray(Image.fromarray(v.astype(np.int32)).resize((20, 24), Image.NEAREST)).astype(np.uint16) for k, v in expected.items()}
    check("masks are Pillow's nearest", len(found) == 8 and all(same(found[k], nearest[k]) for k in nearest))
    gular("pack", source, "bundle webp", *LABELS)
    wrong = []
    for key, file in values("bundle webp").items():
        with Image.open(io.BytesIO(bytes(file))) as image:
            wrong += [key] * (not same(np.asarray(image.convert("RGB")), pictures[key]))
    check("WebP is stored byte for byte", not wrong, wrong)
    for key, picture in pictures.items():
        one = folder(f"one {key}")
        (one / key).write_bytes((source / key).read_bytes())
        size = f"{picture.shape[1]}x{picture.shape[0]}"
        gular("pack", one, f"bundle {key}", *LABELS, "--payload", "raw", "--size", size)
        off = np.abs(np.asarray(values(f"bundle {key}")[key]).astype(int) - picture).max()
        check(f"{key} decodes as in Pillow", off <= (0 if int(key[0]) % 2 == 0 else 4), off)


def pixels_in_a_csv():
    labels = noise.integers(0, 10, 300)
    pictures = noise.integers(0, 256, (300, 28, 28), dtype=np.uint8)
    # As Fashion-MNIST has it, by pandas; then without names, and with three channels.
    columns = {"label": labels, **{f"pixel{i + 1}": pictures.reshape(300, -1)[:, i] for i in range(784)}}
    pd.DataFrame(columns).to_csv("fashion.csv", index=False)
    np.savetxt("bare.csv", np.column_stack([labels, pictures.reshape(300, -1)]), fmt="%d", delimiter=",")
    colours = noise.integers(0, 256, (40, 12, 12, 3), dtype=np.uint8)
    pd.DataFrame(colours.reshape(40, -1)).assign(label=[f"class {i % 3}" for i in range(40)]).to_csv("rgb.csv", index=False, sep=";")
    for name, expected in (("fashion", pictures[..., None]), ("bare", pictures[..., None]), ("rgb", colours)):
        report = gular("pack", f"{name}.csv", f"bundle {name}")
        data = GularDataset(f"bundle {name}", "train", "image")
        rows = [int(data.key(i).rsplit("/", 1)[1]) for i in range(len(data))]
        good = sorted(rows) == list(range(len(expected)))
        good &= all(same(data.raw(i), expected[row]) for i, row in enumerate(rows))
        wanted = [row % 3 for row in rows] if name == "rgb" else [labels[row] for row in rows]
        good &= [data.label(i) for i in range(len(data))] == wanted
        check(f"pixels and labels of {name}.csv are pandas' and NumPy's", good and report["samples"] == len(expected), report)


for test in (
    tiff_of_every_kind,
    jpeg_in_tiff,
    what_a_geotiff_says,
    systems_that_files_describe_themselves,
    pages_of_microscopes,
    scenes_are_cut_as_rasterio_windows,
    arrays_of_numpy,
    pixels_in_a_csv,
    masks_and_webp_of_pillow,
):
    test()
finish()
