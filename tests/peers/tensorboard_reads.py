"""TensorBoard's own readers show exactly the points of `metrics.jsonl`, also after a resume."""

import json
import os
import pathlib
import struct
import subprocess
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.backend.event_processing.plugin_event_accumulator import (
        EventAccumulator as PluginEventAccumulator,
    )
    from tensorboard.util import tensor_util
except ImportError as error:
    print(f"skip tensorboard_reads: {error.name} missing, install: pip install tensorboard")
    sys.exit(0)


def f32(value):
    """The nearest float32, which is what a scalar point holds."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def points_of_jsonl(path):
    points = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        step, wall = row.pop("step"), row.pop("wall")
        row.pop("epoch")
        for name, value in row.items():
            points.setdefault(name, []).append((step, wall, f32(value)))
    return points


def every_file_is_read_to_its_end(folder, _):
    files = sorted(folder.glob("events.out.tfevents.*"))
    assert len(files) == 4, files
    for file, first_step in zip(files, [0, 21, 41, 41]):
        events = list(EventFileLoader(str(file)).Load())
        assert events[0].file_version == "brain.Event:2", events[0]
        assert events[1].session_log.status == 1, events[1]
        assert events[1].step == first_step, events[1]
        assert all(event.HasField("summary") for event in events[2:])
    last = events[-1]
    assert last.step == 300 and last.summary.value[0].tag == "loss/val", last


def accumulator_shows_the_points(folder, expected):
    # 0: keep every point instead of a random choice of them.
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    tags = reader.Tags()
    assert set(tags["scalars"]) | set(tags["tensors"]) == set(expected), tags
    for tag, points in expected.items():
        found = [(e.step, e.wall_time, e.value) for e in reader.Scalars(tag)]
        assert found == points, (tag, first_difference(found, points))


def web_server_shows_the_points(folder, expected):
    reader = PluginEventAccumulator(
        str(folder), size_guidance={"tensors": 0}, tensor_size_guidance={"scalars": 0}
    )
    reader.Reload()
    assert set(reader.Tags()["tensors"]) == set(expected), reader.Tags()
    for tag, points in expected.items():
        found = [
            (e.step, e.wall_time, float(tensor_util.make_ndarray(e.tensor_proto)))
            for e in reader.Tensors(tag)
        ]
        assert found == points, (tag, first_difference(found, points))


def first_difference(found, expected):
    pairs = [(f, e) for f, e in zip(found, expected) if f != e]
    return f"{len(found)} points, expected {len(expected)}; first difference {pairs[:1]}"


def main():
    program = pathlib.Path(os.environ["GULAR_PEER_EXAMPLES"]) / "write_metrics"
    folder = pathlib.Path("metrics")
    subprocess.run([program, folder], check=True)
    expected = points_of_jsonl(folder / "metrics.jsonl")
    steps = {name: [step for step, _, _ in points] for name, points in expected.items()}
    assert steps == {
        "loss/train": list(range(1, 301)),
        "images/s": list(range(1, 301)),
        "loss/val": list(range(10, 301, 10)),
    }, "metrics.jsonl has a gap or a step twice"
    failed = False
    for test in [
        every_file_is_read_to_its_end,
        accumulator_shows_the_points,
        web_server_shows_the_points,
    ]:
        try:
            test(folder, expected)
            print(f"ok {test.__name__}")
        except Exception as error:  # whatever a reader raises is the finding
            failed = True
            print(f"fail {test.__name__}: {type(error).__name__}: {error}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
