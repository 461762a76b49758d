"""A step of a recipe builds a program of its own with Debian's compiler: the same bytes for root, for a user, and again."""

import json
import os
import pathlib
import shutil
import subprocess

from _packages import inside, root_of
from _shared import GULAR, check, finish, gular, skip

MAKEFILE = """PREFIX = /opt
install: solver
\tinstall -D -o nobody --group=nobody -m 755 solver $(PREFIX)/bin/solver
solver: solver.c
\t$(CC) -O2 -g -o $@ $<
"""
PROGRAM = '#include <stdio.h>\nint main(void) { printf("%d\\n", 6 * 7); return 0; }\n'
RECIPE = """[image]
name = "steps"
[base]
packages = ["default", "gcc", "libc6-dev", "make", "python3-pip"]
[app.files]
"src/solver" = "solver"
"tmp/Makefile" = "solver/Makefile"

[[run]]
script = '''
grep -q solver /tmp/Makefile
make install PREFIX=/usr/local
rm -rf /src
echo /opt/lib >/etc/ld.so.conf.d/opt.conf
ldconfig
'''
workdir = "/src/solver"

[[run]]
script = '''
mkdir -p lone && touch lone/__init__.py
printf '%s\\n' 'from setuptools import setup' 'setup(name="lone", version="1", packages=["lone"])' >setup.py
pip install --no-deps --no-build-isolation .
solver | grep 42
tar cf /tmp/x.tar --owner=7 --group=7 lone && tar xf /tmp/x.tar -C /opt
'''
workdir = "/tmp/lone"
"""


def build(out, cache, *more, user=False):
    """Builds the recipe with a cache; the JSON object, or what was said."""
    words = [GULAR, "image", "build", "steps.toml", "--out", out, "--json", "--from-vendor", "vendor", *more]
    if user:
        words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *words]
    environment = {**os.environ, "GULAR_IMAGE_CACHE": str(pathlib.Path(cache).absolute())}
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    return json.loads(result.stdout) if result.returncode == 0 else result.stderr


def main():
    allowed = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True)
    if allowed.returncode:
        return skip("steps of a recipe", "user namespaces", "allow them: sysctl kernel.unprivileged_userns_clone=1")
    if not shutil.which("unsquashfs") and os.geteuid() != 0:
        return skip("steps of a recipe", "unsquashfs", "apt-get install squashfs-tools")
    # A user must be able to read it.
    pathlib.Path().chmod(0o755)
    solver = pathlib.Path("solver")
    solver.mkdir()
    (solver / "Makefile").write_text(MAKEFILE)
    (solver / "solver.c").write_text(PROGRAM)
    pathlib.Path("steps.toml").write_text(RECIPE)
    gular("image", "lock", "steps.toml", "--vendor", "vendor")
    refused = build("locked", "cache", "--locked")
    check("a lock without results is not enough", "has no result of step 1" in refused, refused)
    built = build("first", "cache")
    if isinstance(built, str):
        return check("the image is built", False, built)
    errors = [finding for finding in built["check"]["findings"] if finding["severity"] == "error"]
    check("the image is built", not errors, errors)
    check("both steps are reproducible", [step["reproducible"] for step in built["steps"]] == [True, True], built["steps"])
    sif = built["outputs"][0]
    with root_of(sif["path"]) as root:
        said = inside(root, "solver && python3 -c 'import lone; print(lone.__file__)' && ls /src /opt/lone")
        check("what the steps made works", said.stdout.startswith("42\n/usr/local/lib/python3"), said.stdout + said.stderr[-500:])
        check("what they removed is gone", "/src" in said.stderr and "__init__.py" in said.stdout, said.stdout + said.stderr[-500:])
    again = build("again", "other", "--locked", "--offline")
    same = not isinstance(again, str) and again["outputs"][0]["digest"] == sif["digest"]
    check("an empty cache gives the same image", same and not again["steps"][0]["was_there"], again)
    if os.geteuid() == 0:
        for folder in ["users", "users-cache"]:
            pathlib.Path(folder).mkdir()
            shutil.chown(folder, 65534, 65534)
        users = build("users", "users-cache", "--locked", "--offline", user=True)
        same = not isinstance(users, str) and users["outputs"][0]["digest"] == sif["digest"]
        check("so does an ordinary user", same, users)
    refused = build("without", "cache", "--no-scripts")
    check("without scripts, the step is named", "cannot be run" in refused and "step 1" in refused, refused)
    return None


main()
finish()
