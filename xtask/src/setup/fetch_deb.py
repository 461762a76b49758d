"""Copies one file out of a Debian package: SHA256 MEMBER TARGET URL...

The package is taken from the first address that has it with this digest.
"""
import hashlib
import http.client
import io
import pathlib
import sys
import tarfile
import urllib.request

# No package that is meant here is nearly as large.
LIMIT_BYTES = 1 << 24


def package(sha256, urls):
    faults = []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                data = answer.read(LIMIT_BYTES)
        except (OSError, http.client.HTTPException) as fault:
            faults.append(f"{url}: {getattr(fault, 'reason', fault)}")
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
        faults.append(f"{url}: other bytes than expected")
    sys.exit("; ".join(faults))


def data_of(deb):
    """The archive of files in the package, which is an archive of ar(5)."""
    at = 8
    while at < len(deb):
        name, size = deb[at:at + 16].decode().strip(" /"), int(deb[at + 48:at + 58])
        at += 60
        if name.startswith("data.tar"):
            return io.BytesIO(deb[at:at + size])
        at += size + size % 2
    sys.exit("the package has no `data.tar`")


def main(sha256, member, target, *urls):
    deb = package(sha256, urls)
    with tarfile.open(fileobj=data_of(deb)) as files:
        try:
            content = files.extractfile(member).read()
        except KeyError:
            sys.exit(f"the package has no `{member}`")
    path = pathlib.Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)


main(*sys.argv[1:])
