"""safetensors' own readers open the golden shards and indexes of version 1."""

import pathlib
import sys

import numpy
import safetensors.numpy
import safetensors.torch

GOLDEN = pathlib.Path(__file__).parents[2] / "crates/bundle/tests/golden/v1/data"


def faults(path):
    arrays = safetensors.numpy.load_file(path)
    tensors = safetensors.torch.load_file(path)
    if set(arrays) != set(tensors):
        yield "numpy and torch see different tensors"
    for name, array in arrays.items():
        if not numpy.array_equal(array, tensors[name].numpy()):
            yield f"`{name}` differs between numpy and torch"
        if name.endswith(".offsets"):
            bytes_name = name[: -len("offsets")] + "bytes"
            if array[0] != 0 or array[-1] != len(arrays[bytes_name]):
                yield f"`{name}` does not span `{bytes_name}`"


def main():
    paths = sorted(GOLDEN.glob("*.safetensors"))
    failed = not paths
    if failed:
        print(f"fail golden_shards: no shard in {GOLDEN}")
    for path in paths:
        why = "; ".join(faults(path))
        failed |= bool(why)
        print(f"fail {path.name}: {why}" if why else f"ok {path.name}")
    sys.exit(failed)


main()
