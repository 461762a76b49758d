"""Envelope `tar`: WebDataset, GNU tar and tarfile read what we write; we adopt what ShardWriter and tar write."""

import io
import json
import pathlib
import shutil
import subprocess
import tarfile

from _shared import check, extract, finish, gular, make_images, shards, skip

try:
    import webdataset
    from PIL import Image
except ImportError as missing:
    skip("tar_reads", missing.name, "pip install webdataset pillow")
    finish()

made = make_images()
gular("pack", "images", "bundle", "--envelope", "tar", "--shard-size", "1MiB")
files = shards("bundle")
check("several shards", len(files) > 2, files)


def webdataset_reads():
    found = {}
    for sample in webdataset.WebDataset(files, shardshuffle=False):
        (image,) = [sample[e] for e in ("jpg", "png") if e in sample]
        found[image] = int(sample["cls"])
    check("webdataset: every image and label", found == {b: label for b, label in made.values()}, len(found))
    decoded = list(webdataset.WebDataset(files, shardshuffle=False).decode("pil").to_tuple("jpg;png", "cls"))
    sizes = sorted(image.size for image, _ in decoded)
    check("webdataset: decodes", sizes == sorted(Image.open(io.BytesIO(b)).size for b, _ in made.values()), sizes)


def tarfile_reads():
    found = {}
    for file in files:
        with tarfile.open(file) as tar:
            for member in tar:
                if not member.name.endswith(".cls"):
                    key = member.pax_headers.get("GULAR.key", member.name)
                    found[key] = tar.extractfile(member).read()
    check("tarfile: keys and bytes", found == {k: b for k, (b, _) in made.items()}, len(found))


def gnu_tar_reads():
    if not shutil.which("tar"):
        return skip("gnu tar", "tar", "apt-get install tar")
    pathlib.Path("out").mkdir()
    said = ""
    for file in files:
        said += subprocess.run(["tar", "-xf", file, "-C", "out"], check=True, capture_output=True, text=True).stderr
    images = sorted(p.read_bytes() for p in pathlib.Path("out").rglob("*") if p.suffix in (".jpg", ".png"))
    check("gnu tar: every image", images == sorted(b for b, _ in made.values()), len(images))
    check("gnu tar: says nothing but of unknown records", not [l for l in said.splitlines() if "GULAR.key" not in l], said)


def shard_writer_is_adopted():
    items = sorted(made.items())
    with webdataset.ShardWriter("wds-train-%04d.tar", maxcount=20, verbose=0) as writer:
        for i, (key, (image, label)) in enumerate(items):
            sample = {"__key__": f"dir.x/{i:06d}", key.rsplit(".")[-1]: image, "json": {"key": key}}
            if i % 7:
                sample["cls"] = label
            writer.write(sample)
    report = gular("adopt", *sorted(map(str, pathlib.Path(".").glob("wds-*.tar"))), "--out", "adopted")
    check("adopt: every sample", report["splits"] == {"train": len(items)}, report)
    wrong = [i for i, (key, (image, _)) in enumerate(items) if extract("adopted", f"dir.x/{i:06d}.{key.rsplit('.')[-1]}") != image]
    check("adopt: every byte", not wrong, wrong)
    gular("convert", "adopted", "converted", "--envelope", "shards")
    seen = json.loads(subprocess.run(["tar", "-xOf", "wds-train-0000.tar", "dir.x/000003.json"], capture_output=True).stdout)
    check("adopt: other members are fields", seen["key"] == items[3][0] and report["fields"]["json"] == "json", report)


def tar_of_a_folder_is_adopted():
    for options, name in ((["--format=gnu"], "gnu"), (["--format=pax"], "pax"), (["--format=ustar"], "ustar")):
        # Of `im.4.png` and `im.8.png` WebDataset makes one sample: without these.
        exclude = "--exclude=im.*.png"
        subprocess.run(["tar", *options, exclude, "-cf", f"{name}.tar", "-C", "images", "./train"], check=True)
        gular("adopt", f"{name}.tar", "--out", f"folder-{name}")
        wanted = {k: b for k, (b, _) in made.items() if k.startswith("train") and k.endswith("jpg")}
        wrong = [k for k, image in wanted.items() if extract(f"folder-{name}", k) != image]
        check(f"adopt: {name} tar of a folder", wanted and not wrong, wrong)
    subprocess.run(["tar", "-czf", "squeezed.tar.gz", "-C", "images", "train"], check=True)
    said = gular("adopt", "squeezed.tar.gz", "--out", "none", refused=True)
    check("adopt: a compressed tar is refused", "gzip" in said and "hint" in said, said)


webdataset_reads()
tarfile_reads()
gnu_tar_reads()
shard_writer_is_adopted()
tar_of_a_folder_is_adopted()
finish()
