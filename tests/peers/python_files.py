"""`gular://` of the Python package: fsspec, pandas and pyarrow read shards and samples of bundles."""

import json
import os
import pathlib
import re
import sys

sys.path.insert(0, os.environ["GULAR_PYTHON"])
# What the wheel tells fsspec, where it is installed.
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENTRY = re.search(r'^\[project.entry-points."fsspec.specs"\]\n((?:\w.*\n)+)', (ROOT / "python/pyproject.toml").read_text(), re.MULTILINE)
INFO = pathlib.Path("installed/gular-0.dist-info")
INFO.mkdir(parents=True)
(INFO / "METADATA").write_text("Metadata-Version: 2.1\nName: gular\nVersion: 0\n")
(INFO / "entry_points.txt").write_text("[fsspec.specs]\n" + ENTRY[1].replace('"', ""))
sys.path.insert(0, str(INFO.parent))

try:
    import fsspec
    import pandas
    import pyarrow.dataset
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError as missing:
    print(f"skip python_files: {missing.name} missing, install: pip install fsspec pandas pyarrow")
    sys.exit(0)

import gular
from _shared import GULAR, check, finish, make_images, run, shards


def refused(kind, wanted, call):
    try:
        call()
    except kind as error:
        return wanted in str(error), str(error)
    return False, "nothing was raised"


def address(bundle, inside):
    return f"gular://{pathlib.Path(bundle).resolve()}!/{inside}"


def tables():
    def stream(place):
        with fsspec.open(place) as file:
            return pyarrow.ipc.open_stream(file).read_all()

    for envelope, reader, read in [("parquet", "pandas", pandas.read_parquet), ("arrow", "pyarrow", stream)]:
        run(GULAR, "pack", "images", envelope, "--envelope", envelope, "--shard-size", "1MiB", "--quiet")
        files = shards(envelope, "train")
        frames = [(read(address(envelope, f"shards/{pathlib.Path(file).name}")), read(file)) for file in files]
        check(f"{reader} reads each {envelope} shard", len(files) > 2 and all(ours.equals(own) for ours, own in frames), str(len(files)))
    name = pathlib.Path(shards("parquet", "train")[0]).name
    fs = fsspec.filesystem("gular")
    inside = f"{pathlib.Path('parquet').resolve()}!/shards/{name}"
    own = pyarrow.parquet.read_table(shards("parquet", "train")[0])
    check("pyarrow reads a shard", pyarrow.parquet.read_table(inside, filesystem=fs).equals(own))
    label = pyarrow.dataset.dataset(inside, filesystem=fs).to_table(columns=["label"])
    check("and single columns of it", label.column("label").equals(own.column("label")), str(label.schema))
    with fs.open(inside) as file:
        file.seek(-4, 2)
        end = file.read()
        file.seek(1 << 19)
        middle = file.read(100)
    own = pathlib.Path(shards("parquet", "train")[0]).read_bytes()
    check("and any range of it", end == own[-4:] == b"PAR1" and middle == own[1 << 19 : (1 << 19) + 100])


def samples(made):
    fs = fsspec.filesystem("gular")
    root = pathlib.Path("bundle").resolve()
    same = all(fs.cat_file(f"{root}!/samples/{key}") == content for key, (content, _) in made.items())
    check("each sample is its image", same, str(len(made)))
    found = fs.find(f"{root}!/samples")
    check("find lists every sample", sorted(found) == sorted(f"{root}!/samples/{key}" for key in made), str(found[:3]))
    jpegs = fs.glob(f"{root}!/samples/train/class 1/*.jpg")
    expected = [f"{root}!/samples/{key}" for key in sorted(made) if key.startswith("train/class 1/") and key.endswith("jpg")]
    check("glob finds some", sorted(jpegs) == expected and len(expected) > 3, str(jpegs))
    key, (content, _) = next(iter(made.items()))
    check("a sample has its length", fs.size(f"{root}!/samples/{key}") == len(content) and fs.isfile(f"{root}!/samples/{key}"))
    check("folders are folders", fs.isdir(f"{root}!/samples/train") and fs.ls(f"{root}!/", detail=False) == [f"{root}!/samples", f"{root}!/shards"])
    with fsspec.open(address("bundle", f"samples/{key}")) as file:
        check("fsspec.open knows gular://", file.read() == content)
    for what, path in [("sample", "samples/none.jpg"), ("shard", "shards/none"), ("folder", "other/a")]:
        check(f"a {what} that is not there", *refused(FileNotFoundError, "none" if what != "folder" else "other", lambda: fs.open(f"{root}!/{path}").read()))
    check("a path without a bundle", *refused(FileNotFoundError, "gular://BUNDLE!/", lambda: fs.open("somewhere/a.jpg")))
    check("nothing is written", *refused(PermissionError, "never change", lambda: fs.open(f"{root}!/samples/{key}", "wb")))


def remote(made):
    url = pathlib.Path("bundle").resolve().as_uri()
    fs = fsspec.filesystem("gular", cache="cache")
    digest = json.loads(run(GULAR, "inspect", "bundle", "--json"))["digest"].removeprefix("blake3:")
    url += f"#blake3={digest}"
    names = [pathlib.Path(name).name for name in fs.ls(f"gular://{url}!/shards", detail=False)]
    cached = lambda: sorted(file.name for file in pathlib.Path("cache").rglob("data/*") if file.name in names)
    check("a URL is listed without a shard", len(names) > 4 and not cached(), str(names))
    # A small one, less than a sixteenth of its shard of 1 MiB.
    key = min(made, key=lambda key: len(made[key][0]))
    content = made[key][0]
    check("a sample of a URL is its image", fs.cat_file(f"gular://{url}!/samples/{key}") == content)
    few = [key, min(made.keys() - {key}, key=lambda key: len(made[key][0]))]
    found = gular.read_samples(url, few, cache="cache")
    check("and so are a few", found == {key: made[key][0] for key in few}, str(list(found)))
    check("no shard came for them", not cached(), str(cached()))
    check("one key and no list", *refused(TypeError, "list of keys", lambda: gular.read_samples(url, key, cache="cache")))
    check("a key that is not there", *refused(gular.SampleError, "hint:", lambda: gular.read_samples(url, [key, "none"], cache="cache")))
    paths = [f"{url}!/samples/{one}" for one in made if one.startswith("val/")]
    whole = fs.cat([*paths, f"{url}!/samples/none"], on_error="omit")
    check("many come from their shard", sorted(whole) == sorted(paths) and all(value == made[path.partition("!/samples/")[2]][0] for path, value in whole.items()))
    brought = cached()
    check("which came into the cache", 0 < len(brought) < len(names), str(brought))
    other = next(name for name in names if name not in cached())
    with fsspec.open(f"gular://{url}!/shards/{other}", cache="cache") as file:
        same = file.read() == pathlib.Path("bundle/data", other).read_bytes()
    check("a shard of a URL is its file", same and cached() == sorted([*brought, other]), str(cached()))
    files = json.loads(pathlib.Path("bundle/manifest.json").read_text())["shards"]
    beside = sum(file["index"]["bytes"] for file in files) + os.path.getsize("bundle/manifest.json")
    limit = beside + 2 * max(file["bytes"] for file in files)
    train = gular.DataLoader(url, "train", 7, size=32, order="window", window=1, cache="cache", cache_limit=limit)
    check("a file system decides nothing for loaders", train.n_samples > 0)
    with fs.open(f"gular://{url}!/shards/{names[0]}") as one, fs.open(f"gular://{url}!/shards/{names[0]}") as again:
        check("files share the room of loaders", *refused(gular.Error, "the cache is too small", lambda: fs.open(f"gular://{url}!/shards/{names[1]}")))
        check("which go on", sum(len(batch["key"]) for batch in train) == train.n_samples and one.read() == again.read())
    wrong = fsspec.filesystem("gular", cache="cache", digest="blake3:" + "0" * 64)
    check("another bundle than wanted", *refused(gular.Error, "0000", lambda: wrong.ls(f"gular://{url}!/shards")))


def damaged():
    path = pathlib.Path(shards("bundle", "val")[0])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    fs = fsspec.filesystem("gular", skip_instance_cache=True)
    read = lambda: fs.cat_file(f"{pathlib.Path('bundle').resolve()}!/shards/{path.name}")
    check("a damaged byte is never given", *refused(gular.BundleError, path.name, read))


if __name__ == "__main__":
    made = make_images(n=150)
    run(GULAR, "pack", "images", "bundle", "--shard-size", "1MiB", "--quiet")
    tables()
    samples(made)
    remote(made)
    damaged()
    print(f"fsspec {fsspec.__version__}, pandas {pandas.__version__}, pyarrow {pyarrow.__version__}")
    finish()
