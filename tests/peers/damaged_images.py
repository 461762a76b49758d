"""Damaged JPEG and PNG files: what Pillow decodes we decode, to the same pixels; what it refuses we refuse.

torchvision decides too where it is installed; it has the same libjpeg and libpng below it.
"""

import io
import json
import pathlib
import random
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

from _shared import check, finish, gular, skip

try:
    from torchvision.io import ImageReadMode, decode_image
except ImportError:
    decode_image = None

# Pillow warns of what it tolerates.
warnings.simplefilter("ignore")

SIDE = 96
# Of another decoder than Pillow's; see `JpegBackend` in crates/codec.
LARGEST, MEAN = 9, 0.7


def picture():
    """Slopes and some noise, square, so that it may be turned."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    noise = np.random.default_rng(0).integers(0, 30, (SIDE, SIDE, 3))
    slopes = np.stack([x * 2, y * 2, 200 - x - y], axis=2)
    return Image.fromarray((slopes + noise).clip(0, 255).astype(np.uint8))


def saved(**options):
    file = io.BytesIO()
    picture().save(file, **options)
    return file.getvalue()


def before(file, marker, inserted):
    at = file.index(bytes([0xFF, marker]))
    return file[:at] + inserted + file[at:]


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_with(first, last=b""):
    """A PNG with chunks before its pixels and behind them."""
    file = saved(format="PNG")
    ihdr = 8 + 25
    return file[:ihdr] + first + file[ihdr:-12] + last + file[-12:]


EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
PROFILE = b"\nexif\n%8d\n%s\n" % (len(EXIF), EXIF.hex().encode())
XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'


def headers():
    """Name -> file, damaged outside of scans only: every build reads these."""
    files = {}
    for kind in (False, True):
        jpeg = saved(format="JPEG", quality=90, progressive=kind)
        name = "progressive" if kind else "baseline"
        for marker in (0xDB, 0xC4, 0xDA):
            files[f"{name}-junk-{marker:x}.jpg"] = before(jpeg, marker, b"some stray bytes")
        files[f"{name}-exif.jpg"] = before(jpeg, 0xDB, segment(0xE1, b"Exif\0\0II*\0\xff\xff\xff\xff"))
        files[f"{name}-no-length.jpg"] = before(jpeg, 0xDB, b"\xff\xe1\0\0")
        files[f"{name}-short-adobe.jpg"] = before(jpeg, 0xDB, segment(0xEE, b"Adobe\0\x64"))
        # Without JFIF's segment, what Adobe's says counts.
        bare = jpeg[:2] + jpeg[jpeg.index(b"\xff\xdb") :]
        files[f"{name}-adobe.jpg"] = before(bare, 0xDB, segment(0xEE, b"Adobe\0\x64\0\0\0\0\x09"))
        files[f"{name}-xmp.jpg"] = before(jpeg, 0xDB, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP))
    control = lambda n: chunk(b"fcTL", struct.pack(">IIIIIHHBB", n, SIDE, SIDE, 0, 0, 1, 10, 0, 0))
    frames = chunk(b"acTL", struct.pack(">II", 2, 0)) + control(0)
    for numbers in ((1, 2), (2, 1), (7, 7)):
        second = control(numbers[0]) + chunk(b"fdAT", struct.pack(">I", numbers[1]) + zlib.compress(b"short"))
        files[f"frames-{numbers[0]}-{numbers[1]}.png"] = png_with(frames, second)
    files["profile.png"] = png_with(chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(PROFILE)))
    files["profile-plain.png"] = png_with(chunk(b"tEXt", b"Raw profile type exif\0" + PROFILE))
    files["xmp.png"] = png_with(chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP))
    files["exif-behind.png"] = png_with(b"", chunk(b"eXIf", EXIF[6:]))
    return files


def scans():
    """Name -> file, damaged within scans."""
    chance, files = random.Random(1), {}
    for name, options in (
        ("baseline", {}),
        ("progressive", {"progressive": True}),
        ("full", {"subsampling": 0}),
        ("restart", {"restart_marker_blocks": 5}),
    ):
        jpeg = saved(format="JPEG", quality=90, **options)
        start = jpeg.index(b"\xff\xda") + 14
        for n in range(40):
            damaged = bytearray(jpeg)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(start, len(jpeg) - 2)] = chance.choice([0, 0xFE, 0x55, chance.randrange(255)])
            files[f"{name}-flip-{n}.jpg"] = bytes(damaged)
            at = chance.randrange(start, len(jpeg) - 2)
            files[f"{name}-ended-{n}.jpg"] = jpeg[:at] + b"\xff\xd9"
            at = chance.randrange(start, len(jpeg) - 60)
            files[f"{name}-lost-{n}.jpg"] = jpeg[:at] + jpeg[at + chance.randint(1, 50) :]
        files[f"{name}-stray.jpg"] = jpeg[:-2] + bytes([7]) * 40 + jpeg[-2:]
    return files


def cut():
    """Name -> file that ends too soon, some damaged before."""
    chance, files = random.Random(2), {}
    for name, options in (("baseline", {}), ("progressive", {"progressive": True})):
        jpeg = saved(format="JPEG", quality=90, **options)
        junk = before(jpeg, 0xC4, b"junk")
        for n in range(20):
            files[f"{name}-{n}.jpg"] = jpeg[: chance.randrange(200, len(jpeg) - 2)]
            files[f"{name}-junk-{n}.jpg"] = junk[: chance.randrange(200, len(junk) - 2)]
    png = png_with(b"")
    for n in range(10):
        files[f"{n}.png"] = png[: chance.randrange(60, len(png) - 16)]
    return files


def by_pillow(data):
    """Its pixels, upright; `None` where it refuses."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception:
        return None


def by_gular(name, files):
    """Key -> pixels, upright; and the report."""
    folder = pathlib.Path(name)
    for key, data in files.items():
        (folder / "c").mkdir(parents=True, exist_ok=True)
        (folder / "c" / key).write_bytes(data)
    # Names of files look like classes, too.
    raw = ["--images", "{label}/{key}.{ext}", "--payload", "raw", "--size", SIDE, "--fit", "stretch"]
    report = gular("pack", folder, f"{name}-raw", *raw, "--on-error", "skip", "--check-images", "full")
    gular("convert", f"{name}-raw", f"{name}-plain", "--envelope", "directory")
    plain = pathlib.Path(f"{name}-plain/train")
    lines = (plain / "samples.tsv").read_text().splitlines()[1:]
    pairs = [line.split("\t") for line in lines]
    return {key.removeprefix("c/"): np.load(plain / path) for key, path, _ in pairs}, report


def alike(a, b):
    apart = np.abs(a.astype(int) - b.astype(int))
    return a.shape == b.shape and apart.max() <= LARGEST and apart.mean() < MEAN


def compare(name, files):
    found, report = by_gular(name, files)
    expected = {key: by_pillow(data) for key, data in files.items()}
    more = [key for key in found if expected[key] is None]
    less = [key for key in files if expected[key] is not None and key not in found]
    other = [key for key in found if expected[key] is not None and not alike(found[key], expected[key])]
    n = sum(pixels is not None for pixels in expected.values())
    check(f"{name}: the {n} of {len(files)} that Pillow decodes", not less, f"refused here: {less}")
    check(f"{name}: what Pillow refuses", not more, f"taken here: {more}")
    check(f"{name}: same pixels", not other, f"other pixels: {other}")
    if decode_image is not None:
        import torch

        wrong = []
        # Scans that are missing are smoothed over, in other ways by other versions of libjpeg.
        for key in (key for key in found if "progressive-ended" not in key):
            data = torch.frombuffer(bytearray(files[key]), dtype=torch.uint8)
            try:
                there = decode_image(data, ImageReadMode.RGB, apply_exif_orientation=False)
            except RuntimeError:
                wrong.append(key)
                continue
            turned = np.asarray(there.permute(1, 2, 0))
            if not any(alike(np.rot90(turned, k), found[key]) for k in range(4)):
                wrong.append(key)
        check(f"{name}: torchvision", not wrong, f"otherwise: {wrong}")
    return found, report


found, report = compare("headers", headers())
manifest = json.loads(pathlib.Path("headers-raw/manifest.json").read_text())
sound = {"frames-1-2.png", "profile.png", "profile-plain.png", "xmp.png", "exif-behind.png", "baseline-xmp.jpg", "progressive-xmp.jpg"}
n_flawed = len(found) - len(sound)
check("headers: all flaws are counted", report["tolerated"]["n"] == n_flawed, f"{report['tolerated']}")
refused = gular("pack", "headers", "strict", "--strict", refused=True)
check("--strict refuses them", "stray bytes between its headers" in refused, refused)
if "turbo" in manifest["made"].get("decoder", ""):
    compare("scans", scans())
else:
    skip("scans", "libjpeg-turbo", "cmake, make and nasm, and build again")
found, _ = by_gular("cut", {**cut(), "whole.jpg": saved(format="JPEG")})
check("files that are cut short are refused", set(found) == {"whole.jpg"}, f"taken: {sorted(found)}")
finish()
