"""Envelope `squashfs`: unsquashfs, squashfuse, the kernel and Apptainer show every file; we adopt what mksquashfs stores."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from _shared import GULAR, apptainer_command, check, extract, finish, gular, make_images, run, sha, shards, skip, squashfs_readers, unpacked

# Everything as it is; files smaller than a block share fragments, which are stored too.
STORED = ["-noD", "-noF", "-no-sparse"]
PLAIN = ["-noI", "-noD", "-noF", "-noX", "-no-fragments", "-no-sparse"]


def samples(folder):
    """The list of samples: key -> what each column says."""
    lines = (folder / "samples.tsv").read_text().splitlines()
    names, *rows = [line.split("\t") for line in lines]
    return {row[0]: dict(zip(names[1:], row[1:])) for row in rows}


def see(folder, found):
    """Adds key -> (bytes, label) of all samples."""
    for key, row in samples(folder).items():
        found[key] = ((folder / row["image"]).read_bytes(), int(row["label"]))


def shown(files, reader, show, expected):
    found = {}
    try:
        for file in files:
            with show(file) as folder:
                see(folder, found)
                rights = {oct(p.stat().st_mode & 0o777) for p in folder.rglob("*") if p.is_file()}
                if reader != "unsquashfs" and rights != {"0o444"}:
                    return f"files have modes {rights}"
    except (AssertionError, OSError) as error:
        return str(error)
    wrong = [key for key in expected if found.get(key) != expected[key]]
    return f"{len(wrong)} of {len(expected)} samples, {wrong[:3]}" if wrong or len(found) != len(expected) else None


def our_images(shows):
    made = make_images()
    gular("pack", "images", "bundle", "--envelope", "squashfs", "--shard-size", "1MiB")
    files = shards("bundle")
    check("several shards", len(files) > 2, files)
    for reader, show in shows.items():
        why = shown(files, reader, show, made)
        check(f"{reader}: every image and label", why is None, why)
    apptainer_binds(files[0])
    raw_arrays(shows)
    many_in_a_folder(shows)
    staged_mounts(shows, made)


# What any training does that knows folders of classes alone.
LISTS = """
import hashlib, os, sys
for folder, _, names in os.walk(sys.argv[1] + "/train/"):
    for name in names:
        path = os.path.join(folder, name)
        print(os.path.relpath(path, sys.argv[1]), hashlib.sha256(open(path, "rb").read()).hexdigest(), sep="\\t")
"""


def staged_mounts(shows, made):
    """`gular stage --mount`: plain files for a command, and nothing left mounted, by the kernel and by squashfuse."""
    gular("pack", "images", "one", "--envelope", "squashfs")
    expected = {key: sha(data) for key, (data, _) in made.items() if key.startswith("train/")}
    path = os.environ["PATH"]
    tools = pathlib.Path("tools").absolute()
    tools.mkdir()
    for name in ("squashfuse", "umount", "fusermount", "fusermount3"):
        if shutil.which(name):
            (tools / name).symlink_to(shutil.which(name))
    for reader, found in (("kernel", path), ("squashfuse", str(tools))):
        if reader not in shows:
            continue
        os.environ["PATH"] = found
        try:
            staged_mount(reader, expected)
        finally:
            os.environ["PATH"] = path


def mounts():
    return [line.split()[4] for line in open("/proc/self/mountinfo") if "/gular-stage-" in line]


def staged_mount(reader, expected):
    for more in ([], ["--to", str(pathlib.Path.cwd())]):
        name = f"{reader}: {'a mounted copy' if more else 'mounted in place'}"
        stage = [GULAR, "stage", "one", "--mount", "--quiet", *more]
        said = run(*stage, "--", sys.executable, "-c", LISTS, "{}")
        seen = dict(line.split("\t") for line in said.splitlines())
        seen.pop("train/samples.tsv", None)
        check(f"{name}, plain files", seen == expected, list(seen.items())[:3])
        run(*stage, "--", GULAR, "verify", "{}")
        check(f"{name}, nothing is left", mounts() == [], mounts())
        held = subprocess.Popen(stage, stdout=subprocess.PIPE, text=True)
        path = pathlib.Path(held.stdout.readline().strip())
        check(f"{name}, held", len(mounts()) == 2 and (path / "manifest.json").is_file(), (path, mounts()))
        shared = run(*stage, "--", sys.executable, "-c", "print(len(__import__('os').listdir('{}/train')))")
        check(f"{name}, shared", int(shared) > 1 and len(mounts()) == 2, (shared, mounts()))
        held.send_signal(signal.SIGKILL)
        held.wait()
        check(f"{name}, a kill leaves the mount", len(mounts()) == 2, mounts())
        run(GULAR, "stage", "images", "--quiet", "--to", path.parent.parent, "--", "/bin/true")
        check(f"{name}, which the next run removes", mounts() == [] and not path.exists(), mounts())


def apptainer_binds(image):
    """Where there is Apptainer, a shard is a folder inside a container."""
    apptainer = apptainer_command()
    if not apptainer:
        page = "https://apptainer.org/docs/admin/latest/installation.html"
        return skip("squashfs_envelope: image-src", "apptainer", f"see {page}")
    bind = f"{os.path.abspath(image)}:/mnt:image-src=/"
    # The least that it takes for a container: a program, and the libraries of it.
    container = pathlib.Path("container")
    libraries = re.findall(r"/\S+", run("ldd", "/bin/cat"))
    for file in ["/bin/cat", *libraries]:
        (container / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, container / file[1:])
    for name in ("dev", "etc", "mnt", "proc", "sys", "tmp", "var/tmp"):
        (container / name).mkdir(parents=True, exist_ok=True)
    listed = run(*apptainer, "exec", "--no-home", "-B", bind, container, "cat", "/mnt/samples.tsv")
    with unpacked(image) as folder:
        check("apptainer: image-src", listed == (folder / "samples.tsv").read_text(), listed[:300])


def raw_arrays(shows):
    """Fixed values are npy files, which numpy maps."""
    import numpy as np

    gular("pack", "images", "raw", "--envelope", "squashfs", "--payload", "raw", "--size", "32")
    gular("convert", "raw", "raw-shards", "--envelope", "shards")
    from safetensors.numpy import load_file

    expected = [image for file in shards("raw-shards") for image in load_file(file)["image"]]
    for reader, show in shows.items():
        found = []
        for file in shards("raw"):
            with show(file) as folder:
                found += [np.array(np.load(folder / row["image"], mmap_mode="r")) for row in samples(folder).values()]
        same = len(found) == len(expected) and all(map(np.array_equal, found, expected))
        check(f"{reader}: arrays of a raw payload", same, len(found))


def many_in_a_folder(shows):
    """No folder is long, and each file is where the list says."""
    source = next(pathlib.Path("images").rglob("*.png"))
    for i in range(2300):
        path = pathlib.Path(f"many/class/{i:06}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, path)
    gular("pack", "many", "many-bundle", "--envelope", "squashfs")
    (image,) = shards("many-bundle")
    for reader, show in shows.items():
        with show(image) as folder:
            longest = max(len(list(p.iterdir())) for p in [folder, *folder.rglob("*")] if p.is_dir())
            rows = samples(folder)
            whole = all((folder / row["image"]).stat().st_size == source.stat().st_size for row in rows.values())
        check(f"{reader}: 2300 images of a class", longest <= 1000 and whole and len(rows) == 2300, (longest, len(rows)))


def adopts():
    """Images of a folder that mksquashfs wrote."""
    made = make_images("photos")
    # What lies in folders of images too.
    photos = pathlib.Path("photos")
    (photos / "README.txt").write_text("about")
    (photos / "train/class 0/.hidden.jpg").write_bytes(b"\xff\xd8\xff")
    (photos / "train/class 0/thumbs").mkdir()
    os.symlink("im.4.png", photos / "train/class 1/link.png")
    os.symlink("../nowhere", photos / "broken")
    os.mkfifo(photos / "pipe")
    twin = next(key for key in made if key.startswith("train/class 2"))
    linked = "train/class 2/other name.jpg" if twin.endswith("jpg") else "train/class 2/other name.png"
    os.link(photos / twin, photos / linked)
    expected = made | {linked: made[twin]}
    deep = "train/class 1/deep/er.jpg"
    (photos / deep).parent.mkdir()
    (photos / deep).write_bytes(made[twin][0])
    expected[deep] = (made[twin][0], 1)
    ways = {
        "plain": PLAIN,
        "gzip metadata": STORED,
        "zstd metadata": ["-comp", "zstd", *STORED],
        "small blocks": [*STORED, "-b", "4096"],
        "xz, nothing compressed": ["-comp", "xz", "-noI", "-noX", *STORED],
        "one block a file, no duplicates": ["-b", "1M", "-no-duplicates", "-no-fragments", *STORED],
    }
    for name, flags in ways.items():
        image, out = f"{name.replace(' ', '-')}.squashfs", f"adopted-{name.replace(' ', '-')}"
        run("mksquashfs", "photos", image, *flags, "-no-progress", "-quiet")
        report = gular("adopt", image, "--out", out)
        gular("verify", out)
        wrong = [key for key in expected if extract(out, key) != expected[key][0]]
        n = {split: sum(key.startswith(split) for key in expected) for split in ("train", "val")}
        check(f"adopt: {name}", not wrong and report["splits"] == n, (wrong[:3], report))
        check(f"adopt: {name}: what is not an image", "are not images" in report["left_out"].get("other files", ""), report)
    gular("convert", "adopted-plain", "adopted-files", "--envelope", "directory")
    rows = samples(pathlib.Path("adopted-files/train")) | samples(pathlib.Path("adopted-files/val"))
    labels = {key: int(row["label"]) for key, row in rows.items()}
    check("adopt: labels are folders", labels == {key: label for key, (_, label) in expected.items()}, labels)
    refuses()
    without_folders(made)
    ours_again(made)


def refuses():
    """What does not lie in runs is refused with the command that repacks it, and that works."""
    words = pathlib.Path("zeros/c")
    words.mkdir(parents=True)
    (words / "a.png").write_bytes(bytes(300_000))
    cases = {
        "default": ("photos", [], "compressed with gzip"),
        "zstd": ("photos", ["-comp", "zstd"], "compressed with zstd"),
        "xz": ("photos", ["-comp", "xz"], "xz"),
        "compressed fragments": ("photos", ["-noD"], "compressed with gzip"),
        "tails": ("photos", [*STORED, "-always-use-fragments", "-b", "4096"], "fragment"),
        "holes": ("zeros", ["-noD", "-noF"], "zeros"),
    }
    for name, (source, flags, word) in cases.items():
        image = f"refused-{name.replace(' ', '-')}.sqfs"
        run("mksquashfs", source, image, *flags, "-no-progress", "-quiet")
        said = gular("adopt", image, "--out", "none", refused=True)
        holds = word in said and "mksquashfs FOLDER" in said and "hint" in said and not os.path.exists("none")
        check(f"adopt: refuses {name}", holds, said)
    # As the message says.
    flags = said.split("`mksquashfs FOLDER NEW.squashfs ")[1].split("`")[0].split()
    run("mksquashfs", "zeros", "repacked.squashfs", *flags, "-no-progress", "-quiet")
    report = gular("adopt", "repacked.squashfs", "--out", "repacked")
    check("adopt: what the message says repacks it", report["splits"] == {"train": 1}, report)
    pathlib.Path("photos/train/class 0/empty.jpg").touch()
    run("mksquashfs", "photos", "empty.squashfs", *STORED, "-no-progress", "-quiet")
    said = gular("adopt", "empty.squashfs", "--out", "none", refused=True)
    check("adopt: an empty file is not an image", "train/class 0/empty.jpg" in said, said)


def without_folders(made):
    """Images that lie in no folder have no label."""
    flat = pathlib.Path("flat")
    flat.mkdir()
    for i, (image, _) in enumerate(made.values()):
        (flat / f"{i}.jpg").write_bytes(image)
    (flat / "class x").mkdir()
    shutil.copy(flat / "0.jpg", flat / "class x/a.jpg")
    run("mksquashfs", "flat", "flat.squashfs", *STORED, "-no-progress", "-quiet")
    report = gular("adopt", "flat.squashfs", "--out", "flat-bundle")
    gular("convert", "flat-bundle", "flat-files", "--envelope", "directory")
    labels = {key: row["label"] for key, row in samples(pathlib.Path("flat-files/train")).items()}
    missing = {key for key, label in labels.items() if label == "-1"}
    check("adopt: missing labels", len(labels) == len(made) + 1 and missing == labels.keys() - {"class x/a.jpg"}, report)


def ours_again(made):
    """The plain files of a bundle, packed by mksquashfs: the list of samples is followed."""
    gular("convert", "bundle", "files", "--envelope", "directory")
    run("mksquashfs", "files/train", "list.squashfs", *STORED, "-no-progress", "-quiet")
    report = gular("adopt", "list.squashfs", "--out", "list-bundle", "--as-split", "train")
    gular("adopt", *shards("bundle"), "--out", "own-bundle")
    trains = {key: image for key, (image, _) in made.items() if key.startswith("train")}
    wrong = [key for key in trains if extract("list-bundle", key) != trains[key]]
    check("adopt: a list of samples", not wrong and report["splits"] == {"train": len(trains)}, (wrong[:3], report))
    wrong = [key for key in made if extract("own-bundle", key) != made[key][0]]
    check("adopt: our own images", not wrong, wrong[:3])


def main():
    our_images(squashfs_readers())
    if shutil.which("mksquashfs"):
        adopts()
    else:
        skip("adopt", "mksquashfs", "apt-get install squashfs-tools")
    finish()


main()
