"""TIFF files that other programs test themselves with: what is packed is what rasterio, or Pillow, reads."""

import collections
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

try:
    import numpy as np
    import rasterio
    from PIL import Image
except ImportError as missing:
    print(f"skip tiff_files: {missing.name} missing, install: pip install numpy pillow rasterio")
    sys.exit(0)

from _shared import GULAR, check, extract, finish

if not (shutil.which("apt-get") and os.geteuid() == 0):
    print("skip tiff_files: apt-get and root missing, which bring the sources of Debian's packages")
    sys.exit(0)

# Debian's sources of libtiff, Pillow, ImageMagick, libvips and the Orfeo Toolbox, with the files of their tests.
SOURCES = ["tiff", "pillow", "imagemagick", "vips", "otb"]
# Some files only say that they are huge.
MOST_NUMBERS = 50_000_000
warnings.simplefilter("ignore")


def fetch(folder):
    """Brings the sources, by the package lists that apt has, and unpacks the TIFF files."""
    for part in ("lists/partial", "sources", "files"):
        (folder / part).mkdir(parents=True)
    entries = pathlib.Path("/etc/apt/sources.list.d/debian.sources").read_text()
    of = lambda name: re.search(rf"^{name}: *(\S+)", entries, re.MULTILINE).group(1)
    (folder / "list").write_text(f"deb-src [signed-by={of('Signed-By')}] {of('URIs')} {of('Suites')} main\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={folder}/list", "-o", "Dir::Etc::sourceparts=-"]
    apt += ["-o", f"Dir::State::lists={folder}/lists", "-o", "APT::Sandbox::User=root"]
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*apt, "source", "--download-only", *SOURCES], check=True, stdout=subprocess.DEVNULL, cwd=folder / "sources")
    n = 0
    for archive in sorted((folder / "sources").glob("*.orig*.tar.*")):
        if archive.name.endswith(".asc"):
            continue
        with tarfile.open(archive) as members:
            for member in members:
                if member.isfile() and re.search(r"\.tiff?$", member.name, re.IGNORECASE):
                    n += 1
                    path = folder / f"files/{n:04}/{archive.name.split('_')[0]}-{pathlib.Path(member.name).name}"
                    path.parent.mkdir()
                    path.write_bytes(members.extractfile(member).read())
        archive.unlink()
    return sorted(folder.glob("files/*/*"))


def read(path):
    """What rasterio reads, with bands last, and Pillow where GDAL converts colours: of JPEG and of CIE L*a*b*."""
    with rasterio.open(path) as file:
        if file.count * file.height * file.width > MOST_NUMBERS:
            raise ValueError("too large")
        is_jpeg = file.compression is not None and file.compression.name == "jpeg"
        if not is_jpeg and file.tags(ns="IMAGE_STRUCTURE").get("SOURCE_COLOR_SPACE") != "CIELAB":
            return file.read().transpose(1, 2, 0)
    array = np.asarray(Image.open(path))
    return array if array.ndim == 3 else array[..., None]


def packed(path, out):
    """The array that the bundle of one file stores, or None; and how the program ended."""
    options = ["--as", "arrays", "--labels", "none", "--pages", "first", "--max-pixels", str(MOST_NUMBERS)]
    ended = subprocess.run([GULAR, "pack", path.parent, out, *options, "--json"], capture_output=True, text=True)
    found = np.load(io.BytesIO(extract(out, path.name))) if ended.returncode == 0 else None
    return found, ended


def main():
    folder = pathlib.Path("tiff").absolute()
    files = fetch(folder)
    counts, wrong, crashed, refused = collections.Counter(), [], [], collections.Counter()
    for path in files:
        try:
            expected = read(path)
        except Exception:  # rasterio's own, and GDAL's
            counts["too large, or not read by rasterio"] += 1
            continue
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        found, ended = packed(path, out)
        if found is None:
            if ended.returncode != 2 or "panicked" in ended.stderr:
                crashed.append(f"{path.name}: {ended.returncode} {ended.stderr[-200:]}")
            counts["refused"] += 1
            refused[re.sub(r"`[^`]*`|\d+", "…", ended.stderr.splitlines()[0])[:90]] += 1
        elif found.dtype != expected.dtype or found.shape != expected.shape or found.tobytes() != expected.tobytes():
            wrong.append(path.name)
        else:
            counts["equal"] += 1
    for reason, n in refused.most_common(12):
        print(f"note: {n} refused: {reason}")
    check(f"no value differs: {dict(counts)}", not wrong, str(wrong[:20]))
    check("no file ends the program", not crashed, str(crashed[:5]))
    check("most files are read", counts["equal"] > len(files) // 2, str(counts))
    shutil.rmtree(folder)


main()
finish()
