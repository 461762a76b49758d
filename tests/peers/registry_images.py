"""Images and bundles go to Debian's docker-registry and come back: with and without passwords, tokens and TLS, beside skopeo and podman."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from _shared import GULAR, apptainer_command, check, finish, gular, make_images, run, sha, skip

MIB = 1 << 20
USER, PASSWORD = "gular", "pass:word"
# bcrypt of the password, as `htpasswd -B` makes it.
HASH = "$2b$04$4lgENpPy5.VCsLGXmQtmBegmhIopHHhE6WtPsMp9KQfaGgcEbm65O"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def registry(name, http_more="", auth=""):
    """A registry of its own; its address, and its log."""
    port, home = free_port(), pathlib.Path(f"registry-{name}").absolute()
    home.mkdir()
    config = f"version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {home}/data}}}}\n"
    config += f"http:\n  addr: 127.0.0.1:{port}\n  secret: x\n{http_more}{auth}"
    (home / "config.yml").write_text(config)
    with (home / "log").open("w") as log:
        process = subprocess.Popen(["docker-registry", "serve", home / "config.yml"], stdout=log, stderr=log)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            raise AssertionError(f"docker-registry does not answer: {(home / 'log').read_text()}")
        yield f"127.0.0.1:{port}", home / "log"
    finally:
        process.kill()
        process.wait()


def make_layout(dir, files, tag="v1"):
    """An image of one layer per file."""
    import io
    import tarfile

    blobs = pathlib.Path(dir) / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(media, data):
        (blobs / sha(data)).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{sha(data)}", "size": len(data)}

    layers = []
    for name, data in files.items():
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        layers.append(out.getvalue())
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/x"]},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha(tar)}" for tar in layers]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": put("config.v1+json", json.dumps(config).encode()), "layers": [put("layer.v1.tar", tar) for tar in layers]}
    entry = put("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (pathlib.Path(dir) / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (pathlib.Path(dir) / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return entry["digest"]


def push(*args, cache="cache"):
    return gular("image", "push", *args, "--cache", cache)


def pull(*args, cache="cache-pull"):
    return gular("image", "pull", *args, "--cache", cache)


def blobs(layout):
    return {path.name: sha(path.read_bytes()) for path in pathlib.Path(layout, "blobs/sha256").iterdir()}


def both_ways(host, name, *flags):
    """What we push skopeo gets, and the reverse."""
    digest = make_layout(f"{name}-mine", {"a": random.Random(1).randbytes(9 * MIB), "b": name.encode()})
    pushed = push(f"oci:{name}-mine:v1", f"docker://{host}/lab/{name}:v1")
    check(f"{name}: pushed", pushed["digest"] == digest and pushed["there"] == 0, pushed)
    again = push(f"{name}-mine", f"docker://{host}/lab/{name}:v2")
    check(f"{name}: nothing is sent twice", again["sent"] == 0 and again["there"] == again["blobs"], again)
    pulled = pull(f"docker://{host}/lab/{name}:v1", f"{name}-back")
    check(f"{name}: pulled", pulled["digest"] == digest, pulled)
    check(f"{name}: same blobs", blobs(f"{name}-back") == blobs(f"{name}-mine"))
    if not shutil.which("skopeo"):
        return skip(f"{name}: skopeo", "skopeo", "apt-get install skopeo")
    theirs = ["skopeo", "copy", "--preserve-digests"]
    run(*theirs, *[flag.replace("--", "--src-", 1) for flag in flags], f"docker://{host}/lab/{name}:v1", f"oci:{name}-skopeo:v1")
    check(f"{name}: skopeo has the same", blobs(f"{name}-skopeo") == blobs(f"{name}-mine"))
    run(*theirs, *[flag.replace("--", "--dest-", 1) for flag in flags], f"oci:{name}-mine:v1", f"docker://{host}/lab/{name}-skopeo:v1")
    pulled = pull(f"docker://{host}/lab/{name}-skopeo:v1", f"{name}-theirs")
    check(f"{name}: we have what skopeo pushed", blobs(f"{name}-theirs") == blobs(f"{name}-mine"), pulled)
    return None


def plain():
    with registry("plain") as (host, _):
        both_ways(host, "plain", "--tls-verify=false")
        mounted = push("plain-mine", f"docker://{host}/other/x:v1", "--mount-from", "lab/plain")
        check("blobs are mounted", mounted["mounted"] == mounted["blobs"] and mounted["sent"] == 0, mounted)
        sif(host)
        podman(host)
        converted = gular("image", "convert", f"docker://{host}/lab/plain:v1", "--cache", "cache-pull")
        check("docker:// becomes a SIF", converted["output"]["path"].startswith("./plain-"), converted["output"])
        said = gular("image", "pull", f"docker://{host}/lab/none:v1", "none", "--cache", "cache-pull", refused=True)
        check("what is missing is named", "lab/none/manifests/v1" in said and "manifest unknown" in said, said)
        base(host)
        killed(host)
        bundles(host)
    away = subprocess.run([GULAR, "image", "pull", f"docker://{host}/lab/plain:v1", "away", "--cache", "cache-pull"], capture_output=True, text=True)
    check("a registry that is away may be asked again later", away.returncode == 75 and "run the same command again later" in away.stderr, away)


def tree(folder):
    """Every file below a folder, by its digest."""
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha(path.read_bytes()) for path in files}


def bundles(host):
    """Bundles as artifacts: versions share what is equal, and keep their names to themselves."""
    make_images()
    gular("pack", "images", "birds", "--shard-size", "1MiB")
    made = gular("derive", "birds", "some", "--limit", "50%")
    digest = gular("inspect", "birds")["digest"]
    name = f"oci://{host}/lab/birds"
    dry = gular("publish", "birds", f"{name}:v1", "--dry-run")
    published = gular("publish", "birds", f"{name}:v1")
    check("a bundle is published", (published["digest"], published["uploaded"]) == (digest, dry["uploaded"]), (dry, published))
    check("the dry run said how much", dry["bytes_uploaded"] == published["bytes_uploaded"] == published["bytes"], (dry, published))
    again = gular("publish", "birds", f"{name}:v1")
    check("nothing of it is sent twice", (again["uploaded"], again["url"]) == (0, published["url"]), again)
    part = gular("publish", "some", f"{name}:some")
    check("a view sends its few files", part["bytes_uploaded"] < 20_000 < part["bytes"], (made, part))
    elsewhere = gular("publish", "birds", f"oci://{host}/other/birds:v1", "--mount-from", "lab/birds")
    check("another name mounts", elsewhere["mounted"] == elsewhere["objects"] and not elsewhere["bytes_uploaded"], elsewhere)
    said = gular("publish", "some", f"{name}:v1", refused=True)
    check("a version is one bundle's", f"lab/birds:v1` already exists with different contents: {digest}" in said, said)
    said = gular("publish", "birds", f"oci://{host}/lab/plain:v1", refused=True)
    check("nor an image's", "already exists with different contents: an image" in said, said)
    said = gular("publish", "birds", f"{name}:v1", "--check", "size", refused=True)
    check("a check that means nothing is refused", "`--check` works only with federations" in said, said)

    fetched = gular("fetch", f"{name}:v1", "birds-back")
    check("a bundle comes back", tree("birds-back") == tree("birds") and fetched["digest"] == digest, fetched)
    check("its URL is what was published", fetched["url"] == published["url"], (fetched, published))
    kept = gular("fetch", published["url"], "birds-back")
    check("and is kept", kept["bytes_fetched"] == 0, kept)
    next(pathlib.Path("birds-back/data").glob("train-*.safetensors")).unlink()
    mended = gular("fetch", published["url"].split("#")[0], "birds-back")
    check("what is missing is fetched alone", tree("birds-back") == tree("birds") and 0 < mended["bytes_fetched"] < mended["bytes"], mended)
    gular("fetch", part["url"], "some-back")
    check("a view comes back with its shards", gular("verify", "some-back")["digest"] == part["digest"])
    said = gular("fetch", f"{name}:v7", "none", refused=True)
    check("a version that is not there names those that are", "the registry has no such version" in said and "some" in said and "v1" in said.splitlines()[1], said)
    said = gular("fetch", f"oci://{host}/lab/plain:v1", "none", refused=True)
    check("an image is not a bundle", "is not a bundle" in said and not pathlib.Path("none").exists(), said)
    if shutil.which("skopeo"):
        # As anybody copies it, who knows nothing of bundles.
        plain = ["--src-tls-verify=false", "--dest-tls-verify=false", "--preserve-digests"]
        run("skopeo", "copy", *plain, f"docker://{host}/lab/birds:v1", f"docker://{host}/copied/birds:v1")
        copied = gular("fetch", f"oci://{host}/copied/birds:v1", "birds-copied")
        check("skopeo copies it", copied["digest"] == digest and tree("birds-copied") == tree("birds"), copied)
    else:
        skip("skopeo copies a bundle", "skopeo", "apt-get install skopeo")


def base(host):
    """A recipe begins with an image of the registry, and the tag moves."""
    pathlib.Path("mine").write_text("mine")
    pathlib.Path("on.toml").write_text(f'[image]\nname = "on"\n[base]\noci = "docker://{host}/lab/plain:v1"\n[app.files]\n"b" = "mine"\n"c" = "mine"\n')
    build = ["image", "build", "on.toml", "--format", "oci", "--force", "--cache", "cache-base"]
    built = gular(*build, "--out", "on-1")
    layers = [layer["digest"] for layer in built["outputs"][0]["layers"]]
    theirs = [layer["digest"] for layer in json.loads(manifest_of("plain-mine"))["layers"]]
    check("a base keeps its layers", layers[:-1] == theirs, (layers, theirs))
    if shutil.which("umoci"):
        run("umoci", "unpack", "--rootless", "--image", f"{built['outputs'][0]['path']}:latest", "on-unpacked")
        root = pathlib.Path("on-unpacked/rootfs")
        check("umoci lays ours over them", [(root / name).read_bytes() for name in "bc"] == [b"mine"] * 2 and (root / "a").stat().st_size == 9 * MIB)
    else:
        skip("umoci lays ours over them", "umoci", "apt-get install umoci")
    make_layout("moved", {"a": b"moved"})
    push("moved", f"docker://{host}/lab/plain:v1")
    moved = gular("image", "lock", "on.toml", "--dry-run", "--cache", "cache-base")["base"]
    digests = [f"sha256:{sha(manifest_of(layout))}" for layout in ("plain-mine", "moved")]
    check("a lock says where the tag moved", [moved["before"], moved["now"]] == digests, moved)
    again = gular(*build, "--locked", "--offline", "--out", "on-2")
    check("the lock's digest counts", again["outputs"][0]["digest"] == built["outputs"][0]["digest"], again["outputs"])
    push("plain-mine", f"docker://{host}/lab/plain:v1")


def manifest_of(layout):
    """The only manifest of a layout, as it is stored."""
    index = json.loads(pathlib.Path(layout, "index.json").read_text())
    return pathlib.Path(layout, "blobs/sha256", index["manifests"][0]["digest"].removeprefix("sha256:")).read_bytes()


def sif(host):
    """A SIF as an artifact."""
    gular("image", "convert", "oci:plain-mine:v1", "x.sif", "--cache", "cache")
    pushed = push("x.sif", f"oras://{host}/lab/sif:v1")
    pathlib.Path("back").mkdir()
    pulled = pull(f"oras://{host}/lab/sif:v1", "back")
    check("a SIF comes back", pathlib.Path("back/x.sif").read_bytes() == pathlib.Path("x.sif").read_bytes(), pulled)
    check("by its digest", pulled["pinned"].endswith(pushed["digest"]), pulled)
    accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    asked = urllib.request.Request(f"http://{host}/v2/lab/sif/manifests/v1", headers=accept)
    manifest = json.loads(urllib.request.urlopen(asked).read())
    check("its layer's type", manifest["layers"][0]["mediaType"] == "application/vnd.sylabs.sif.layer.v1.sif", manifest)
    if program := apptainer_command():
        run(*program, "pull", "--no-https", "theirs.sif", f"oras://{host}/lab/sif:v1")
        check("apptainer pull oras://", pathlib.Path("theirs.sif").read_bytes() == pathlib.Path("x.sif").read_bytes())
    else:
        skip("apptainer pull oras://", "apptainer", "its own pages")


def podman(host):
    if not shutil.which("podman"):
        return skip("podman", "podman", "apt-get install podman")
    # Its runtime folder in /tmp, since podman refuses one of more than 50 characters.
    place = ["--root", str(pathlib.Path("podman-root").absolute()), "--runroot", f"/tmp/gular-peer-{os.getpid()}",
             "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none"]
    try:
        run("podman", *place, "pull", "-q", "--tls-verify=false", f"{host}/lab/plain:v1")
        seen = json.loads(run("podman", *place, "inspect", f"{host}/lab/plain:v1"))[0]
        check("podman pulls what we pushed", seen["Config"]["Cmd"] == ["/bin/x"], seen["Config"])
        run("podman", *place, "tag", f"{host}/lab/plain:v1", f"{host}/lab/podman:v1")
        run("podman", *place, "push", "-q", "--tls-verify=false", f"{host}/lab/podman:v1")
        pulled = pull(f"docker://{host}/lab/podman:v1", "podman-back")
        converted = gular("image", "convert", "podman-back", "podman.sif", "--cache", "cache")
        check("we pull what podman pushed", converted["files"] == 2, (pulled, converted))
    finally:
        subprocess.run(["podman", *place, "system", "reset", "--force"], capture_output=True)
        shutil.rmtree(f"/tmp/gular-peer-{os.getpid()}", ignore_errors=True)
    return None


class Front(http.server.BaseHTTPRequestHandler):
    """Before the registry, as a spec has it: knows how far an upload is, and takes whole chunks alone.

    docker-registry keeps that in the upload's address, and forgets an upload that is asked for by an older one.
    """

    protocol_version = "HTTP/1.1"
    upstream, taken, states, lock = None, [], {}, threading.Lock()

    def forward(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        upload = path.rsplit("/", 1)[-1] if "/blobs/uploads/" in path else ""
        with self.lock:
            if upload in self.states:
                query = urllib.parse.urlencode({**dict(urllib.parse.parse_qsl(query)), "_state": self.states[upload]})
            if self.command == "PATCH":
                time.sleep(0.1)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
            carries = self.command in ("POST", "PUT", "PATCH")
            request = urllib.request.Request(f"http://{self.upstream}{path}?{query}", body if carries else None, headers, method=self.command)
            try:
                answer = urllib.request.urlopen(request)
            except urllib.error.HTTPError as error:
                answer = error
            data = answer.read()
            location = urllib.parse.urlparse(answer.headers.get("Location") or "")
            state = urllib.parse.parse_qs(location.query).get("_state")
            if state:
                self.states[location.path.rsplit("/", 1)[-1]] = state[0]
            if self.command == "PATCH" and answer.status == 202:
                self.taken.append((upload, self.headers["Content-Range"]))
        with contextlib.suppress(OSError):
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server", "content-length"):
                    self.send_header(name, value)
            length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = forward

    def log_message(self, *args):
        pass


def push_and_kill(command, kills):
    """Runs it until it ends, killed at random a few times before; what it said, and how often it was killed."""
    chance, done = random.Random(3), 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, said = process.communicate(timeout=0.05 + chance.random() * 0.25 if done < kills else 60)
            return process.returncode, out, said, done
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            done += 1


def killed(host):
    """A push that is killed again and again goes on where it was, and no chunk that was taken goes twice."""
    Front.upstream = host
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    make_layout("large", {"large": random.Random(2).randbytes(48 * MIB)})
    command = [GULAR, "image", "push", "large", "--cache", "cache-killed", "--json"]
    to = f"docker://127.0.0.1:{server.server_address[1]}/lab/large:v1"
    code, out, said, kills = push_and_kill([*command, to], 6)
    server.shutdown()
    check("a push that was killed ends", code == 0, said)
    check("it was killed", kills >= 2, kills)
    check("no chunk goes twice", len(Front.taken) == len(set(Front.taken)), Front.taken)
    # Twelve chunks and the end of the layer, and the configuration. An upload that was killed before
    # its place was kept begins again: at most one of each blob for each kill.
    check("what goes again is little", 14 <= len(Front.taken) <= 14 + 2 * kills, Front.taken)
    pulled = pull(f"docker://{host}/lab/large:v1", "large-back")
    check("what arrived is what was sent", blobs("large-back") == blobs("large"), pulled)
    code, out, said, kills = push_and_kill([*command, f"docker://{host}/lab/direct:v1"], 4)
    check("without a front it ends as well", code == 0, said)
    pulled = pull(f"docker://{host}/lab/direct:v1", "direct-back")
    check("and what arrived is right", blobs("direct-back") == blobs("large"), pulled)


def auth_file(host, user, password):
    path = pathlib.Path("auth.json").absolute()
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {host: {"auth": text}}}))
    os.environ["REGISTRY_AUTH_FILE"] = str(path)


def passwords_and_tls():
    """Basic authorization, over TLS."""
    # Not as an authority, which no server's own certificate may be.
    pathlib.Path("openssl.cnf").write_text("[req]\ndistinguished_name=dn\nprompt=no\nx509_extensions=ext\n[dn]\nCN=127.0.0.1\n"
                                           "[ext]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-config", "openssl.cnf")
    tls = f"  tls: {{certificate: {os.getcwd()}/cert.pem, key: {os.getcwd()}/key.pem}}\n"
    pathlib.Path("htpasswd").write_text(f"{USER}:{HASH}\n")
    auth = f"auth: {{htpasswd: {{realm: r, path: {os.getcwd()}/htpasswd}}}}\n"
    with registry("secure", tls, auth) as (host, log):
        os.environ["SSL_CERT_FILE"] = str(pathlib.Path("cert.pem").absolute())
        os.environ.pop("REGISTRY_AUTH_FILE", None)
        said = gular("image", "push", "plain-mine", f"docker://{host}/lab/x:v1", "--cache", "cache", refused=True)
        check("without a password", "401" in said and "no credentials" in said, said)
        auth_file(host, USER, "wrong")
        said = gular("image", "push", "plain-mine", f"docker://{host}/lab/x:v1", "--cache", "cache", refused=True)
        check("with a wrong one", "401" in said and "auth.json" in said and "wrong" not in said, said)
        said = gular("fetch", f"oci://{host}/lab/birds:v1", "none", refused=True)
        check("nor a bundle", "401" in said and "auth.json" in said and "podman login" in said, said)
        auth_file(host, USER, PASSWORD)
        both_ways(host, "secure", "--tls-verify=false")
        helper(host)
        pulled = pull(f"docker://{host}/lab/secure:v1", "by-helper", cache="cache-helper")
        check("a helper's password", pulled["blobs"] == 3, pulled)
        check("no password in a log", PASSWORD not in log.read_text())
    del os.environ["SSL_CERT_FILE"], os.environ["DOCKER_CONFIG"]


def helper(host):
    """Leaves the password to a program alone."""
    del os.environ["REGISTRY_AUTH_FILE"]
    folder = pathlib.Path("docker").absolute()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"credHelpers": {host: "peer"}}))
    program = folder / "docker-credential-peer"
    program.write_text(f'#!/bin/sh\ncat >/dev/null\necho \'{{"Username": "{USER}", "Secret": "{PASSWORD}"}}\'\n')
    program.chmod(0o755)
    os.environ["DOCKER_CONFIG"] = str(folder)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


class Tokens(http.server.BaseHTTPRequestHandler):
    """A token server as docker describes it: signs what is asked for, for who knows the password."""

    asked = []

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        known = self.headers.get("Authorization") == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        self.asked.append((known, query.get("scope", [])))
        access = []
        for scope in query.get("scope", []):
            kind, name, actions = scope.split(":")
            access.append({"type": kind, "name": name, "actions": [a for a in actions.split(",") if known or a == "pull"]})
        now = int(time.time())
        part = lambda value: base64.urlsafe_b64encode(value).rstrip(b"=").decode()
        cert = "".join(pathlib.Path("cert.pem").read_text().splitlines()[1:-1])
        head = part(json.dumps({"typ": "JWT", "alg": "RS256", "x5c": [cert]}).encode())
        body = part(json.dumps({"iss": "peer", "sub": "x", "aud": "registry", "exp": now + 300, "nbf": now - 10, "iat": now,
                                "jti": str(now), "access": access}).encode())
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", "key.pem"], input=f"{head}.{body}".encode(), capture_output=True, check=True)
        data = json.dumps({"token": f"{head}.{body}.{part(signed.stdout)}", "expires_in": 300}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def tokens():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    realm = f"http://127.0.0.1:{server.server_address[1]}/token"
    auth = f"auth: {{token: {{realm: '{realm}', service: registry, issuer: peer, rootcertbundle: {os.getcwd()}/cert.pem}}}}\n"
    with registry("tokens", auth=auth) as (host, _):
        auth_file(host, USER, PASSWORD)
        both_ways(host, "tokens", "--tls-verify=false")
        check("the password goes to the token server", any(known for known, _ in Tokens.asked), Tokens.asked[:3])
        check("scopes", [scope for _, scope in Tokens.asked if scope] != [], Tokens.asked[:3])
        mounted = push("tokens-mine", f"docker://{host}/other/x:v1", "--mount-from", "lab/tokens")
        check("mounting asks for both repositories", mounted["mounted"] == mounted["blobs"], (mounted, Tokens.asked[-2:]))
        os.environ["REGISTRY_AUTH_FILE"] = "/nowhere"
        said = gular("image", "push", "plain-mine", f"docker://{host}/lab/y:v1", "--cache", "cache", refused=True)
        check("nobody in particular may not push", "no credentials" in said, said)
    server.shutdown()


def main():
    if not shutil.which("docker-registry"):
        skip("registry", "docker-registry", "apt-get install docker-registry")
        return finish()
    # Nobody's own credentials.
    os.environ["HOME"] = os.getcwd()
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        os.environ.pop(name, None)
    plain()
    passwords_and_tls()
    tokens()
    return finish()


main()
