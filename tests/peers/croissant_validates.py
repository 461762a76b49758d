"""`gular export --croissant`: MLCommons' own library accepts the description and reads its tables."""

import hashlib
import json
import pathlib
import sys

from _shared import check, finish, gular, make_images, run, shards, skip

try:
    import mlcroissant
except ImportError as missing:
    skip("croissant_validates", missing.name, "pip install mlcroissant pillow")
    finish()

make_images(n=12)
pathlib.Path("about.toml").write_text(
    'name = "Birds of nowhere"\ndescription = "Noise in three classes."\nlicence = "CC-BY-4.0"\n'
    'citation = "Nobody, 2026."\nsource = "https://example.org/birds"\n'
)
for envelope in ["shards", "parquet"]:
    gular("pack", "images", envelope, "--envelope", envelope, "--about", "about.toml")
    url = f"https://example.org/birds/{envelope}"
    gular("export", envelope, "--croissant", f"{envelope}.json", "--url", url)
    run(pathlib.Path(sys.executable).parent / "mlcroissant", "validate", "--jsonld", f"{envelope}.json")
    check(f"{envelope}: `mlcroissant validate` ends with 0", True)
    dataset = mlcroissant.Dataset(f"{envelope}.json")
    classes = list(dataset.records("classes"))
    names = {int(row["classes/label"]): str(row["classes/name"]) for row in classes}
    check(f"{envelope}: classes", names == {i: f"class {i}" for i in range(3)}, names)
    described = {f["name"]: f for f in json.loads(pathlib.Path(f"{envelope}.json").read_text())["distribution"]}
    for path in map(pathlib.Path, shards(envelope)):
        found = described[path.name]
        check(f"{envelope}: sha256", found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest(), found)
        check(f"{envelope}: url", found["contentUrl"] == f"https://example.org/birds/data/{path.name}", found)
    files = {path.name for path in pathlib.Path(envelope).rglob("*.*")}
    check(f"{envelope}: every file", set(described) == files, set(described) ^ files)
    found = described["manifest.json"]["contentUrl"]
    check(f"{envelope}: url of the manifest", found == f"{url}/manifest.json", found)
    metadata = dataset.metadata
    check(f"{envelope}: licence", "CC-BY-4.0" in str(metadata.license), metadata.license)
    check(f"{envelope}: citation", metadata.cite_as == "Nobody, 2026.", metadata.cite_as)

# Without a word about it there are warnings, and no error.
gular("pack", "images", "plain")
gular("export", "plain", "--croissant", "plain.json")
mlcroissant.Dataset("plain.json")
check("plain: accepted", True)
finish()
