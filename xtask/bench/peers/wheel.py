"""The wheel's loader, the Rust loader and PyTorch's, in turns, on the same images.

    wheel.py --rates loader_rates --images DIR --bundle BUNDLE [--stack turbo] [--rounds 9]

`gular` is to be importable: the wheel installed, or its folder in PYTHONPATH. `--rates` is the
program of `cargo xtask bench loader`, with its libtorch in LD_LIBRARY_PATH; BUNDLE is packed of DIR.
Each is a process of its own that rests, with its batches made, while another has its turn. Prints
the median rate of each with the smallest and largest, by the clock and per second of CPU time, and
what the wheel reaches of the others in the same round, as JSON.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import meter

SIZE, BATCH = 224, 64


def serve(bundle):
    """The wheel's turns, by the protocol of run.py."""
    import gular
    import torch

    torch.set_num_threads(1)
    batches = gular.DataLoader(bundle, batch_size=BATCH, size=SIZE, drop_last=True).stream()

    def taken():
        batch = next(batches)
        images = batch["image"]
        if tuple(images.shape) != (BATCH, 3, SIZE, SIZE) or images.dtype != torch.float32:
            raise ValueError(f"a batch is {tuple(images.shape)} {images.dtype}")
        return len(batch["key"])

    taken()
    print(json.dumps({"contestants": ["wheel"]}), flush=True)
    for line in sys.stdin:
        seconds = float(line.rpartition("\t")[2])
        watch = meter.Watch()
        # What was made before this turn is taken first.
        while watch.elapsed() < seconds / 4:
            taken()
        images, watch = 0, meter.Watch()
        while watch.elapsed() < seconds:
            images += taken()
        print(json.dumps(watch.answer(images)), flush=True)


class Contestant:
    def __init__(self, name, command, env):
        self.name, self.turns = name, []
        self.process = subprocess.Popen(
            [str(word) for word in command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.said = self.answer()["contestants"]

    def answer(self):
        told = json.loads(self.process.stdout.readline() or '{"error": "it ended"}')
        if "error" in told:
            raise RuntimeError(f"{self.name}: {told['error']}")
        return told

    def turn(self, seconds):
        self.process.stdin.write(f"{self.said[0]}\t{seconds}\n")
        self.process.stdin.flush()
        told = self.answer()
        self.turns.append((told["samples"] / told["seconds"], told["samples"] / told["cpu_seconds"]))

    def summary(self):
        found = {}
        for what, rates in zip(("by_clock", "by_cpu_second"), zip(*self.turns)):
            found[what] = {"median": round(statistics.median(rates), 1), "least": round(min(rates), 1), "most": round(max(rates), 1)}
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rates", type=pathlib.Path)
    parser.add_argument("--images", type=pathlib.Path)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--stack", default="torchvision", help="what decodes for PyTorch's loader: see stacks.py")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    if args.serve:
        return serve(args.bundle)
    # Python's torch has its own libtorch.
    plain = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    here = pathlib.Path(__file__).parent
    cores = len(os.sched_getaffinity(0))
    peer = [sys.executable, here / "run.py", "host", "--peer", "files", "--stack", args.stack, "--workers", cores]
    contestants = [
        Contestant("rust", [args.rates, "feed", args.bundle], dict(os.environ)),
        Contestant("wheel", [sys.executable, __file__, "--serve", "--bundle", args.bundle], plain),
        Contestant(f"pytorch, {args.stack}", [*peer, "--images", args.images, "--store", args.images], plain),
    ]
    for round_number in range(args.rounds):
        # Each begins a round as often as another.
        turn = round_number % len(contestants)
        for contestant in contestants[turn:] + contestants[:turn]:
            contestant.turn(args.seconds)
            print(f"{contestant.name}: {contestant.turns[-1][0]:.0f}/s", file=sys.stderr)
    rust, wheel, pytorch = contestants
    record = {"cores": cores, "rounds": args.rounds, "seconds": args.seconds}
    for contestant in contestants:
        record[contestant.name] = contestant.summary()
    for other in (rust, pytorch):
        for position, what in enumerate(("by_clock", "by_cpu_second")):
            ratios = [ours[position] / theirs[position] for ours, theirs in zip(wheel.turns, other.turns)]
            record[f"wheel / {other.name}, {what}"] = round(statistics.median(ratios), 3)
    print(json.dumps(record, indent=1))
    for contestant in contestants:
        contestant.process.stdin.close()


if __name__ == "__main__":
    main()
