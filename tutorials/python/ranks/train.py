"""Train on several processes, stop in the middle of an epoch, and resume on another number of them.

    python train.py bundle --ranks 4        # SIGTERM, or --time-limit, ends it with exit code 85
    python train.py bundle --ranks 2        # goes on with the next sample; each comes once per epoch

Without --ranks it is one process of those that a launcher starts, which sets RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, as torchrun does.
"""

import argparse
import multiprocessing
import os
import signal
import socket
import sys
import time

import gular
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RUN_AGAIN = 85


class Stop:
    """Asked to stop by a signal, or by the time."""

    def __init__(self, time_limit):
        self.asked = False
        self.end = time.monotonic() + time_limit if time_limit else None
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_):
        self.asked = True

    def is_due(self):
        return self.asked or (self.end is not None and time.monotonic() >= self.end)


def save(path, model, optimizer, loader):
    """One checkpoint of all ranks, which must be at the same step; what the loaders have delivered."""
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, loader.state_dict())
    merged = gular.merge_states(states)
    if dist.get_rank() == 0:
        saved = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "loader": merged}
        torch.save(saved, path + ".part")
        os.replace(path + ".part", path)
    dist.barrier()
    return merged


def train(args):
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    # The batch of all ranks together stays, whatever their number. Rank and world size are those
    # of torch.distributed.
    loader = gular.DataLoader(args.bundle, "train", args.batch_size // world_size, size=args.size, seed=1, device=device)
    layers = [nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, len(loader.classes))]
    model = DistributedDataParallel(nn.Sequential(*layers, *head).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, map_location=device)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        if rank == 0:
            print(f"resumed in epoch {saved['loader']['epoch']} after {saved['loader']['consumed']} samples", flush=True)
    stop = Stop(args.time_limit)
    for epoch in range(loader.epoch, args.epochs):
        for batch in loader:
            # Ranks may have fewer samples in the last step, or none, so losses are summed here and
            # divided by how many there are in all. DDP divides by the number of ranks.
            seen = torch.tensor([len(batch["key"]), stop.is_due()], dtype=torch.float32, device=device)
            dist.all_reduce(seen)
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"], reduction="sum") / seen[0]
            optimizer.zero_grad()
            (loss * world_size).backward()
            optimizer.step()
            dist.all_reduce(loss.detach())
            if rank == 0:
                print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
            # All ranks stop at the same step.
            if seen[1]:
                save(args.checkpoint, model, optimizer, loader)
                return RUN_AGAIN
        delivered = loader.check_delivered(save(args.checkpoint, model, optimizer, loader))
        if rank == 0:
            print(f"epoch {epoch}: {delivered}", flush=True)
    return 0


def train_and_leave(args):
    code = train(args)
    dist.destroy_process_group()
    return code


def one_of(args, rank, address):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.ranks))
    sys.exit(train_and_leave(args))


def start(args):
    """Starts a process per rank, passes SIGTERM on to them, and ends as they do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    # Forked, they need not import PyTorch again; nothing of it has been used yet.
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=one_of, args=(args, rank, address)) for rank in range(args.ranks)]
    for child in children:
        child.start()
    signal.signal(signal.SIGTERM, lambda *_: [child.terminate() for child in children])
    for child in children:
        child.join()
    return max(abs(child.exitcode) for child in children)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of all ranks together")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--time-limit", type=float, help="seconds")
    args = parser.parse_args()
    if args.ranks and "RANK" not in os.environ:
        return start(args)
    return train_and_leave(args)


if __name__ == "__main__":
    sys.exit(main())
