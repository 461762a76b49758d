"""Unpacks named members of a wheel: unpack_wheel.py WHEEL (MEMBER TARGET)...

A MEMBER that ends with `/` is a whole folder. zipfile checks each CRC.
"""

import pathlib
import shutil
import sys
import zipfile


def copy(wheel, member, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    with wheel.open(member) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)


def main(path, *pairs):
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        for member, target in zip(pairs[::2], map(pathlib.Path, pairs[1::2])):
            if not member.endswith("/"):
                copy(wheel, member, target)
                continue
            for name in names:
                if name.startswith(member) and not name.endswith("/"):
                    copy(wheel, name, target / name[len(member):])


main(*sys.argv[1:])
