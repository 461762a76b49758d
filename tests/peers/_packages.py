"""Debian packages, each with a command that works only after its maintainer scripts have run, and what it prints."""

import contextlib
import os
import pathlib
import subprocess

from _shared import check, gular, mounted, partition, unpacked

# Package, command, a part of its output. Short ones, which every run tries.
FEW = [
    ("graphviz", "echo 'digraph{a->b}' | dot -Tpng | head -c 4 | tail -c 3", "PNG"),
    ("gnuplot-nox", "gnuplot -e 'print 6*7' 2>&1", "42"),
    ("netcat-openbsd", "nc -h 2>&1 | head -n 1", "OpenBSD netcat"),
    ("python3-numpy", "python3 -c 'import numpy; print(numpy.linalg.det([[2, 0], [0, 3]]))'", "6.0"),
    ("vim-nox", "vim --version | head -n 1", "VIM - Vi IMproved"),
]
# What every base has.
DEFAULT = [
    ("tzdata", "TZ=America/Chicago date -d @0 +%H", "18"),
    ("libc-bin", "LC_ALL=en_US.UTF-8 locale charmap", "UTF-8"),
    ("mawk", "awk 'BEGIN { print 6 * 7 }'", "42"),
    ("ca-certificates", "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt", "1"),
    ("xz-utils", "echo good | xz | xzcat", "good"),
    ("bzip2", "echo good | bzip2 | bzcat", "good"),
    ("zstd", "echo good | zstd | zstdcat", "good"),
    ("unzip", "unzip -v | head -n 1", "UnZip"),
    ("procps", "ps -o comm= -p $$", "sh"),
    ("less", "echo good | pager", "good"),
]


def build(name, packages):
    """The SIF of a recipe with these packages; nothing of it may differ from run to run."""
    names = ", ".join(f'"{package}"' for package in packages)
    pathlib.Path(f"{name}.toml").write_text(f'[image]\nname = "{name}"\n[base]\npackages = ["default", {names}]\n')
    built = gular("image", "build", f"{name}.toml", "--out", name)
    errors = [finding for finding in built["check"]["findings"] if finding["severity"] == "error"]
    check(f"{name}: the image is built", not errors, errors)
    return built["outputs"][0]["path"]


@contextlib.contextmanager
def root_of(sif):
    """A folder with the files of a SIF."""
    offset = partition(sif)
    if os.geteuid() == 0 and os.path.exists("/dev/loop-control"):
        reader = mounted("mount", "-t", "squashfs", "-o", f"loop,ro,offset={offset}", sif)
    else:
        reader = unpacked(sif, offset)
    with reader as root:
        yield root


def inside(root, command):
    """Runs a shell command in an image as a user namespace's root; what it said."""
    script = (
        'mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" && '
        'exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin HOME=/tmp chroot "$1" /bin/sh -c "cd /tmp && $2"'
    )
    words = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", root, command]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300)


def check_rows(root, rows):
    for package, command, expected in rows:
        said = inside(root, command)
        check(f"{package} works", said.returncode == 0 and expected in said.stdout, f"{command}: {said.stdout[-300:]} {said.stderr[-700:]}")
