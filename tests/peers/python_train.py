"""A user's `train.py` with `gular` in it: scripts as people have them, with real PyTorch.

Each script of `tutorials/python` beside its version for Gular, which differs by a few lines, learns
from the same made images; several processes stop in mid-epoch and go on as fewer.
"""

import contextlib
import difflib
import io
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import numpy as np
    import torch
    import torchvision  # noqa: F401
    from PIL import Image
except ImportError as missing:
    print(f"skip python_train: {missing.name} missing, install: pip install torch torchvision numpy pillow")
    sys.exit(0)

from _shared import GULAR, check, finish, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tutorials" / "python"
N_TRAIN = 48


def make_images():
    """Noise, reddish for cats and bluish for dogs."""
    random = np.random.default_rng(1)
    for i in range(N_TRAIN + 16):
        split, label = ("train" if i < N_TRAIN else "val"), i % 2
        folder = pathlib.Path("images") / split / ["cat", "dog"][label]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 160, (70 + i % 9, 80, 3))
        pixels[..., 2 * label] += 90
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.jpg")
    run(GULAR, "pack", "images", "bundle", "--quiet")


def differs(name):
    """The lines by which the version for Gular differs."""
    before, after = ((SCRIPTS / name / file).read_text().splitlines() for file in ["train.py", "train_gular.py"])
    lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    return [line for line in lines if line[0] in "+-"]


def says(script, *args):
    out = io.StringIO()
    sys.argv = [script, *map(str, args)]
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    return out.getvalue()


def learns(script, *args):
    told = says(script, *args)
    losses = [float(loss) for loss in re.findall(r"epoch \d+ loss ([\d.]+)", told)]
    check(f"{script}: the loss falls", len(losses) == 3 and losses[-1] < losses[0], told)


def scripts():
    url = pathlib.Path("bundle").resolve().as_uri()
    page = (ROOT / "docs" / "python.md").read_text()
    shown = [block.splitlines() for block in re.findall(r"```diff\n(.*?)```", page, re.DOTALL)]
    for name, own, ours, more in [
        ("cats_dogs", "images", "bundle", ["--epochs", 3, "--lr", 0.003]),
        ("many_files", pathlib.Path("images").resolve().as_uri(), url, ["--epochs", 3, "--classes", 2]),
    ]:
        lines = differs(name)
        check(f"{name}: at most 5 lines differ", 0 < len(lines) <= 5, "\n".join(lines))
        in_page = any([line for line in block if line[:1] in ("+", "-")] == lines for block in shown)
        check(f"{name}: docs/python.md shows them", in_page, "\n".join(lines))
        small = ["--size", 32, "--batch-size", 12]
        learns(f"{name}/train.py", own, *more, *small, "--workers", 0)
        for left in ["checkpoint.pt", "weights.pt"]:
            pathlib.Path(left).unlink(missing_ok=True)
        learns(f"{name}/train_gular.py", ours, *more, *small)
        if name == "cats_dogs":
            told = says(f"{name}/train_gular.py", ours, "--epochs", 4, *small)
            check(f"{name} goes on from its checkpoint", "resumed from checkpoint.pt at epoch 3" in told and "epoch 3 loss" in told, told)


def ranks(n, *more, stop=False):
    """Trains on `n` processes; with `stop`, they are asked to stop at their first step."""
    command = [sys.executable, SCRIPTS / "ranks/train.py", "bundle", "--ranks", n, "--batch-size", 4, "--size", 32]
    env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"], "OMP_NUM_THREADS": "1"}
    command = [*map(str, command), "--epochs", "2", "--checkpoint", "ranks.pt", *map(str, more)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = ""
    for line in process.stdout:
        told += line
        if stop and " loss " in line:
            process.send_signal(signal.SIGTERM)
            stop = False
    return process.wait(), told


def on_fewer_ranks():
    code, first = ranks(4, stop=True)
    state = torch.load("ranks.pt")["loader"]
    middle = 0 < state["consumed"] < N_TRAIN
    check("4 ranks end with 85 on SIGTERM, in mid-epoch", code == 85 and middle, f"{code}, {state}\n{first}")
    # So short that it is over before the first step.
    code, second = ranks(2, "--time-limit", 1e-9)
    after = torch.load("ranks.pt")["loader"]
    check("2 ranks end with 85 at the end of their time", code == 85 and after["consumed"] == state["consumed"] + 4, f"{code}, {state}, {after}\n{second}")
    code, third = ranks(1)
    # Shares of several ranks add up to this only where none lacks a sample or has one twice.
    once = [f"epoch {epoch}: {N_TRAIN} samples, each once" in third for epoch in range(state["epoch"], 2)]
    check("one finishes: each sample once per epoch", code == 0 and all(once), f"{code}\n{third}")
    resumed = f"resumed in epoch {state['epoch']} after {after['consumed']} samples"
    check("and began where those before stopped", resumed in third, third)


if __name__ == "__main__":
    os.environ["GULAR_CACHE"] = os.path.abspath("cache")
    make_images()
    scripts()
    on_fewer_ranks()
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    finish()
