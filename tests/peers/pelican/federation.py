#!/usr/bin/env python3
"""A whole federation of the real Pelican on loopback: director, registry, origin and cache.

federation.py box DIR      one process serves all; its namespace takes tokens for reading too
federation.py origin DIR   the namespace is that of a second origin, in a process of its own, read by all
federation.py posc DIR     the same; a cut upload leaves no object there (`Origin.Posc`)

Needs the program `pelican`, client and server, in PATH, and no Python package. Prints one JSON object once it
serves: `url` of the namespace, `ca`, `token` (a file: storage.read, create and modify), `version`, `pids` by
name, `logs`. It ends when its standard input does. All files are in DIR.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

# Certificates and two servers' first start; some seconds on an idle machine.
PATIENCE_SECONDS = 180

FRONT = """\
ConfigBase: {dir}/conf
RuntimeDir: {dir}/run
Logging:
  Level: info
Server:
  Hostname: localhost
  ExternalWebUrl: https://localhost:{port}
  WebPort: {port}
  WebHost: 127.0.0.1
  EnableUI: false
  DbLocation: {dir}/run/server.sqlite
  # All of it is on loopback.
  SSRFProtection:
    SkipDefaultBlocks: true
Federation:
  DiscoveryUrl: https://localhost:{front}
Xrootd:
  Sitename: {name}
Origin:
  StorageType: posixv2
  EnableVoms: false
  RunLocation: {dir}/run/origin
{posc}  Exports:
    - FederationPrefix: {namespace}
      StoragePrefix: {dir}/store
      Capabilities: [{reads}, "Writes", "Listings", "DirectReads"]
"""

BOX = """\
Registry:
  RequireOriginApproval: false
  RequireCacheApproval: false
  RequireKeyChaining: false
Director:
  MinStatResponse: 1
  MaxStatResponse: 1
Cache:
  EnableV2: true
  StorageLocation: {dir}/cache
  RunLocation: {dir}/run/cache
  EnableEvictionMonitoring: false
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def surroundings():
    """Ours, without what would lead the servers astray: they trust the authority they make themselves."""
    led = ("SSL_CERT_", "PELICAN_", "OSDF_", "BEARER_TOKEN", "XDG_", "_CONDOR")
    return {k: v for k, v in os.environ.items() if not k.startswith(led)} | {"NO_PROXY": "localhost,127.0.0.1"}


class Server:
    """One process of the program, which ends with this script."""

    def __init__(self, work, name, namespace, reads, modules, port, front, posc=False):
        self.dir = work / name
        for folder in ("conf", "run", "store", "cache"):
            (self.dir / folder).mkdir(parents=True, exist_ok=True)
        self.config = self.dir / "pelican.yaml"
        settings = FRONT.format(
            dir=self.dir, port=port, front=front, name=name, namespace=namespace, reads=reads,
            posc="  Posc:\n    Enabled: true\n" if posc else "",
        )
        if "director" in modules:
            settings += BOX.format(dir=self.dir)
        self.config.write_text(settings)
        self.log = self.dir / "log"
        self.command = ["pelican", "--config", self.config, "serve", "--port", str(port)]
        for module in modules:
            self.command += ["--module", module]
        self.process = None

    def start(self):
        # Told to end with us, also when we are killed.
        command = ["setpriv", "--pdeathsig", "TERM", *self.command]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=surroundings(), cwd=self.dir
            )

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Stay(urllib.request.HTTPRedirectHandler):
    """A director's redirect is an answer, not a way."""

    def redirect_request(self, *_):
        return None


def answer(ca, url, token=None):
    """Status and headers of what `url` answers; None while nobody does."""
    try:
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)),
            urllib.request.ProxyHandler({}),
            Stay,
        )
        request = urllib.request.Request(url)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with opener.open(request, timeout=10) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers
    except OSError:
        return None


def wait(what, servers, found):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        for server in servers:
            if server.process.poll() is not None:
                fail(f"the server ended before {what}", server)
        if result := found():
            return result
        time.sleep(0.3)
    return fail(f"{what}: not within {PATIENCE_SECONDS} s", *servers)


def fail(why, *servers):
    for server in servers:
        server.stop()
        tail = server.log.read_text(errors="replace").splitlines()[-20:]
        print(f"federation.py: the end of {server.log}:", *tail, sep="\n", file=sys.stderr)
    sys.exit(f"federation.py: {why}")


def mint(server, url):
    command = ["pelican", "--config", server.config, "token", "create", "--read", "--write", "--modify"]
    command += ["--scope-path", "/", "--lifetime", "36000", url]
    made = subprocess.run(command, capture_output=True, text=True, env=surroundings(), cwd=server.dir)
    if made.returncode:
        fail(f"no token: {made.stderr.strip()}", server)
    return made.stdout.split()[-1]


def first_cache(headers):
    for link in headers.get_all("Link") or []:
        return link.split(">")[0].lstrip("<")
    return None


def main():
    mode, work = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if mode not in ("box", "origin", "posc"):
        sys.exit("federation.py: the first argument is box, origin or posc")
    front = free_port()
    box = Server(
        work, "box", "/boxed", '"Reads"', ["director", "registry", "origin", "cache"], front, front
    )
    servers, namespace = [box], "/boxed"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        box.start()
        ca = box.dir / "conf/certificates/tlsca.pem"
        discovery = f"https://localhost:{front}"
        well_known = f"{discovery}/.well-known/pelican-configuration"
        wait("discovery", servers, lambda: ca.exists() and (answer(ca, well_known) or [0])[0] == 200)
        storing = box
        if mode != "box":
            namespace = "/second"
            storing = Server(
                work, "second", namespace, '"PublicReads"', ["origin"], free_port(), front, mode == "posc"
            )
            # Of the same authority, so that each trusts the other.
            shutil.copytree(box.dir / "conf/certificates", storing.dir / "conf/certificates")
            for made in ("tls.crt", "tls.key"):
                (storing.dir / "conf/certificates" / made).unlink(missing_ok=True)
            storing.config.write_text(
                storing.config.read_text().replace(
                    "  EnableUI: false\n", f"  EnableUI: false\n  TLSCACertificateFile: {ca}\n"
                )
            )
            servers.append(storing)
            storing.start()
        (storing.dir / "store/ready").write_text("ready")
        url = f"{discovery}{namespace}/ready"
        named = lambda: (a := answer(ca, url)) and a[0] == 307 and first_cache(a[1])  # noqa: E731
        wait("the director names a cache", servers, named)
        token = mint(storing, f"pelican://localhost:{front}{namespace}")
        # As soon as the cache knows of the namespace too.
        wait("the cache serves", servers, lambda: (answer(ca, named(), token) or [0])[0] == 200)
        token_file = work / "token"
        token_file.write_text(token)
        version = subprocess.run(["pelican", "--version"], capture_output=True, text=True, env=surroundings())
        told = {
            "url": f"pelican://localhost:{front}{namespace}",
            "ca": str(ca),
            "token": str(token_file),
            "version": (version.stdout or version.stderr).splitlines()[0],
            "pids": {server.dir.name: server.process.pid for server in servers},
            "logs": [str(server.log) for server in servers],
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()
    finally:
        for server in reversed(servers):
            server.stop()


main()
