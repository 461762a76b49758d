"""The tutorial's image: skopeo, umoci, runc and podman take it, its documents fit the schemas, its program trains."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from _shared import check, finish, gular, make_images, run, sha, skip

BUILT = json.loads(pathlib.Path(os.environ["GULAR_IMAGES"]).read_text())
OUTPUTS = {output["format"]: output for output in BUILT["outputs"]}
LAYOUT = pathlib.Path(OUTPUTS["oci"]["path"])
ARCHIVE = pathlib.Path(OUTPUTS["oci-archive"]["path"])
SCHEMAS = pathlib.Path("/usr/share/gocode/src/github.com/opencontainers/image-spec/schema")
ROOT = os.geteuid() == 0
# Somebody who is not root: runs what must work without it.
NOBODY = 65534


def tools(name, *wanted):
    missing = [tool for tool in wanted if not shutil.which(tool)]
    if missing:
        skip(name, " and ".join(missing), f"apt-get install {' '.join(missing)}")
    return not missing


def blob(descriptor):
    """The bytes a descriptor names, their length and digest checked."""
    data = (LAYOUT / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    check(f"blob {descriptor['digest'][:15]}", (len(data), f"sha256:{sha(data)}") == (descriptor["size"], descriptor["digest"]))
    return data


def documents():
    index = json.loads((LAYOUT / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    for layer in manifest["layers"]:
        blob(layer)
    check("manifest digest", OUTPUTS["oci"]["digest"] == index["manifests"][0]["digest"] == OUTPUTS["oci-archive"]["digest"])
    layers = OUTPUTS["oci"]["layers"]
    check("diff IDs", [layer["diff_id"] for layer in layers] == config["rootfs"]["diff_ids"])
    check("layers", [layer["name"] for layer in layers] == ["base", "cuda", "libtorch", "app"], layers)
    return index, manifest, config


def schemas(index, manifest, config):
    try:
        from jsonschema import Draft4Validator
        from referencing import Registry
        from referencing.jsonschema import DRAFT4
    except ImportError:
        return skip("schemas", "jsonschema", "pip install jsonschema")
    if not SCHEMAS.is_dir():
        return skip("schemas", "OCI's schemas", "apt-get install golang-github-opencontainers-image-spec-dev")

    def schema(name):
        return json.loads((SCHEMAS / name).read_text())

    # They name each other by file names, relative to ids of many folders.
    registry = Registry(retrieve=lambda uri: DRAFT4.create_resource(schema(uri.rsplit("/", 1)[-1])))
    for name, document in {
        "image-index-schema.json": index,
        "image-manifest-schema.json": manifest,
        "config-schema.json": config,
        "image-layout-schema.json": json.loads((LAYOUT / "oci-layout").read_text()),
    }.items():
        faults = [error.message for error in Draft4Validator(schema(name), registry=registry).iter_errors(document)]
        check(f"schema {name}", not faults, faults[:3])
    validator = Draft4Validator(schema("image-manifest-schema.json"), registry=registry)
    check("schema refuses nonsense", not validator.is_valid({**manifest, "layers": "none"}))


def skopeo():
    if not tools("skopeo", "skopeo"):
        return
    for name, place in {"layout": f"oci:{LAYOUT}:latest", "archive": f"oci-archive:{ARCHIVE}:latest"}.items():
        seen = json.loads(run("skopeo", "inspect", place))
        check(f"skopeo inspect {name}", seen["Digest"] == OUTPUTS["oci"]["digest"], seen)
        config = json.loads(run("skopeo", "inspect", "--config", place))
        check(f"skopeo config {name}", config["config"]["Entrypoint"] == ["/app/bin/gular-train"], config["config"])
    run("skopeo", "copy", "--preserve-digests", f"oci:{LAYOUT}:latest", "oci:copied:v1")
    copied = json.loads(run("skopeo", "inspect", "oci:copied:v1"))
    check("skopeo copy", copied["Digest"] == OUTPUTS["oci"]["digest"])


def as_user(uid):
    """What runs a command as `uid`; nothing for who we are already."""
    return [] if uid == os.geteuid() else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def train(bundle, out, steps=3):
    """The trainer's command line inside, with the bundle and a folder mounted."""
    return ["/app/bin/gular-train", "train", "/bundle", "--checkpoint-dir", "/out/checkpoints", "--stop-after-steps", str(steps),
            "--batch-size", "8", "--size", "32", "--jobs", "1", "--torch-threads", "1", "--metrics", "/out/metrics", "--json"]


def trained(name, out):
    """Whether a training run left a checkpoint."""
    checkpoints = list(pathlib.Path(out).glob("checkpoints/*"))
    check(f"{name}: it trained", checkpoints, "there is no checkpoint")


def runc(name, uid, bundle):
    """umoci unpacks, runc runs: as root, or as a plain user without any right."""
    if not tools(name, "umoci", "runc", "setpriv"):
        return
    with tempfile.TemporaryDirectory(prefix="gular-peer-") as folder:
        os.chmod(folder, 0o755)
        home = pathlib.Path(folder) / "home"
        home.mkdir()
        os.chown(home, uid, uid)
        out = home / "out"
        shutil.copytree(LAYOUT, home / "layout")
        shutil.copytree(bundle, home / "bundle")
        out.mkdir()
        for path in [out, *home.rglob("*")]:
            os.chown(path, uid, uid, follow_symlinks=False)
        rootless = ["--rootless"] if uid else []
        user = as_user(uid)
        env = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
        run(*user, "umoci", "unpack", *rootless, "--image", f"{home}/layout:latest", f"{home}/b", env=env)
        config = json.loads((home / "b/config.json").read_text())
        check(f"{name}: umoci unpack", config["process"]["args"] == ["/app/bin/gular-train"], config["process"]["args"])
        config["process"]["terminal"] = False
        config["process"]["args"] = train(bundle, out)
        for source, inside, options in (("bundle", "/bundle", "ro"), ("out", "/out", "rw")):
            config["mounts"].append({"destination": inside, "type": "bind", "source": str(home / source), "options": ["rbind", options]})
        (home / "b/config.json").write_text(json.dumps(config))
        result = subprocess.run([*user, "runc", "--root", str(home / "state"), "run", "--bundle", str(home / "b"), "x"],
                                capture_output=True, text=True, env=env, cwd=home)
        # 85: checkpointed, to be run again.
        check(f"{name}: runc run", result.returncode in (0, 85), f"{result.returncode}: {result.stderr[-800:]}")
        trained(name, out)


def podman(bundle):
    if not tools("podman", "podman", "runc"):
        return
    out = pathlib.Path("podman-out").absolute()
    out.mkdir()
    # Its storage on this file system, with the plainest driver: there may be an overlay below. Its runtime folder
    # in /tmp, since podman refuses one of more than 50 characters.
    run_root = tempfile.mkdtemp(prefix="gular-peer-", dir="/tmp")
    place = ["--root", str(pathlib.Path("podman-root").absolute()), "--runroot", run_root]
    flags = ["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime", "runc"]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    mounts = ["-v", f"{pathlib.Path(bundle).absolute()}:/bundle:ro", "-v", f"{out}:/out"]
    arguments = train(bundle, out)[1:]
    result = subprocess.run(["podman", *place, *flags, "run", "-q", "--rm", "--network=none", *limits, *mounts,
                             f"oci:{LAYOUT}:latest", *arguments], capture_output=True, text=True)
    check("podman run", result.returncode in (0, 85), f"{result.returncode}: {result.stderr[-800:]}")
    trained("podman", out)
    subprocess.run(["podman", *place, *flags, "system", "reset", "--force"], capture_output=True)
    shutil.rmtree(run_root, ignore_errors=True)


def main():
    schemas(*documents())
    skopeo()
    make_images("images", 40)
    gular("pack", "images", "bundle")
    if ROOT:
        runc("root", 0, "bundle")
        runc("plain user", NOBODY, "bundle")
        podman("bundle")
    else:
        runc("plain user", os.geteuid(), "bundle")
    finish()


main()
