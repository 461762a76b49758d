"""Made the files beside it, with h5py 3.16 (HDF5 2.0), netCDF4 1.7 and rasterio 1.4 (OpenJPEG 2.5): `make.py`.

Number `j` of row `i` is `(7 * i + j) % 251`, those of JPEG 2000 `(911 * j) % 65521`. They are kept
since what each library version writes differs; `tests/datasets.rs` and `tests/jpeg2000.rs` read
them.
"""

import pathlib

import h5py
import netCDF4
import numpy as np
import rasterio
from rasterio.transform import from_origin


def rows(n, shape, dtype="u1"):
    size = int(np.prod(shape))
    return np.stack([(7 * i + np.arange(size)) % 251 for i in range(n)]).reshape(n, *shape).astype(dtype)


def splits():
    """As PatchCamelyon: a file for each split and part, of chunks that end beyond the rows."""
    pathlib.Path("splits").mkdir(exist_ok=True)
    for split, n in (("train", 9), ("valid", 4)):
        with h5py.File(f"splits/set_{split}_x.h5", "w") as file:
            file.create_dataset("x", data=rows(n, (6, 5, 3)), chunks=(4, 4, 4, 2), compression="gzip", shuffle=True)
        with h5py.File(f"splits/set_{split}_y.h5", "w") as file:
            file.create_dataset("y", data=(np.arange(n) % 3).astype("u1").reshape(n, 1, 1, 1), compression="gzip")


def several():
    """As So2Sat: two images, and labels with a 1 at their place."""
    with h5py.File("several.h5", "w", libver="latest") as file:
        file.create_dataset("sen1", data=rows(6, (4, 4, 2), ">f4"), compression="lzf", shuffle=True)
        file.create_dataset("sen2", data=rows(6, (4, 4, 3), "u2"))
        file["label"] = np.eye(3)[[0, 1, 2, 2, 1, 0]]
        file["name"] = np.array([b"a", b"b", b"c", b"d", b"e", b"f"])


def filters():
    """One dataset for each way in which h5py stores numbers."""
    with h5py.File("filters.h5", "w") as file:
        data = rows(7, (6, 8), "u2")
        options = dict(data=data, chunks=(3, 4, 8))
        file.create_dataset("gzip", compression="gzip", **options)
        file.create_dataset("lzf", compression="lzf", **options)
        file.create_dataset("szip", compression="szip", **options)
        file.create_dataset("fletcher", fletcher32=True, shuffle=True, **options)
        file.create_dataset("offset", scaleoffset=0, **options)
        file.create_dataset("growing", maxshape=(None, None, None), **options)
        file.create_dataset("big_endian", data=data.astype(">u2"))
        part = file.create_dataset("part", data.shape, dtype="u2", chunks=(3, 4, 8), fillvalue=9)
        part[:4] = data[:4]
        # Nine bits, moved by two: numbers of another kind than any field has.
        narrow = h5py.h5t.NATIVE_UINT16.copy()
        narrow.set_precision(9)
        narrow.set_offset(2)
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((3, 4, 8))
        made.set_filter(h5py.h5z.FILTER_NBIT)
        space = h5py.h5s.create_simple(data.shape)
        h5py.h5d.create(file.id, b"nbit", narrow, space, made).write(h5py.h5s.ALL, h5py.h5s.ALL, data)


def netcdf():
    with netCDF4.Dataset("era.nc", "w") as file:
        for name, n in (("time", None), ("lat", 5), ("lon", 4)):
            file.createDimension(name, n)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(5)
        # As many as times, and not theirs.
        file.createVariable("lat", "f4", ("lat",))[:] = np.arange(5)
        t2m = file.createVariable("t2m", "f4", ("time", "lat", "lon"), zlib=True, shuffle=True, fill_value=-999.0)
        t2m[:] = rows(5, (5, 4), "f4")
        packed = file.createVariable("packed", "i2", ("time", "lat", "lon"))
        packed.scale_factor = 0.1
        packed.set_auto_maskandscale(False)
        packed[:] = rows(5, (5, 4), "i2")


def jpeg_2000():
    place = dict(crs="EPSG:32633", transform=from_origin(600000, 5300040, 10, 10))
    for name, bands, dtype, options in (
        ("tiled", 1, "u2", dict(BLOCKXSIZE="64", BLOCKYSIZE="64", **place)),
        ("gml", 3, "u2", dict(GeoJP2="NO", **place)),
        ("signed", 2, "i2", dict(GMLJP2="NO", **place)),
        ("alpha", 4, "u1", dict(ALPHA="YES")),
    ):
        height, width = (90, 70) if name == "tiled" else (13, 11)
        numbers = (911 * np.arange(height * width * bands)) % 65521
        pixels = numbers.reshape(height, width, bands).astype("u2").astype(dtype)
        with rasterio.open(f"{name}.jp2", "w", driver="JP2OpenJPEG", width=width, height=height, count=bands, dtype=pixels.dtype, QUALITY="100", REVERSIBLE="YES", **options) as file:
            file.write(np.moveaxis(pixels, 2, 0))


def labels():
    """Labels that are none, or of types that are not read, beside five images each."""
    pathlib.Path("labels").mkdir(exist_ok=True)
    names = h5py.enum_dtype({"cat": 0, "dog": 1}, basetype="u1")
    for name, of_rows in (
        ("negative", np.array([0, 1, -1, 1, 0], "i8")),
        ("u64", np.array([0, 1, 0, 1, 0], "u8")),
        ("text", np.array([b"a", b"b", b"a", b"b", b"a"])),
        ("enum", np.array([0, 1, 0, 1, 0], "u1").astype(names)),
        ("float", np.array([0, 1, 0, 1, 0], "f4")),
    ):
        with h5py.File(f"labels/{name}.h5", "w", libver="latest") as file:
            file["images"] = rows(5, (4, 5, 3))
            file["labels"] = of_rows
    with h5py.File("labels/enum_y.h5", "w", libver="latest") as file:
        file["images"] = rows(5, (4, 5, 3))
        file["y"] = np.array([0, 1, 0, 1, 0], "u1").astype(names)
    with h5py.File("labels/fill.h5", "w", libver="latest") as file:
        file["images"] = rows(5, (4, 5, 3))
        file["labels"] = np.array([0, 1, 255, 1, 0], "u1")
        file["labels"].attrs["_FillValue"] = np.uint8(255)


def years():
    """Two files, whose names say that the rows of one are not those of the other."""
    pathlib.Path("years").mkdir(exist_ok=True)
    with h5py.File("years/2019.h5", "w", libver="latest") as file:
        file["images"] = rows(5, (4, 5, 3))
    with h5py.File("years/2020.h5", "w", libver="latest") as file:
        file["labels"] = np.array([0, 1, 0, 1, 0], "i4")


def attributes():
    """Attributes of netCDF that are not one number, or that say which numbers are valid."""
    with h5py.File("attributes.h5", "w", libver="latest") as file:
        for name, attribute, value in (
            ("scales", "scale_factor", np.array([0.1, 0.2])),
            ("text", "add_offset", "273.15"),
            ("fills", "missing_value", np.array([1, 2], "u1")),
            ("range", "valid_range", np.array([0, 200], "u1")),
        ):
            file[name] = rows(3, (4, 5, 3))
            file[name].attrs[attribute] = value


def groups():
    """As ChaBuD: a group for each sample, of datasets that are whole values."""
    with h5py.File("groups.h5", "w") as file:
        for i, image in enumerate(rows(5, (6, 5, 3), "u2")):
            file.create_dataset(f"p{4 - i}/image", data=image, chunks=(3, 5, 3), compression="gzip")
            file[f"p{4 - i}/mask"] = image[:, :, 0].astype("u1")
            file[f"p{4 - i}/label"] = i % 3
        file["about"] = np.arange(3)


splits()
several()
filters()
netcdf()
jpeg_2000()
labels()
years()
attributes()
groups()
