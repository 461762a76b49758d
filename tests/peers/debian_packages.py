"""Debian packages work in an image as Debian installs them, and another build gives the same bytes."""

import os
import pathlib
import shutil
import subprocess

from _packages import DEFAULT, FEW, build, check_rows, inside, root_of
from _shared import GULAR, check, finish, gular, skip

PACKAGES = [package for package, _, _ in FEW]


def again(sif):
    """Fetched once, built with an empty cache: scripts are run again, and make the same image."""
    vendor = pathlib.Path("vendor")
    gular("image", "lock", "few.toml", "--vendor", vendor)
    environment = {**os.environ, "GULAR_IMAGE_CACHE": str(pathlib.Path("other-cache").absolute())}
    words = [GULAR, "image", "build", "few.toml", "--locked", "--offline", "--from-vendor", vendor, "--out", "again"]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    check("an empty cache is enough", result.returncode == 0, result.stderr[-2000:])
    check("no script made anything that differs", "differs each time" not in result.stderr, result.stderr[-2000:])
    made = [path.name for path in pathlib.Path("again").glob("*.sif")]
    check("the same image is made again", made == [pathlib.Path(sif).name], made)
    # What is cached is taken: nothing is run, so that no tool is needed.
    words[-1] = "cached"
    bare = pathlib.Path("bare")
    bare.mkdir()
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, env={**environment, "PATH": str(bare)})
    made = [path.name for path in pathlib.Path("cached").glob("*.sif")]
    check("the scripts' result is cached", made == [pathlib.Path(sif).name], f"{made} {result.stderr[-2000:]}")


def without_scripts():
    """What needs its scripts is named where they cannot be run; what is known from reading them is done."""
    words = [GULAR, "image", "build", "few.toml", "--dry-run"]
    # As `unshare` ends where the kernel forbids namespaces.
    unshare = pathlib.Path("bare/unshare")
    unshare.write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    environment = {**os.environ, "GULAR_IMAGE_CACHE": str(pathlib.Path("third-cache").absolute()), "PATH": str(pathlib.Path("bare").absolute())}
    vendor = ["--locked", "--offline", "--from-vendor", "vendor"]
    refused = subprocess.run([*words, *vendor], capture_output=True, text=True, env=environment)
    named = "maintainer scripts" in refused.stderr and "`libgvc6`" in refused.stderr and "Operation not permitted" in refused.stderr
    check("without namespaces, packages are named", refused.returncode == 2 and named, refused.stderr[-2000:])
    told = subprocess.run([*words, *vendor, "--no-scripts"], capture_output=True, text=True, env=environment)
    check("or left as they are", "libgvc6" in told.stderr and "scripts were not run" in told.stderr, told.stderr[-2000:])


def main():
    allowed = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True)
    if allowed.returncode:
        return skip("maintainer scripts", "user namespaces", "allow them: sysctl kernel.unprivileged_userns_clone=1")
    if not shutil.which("unsquashfs") and os.geteuid() != 0:
        return skip("maintainer scripts", "unsquashfs", "apt-get install squashfs-tools")
    sif = build("few", PACKAGES)
    with root_of(sif) as root:
        check_rows(root, DEFAULT + FEW)
        said = inside(root, "python3 -c 'import json, sys; print(json.__cached__)' && python3 -v -c 'import json' 2>&1 | grep -c 'code object from /usr/lib/python3.11/json'")
        fresh = said.stdout.split()
        check("Debian's Python has byte code", len(fresh) == 2 and fresh[1] == "0", said.stdout + said.stderr[-500:])
    again(sif)
    without_scripts()
    return None


main()
finish()
