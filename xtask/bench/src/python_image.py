"""Rebuilds after a change of the program, and a cold import from the SIF beside a virtual environment.

Arguments: gular, recipe's folder, virtual environment, statement, rounds, work folder, tests/peers. One JSON object on
stdout. It mounts the image, and is started in mounts of its own.
"""

import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time
import tomllib

gular, source, venv, statement, rounds, work, peers = sys.argv[1:]
sys.path.insert(0, peers)
from _shared import partition  # noqa: E402


def timed(command):
    """Seconds of wall and of CPU."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        sys.exit(f"{command}: {result.stderr[-2000:]}")
    return {"seconds": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}, result.stdout


def build(recipe, form, out):
    measured, said = timed([gular, "image", "build", str(recipe), "--format", form, "--out", str(out), "--force", "--json"])
    return measured, json.loads(said)["outputs"][0]["path"]


def remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def rebuilds(recipe, program, out):
    """Of each format: the first build, and those after a line more in the program."""
    found, last = {}, {}
    for form in ("sif", "oci"):
        first, last[form] = build(recipe, form, out)
        found[form] = {"first": first, "again": []}
    for number in range(int(rounds)):
        for form in ("oci", "sif"):
            with program.open("a") as file:
                file.write(f"# {number} {form}\n")
            measured, path = build(recipe, form, out)
            found[form]["again"].append(measured)
            # One image of each is kept: each is large.
            remove(last[form])
            last[form] = path
    return found, last["sif"]


def imports(sif, root):
    """The statement in the mounted image and in the environment, in turn; with empty page caches, then warm."""
    ways = {"image": ["chroot", str(root), "python3", "-c", statement], "environment": [f"{venv}/bin/python3", "-c", statement]}
    found = {name: {"cold": [], "warm": []} for name in ways}
    mounts = [["mount", "-t", "squashfs", "-o", f"ro,loop,offset={partition(sif)}", sif, str(root)],
              ["mount", "-t", "tmpfs", "tmpfs", f"{root}/tmp"], ["mount", "--rbind", "/dev", f"{root}/dev"], ["mount", "-t", "proc", "proc", f"{root}/proc"]]
    for mount in mounts:
        subprocess.run(mount, check=True)
    for _ in range(int(rounds)):
        for name, command in ways.items():
            os.sync()
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
            found[name]["cold"].append(timed(command)[0])
            found[name]["warm"].append(timed(command)[0])
    return found


def main():
    here = pathlib.Path(work)
    recipe, out, root = here / "recipe", here / "out", here / "root"
    shutil.copytree(source, recipe)
    root.mkdir()
    program = recipe / tomllib.loads((recipe / "image.toml").read_text())["app"]["path"]
    builds, sif = rebuilds(recipe / "image.toml", program, out)
    record = {"rebuild": builds, "statement": statement, "sif_bytes": os.path.getsize(sif), "import": imports(sif, root)}
    for form, found in builds.items():
        again = statistics.median(run["seconds"] for run in found["again"])
        print(f"{form}: first {found['first']['seconds']:.2f} s, again {again:.2f} s", file=sys.stderr)
    for name, found in record["import"].items():
        cold, warm = (statistics.median(run["seconds"] for run in found[kind]) for kind in ("cold", "warm"))
        print(f"{statement} in the {name}: {cold:.2f} s cold, {warm:.2f} s warm", file=sys.stderr)
    print(json.dumps(record))


main()
