"""`gular job lint` on public files, each of whose findings was judged: right files are left in peace.

`lint_public.txt` lists repositories at fixed commits, the files in them, and the findings with their
verdicts. The files are fetched from GitHub once, and kept in `target/peers/corpus`; what cannot be
fetched is skipped by name. Paths that depend on the machine (`/home/me/a.csv`) are not compared, and
neither is the rule `no-request`: it is true of most public files, and would hide the other findings.
"""

import collections
import http.client
import json
import os
import pathlib
import subprocess
import tarfile
import urllib.error
import urllib.request

from _shared import GULAR, check, finish, skip

LIST = pathlib.Path(__file__).with_suffix(".txt")
CACHE = pathlib.Path("../../corpus").resolve()
# Longer files are data: only that they are there counts.
MAX_TEXT_BYTES = 256 << 10
VERDICTS = ("true", "false")


def repositories():
    """(name, commit, files, verdicts, missed) of each repository in the list; a verdict is that of a
    place, a rule and a text."""
    found = []
    for line in LIST.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "repository":
            name, commit = rest.split()
            found.append((name, commit, [], {}, []))
        elif word in ("submit", "dag", "slurm"):
            found[-1][2].append(rest)
        elif word in VERDICTS:
            place, rule, what = rest.split("  ")[:3]
            found[-1][3][(place, rule, what)] = word
        elif word == "missed":
            found[-1][4].append(rest)
        elif word and not word.startswith("#"):
            raise ValueError(f"cannot read the line `{line}` of {LIST.name}")
    return found


reaches = True


def fetched(name, commit):
    """The archive of a repository; None where it cannot be had."""
    global reaches
    archive = CACHE / f"{name.replace('/', '+')}-{commit}.tar.gz"
    if not archive.exists() and not reaches:
        return None
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = archive.with_suffix(".part")
        try:
            url = f"https://codeload.github.com/{name}/tar.gz/{commit}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                part.write_bytes(answer.read())
        # A download that was cut is no OSError.
        except (OSError, http.client.HTTPException) as error:
            print(f"{name}: {error!r}")
            # Without a network each further one would wait, too.
            reaches = isinstance(error, (urllib.error.HTTPError, http.client.HTTPException))
            return None
        part.rename(archive)
    return archive


def unpack(archive, folder):
    """Unpacks texts as they are, and longer files as empty ones."""
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = pathlib.PurePosixPath(member.name).parts[1:]
            if not parts or ".." in parts or not member.isfile():
                continue
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tar.extractfile(member).read() if member.size <= MAX_TEXT_BYTES else b"")
            path.chmod(0o755 if member.mode & 0o100 else 0o644)


def lint(folder, files):
    """The findings in `files`: (place, rule, text) -> severity; each once, whichever file led to it."""
    found = {}
    for file in files:
        done = subprocess.run([GULAR, "job", "lint", "--json", file], cwd=folder, capture_output=True, text=True)
        for finding in json.loads(done.stdout)["findings"]:
            of_machine = "this machine has no" in finding["what"] or finding["what"].startswith("`/")
            if finding["rule"] != "no-request" and not (finding["rule"] == "missing-file" and of_machine):
                place = f"{os.path.normpath(finding['file'])}:{finding['line']}"
                found[(place, finding["rule"], " ".join(finding["what"].split()))] = finding["severity"]
    return found


total, missed, unread = collections.Counter(), 0, 0
for name, commit, files, judged, overlooked in repositories():
    archive = fetched(name, commit)
    if archive is None:
        skip(name, "github.com", "a network that reaches it")
        unread += 1
        continue
    folder = pathlib.Path(name.replace("/", "+"))
    unpack(archive, folder)
    found = lint(folder, files)
    new, gone = (sorted(map("  ".join, keys)) for keys in (found.keys() - judged.keys(), judged.keys() - found.keys()))
    check(f"{name}, each finding has a verdict", not new, "\n  ".join(new))
    check(f"{name}, what was found is found", not gone, "\n  ".join(gone))
    for key, severity in found.items():
        total[(severity != "note", judged.get(key, "false"))] += 1
    missed += len(overlooked)

if total:
    true, false = (total[(True, v)] + total[(False, v)] for v in VERDICTS)
    precision = true / (true + false)
    mistakes = total[(True, "true")]
    recall = mistakes / max(mistakes + missed, 1)
    print(f"{true} of {true + false} findings are right; {mistakes} of {mistakes + missed} mistakes are found")
    # The bounds are those of the whole list.
    if unread:
        print(f"precision {precision:.3f} and recall {recall:.3f} of a part: {unread} repositories were skipped")
    else:
        check("precision is 0.98", precision >= 0.98, precision)
        check("recall is 0.9", recall >= 0.9, recall)
finish()
