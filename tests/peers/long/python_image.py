"""The page tutorials/images runs as it is written; PyTorch trains in the mounted image."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from _shared import GULAR, check, finish, gular, make_pets, partition, skip

TUTORIALS = HERE.parents[3] / "tutorials"
# Packages, the files in them, and two images.
NEEDED_BYTES = 20 << 30


def inside(sif, words, name):
    """Runs a command in the mounted image and its environment, by root; what it said."""
    variables = [f"{name}={value}" for name, value in gular("image", "inspect", sif)["env"].items()]
    script = (
        'mkdir -p root && mount -t squashfs -o ro,loop,offset="$1" "$2" root && mount --bind . root/srv && mount -t proc proc root/proc && '
        'mount --rbind /dev root/dev && mount -t tmpfs tmpfs root/tmp && shift 2 && exec chroot root sh -c "cd /srv && exec \\"\\$@\\"" sh "$@"'
    )
    result = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", str(partition(sif)), sif, "env", *variables, *words], capture_output=True, text=True)
    check(name, result.returncode == 0, f"{result.stdout[-500:]} {result.stderr[-2000:]}")
    return result.stdout


def main():
    if not shutil.which("uv"):
        return skip("tutorials/images", "uv", "pip install uv")
    wheels = sorted(HERE.parents[3].glob("target/dist/gular-*.whl"), key=os.path.getmtime)
    if not wheels:
        return skip("tutorials/images", "the wheel", "cargo xtask dist")
    if shutil.disk_usage(".").free < NEEDED_BYTES:
        return skip("tutorials/images", "20 GB of disk", "free some")
    for path in [*(TUTORIALS / "images").iterdir(), TUTORIALS / "python/cats_dogs/train_gular.py", wheels[-1]]:
        shutil.copy(path, ".")
    make_pets("pets.zip")
    pathlib.Path("bin").mkdir()
    pathlib.Path("bin/gular").symlink_to(GULAR)
    page = pathlib.Path("README.md").read_text()
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S))
    env = {**os.environ, "PATH": f"{pathlib.Path('bin').absolute()}:{os.environ['PATH']}"}
    result = subprocess.run(["bash", "-euo", "pipefail", "-x"], input=commands, capture_output=True, text=True, env=env)
    check("tutorials/images runs as written", result.returncode == 0, f"{result.stdout[-1000:]} {result.stderr[-3000:]}")
    sifs = sorted(pathlib.Path(".").glob("pets-*.sif"), key=lambda path: path.stat().st_mtime)
    check("a changed script is another image", len(sifs) == 2, sifs)
    if os.geteuid() != 0:
        return skip("tutorials/images in a mount", "root", "run as root")
    sif = str(sifs[-1])
    said = inside(sif, ["python", "-c", "import torch, torchvision, gular; print(torch.__version__, torch.__cached__)"], "PyTorch is imported in the image")
    check("from its byte code", said.split()[-1:] == ["/usr/local/lib/python3.11/dist-packages/torch/__pycache__/__init__.cpython-311.pyc"], said)
    said = inside(sif, ["train.py", "bundle", "--epochs", "3", "--lr", "0.003"], "train.py trains on the bundle")
    check("and says how well", said.count("accuracy") == 3, said)


main()
finish()
