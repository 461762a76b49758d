#!/usr/bin/env python3
"""The verbs of the real Pelican client, and its plug-in for HTCondor, against `gular federation serve`.

Run in an empty folder with GULAR_BIN set and `pelican` in PATH; needs no Python package. Prints `ok NAME` or
`fail NAME: why` for each; with `--list` only their names.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

GULAR = os.environ.get("GULAR_BIN", "gular")
HERE = pathlib.Path.cwd()
FAILED = []


def surroundings(**more):
    """Ours, without tokens, settings and certificates of the user's."""
    led = ("SSL_CERT_", "PELICAN_", "OSDF_", "BEARER_TOKEN", "XDG_", "_CONDOR")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(led) and k != "TOKEN"}
    return kept | {"HOME": str(HERE), "NO_PROXY": "localhost,127.0.0.1"} | more


def gular(*args, **more):
    return subprocess.run([GULAR, *args], check=True, capture_output=True, text=True, **more).stdout


@contextlib.contextmanager
def federation(folder):
    command = [GULAR, "federation", "serve", "--json", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def token(folder, name, *scopes):
    file = HERE / name
    file.write_text(gular("federation", "token", folder, *(w for scope in scopes for w in (f"--{scope}", "/"))))
    return file


class Client:
    def __init__(self, said, folder):
        self.url = said["url"]
        self.environment = surroundings(SSL_CERT_FILE=said["ca"])
        self.token = token(folder, "token", "read", "create", "modify")
        # Without `modify`, as ordinary users have it.
        self.weak = token(folder, "weak", "read", "create")

    def __call__(self, verb, *args, fails=False, token=None):
        """What `pelican object VERB` prints."""
        command = ["pelican", "object", verb, "--token", token or self.token, *args]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=120)
        said = (done.stdout + done.stderr)[-2000:]
        assert (done.returncode != 0) == fails, f"exit code {done.returncode}: {said}"
        return done.stdout

    def plugin(self, infile, outfile):
        program = HERE / "pelican_plugin"
        if not program.exists():
            program.symlink_to(shutil.which("pelican"))
        environment = self.environment | {"BEARER_TOKEN_FILE": str(self.token)}
        command = [program, "-infile", infile, "-outfile", outfile]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def make_tree():
    """A bundle, and files of several lengths in folders."""
    tree, chance = HERE / "tree", random.Random(1)
    for name, n in {"empty": 0, "a/one": 1, "a/b/block": 1 << 20, "a/b/large": 5_000_001}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(chance.randbytes(n))
    for i in range(12):
        image = HERE / "images" / f"class{i % 2}" / f"{i}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(b"\xff\xd8\xff\xe0" + chance.randbytes(200_000))
    bundle = HERE / "bundle"
    gular("pack", HERE / "images", bundle, "--shard-size", "1MiB", "--check-images", "none", "--quiet")
    return tree, bundle


def one_object(client, tree):
    url = f"{client.url}/one/large"
    client("put", tree / "a/b/large", url)
    client("get", url, HERE / "got")
    assert (HERE / "got").read_bytes() == (tree / "a/b/large").read_bytes()
    stat = client("stat", "--checksums", "crc32c", url)
    assert "Size: 5000001" in stat and re.search(r"crc32c: [0-9a-f]{8}\b", stat), stat
    listed = client("ls", "-l", f"{client.url}/one")
    assert "large" in listed and "5000001" in listed, listed


def a_tree(client, tree):
    url = f"{client.url}/tree"
    client("put", "-r", tree, url)
    client("get", "-r", url, HERE / "got-tree")
    assert files(HERE / "got-tree") == files(tree), sorted(files(HERE / "got-tree"))
    used = client("du", url)
    assert str(sum(map(len, files(tree).values()))) in used, used
    client("prestage", f"{url}/a/b/block")


def sync(client, tree):
    url = f"{client.url}/synced"
    client("sync", tree, url)
    (tree / "a/late").write_bytes(b"late")
    client("sync", tree, url)
    client("sync", url, HERE / "got-sync")
    assert files(HERE / "got-sync") == files(tree), sorted(files(HERE / "got-sync"))


def delete(client, tree):
    url = f"{client.url}/deleted"
    client("put", "-r", tree, url)
    client("delete", f"{url}/a/one", token=client.weak, fails=True)
    client("stat", f"{url}/a/one")
    client("delete", f"{url}/a/one")
    assert "one" not in client("ls", f"{url}/a")
    client("delete", f"{url}/a/one", fails=True)
    client("delete", url, fails=True)
    client("delete", "-r", url)
    assert "deleted" not in client("ls", client.url)


def plugin(client, tree):
    """What HTCondor runs on an execute point."""
    url = f"{client.url}/plugin"
    client("put", "-r", tree, url)
    wanted = {"a/one": HERE / "plug-one", "a/b/large": HERE / "plug-large"}
    ads = [f'[ Url = "{url}/{name}"; LocalFileName = "{to}" ]' for name, to in wanted.items()]
    (HERE / "in.ad").write_text("\n".join(ads))
    client.plugin(HERE / "in.ad", HERE / "out.ad")
    out = (HERE / "out.ad").read_text()
    assert out.count("TransferSuccess = true") == len(wanted), out
    for name, to in wanted.items():
        assert to.read_bytes() == (tree / name).read_bytes(), f"{name} has other bytes"


def bundle_put_as_it_is(client, bundle, said):
    """What the client put up is a bundle to us, fetched and verified."""
    url = f"{client.url}/photos/v1"
    client("put", "-r", bundle, url)
    environment = surroundings(SSL_CERT_FILE=said["ca"], BEARER_TOKEN_FILE=str(client.token))
    gular("fetch", url, HERE / "fetched", env=environment)
    assert files(HERE / "fetched") == files(bundle)
    gular("verify", url, env=environment)


def published_bundle_is_got(client, bundle, said):
    """What we published is got by the client, and opens as it is, without its URL."""
    environment = surroundings(SSL_CERT_FILE=said["ca"], BEARER_TOKEN_FILE=str(client.token))
    gular("publish", bundle, f"{client.url}/birds/v1", env=environment)
    client("get", "-r", f"{client.url}/birds", HERE / "birds")
    gular("verify", HERE / "birds/v1")


def report(name, test, *args):
    try:
        test(*args)
        print(f"ok federation_client::{name}", flush=True)
    except Exception as error:  # Each is a finding, and the next is wanted too.
        why = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
        FAILED.append(name)
        print(f"fail federation_client::{name}:", " ".join(str(why).split())[:2000], flush=True)


OF_A_TREE = (one_object, a_tree, sync, delete, plugin)
OF_A_BUNDLE = (bundle_put_as_it_is, published_bundle_is_got)


def main():
    if sys.argv[1:] == ["--list"]:
        print(*(test.__name__ for test in OF_A_TREE + OF_A_BUNDLE), sep="\n")
        return 0
    tree, bundle = make_tree()
    with federation(HERE / "federation") as said:
        client = Client(said, HERE / "federation")
        for test in OF_A_TREE:
            report(test.__name__, test, client, tree)
        for test in OF_A_BUNDLE:
            report(test.__name__, test, client, bundle, said)
    return 1 if FAILED else 0


sys.exit(main())
