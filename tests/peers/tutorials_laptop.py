"""The shell blocks of the lessons that need no federation but our own run as they are, and so do their pictures."""

import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree
import zipfile

from _shared import GULAR, check, finish, make_pets, skip

HERE = pathlib.Path.cwd()
TUTORIALS = pathlib.Path(__file__).resolve().parents[2] / "tutorials"
SVG = "{http://www.w3.org/2000/svg}"


def lesson(name, **variables):
    """Runs a page in a copy of its folder, with pets.zip and photos/; the folder, and what was printed."""
    folder = HERE / name
    shutil.copytree(TUTORIALS / name, folder)
    make_pets(folder / "pets.zip")
    with zipfile.ZipFile(folder / "pets.zip") as pets:
        pets.extractall(folder / "photos")
    text = (folder / "README.md").read_text()
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S))
    surroundings = {**os.environ, "PATH": f"{HERE}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **variables}
    result = subprocess.run(["bash", "-euo", "pipefail"], input=blocks, cwd=folder, capture_output=True, text=True, env=surroundings)
    check(f"tutorials/{name} runs as written", result.returncode == 0, f"{result.stdout[-1000:]} {result.stderr[-3000:]}")
    return folder, result.stdout + result.stderr


def drawn(picture, tag):
    """The elements of one kind in an SVG."""
    return xml.etree.ElementTree.parse(picture).findall(SVG + tag) if picture.exists() else []


def bars(picture, n):
    # One rectangle is the paper.
    check(f"{picture.name} has {n} bars", len(drawn(picture, "rect")) == n + 1, picture)


programs = HERE / "bin"
programs.mkdir()
(programs / "gular").symlink_to(GULAR)
shutil.copy(os.environ["GULAR_TRAIN_BIN"], programs / "gular-train")
shutil.copytree(TUTORIALS / "pictures", HERE / "pictures")

folder, said = lesson("small-files", FILES="40")
rows = dict(line.split("\t") for line in (folder / "requests.tsv").read_text().splitlines())
check("small files take a request each, a bundle a few", int(rows["small files, cold cache"]) >= 40 > 4 * int(rows["a bundle, cold cache"]), rows)
bars(folder / "seconds.svg", 6)
bars(folder / "requests.svg", 6)

folder, said = lesson("eviction")
check("evicted or not, the weights are the same", "the same weights, bit for bit" in said, said)
lines = [line.get("points") for line in drawn(folder / "loss.svg", "polyline")]
check("both training runs have the same curves", len(lines) == 4 and lines[0] == lines[1] and lines[2] == lines[3], lines)

folder, said = lesson("which-envelope", ROUNDS="1")
missing = re.findall(r"(\w+): not installed", said)
for tool in missing:
    skip(f"tutorials/which-envelope with {tool}", tool, "pip install safetensors numpy pyarrow duckdb h5py; apt-get install squashfs-tools")
check("the tool of every envelope reads the photographs", said.count(": 60 images, equal to the photographs") == 6 - len(missing), said)
bars(folder / "bytes.svg", 6)
bars(folder / "first.svg", 6)

place = HERE / "place"
place.mkdir()
folder, said = lesson("node-copy", WHERE=str(place))
reads = set(re.findall(r"rank \d reads (.*)", said))
check("four ranks read one copy", len(re.findall(r"rank \d reads", said)) == 4 and len(reads) == 1, said)
check("what a killed run left is removed", "removed 1 copy" in said and not list(place.rglob("manifest.json")), said)

# Beside the lessons: the pictures of an evaluation and of predictions.
train = lambda *words: subprocess.run([programs / "gular-train", *words], check=True, capture_output=True, cwd=HERE / "eviction")
train("eval", "bundle", "--weights", "whole/weights.safetensors", "--confusion", "matrix.csv")
train("predict", "bundle", "--weights", "whole/weights.safetensors", "--out", "answers.csv")
for words in (["confusion", "matrix.svg", "matrix.csv"], ["predictions", "answers.html", "answers.csv", "bundle"]):
    subprocess.run(["python", HERE / "pictures/pictures.py", *words], check=True, capture_output=True, cwd=HERE / "eviction", env={**os.environ, "GULAR_BIN": GULAR})
numbers = [int(text.text) for text in drawn(HERE / "eviction/matrix.svg", "text") if text.text.isdigit()]
check("the matrix counts the samples of val", len(numbers) == 4 and sum(numbers) > 0, numbers)
page = (HERE / "eviction/answers.html").read_text()
check("the page shows predictions with their pictures", page.count("<figure") == 40 and page.count("data:;base64,") == 40, page[:500])
finish()
