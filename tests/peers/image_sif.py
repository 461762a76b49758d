"""The tutorial's SIF: every reader mounts it, its libraries are the wheel's, its program trains from inside."""

import json
import os
import pathlib
import subprocess

from _shared import apptainer_command, check, finish, gular, make_images, partition, run, sha, skip, squashfs_readers

BUILT = json.loads(pathlib.Path(os.environ["GULAR_IMAGES"]).read_text())
SIF = pathlib.Path(next(output["path"] for output in BUILT["outputs"] if output["format"] == "sif"))
ROOT = os.geteuid() == 0
PROGRAM = "/app/bin/gular-train"
ARGUMENTS = ["--stop-after-steps", "3", "--batch-size", "8", "--size", "32", "--jobs", "1", "--torch-threads", "1"]
# Checkpointed, to be run again.
STOPPED = 85


def libraries(root):
    """The libraries are byte for byte those of the wheel that pip installs."""
    found = sorted(path.name for path in (root / "app/lib").iterdir())
    check("libraries", "libtorch_cpu.so" in found and "libc10.so" in found, found)
    check("no driver inside", not [name for name in found if name.startswith(("libcuda.so", "libnvidia"))], found)
    check("no CUDA in the CPU image", "libtorch_cuda.so" not in found, found)
    import importlib.util

    torch = importlib.util.find_spec("torch")
    if torch is None:
        return skip("libraries are the wheel's", "torch", "pip install torch==2.11.0")
    folder = pathlib.Path(torch.origin).parent / "lib"
    for name in ("libtorch_cpu.so", "libc10.so"):
        same = sha((root / "app/lib" / name).read_bytes()) == sha((folder / name).read_bytes())
        check(f"{name} is the wheel's", same)
    check("licences", list((root / "usr/share/licenses/torch").rglob("*LICENSE*")), "no licence of torch")


def inside(root):
    """What Apptainer looks for, and what scanners read."""
    wanted = ["runscript", "test", "labels.json", "env/99-base.sh", "env/90-environment.sh", "actions/exec"]
    missing = [name for name in wanted if not (root / ".singularity.d" / name).is_file()]
    check("/.singularity.d", not missing, missing)
    sbom = json.loads(next((root / "usr/share/sbom").glob("*.json")).read_text())
    names = {package["name"] for package in sbom["packages"]}
    check("list of contents", {"bash", "libc6", "torch"} <= names, sorted(names)[:20])
    beside = json.loads(SIF.with_suffix(".spdx.json").read_text())
    check("list of contents beside", beside == sbom)
    status = (root / "var/lib/dpkg/status.d/bash").read_text()
    check("status.d", status.startswith("Package: bash\n") and "Version: " in status, status[:60])


def trains(name, command, out, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    check(f"{name}: it ran", result.returncode in (0, STOPPED), f"{result.returncode}: {result.stderr[-800:]}")
    check(f"{name}: it trained", list(out.glob("checkpoints/*")), "there is no checkpoint")


def in_a_mount(root):
    """The program, in the mounted image and nothing else."""
    out = pathlib.Path("mount-out").absolute()
    out.mkdir()
    # What every runtime mounts: /proc, /dev, /tmp.
    script = (
        'mount --bind "$2" "$1/srv" && mount --bind "$3" "$1/home" && mount -t proc proc "$1/proc" && '
        'mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" && shift 3 && exec chroot "$@"'
    )
    words = [root, pathlib.Path("bundle").absolute(), out, root, PROGRAM, "train", "/srv", "--checkpoint-dir", "/home/checkpoints", *ARGUMENTS]
    trains("kernel mount", ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", *map(str, words)], out)


def apptainer():
    """Only where it is installed: there is no package of it to install."""
    program = apptainer_command()
    if not program:
        for name in ("test", "exec", "inspect", "run"):
            skip(f"image_sif: {name}", "apptainer", "see https://apptainer.org/docs/admin/latest/installation.html")
        return
    out = pathlib.Path("apptainer-out").absolute()
    out.mkdir()
    for verb, words in {"test": [], "exec": ["sh", "-c", ":"], "inspect": []}.items():
        if verb == "inspect":
            labels = json.loads(run(*program, "inspect", "--json", str(SIF)))["data"]["attributes"]["labels"]
            check("apptainer inspect", "org.opencontainers.image.title" in labels, labels)
        else:
            run(*program, "-s", verb, "--no-home", "-C", str(SIF), *words)
            check(f"apptainer {verb}", True)
    binds = ["-B", f"{pathlib.Path('bundle').absolute()}:/srv", "-B", f"{out}:/opt"]
    trains("apptainer run", [*program, "-s", "run", "--no-home", "-C", *binds, str(SIF), "train", "/srv", "--checkpoint-dir", "/opt/checkpoints", *ARGUMENTS], out)


def main():
    make_images("images", 40)
    gular("pack", "images", "bundle")
    for name, reader in squashfs_readers(partition(SIF)).items():
        with reader(SIF) as root:
            root = pathlib.Path(root).absolute()
            inside(root)
            libraries(root)
            if name == "kernel" and ROOT:
                in_a_mount(root)
    apptainer()
    finish()


main()
