#!/usr/bin/env python3
"""Servers of the real Pelican that fail while a cache holds every byte: bundles are read on.

Run in an empty folder with GULAR_BIN set and `pelican` in PATH; needs no Python package. Prints `ok NAME` or
`fail NAME: why` for each; with `--list` only their names. Director, origin and cache are processes of their own.
The checks follow one another, on one federation.
"""

import filecmp
import os
import pathlib
import random
import subprocess
import sys
import time

from federation import Federation, surroundings, version

GULAR = os.environ.get("GULAR_BIN", "gular")
HERE = pathlib.Path.cwd()
FAILED = []

# A director that was started within five minutes answers 429 when it knows no origin, and 404 later. Who has the
# route of before, or a cache to prefer, does not wait for that.
HASTE_SECONDS = 60


class Site:
    """A federation with a published bundle, and who fetches it."""

    def __init__(self, federation):
        self.federation, self.n_fetched = federation, 0
        self.bundle = make_bundle()
        self.url = f"{federation.url}/birds/v1"
        self.digest_url = self.gular("publish", self.bundle, self.url).split()[-1]
        # What a job before the fault leaves: copies in the cache, and the route in the folder of the node.
        self.check_fetch(self.url)

    def gular(self, *args, node="node", fails=None, **more):
        """What it prints; it must end with exit code `fails`, or 0."""
        environment = surroundings() | {
            "HOME": str(HERE),
            "SSL_CERT_FILE": str(self.federation.ca),
            "BEARER_TOKEN_FILE": str(self.federation.token),
            "GULAR_CACHE": str(HERE / node),
        }
        done = subprocess.run(
            [GULAR, *args], capture_output=True, text=True, timeout=300, env=environment | more
        )
        said = done.stdout + done.stderr
        assert done.returncode == (fails or 0), f"{args[0]} ends with {done.returncode}: {said[-2000:]}"
        return said if fails else done.stdout

    def check_fetch(self, url, **how):
        """A whole copy comes, without long waits."""
        self.n_fetched += 1
        to, began = HERE / f"copy{self.n_fetched}", time.monotonic()
        self.gular("fetch", url, to, **how)
        assert time.monotonic() - began < HASTE_SECONDS, f"it took {time.monotonic() - began:.0f} s"
        same_tree(self.bundle, to)

    def faulty(self, role):
        """What `gular doctor` says of servers of that role that fail."""
        said = self.gular("doctor", self.url, fails=1)
        lines = [line for line in said.splitlines() if line.startswith(role) and " FAULT " in line]
        assert lines, said
        return lines


def make_bundle():
    chance = random.Random(1)
    for i in range(12):
        image = HERE / "images" / f"class{i % 2}" / f"{i}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(b"\xff\xd8\xff\xe0" + chance.randbytes(200_000))
    bundle = HERE / "bundle"
    command = [GULAR, "pack", HERE / "images", bundle, "--shard-size", "1MiB", "--check-images", "none", "--quiet"]
    subprocess.run(command, check=True)
    return bundle


def same_tree(one, other):
    compared = filecmp.dircmp(one, other, ignore=[])
    odd = compared.left_only + compared.right_only + compared.diff_files + compared.funny_files
    assert not odd, f"`{other}` differs: {odd}"
    for name in compared.common_files:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    for name in compared.common_dirs:
        same_tree(one / name, other / name)


def origin_killed(site):
    """The director does not know of it, and names the cache; nobody needs the origin."""
    site.federation.origin.kill()
    for url in (site.url, site.digest_url):
        site.check_fetch(url)
        site.check_fetch(url, node="new-node")
    site.gular("verify", site.url)
    assert "cannot connect" in site.faulty("origin")[0]


def origin_said_goodbye(site):
    """The director names nobody any more: the route of before serves, or a cache that the user names."""
    federation = site.federation
    federation.restart_origin()
    federation.origin.stop()
    assert federation.asked()[0] in (404, 429), federation.asked()
    site.check_fetch(site.digest_url)
    site.gular("verify", site.digest_url)
    cache = f"https://localhost:{federation.cache.port}"
    site.check_fetch(site.digest_url, node="newer-node", PELICAN_CLIENT_PREFERREDCACHES=cache)


def director_killed(site):
    """The same when there is no director at all."""
    site.federation.director.kill()
    site.check_fetch(site.digest_url)
    site.gular("verify", site.digest_url)
    cache = f"https://localhost:{site.federation.cache.port}"
    site.check_fetch(site.digest_url, node="newest-node", PELICAN_CLIENT_PREFERREDCACHES=cache)


TESTS = (origin_killed, origin_said_goodbye, director_killed)


def report(test, site):
    try:
        test(site)
        print(f"ok federation_outage::{test.__name__}", flush=True)
    except Exception as error:  # Each is a finding, and the next is wanted too.
        FAILED.append(test)
        print(f"fail federation_outage::{test.__name__}:", " ".join(str(error).split())[:2000], flush=True)


def main():
    if sys.argv[1:] == ["--list"]:
        print(*(test.__name__ for test in TESTS), sep="\n")
        return 0
    print(f"| {version()}", flush=True)
    with Federation("apart", HERE / "federation") as federation:
        site = Site(federation)
        for test in TESTS:
            report(test, site)
    return 1 if FAILED else 0


sys.exit(main())
