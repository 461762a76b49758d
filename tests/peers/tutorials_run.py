"""The shell blocks of tutorials/htcondor, slurm and ensemble run as they are: on the starter, and on a real Slurm."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from _shared import GULAR, check, federation, finish, make_pets, run, skip

HERE = pathlib.Path.cwd()
PEERS = pathlib.Path(__file__).parent
TUTORIALS = PEERS.parent.parent / "tutorials"


def programs():
    """A folder for PATH with our programs and HTCondor's commands."""
    folder = HERE / "bin"
    folder.mkdir()
    (folder / "gular").symlink_to(GULAR)
    shutil.copy(os.environ["GULAR_TRAIN_BIN"], folder / "gular-train")
    for name in ("condor_submit", "condor_submit_dag", "condor_wait", "condor_watch_q"):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PEERS}/_condor.py" {name} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def blocks(name):
    text = (TUTORIALS / name / "README.md").read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S))


def lesson(name, *files, **variables):
    """Runs a page in a folder with nothing but the zip and `files`; what it left."""
    folder = HERE / name
    folder.mkdir()
    make_pets(folder / "pets.zip")
    for file in files:
        shutil.copy(file, folder)
    result = subprocess.run(["bash", "-euo", "pipefail", "-x"], input=blocks(name), cwd=folder, capture_output=True, text=True, env={**os.environ, **variables})
    check(f"tutorials/{name} runs as written", result.returncode == 0, f"{result.stdout[-1000:]} {result.stderr[-3000:]}")
    return folder


def on_condor():
    try:
        import _condor  # noqa: F401
    except ImportError as error:
        skip("tutorials on HTCondor", error.name, "pip install htcondor==24.12.24")
        return
    with federation("federation") as said:
        os.environ["BEARER_TOKEN_FILE"] = str(HERE / said["token"])
        os.environ["BEARER_TOKEN"] = pathlib.Path(said["token"]).read_text().strip()
        folder = lesson("htcondor", ORIGIN=f"{said['url']}/one", GULAR_HARMS="1")
        check("a training run on HTCondor leaves its weights", (folder / "pets/output/weights.safetensors").exists())
        recipe = [TUTORIALS / "train" / name for name in ("image.toml", "image.lock")]
        folder = lesson("ensemble", *recipe, ORIGIN=f"{said['url']}/many", TRAINER=os.environ["GULAR_IMAGE_PROGRAM"])
        submitted = (folder / "sweep/sweep.sub").read_text()
        check("the jobs ask for the image", f"container_image = {folder}/images/train-" in submitted, submitted)
        answers = folder / "predictions.csv"
        rows = answers.read_text().splitlines() if answers.exists() else [""]
        check("every photograph has an answer", len(rows) == 61 and rows[0].startswith("key,split,label,prediction,"), rows[:3])
        right = sum(row.split(",")[2] == row.split(",")[3] for row in rows[1:])
        check("the answers are right", right >= 55, f"{right} of 60")


def on_slurm():
    missing = [tool for tool in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        skip("tutorials on Slurm", missing[0] if missing else "root", "apt-get install slurm-wlm munge" if missing else "run as root")
        return
    local, state = PEERS / "slurm/local.sh", HERE / "state"
    try:
        configuration = run(local, "up", state, 2, 2, 1, env={**os.environ, "SLURM_PORT_BASE": "17700"}).strip()
        folder = lesson("slurm", SLURM_CONF=configuration)
        n = len(list(folder.glob("sweep/output/*/ckpt/weights.safetensors")))
        check("each setting has its weights", n == 2, n)
    finally:
        subprocess.run([local, "down", state])


os.environ["PATH"] = f"{programs()}:{os.environ['PATH']}"
on_condor()
on_slurm()
finish()
