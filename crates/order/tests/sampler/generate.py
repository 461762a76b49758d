"""Makes vectors.json with the PyTorch that is installed: generate.py OUT.json

All but `randperm_large`, whose two permutations of 214 million indices take
minutes and 4 GB in Python: generate.py OUT.json --large
"""

import hashlib
import json
import sys

import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, random_split

# Seeds around the 32 bits that shape the stream; a negative one is two's complement.
GENERATOR_SEEDS = [0, 1, 42, 5489, 2**32, 2**32 + 1, 2**40 + 7, -1]
RANDPERM_SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, -1]
# randperm changes its algorithm at 2**32 // 20, randint at 2**28.
LARGE = [(2**32 - 1) // 20 - 1, (2**32 - 1) // 20]
WIDE = [2**28 - 1, 2**28, 2**28 + 1, 2**32 - 1, 2**32, 2**40 + 3]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def sha(indices):
    return hashlib.sha256(torch.tensor(indices, dtype=torch.int64).numpy().astype("<i8").tobytes()).hexdigest()


def sha_of_state(g):
    return hashlib.sha256(g.get_state().numpy().tobytes()).hexdigest()


def entry(indices, all_up_to=10):
    """Length and digest, and all indices or both ends."""
    indices = [int(i) for i in indices]
    ends = {"values": indices} if len(indices) <= all_up_to else {"head": indices[:6], "tail": indices[-3:]}
    return {"len": len(indices), "sha256": sha(indices), **ends}


def generator_state():
    for seed in GENERATOR_SEEDS:
        g = generator(seed)
        yield {
            "seed": seed,
            "initial_seed_u64": g.initial_seed() & (2**64 - 1),
            "state_bytes": g.get_state().numel(),
            "state_sha256": sha_of_state(g),
        }


def state_after_randperm():
    g = generator(42)
    torch.randperm(1000, generator=g)
    return sha_of_state(g)


def randperm():
    for n in [0, 1, 2, 3, 10, 97, 624, 625, 1000, 100000]:
        for seed in RANDPERM_SEEDS:
            yield {"n": n, "seed": seed, **entry(torch.randperm(n, generator=generator(seed)))}


def randperm_twice():
    for n in [10, 1000]:
        g = generator(7)
        first, second = torch.randperm(n, generator=g), torch.randperm(n, generator=g)
        yield {"n": n, "seed": 7, "first": entry(first), "second": entry(second)}


def randperm_large():
    for n in LARGE:
        order = torch.randperm(n, generator=generator(42)).numpy()
        digest = hashlib.sha256(order.astype("<i8", copy=False)).hexdigest()
        yield {"n": n, "seed": 42, "sha256": digest, "head": order[:6].tolist(), "tail": order[-3:].tolist()}


def distributed_sampler():
    for n in [1, 2, 10, 1000, 1003, 100000]:
        for world in range(1, 9):
            for drop_last in [False, True]:
                for seed, epoch, shuffle in [(0, 0, True), (0, 1, True), (42, 3, True), (0, 0, False)]:
                    if n >= 1000 and (seed, epoch) == (0, 1):
                        continue
                    yield {
                        "n": n,
                        "world": world,
                        "drop_last": drop_last,
                        "seed": seed,
                        "epoch": epoch,
                        "shuffle": shuffle,
                        "ranks": [rank_entry(n, world, rank, drop_last, seed, epoch, shuffle) for rank in range(world)],
                    }


def rank_entry(n, world, rank, drop_last, seed, epoch, shuffle):
    sampler = DistributedSampler(
        range(n), num_replicas=world, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop_last
    )
    sampler.set_epoch(epoch)
    indices = list(sampler)
    assert len(indices) == len(sampler)
    return {"v": indices} if n <= 10 else {"len": len(indices), "sha256": sha(indices)[:16]}


def batch_sampler():
    for n, batch in [(10, 3), (10, 5), (10, 16), (0, 4)]:
        for drop_last in [False, True]:
            batches = list(BatchSampler(range(n), batch, drop_last))
            yield {"n": n, "batch": batch, "drop_last": drop_last, "batches": batches}


def dataloader_shuffle():
    def epochs(loader):
        return [entry([i for batch in loader for i in batch]) for _ in range(3)]

    for n in [10, 1000]:
        loader = DataLoader(list(range(n)), batch_size=4, shuffle=True, generator=generator(123))
        yield {"n": n, "generator_seed": 123, "how": "generator passed to DataLoader", "epochs": epochs(loader)}
        torch.manual_seed(123)
        loader = DataLoader(list(range(n)), batch_size=4, shuffle=True)
        how = "torch.manual_seed, no generator argument"
        yield {"n": n, "global_seed": 123, "how": how, "epochs": epochs(loader)}


def int64_random_draws():
    g = generator(123)
    return [int(torch.empty((), dtype=torch.int64).random_(generator=g)) for _ in range(4)]


def random_sampler(cases):
    for n, num_samples, replacement in cases:
        sampler = RandomSampler(range(n), replacement, num_samples, generator(5))
        case = {"n": n, "num_samples": num_samples, "replacement": replacement, "seed": 5}
        yield {**case, **entry(sampler, all_up_to=40)}


def split():
    for n, lengths in [(10, [7, 3]), (10, [0.8, 0.1, 0.1]), (1003, [0.9, 0.1])]:
        parts = random_split(range(n), lengths, generator=generator(42))
        yield {"n": n, "lengths": lengths, "seed": 42, "parts": [entry(part.indices) for part in parts]}


def vectors(large=False):
    made = {
        "about": "made with real PyTorch CPU generators; sha256 is over the indices as little-endian int64",
        "torch": torch.__version__,
        "generator_state": list(generator_state()),
        "generator_state_after_randperm_1000_seed_42": state_after_randperm(),
        "randperm": list(randperm()),
        "randperm_twice": list(randperm_twice()),
        "distributed_sampler": list(distributed_sampler()),
        "batch_sampler": list(batch_sampler()),
        "dataloader_shuffle": list(dataloader_shuffle()),
        "int64_random_draws_seed_123": int64_random_draws(),
        "random_sampler": list(
            random_sampler([(10, None, False), (10, 25, False), (10, 40, True), (1000, None, True)])
        ),
        "random_sampler_wide": list(random_sampler([(n, 40, True) for n in WIDE])),
        "random_split": list(split()),
    }
    if large:
        made["randperm_large"] = list(randperm_large())
    return made


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        json.dump(vectors("--large" in sys.argv), out, separators=(",", ":"))
