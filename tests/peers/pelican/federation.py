#!/usr/bin/env python3
"""A whole federation of the real Pelican on loopback: director, registry, origin and cache.

federation.py box DIR      one process serves all; its namespace takes tokens for reading too
federation.py origin DIR   the namespace is that of a second origin, in a process of its own, read by all
federation.py posc DIR     the same; a cut upload leaves no object there (`Origin.Posc`)
federation.py killed DIR   as `posc`, with the cache in a process of its own too; a line `origin` or `cache` on
                           standard input kills that server and starts it again, and `again` is printed when it serves

Needs the program `pelican`, client and server, in PATH, and no Python package. Prints one JSON object once it
serves: `url` of the namespace, `ca`, `token` (a file: storage.read, create and modify) and its `issuer`, `version`,
`logs`; the URLs of `origin` and `cache`, and `stored`, the folder with the namespace's objects. It
ends when its standard input does. All files are in DIR. Two more deployments are for other scripts: `outage.py`
has `apart`, director, origin and cache in a process each; `login.py` has `login`, a box whose origin issues tokens.
"""

import base64
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

# How often a server tells the director of itself.
ADVERTISE_SECONDS = 3

# Who may log in at an origin's issuer, and with what; the hash is bcrypt's.
USER, PASSWORD = "user", "a pelican"
HASHED = "$2b$05$qR2s7h9TflmqDBOaP15XYOCV/S/yzXLACEvFEW5yFzTos5pFlRUoO"

SERVER = """\
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
{ca}{passwords}  DbLocation: {dir}/run/server.sqlite
  # A cache asks for the namespaces whenever it tells the director of itself.
  AdvertisementInterval: {advertise}s
  # All of it is on loopback.
  SSRFProtection:
    SkipDefaultBlocks: true
Monitoring:
  # The default is one folder for all processes on a machine: a cache that cannot have it counts as ill, and
  # directors do not name it.
  DataLocation: {dir}/run/monitoring
Federation:
  DiscoveryUrl: https://localhost:{front}
Xrootd:
  Sitename: {name}
  # For transfers to end, after it has said goodbye to the director.
  ShutdownTimeout: 2s
"""

DIRECTOR = """\
Registry:
  RequireOriginApproval: false
  RequireCacheApproval: false
  RequireKeyChaining: false
Director:
  MinStatResponse: 1
  MaxStatResponse: 1
"""

ORIGIN = """\
Origin:
  StorageType: posixv2
  EnableVoms: false
  # Origins of this kind fail it, and a cache in the same process then counts as ill too.
  DirectorTest: false
  RunLocation: {dir}/run/origin
{posc}{issuer}  Exports:
    - FederationPrefix: {namespace}
      StoragePrefix: {dir}/store
      Capabilities: [{reads}, "Writes", "Listings", "DirectReads"]
"""

ISSUER = """\
Issuer:
  GroupSource: file
  GroupFile: {dir}/conf/groups.json
  AuthorizationTemplates:
    - prefix: /$USER
      actions: ["read", "write", "create"]
"""

CACHE = """\
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

    def __init__(self, work, name, modules, port, front, namespace="", reads="", posc=False, ca=None, issues=False):
        self.dir, self.port = work / name, port
        for folder in ("conf", "run", "store", "cache"):
            (self.dir / folder).mkdir(parents=True, exist_ok=True)
        self.config = self.dir / "pelican.yaml"
        parts = {"director": DIRECTOR, "origin": ORIGIN, "cache": CACHE}
        settings = SERVER + "".join(part for module, part in parts.items() if module in modules)
        settings += ISSUER if issues else ""
        self.config.write_text(
            settings.format(
                dir=self.dir, port=port, front=front, name=name, namespace=namespace, reads=reads,
                advertise=ADVERTISE_SECONDS,
                posc="  Posc:\n    Enabled: true\n" if posc else "",
                ca=f"  TLSCACertificateFile: {ca}\n" if ca else "",
                passwords=f"  UIPasswordFile: {self.dir}/conf/passwords\n" if issues else "",
                issuer="  EnableIssuer: true\n  IssuerMode: embedded\n" if issues else "",
            )
        )
        if issues:
            (self.dir / "conf/passwords").write_text("".join(f"{user}:{HASHED}\n" for user in ("admin", USER)))
            (self.dir / "conf/groups.json").write_text(json.dumps({"admin": [], USER: []}))
        if ca:
            # Of the same authority, so that each trusts the other.
            shutil.copytree(ca.parent, self.dir / "conf/certificates")
            for made in ("tls.crt", "tls.key"):
                (self.dir / "conf/certificates" / made).unlink(missing_ok=True)
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
        """As an operator stops it: it says goodbye to the director."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Stay(urllib.request.HTTPRedirectHandler):
    """A director's redirect is an answer, not a way."""

    def redirect_request(self, *_):
        return None


def answer(ca, url, token=None):
    """Status and headers of what `url` answers; no status while nobody does."""
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
        return None, None


class Federation:
    """The servers of one deployment, started in `work`; they stop with it."""

    def __init__(self, mode, work):
        self.mode, self.work, self.servers = mode, work, []
        self.front = free_port()
        self.namespace = "/boxed" if mode in ("box", "login") else "/second"
        self.url = f"pelican://localhost:{self.front}{self.namespace}"

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.stop()

    def _start(self):
        apart = self.mode in ("apart", "killed")
        modules = ["director", "registry"] if apart else ["director", "registry", "origin", "cache"]
        more = {"namespace": "/boxed", "reads": '"Reads"', "issues": self.mode == "login"}
        self.director = self._add("box", modules, self.front, **more)
        self.ca = self.director.dir / "conf/certificates/tlsca.pem"
        well_known = f"https://localhost:{self.front}/.well-known/pelican-configuration"
        self.wait("discovery", lambda: self.ca.exists() and answer(self.ca, well_known)[0] == 200)
        self.origin = self.cache = self.director
        if self.namespace != "/boxed":
            more = {"reads": '"PublicReads"', "posc": self.mode in ("posc", "killed"), "ca": self.ca}
            self.origin = self._add("second", ["origin"], free_port(), namespace=self.namespace, **more)
        if apart:
            self.cache = self._add("cache", ["cache"], free_port(), ca=self.ca)
        (self.origin.dir / "store/ready").write_text("ready")
        self.wait_for_cache()
        self.token = self._mint()
        place, token = self.named()[0], self.token.read_text()
        # As soon as the cache knows of the namespace too.
        self.wait("the cache serves", lambda: answer(self.ca, place, token)[0] == 200)

    def _add(self, name, modules, port, **more):
        server = Server(self.work, name, modules, port, self.front, **more)
        self.servers.append(server)
        server.start()
        return server

    def restart_origin(self):
        self.origin.start()
        ready = f"https://localhost:{self.origin.port}{self.namespace}/ready"
        self.wait("the origin serves again", lambda: answer(self.ca, ready)[0] == 200)
        # It has told the director of itself by then.
        time.sleep(ADVERTISE_SECONDS + 1)
        self.wait_for_cache()

    def kill(self, name):
        """Kills the origin or the cache, and returns when it serves again."""
        server = {"origin": self.origin, "cache": self.cache}[name]
        server.kill()
        server.start()
        self.wait(f"the {name} serves again", lambda: self._serves(server))

    def _serves(self, server):
        ready = f"https://localhost:{server.port}{self.namespace}/ready"
        return answer(self.ca, ready, self.token.read_text())[0] == 200

    def asked(self):
        """Status and headers of what the director says of an object."""
        return answer(self.ca, f"https://localhost:{self.front}{self.namespace}/ready")

    def named(self):
        """The servers that the director names for it."""
        status, headers = self.asked()
        links = ",".join(headers.get_all("Link") or []) if status == 307 else ""
        return [link.split(">")[0] for link in links.split("<")[1:]]

    def wait_for_cache(self):
        """Until then the director names the origin alone."""
        below = "" if self.cache is not self.director else "/api/v1.0/cache"
        at = f"https://localhost:{self.cache.port}{below}/"
        self.wait("the director names the cache", lambda: any(url.startswith(at) for url in self.named()))

    def wait(self, what, found):
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            for server in self.servers:
                if server.process.poll() is not None:
                    self.fail(f"the server ended before {what}", server)
            if found():
                return
            time.sleep(0.3)
        self.fail(f"{what}: not within {PATIENCE_SECONDS} s", *self.servers)

    def fail(self, why, *servers):
        for server in servers:
            server.stop()
            tail = server.log.read_text(errors="replace").splitlines()[-20:]
            print(f"federation.py: the end of {server.log}:", *tail, sep="\n", file=sys.stderr)
        sys.exit(f"federation.py: {why}")

    def _mint(self):
        command = ["pelican", "--config", self.origin.config, "token", "create", "--read", "--write", "--modify"]
        command += ["--scope-path", "/", "--lifetime", "36000", self.url]
        made = subprocess.run(command, capture_output=True, text=True, env=surroundings(), cwd=self.origin.dir)
        if made.returncode:
            self.fail(f"no token: {made.stderr.strip()}", self.origin)
        token = self.work / "token"
        token.write_text(made.stdout.split()[-1])
        return token


def issuer(token):
    claims = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["iss"]


def version():
    said = subprocess.run(["pelican", "--version"], capture_output=True, text=True, env=surroundings())
    return (said.stdout or said.stderr).splitlines()[0]


def main():
    mode, work = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if mode not in ("box", "origin", "posc", "killed"):
        sys.exit("federation.py: the first argument is box, origin, posc or killed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Federation(mode, work) as federation:
        told = {
            "url": federation.url,
            "ca": str(federation.ca),
            "token": str(federation.token),
            "issuer": issuer(federation.token.read_text()),
            "origin": f"https://localhost:{federation.origin.port}",
            "cache": f"https://localhost:{federation.cache.port}",
            "stored": str(federation.origin.dir / "store"),
            "version": version(),
            "logs": [str(server.log) for server in federation.servers],
        }
        print(json.dumps(told), flush=True)
        for line in sys.stdin:
            federation.kill(line.strip())
            print("again", flush=True)


if __name__ == "__main__":
    main()
