"""Adds files to a wheel: add_to_wheel.py WHEEL OUT [NAME=FILE]...

In NAME, `@data` is the wheel's folder of data and `@info` that of its metadata. The same files
give the same bytes: entries are sorted, times fixed. `RECORD` is written anew, as PEP 427 says.
"""

import base64
import csv
import hashlib
import io
import os
import sys
import zipfile

wheel, out, *added = sys.argv[1:]
stem = "-".join(os.path.basename(wheel).split("-")[:2])
files = {}
with zipfile.ZipFile(wheel) as source:
    for entry in source.infolist():
        # maturin's list of parts names folders of the machine that built it; NOTICES.txt has them.
        if not entry.is_dir() and not entry.filename.endswith("/RECORD") and "/sboms/" not in entry.filename:
            files[entry.filename] = (source.read(entry), entry.external_attr >> 16 & 0o777 or 0o644)
for pair in added:
    name, path = pair.split("=", 1)
    name = name.replace("@data", f"{stem}.data").replace("@info", f"{stem}.dist-info")
    mode = 0o755 if "/scripts/" in name else 0o644
    with open(path, "rb") as file:
        files[name] = (file.read(), mode)

record = io.StringIO()
rows = csv.writer(record, lineterminator="\n")
for name, (content, _) in sorted(files.items()):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows.writerow([name, f"sha256={digest}", len(content)])
rows.writerow([f"{stem}.dist-info/RECORD", "", ""])
# Metadata last, as PEP 427 recommends.
order = sorted(files, key=lambda name: (".dist-info/" in name, name))
files[f"{stem}.dist-info/RECORD"] = (record.getvalue().encode(), 0o644)
with zipfile.ZipFile(out, "w") as target:
    for name in [*order, f"{stem}.dist-info/RECORD"]:
        content, mode = files[name]
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        target.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
