"""What `gular job new` writes runs as HTCondor runs it: killed at random, a training ends with the same bits."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

from _shared import GULAR, check, federation, finish, gular, make_images, run, skip

try:
    import _condor as condor
except ImportError as error:
    skip("htcondor_runs", error.name, "pip install htcondor==24.12.24")
    sys.exit(0)

SEED = random.randrange(1 << 32)
HERE = pathlib.Path.cwd()


def new(name, *options, command):
    """A folder as a user makes it, checked as a user checks it."""
    run(GULAR, "job", "new", name, *options, "--", *command)
    file = f"{name}.dag" if (HERE / name / f"{name}.dag").exists() else f"{name}.sub"
    lint = subprocess.run([GULAR, "job", "lint", "--strict", file], cwd=name, capture_output=True, text=True)
    check(f"{name} has no trap", lint.returncode == 0, lint.stdout + lint.stderr)
    return HERE / name


def member(folder, job, name):
    with tarfile.open(folder / "results" / f"{job}.tar") as tar:
        return tar.extractfile(f"output/{name}").read()


def trained(name, url, digest, pool):
    """A sweep of two training runs, their evaluations and the choice, in a pool."""
    shutil.copy(os.environ["GULAR_TRAIN_BIN"], "gular-train")
    train = ["./gular-train", "train", "{data}", "--digest", digest, "--seed", "{seed}", "--checkpoint-dir", "output", "--epochs", "200",
             "--size", "24", "--batch-size", "8", "--device", "cpu", "--torch-threads", "1", "--jobs", "1", "--checkpoint-every", "20"]
    evaluate = f"./gular-train eval {{data}} --digest {digest} --weights {{trained}}/weights.safetensors --device cpu --torch-threads 1 --json"
    folder = new(name, "--data", url, "--checkpoint", "output", "--every", "10s", "--sweep", "seed=1..2", "--evaluate", evaluate, "--select", "min:loss", command=train)
    pool = pool(folder)
    failed = condor.run_dag(pool, f"{name}.dag")
    check(f"{name} ends well", not failed, f"{failed} {pool.events}")
    return folder, pool


def evicted():
    """A job goes back to its last exit with 85, and not to what the program saves while it is evicted."""
    script = """#!/bin/sh
trap 'echo evicted > ckpt/state; exit 85' TERM
if [ ! -e ckpt/state ]; then echo hourly > ckpt/state; exit 85; fi
if [ -e "$1" ]; then cp ckpt/state output/state; exit 0; fi
touch "$1"
while :; do sleep 0.1; done
"""
    pathlib.Path("save.sh").write_text(script)
    marker = HERE / "evict-me"
    folder = new("evicted", "--checkpoint", "ckpt", "--every", "5s", command=["sh", "save.sh", str(marker)])
    pool = condor.Pool(folder, n_harms=1, harm_when=marker)
    since = time.monotonic()
    codes = pool.submit("evicted.sub")
    check("a program that saves at once is not started again at once", time.monotonic() - since >= 4)
    [result] = (folder / "results").iterdir()
    with tarfile.open(result) as tar:
        state = tar.extractfile("output/state").read()
    ended = [what for _, what in pool.events]
    check("an evicted job goes back to its last exit with 85", (codes, state) == ([0], b"hourly\n"), f"{codes} {state} {ended}")
    check("it was evicted while it ran", ended == ["ended with 85", "ended with 85 after SIGTERM", "ended with 0"], ended)


def killed_at_random(url, digest):
    calm, _ = trained("calm", url, digest, lambda folder: condor.Pool(folder))
    harmed, pool = trained("harmed", url, digest, lambda folder: condor.Pool(folder, SEED, n_harms=4, harm_seconds=(0, 0.3), harm_grown="output/step-*"))
    said = " ".join(what for _, what in pool.events)
    check("training runs were stopped and killed", "85 after SIGTERM" in said and "SIGKILL" in said, f"seed {SEED}: {pool.events}")
    for job in ("job0", "job1"):
        same = member(calm, job, "weights.safetensors") == member(harmed, job, "weights.safetensors")
        check(f"{job} has the bits of a training run that nobody stopped", same, f"seed {SEED}: {pool.events}")
    for name in ("selected.csv", "evaluate0.json"):
        texts = [(folder / "results" / name).read_text() for folder in (calm, harmed)]
        if name.endswith("json"):
            texts = [{key: json.loads(text)[key] for key in ("loss", "accuracy", "samples")} for text in texts]
        check(f"{name} is the same", texts[0] == texts[1], texts)
    table = (calm / "results/selected.csv").read_text().splitlines()
    losses = [float(line.split(",")[2]) for line in table[1:]]
    check("the best is first", table[0] == "job,seed,loss" and len(losses) == 2 and losses == sorted(losses), table)
    best = table[1].split(",")[0]
    check("the best is kept", member(calm, "best", "weights.safetensors") == member(calm, best, "weights.safetensors"))


def parts(url, digest):
    """Each of three jobs gets the shards of its part alone, and together they predict what one job does."""
    with tarfile.open("calm/results/job0.tar") as tar:
        pathlib.Path("weights.safetensors").write_bytes(tar.extractfile("output/weights.safetensors").read())
    predict = ["predict", "--weights", "weights.safetensors", "--batch-size", "8", "--device", "cpu", "--torch-threads", "1", "--jobs", "1", "--size", "24"]
    run(os.environ["GULAR_TRAIN_BIN"], *predict, "many", "--out", "single.csv")
    options = ["--data", url, "--input", "weights.safetensors", "--sweep", "part=1..3", "--shards-by", "part"]
    merge = ["--merge-command", "./gular-train merge {each}/part.csv --out output/all.csv"]
    command = ["./gular-train", *predict, "{data}", "--digest", digest, "--part", "{part}/3", "--out", "output/part.csv"]
    folder = new("parts", *options, *merge, command=command)
    lines = [line for line in (folder / "parts.dag").read_text().splitlines() if line.startswith("VARS")]
    shards = [line.split('shards="')[1].rstrip('"').split(", ") for line in lines]
    n = len({shard for own in shards for shard in own})
    check("no job gets all shards", len(lines) == 3 and max(map(len, shards)) < n, shards)
    pool = condor.Pool(folder)
    failed = condor.run_dag(pool, "parts.dag")
    check("jobs with their shards alone end well", not failed, f"{failed} {pool.events}")
    check("three jobs predict what one does", member(folder, "merge", "all.csv") == pathlib.Path("single.csv").read_bytes())


def a_failed_node_is_rescued():
    pathlib.Path("step.sh").write_text('#!/bin/sh\n[ "$1" = 2 ] && exit 3\necho "$1" > output/part\n')
    pathlib.Path("join.sh").write_text('#!/bin/sh\ncat "$@" > output/all\n')
    folder = new("rescue", "--sweep", "n=1..3", "--merge-command", "sh join.sh {each}/part", command=["sh", "step.sh", "{n}"])
    pool = condor.Pool(folder)
    failed = condor.run_dag(pool, "rescue.dag")
    rescue = (folder / "rescue.dag.rescue001").read_text()
    attempts = [what for job, what in pool.events if job == "job1"]
    check("a node that fails ends its children alone", (failed, rescue) == ({"job1"}, "DONE job0\nDONE job2\n"), f"{failed} {rescue}")
    check("it was tried three times", attempts == ["attempt 0", "attempt 1", "attempt 2"], attempts)
    check("nothing was merged", not (folder / "results/merge.tar").exists())
    # Mended, and submitted again.
    (folder / "step.sh").write_text('#!/bin/sh\necho "$1" > output/part\n')
    pool = condor.Pool(folder)
    failed = condor.run_dag(pool, "rescue.dag")
    ran = sorted({job for job, what in pool.events if what.startswith("attempt")})
    check("the rescue runs what was not done", (failed, ran) == (set(), ["job1", "merge"]), f"{failed} {pool.events}")
    check("parts come in the order of the sweep", member(folder, "merge", "all") == b"1\n2\n3\n")


def the_choice():
    """select.py ranks what evaluations said; a training run that diverged comes last."""
    for metric, best, order in (("max:score", 2, ["job2", "job0", "job3", "job1"]), ("min:score", 0, ["job0", "job3", "job2", "job1"])):
        name = metric.replace(":", "-")
        folder = new(name, "--sweep", "n=1..4", "--evaluate", "sh step.sh {trained}", "--select", metric, command=["sh", "step.sh", "{n}"])
        for i, score in enumerate(["0.5", "NaN", "0.75", "0.5"]):
            (folder / f"results/job{i}.tar").write_text(f"job {i}")
            (folder / f"results/evaluate{i}.json").write_text('{"score": %s, "loss": 1}\n' % score)
        result = subprocess.run(["./select.py"], cwd=folder, capture_output=True, text=True)
        table = [line.split(",")[0] for line in (folder / "results/selected.csv").read_text().splitlines()[1:]]
        said = (result.returncode, table, (folder / "results/best.tar").read_text())
        check(f"{metric} chooses", said == (0, order, f"job {best}"), f"{said} {result.stderr}")
    (folder / "results/evaluate2.json").write_text("no JSON\n")
    result = subprocess.run(["./select.py"], cwd=folder, capture_output=True, text=True)
    check("an evaluation without its number is named", result.returncode == 1 and "evaluate2.json" in result.stderr, result.stderr)


def a_wheel_travels():
    """A Python program imports a package that came with the job, and runs what it brings, without pip or network."""
    with zipfile.ZipFile("hello-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("hello/__init__.py", "WORD = 'hello'\n")
        wheel.writestr("hello-1.0.data/scripts/say", '#!/bin/sh\necho "$1 world"\n')
    program = "import hello, subprocess\nopen('output/said', 'w').write(subprocess.check_output(['say', hello.WORD], text=True))\n"
    pathlib.Path("train.py").write_text(program)
    folder = new("wheel", "--input", "hello-1.0-py3-none-any.whl", command=["python3", "train.py"])
    codes = condor.Pool(folder).submit("wheel.sub")
    [result] = (folder / "results").iterdir()
    with tarfile.open(result) as tar:
        said = tar.extractfile("output/said").read()
    check("a wheel that came with the job is imported", (codes, said) == ([0], b"hello world\n"), f"{codes} {said}")
    (folder / "hello-1.0-py3-none-any.whl").write_text("no zip")
    codes = condor.Pool(folder).submit("wheel.sub")
    check("a job whose wheel is damaged ends with the code of its program", codes == [1], codes)


def holds():
    """The starter is as strict as HTCondor: what is listed must be there."""
    pathlib.Path("held").mkdir()
    cases = {
        "transfer_output_files = gone": "`gone`",
        "transfer_input_files = gone": "`gone`",
        "checkpoint_exit_code = 0\ntransfer_checkpoint_files = gone": "checkpoint",
        "output = nowhere/out": "folder",
    }
    for lines, word in cases.items():
        pathlib.Path("held/x.sub").write_text(f"executable = /bin/true\nlog = x.log\n{lines}\nshould_transfer_files = YES\nqueue\n")
        try:
            said = f"ended with {condor.Pool('held').submit('x.sub')}"
        except condor.Held as why:
            said = str(why)
        check(f"a job is held: {lines.splitlines()[-1]}", word in said, said)


def main():
    holds()
    evicted()
    a_failed_node_is_rescued()
    the_choice()
    a_wheel_travels()
    make_images()
    gular("pack", "images", "bundle", "--shard-size", "1MiB")
    with federation("federation") as said:
        published = gular("publish", "bundle", f"{said['url']}/pets/v1", "--token", said["token"])
        digest = gular("inspect", "bundle")["digest"]
        os.environ["BEARER_TOKEN_FILE"] = said["token"]
        os.environ["BEARER_TOKEN"] = pathlib.Path(said["token"]).read_text().strip()
        killed_at_random(published.get("url") or f"{said['url']}/pets/v1", digest)
        make_images("many-images", 150)
        gular("pack", "many-images", "many", "--shard-size", "1MiB")
        gular("publish", "many", f"{said['url']}/many/v1", "--token", said["token"])
        parts(f"{said['url']}/many/v1", gular("inspect", "many")["digest"])


main()
finish()
