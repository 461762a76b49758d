"""Which samples a process gets: ranks of `gular.DataLoader`, and workers of `gular.GularIterable`.

The rank is found when an epoch begins. Whatever the number of ranks and workers, each sample comes
once, no batch is empty, and `len` is true.
"""

import json
import os
import pathlib
import subprocess
import sys
import warnings

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import torch
except ImportError as missing:
    print(f"skip python_ranks: {missing.name} missing, install: pip install torch numpy")
    sys.exit(0)

import gular
from _shared import GULAR, check, finish, make_images, run

HEAD = """
import json, os, sys, tempfile, warnings
import torch, torch.distributed as dist, torch.multiprocessing as mp
import gular
warnings.simplefilter("always")
def begin(rank, world):
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "store"), rank=rank, world_size=world)
def keys(loader):
    return [key for batch in loader for key in batch["key"]]
"""

BEFORE = HEAD + """
def main(rank, loader):
    if loader is None:
        loader = gular.DataLoader("bundle", batch_size=5, size=16, seed=1)
    alone = len(loader)
    begin(rank, 2)
    assert len(loader) < alone, (len(loader), alone)
    found = [keys(loader), keys(loader)]
    told = loader.check_delivered(gular.merge_states(states(loader)))
    json.dump([found, told, loader.rank, loader.world_size], open(f"keys{rank}", "w"))
def states(loader):
    made = [None, None]
    dist.all_gather_object(made, loader.state_dict())
    return made
if __name__ == "__main__":
    given = gular.DataLoader("bundle", batch_size=5, size=16, seed=1) if sys.argv[2] == "given" else None
    mp.spawn(main, (given,), 2)
"""

MIDDLE = HEAD + """
from torch.testing._internal.distributed.fake_pg import FakeStore
loader = gular.DataLoader("bundle", batch_size=5, size=16)
batches = iter(loader)
next(batches)
dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
try:
    next(batches)
except gular.RankError as error:
    print(error)
print(len(keys(loader)))
"""

ENVIRONMENT = HEAD + """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    loader = gular.DataLoader("bundle", batch_size=5, size=16, **json.loads(sys.argv[2]))
    found = len(keys(loader)), len(keys(loader))
said = [str(one.message) for one in told if one.category is gular.RankWarning]
print(json.dumps([found, loader.n_samples, said]))
"""


def python(code, *args, env=None):
    pathlib.Path("program.py").write_text(code)
    for old in pathlib.Path(".").glob("store*"):
        old.unlink()
    env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"], "PYTHONWARNINGS": "ignore", **(env or {})}
    told = subprocess.run([sys.executable, "program.py", "store", *args], env=env, capture_output=True, text=True)
    if told.returncode:
        raise AssertionError(told.stderr[-2000:])
    return told.stdout


def found_when_an_epoch_begins(n):
    for how in ["inside", "given"]:
        python(BEFORE, how)
        ranks = [json.loads(pathlib.Path(f"keys{rank}").read_text()) for rank in range(2)]
        for epoch in range(2):
            both = [key for rank in ranks for key in rank[0][epoch]]
            check(f"a loader made before init_process_group, {how}, epoch {epoch}: each sample once",
                  len(both) == len(set(both)) == n, f"{len(both)} samples, {len(set(both))} distinct, of {n}")
        check(f"{how}: the tallies of both ranks prove it", all("each once" in rank[1] for rank in ranks), ranks[0][1])
        check(f"{how}: its properties follow", [rank[2:] for rank in ranks] == [[0, 2], [1, 2]])
    told = python(MIDDLE)
    right = "rank 1 of 2" in told and "init_process_group" in told and told.split()[-1] == str(n // 2)
    check("a rank that changes within an epoch is refused, and the next epoch has it", right, told)


def found_in_the_environment(n):
    env = {"RANK": "0", "WORLD_SIZE": "4"}
    found, n_samples, said = json.loads(python(ENVIRONMENT, "{}", env=env))
    share = [-(-n // 4)] * 2
    check("RANK and WORLD_SIZE alone share the samples, and it is said once",
          found == share and n_samples == n and len(said) == 1 and "`rank=0, world_size=1`" in said[0], f"{found}, {said}")
    found, _, said = json.loads(python(ENVIRONMENT, '{"rank": 0, "world_size": 1}', env=env))
    check("what it names gives all samples, in silence", found == [n, n] and not said, f"{found}, {said}")
    # As Lightning starts its processes.
    code = HEAD + """
loader = gular.DataLoader("bundle", batch_size=5, size=16)
again = __import__("pickle").loads(__import__("pickle").dumps(loader))
for one in (loader, again):
    try:
        iter(one)
    except gular.RankError as error:
        print(error)
begin(0, 1)
print(len(keys(loader)), len(keys(again)))
"""
    told = python(code, env={"WORLD_SIZE": "2"})
    check("half of it is an error when an epoch begins, not before", told.count("`RANK` is not") == 2 and f"{n} {n}" in told, told)


def iterated(workers, context=None, persistent=False, epochs=1, **options):
    data = gular.GularIterable("bundle", size=16, seed=5, **options)
    loading = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context, persistent_workers=persistent)
    return [[batch["index"].tolist() for batch in loading] for _ in range(epochs)], len(data), len(loading)


def iterables(n):
    """Against the loader itself, and the counts of PyTorch's own over as many samples."""
    warnings.simplefilter("ignore", gular.EmptyBatchWarning)
    # PyTorch's, about few cores.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    for batch_size in [1, 7, n - 1, n + 1]:
        for drop_last in [False, True]:
            for world_size in [1, 3]:
                for workers in [0, 2, 3]:
                    what = f"batches of {batch_size}, drop_last={drop_last}, {world_size} ranks, {workers} workers"
                    right, told, seen = True, "", []
                    for rank in range(world_size):
                        options = {"batch_size": batch_size, "drop_last": drop_last, "rank": rank, "world_size": world_size}
                        (batches,), length, loading = iterated(workers, "fork" if workers else None, **options)
                        expected = [batch["index"].tolist() for batch in gular.DataLoader("bundle", size=16, seed=5, **options)]
                        right = right and batches == expected and len(batches) == length == loading
                        told += f"{[len(batch) for batch in batches]}, {[len(batch) for batch in expected]}, {length}; "
                        seen += sum(batches, [])
                    if world_size == 1:
                        plain = torch.utils.data.DataLoader(range(n), batch_size=batch_size, drop_last=drop_last)
                        right = right and [len(batch) for batch in plain] == [len(batch) for batch in batches]
                    right = right and len(set(seen)) == len(seen) and (drop_last or len(seen) == n)
                    check(f"GularIterable, {what}: the loader's batches", right, told)
    (first, second), _, _ = iterated(2, "fork", persistent=True, epochs=2, batch_size=7)
    check("persistent workers give the epoch after", sorted(sum(second, [])) == list(range(n)) and first != second)


def worker_states(n):
    """As torchdata's StatefulDataLoader does: each worker saves its state, and gets it again."""
    options = {"batch_size": 4, "size": 16, "seed": 5}
    expected = [batch["index"].tolist() for batch in gular.DataLoader("bundle", **options)]
    module = sys.modules["gular.iterable"]
    for taken in [(0, 0), (1, 0), (2, 1), (3, 3)]:
        states, seen = [], {}
        for worker in range(2):
            module._worker = lambda worker=worker: (worker, 2)
            data = gular.GularIterable("bundle", **options)
            batches = iter(data)
            seen[worker] = [next(batches)["index"].tolist() for _ in range(taken[worker])]
            states.append(json.loads(json.dumps(data.state_dict())))
        for worker in range(2):
            module._worker = lambda worker=worker: (worker, 2)
            data = gular.GularIterable("bundle", **options)
            data.load_state_dict(states[worker])
            seen[worker] += [batch["index"].tolist() for batch in data]
            check(f"worker {worker} resumes after {taken[worker]} batches", seen[worker] == expected[worker::2], str(seen[worker]))
    module._worker = lambda: (0, 3)
    data = gular.GularIterable("bundle", **options)
    data.load_state_dict(states[0])
    try:
        iter(data)
        check("a state of a worker of two is not for one of three", False, "nothing was raised")
    except gular.StateError as error:
        check("a state of a worker of two is not for one of three", "num_workers" in str(error), str(error))


if __name__ == "__main__":
    make_images()
    run(GULAR, "pack", "images", "bundle", "--quiet")
    n = gular.DataLoader("bundle").n_samples
    found_when_an_epoch_begins(n)
    found_in_the_environment(n)
    iterables(n)
    worker_states(n)
    print(f"torch {torch.__version__}")
    finish()
