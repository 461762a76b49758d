"""Our SIF: the Sylabs library writes the same bytes, and its tools and every SquashFS reader see what is inside."""

import os
import pathlib
import random
import shutil
import stat
import subprocess

from _shared import check, finish, run, skip, squashfs_readers

EXAMPLE = pathlib.Path(os.environ["GULAR_PEER_EXAMPLES"]) / "sif_of_dir"
GO_SOURCES = pathlib.Path(__file__).parent / "sif"
# Where Debian's packages of Go libraries are.
GO_LIBRARIES = pathlib.Path("/usr/share/gocode")
GO_PACKAGES = "apt-get install golang-go golang-github-sylabs-sif-dev golang-github-spf13-cobra-dev"
SOURCE = pathlib.Path("source")
# `TIME` of the example.
TIME = 1_700_000_000
OBJECTS = ["deffile:deffile", "json:inspect-metadata.json", "spdx:sbom.spdx.json", "amd64:root.squashfs"]


def make_source():
    noise = random.Random(5)
    for name, data in {
        "bin/tool": noise.randbytes(100_000) + b"\0" * 400_000,
        "lib/large.so": (b"a line of text, again and again\n" * 30_000 + noise.randbytes(500_000)) * 3,
        "lib/odd.so": noise.randbytes(1_234_567),
        "empty/file": b"",
        **{f"many/{i}": b"%d" % i for i in range(500)},
    }.items():
        path = SOURCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (SOURCE / "bin/tool").chmod(0o755)
    (SOURCE / "many/7").chmod(0o600)
    os.symlink("large.so", SOURCE / "lib/large.so.1")
    os.symlink("/no/such", SOURCE / "lib/dangling")


def go_programs():
    """`siftool` and the writer of reference files, built from Debian's packages; `None` when those are not there."""
    library = GO_LIBRARIES / "src/github.com/sylabs/sif"
    if not shutil.which("go") or not library.is_dir():
        return skip("siftool", "the Sylabs library", GO_PACKAGES)
    if not (GO_LIBRARIES / "src/github.com/spf13/cobra").is_dir():
        return skip("siftool", "cobra", GO_PACKAGES)
    # Its own sources import it as version 2; the package has no folder of that name.
    home = pathlib.Path("go").absolute()
    (home / "src/github.com/sylabs/sif").mkdir(parents=True)
    os.symlink(library, home / "src/github.com/sylabs/sif/v2")
    surroundings = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": f"{home}:{GO_LIBRARIES}",
        "GOCACHE": str(home / "cache"),
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    for name in ("siftool", "reference"):
        command = ["go", "build", "-o", name, GO_SOURCES / f"{name}.go"]
        result = subprocess.run(command, env=surroundings, capture_output=True, text=True)
        if result.returncode:
            check(f"go build {name}", False, result.stderr.replace("\n", " "))
            return None
    return lambda *args: run("./siftool", *map(str, args)), lambda *args: run("./reference", *map(str, args))


def differences(found):
    """What `found` shows otherwise than the source; runtimes' own files are there beside."""
    for path in sorted(SOURCE.rglob("*")):
        name = path.relative_to(SOURCE)
        other = found / name
        if not os.path.lexists(other):
            yield f"{name} is not there"
            continue
        ours, theirs = path.lstat(), other.lstat()
        if ours.st_mode != theirs.st_mode:
            yield f"{name}: mode is {theirs.st_mode:o}, not {ours.st_mode:o}"
        if (theirs.st_uid, theirs.st_gid, int(theirs.st_mtime)) != (0, 0, TIME):
            yield f"{name}: owner and time are {theirs.st_uid}, {theirs.st_gid}, {theirs.st_mtime}"
        if stat.S_ISREG(ours.st_mode) and path.read_bytes() != other.read_bytes():
            yield f"{name}: other bytes"
        if stat.S_ISLNK(ours.st_mode) and os.readlink(path) != os.readlink(other):
            yield f"{name}: target is {os.readlink(other)!r}"
    for name in (".singularity.d/env/99-base.sh", ".singularity.d/test", "etc/passwd"):
        if not (found / name).is_file():
            yield f"{name} is not there"


def field(text, name):
    """The value behind `name:` in what siftool prints."""
    lines = (line.partition(":") for line in text.splitlines())
    return next(value.strip() for key, _, value in lines if key.strip() == name)


def check_siftool(image, siftool, reference):
    header = siftool("header", image)
    check(f"{image}: siftool header", field(header, "Primary Architecture") == "amd64", header)
    listed = siftool("list", image)
    kinds = ("Def.FILE", "JSON.Generic", "SBOM", "FS (Squashfs/*System/amd64)")
    check(f"{image}: siftool list", all(kind in listed for kind in kinds), listed)
    objects = []
    for number, name in enumerate(OBJECTS, 1):
        info = siftool("info", number, image)
        kind, name = name.split(":")
        check(f"{image}: siftool info {number}", field(info, "Name") == name, info)
        dumped = pathlib.Path(f"{image}-{number}")
        with open(dumped, "wb") as out:
            subprocess.run(["./siftool", "dump", str(number), image], stdout=out, check=True)
        start, size = int(field(info, "Offset")), int(field(info, "Size"))
        ours = pathlib.Path(image).read_bytes()[start : start + size]
        check(f"{image}: siftool dump {number}", dumped.read_bytes() == ours, "other bytes")
        objects.append(f"{kind}:{name}:{dumped}")
    reference(f"{image}.reference", field(header, "ID"), TIME, *objects)
    same = pathlib.Path(image).read_bytes() == pathlib.Path(f"{image}.reference").read_bytes()
    check(f"{image}: the Sylabs library writes the same bytes", same, f"compare {image}.reference")


def check_image(image, flags, programs):
    run(EXAMPLE, SOURCE, image, *flags, "--jobs", "3")
    if programs:
        check_siftool(image, *programs)
    start = pathlib.Path(image).read_bytes().index(b"hsqs", 32176)
    check(f"{image}: the partition can be mounted in place", start % 4096 == 0, f"it starts at byte {start}")
    for reader, show in squashfs_readers(start).items():
        try:
            with show(image) as folder:
                faults = list(differences(pathlib.Path(folder)))
        except (AssertionError, OSError) as error:
            faults = [str(error)]
        check(f"{image}: {reader}", not faults, "; ".join(faults[:5]))


def main():
    make_source()
    programs = go_programs()
    check_image("gzip.sif", [], programs)
    check_image("zstd.sif", ["--zstd"], programs)
    # Blocks of the first come from the cache, but for those of the program.
    cached = ["--blocks", "cache", "--program"]
    run(EXAMPLE, SOURCE, "before.sif", *cached, SOURCE / "lib/odd.so")
    check_image("cached.sif", [*cached, SOURCE / "bin/tool"], programs)
    run(EXAMPLE, SOURCE, "alone.sif", "--program", SOURCE / "bin/tool")
    same = pathlib.Path("cached.sif").read_bytes() == pathlib.Path("alone.sif").read_bytes()
    check("an image is the same with blocks of another", same, "they differ")
    finish()


main()
