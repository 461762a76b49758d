"""`gular pack --labels` reads tables as pyarrow, pandas and csv write them; archives as zipfile and tarfile do."""

import csv
import io
import json
import pathlib
import tarfile
import zipfile

from _shared import check, finish, gular, make_images, skip

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
except ImportError as missing:
    skip("pack_tables", missing.name, "pip install numpy pyarrow pillow")
    finish()

made = make_images("images", n=40, splits=("train", "test"))
keys = sorted(made)
rows = {
    "file_name": keys,
    "label": [f"klasse, \"{made[k][1]}\"" for k in keys],
    "count": [i * 7 - 20 for i in range(len(keys))],
    "mass": [None if i == 3 else i / 7 for i in range(len(keys))],
    "note": ["" if i % 5 == 0 else f"Zeile\n{i}; ü" for i in range(len(keys))],
}
table = pa.table(rows)
digests = {}


def packed(name, *options):
    out = f"bundle {name}"
    report = gular("pack", "images", out, *options)
    digests[name] = report["digest"]
    return report


def tables_of_every_writer():
    pq.write_table(table, "plain.parquet", compression="none", use_dictionary=False)
    pq.write_table(table, "snappy.parquet", row_group_size=7)
    pq.write_table(table, "zstd.parquet", compression="zstd")
    pq.write_table(table, "gzip.parquet", compression="gzip", row_group_size=7)
    pq.write_table(table, "v2.parquet", data_page_version="2.0", row_group_size=11)
    pyarrow.csv.write_csv(table, "arrow.csv")
    with open("python.csv", "w", newline="") as file:
        writer = csv.writer(file, dialect="excel")
        writer.writerow(rows)
        writer.writerows(zip(*[["" if v is None else v for v in column] for column in rows.values()]))
    with open("python.tsv", "w", newline="") as file:
        writer = csv.writer(file, dialect="excel-tab")
        writer.writerow(rows)
        writer.writerows(zip(*[["" if v is None else v for v in column] for column in rows.values()]))
    with open("bom.csv", "w", newline="", encoding="utf-8-sig") as file:
        file.write(pathlib.Path("python.csv").read_bytes().decode().replace("\r\n", "\n"))
    with open("lines.jsonl", "w") as file:
        for row in zip(*rows.values()):
            # As the columns of a table: JSON lines have theirs in the order of their names.
            file.write(json.dumps(dict(zip(rows, row))) + "\n")
    names = ["plain.parquet", "snappy.parquet", "zstd.parquet", "gzip.parquet", "v2.parquet", "arrow.csv", "python.csv", "python.tsv", "bom.csv"]
    try:
        import pandas

        frame = pandas.DataFrame(rows)
        frame.to_csv("pandas.csv", index=False)
        frame.to_parquet("pandas.parquet", index=False)
        names += ["pandas.csv", "pandas.parquet"]
    except ImportError:
        skip("pandas", "pandas", "pip install pandas")
    for name in names:
        packed(name, "--labels", name)
    found = {digests[name] for name in names}
    check("one bundle from the tables of every writer", len(found) == 1, digests)
    columns = "count,mass,note"
    packed("parquet in order", "--labels", "plain.parquet", "--columns", columns)
    packed("json in order", "--labels", "lines.jsonl", "--columns", columns)
    check("and from JSON lines", digests["json in order"] == digests["parquet in order"], digests)


def lists_of_every_writer():
    """Several classes of a sample, as BigEarthNet's metadata.parquet and pandas have them."""
    words = ["red", "green", "blue", "a long name, with ü"]
    lists = [[words[j] for j in range(4) if i >> j & 1] for i in range(len(keys))]
    n = range(len(keys))
    rows = {
        "file_name": keys,
        "labels": lists,
        "years": [[2000 + i] * (i % 3) for i in n],
        "is_day": [i % 3 == 0 for i in n],
        "place": [[i / 7, -i / 3] for i in n],
    }
    table = pa.table(rows)
    pq.write_table(table, "lists.parquet")
    pq.write_table(table, "lists plain.parquet", compression="none", use_dictionary=False, row_group_size=7)
    pq.write_table(table, "lists v2.parquet", data_page_version="2.0", data_page_size=64, row_group_size=17)
    required = pa.list_(pa.field("element", pa.string(), nullable=False))
    schema = pa.schema([pa.field("file_name", pa.string()), pa.field("labels", required, nullable=False), ("years", pa.list_(pa.int16())), ("is_day", pa.bool_()), ("place", pa.list_(pa.float64()))])
    pq.write_table(table.cast(schema), "lists required.parquet", use_compliant_nested_type=False)
    with open("lists.jsonl", "w") as file:
        for row in zip(*rows.values()):
            file.write(json.dumps(dict(zip(rows, row))) + "\n")
    names = ["lists.jsonl", "lists.parquet", "lists plain.parquet", "lists v2.parquet", "lists required.parquet"]
    for name in names:
        report = packed(name, "--labels", name, "--label-column", "labels", "--columns", "years,is_day,place")
        fields = json.loads(pathlib.Path(f"bundle {name}/manifest.json").read_text())["fields"]
        check(f"{name} has several classes", "labels" in [field["name"] for field in fields], report)
    check("one bundle from the lists of every writer", len({digests[name] for name in names}) == 1, digests)


def values_come_back():
    folder = "files"
    gular("convert", "bundle plain.parquet", "back", "--envelope", "parquet")
    found = {}
    for path in pathlib.Path("back/data").glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found[row["image"]["path"]] = row
    classes = json.loads(pathlib.Path("back/manifest.json").read_text())["classes"]
    same = True
    for i, key in enumerate(keys):
        row = found[key]
        mass = row["mass"]
        same &= classes[row["label"]] == rows["label"][i] and row["count"] == rows["count"][i]
        same &= np.isnan(mass) if rows["mass"][i] is None else mass == rows["mass"][i]
        note = row["note"]
        note = note["bytes"] if isinstance(note, dict) else note
        note = note.encode() if isinstance(note, str) else note
        same &= note == rows["note"][i].encode()
    check("every value reads back as it was written", same, folder)


def archives_of_every_writer():
    with zipfile.ZipFile("stored.zip", "w") as archive:
        for key in keys:
            archive.write(f"images/{key}", key)
    with zipfile.ZipFile("deflated.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("train/")
        for key in reversed(keys):
            with archive.open(key, "w", force_zip64=True) as member:
                member.write(made[key][0])

    class Pipe(io.RawIOBase):
        """What cannot seek makes zipfile write data descriptors."""

        def __init__(self, path):
            self.file = open(path, "wb")

        def writable(self):
            return True

        def write(self, data):
            return self.file.write(data)

        def close(self):
            self.file.close()
            super().close()

    with Pipe("streamed.zip") as pipe, zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in keys:
            archive.writestr(key, made[key][0])
    names = ["stored.zip", "deflated.zip", "streamed.zip"]
    forms = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
    for form, number in forms.items():
        for mode, extension in (("w", "tar"), ("w:gz", "tar.gz")):
            name = f"{form}.{extension}"
            with tarfile.open(name, mode, format=number) as archive:
                archive.add("images", ".")
            names.append(name)
    gular("pack", "images", "from folder")
    expected = json.loads(pathlib.Path("from folder/manifest.json").read_text())
    for name in names:
        out = f"from {name}"
        gular("pack", name, out)
        check(f"{name} gives the folder's bundle", json.loads(pathlib.Path(out, "manifest.json").read_text()) == expected)


def hostile_archives_are_refused():
    def tar(name, member, **changes):
        with tarfile.open(name, "w") as archive:
            info = tarfile.TarInfo(member)
            for change, value in changes.items():
                setattr(info, change, value)
            archive.addfile(info, io.BytesIO(b"\0" * info.size))

    tar("up.tar", "../x.jpg", size=4)
    tar("root.tar", "/x.jpg", size=4)
    tar("link.tar", "a/x.jpg", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    tar("hard.tar", "a/x.jpg", type=tarfile.LNKTYPE, linkname="a/y.jpg")
    tar("device.tar", "a/x.jpg", type=tarfile.CHRTYPE)
    for name, word in (("up", "`../x.jpg`"), ("root", "`/x.jpg`"), ("link", "link"), ("hard", "link"), ("device", "plain file")):
        said = gular("pack", f"{name}.tar", "hostile", refused=True)
        check(f"{name}.tar is refused by name", word in said and not pathlib.Path("hostile").exists(), said)


tables_of_every_writer()
lists_of_every_writer()
values_come_back()
archives_of_every_writer()
hostile_archives_are_refused()
finish()
