"""The Python package `gular` against the Rust loader, NumPy and PyTorch.

The same numbers as in Rust, lent without a copy; Ctrl-C, fork and spawn; `list(loader)`; resumes
in mid-epoch on another number of ranks. Runs the library that `cargo` built with the package
beside it; `cargo xtask dist` makes and tries the wheel.
"""

import contextlib
import fcntl
import gc
import hashlib
import inspect
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import warnings

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skip python_wheel: {missing.name} missing, install: pip install torch numpy")
    sys.exit(0)

import gular
from _shared import GULAR, check, finish, make_images, run, skip

PRINT_BATCHES = os.path.join(os.environ["GULAR_PEER_EXAMPLES"], "print_batches")


def packed():
    make_images()
    run(GULAR, "pack", "images", "bundle", "--shard-size", "1MiB", "--quiet")


def loader(**options):
    return gular.DataLoader("bundle", **{"batch_size": 7, "size": 32, "seed": 5, **options})


def sha(array):
    return hashlib.sha256(array.memoryview()).hexdigest()


def in_rust(numbers, layout, order, epoch, rank, world, *fields, bundle="bundle"):
    text = run(PRINT_BATCHES, bundle, numbers, layout, order, epoch, rank, world, *fields)
    return [json.loads(line) for line in text.splitlines()]


def refused(kind, wanted, call):
    try:
        call()
    except kind as error:
        return wanted in str(error), str(error)
    return False, "nothing was raised"


def no_secret_shows():
    """A token that was given where a path or an option is expected."""
    claims = "eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCJ9"
    token = f"eyJhbGciOiJub25lIn0.{claims}.c2lnbmF0dXJl"
    for what, call in [
        ("bundle", lambda: gular.DataLoader(token)),
        ("digest", lambda: gular.DataLoader("bundle", digest=token)),
        ("token file", lambda: gular.DataLoader("http://localhost:1/a", token_files=[token])),
        ("query of a URL", lambda: gular.DataLoader(f"http://localhost:1/a b?authz={claims}")),
        ("split", lambda: gular.DataLoader("bundle", split=token)),
        ("output", lambda: loader(output=token)),
        ("device", lambda: loader(device=token)),
        ("fields", lambda: loader(fields=[token])),
        ("keys", lambda: gular.read_samples("bundle", token)),
        ("name of an option", lambda: loader(**{token: 1})),
        ("dataset", lambda: gular.GularDataset(token)),
        ("state", lambda: loader().load_state_dict(token)),
    ]:
        try:
            call()
            check(f"a token as {what} is refused", False, "nothing was raised")
        except Exception as error:
            shown = f"{error} {error!r} {error.__dict__}"
            check(f"no token shows: {what}", claims not in shown, f"{type(error).__name__} shows it")
    key = "train/Zk3vQ9xTb1LmW8sYp4RcN6hGdJ2aEuFi0oKtXyVq.jpg"
    error = gular.SampleError(f"cannot decode `{key}`", f"leave out `{key}`", key)
    check("a key is data, and stays as it is", error.key == key and key not in str(error), repr(error))


def numbers_of_rust():
    for numbers, layout, order, rank, world in [
        ("f32", "NCHW", "elastic", 0, 1),
        ("f32", "NHWC", "torch", 1, 2),
        ("f16", "channels_last", "window", 0, 3),
        ("bf16", "NCHW", "elastic", 2, 3),
        ("stored", "NHWC", "elastic", 0, 1),
    ]:
        what = f"{numbers} {layout} {order} {rank}/{world}"
        ours = loader(numbers=numbers, layout=layout, order=order, window=2, rank=rank, world_size=world, output="dlpack")
        ours.set_epoch(3)
        found = [{"fields": {"image": sha(batch["image"])}, "label": np.asarray(batch["label"]).tolist(),
                  "index": np.asarray(batch["index"]).tolist(), "key": batch["key"]} for batch in ours]
        expected = in_rust(numbers, layout, order, 3, rank, world)
        check(f"the Rust loader's numbers, {what}", found == expected and len(found) == len(ours), f"{len(found)} batches")


def arrays():
    dtypes = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "stored": "uint8"}
    for numbers, dtype in dtypes.items():
        batch = next(iter(loader(numbers=numbers, output="dlpack")))
        image = batch["image"]
        tensor = torch.from_dlpack(image)
        same = tensor.data_ptr() == image.ptr and tensor.dtype == getattr(torch, dtype)
        check(f"{dtype} by DLPack is not copied", same and tensor.shape == image.shape == (7, 3, 32, 32), str(image))
        plain = torch.utils.dlpack.from_dlpack(image.__dlpack__())
        check(f"{dtype} by the first DLPack is not copied", plain.data_ptr() == image.ptr)
        view = image.memoryview()
        address = np.frombuffer(view, np.uint8).ctypes.data
        check(f"{dtype} by the buffer protocol is not copied", address == image.ptr and view.nbytes == image.nbytes)
        if numbers == "bf16":
            check("NumPy has no bfloat16, and that is said", *refused(TypeError, "from_dlpack", lambda: np.asarray(image)))
            continue
        for name, array in [("asarray", np.asarray(image)), ("from_dlpack", np.from_dlpack(image))]:
            check(f"{dtype} by numpy.{name} is not copied", array.ctypes.data == image.ptr and array.dtype == dtype)
            check(f"{dtype} by numpy.{name} has the tensor's values", np.array_equal(array, tensor.numpy()))
    copied = torch.utils.dlpack.from_dlpack(image.__dlpack__(copy=True, max_version=(1, 1)))
    check("a copy is a copy", copied.data_ptr() != image.ptr and torch.equal(copied, tensor))
    check("another device is refused", *refused(BufferError, "CPU", lambda: image.__dlpack__(dl_device=(2, 0))))
    last = next(iter(loader(layout="channels_last")))["image"]
    first = next(iter(loader()))["image"]
    is_last = last.is_contiguous(memory_format=torch.channels_last) and last.shape == first.shape
    check("channels_last is PyTorch's", is_last and torch.equal(last, first), str(last.stride()))


def outputs():
    batch = next(iter(loader()))
    check("tensors where PyTorch is there", isinstance(batch["image"], torch.Tensor) and batch["label"].dtype == torch.int64)
    batch = next(iter(loader(output="numpy")))
    check("arrays where NumPy is asked for", isinstance(batch["image"], np.ndarray) and batch["label"].dtype == np.int64)
    images, labels = next(iter(loader(as_tuple=("image", "label"))))
    data = loader().dataset
    named = {name: label for label, name in enumerate(loader().classes)}
    check("what scripts ask of loader.dataset", len(data) == loader().n_samples > 0 and data.class_to_idx == named and len(named) == 3, str(named))
    check("tuples where they are asked for", images.shape == (7, 3, 32, 32) and labels.shape == (7,))
    check("names that a batch lacks", *refused(gular.OptionError, "`label`", lambda: next(iter(loader(as_tuple=["labels"])))))
    check("bfloat16 for NumPy is refused at once", *refused(gular.OptionError, "hint:", lambda: loader(numbers="bf16", output="numpy")))
    check("a bundle that is not there", *refused(gular.BundleError, "nowhere", lambda: gular.DataLoader("nowhere")))
    try:
        gular.DataLoader("nowhere")
    except OSError as error:
        again = pickle.loads(pickle.dumps(error))
        same = (str(again), again.hint, again.key) == (str(error), error.hint, error.key)
        check("an error of a bundle has no errno, and pickles", error.errno is None and same and type(again) is type(error), repr(again))
    check("options that cannot be", *refused(ValueError, "batch_size", lambda: loader(batch_size=0)))
    check("a split that cannot be", *refused(gular.OptionError, "option `split`: `dev` is not", lambda: loader(split="dev")))
    for made in (gular.DataLoader, gular.GularDataset, lambda *of: len(gular.GularIterable(*of))):
        check("a split that the bundle lacks", *refused(gular.OptionError, "no split `test`; it has `train`, `val`", lambda: made("bundle", "test")))
    pathlib.Path("unpacked").mkdir()
    no_secret_shows()
    check("a folder that was never packed", *refused(gular.BundleError, "gular pack", lambda: gular.DataLoader("unpacked")))
    for wanted, options in [
        ("`batch_size`: expected a whole number of 0 or more, found `None`", {"batch_size": None}),
        ("`batch_size`: expected a whole number of 0 or more, found `8.0`", {"batch_size": 8.0}),
        ("`batch_size`: expected a whole number of 0 or more, found `\"8\"`", {"batch_size": "8"}),
        ("`size`: expected a whole number of 0 or more, found `-1`", {"size": -1}),
        ("`size`: expected a whole number of 0 or more, found `\"a\"`", {"size": "a"}),
        ("`workers`: expected a whole number of 0 or more, found `-1`", {"workers": -1}),
        ("`window`: expected a whole number of 0 or more, found `None`", {"order": "window", "window": None}),
        ("`split`: expected a text", {"split": 64}),
        ("`numbers`: `float16` is not one of `f32`", {"numbers": "float16"}),
        ("`epochs`: expected a whole number", {"epochs": "many"}),
        ("`mixup`: nan is not a finite number", {"mixup": float("nan")}),
        ("`draw`: the weight of sample 1 is nan", {"draw": [1.0, float("nan"), 2.0]}),
        ("`normalise`: 7 is not", {"normalise": 7}),
        ("`keys`: 'train/a.jpg' is not a list", {"keys": "train/a.jpg"}),
        ("`fields`: None is not a list", {"fields": None}),
    ]:
        right, told = refused(gular.OptionError, wanted, lambda: loader(**options))
        check(f"options of wrong types: {options}", right and "line 1" not in told, told)
    for name, instead in [("num_workers", "workers="), ("pin_memory", "device="), ("collate_fn", "as_tuple"), ("dtype", "numbers="),
                          ("normalize", "normalise="), ("sampler", "order="), ("prefetch_factor", "slots="), ("batchsize", "`batch_size`")]:
        for made in (gular.DataLoader, gular.GularIterable):
            check(f"{name} of {made.__name__}", *refused(TypeError, instead, lambda: made("bundle", **{name: 1})))
    check("an epoch below 0", *refused(gular.OptionError, "-1", lambda: loader().set_epoch(-1)))
    check("half an epoch", *refused(gular.OptionError, "1.5", lambda: loader().set_epoch(1.5)))
    check("a state that is none", *refused(gular.StateError, "None is not the state", lambda: loader().load_state_dict(None)))
    right, told = refused(gular.StateError, "missing field", lambda: loader().load_state_dict({}))
    check("an empty state", right and "line 1" not in told, told)
    broken = pathlib.Path("torn")
    (broken / "train" / "a").mkdir(parents=True)
    (broken / "train" / "a" / "0.jpg").write_bytes(pathlib.Path("images/train/class 1/1.jpg").read_bytes()[:900])
    run(GULAR, "pack", "torn", "torn.bundle", "--quiet")
    try:
        list(gular.DataLoader("torn.bundle"))
        check("a sample that cannot be decoded is named", False, "nothing was raised")
    except gular.SampleError as error:
        check("a sample that cannot be decoded is named", error.key == "train/a/0.jpg" and 'on_bad_sample="skip"' in error.hint, str(error))


def kept():
    ours = loader(slots=3)
    batches = list(ours)
    seen = [index for batch in batches for index in batch["index"].tolist()]
    check("list(loader) has every sample once", sorted(seen) == list(range(ours.n_samples)), str(len(seen)))
    again = loader()
    same = all(torch.equal(one["image"], other["image"]) for one, other in zip(batches, again))
    check("kept batches stay as they are", same)
    # Else the loader has one slot left and copies its batches to wherever memory is free.
    del batches
    places = set()
    for _ in range(4):
        for batch in ours:
            places.add(batch["image"].data_ptr())
            del batch
    check("memory comes back with the last reference", len(places) <= 3, str(len(places)))
    tensor = next(iter(loader()))["image"]
    value = tensor.clone()
    gc.collect()
    check("a tensor outlives its loader", torch.equal(tensor, value))
    tensor += 1
    check("a tensor may be written to", torch.equal(tensor, value + 1))


def every_sample_once():
    for split in ["train", "val"]:
        seen = []
        for rank in range(3):
            part = loader(split=split, rank=rank, world_size=3)
            got = [batch["index"].tolist() for batch in part]
            check(f"{split}: as many steps on rank {rank}", len(got) == len(part))
            seen += sum(got, [])
        check(f"{split}: three ranks have each sample once, none is padded", sorted(seen) == list(range(part.n_samples)))


def resumed():
    ranks = [loader(rank=rank, world_size=2) for rank in range(2)]
    seen, steps = [], []
    for one in ranks:
        batches = iter(one)
        steps += [next(batches) for _ in range(2)]
    seen += sum((batch["index"].tolist() for batch in steps), [])
    states = [one.state_dict() for one in ranks]
    ahead = [ranks[0].state_dict(), loader(rank=1, world_size=2).state_dict()]
    check("states of different steps are refused", *refused(gular.StateError, "are of different steps", lambda: gular.merge_states(ahead)))
    check("a state is plain and small", json.loads(json.dumps(states[0])) == states[0] and len(json.dumps(states[0])) < 1024)
    merged = gular.merge_states(states)
    del steps
    others = [loader(rank=rank, world_size=3) for rank in range(3)]
    for one in others:
        one.load_state_dict(merged)
        one.set_epoch(0)
        seen += sum((batch["index"].tolist() for batch in one), [])
    check("2 ranks, then 3: each sample once", sorted(seen) == list(range(ranks[0].n_samples)), f"{len(seen)} samples")
    told = others[0].check_delivered(gular.merge_states(one.state_dict() for one in others))
    check("and the tally proves it", told.endswith("samples, each once"), told)
    lost = gular.merge_states(one.state_dict() for one in others[:2])
    check("a rank that is left out is found", *refused(gular.DeliveryError, "epoch 0", lambda: others[0].check_delivered(lost)))
    whole, half = loader(), loader()
    expected = [batch["image"] for batch in whole]
    batches = iter(half)
    next(batches)
    again = pickle.loads(pickle.dumps(half))
    got = [batch["image"] for batch in again]
    same = len(got) == len(expected) - 1 and all(map(torch.equal, got, expected[1:]))
    check("a pickled loader goes on where it was", same, f"{len(got)} of {len(expected)}")
    check("epochs follow each other", again.epoch == 1 and whole.epoch == 1)
    after = loader()
    after.load_state_dict(whole.state_dict())
    check("after a whole epoch the next one begins", after.epoch == 1 and len(list(after)) == len(after))
    wrong = loader(seed=6)
    check("the state of another seed is refused", *refused(gular.StateError, "seed", lambda: wrong.load_state_dict(merged)))
    check("what is not a state is refused", *refused(gular.StateError, "state_dict", lambda: wrong.load_state_dict({"a": 1})))


def ranks_of_the_environment():
    code = "import sys, gular; print(gular.DataLoader('bundle').rank, gular.DataLoader('bundle').world_size)"
    env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"], "RANK": "1", "WORLD_SIZE": "4"}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    check("RANK and WORLD_SIZE are heard", told.stdout.split() == ["1", "4"], told.stdout + told.stderr)
    code = "import gular; print(gular.DataLoader('bundle').workers)"
    told = subprocess.run([sys.executable, "-c", code], env={**env, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    check("a batch system's cores are heard", told.stdout.split() == ["1"], told.stdout + told.stderr)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29631")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    os.environ.update(RANK="1", WORLD_SIZE="4")
    one = gular.DataLoader("bundle")
    check("torch.distributed goes first", (one.rank, one.world_size) == (0, 1))
    torch.distributed.destroy_process_group()
    del os.environ["RANK"], os.environ["WORLD_SIZE"]
    n = loader().n_samples
    for batch_size, world_size, options, empty in [
        (n - 1, 3, {}, 0), (n // 2, 2, {}, n % 2), (n // 2, 2, {"drop_last": True}, 0), (n // 2, 2, {"order": "torch"}, 0),
        (1, n - 1, {}, n - 2), (1, n - 1, {"split": "val"}, 0), (1, n, {}, 0),
    ]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            loader(batch_size=batch_size, rank=0, world_size=world_size, workers=1, **options)
        said = [str(one.message) for one in told if one.category is gular.EmptyBatchWarning]
        right = len(said) == (empty > 0) and all(f"empty on {empty} of {world_size} ranks" in one for one in said)
        check(f"ranks without a last batch: {n} samples by {batch_size} on {world_size}, {options}", right, str(said))
    check("half a rank is refused", *refused(gular.OptionError, "world_size", lambda: loader(rank=1)))


def forked(ours, batches, answers):
    for use in [ours.state_dict, lambda: next(batches), lambda: next(iter(ours)), lambda: len(ours)]:
        answers.put(refused(gular.ForkError, "spawn", use))
    # Gone here, it waits for no thread.
    del ours, batches
    gc.collect()
    answers.put((len(list(loader())) > 0, "a loader of its own"))


def spawned(ours, answers):
    answers.put(sum(len(batch["index"]) for batch in ours))


def forked_in_a_copy(batches, answers):
    answers.put(refused(gular.ForkError, "fork", lambda: next(batches)))


def processes():
    ours = loader()
    batches = iter(ours)
    batch = next(batches)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=forked, args=(ours, batches, answers))
    child.start()
    for use in ["state_dict", "next", "iter", "len", "a loader of the child's own"]:
        check(f"in a forked process: {use}", *answers.get())
    child.join(20)
    check("a forked process ends", child.exitcode == 0, str(child.exitcode))
    check("and the parent goes on", len(list(batches)) == len(ours) - 1 and len(batch["index"]) == 7)
    ours = loader(device="cpu")
    send = ours._copies._send
    ours._copies._send = lambda batch: (time.sleep(0.5), send(batch))[1]
    batches = iter(ours)
    next(batches)
    answers = fork.SimpleQueue()
    child = fork.Process(target=forked_in_a_copy, args=(batches, answers))
    child.start()
    child.join(20)
    check("a process forked while a batch is copied ends", child.exitcode == 0, str(child.exitcode))
    if child.exitcode is None:
        child.kill()
    else:
        check("with the error", *answers.get())
    check("and its parent goes on", len(list(batches)) == len(ours) - 1)
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.SimpleQueue()
    child = spawn.Process(target=spawned, args=(loader(), answers))
    child.start()
    check("a spawned process has the loader it was given", answers.get() == ours.n_samples)
    child.join(20)


def interrupted():
    # Pictures that take a second to decode, so that the wait is long.
    make = pathlib.Path("big/train/a")
    make.mkdir(parents=True)
    from PIL import Image
    noise = np.random.default_rng(0).integers(0, 256, (3000, 4000, 3), dtype=np.uint8)
    for i in range(24):
        (make / f"{i}.jpg").symlink_to("0.jpg") if i else Image.fromarray(noise).save(make / "0.jpg", quality=95)
    run(GULAR, "pack", "big", "big.bundle", "--quiet")
    ours = gular.DataLoader("big.bundle", batch_size=24, workers=1, size=600)
    pressed = []

    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.3, press).start()
    try:
        next(iter(ours))
        check("Ctrl-C ends the wait for a batch", False, "it came before")
    except KeyboardInterrupt:
        took = time.monotonic() - pressed[0]
        check("Ctrl-C ends the wait for a batch", took < 2, f"{took:.3f} s")
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    before = counted[0]
    next(iter(ours))
    during = counted[0] - before
    stop.set()
    counter.join()
    check("other threads run while one waits", during > 20, str(during))


def samples_of_many_fields():
    """A tar of images whose red is 80 times their mask, with numbers and a note."""
    from PIL import Image

    random = np.random.default_rng(3)
    made = {}
    with tarfile.open("fields.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(10):
            mask = random.integers(0, 4, (40, 56), dtype=np.uint8)
            image = np.stack([mask * 80, *random.integers(0, 256, (2, 40, 56), dtype=np.uint8)], 2)
            count, note = np.array([[i, -i, 3], [0, 1, 2]], dtype=np.int16), f"note {i}".encode() * i
            made[f"{i:03}"] = (image, mask, count, note)
            for name, save in [
                ("png", lambda file: Image.fromarray(image).save(file, "png")),
                ("mask.png", lambda file: Image.fromarray(mask).save(file, "png")),
                ("cls", lambda file: file.write(b"%d" % (i % 3))),
                ("count.npy", lambda file: np.save(file, count)),
                ("note.txt", lambda file: file.write(note)),
            ]:
                file = io.BytesIO()
                save(file)
                member = tarfile.TarInfo(f"{i:03}.{name}")
                member.size = file.tell()
                file.seek(0)
                tar.addfile(member, file)
    run(GULAR, "adopt", "fields.tar", "--out", "fields.bundle", "--quiet")
    return made


def fields():
    made = samples_of_many_fields()
    names = ["mask", "count", "note"]
    crop = gular.CenterCrop(40, resize_short=40)
    seen = 0
    for batch in gular.DataLoader("fields.bundle", batch_size=4, numbers="stored", transform=crop, fields=names):
        for row, key in enumerate(batch["key"]):
            image, mask, count, note = next(value for name, value in made.items() if name in key)
            moved = torch.equal(batch["mask"][row], torch.from_numpy(mask[:, 8:48]))
            moved = moved and torch.equal(batch["image"][row], torch.from_numpy(image[:, 8:48]).permute(2, 0, 1))
            check(f"mask and image of {key}", moved and batch["mask"].dtype == torch.uint8, str(batch["mask"].shape))
            same = torch.equal(batch["count"][row], torch.from_numpy(count)) and batch["count"].dtype == torch.int16
            check(f"numbers and bytes of {key}", same and batch["note"][row] == note, str(batch["count"][row]))
            seen += 1
    check("each sample has its fields", seen == len(made), str(seen))
    ours = gular.DataLoader("fields.bundle", batch_size=7, size=32, seed=5, fields=names, output="dlpack")
    found = []
    for batch in ours:
        arrays = {name: sha(batch[name]) for name in ["image", "mask", "count"]}
        found.append({**arrays, "note": hashlib.sha256(b"".join(batch["note"])).hexdigest()})
    expected = in_rust("f32", "NCHW", "elastic", 0, 0, 1, *names, bundle="fields.bundle")
    check("the Rust loader's fields", found == [batch["fields"] for batch in expected], str(len(found)))

    tags = ["clear", "haze", "primary"]
    keys = sorted(path.relative_to("images").as_posix() for path in pathlib.Path("images").rglob("*.*"))
    wanted = {key: [1 + i % 7 >> bit & 1 for bit in range(3)] for i, key in enumerate(keys)}
    lines = [f"{key},{' '.join(tag for tag, has in zip(tags, wanted[key]) if has)}" for key in keys]
    pathlib.Path("tags.csv").write_text("\n".join(["file_name,tags", *lines, ""]))
    run(GULAR, "pack", "images", "tags", "--labels", "tags.csv", "--label-separator", " ", "--quiet")
    ours = gular.DataLoader("tags", batch_size=7, size=32, fields=["labels"])
    found = {}
    for batch in ours:
        check("labels of several classes are u8 [n, classes]", batch["labels"].dtype == torch.uint8 and "label" not in batch)
        found.update(zip(batch["key"], batch["labels"].tolist()))
    check("each sample has its classes", ours.classes == tags and found == {key: wanted[key] for key in keys if key.startswith("train/")}, str(found))
    mixed = next(iter(gular.DataLoader("tags", batch_size=6, size=32, fields=["labels"], mixup=0.4)))
    own = torch.tensor([wanted[key] for key in mixed["key"]], dtype=torch.float32)
    weight = mixed["weight"].view(-1, 1)
    expected = weight * own + (1 - weight) * own.roll(3, 0)
    check("several labels are blended as the pixels are", torch.allclose(mixed["labels"], expected) and not torch.equal(expected, own), str(mixed["labels"]))
    check("fields that are not there", *refused(gular.OptionError, "no field `mask`", lambda: loader(fields=["mask"])))
    check("names that batches have", *refused(gular.OptionError, "`key`", lambda: loader(fields=["key"])))


def asked_by_frameworks():
    ours = loader()
    check("what frameworks ask of PyTorch's loader is not here", not any(hasattr(ours, name) for name in ("sampler", "batch_sampler", "collate_fn")))
    try:
        ours.sampler
    except AttributeError as error:
        check("and the way to resume is named", "load_state_dict" in str(error), str(error))


def epoch_of(loading, number):
    loading.set_epoch(number)
    return loading


def repeated():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gular.loader._has_warned = False
        for number in range(3):
            # Others begin where the last one ended, or have other samples.
            epoch_of(loader(seed=77), number).__iter__()
            loader(seed=77, fold=(number, 3)).__iter__()
        check("epochs and folds that differ are not warned of", not told, str([str(one.message) for one in told]))
        for _ in range(3):
            loader(seed=77).__iter__()
        texts = [str(one.message) for one in told if one.category is gular.RepeatedEpochWarning]
        check("an epoch that is begun again is warned of once", len(texts) == 1 and "set_epoch" in texts[0], str(texts))


def datasets():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))
    import gular_dataset
    from PIL import Image

    ours, plain = gular.GularDataset("bundle", "train"), gular_dataset.GularDataset("bundle", "train")
    same = all(ours[i] == plain[i] and ours.key(i) == plain.key(i) and ours.digest(i) == plain.digest(i) for i in range(len(plain)))
    check("GularDataset is that of the tutorial", same and ours.sizes == plain.sizes and ours.classes == plain.classes)
    check("GularDataset has ImageFolder's targets", ours.targets == [ours.label(i) for i in range(len(ours))] and set(ours.targets) == {0, 1, 2})
    labels = gular.GularDataset("bundle", "train", field="label")
    check("labels have no digests", labels.digest(0) is None and isinstance(ours.digest(0), bytes))
    check("samples count from the end too", ours[-1] == plain[len(plain) - 1])
    check("a sample past the end", *refused(IndexError, f"of {len(ours)}", lambda: ours[len(ours)]))
    decoded = gular.GularDataset("bundle", "train", decode=True)
    pngs = [i for i in range(len(decoded)) if decoded.key(i).endswith(".png")]
    same = all(np.array_equal(decoded[i][0], np.asarray(Image.open(pathlib.Path("images") / decoded.key(i)))) for i in pngs)
    check("decoded pictures are Pillow's", same and len(pngs) > 5, str(len(pngs)))
    bad = gular.GularDataset("torn.bundle", decode=True)
    check("a picture that cannot be decoded is named", *refused(gular.SampleError, "train/a/0.jpg", lambda: bad[0]))
    expected = [(len(value), label) for value, label in ours]
    for workers, context in [(0, None), (2, "fork"), (2, "spawn")]:
        loading = torch.utils.data.DataLoader(ours, 8, num_workers=workers, multiprocessing_context=context, collate_fn=list)
        got = [(len(value), label) for batch in loading for value, label in batch]
        check(f"GularDataset, {workers} workers, {context}", got == expected, f"{len(got)} of {len(expected)}")
    sampler = gular.ElasticSampler(ours, seed=3)
    sampler.set_epoch(2)
    order = sum((batch["index"].tolist() for batch in epoch_of(loader(seed=3, order="elastic"), 2)), [])
    check("ElasticSampler has the loader's order", list(sampler) == order and len(sampler) == len(ours))
    of_ranks = [list(gular.ElasticSampler(ours, 3, rank, 3)) for rank in range(3)]
    check("over ranks each sample once", sorted(sum(of_ranks, [])) == list(range(len(ours))))
    sampler.set_epoch(2, consumed=10)
    check("from where it left off", list(sampler) == order[10:])
    numbers = torch.utils.data.DataLoader(range(len(ours)), 8, sampler=sampler, num_workers=2)
    check("in PyTorch's loader with workers", torch.cat(list(numbers)).tolist() == order[10:])
    for workers, context, ranks in [(0, None, 1), (2, "fork", 2), (2, "spawn", 1)]:
        seen = []
        for rank in range(ranks):
            data = gular.GularIterable("bundle", "train", 7, size=32, seed=5, rank=rank, world_size=ranks)
            loading = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context)
            seen += [index for batch in loading for index in batch["index"].tolist()]
        what = f"GularIterable, {ranks} ranks, {workers} workers, {context}"
        check(f"{what}: each sample once", sorted(seen) == list(range(len(ours))), str(len(seen)))


def iterable(**options):
    return gular.GularIterable("bundle", "train", 7, size=32, seed=5, **options)


def iterated(data, workers, context=None):
    loading = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context)
    return [index for batch in loading for index in batch["index"].tolist()]


def iterables():
    n = loader().n_samples
    everything, whole = list(range(n)), [iterated(iterable(), 0)]
    data = iterable()
    data.set_epoch(1)
    whole.append(iterated(data, 0))
    for workers, context in [(0, None), (2, "fork"), (2, "spawn")]:
        what = f"GularIterable, {workers} workers, {context}"
        data = iterable()
        batches = iter(data)
        first = [index for _ in range(2) for index in next(batches)["index"].tolist()]
        state = data.state_dict()
        check(f"{what}: a look at the first batches ends with them", sorted(iterated(data, workers, context)) == everything)
        if context == "spawn":
            check(f"{what}: a look is not pickled", sorted(iterated(pickle.loads(pickle.dumps(data)), 0)) == everything)
            continue
        data = iterable()
        data.load_state_dict(state)
        data.set_epoch(0)
        rest = iterated(data, workers, context)
        check(f"{what}: set_epoch keeps a state of that epoch", sorted(first + rest) == everything, str(len(rest)))
        data.set_epoch(1)
        check(f"{what}: the next epoch is whole", sorted(iterated(data, workers, context)) == everything)
        data.load_state_dict(state)
        data.set_epoch(1)
        check(f"{what}: set_epoch leaves a state of another epoch", sorted(iterated(data, workers, context)) == everything)
        data.load_state_dict(state)
        if workers:
            refusal = refused(gular.StateError, "set_epoch", lambda: iterated(data, workers, context))
            check(f"{what}: a state alone would be given again and again", *refusal)
            # PyTorch's iterator, which the error has kept, is not for the next worker to find.
            gc.collect()
        else:
            check(f"{what}: resumes", sorted(first + iterated(data, 0)) == everything)
            check(f"{what}: then gives the next epoch", iterated(data, 0) == whole[1] != whole[0])
        data = iterable()
        iterated(data, workers, context)
        if workers:
            check(f"{what}: the main process knows no position", *refused(gular.StateError, "num_workers=0", data.state_dict))
        else:
            check(f"{what}: has the position of the epoch", data.state_dict()["consumed"] == n)
        data.set_epoch(5)
        check(f"{what}: no position of the epoch before", *refused(gular.StateError, "has not begun", data.state_dict))
        keys = [batch["key"] for batch in loader()][0][:3]
        some = iterable(keys=(key for key in keys))
        counts = [len(iterated(some, workers, context)) for _ in range(2)]
        check(f"{what}: keys of a generator, in each epoch", counts == [3, 3], str(counts))
    counted = torch.utils.data.DataLoader(iterable(), batch_size=None)
    check("GularIterable has a length", len(counted) == len(loader()) == len(list(counted)), str(len(counted)))
    module = sys.modules["gular.iterable"]
    # To count makes no loader, nor does to find the rank.
    kept, module.DataLoader = module.DataLoader, None
    try:
        lengths = [len(iterable(keys=keys, rank=rank, world_size=2)) for rank in range(2)] + [len(iterable(select=lambda sample: sample.label == 0))]
    finally:
        module.DataLoader = kept
    expected = len(loader(select=lambda sample: sample.label == 0))
    check("a length under a selection", lengths == [1, 1, expected], str(lengths))
    check("GularIterable names an option that is not there", *refused(TypeError, "`batchsize`", lambda: iterable(batchsize=3)))
    for alone in [{"rank": 1}, {"world_size": 2}]:
        check(f"GularIterable, {alone} alone", *refused(gular.OptionError, "world_size", lambda: iterable(**alone)))


LOCKED = """
import ctypes, gc, os, pathlib, platform, signal, struct, sys

# As on a file system without flock, so that locks are files that a thread keeps fresh: a filter
# of system calls that answers flock with ENOSYS.
number = {"x86_64": 73, "aarch64": 32}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit("cannot filter system calls")

import gular

held = lambda: sorted(map(str, pathlib.Path("cache").rglob("*.shared-*")))
data = gular.GularDataset(sys.argv[1], cache="cache")
first, before = data[0], held()
child = os.fork()
if not child:
    # One that hangs is killed.
    signal.alarm(30)
    same = data[0] == first
    del data
    gc.collect()
    os._exit(not same)
status = os.waitpid(child, 0)[1]
print(status, len(before), held() == before, data[0] == first)
"""


def masks():
    """A mask is its values: indices of a palette, 0 and 1, 16 bits."""
    from PIL import Image

    random = np.random.default_rng(5)
    made = {
        "palette.png": Image.fromarray(random.integers(0, 3, (20, 24), dtype=np.uint8), "P"),
        "bit.png": Image.fromarray(random.integers(0, 2, (20, 24), dtype=bool)),
        "wide.png": Image.fromarray(random.integers(0, 60_000, (20, 24), dtype=np.uint16)),
    }
    made["palette.png"].putpalette([9, 90, 210] * 256)
    for name, mask in made.items():
        for folder, image in [("masked", Image.fromarray(random.integers(0, 256, (20, 24, 3), dtype=np.uint8))), ("the masks", mask)]:
            path = pathlib.Path(folder, "train/a", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
    run(GULAR, "pack", "masked", "masked.bundle", "--mask", "the masks", "--quiet")
    data = gular.GularDataset("masked.bundle", "train", field="mask", decode=True)
    for number in range(len(data)):
        name = pathlib.Path(data.key(number)).name
        value, expected = data[number][0], np.asarray(made[name])
        right = value.shape == (20, 24) and np.array_equal(value, expected) and value.dtype == (np.uint16 if name == "wide.png" else np.uint8)
        check(f"a mask of GularDataset is its values: {name}", right, f"{value.dtype} {value.shape}, up to {value.max()}")
    check("GularDataset has ImageFolder's class_to_idx", data.class_to_idx == {"a": 0}, str(data.class_to_idx))


def turned():
    """The orientation of a picture, as of the loader's option."""
    from PIL import Image

    path = pathlib.Path("turned/train/a/0.jpg")
    path.parent.mkdir(parents=True)
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(path, exif=exif)
    run(GULAR, "pack", "turned", "turned.bundle", "--quiet")
    shapes = [gular.GularDataset("turned.bundle", decode=True, orientation=orientation)[0][0].shape for orientation in (True, False)]
    check("GularDataset turns pictures unless it is not to", shapes == [(30, 20, 3), (20, 30, 3)], str(shapes))


def defaults():
    """Without options batches follow the bundle: Fashion-MNIST's CSV gives 28 x 28 x 1."""
    from PIL import Image

    random = np.random.default_rng(6)
    rows = [[i % 3, *random.integers(0, 256, 784)] for i in range(300)]
    head = ["label", *(f"pixel{i}" for i in range(1, 785))]
    pathlib.Path("fashion.csv").write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]) + "\n")
    run(GULAR, "pack", "fashion.csv", "fashion", "--quiet")
    ours = gular.DataLoader("fashion", batch_size=128)
    batches = list(ours)
    right = [batch["image"].shape for batch in batches] == [(128, 1, 28, 28), (128, 1, 28, 28), (44, 1, 28, 28)]
    check("Fashion-MNIST's CSV has one channel and its own size", right and batches[0]["image"].dtype == torch.float32, str(batches[0]["image"].shape))
    said = ours.stats()["fitted"]
    check("and stats() say why", "28 x 28" in said and "grey" in said, said)
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 26 * 26, 3))
    loss = torch.nn.functional.cross_entropy(network(batches[0]["image"]), batches[0]["label"])
    loss.backward()
    check("it trains", bool(torch.isfinite(loss)))
    three = next(iter(gular.DataLoader("fashion", batch_size=4, bands=[0, 0, 0], size=32)))["image"]
    check("unless asked otherwise", three.shape == (4, 3, 32, 32), str(three.shape))
    whole = next(iter(gular.DataLoader("fashion", "train", 300, shuffle=False, transform=gular.Resize(28), numbers="stored")))["image"]
    check("nothing is resized", torch.equal(whole[:, 0], torch.tensor(np.array([row[1:] for row in rows], dtype=np.uint8)).view(-1, 28, 28)[whole_order(whole, rows)]), "pixels differ")

    for kind, mode, channels in [("grey", "L", 1), ("coloured", "RGB", 3)]:
        for split, n in [("train", 12), ("val", 4)]:
            for i in range(n):
                path = pathlib.Path(kind, split, "a", f"{i}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(random.integers(0, 256, (40, 32, 3), dtype=np.uint8)).convert(mode).save(path)
        run(GULAR, "pack", kind, f"{kind}.bundle", "--quiet")
        shapes = [next(iter(gular.DataLoader(f"{kind}.bundle", split, 4)))["image"].shape for split in ("train", "val")]
        check(f"small {kind} files keep size and channels", shapes == [(4, channels, 40, 32)] * 2, str(shapes))
        plain = next(iter(gular.DataLoader(f"{kind}.bundle", "val", 4, shuffle=False, numbers="stored")))
        same = all(np.array_equal(image.permute(1, 2, 0).squeeze(-1).numpy(), np.asarray(Image.open(pathlib.Path(kind, key)))) for image, key in zip(plain["image"], plain["key"]))
        check(f"evaluation of small {kind} files changes no pixel", same)
    one = next(iter(gular.DataLoader("coloured.bundle", "val", 4, bands=[0])))["image"]
    check("one band of colour pictures is normalised", one.shape == (4, 1, 40, 32) and bool(torch.isfinite(one).all()), str(one.shape))
    url = pathlib.Path("grey.bundle").resolve().as_uri()
    streamed = next(iter(gular.DataLoader(url, "train", 4, order="window", cache="grey.cache")))["image"]
    check("a stream has the same defaults", streamed.shape == (4, 1, 40, 32), str(streamed.shape))
    pathlib.Path("mixed/train/a").mkdir(parents=True)
    for i in range(40):
        Image.fromarray(random.integers(0, 256, (40, 32, 3), dtype=np.uint8)).convert("RGB" if i == 39 else "L").save(f"mixed/train/a/{i:02}.png")
    run(GULAR, "pack", "mixed", "mixed.bundle", "--stored-order", "sorted", "--quiet")
    check("a colour picture among grey ones is refused", *refused(gular.OptionError, "`train/a/39.png` has colours", lambda: list(gular.DataLoader("mixed.bundle"))))
    check("unless bands are given", len(list(gular.DataLoader("mixed.bundle", bands=[0, 1, 2], batch_size=40))) == 1)
    shape = next(iter(gular.DataLoader("bundle", batch_size=2)))["image"].shape
    check("pictures of several sizes are 224 pixels", shape == (2, 3, 224, 224), str(shape))


def normalised():
    """Only 8-bit colour and grey take ImageNet's numbers; others take those of their bands."""
    random = np.random.default_rng(7)
    scenes = random.integers(0, 3, (6, 4, 40, 32)).astype(np.uint16) * [[[[1]], [[50]], [[700]], [[9000]]]]
    for dtype in ["uint16", "float32"]:
        pathlib.Path(dtype, "train").mkdir(parents=True)
        for i, scene in enumerate(scenes.astype(dtype)):
            np.save(pathlib.Path(dtype, "train", f"{i}.npy"), scene)
        run(GULAR, "pack", dtype, f"{dtype}.bundle", "--as", "arrays", "--labels", "none", "--quiet")
        mean, std = scenes.mean((0, 2, 3)), scenes.std((0, 2, 3))
        for bands, options in [([3, 0, 1], {"normalise": "bundle"}), ([2], {"normalise": "bundle"}), ([0, 1, 2], {})]:
            ours = gular.DataLoader(f"{dtype}.bundle", "train", 6, shuffle=False, transform=gular.Resize(40, 32), bands=bands, **options)
            batch = next(iter(ours))
            order = [int(pathlib.PurePath(key).stem) for key in batch["key"]]
            expected = ((scenes - mean[:, None, None]) / std[:, None, None])[order][:, bands]
            off = float(np.abs(batch["image"].numpy() - expected).max())
            check(f"bands {bands} of {dtype} have mean 0 and deviation 1", off < 1e-4, off)
            said = ours.stats()["fitted"]
            check("and what was not chosen is said", ("bundle's pixels" in (said or "")) == (not options), said)
    run(GULAR, "derive", "uint16.bundle", "fewer", "--limit", "3", "--quiet")
    check("a part of the samples has no statistics", *refused(gular.OptionError, "derived from others", lambda: gular.DataLoader("fewer", normalise="bundle")))
    check("and nothing is taken in silence", *refused(gular.OptionError, '`normalise="scaled"`', lambda: gular.DataLoader("fewer")))


def whole_order(images, rows):
    """Which row each image is."""
    by_bytes = {bytes(np.array(row[1:], dtype=np.uint8)): number for number, row in enumerate(rows)}
    return torch.tensor([by_bytes[image.numpy().tobytes()] for image in images])


def damaged_cache():
    """A flipped byte in the node's own cache is fetched again, and a copy in a folder names the command."""
    url = pathlib.Path("bundle").resolve().as_uri()
    again = lambda: sum(len(batch["key"]) for batch in gular.DataLoader(url, batch_size=7, size=16, cache="flip.cache"))
    n = again()
    shard = max(pathlib.Path("flip.cache").rglob("data/train-*"), key=lambda file: file.stat().st_size)
    whole = shard.read_bytes()
    flip(shard)
    gc.collect()
    check("a flipped byte of the node's cache does not end a training run", again() == n)
    check("and is right afterwards", shard.read_bytes() == whole)
    shutil.copytree("bundle", "flipped")
    flip(next(pathlib.Path("flipped/data").glob(shard.name)))
    check("of a folder the error names the command", *refused(gular.BundleError, "gular verify flipped", lambda: list(gular.DataLoader("flipped", batch_size=7, size=16))))


def flip(path):
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def datasets_across_a_fork():
    env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"]}
    url = pathlib.Path("bundle").resolve().as_uri()
    told = subprocess.run([sys.executable, "-c", LOCKED, url], env=env, capture_output=True, text=True)
    if "cannot filter" in told.stderr:
        skip("a dataset across a fork, with locks that are files", "seccomp", "a kernel with CONFIG_SECCOMP_FILTER")
        return
    right = told.stdout.split() == ["0", "1", "True", "True"] and "panicked" not in told.stderr
    check("a forked process leaves the lock of its parent's dataset alone", right, told.stdout + told.stderr)


def every_python():
    smoke = pathlib.Path(__file__).resolve().parents[2] / "python" / "tests" / "smoke.py"
    env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"]}
    told = {}
    for python in [sys.executable, *filter(None, (shutil.which(f"python3.{minor}") for minor in range(9, 15)))]:
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            told[python] = subprocess.run([python, smoke, "bundle"], env=env, capture_output=True, text=True)
    right = {one.stdout for one in told.values() if one.returncode == 0}
    check(f"NumPy alone, {len(told)} Pythons: the same batches", len(right) == 1 and all(not one.returncode for one in told.values()), str(told))


def documented():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for number, block in enumerate(blocks, 1):
        if re.search(r"^import (pytorch_lightning|tensorflow|jax)\b", block, re.MULTILINE):
            # In long/python_frameworks.py, with these libraries.
            continue
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(block, f"block {number}", "exec"), {})
            check(f"docs/python.md, block {number}", "check_delivered" not in block or "48 samples, each once" in out.getvalue(), out.getvalue())
        except Exception as error:
            check(f"docs/python.md, block {number}", False, repr(error))
    check("docs/python.md has code", len(blocks) >= 4, str(len(blocks)))
    parameters = inspect.signature(gular.DataLoader).parameters.values()
    options = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    # What is left in a table is another library's, and so are some words to the right of it.
    ours = re.sub(r"^\|[^|]*\|", "|", page, flags=re.MULTILINE)
    others = {"rank", "decode", "num_workers", "pin_memory", "shuffle", "sampler", "train_dataset"}
    unknown = set(re.findall(r"`(\w+)=", ours)) - options - others
    check("docs/python.md names options that there are", not unknown, str(unknown))
    undocumented = {name for name in options if f":param {name}:" not in gular.DataLoader.__doc__}
    check("every option is documented", not undocumented, str(undocumented))


def sampling():
    keys = next(iter(loader()))["key"][:3]
    only = loader(keys=keys)
    check("only these keys", sorted(key for batch in only for key in batch["key"]) == sorted(keys) and only.n_samples == 3)
    right, told = refused(gular.SampleError, "`a`, `b`, `c` and 1 more: 4 of 5 `keys`", lambda: loader(keys=[keys[0], *"abcd"]))
    check("keys that no sample has", right, told)
    check("and the steps without a loader", *refused(gular.SampleError, "no sample `a`", lambda: len(gular.GularIterable("bundle", keys=["a"]))))
    every = [key for batch in loader() for key in batch["key"]]
    check("a key in another fold is known", 0 < loader(keys=every, fold=(0, 2)).n_samples < len(every))
    check("no keys", *refused(gular.OptionError, "`keys`: none of the", lambda: loader(keys=[])))
    parts = [loader(fold=(number, 3, True, 1)) for number in range(3)]
    check("folds share the samples", sum(part.n_samples for part in parts) == loader().n_samples)
    drawn = loader(draw="class")
    labels = torch.cat([batch["label"] for batch in drawn])
    check("classes drawn alike", int(torch.bincount(labels).max() - torch.bincount(labels).min()) <= 1, str(labels))
    cut = loader(drop_last=True)
    check("drop_last leaves out what fills no batch", [len(batch["index"]) for batch in cut] == [7] * len(cut))
    plain = loader(shuffle=False)
    check("without shuffling in the bundle's order", sum((b["index"].tolist() for b in plain), []) == list(range(plain.n_samples)))
    scaled = next(iter(loader(split="val", normalise="scaled")))["image"]
    stored = next(iter(loader(split="val", numbers="stored")))["image"]
    check("scaled numbers are the stored ones by 255", torch.allclose(scaled, stored / 255), str(scaled.max()))
    by = next(iter(loader(split="val", normalise=([0.5], [0.25]))))["image"]
    check("a mean alone is refused", *refused(gular.OptionError, "normalise", lambda: loader(normalise=[0.5])))
    check("mean and std are taken", torch.allclose(by, (scaled - 0.5) / 0.25, atol=1e-5))
    bands = next(iter(loader(split="val", numbers="stored", bands=[2, 0])))["image"]
    check("bands are taken", torch.equal(bands, stored[:, [2, 0]]))
    turbo, zune = (next(iter(loader(split="val", jpeg=jpeg, numbers="stored")))["image"].float() for jpeg in ["turbo", "zune"])
    check("either library decodes JPEG", float((turbo - zune).abs().mean()) < 4, str((turbo - zune).abs().mean()))
    check("a library that is not there", *refused(gular.OptionError, "jpeg", lambda: loader(jpeg="mozjpeg")))
    shape = next(iter(loader(size=None, transform=gular.Resize(20, 30))))["image"].shape
    for split, size in [("train", (20, 36)), ("val", (36, 20))]:
        shape = next(iter(loader(split=split, size=size)))["image"].shape
        check(f"height and width of {split}", shape == (7, 3, *size), str(shape))
    padded = next(iter(loader(size=None, transform=gular.PadCrop(400, flip=0), numbers="stored")))["image"]
    check("PadCrop pads with zeros", padded.shape == (7, 3, 400, 400) and int((padded == 0).all(1).sum()) > 7 * 400 * 100)
    plain, mixed = (next(iter(loader(numbers="f32", mixup=mixup))) for mixup in [None, 0.4])
    weight, other = mixed["weight"].view(-1, 1, 1, 1), plain["image"].roll(-3, 0)
    blended = weight * plain["image"] + (1 - weight) * other
    check("mixup blends samples and names the others", torch.allclose(mixed["image"][:3], blended[:3], atol=1e-4)
          and mixed["other_label"][:3].tolist() == plain["label"][3:6].tolist() and "weight" not in plain, str(weight.flatten()))
    check("cutmix has a weight too", 0 <= float(next(iter(loader(cutmix=1.0)))["weight"].min()) <= 1)
    shape = next(iter(loader(size=None, transform=gular.Resize(20, 30))))["image"].shape
    check("Resize takes height and width", shape == (7, 3, 20, 30), str(shape))


def selections():
    facts = {}
    everything = loader(select=lambda sample: facts.setdefault(sample.key, sample))
    numbers = {key: index for batch in everything for key, index in zip(batch["key"], batch["index"].tolist())}
    labels = {key: everything.classes.index(key.split("/")[1]) for key in facts}
    told = all(one.number == numbers[key] and one.label == labels[key] for key, one in facts.items())
    digests = gular.GularDataset("bundle")
    told = told and all(one.digest == "blake3:" + digests.digest(one.number).hex() for one in facts.values())
    check("a function is told of every sample", told and len(facts) == everything.n_samples == len(numbers), str(len(facts)))
    some = loader(select=lambda sample: sample.label == 1)
    check("and selects", {label for batch in some for label in batch["label"].tolist()} == {1} and some.n_samples < len(facts))
    check("a function that selects nothing", *refused(gular.OptionError, f"none of the {len(facts)} samples", lambda: loader(select=lambda sample: False)))
    check("what it raises is raised", *refused(ZeroDivisionError, "", lambda: loader(select=lambda sample: 1 // 0)))
    check("keys and a function are refused", *refused(gular.OptionError, "keys", lambda: loader(keys=["a"], select=bool)))
    never = list(facts.values())[0].digest
    without = loader(never=[never])
    check("never comes what is not to", without.n_samples == len(facts) - sum(one.digest == never for one in facts.values()))
    weights = [float(number % 2) for number in range(len(facts))]
    drawn = [index for batch in loader(draw=weights) for index in batch["index"].tolist()]
    check("drawn by weights", len(drawn) == len(facts) and all(index % 2 for index in drawn), str(drawn))
    endless, whole = loader().stream(), len(loader())
    seen = [index for _ in range(2 * whole) for index in next(endless)["index"].tolist()]
    check("without end each epoch has every sample", sorted(seen) == sorted(2 * list(range(len(facts)))), str(len(seen)))


def augmentations():
    options = {"split": "val", "numbers": "stored", "size": 24}
    plain = next(iter(loader(**options)))["image"]

    def made(*changes, **more):
        return next(iter(loader(**{**options, **more}, augment=changes)))["image"]

    for name, change, expected in [
        ("VerticalFlip", gular.VerticalFlip(1), plain.flip(2)),
        ("HorizontalFlip", gular.HorizontalFlip(1), plain.flip(3)),
        ("a Shift of nothing", gular.Shift(0), plain),
        ("ColorJitter of nothing", gular.ColorJitter(), plain),
        ("Grayscale never", gular.Grayscale(0), plain),
    ]:
        check(f"{name} is PyTorch's", torch.equal(made(change), expected))
    turned = made(gular.QuarterTurns())
    turns = [[torch.equal(one, torch.rot90(was, n, (1, 2))) for n in range(4)] for one, was in zip(turned, plain)]
    check("QuarterTurns are torch.rot90's", all(map(any, turns)) and not all(of[0] for of in turns), str(turns))
    flat, turned = made(size=(24, 16)), made(gular.QuarterTurns(), size=(24, 16))
    turns = [[torch.equal(one, torch.rot90(was, n, (1, 2))) for n in (0, 2)] for one, was in zip(turned, flat)]
    check("of pictures that are not square by 0 or 2", all(map(any, turns)) and not all(of[0] for of in turns), str(turns))
    moved = made(gular.Shift(6))
    check("Shift moves, and zeros come in", not torch.equal(moved, plain) and int((moved == 0).all(1).sum()) > 20)
    grey = made(gular.Grayscale(1)).int()
    check("Grayscale leaves no colours", int((grey[:, 0] - grey[:, 2]).abs().max()) == 0 and not torch.equal(grey, plain.int()))
    erased = made(gular.Erasing(1, value=7)) != plain
    check("Erasing overwrites a part", 0 < float(erased.any(1).float().mean()) < 0.5)
    jittered = made(gular.ColorJitter(0.5, 0.5, 0.5, 0.2))
    check("ColorJitter changes colours, the same each time", torch.equal(jittered, made(gular.ColorJitter(0.5, 0.5, 0.5, 0.2), workers=1)) and not torch.equal(jittered, plain))
    both = made(gular.VerticalFlip(1), gular.HorizontalFlip(1))
    check("one change after another", torch.equal(both, plain.flip(2, 3)))
    check("a change that cannot be", *refused(gular.OptionError, "augment", lambda: made(gular.VerticalFlip(2))))
    check("a change of one's own", *refused(gular.OptionError, "augment", lambda: made(torch.nn.ReLU())))
    large = {"split": "train", "numbers": "stored", "size": None, "transform": gular.Resize(16), "jpeg": "turbo"}
    full, reduced = (next(iter(loader(**large, scaling=scaling)))["image"].int() for scaling in ["full", "reduced"])
    far = int((full - reduced).abs().max())
    check("large JPEGs are decoded in full where that is asked for", 0 < far <= 24, str(far))
    check("too many pixels", *refused(gular.SampleError, "pixels", lambda: list(loader(max_pixels=100))))


def mixes():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))
    import gular_dataset

    def mix(rank=0, world_size=1):
        parts = [loader(rank=rank, world_size=world_size, seed=seed, fold=(seed, 2, True, 0)) for seed in range(2)]
        return gular.Mix([(parts[0], 3), (parts[1], 1)], seed=9)

    whole, taken = mix(), []
    for number, batch in whole:
        taken.append((number, batch["index"].tolist()))
        if len(taken) == 20:
            break
    expected = gular_dataset.mixture([3, 1], 9, 20).tolist()
    check("a mix draws loaders as FORMAT.md says", [number for number, _ in taken] == expected, str(taken))
    state, half = None, mix()
    for step, _ in enumerate(half):
        if step == 7:
            state = json.loads(json.dumps(half.state_dict()))
            break
    more = [(number, batch["index"].tolist()) for (number, batch), _ in zip(half, range(12))]
    check("a second loop over a mix goes on", more == taken[8:], f"{more}, {taken[8:]}")
    again = mix()
    again.load_state_dict(state)
    rest = [(number, batch["index"].tolist()) for (number, batch), _ in zip(again, range(12))]
    check("a mix goes on where it was", rest == taken[8:], f"{rest}, {taken[8:]}")
    ranks, states = [mix(rank, 2) for rank in range(2)], []
    for one in ranks:
        batches = iter(one)
        for _ in range(5):
            next(batches)
        states.append(one.state_dict())
    merged = gular.merge_states(states)
    check("states of ranks of a mix are merged", merged["step"] == 5 and merged["loaders"][0]["tally"]["count"] == merged["loaders"][0]["consumed"], str(merged))
    check("the state of another mix", *refused(gular.StateError, "weights", lambda: gular.Mix([(loader(), 1)], seed=9).load_state_dict(state)))
    check("weights of 0", *refused(gular.OptionError, "weights", lambda: gular.Mix([(loader(), 0)])))


def devices():
    plain = [batch["image"].clone() for batch in loader()]
    ours = loader(device="cpu")
    got, states = [], []
    for batch in ours:
        got.append(batch["image"])
        states.append(ours.state_dict())
    check("batches on a device are the same", len(got) == len(plain) and all(map(torch.equal, got, plain)))
    counts = [state["consumed"] for state in states]
    check("a state counts no batch that is on its way", counts == [min(7 * (i + 1), ours.n_samples) for i in range(len(counts))], str(counts))
    again = loader(device="cpu")
    again.load_state_dict(states[1])
    rest = [batch["image"] for batch in again]
    check("and resumes at the next", len(rest) == len(plain) - 2 and all(map(torch.equal, rest, plain[2:])), str(len(rest)))
    told = again.check_delivered()
    check("each sample once", told.endswith("each once"), told)
    left = iter(ours)
    next(left)
    iter(ours)
    check("an epoch that another one ended says so", *refused(gular.Error, "another iteration", lambda: next(left)))
    check("a device that is none", *refused(gular.OptionError, "`device`", lambda: loader(device="gpu")))
    check("a device that nothing is copied to", *refused(gular.OptionError, "`meta`", lambda: loader(device="meta")))
    if not torch.cuda.is_available():
        check("a GPU that is not there", *refused(gular.OptionError, "no GPU", lambda: loader(device="cuda")))
    few = loader(device="cpu", as_tuple=["image", "label"], slots=6)
    places = {images.data_ptr() for _ in range(3) for images, labels in few}
    check("memory comes back", len(places) <= 6, str(len(places)))
    half = pathlib.Path("half/train/a")
    half.mkdir(parents=True)
    picture = pathlib.Path("images/train/class 1/1.jpg").read_bytes()
    (half / "0.jpg").write_bytes(picture)
    (half / "1.jpg").write_bytes(picture[:900])
    run(GULAR, "pack", "half", "half.bundle", "--quiet")
    good = []
    broken = lambda: good.extend(gular.DataLoader("half.bundle", batch_size=1, size=32, shuffle=False, device="cpu"))
    check("a broken sample costs no batch before it", *refused(gular.SampleError, "train/a/1.jpg", broken))
    check("and that comes first", [batch["key"] for batch in good] == [["train/a/0.jpg"]], str(len(good)))
    check("NumPy has no devices", *refused(gular.OptionError, "device", lambda: loader(device="cpu", output="numpy")))
    if torch.cuda.is_available():
        on_gpu = [batch["image"] for batch in loader(device="cuda")]
        same = all(one.is_cuda and torch.equal(one.cpu(), other) for one, other in zip(on_gpu, plain))
        check("batches on a GPU are the same", same and len(on_gpu) == len(plain))


def streamed():
    make_images("many", 150)
    run(GULAR, "pack", "many", "small", "--shard-size", "1MiB", "--quiet")
    url = pathlib.Path("small").resolve().as_uri()
    manifest = json.loads(pathlib.Path("small/manifest.json").read_text())
    sizes = sorted((shard["bytes"] for shard in manifest["shards"]), reverse=True)
    beside = sum(shard["index"]["bytes"] for shard in manifest["shards"]) + os.path.getsize("small/manifest.json")
    cache = pathlib.Path("stream.cache")

    def stored():
        return sum(file.stat().st_size for file in cache.rglob("data/*") if file.is_file())

    limit = beside + 3 * sizes[0]
    window = {"order": "window", "window": 1}
    local = [batch["image"].clone() for batch in gular.DataLoader("small", batch_size=7, size=32, seed=5, **window)]

    def remote(**options):
        return gular.DataLoader(url, **{"batch_size": 7, "size": 32, "seed": 5, **window, "cache": cache, "cache_limit": limit, **options})

    ours, most, got = remote(), 0, []
    val = gular.DataLoader(url, "val", 7, size=32, seed=5, cache=cache)
    check("it starts without a shard", stored() <= beside < sum(sizes), str(stored()))
    for batch in ours:
        got.append(batch["image"].clone())
        most = max(most, stored())
    check("a stream's batches are those of the bundle", len(got) == len(local) > 5 and all(map(torch.equal, got, local)))
    check("its cache stays below the limit, and the bundle is above it", 0 < most <= limit < sum(sizes), f"{most}, {limit}, {sum(sizes)}")
    told = ours.check_delivered()
    check("each sample of a stream came once", told.endswith("each once"), told)
    both = [sum(len(batch["key"]) for batch in one) for one in (val, ours)]
    check("loaders of one URL share its room", both == [val.n_samples, ours.n_samples] and stored() <= limit, f"{both}, {stored()}")
    check("and its limit", *refused(gular.OptionError, "share the cache", lambda: remote(cache_limit=limit + 1)))
    check("a limit that is not a size", *refused(gular.OptionError, "cache_limit", lambda: remote(cache_limit="much")))
    # A batch keeps its loader's bundle open.
    del ours, val, batch
    gc.collect()
    check("too little room is named", *refused(gular.TransferError, "at a time", lambda: remote(cache_limit=beside + 1000)))
    whole = remote(order="elastic", cache_limit=f"{beside + sum(sizes)}")
    second = lambda: remote(order="elastic", cache_limit=f"{beside + sum(sizes)}")
    check("room that another loader has is named", *refused(gular.TransferError, "of other loaders of this process", second))
    check("any order streams where there is room", sum(len(batch["key"]) for batch in whole) == whole.n_samples)
    del whole
    gc.collect()
    shutil.rmtree(cache)

    # Each shard is kept from coming, as if another process were fetching it.
    lines = []
    ours = remote(progress=lines.append)
    folder = next(cache.rglob("data"))
    locks = [open(folder / f".gular-tmp-bring-{shard['name']}", "w") for shard in manifest["shards"]]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        next(iter(ours))
        check("Ctrl-C ends the wait for a shard", False, "it came before")
    except KeyboardInterrupt:
        check("Ctrl-C ends the wait for a shard", time.monotonic() - begun < 2)
    threading.Timer(1.5, lambda: [lock.close() for lock in locks]).start()
    n = sum(len(batch["key"]) for batch in ours)
    check("what is waited for is told", any("waiting for shard" in line and "another process" in line for line in lines), str(lines))
    check("and comes", n == ours.n_samples)
    del ours
    gc.collect()
    shutil.rmtree(cache)


if __name__ == "__main__":
    # A shell that starts this in the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    packed()
    numbers_of_rust()
    arrays()
    outputs()
    kept()
    every_sample_once()
    resumed()
    ranks_of_the_environment()
    sampling()
    selections()
    augmentations()
    mixes()
    devices()
    streamed()
    fields()
    asked_by_frameworks()
    repeated()
    datasets()
    masks()
    turned()
    defaults()
    normalised()
    damaged_cache()
    datasets_across_a_fork()
    iterables()
    documented()
    every_python()
    processes()
    interrupted()
    print(f"gular {gular.__version__}, torch {torch.__version__}, numpy {np.__version__}")
    finish()
