"""The real Snakemake runs tutorials/workflow, twice; RO-Crate's own library reads what it describes."""

import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

from _shared import GULAR, check, finish, gular, make_pets, skip

for module in ("snakemake", "rocrate"):
    if importlib.util.find_spec(module) is None:
        skip("workflow_runs", module, f"pip install {module}")
        sys.exit(0)
from rocrate.rocrate import ROCrate  # noqa: E402

HERE = pathlib.Path.cwd()
shutil.copytree(pathlib.Path(__file__).parent.parent.parent / "tutorials/workflow", HERE, dirs_exist_ok=True)
make_pets("photos.zip")
configuration = pathlib.Path("config.yaml")
configuration.write_text(configuration.read_text().replace("https://example.org/pets.zip", (HERE / "photos.zip").as_uri()))
programs = HERE / "bin"
programs.mkdir()
(programs / "gular").symlink_to(GULAR)
shutil.copy(os.environ["GULAR_TRAIN_BIN"], programs / "gular-train")
os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"


def snakemake(*options):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *options]
    return subprocess.run(command, capture_output=True, text=True)


first = snakemake()
check("the workflow runs", first.returncode == 0, first.stdout + first.stderr)
second = snakemake()
check("a second run does nothing", second.returncode == 0 and "Nothing to be done" in second.stdout + second.stderr, second.stdout + second.stderr)
plan = snakemake("--config", "epochs=5", "--dry-run").stdout
rules = {rule: f"rule {rule}:" in plan for rule in ("fetch", "pack", "train", "evaluate", "describe")}
check("a change does what depends on it", rules == {"fetch": False, "pack": False, "train": True, "evaluate": True, "describe": True}, plan)

crate = ROCrate("run")
root = crate.root_dataset
check("the crate has a name and a licence", root["name"] and root["license"].id.startswith("https://"), root)
[action] = [entity for entity in crate.get_entities() if entity.type == "CreateAction"]
bundle = action["object"][0]
check("the crate names the bundle by digest", bundle["identifier"] == gular("inspect", "bundle")["digest"], bundle)
results = {result.id: result for result in action["result"]}
weights = results["weights.safetensors"]
digest = hashlib.sha256(pathlib.Path("run/weights.safetensors").read_bytes()).hexdigest()
check("the crate has the digest of the weights", weights["sha256"] == digest and weights.type == "File", weights)
check("the crate says what ran", action["instrument"]["name"] == "gular-train", action)
listed = {part.id for part in root["hasPart"]}
check("every file of the crate is listed and there", listed >= set(results) and all((pathlib.Path("run") / name).exists() for name in results), listed)

image = pathlib.Path("train.sif")
image.write_bytes(b"an image")
subprocess.run([sys.executable, "crate.py", "run", "--bundle", "bundle", "--name", "x", "--licence", "https://example.org/l", "--image", image], check=True)
graph = {entity["@id"]: entity for entity in json.loads(pathlib.Path("run/ro-crate-metadata.json").read_text())["@graph"]}
check("the crate has the digest of the image", graph["#image"]["sha256"] == hashlib.sha256(b"an image").hexdigest(), graph["#image"])
check("the image is that of the training", graph["#training"]["containerImage"] == {"@id": "#image"}, graph["#training"])
finish()
