#!/usr/bin/env python3
"""`gular login` with the real `pelican credentials token get` and the issuer of a real origin.

Run in an empty folder with GULAR_BIN set and `pelican` in PATH; needs no Python package. Prints `ok NAME` or
`fail NAME: why` for each; with `--list` only their names. The part of the browser is played here: what a user
does in the device flow of OAuth is to log in and to approve a code.
"""

import http.cookiejar
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

from federation import PASSWORD, USER, Federation, surroundings, version

GULAR = os.environ.get("GULAR_BIN", "gular")
HERE = pathlib.Path.cwd()
FAILED = []


class Browser:
    """Logs in at the issuer of a namespace, and answers what a program asks there."""

    def __init__(self, federation):
        self.base = f"https://localhost:{federation.front}"
        self.device = f"{self.base}/api/v1.0/issuer/ns{federation.namespace}/device"
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=federation.ca)),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            urllib.request.ProxyHandler({}),
        )
        form = urllib.parse.urlencode({"user": USER, "password": PASSWORD}).encode()
        self.opener.open(f"{self.base}/api/v1.0/auth/login", form, timeout=30).read()

    def answer(self, code, action):
        with self.opener.open(f"{self.device}?user_code={code}", timeout=30) as page:
            csrf = json.load(page)["csrf_token"]
        said = json.dumps({"user_code": code, "action": action, "csrf_token": csrf}).encode()
        request = urllib.request.Request(self.device, said, {"Content-Type": "application/json"})
        self.opener.open(request, timeout=30).read()


class Site:
    def __init__(self, federation):
        self.federation, self.browser = federation, Browser(federation)
        self.home = HERE / "home"
        (self.home / "run").mkdir(parents=True, mode=0o700)

    def environment(self):
        return surroundings() | {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "SSL_CERT_FILE": str(self.federation.ca),
        }

    def login(self, *args, action):
        """Exit code and output of `gular login`; its code gets `action` in the browser."""
        process = subprocess.Popen(
            [GULAR, "login", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=self.environment(), cwd=self.home,
        )
        said, errors = [], []

        def follow():
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"user_code=([A-Za-z0-9-]+)", line):
                    try:
                        self.browser.answer(found[1], action)
                    except (OSError, KeyError, ValueError) as error:
                        errors.append(error)

        follower = threading.Thread(target=follow)
        follower.start()
        try:
            printed = process.stdout.read()
            code = process.wait(120)
        finally:
            process.kill()
            follower.join()
        assert not errors, errors
        return code, printed + "".join(said)

    def gular(self, *args):
        done = subprocess.run([GULAR, *args], capture_output=True, text=True, env=self.environment(), timeout=120)
        assert done.returncode == 0, f"{args[0]} ends with {done.returncode}: {done.stderr[-2000:]}"
        return done.stdout


def token_to_write_and_to_read(site):
    """Both are approved, kept for their owner alone, and found; neither is shown."""
    url = f"{site.federation.url}/{USER}/things"
    write, source = site.home / "write", HERE / "source"
    code, said = site.login("--write", "--token-file", write, url, action="approve")
    assert code == 0, said
    assert "storage.create" in said and write.read_text().strip() not in said, said
    assert write.stat().st_mode & 0o777 == 0o600
    source.write_bytes(os.urandom(100_000))
    site.gular("publish", source, f"{url}/thing", "--token", write)
    code, said = site.login(url, action="approve")
    assert code == 0, said
    usual = site.home / f"run/bt_u{os.getuid()}"
    assert "storage.read" in said and usual.read_text().strip() not in said, said
    assert usual.stat().st_mode & 0o777 == 0o600
    site.gular("fetch", f"{url}/thing", HERE / "fetched")
    assert (HERE / "fetched/thing").read_bytes() == source.read_bytes()


def request_that_is_refused(site):
    """Nothing is kept, and what the program says is shown."""
    beside = site.home / "refused"
    code, said = site.login("--token-file", beside, f"{site.federation.url}/other/things", action="deny")
    assert code == 2, said
    assert "denied" in said and "`pelican credentials token get` failed" in said and "hint: " in said, said
    assert not beside.exists()


TESTS = (token_to_write_and_to_read, request_that_is_refused)


def report(test, site):
    try:
        test(site)
        print(f"ok federation_login::{test.__name__}", flush=True)
    except Exception as error:  # Each is a finding, and the next is wanted too.
        FAILED.append(test)
        print(f"fail federation_login::{test.__name__}:", " ".join(str(error).split())[:2000], flush=True)


def main():
    if sys.argv[1:] == ["--list"]:
        print(*(test.__name__ for test in TESTS), sep="\n")
        return 0
    print(f"| {version()}", flush=True)
    with Federation("login", HERE / "federation") as federation:
        site = Site(federation)
        for test in TESTS:
            report(test, site)
    return 1 if FAILED else 0


sys.exit(main())
