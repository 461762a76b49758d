"""What peer tests share: images to pack, our programs, verdicts."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import zipfile

GULAR = os.environ["GULAR_BIN"]
failures = 0


def check(name, holds, why=""):
    global failures
    print(f"ok {name}" if holds else f"fail {name}: {why}")
    failures += not holds


def skip(name, tool, install):
    print(f"skip {name}: {tool} missing, install: {install}")


def finish():
    sys.exit(failures != 0)


def gular(*args, refused=False):
    """Runs the program; its JSON object, or what it said when it is to refuse."""
    result = subprocess.run([GULAR, *map(str, args), "--json"], capture_output=True, text=True)
    if refused:
        if result.returncode != 2:
            raise AssertionError(f"gular {args} ended with {result.returncode}, expected a refusal")
        return result.stderr
    if result.returncode:
        raise AssertionError(f"gular {args} ended with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def extract(bundle, key):
    """The stored bytes of a sample's image, by the program."""
    return subprocess.run([GULAR, "inspect", bundle, "--extract", key], check=True, capture_output=True).stdout


def make_images(folder="images", n=60, splits=("train", "val")):
    """Makes `folder/split/class/i.jpg|png`; key -> (bytes, label)."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0)
    made = {}
    for i in range(n):
        split, label = splits[i % 5 == 0], i % 3
        path = pathlib.Path(folder) / split / f"class {label}" / (f"im.{i}.png" if i % 4 == 0 else f"{i}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 256, (140 + i, 160, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        made[path.relative_to(folder).as_posix()] = (path.read_bytes(), label)
    return made


def make_pets(path):
    """A zip with folders `cat` and `dog`. Cats are bright and dogs are dark: a network learns it in a few steps."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as file:
        for i in range(60):
            kind, low = ("cat", 120) if i % 2 else ("dog", 0)
            picture = io.BytesIO()
            Image.fromarray(noise.integers(low, low + 136, (48, 48, 3), dtype=np.uint8)).save(picture, "jpeg")
            file.writestr(f"{kind}/{i}.jpg", picture.getvalue())


def sha(data):
    return hashlib.sha256(data).hexdigest()


def shards(bundle, split=None):
    """Paths of a bundle's shards."""
    manifest = json.loads((pathlib.Path(bundle) / "manifest.json").read_text())
    return [str(pathlib.Path(bundle) / "data" / s["name"]) for s in manifest["shards"] if split in (None, s["split"])]


def run(*args, **options):
    result = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, **options)
    if result.returncode:
        raise AssertionError(f"{args[0]} ended with {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout


def apptainer_command():
    """Starts Apptainer as a user would: it refuses root without all capabilities, as in a container; `None` without it."""
    program = shutil.which("apptainer")
    return program and [*(["unshare", "-Ur"] if os.geteuid() == 0 else []), program]


def partition(sif):
    """Offset of a SIF's root file system, by its descriptors."""
    with open(sif, "rb") as file:
        header = file.read(128)
        total, table = struct.unpack_from("<q", header, 88)[0], struct.unpack_from("<q", header, 96)[0]
        for number in range(total):
            file.seek(table + 585 * number)
            descriptor = file.read(585)
            if struct.unpack_from("<i", descriptor)[0] == 0x4004 and descriptor[4]:
                return struct.unpack_from("<q", descriptor, 17)[0]
    raise AssertionError("no partition")


@contextlib.contextmanager
def unpacked(image, offset=0):
    run("unsquashfs", "-no-progress", "-quiet", "-offset", str(offset), "-dest", "unpacked", image)
    yield pathlib.Path("unpacked")
    shutil.rmtree("unpacked")


@contextlib.contextmanager
def mounted(*command):
    pathlib.Path("mount").mkdir(exist_ok=True)
    run(*command, "mount")
    try:
        yield pathlib.Path("mount")
    finally:
        run("umount", "mount")


def squashfs_readers(offset=0):
    """Name -> how it shows the SquashFS image in a file at `offset`; skipped are those that are not there."""
    found = {}
    if shutil.which("unsquashfs"):
        found["unsquashfs"] = lambda image: unpacked(image, offset)
    else:
        skip("unsquashfs", "unsquashfs", "apt-get install squashfs-tools")
    if not shutil.which("squashfuse"):
        skip("squashfuse", "squashfuse", "apt-get install squashfuse")
    elif not os.path.exists("/dev/fuse"):
        skip("squashfuse", "/dev/fuse", "a kernel with FUSE, and its device")
    else:
        found["squashfuse"] = lambda image: mounted("squashfuse", "-o", f"offset={offset}", image)
    if os.geteuid() == 0 and os.path.exists("/dev/loop-control"):
        found["kernel"] = lambda image: mounted("mount", "-t", "squashfs", "-o", f"loop,ro,offset={offset}", image)
    else:
        skip("kernel", "loop mounts", "run as root, with /dev/loop-control")
    return found


@contextlib.contextmanager
def federation(folder):
    """What `gular federation serve` says of itself, with the file of a token; it is stopped at the end."""
    command = [GULAR, "federation", "serve", "--json", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            said = json.loads(process.stdout.readline())
            os.environ["SSL_CERT_FILE"] = said["ca"]
            said["token"] = f"{folder}.token"
            scopes = ["--read", "/", "--create", "/", "--modify", "/"]
            pathlib.Path(said["token"]).write_text(run(GULAR, "federation", "token", folder, *scopes))
            yield said
        finally:
            process.terminate()
