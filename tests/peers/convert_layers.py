"""Images of others become SIFs with the files that umoci, and Apptainer where it is there, make of the same layers."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import stat
import tarfile

from _shared import apptainer_command, check, finish, gular, partition, run, sha, skip, unpacked

ROOT = os.geteuid() == 0
# What Gular adds for Apptainer, and folders that runtimes mount something over.
ADDED = {".singularity.d", ".exec", ".run", ".shell", ".test", "environment", "singularity"}
MOUNTED = {"dev", "etc", "home", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var", "var/tmp",
           "etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf"}


def member(path, kind=tarfile.REGTYPE, data=b"", mode=0o644, link="", pax=None):
    info = tarfile.TarInfo(path)
    info.type, info.size, info.mode, info.linkname, info.mtime = kind, len(data), mode, link, 1_700_000_000
    info.pax_headers = pax or {}
    if kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
        info.devmajor, info.devminor = 1, 3
    return info, data


LAYERS = [
    [
        member("bin", tarfile.SYMTYPE, mode=0o777, link="usr/bin"),
        member("usr/", tarfile.DIRTYPE, mode=0o755),
        member("usr/bin/", tarfile.DIRTYPE, mode=0o755),
        member("usr/bin/tool", data=b"#!/bin/sh\necho tool\n", mode=0o755),
        member("usr/bin/twin", tarfile.LNKTYPE, link="usr/bin/tool"),
        member("usr/bin/su", data=b"su", mode=0o4755),
        member("usr/bin/ping", data=b"ping", mode=0o755, pax={"SCHILY.xattr.user.note": "kept nowhere"}),
        member("etc/", tarfile.DIRTYPE, mode=0o755),
        member("etc/secret", data=b"s", mode=0o600),
        member("etc/gone", data=b"g"),
        member("opt/", tarfile.DIRTYPE, mode=0o755),
        member("opt/full/", tarfile.DIRTYPE, mode=0o750),
        member("opt/full/a", data=b"a"),
        member("opt/full/b/", tarfile.DIRTYPE, mode=0o700),
        member("opt/full/b/c", data=b"c"),
        member("dev/", tarfile.DIRTYPE, mode=0o755),
        member("srv/", tarfile.DIRTYPE, mode=0o755),
        member("srv/file", data=b"a file"),
        member("srv/dir/", tarfile.DIRTYPE, mode=0o755),
        member("srv/dir/in", data=b"in"),
        member("srv/link", tarfile.SYMTYPE, mode=0o777, link="/usr/bin"),
        member("srv/dangling", tarfile.SYMTYPE, mode=0o777, link="../../nowhere"),
        member("srv/hollow", data=b""),
        member("srv/" + "long" * 40 + "/" + "name" * 40, data=b"long"),
        member("srv/kläße", data=b"utf-8"),
    ],
    [
        member("usr/", tarfile.DIRTYPE, mode=0o711),
        member("etc/.wh.gone", mode=0),
        member("etc/.wh.never", mode=0),
        member("opt/full/.wh..wh..opq", mode=0),
        member("opt/full/new", data=b"new", mode=0o640),
        member("srv/file/", tarfile.DIRTYPE, mode=0o1777),
        member("srv/file/now", data=b"a folder"),
        member("srv/dir", data=b"a file now", mode=0o444),
        # Through a link of the layer below.
        member("bin/added", data=b"added", mode=0o755),
        member("usr/bin/third", tarfile.LNKTYPE, link="usr/bin/tool"),
        member("srv/link2", tarfile.LNKTYPE, link="srv/link"),
    ],
    [
        # The first name of a file goes, the others stay.
        member("usr/bin/.wh.tool", mode=0),
        member("usr/bin/tool2", data=b"tool2", mode=0o755),
        *([member("dev/null", tarfile.CHRTYPE, mode=0o666)] if ROOT else []),
    ],
]

# The folders that the layers have.
LAYERED = {info.name.rstrip("/") for members in LAYERS for info, _ in members if info.isdir()}


def layer(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def make_layout(dir, layers):
    """The layout of an image, its layers in gzip."""
    blobs = pathlib.Path(dir) / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(media, data):
        (blobs / sha(data)).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{sha(data)}", "size": len(data)}

    packed = [put("layer.v1.tar+gzip", gzip.compress(tar, mtime=0)) for tar in layers]
    config = {
        "architecture": "amd64", "os": "linux", "created": "2026-01-02T03:04:05Z",
        "config": {"Entrypoint": ["/usr/bin/tool2"], "Cmd": ["x"], "Env": ["PATH=/usr/bin", "A=1"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha(tar)}" for tar in layers]},
    }
    config = put("config.v1+json", json.dumps(config).encode())
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": packed}
    entry = put("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
    (pathlib.Path(dir) / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (pathlib.Path(dir) / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def tree(root):
    """Path -> what is there: kind, mode, bytes or target; files that are one share their first name."""
    root, found, first = pathlib.Path(root), {}, {}
    for path in sorted(root.rglob("*")):
        name, meta = str(path.relative_to(root)), path.lstat()
        mode = oct(stat.S_IMODE(meta.st_mode))
        if stat.S_ISLNK(meta.st_mode):
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISDIR(meta.st_mode):
            found[name] = ("folder", mode)
        elif stat.S_ISREG(meta.st_mode):
            one = first.setdefault(meta.st_ino, name) if meta.st_nlink > 1 else name
            with contextlib.suppress(PermissionError):
                found[name] = ("file", mode, hashlib.sha256(path.read_bytes()).hexdigest(), one)
    return found


def compare(name, ours, theirs, lenient=()):
    """Our files are those of another tool, and what we add for Apptainer."""
    added = {path for path in ours if path.split("/")[0] in ADDED or path in MOUNTED}
    missing = {path: what for path, what in theirs.items() if path not in ours and path not in lenient}
    other = {path: (ours[path], what) for path, what in theirs.items() if path in ours and ours[path] != what and path not in lenient}
    more = {path for path in ours if path not in theirs and path not in added}
    check(f"{name}: no file is missing", not missing, missing)
    check(f"{name}: no file differs", not other, other)
    check(f"{name}: nothing else is there", not more, more)
    check(f"{name}: there is something to compare", len(theirs) > 15, theirs)


def ours(sif):
    with unpacked(sif, partition(sif)) as root:
        return tree(root)


def convert(source, *more):
    return gular("image", "convert", source, "--cache", "cache", *more)


def umoci(found):
    if not shutil.which("umoci"):
        return skip("umoci", "umoci", "apt-get install umoci")
    ways = {"umoci --rootless": ["--rootless"], **({"umoci as root": []} if ROOT else {})}
    for name, flags in ways.items():
        bundle = f"bundle-{len(flags)}"
        run("umoci", "unpack", *flags, "--image", "layout:v1", bundle)
        # Without root umoci puts an empty file where a device should be.
        compare(name, found, tree(f"{bundle}/rootfs"), {"dev/null"})


def apptainer(found):
    program = apptainer_command()
    if not program:
        return skip("apptainer build", "apptainer", "its own pages")
    # Without a tag, which 1.5.3 takes for a part of the path.
    run(*program, "build", "theirs.sif", "oci:layout")
    theirs = {path: what for path, what in ours("theirs.sif").items() if path.split("/")[0] not in ADDED}
    # Folders that no layer has get the modes of its umask, and a device is an empty file without root.
    folders = {path for path in theirs if theirs[path][0] == "folder" and path not in LAYERED}
    compare("apptainer build", found, theirs, {"dev/null", *folders})


def archives(digest):
    """The same image, as other tools pack it."""
    if not shutil.which("skopeo"):
        return skip("archives", "skopeo", "apt-get install skopeo")
    found = ours("named.sif")
    for kind, tag in {"oci-archive": "v1", "docker-archive": "lab/x:v1"}.items():
        run("skopeo", "copy", "oci:layout:v1", f"{kind}:{kind}.tar:{tag}")
        converted = convert(f"{kind}:{kind}.tar:{tag}", f"{kind}.sif")
        check(f"{kind}: same files", ours(f"{kind}.sif").items() >= {
            path: what for path, what in found.items() if path.split("/")[0] not in ADDED}.items())
        check(f"{kind}: what it is of", (converted["source"] == digest) == (kind == "oci-archive"), converted["source"])


def main():
    make_layout("layout", [layer(members) for members in LAYERS])
    converted = convert("oci:layout:v1")
    shutil.rmtree("cache")
    again = convert("oci:layout:v1", "--jobs", "1")
    check("the same bytes again", again["output"]["digest"] == converted["output"]["digest"] and again["output"]["was_there"], again)
    named = [left["what"] for left in converted["left_out"]]
    expected = ["attribute user.note"] + ["character device 1:3"] * ROOT
    check("what is not kept is named", sorted(named) == expected, named)
    sif = converted["output"]["path"]
    check("named by its content", converted["output"]["digest"].removeprefix("blake3:")[:16] in sif, sif)
    checked = gular("image", "inspect", sif, "--cache", "cache")
    check("environment", checked["env"].get("A") == "1", checked["env"])
    check("program", checked["program"] == "/usr/bin/tool2", checked["program"])
    found = ours(sif)
    umoci(found)
    apptainer(found)
    shutil.copy(sif, "named.sif")
    archives(converted["source"])
    finish()


main()
