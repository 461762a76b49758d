"""What h5py, netCDF4, nibabel and rasterio (OpenJPEG, LERC, LZMA, WebP) write, packed: the same values."""

import itertools
import pathlib
import sys
import warnings

from _shared import check, finish, gular, skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))

try:
    import h5py
    import netCDF4
    import nibabel
    import numpy as np
    import rasterio
    from rasterio.transform import from_origin
except ImportError as missing:
    skip("pack_datasets", missing.name, "pip install h5py netCDF4 nibabel numpy rasterio")
    finish()

from gular_dataset import GularDataset

warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
noise = np.random.default_rng(0)
LABELS = ("--labels", "none")


def values(bundle, split="train", field="image"):
    """key -> value of every sample."""
    data = GularDataset(bundle, split, field)
    return {data.key(i): np.asarray(data.raw(i)) for i in range(len(data))}


def rows(bundle, split="train", field="image"):
    """The values in the order of their rows, and their labels."""
    found = values(bundle, split, field)
    data = GularDataset(bundle, split, field)
    labels = {data.key(i): data.label(i) for i in range(len(data))} if field == "image" else {}
    return np.stack([found[key] for key in sorted(found)]), [labels[key] for key in sorted(labels)]


def same(found, expected):
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def whole(dtype, shape):
    if np.issubdtype(dtype, np.floating):
        return (noise.standard_normal(shape) * 1e3).astype(dtype)
    return noise.integers(0, 100, shape).astype(dtype)


def every_way_to_store():
    """Each is an image in turn, and a field of the others."""
    wrong, n = [], 0
    ways = {
        "contiguous": {},
        "chunks": {"chunks": (4, 5, 3)},
        "gzip": {"chunks": (4, 5, 3), "compression": "gzip"},
        "shuffled": {"chunks": (3, 7, 4), "compression": "gzip", "shuffle": True},
        "lzf": {"chunks": (5, 4, 6), "compression": "lzf", "shuffle": True},
        "fletcher": {"chunks": (4, 4, 4), "fletcher32": True},
        "growing": {"chunks": (2, 9, 7), "maxshape": (None, None, 7), "compression": "gzip"},
        "rows": {"chunks": (1, 9, 7), "maxshape": (None, 9, 7)},
    }
    dtypes = ("u1", "i1", "<u2", ">i2", "<u4", ">i4", "<i8", "<f2", ">f4", "<f8")
    for libver, dtype in itertools.product((("earliest", "latest"), "v110", "latest"), dtypes):
        data = whole(np.dtype(dtype), (23, 9, 7))
        name = f"{libver[0]} {np.dtype(dtype).name}".replace("/", "")
        path = pathlib.Path(f"store {name}.h5")
        with h5py.File(path, "w", libver=libver) as file:
            for way, options in ways.items():
                file.create_dataset(way, data=data, **options)
            if np.issubdtype(data.dtype, np.integer):
                file.create_dataset("offset", data=data, chunks=(4, 9, 7), scaleoffset=0)
        bundle = f"bundle {name}"
        gular("pack", path, bundle, "--images", "gzip/{key}.npy", "--axes", "yx", *LABELS)
        expected = data.astype(data.dtype.newbyteorder("="))
        with h5py.File(path) as file:
            for way in file:
                found, _ = rows(bundle, field="image" if way == "gzip" else way)
                n += 1
                wrong += [] if same(found, expected) else [(name, way, found.dtype, found.shape)]
    check("datasets of every layout have the numbers that h5py wrote", n > 240 and not wrong, (n, wrong[:5]))


def patch_camelyon():
    pathlib.Path("pcam").mkdir()
    expected = {}
    for word, split, n in (("train", "train", 70), ("valid", "val", 20), ("test", "test", 30)):
        x, y = noise.integers(0, 256, (n, 96, 96, 3), dtype="u1"), noise.integers(0, 2, (n, 1, 1, 1), dtype="u1")
        for part, data in (("x", x), ("y", y)):
            with h5py.File(f"pcam/camelyonpatch_level_2_split_{word}_{part}.h5", "w") as file:
                file.create_dataset(part, data=data, chunks=(min(n, 16), *data.shape[1:]), compression="gzip")
        expected[split] = x, y.ravel().tolist()
    report = gular("pack", "pcam", "bundle pcam")
    good = all(same(rows("bundle pcam", split)[0], x) and rows("bundle pcam", split)[1] == y for split, (x, y) in expected.items())
    check("PatchCamelyon is packed in one command", good and report["samples"] == 120, report)


def so2sat():
    pathlib.Path("so2sat").mkdir()
    expected = {}
    for word, split, n in (("training", "train", 40), ("validation", "val", 10)):
        classes = noise.integers(0, 17, n)
        sen1, sen2 = whole(np.dtype("f8"), (n, 32, 32, 8)), whole(np.dtype("f8"), (n, 32, 32, 10))
        with h5py.File(f"so2sat/{word}.h5", "w") as file:
            file["sen1"], file["sen2"], file["label"] = sen1, sen2, np.eye(17)[classes]
        expected[split] = sen1, sen2, classes.tolist()
    told = gular("pack", "so2sat", "bundle so2sat", refused=True)
    check("of two images one is asked for", "--images '{split}/sen2/{key}.npy'" in told, told)
    gular("pack", "so2sat", "bundle so2sat", "--images", "{split}/sen2/{key}.npy")
    good = all(
        same(rows("bundle so2sat", split)[0], sen2) and same(rows("bundle so2sat", split, "sen1")[0], sen1) and rows("bundle so2sat", split)[1] == classes
        for split, (sen1, sen2, classes) in expected.items()
    )
    check("So2Sat has both images and its classes", good)


def netcdf():
    data = whole(np.dtype("f4"), (12, 3, 10, 14))
    for name, options in {"zlib": {"zlib": True, "shuffle": True}, "zstd": {"compression": "zstd"}, "szip": {"compression": "szip"}}.items():
        with netCDF4.Dataset(f"{name}.nc", "w") as file:
            for dimension, size in (("time", None), ("band", 3), ("lat", 10), ("lon", 14)):
                file.createDimension(dimension, size)
            file.createVariable("lat", "f8", ("lat",))[:] = np.arange(10)
            variable = file.createVariable("t2m", "f4", ("time", "band", "lat", "lon"), fill_value=-999.0, **options)
            variable[:] = data
        report = gular("pack", f"{name}.nc", f"bundle {name}")
        check(f"netCDF with {name} has its numbers and axes", same(rows(f"bundle {name}")[0], data) and report["axes"] == "cyx", report["axes"])


def jpeg_2000():
    pathlib.Path("jp2").mkdir()
    wrong, n = [], 0
    place = {"crs": "EPSG:32633", "transform": from_origin(600000, 5300040, 10, 10)}
    for dtype, bands, (height, width), tiled in itertools.product(("uint8", "uint16", "int16"), (1, 3, 4, 13), ((61, 83), (130, 97)), (False, True)):
        folder = pathlib.Path(f"jp2/{dtype} {bands} {height} {tiled}")
        folder.mkdir()
        info = np.iinfo(dtype)
        array = noise.integers(info.min, info.max, (bands, height, width), dtype=dtype, endpoint=True)
        options = {"BLOCKXSIZE": "64", "BLOCKYSIZE": "64"} if tiled else {}
        with rasterio.open(folder / "a.jp2", "w", driver="JP2OpenJPEG", width=width, height=height, count=bands, dtype=dtype, QUALITY="100", REVERSIBLE="YES", YCBCR420="NO", **options, **place) as file:
            file.write(array)
        with rasterio.open(folder / "a.jp2") as file:
            expected = file.read().transpose(1, 2, 0)
        bundle = f"bundle {folder.name}"
        gular("pack", folder, bundle, "--as", "arrays", *LABELS)
        where = values(bundle, field="image_transform")["a.jp2"].ravel().tolist()
        n += 1
        good = same(values(bundle)["a.jp2"], np.ascontiguousarray(expected)) and where == [600000, 10, 0, 5300040, 0, -10]
        wrong += [] if good else [(folder.name, where)]
    check("lossless JPEG 2000 has OpenJPEG's numbers and GDAL's place", n == 48 and not wrong, (n, wrong[:5]))


def further_compressions():
    wrong, n = [], 0
    for number, (dtype, bands) in enumerate(itertools.product(("uint8", "int16", "float32", "float64"), (1, 3, 4))):
        source, expected = pathlib.Path(f"tiff {number}"), {}
        source.mkdir()
        packings = ["LZMA", "LERC", "LERC_DEFLATE", "LERC_ZSTD"] + ["WEBP"] * (dtype == "uint8" and bands > 1)
        for packing, tiled in itertools.product(packings, (False, True)):
            options = {"tiled": True, "blockxsize": 32, "blockysize": 16} if tiled else {}
            if packing == "WEBP":
                options |= {"photometric": "RGB", "WEBP_LOSSLESS": "TRUE"}
            path = source / f"{packing} {tiled}.tif"
            with rasterio.open(path, "w", driver="GTiff", width=83, height=61, count=bands, dtype=dtype, compress=packing, interleave="pixel", **options) as file:
                file.write(whole(np.dtype(dtype), (bands, 61, 83)))
            with rasterio.open(path) as file:
                expected[path.name] = np.ascontiguousarray(file.read().transpose(1, 2, 0))
        gular("pack", source, f"bundle tiff {number}", "--as", "arrays", "--images", "{key}.{ext}", *LABELS)
        found = values(f"bundle tiff {number}")
        n += len(found)
        wrong += [(dtype, bands, key) for key in expected if not same(found[key], expected[key])]
    check("TIFF with LZMA, LERC and WebP has GDAL's numbers", n == 100 and not wrong, (n, wrong[:5]))


def placed(image, way):
    """Says where the voxels are: by rows, by a quaternion, or not at all."""
    turned, _ = np.linalg.qr(noise.standard_normal((3, 3)))
    affine = np.eye(4)
    affine[:3] = np.column_stack([turned * (1.5, 2, 3), (-90, 126, 72.5)])
    image.header.set_qform(affine, code=int(way != "none"))
    image.header.set_sform(affine + np.eye(4), code=2 * (way == "rows"))
    image.header.set_xyzt_units("mm", "sec")


def nifti():
    wrong, n = [], 0
    dtypes = ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "f4", "f8")
    shapes = ((5, 4), (5, 4, 3), (5, 4, 3, 1), (5, 4, 3, 2), (5, 4, 1, 2, 3), (5, 4, 1))
    for kind, dtype, order, (number, shape) in itertools.product((nibabel.Nifti1Image, nibabel.Nifti2Image), dtypes, "<>", enumerate(shapes)):
        folder = pathlib.Path(f"nifti {kind.__name__} {dtype} {ord(order)} {number}")
        folder.mkdir()
        expected = {}
        for ending, way in (("nii", "rows"), ("nii.gz", "quaternion"), ("nii.gz", "none")):
            image = kind(whole(np.dtype(dtype), shape), None, kind.header_class(endianness=order), dtype=np.dtype(dtype))
            placed(image, way)
            image.header.set_slope_inter(*((0.5, -3) if number % 2 else (None, None)))
            expected[f"{way}.{ending}"] = None
            nibabel.save(image, folder / f"{way}.{ending}")
        bundle = f"bundle {folder.name}"
        report = gular("pack", folder, bundle, "--as", "arrays", "--images", "{key}", *LABELS)
        found = {name: values(bundle, field=name) for name in ("image", "image_world", "image_spacing", "image_units")}
        for key in expected:
            image = nibabel.load(folder / key)
            stored = image.dataobj.get_unscaled()
            while stored.ndim > 2 and stored.shape[-1] == 1:
                stored = stored[..., 0]
            stored = np.ascontiguousarray(stored.T).astype(stored.dtype.newbyteorder("="))
            affine = np.full((4, 4), np.nan) if key.startswith("none") else image.affine
            units = " ".join(image.header.get_xyzt_units()).encode()
            spacing = image.header["pixdim"][1:5].astype("f8")
            good = (
                same(found["image"][key], stored)
                and np.allclose(found["image_world"][key], affine, rtol=1e-12, atol=1e-6, equal_nan=True)
                and found["image_units"][key].tobytes() == units
                and np.array_equal(found["image_spacing"][key], spacing)
            )
            n += 1
            wrong += [] if good else [(folder.name, key, report["axes"])]
    check("NIfTI has nibabel's numbers, affine, spacing and units", n == 648 and not wrong, (n, wrong[:5]))


def groups():
    """As ChaBuD: each group is a sample."""
    expected = {}
    with h5py.File("groups.h5", "w") as file:
        for i in range(12):
            image, mask = whole(np.dtype(">u2"), (16, 12, 5)), whole(np.dtype("u1"), (16, 12))
            file.create_dataset(f"deep/p{i}/image", data=image, chunks=(5, 12, 2), compression="gzip", shuffle=True)
            file[f"deep/p{i}/mask"], file[f"deep/p{i}/label"] = mask, i % 3
            expected[f"deep/p{i}/image.npy"] = image.astype("u2"), mask, i % 3
    told = gular("pack", "groups.h5", "bundle groups", refused=True)
    check("groups that seem to be samples are asked for", "--images '{key}/image.npy'" in told, told)
    gular("pack", "groups.h5", "bundle groups", "--images", "{key}/image.npy")
    found, masks = values("bundle groups"), values("bundle groups", field="mask")
    data = GularDataset("bundle groups", "train", "image")
    labels = {data.key(i): data.label(i) for i in range(len(data))}
    good = len(found) == 12 and all(
        same(found[key], image) and same(masks[key], mask) and labels[key] == label for key, (image, mask, label) in expected.items()
    )
    check("each group is a sample with its mask and its label", good)


for test in (every_way_to_store, patch_camelyon, so2sat, netcdf, jpeg_2000, further_compressions, nifti, groups):
    test()
finish()
