"""Our SquashFS writer: unsquashfs, squashfuse and the kernel see the tree it was given."""

import os
import pathlib
import random
import socket
import stat
import sys

from _shared import run, squashfs_readers

EXAMPLE = pathlib.Path(os.environ["GULAR_PEER_EXAMPLES"]) / "squash_dir"
SOURCE = pathlib.Path("source")
ROOT = os.geteuid() == 0
failures = 0

IMAGES = {
    "stored": ["--stored", "--fragments", "none", "--keep-zeros", "--align", "64"],
    "stored, fragments, holes": ["--stored", "--fragments", "tails"],
    "gzip": ["--gzip", "6"],
    "gzip, tails, deduplicated": ["--gzip", "9", "--fragments", "tails", "--deduplicate", "--block", "4096"],
    "gzip, no fragments": ["--gzip", "1", "--fragments", "none", "--align", "4096"],
    "zstd": ["--zstd", "3", "--block", "1048576"],
    "zstd, plain metadata": ["--zstd", "19", "--plain-metadata", "--keep-zeros", "--fragments", "none"],
}


def say(name, faults):
    global failures
    faults = list(faults)
    print(f"fail {name}: {'; '.join(faults[:5])}" if faults else f"ok {name}")
    failures += bool(faults)


def make_source():
    noise = random.Random(4)
    block = 131072
    for size in (0, 1, 4095, 4096, 4097, block - 1, block, block + 1, 3 * block, 3 * block + 77):
        write(f"sizes/noise-{size}", noise.randbytes(size))
        write(f"sizes/text-{size}", (b"a line of text %d\n" % size * (size // 16 + 1))[:size])
        write(f"sizes/zero-{size}", bytes(size))
    write("holes/middle", noise.randbytes(block) + bytes(2 * block) + noise.randbytes(10))
    write("holes/end", noise.randbytes(block) + bytes(2 * block + 5))
    for i in range(3000):
        write(f"many/{i:05}-{'x' * (i % 200)}", b"%d" % i)
    write(f"deep/{'/'.join(str(i) for i in range(60))}/leaf", b"leaf")
    write(f"names/{'n' * 255}", b"longest")
    write(b"names/\xff\xfe not utf-8", b"bytes")
    for twin in "ab":
        write(f"twins/{twin}", noise.randbytes(0) + b"twin" * 50_000)
    (SOURCE / "empty").mkdir()
    (SOURCE / "links").mkdir()
    os.symlink("../sizes/text-4096", SOURCE / "links/relative")
    os.symlink("/no/such/" + "t" * 3000, SOURCE / "links/dangling")
    for name in "hard1", "hard2":
        os.link(SOURCE / "sizes/noise-131073", SOURCE / "links" / name)
    os.link(SOURCE / "links/relative", SOURCE / "links/relative too", follow_symlinks=False)
    os.mkfifo(SOURCE / "pipe", 0o640)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(SOURCE / "socket"))
    if ROOT:
        for name, kind, major, minor in (("char", stat.S_IFCHR, 1, 3), ("block", stat.S_IFBLK, 259, 70_000)):
            os.mknod(SOURCE / name, 0o600 | kind, os.makedev(major, minor))
        for i, path in enumerate(sorted(SOURCE.glob("many/*"))[:300]):
            os.chown(path, 1000 + i, 70_000 + i)
    set_xattrs()
    for i, (mode, path) in enumerate(zip((0o4755, 0o2711, 0o1777, 0o000, 0o444), sorted(SOURCE.glob("many/*")))):
        path.chmod(mode)
        os.utime(path, (0, 2**31 + i))
    (SOURCE / "empty").chmod(0o1777)


def write(name, data):
    path = pathlib.Path(os.fsdecode(os.path.join(os.fsencode(SOURCE), os.fsencode(name))))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def set_xattrs():
    for path, name, value in (
        ("sizes/text-4097", "user.comment", b"one"),
        ("sizes/text-1", "user.comment", b"one"),
        ("sizes/noise-131073", "user.large", b"v" * 3000),
        ("sizes", "user.binary", bytes(range(256))),
        ("sizes/zero-0", "trusted.kept", b"by root"),
        ("pipe", "trusted.pipe", b"p"),
        ("char", "trusted.char", b"c"),
        ("links/dangling", "trusted.link", b"l"),
    ):
        if ROOT or name.startswith("user."):
            try:
                os.setxattr(SOURCE / path, name, value, follow_symlinks=False)
            except OSError as error:
                print(f"this file system refuses {name}: {error}")


def differences(found, reader):
    """What `found` shows otherwise than the source.

    squashfuse numbers nodes by itself, one for each name, and has `trusted.` and
    `security.` the wrong way round (0.1.105).
    """
    fuse = reader == "squashfuse"
    source, other = walk(SOURCE), walk(found)
    for path in sorted(source.keys() ^ other.keys()):
        yield f"{path!r} is only in {'the source' if path in source else 'the image'}"
    names = {}
    for path in sorted(source.keys() & other.keys()):
        ours, theirs = source[path], other[path]
        facts = ["st_mode", "st_uid", "st_gid", "st_rdev"]
        facts += [] if stat.S_ISDIR(ours.st_mode) else ["st_size", "st_nlink"]
        for fact in facts:
            if getattr(ours, fact) != getattr(theirs, fact):
                yield f"{path!r}: {fact} is {getattr(theirs, fact)}, not {getattr(ours, fact)}"
        if int(ours.st_mtime) != int(theirs.st_mtime):
            yield f"{path!r}: mtime is {theirs.st_mtime}, not {ours.st_mtime}"
        if names.setdefault(ours.st_ino, theirs.st_ino) != theirs.st_ino and not fuse:
            yield f"{path!r} is not a hard link any more"
        a, b = os.path.join(os.fsencode(SOURCE), path), os.path.join(os.fsencode(found), path)
        if stat.S_ISREG(ours.st_mode) and pathlib.Path(os.fsdecode(a)).read_bytes() != pathlib.Path(os.fsdecode(b)).read_bytes():
            yield f"{path!r}: other bytes"
        if stat.S_ISLNK(ours.st_mode) and os.readlink(a) != os.readlink(b):
            yield f"{path!r}: target is {os.readlink(b)!r}"
        expected, seen = xattrs(a), xattrs(b)
        if fuse:
            seen = {name.replace("security.", "trusted."): value for name, value in seen.items()}
        if expected != seen:
            yield f"{path!r}: extended attributes are {seen}, not {expected}"


def walk(top):
    top = os.fsencode(top)
    found = {b".": os.lstat(top)}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = os.lstat(path)
    return found


def xattrs(path):
    names = os.listxattr(path, follow_symlinks=False)
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}


def check_holes(image, name):
    """A file of zeros takes no place in an image with holes, and its place in one without."""
    size = os.path.getsize(image)
    zeros = sum(s.st_size for p, s in walk(SOURCE).items() if b"zero-" in p)
    if name.startswith("stored"):
        total = sum(s.st_size for s in walk(SOURCE).values() if stat.S_ISREG(s.st_mode))
        linked = 2 * os.path.getsize(SOURCE / "sizes/noise-131073")
        least = total - linked - (0 if name == "stored" else zeros + 4 * 131072)
        if size < least or (name != "stored" and size > least + (2 << 20)):
            yield f"{size} bytes, expected about {least}"


def main():
    make_source()
    shows = squashfs_readers()
    for name, flags in IMAGES.items():
        image = f"{name.replace(', ', '-').replace(' ', '-')}.sqfs"
        run(EXAMPLE, SOURCE, image, *flags, "--jobs", "3")
        run(EXAMPLE, SOURCE, "again.sqfs", *flags, "--jobs", "1")
        same = pathlib.Path(image).read_bytes() == pathlib.Path("again.sqfs").read_bytes()
        say(f"{name}: the same bytes on one thread", [] if same else ["they differ"])
        say(f"{name}: holes", check_holes(image, name))
        for reader, show in shows.items():
            try:
                with show(image) as folder:
                    faults = list(differences(folder, reader))
            except (AssertionError, OSError) as error:
                faults = [str(error)]
            say(f"{name}: {reader}", faults)
    sys.exit(failures != 0)


main()
