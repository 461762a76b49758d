"""Whether `gular.DataLoader(device="cuda")` gives the batches that it gives without a device.

    python3 python_check.py BUNDLE...      with the package `gular` in PYTHONPATH

Prints a line for each check, `ok NAME` or `not ok NAME: why`; exit code 1 if one fails.
"""

import itertools
import os
import sys

import gular
import torch

SIZE, BATCH = 224, 128
DEVICE = os.environ.get("DEVICE", "cuda")
# A product of matrices of this side keeps the GPU busy for some milliseconds.
MATRIX = 6144
failed = 0


def loader(bundle, device=None, **options):
    return gular.DataLoader(bundle, batch_size=BATCH, size=SIZE, device=device, output="torch", **options)


def check(name, function, *arguments, **options):
    global failed
    try:
        function(*arguments, **options)
        print(f"ok {name}", flush=True)
    except Exception as error:
        failed += 1
        print(f"not ok {name}: {error}", flush=True)


def compare(expected, found, what):
    if set(expected) != set(found):
        raise ValueError(f"{what}: fields {sorted(found)}, expected {sorted(expected)}")
    for name, value in expected.items():
        other = found[name]
        if not isinstance(value, torch.Tensor):
            if value != other:
                raise ValueError(f"{what}: `{name}` differs")
            continue
        if other.device.type != torch.device(DEVICE).type:
            raise ValueError(f"{what}: `{name}` is on {other.device}")
        if (value.dtype, value.stride()) != (other.dtype, other.stride()):
            raise ValueError(f"{what}: `{name}` is {other.dtype} {other.stride()}, expected {value.dtype} {value.stride()}")
        if not torch.equal(value, other.cpu()):
            raise ValueError(f"{what}: `{name}` differs")


def same(bundle, work, **options):
    """Two epochs; before each batch the GPU gets `work(i)` products to compute, so that a batch is used long after
    it was let go. If its memory were given to the next copy before that, the batch would differ."""
    here, there = loader(bundle, **options), loader(bundle, DEVICE, **options)
    side = torch.rand(MATRIX, MATRIX, device=DEVICE)
    for epoch in range(2):
        kept, copies = [], iter(there)
        for i in itertools.count():
            for _ in range(work(i)):
                side @ side
            batch = next(copies, None)
            if batch is None:
                break
            # Computed on, as a step does, in the order of the stream that computes.
            kept.append({name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in batch.items()})
            del batch
        for i, (expected, found) in enumerate(itertools.zip_longest(here, kept, fillvalue={})):
            compare(expected, found, f"epoch {epoch}, batch {i}")


def resumed(bundle):
    """The state after each of some batches, with the next one on its way, says what is left."""
    options = {"order": "elastic", "seed": 7}
    whole = list(loader(bundle, **options))
    for stop in (1, len(whole) // 2, len(whole) - 1):
        first = loader(bundle, DEVICE, **options)
        for _ in zip(range(stop), first):
            pass
        second = loader(bundle, DEVICE, **options)
        second.load_state_dict(first.state_dict())
        for i, (expected, found) in enumerate(itertools.zip_longest(whole[stop:], second, fillvalue={})):
            compare(expected, found, f"batch {i} after {stop}")


def memory(bundle):
    used = []
    for _ in range(4):
        for _ in loader(bundle, DEVICE):
            pass
        used.append(torch.cuda.memory_allocated())
    if used[-1] > used[1]:
        raise ValueError(f"{used} bytes were allocated after each epoch")


def main():
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{name}, PyTorch {torch.__version__}, gular {gular.__version__}", file=sys.stderr)
    paces = {"nothing computed": lambda _: 0, "the GPU busy": lambda _: 4, "by turns": lambda i: [0, 12, 1, 0, 6][i % 5]}
    for bundle in sys.argv[1:]:
        for name, work in paces.items():
            check(f"{bundle}: the CPU's batches, {name}", same, bundle, work, numbers="stored")
        for numbers in ("f32", "f16", "bf16"):
            for layout in ("NCHW", "NHWC", "channels_last"):
                check(f"{bundle}: the CPU's batches, {numbers} {layout}", same, bundle, paces["by turns"], numbers=numbers, layout=layout)
        check(f"{bundle}: an epoch left anywhere", resumed, bundle)
        check(f"{bundle}: memory does not grow", memory, bundle)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
