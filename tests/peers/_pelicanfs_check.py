"""Whether pelicanfs works against a federation, one check after another; used by pelicanfs_reads.py.

It runs in a process of its own, since pelicanfs looks at certificates and tokens when it is
imported: `_pelicanfs_check.py HOST:PORT /namespace TOKEN_FILE` with SSL_CERT_FILE set. Prints the
lines of a peer test.
"""

import os
import pathlib
import sys

from pelicanfs.core import NoAvailableSource, PelicanFileSystem

HOST, NAMESPACE, TOKEN_FILE = sys.argv[1:4]
# More than two blocks of our cache, and not a whole number of them.
DATA = os.urandom((2 << 20) + 12345)


class Checks:
    """Each method is a check; they run in the order they are written in."""

    def __init__(self):
        token = pathlib.Path(TOKEN_FILE).read_text().strip()
        self.fs = PelicanFileSystem(
            f"pelican://{HOST}", headers={"Authorization": f"Bearer {token}"}
        )
        self.folder = f"{NAMESPACE}/pelicanfs-{os.getpid()}"
        self.path = f"{self.folder}/d/x.bin"
        self.absent = f"{self.folder}/absent"

    def put(self):
        local = pathlib.Path("up.bin")
        local.write_bytes(DATA)
        self.fs.put(str(local), self.path)

    def cat(self):
        same(self.fs.cat(self.path), DATA)

    def ranges(self):
        for start, end in [(0, 1), (10, 20), (1048570, 1048590), (len(DATA) - 5, len(DATA))]:
            same(self.fs.cat_file(self.path, start=start, end=end), DATA[start:end])

    def seek(self):
        with self.fs.open(self.path, "rb") as file:
            file.seek(30000)
            same(file.read(5), DATA[30000:30005])
            file.seek(0)
            same(file.read(), DATA)

    def ls(self):
        entries = self.fs.ls(f"{self.folder}/d", detail=True)
        found = [(entry["name"], entry["size"], entry["type"]) for entry in entries]
        equal(found, [(self.path, len(DATA), "file")])

    def info(self):
        equal(self.fs.info(self.path)["size"], len(DATA))

    def exists(self):
        equal([self.fs.exists(path) for path in (self.path, self.absent)], [True, False])

    def isdir(self):
        equal([self.fs.isdir(path) for path in (f"{self.folder}/d", self.path)], [True, False])

    def find(self):
        equal(self.fs.find(self.folder), [self.path])

    def glob(self):
        equal(self.fs.glob(f"{self.folder}/*/*.bin"), [self.path])

    def recursive_get(self):
        self.fs.get(self.folder, "got", recursive=True)
        same(pathlib.Path("got/d/x.bin").read_bytes(), DATA)

    def absent_object(self):
        raises(FileNotFoundError, lambda: self.fs.cat(self.absent))

    def absent_namespace(self):
        raises(NoAvailableSource, lambda: self.fs.cat("/no-such-namespace/x"))


def same(found, expected):
    # Not the bytes themselves: they would fill the log.
    assert found == expected, f"{len(found)} bytes, not the {len(expected)} expected ones"


def equal(found, expected):
    assert found == expected, f"{found}, expected {expected}"


def raises(kind, action):
    try:
        action()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def main():
    checks, failed = Checks(), False
    for name in [name for name in vars(Checks) if not name.startswith("_")]:
        try:
            getattr(checks, name)()
            print(f"ok pelicanfs_{name}")
        except Exception as error:  # whatever pelicanfs raises is the finding
            failed = True
            print(f"fail pelicanfs_{name}: {type(error).__name__}: {str(error)[:300]}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
