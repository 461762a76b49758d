"""The shell blocks of tutorials/train and tutorials/minimal run as they are, with the trainers that are built already.

`cargo` is a stand-in here: compiling is what has happened before, so it only checks that the packages and features
that the pages build are there. Everything else on the pages is the real thing.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree
import zipfile

from _shared import GULAR, check, finish, make_pets

HERE = pathlib.Path.cwd()
TUTORIALS = pathlib.Path(__file__).resolve().parents[2] / "tutorials"
SVG = "{http://www.w3.org/2000/svg}"


def programs():
    """A folder for PATH with `gular`, and with a `cargo` that notes what it is asked for."""
    folder = HERE / "bin"
    folder.mkdir()
    (folder / "gular").symlink_to(GULAR)
    (folder / "cargo").write_text('#!/bin/sh\necho "$@" >> asked\n')
    (folder / "cargo").chmod(0o755)
    return folder


def lesson(name, program):
    """Runs a page in a folder like the repository's, with photos/ of two classes; the folder, and what was printed."""
    folder = HERE / name
    (folder / "target/release").mkdir(parents=True)
    shutil.copy(os.environ[program], folder / f"target/release/gular-{name}")
    shutil.copytree(TUTORIALS / "pictures", folder / "tutorials/pictures")
    make_pets(folder / "pets.zip")
    with zipfile.ZipFile(folder / "pets.zip") as pets:
        pets.extractall(folder / "photos")
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", (TUTORIALS / name / "README.md").read_text(), re.M | re.S))
    surroundings = {**os.environ, "PATH": f"{HERE}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(["bash", "-euo", "pipefail"], input=blocks, cwd=folder, capture_output=True, text=True, env=surroundings)
    check(f"tutorials/{name} runs as written", result.returncode == 0, f"{result.stdout[-1000:]} {result.stderr[-3000:]}")
    asked = (folder / "asked").read_text().splitlines()
    check(f"tutorials/{name} builds what there is", asked == ["xtask setup", build_of(name)], asked)
    return folder, result.stdout


def build_of(name):
    """How the program of a lesson is built, by its Cargo.toml."""
    manifest = tomllib.loads((TUTORIALS / name / "Cargo.toml").read_text())
    features = " --features torch" if "torch" in manifest["features"] else ""
    return f"build --release -p {manifest['package']['name']}{features}"


programs()
folder, said = lesson("minimal", "GULAR_MINIMAL_BIN")
epochs = re.findall(r"epoch (\d): loss [\d.]+, \d+ samples, each once", said)
check("the minimal trainer delivers each sample once", epochs == list("12345") and "weights blake3:" in said, said)

folder, said = lesson("train", "GULAR_TRAIN_BIN")
steps = [json.loads(line) for line in (folder / "run1/metrics.jsonl").read_text().splitlines()]
check("the trainer logs its steps", sum("loss" in step for step in steps) >= 10, steps[:3])
rows = (folder / "answers.csv").read_text().splitlines()
check("every photograph has an answer", len(rows) > 1 and rows[0].startswith("key,split,label,prediction,"), rows[:3])
right = sum(row.split(",")[2] == row.split(",")[3] for row in rows[1:])
check("the answers are right", right >= 0.9 * len(rows[1:]), f"{right} of {len(rows) - 1}")
for picture in ("loss.svg", "matrix.svg"):
    drawn = xml.etree.ElementTree.parse(folder / picture)
    check(f"{picture} is drawn", len(list(drawn.iter(SVG + "text"))) > 3, picture)
figures = (folder / "answers.html").read_text().count("<figure")
check("the page shows predictions", figures > 0, figures)
finish()
