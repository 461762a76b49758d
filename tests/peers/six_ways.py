"""`tutorials/ways`, small: real pelicanfs, zip and our loader give one training the same losses."""

import importlib.util
import os
import pathlib
import sys

for needed in ("torch", "PIL", "pelicanfs"):
    if importlib.util.find_spec(needed) is None:
        print(f"skip six_ways: {needed} missing, install: pip install torch pillow pelicanfs==1.5.0")
        sys.exit(0)

sys.path.insert(0, os.environ["GULAR_PYTHON"])
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tutorials" / "ways"))

import ways
from _shared import check, finish, gular

IMAGES = 64

work = pathlib.Path("ways")
work.mkdir()
case = ways.Case(work, IMAGES, latency="5ms")
measured = case.measure_all()
print(ways.table(measured), file=sys.stderr)

check("ways_have_equal_losses", ways.all_equal(measured), {name: way["losses"] for name, way in measured.items()})
steps = {name: len(way["losses"]) for name, way in measured.items()}
check("ways_have_all_batches", set(steps.values()) == {4}, steps)

# What is moved: everything once, and by pelicanfs again in the second epoch.
size = sum(path.stat().st_size for path in (work / "images").rglob("*.png"))
moved = {name: [epoch["bytes"] for epoch in way["epochs"]] for name, way in measured.items()}
check("local_files_move_nothing", moved["local files"] == [0, 0], moved)
check("pelicanfs_moves_all_twice", all(n >= size for n in moved["pelicanfs"]), moved)
for name in ("pelicanfs, file cache", "one zip", "a bundle", "a bundle, streamed"):
    cold, warm = moved[name]
    check(f"{name.replace(', ', '_').replace(' ', '_')}_moves_all_once", cold < 1.2 * size and warm == 0, moved[name])
requests = {name: way["epochs"][0]["requests"] for name, way in measured.items()}
check("a_bundle_takes_few_requests", requests["a bundle"] * 2 < requests["pelicanfs"], requests)

def damaged(federation):
    case.damage(federation)
    report = gular("fetch", f"{federation.url}/bundle/v1#{case.digest}", work / "again")
    wrong = [copy["objects"] for copy in report.get("wrong_copies", [])]
    check("a_flipped_byte_in_the_cache_is_read_around_and_named", wrong == [1], report)


again = case.measure("a bundle, streamed", damaged)
check("a_flipped_byte_changes_no_loss", again["losses"] == measured["a bundle"]["losses"], again["losses"])
finish()
