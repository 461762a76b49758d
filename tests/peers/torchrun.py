"""The trainer started by PyTorch's launcher, as several processes, which learn what one learns."""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

from _shared import check, finish, gular, make_images

TRAIN = os.environ["GULAR_TRAIN_BIN"]
OPTIONS = ["--epochs", "2", "--size", "32", "--dropout", "0", "--json", "--device", "cpu"]
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]


def summary(result):
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if result.returncode == 0 and lines else {}


def launch(n, *options, env=None):
    command = [*LAUNCH, f"--nproc-per-node={n}", TRAIN, "train", "bundle", *OPTIONS, *options]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})


def free_port():
    """One that is free together with the next, where ours meet; outside of those that connections go out from."""
    for port in range(15000 + os.getpid() % 5000 * 2, 32000, 2):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
            return port
    raise AssertionError("no port is free")


def main():
    make_images("images", 60)
    gular("pack", "images", "bundle")
    alone = subprocess.run([TRAIN, "train", "bundle", *OPTIONS, "--batch-size", "8", "--checkpoint-dir", "alone"], capture_output=True, text=True)
    one = summary(alone)
    check("one process", one, alone.stderr[-500:])

    result = launch(2, "--batch-size", "4", "--checkpoint-dir", "two")
    two = summary(result)
    check("two processes by torchrun", two, result.stderr[-1500:])
    if one and two:
        check("as many steps and images", (one["steps"], one["images"]) == (two["steps"], two["images"]), (one, two))
        check("they are two", two["world_size"] == 2, two["world_size"])
        for name in ("loss_first", "loss_last", "val_loss"):
            check(f"{name} is that of one process", abs(one[name] - two[name]) < 1e-3, f"{one[name]} and {two[name]}")

    # Static rendezvous: the agent's own store holds MASTER_PORT.
    port = free_port()
    static = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nnodes=1", "--node-rank=0", "--master-addr=127.0.0.1",
              f"--master-port={port}", "--nproc-per-node=2", TRAIN, "train", "bundle", *OPTIONS, "--batch-size", "4", "--checkpoint-dir", "static"]
    result = subprocess.run(static, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    check("two processes by static rendezvous", summary(result).get("world_size") == 2, result.stderr[-1500:])

    # One of two that cannot go on: torchrun ends with an error, and the log names it.
    pathlib.Path("taken").write_text("in the way")
    result = launch(2, "--batch-size", "4", "--checkpoint-dir", "taken")
    said = re.findall(r"error: .*", result.stderr)
    check("a failure ends both", result.returncode != 0 and any("taken" in line for line in said), result.stderr[-1500:])
    finish()


main()
