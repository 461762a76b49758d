"""The tutorial's image with CUDA is built and checked.

Fetches the wheels of torch with NVIDIA's libraries, about 3 GB from PyPI, and Debian packages, 100 MB from
deb.debian.org or snapshot.debian.org; what the cache of images has is not fetched again.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from _shared import GULAR, check, finish, gular, skip

TUTORIAL = HERE.parents[3] / "tutorials/train"
# Wheels, the files in them, and one image.
NEEDED_BYTES = 16 << 30


def main():
    if shutil.disk_usage(".").free < NEEDED_BYTES:
        return skip("the image with CUDA", "16 GB of disk", "free some")
    for name in ("image-cuda.toml", "image-cuda.lock"):
        shutil.copy(TUTORIAL / name, ".")
    # The trainer without a GPU is as good: the libraries are those of the recipe.
    built = gular("image", "build", "image-cuda.toml", "--locked", "--out", "out", "--program", os.environ["GULAR_IMAGE_PROGRAM"])
    errors = [finding for finding in built["check"]["findings"] if finding["severity"] == "error"]
    check("the image with CUDA is built", not errors and len(built["outputs"]) == 1, errors)
    wanted = set(tomllib.loads(pathlib.Path("image-cuda.toml").read_text())["target"]["gpus"])
    facts = built["facts"]
    # Code for 8.6 runs on 8.9, and is all that some libraries have for it.
    rows = built["check"]["gpus"]["rows"]
    runs = {row["capability"] for row in rows if row["runs"] == "yes"}
    check("it runs on its GPUs", wanted <= runs, rows)
    [arm] = [row for row in rows if row["name"] == "GH200"]
    check("but not where the CPU is another", arm["runs"] == "no" and "linux/arm64" in arm["why"], arm)
    check("and a driver to ask for", bool(facts["minimum_driver"]) and facts["cuda_runtime"].startswith("13."), facts)
    sif = built["outputs"][0]["path"]
    checked = gular("image", "check", sif)
    check("the file itself is checked", checked["facts"]["capabilities"] == facts["capabilities"], checked["facts"])
    # CUDA 13 has no code for it.
    refused = subprocess.run([GULAR, "image", "check", sif, "--capabilities", "7.0"], capture_output=True, text=True)
    check("a V100 is refused", refused.returncode == 1 and "7.0" in refused.stderr, refused.stderr)
    shutil.rmtree("out")
    return None


main()
finish()
