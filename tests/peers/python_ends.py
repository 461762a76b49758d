"""The package `gular` where a program ends in the middle of it: Ctrl-C, and daemon threads at exit.

No case may end by a signal: Rust threads do not call functions of the user, and threads of Python do
not come back to an interpreter that ends.
"""

import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import numpy as np
except ImportError as missing:
    print(f"skip python_ends: {missing.name} missing, install: pip install numpy")
    sys.exit(0)

from _shared import GULAR, check, finish, make_images, run

#: How often each case is tried. Before it was mended, it failed in most tries.
TRIES = 6

SELECTING = """
import sys, time, gular
def is_used(sample):
    print(sample.number, flush=True)
    time.sleep(0.05)
    return True
{made}
"""

DAEMONS = """
import sys, threading, time, gular
sys.path.insert(0, ".")
import own
def run():
    while True:
        {body}
for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.4)
"""


def ended(code, interrupt_after=None):
    """How a program ended, and the end of what it said."""
    env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"]}
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        # A shell starts what runs in the background with Ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if interrupt_after is not None:
        for _ in range(interrupt_after):
            program.stdout.readline()
        program.send_signal(signal.SIGINT)
    try:
        said = program.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        program.kill()
        return "a hang", program.communicate()[1][-400:]
    return program.returncode, said[-400:]


def selecting():
    for name, made in {
        "a loader": "gular.DataLoader('bundle', batch_size=7, select=is_used)",
        "a loader of a Mix": "gular.Mix([(gular.DataLoader('bundle', select=is_used), 1)])",
        "the length of a GularIterable": "len(gular.GularIterable('bundle', select=is_used))",
    }.items():
        for attempt in range(TRIES):
            code, said = ended(SELECTING.format(made=made), interrupt_after=1 + attempt)
            # Python ends by the signal itself once it has reported the exception.
            right = code in (1, 130, -signal.SIGINT) and "KeyboardInterrupt" in said and "in is_used" in said
            check(f"Ctrl-C inside `select` of {name}, try {attempt}", right, f"{code}: {said}")
    code, said = ended(SELECTING.format(made="gular.DataLoader('bundle', select=lambda sample: sample.nothing)"))
    check("an exception of `select` has its traceback", code == 1 and "in <lambda>" in said, f"{code}: {said}")


def daemons():
    for name, body in {
        "iterates": "list(gular.DataLoader('bundle', batch_size=7, size=32, output='numpy'))",
        "makes loaders with a function": "gular.DataLoader('bundle', select=lambda sample: True, output='numpy')",
        "calls `each` in processes": "list(gular.DataLoader('bundle', batch_size=7, size=32, output='numpy', each=own.each, workers=1))",
        "calls `each` in threads": "list(gular.DataLoader('bundle', batch_size=7, size=32, output='numpy', each=own.each, each_in='threads'))",
        "reads samples": "[gular.GularDataset('bundle', decode=True)[i] for i in range(20)]",
    }.items():
        for attempt in range(TRIES):
            code, said = ended(DAEMONS.format(body=body))
            check(f"a daemon thread that {name} at exit, try {attempt}", code == 0, f"{code}: {said}")


if __name__ == "__main__":
    make_images()
    run(GULAR, "pack", "images", "bundle", "--quiet")
    pathlib.Path("own.py").write_text("def each(sample, rng):\n    return sample\n")
    selecting()
    daemons()
    print(f"numpy {np.__version__}")
    finish()
