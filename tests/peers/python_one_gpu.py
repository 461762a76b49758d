"""The training script of one process that people copy, and the pages that show it.

It is stopped by SIGTERM and by its time limit, in mid-epoch, and resumes: the weights at the end are
those of a run that was never stopped. Then README's session with PyTorch, and the lesson, as written.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import torch
except ImportError as missing:
    print(f"skip python_one_gpu: {missing.name} missing, install: pip install torch numpy")
    sys.exit(0)

from _shared import GULAR, check, finish, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
LESSON = ROOT / "tutorials" / "python" / "one_gpu"
HERE = pathlib.Path.cwd()
N_TRAIN = 400
ONCE = f"{N_TRAIN} samples, each once"


def surroundings():
    """One thread, so that sums have the same bits; programs and package as after `pip install`."""
    programs = HERE / "bin"
    programs.mkdir()
    (programs / "gular").symlink_to(GULAR)
    path = f"{programs}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.environ["GULAR_PYTHON"], "OMP_NUM_THREADS": "1"}


def train(checkpoint, *more, stop_after=None):
    """Runs the script; with `stop_after`, it gets SIGTERM once it has printed that."""
    command = [sys.executable, LESSON / "train.py", "pets", "--epochs", 4, "--checkpoint", checkpoint, *more]
    process = subprocess.Popen(list(map(str, command)), env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = ""
    for line in process.stdout:
        told += line
        if stop_after and stop_after in line:
            process.send_signal(signal.SIGTERM)
    return process.wait(), told


def place(checkpoint):
    state = torch.load(checkpoint)["loader"]
    return state["epoch"], state["consumed"]


def stopped_and_resumed():
    run(sys.executable, LESSON / "draw_pets.py", "train.zip")
    run(GULAR, "pack", "train.zip", "pets", "--images", "train/{label}.{key}.{ext}", "--fractions", "train=0.8,val=0.2", "--quiet")
    code, told = train("whole.pt")
    check("a run that is not stopped ends with 0", code == 0 and told.count(ONCE) == 4, f"{code}\n{told}")
    accuracy = [float(found) for found in re.findall(r"accuracy ([\d.]+)", told)]
    check("it learns", len(accuracy) == 4 and accuracy[-1] > 0.8, told)

    code, first = train("cut.pt", stop_after="epoch 0")
    epoch, consumed = place("cut.pt")
    check("SIGTERM ends it with 85, in mid-epoch", code == 85 and epoch == 1 and 0 < consumed < N_TRAIN, f"{code}, {place('cut.pt')}\n{first}")
    check("and it says where", first.endswith(f"stopped in epoch 1 after {consumed} samples\n"), first)
    # So short that it is over before the first step.
    code, second = train("cut.pt", "--time-limit", 1e-9)
    check("so does the end of its time", code == 85 and f"resumed in epoch 1 after {consumed} samples" in second, f"{code}\n{second}")
    check("which it takes a step before", place("cut.pt") == (1, consumed + 32), place("cut.pt"))
    code, third = train("cut.pt")
    check("it resumes with the next sample", f"resumed in epoch 1 after {consumed + 32} samples" in third, third)
    check("each sample comes once per epoch", code == 0 and third.count(ONCE) == 3, f"{code}\n{third}")
    whole, cut = (torch.load(name)["model"] for name in ("whole.pt", "cut.pt"))
    check("stopped or not, the weights are the same", all(torch.equal(whole[name], cut[name]) for name in whole))
    epochs = [line for line in (first + third).splitlines() if "accuracy" in line]
    check("and so is what it says of each epoch", epochs == told.splitlines(), f"{told}\n{epochs}")
    code, fourth = train("cut.pt")
    check("a run that is over ends at once", code == 0 and ONCE not in fourth, f"{code}\n{fourth}")


# Like the program, but it sends SIGTERM after the second epoch, and not after a time: a machine
# may be slow. `pip` has nothing to install.
STAND_INS = r"""
timeout() {
  local code=0 line
  coproc RUN { exec "${@:2}"; }
  local run=$RUN_PID
  while read -r line; do
    echo "$line"
    case $line in "epoch 1:"*) kill -TERM "$run" ;; esac
  done <&"${RUN[0]}"
  wait "$run" || code=$?
  return $code
}
pip() { test "$1" = install; }
"""


def masked(text):
    """Lines without numbers, sizes and digests; of lines that are then equal, one after the other, one."""
    text = re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b", "DIGEST", text)
    text = re.sub(r"\b[KMG]?B\b", "SIZE", re.sub(r"\d[\d,]*(\.\d+)?", "#", text))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for number, line in enumerate(lines) if number == 0 or line != lines[number - 1]]


def readme():
    """The session with PyTorch, up to the one with a federation."""
    page = (ROOT / "README.md").read_text()
    page = page[: page.index("cargo xtask demo")]
    folder = HERE / "readme"
    folder.mkdir()
    for name in ("draw_pets.py", "train.py"):
        shutil.copy(LESSON / name, folder)
    steps = [step for block in re.findall(r"^```console.*?\n(.*?)^```$", page, re.M | re.S) for step in re.split(r"^\$ ", block, flags=re.M)[1:]]
    check("README has a session with PyTorch", any("train.py" in step for step in steps), steps)
    for name in re.findall(r"gular-[\w.-]+\.whl", page):
        (folder / name).touch()
    script = STAND_INS + "".join(f"{step.splitlines()[0]}\necho end-of-step\n" for step in steps)
    result = subprocess.run(["bash"], input=script, cwd=folder, capture_output=True, text=True, env=ENV)
    said = result.stdout.split("end-of-step\n")
    for step, found in zip(steps, said):
        command, _, expected = step.partition("\n")
        check(f"README: {command}", masked(found) == masked(expected), f"{found}\n{result.stderr[-2000:]}")
    shown = [line for block in re.findall(r"```diff\n(.*?)```", page, re.S) for line in block.splitlines()]
    script = (ROOT / "tutorials/python/cats_dogs/train.py").read_text().splitlines()
    ours = (ROOT / "tutorials/python/cats_dogs/train_gular.py").read_text().splitlines()
    right = [line for line in shown if line[1:] in {"+": ours, "-": script}.get(line[:1], [])]
    check("README's lines are those by which the scripts differ", shown and right == shown, shown)


def lesson():
    folder = HERE / "lesson"
    shutil.copytree(LESSON, folder)
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S))
    result = subprocess.run(["bash", "-euo", "pipefail"], input=blocks, cwd=folder, capture_output=True, text=True, env=ENV)
    check("the lesson runs as written", result.returncode == 0 and ONCE in result.stdout, f"{result.stdout[-1000:]} {result.stderr[-3000:]}")


ENV = surroundings()
stopped_and_resumed()
readme()
lesson()
finish()
