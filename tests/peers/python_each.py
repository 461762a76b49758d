"""A function of the user's own for each sample: what it gets, what becomes of its results, and that
no number of processes, threads or ranks and no resume changes them."""

import ctypes
import io
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import warnings

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import albumentations as A
    import cloudpickle  # noqa: F401
    import numpy as np
    import torch
    from albumentations.pytorch import ToTensorV2
    from PIL import Image
    from torchvision import transforms, tv_tensors
    from torchvision.transforms import v2
except ImportError as missing:
    print(f"skip python_each: {missing.name} missing, install: pip install albumentations cloudpickle torch torchvision pillow")
    sys.exit(0)

import gular
from _shared import check, finish, make_images
from _shared import gular as program

SIZE = 32


def made(bundle="bundle", **options):
    """The samples of one epoch, by key, and the loader."""
    loader = gular.DataLoader(bundle, **{"batch_size": 7, "size": SIZE, "output": "numpy", **options})
    samples = {}
    for batch in loader:
        for at, key in enumerate(batch["key"]):
            assert key not in samples, key
            samples[key] = {name: np.array(value[at]) for name, value in batch.items() if name != "key"}
    if "rank" not in options:
        loader.check_delivered()
    return samples, loader


def same(one, other, name="image"):
    return one.keys() == other.keys() and all(np.array_equal(one[key][name], other[key][name]) for key in one)


def unchanged(sample, rng):
    return sample


def noisy(sample, rng):
    picture = sample["image"].astype("float32") / 255
    return picture + rng.normal(0, 0.1, picture.shape).astype("float32")


def shapes_and_orders():
    plain, _ = made()
    for where in ("processes", "threads"):
        same_samples, loader = made(each=unchanged, each_in=where)
        check(f"a function that changes nothing changes nothing, {where}", same(plain, same_samples))
        stats = loader.stats()
        check(f"where it runs is said, {where}", (stats["each_in"], stats["each_workers"] >= 1) == (where, True), str(stats))
    one, _ = made(each=noisy)
    check("floats are final numbers", one[min(one)]["image"].dtype == np.float32 and 0 < one[min(one)]["image"].mean() < 1)
    check("each sample has random numbers of its own", len({sample["image"].tobytes() for sample in one.values()}) == len(one))
    check("they do not depend on workers", same(one, made(each=noisy, workers=5)[0]))
    check("nor on where it runs", same(one, made(each=noisy, each_in="threads", workers=3)[0]))
    ranks = [made(each=noisy, rank=rank, world_size=2)[0] for rank in range(2)]
    check("nor on ranks", same(one, {**ranks[0], **ranks[1]}))
    check("but on the seed", not same(one, made(each=noisy, seed=1)[0]))
    for layout, numbers in (("NHWC", "f32"), ("channels_last", "f16")):
        other, _ = made(each=noisy, layout=layout, numbers=numbers)
        axes = (0, 1, 2) if layout == "channels_last" else (2, 0, 1)
        close = [np.allclose(other[key]["image"].transpose(axes), one[key]["image"], atol=2e-3) for key in one]
        check(f"in layout {layout} and numbers {numbers} too", all(close))
    loader = gular.DataLoader("bundle", batch_size=7, size=SIZE, output="numpy", each=noisy)
    batches = iter(loader)
    first = [next(batches) for _ in range(2)]
    state = loader.state_dict()
    rest = [np.array(batch["image"]) for batch in batches]
    resumed = gular.DataLoader("bundle", batch_size=7, size=SIZE, output="numpy", each=noisy)
    resumed.load_state_dict(state)
    again = [np.array(batch["image"]) for batch in resumed]
    check("a resume goes on with the same samples", len(first) == 2 and all(map(np.array_equal, rest, again)) and len(rest) == len(again))


def libraries():
    chain = A.Compose([A.HorizontalFlip(p=0.5), A.RandomBrightnessContrast(p=1), A.Normalize(), ToTensorV2()])
    one, _ = made(each=chain)
    check("albumentations: as it is, with results of its own", one[min(one)]["image"].min() < -0.5)
    check("albumentations: workers do not matter", same(one, made(each=chain, workers=4)[0]))
    check("albumentations: nor threads", same(one, made(each=chain, each_in="threads", workers=3)[0]))
    chain = v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4), v2.ToDtype(torch.float32, scale=True)])
    one, _ = made(each=chain)
    check("torchvision v2: as it is", 0 <= one[min(one)]["image"].min() <= one[min(one)]["image"].max() <= 1)
    check("torchvision v2: workers do not matter", same(one, made(each=chain, workers=4)[0]))
    chain = transforms.Compose([transforms.Grayscale(3), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    one, _ = made(each=chain)
    check("grey pictures of three channels", all(np.ptp(sample["image"], 0).max() == 0 for sample in one.values()))
    try:
        made(each=chain, each_in="threads")
        check("torchvision in threads is refused", False)
    except gular.OptionError as error:
        check("torchvision in threads is refused", "one generator" in str(error), str(error))


def boxes_and_masks():
    folder = pathlib.Path("boxes")
    (folder / "masks").mkdir(parents=True)
    lines = []
    for i in range(9):
        pixels = np.zeros((60, 80, 3), np.uint8)
        pixels[10 + i : 30 + i, 20:50] = 255
        (folder / "images").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / f"images/{i}.png")
        Image.fromarray(pixels[:, :, 0] // 255).save(folder / f"masks/{i}.png")
        lines.append(f'{{"file_name": "{i}.png", "x": 20, "y": {10 + i}}}')
    boxes = [
        f'{{"id": {i}, "image_id": {i}, "category_id": 1, "bbox": [20, {10 + i}, 30, 20]}}' for i in range(9)
    ]
    images = [f'{{"id": {i}, "file_name": "{i}.png", "width": 80, "height": 60}}' for i in range(9)]
    (folder / "coco.json").write_text(
        f'{{"images": [{",".join(images)}], "annotations": [{",".join(boxes)}], "categories": [{{"id": 1, "name": "box"}}]}}'
    )
    places = ["--images", "images/{key}.png", "--mask", "masks/{key}.png", "--labels", "boxes/coco.json"]
    told = program("pack", "boxes", "boxes.bundle", *places)
    check("boxes and masks are packed", told["samples"] == 9, str(told))

    def follows(samples, name):
        right = []
        for sample in samples:
            _, height, width = sample["image"].shape
            left, top, right_, bottom = (np.asarray(sample["boxes"]).reshape(-1, 4)[0] * [width, height, width, height]).round().astype(int)
            inside = sample["image"][0, top + 2 : bottom - 2, left + 2 : right_ - 2]
            outside = sample["image"][0].sum() - sample["image"][0, max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right_ + 2].sum()
            mask = np.asarray(sample["mask"])
            right.append(inside.min() > 0.9 and abs(outside) < 1e-3 and np.array_equal(mask, sample["image"][0] > 0.5))
        check(f"{name}: boxes and masks follow the picture", all(right), str(right))

    flips = A.Compose(
        [A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5), A.ToFloat(255), ToTensorV2()],
        bbox_params=A.BboxParams(format="pascal_voc", label_fields=["labels"]),
    )
    to_float = v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)
    options = dict(transform=gular.Resize(60, 80), fields=["mask", "boxes", "box_labels"], batch_size=4)
    for name, chain in (
        ("albumentations", flips),
        ("torchvision v2", v2.Compose([v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(), to_float])),
    ):
        loader = gular.DataLoader("boxes.bundle", each=chain, collate=list, **options)
        follows([numpied(sample) for batch in loader for sample in batch], name)
    loader = gular.DataLoader("boxes.bundle", each=unchanged, numbers="stored", output="numpy", **options)
    stored = gular.DataLoader("boxes.bundle", numbers="stored", output="numpy", **options)
    pairs = zip(loader, stored)
    equal = [
        all(np.array_equal(a[name], b[name]) for name in ("image", "mask"))
        and all(np.array_equal(np.load(io.BytesIO(one)), np.load(io.BytesIO(other))) for one, other in zip(a["boxes"], b["boxes"]))
        for a, b in pairs
    ]
    check("fields that a function leaves are as they were", all(equal), str(equal))


def numpied(sample):
    return {name: np.asarray(value) for name, value in sample.items()}


def of_boxes():
    """Boxes that a transform drops, and those in another form."""
    options = dict(transform=gular.Resize(60, 80), fields=["mask", "boxes", "box_labels", "box_crowd"], batch_size=4, collate=list)

    def epoch(each):
        return [sample for batch in gular.DataLoader("boxes.bundle", each=each, **options) for sample in batch]

    half = A.Compose([A.Crop(0, 0, 15, 60)], bbox_params=A.BboxParams(format="coco", label_fields=["labels"]))
    dropped = [[len(sample[name]) for name in ("boxes", "box_labels", "box_crowd")] for sample in epoch(half)]
    check("albumentations: dropped boxes take their labels along", dropped == [[0, 0, 0]] * 9, str(dropped))
    half = v2.Compose([v2.Lambda(lambda value: value), v2.CenterCrop((60, 10)), v2.SanitizeBoundingBoxes()])
    moved = epoch(half)
    kept = {tuple(len(sample[name]) for name in ("boxes", "box_labels", "box_crowd")) for sample in moved}
    check("torchvision: so do dropped boxes", kept == {(1, 1, 1)}, str(kept))
    half = v2.Compose([v2.ConvertBoundingBoxFormat("CXCYWH")])
    plain = [sample["boxes"] for sample in epoch(unchanged)]
    same_boxes = [np.allclose(sample["boxes"], boxes) for sample, boxes in zip(epoch(half), plain)]
    check("torchvision: boxes of another form are read as such", len(same_boxes) == 9 and all(same_boxes), str(same_boxes))
    for name, each, words in (
        ("boxes without parameters", A.Compose([A.HorizontalFlip(p=1)]), "bbox_params"),
        ("old transforms beside boxes", transforms.Compose([transforms.RandomHorizontalFlip()]), "torchvision.transforms.v2"),
        ("boxes of another shape", lambda sample, rng: {**sample, "boxes": np.zeros((2, 3))}, "[n, 4]"),
        ("boxes without labels", lambda sample, rng: {**sample, "boxes": np.zeros((5, 4))}, "5 `boxes` and"),
    ):
        try:
            for _ in gular.DataLoader("boxes.bundle", each=each, numbers="stored", **{**options, "collate": None}):
                pass
            check(f"{name} are refused", False)
        except gular.FunctionError as error:
            check(f"{name} are refused", words in str(error), str(error))


CHAIN = A.Compose([A.RandomBrightnessContrast(p=1), A.GaussNoise(p=1)])
GENERATOR = np.random.default_rng(0)


def through_globals(sample, rng):
    noise = GENERATOR.normal(0, 1, sample["image"].shape)
    return (CHAIN(image=sample["image"])["image"] + noise).clip(0, 255).astype("uint8")


def drawn_elsewhere():
    """Transforms and generators that a function refers to."""
    one, _ = made(each=through_globals)
    check("what a function draws elsewhere does not depend on workers", same(one, made(each=through_globals, workers=5)[0]))
    check("and differs from epoch to epoch", not same(one, made_again(through_globals)))
    try:
        made(each=through_globals, each_in="threads")
        check("threads do not share generators", False)
    except gular.OptionError as error:
        check("threads do not share generators", "generator" in str(error), str(error))


def imports(sample, rng):
    import random

    return sample if random.random() < 2 else None


DRAW = np.random.rand


def by_another_name(sample, rng):
    return sample if DRAW() < 2 else None


def usual_places():
    """Where a function is called unless the user says so: in threads where Python is free-threaded and
    the results are those of processes, else in processes."""
    safe = {"unchanged": unchanged, "chain": A.Compose([A.GaussNoise(p=1)])}
    others = {"globals": through_globals, "imports": imports, "named": by_another_name, "torchvision": v2.Compose([v2.ColorJitter(0.2)])}
    found = {name for name, each in {**safe, **others}.items() if gular.each._is_safe_in_threads(gular.each._called(each), each)}
    check("what is the same in threads", found == set(safe), str(found))
    real = getattr(sys, "_is_gil_enabled", None)
    for has_lock, place in ((True, "processes"), (False, "threads")):
        sys._is_gil_enabled = lambda has_lock=has_lock: has_lock
        try:
            where = made(each=unchanged)[1].stats()["each_in"]
        finally:
            if real is None:
                del sys._is_gil_enabled
            else:
                sys._is_gil_enabled = real
        check(f"the usual place, {'one thread at a time' if has_lock else 'free-threaded'}", where == place, where)


def made_again(each):
    loader = gular.DataLoader("bundle", batch_size=7, size=SIZE, output="numpy", each=each)
    loader.set_epoch(1)
    return {key: {"image": np.array(image)} for batch in loader for key, image in zip(batch["key"], batch["image"])}


def sizes():
    def cut(sample, rng):
        top, left = rng.integers(0, sample["image"].shape[0] - SIZE + 1), rng.integers(0, sample["image"].shape[1] - SIZE + 1)
        return sample["image"][top : top + SIZE, left : left + SIZE]

    options = dict(transform=gular.Whole(SIZE), size=None)
    one, _ = made(each=cut, **options)
    check("whole pictures are given to a function that crops", one[min(one)]["image"].shape == (3, SIZE, SIZE))
    check("its crops do not depend on workers", same(one, made(each=cut, workers=3, **options)[0]))
    loader = gular.DataLoader(
        "bundle", batch_size=5, transform=gular.Whole(), each=lambda sample, rng: {**sample, "crop": torch.ones(3), "words": ["a", 1]}, collate=list
    )
    samples = [sample for batch in loader for sample in batch]
    heights = {sample["image"].shape[0] for sample in samples}
    check("with `collate` pictures differ in size", len(heights) > 1, str(heights))
    check("and samples have fields of their own", samples[0]["words"] == ["a", 1] and samples[0]["crop"].dtype == torch.float32)
    check("labels come with them", all(isinstance(sample["label"], int) for sample in samples))
    loader.check_delivered()
    tensors = lambda sample, rng: (torch.arange(3, dtype=torch.bfloat16), {"tensors": sample["image"][:2]}, sample["key"])
    batch = next(iter(gular.DataLoader("bundle", batch_size=5, transform=gular.Whole(), each=tensors, collate=list)))
    right = [(one.dtype, list(more), isinstance(key, str)) == (torch.bfloat16, ["tensors"], True) for one, more, key in batch]
    check("and anything else that a function returns", len(batch) == 5 and all(right), str(batch[0]))
    failing = gular.DataLoader("bundle", batch_size=5, each=unchanged, collate=lambda samples: 1 / 0)
    try:
        next(iter(failing))
    except ZeroDivisionError:
        check("a batch whose `collate` failed was not delivered", failing.state_dict()["consumed"] == 0, str(failing.state_dict()))
    check("and each comes once", len({sample["key"] for sample in samples}) == len(samples) == loader.n_samples)


def mistakes():
    def fails(sample, rng):
        raise KeyError("no such thing")

    def tells_bytes(sample, rng):
        raise ValueError("no labels in \udcff")

    cases = [
        ("an exception may speak of bytes that are no text", tells_bytes, {}, "no labels in"),
        ("an exception has its key and its line", fails, {}, "in fails"),
        ("another size is named", lambda sample, rng: sample["image"][:5], {}, f"u8 [5, {SIZE}, 3] as `image`"),
        ("so are fields that batches do not have", lambda sample, rng: {"other": 1}, {}, "`other`"),
        ("nothing is not a sample", lambda sample, rng: None, {}, "returned nothing"),
        ("labels are whole numbers", lambda sample, rng: {**sample, "label": 0.7}, {}, "0.7 as `label`"),
        ("labels are not left out", lambda sample, rng: {**sample, "label": None}, {}, "None as `label`"),
        ("numbers are not cut", lambda sample, rng: sample["image"].astype("int32") + 300, {}, "uint8 does not have"),
        ("whole pictures need the right size", unchanged, {"transform": gular.Whole(SIZE), "size": None}, f"[{SIZE}, {SIZE}, 3]"),
    ]
    for name, function, options, words in cases:
        try:
            made(each=function, **options)
            check(name, False, "no error")
        except gular.FunctionError as error:
            check(name, words in str(error) and error.key and error.key in str(error), str(error))
    for name, options, words in [
        ("whole pictures without a function", {"transform": gular.Whole(SIZE), "size": None}, "`each` is not given"),
        ("`collate` without a function", {"collate": list}, "`each`, which is not given"),
        ("`device` beside `collate`", {"each": unchanged, "collate": list, "numbers": "f16"}, "option `numbers`"),
        ("what is not a function", {"each": 5}, "not a function"),
        ("a function of another kind", {"each": lambda a, b, c: a}, "sample, rng"),
        ("a place that is not one", {"each": unchanged, "each_in": "cloud"}, '"processes"'),
    ]:
        try:
            made(**options)
            check(name, False, "no error")
        except gular.OptionError as error:
            check(name, words in str(error), str(error))


def scripts():
    """Scripts of their own: without cloudpickle, ended at any time."""
    head = """
        import os, sys, time
        sys.path.insert(0, os.environ["GULAR_PYTHON"])
        import gular
    """
    pathlib.Path("without.py").write_text(
        textwrap.dedent(
            head
            + """
        sys.modules["cloudpickle"] = None
        def each(sample, rng):
            return sample
        def main():
            print(sum(len(batch["key"]) for batch in gular.DataLoader("bundle", size=32, each=each)))
        if "all" in sys.argv:
            main()
        elif __name__ == "__main__":
            main()
    """
        )
    )
    run = subprocess.run([sys.executable, "without.py"], capture_output=True, text=True)
    check("a script with a main part needs no cloudpickle", run.returncode == 0 and run.stdout.strip().isdigit(), run.stderr)
    run = subprocess.run([sys.executable, "without.py", "all"], capture_output=True, text=True)
    check("one without it is told", '__name__ == "__main__"' in run.stderr, run.stderr)
    pathlib.Path("slow.py").write_text(
        textwrap.dedent(
            head
            + """
        import signal
        # A shell that starts this in the background has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def each(sample, rng):
            print("begun", flush=True)
            time.sleep(600)
        loader = gular.DataLoader("bundle", size=32, workers=2, each=each, each_in=sys.argv[1])
        next(iter(loader))
    """
        )
    )
    for where in ("processes", "threads"):
        for how in (signal.SIGINT, signal.SIGKILL):
            run = subprocess.Popen([sys.executable, "slow.py", where], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            run.stdout.readline()
            run.send_signal(how)
            ended = run.wait(20)
            for _ in range(100):
                left = subprocess.run(["ps", "-s", str(run.pid), "-o", "pid="], capture_output=True, text=True).stdout.split()
                if not left:
                    break
                time.sleep(0.1)
            # Ctrl-C is an exception, which ends Python by the same signal.
            check(f"{where}: {how.name} ends all of it", not left and ended in (-how, 1, 130), f"{ended}, {left} are left")


def dies(how, keys, times):
    """A function that ends its process by `how` with each of `keys`, as often as `times` says."""
    folder = os.path.abspath(f"died{len(os.listdir('.'))}")
    os.mkdir(folder)

    def each(sample, rng):
        # What it did before is not seen by the one in its place.
        picture = sample["image"]
        picture += 1
        if sample["key"] in keys:
            n = sum(name.startswith(f"{sample['index']}-") for name in os.listdir(folder))
            if n < times:
                open(f"{folder}/{sample['index']}-{n}", "w").close()
                how()
        return sample

    return each


def large_messages():
    """A group and its answer are both longer than what a socket holds."""
    columns = [f"c{n:03}_{'x' * 50}" for n in range(250)]
    names = sorted(path.relative_to("images").as_posix() for path in pathlib.Path("images").rglob("*.*"))
    rows = ["file," + ",".join(columns), *(f"{name}," + ",".join(str(n) for n in range(250)) for name in names)]
    pathlib.Path("wide.csv").write_text("\n".join(rows) + "\n")
    program("pack", "images", "wide", "--labels", "wide.csv", "--label-column", "none")
    loader = gular.DataLoader("wide", batch_size=8, workers=1, each=unchanged, fields=columns)
    check("samples of many fields pass through", sum(len(batch[columns[0]]) for batch in loader) == loader.n_samples)


def lost_processes():
    """Processes that end while they run the function."""
    ways = {"SIGKILL": lambda: os.kill(os.getpid(), 9), "SIGSEGV": lambda: ctypes.string_at(0), "exit code 3": lambda: os._exit(3)}
    expected, _ = made(each=lambda sample, rng: sample["image"] + 1)
    keys = sorted(expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error", gular.ReplacedProcessWarning)
        again, _ = made(each=dies(ways["SIGKILL"], keys[5:6], 1), workers=2, seed=9)
        check("a process is replaced, too, where warnings are errors", len(again) == len(expected))
    for name, how in ways.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            same_samples, loader = made(each=dies(how, keys[5:7], 1), workers=2)
        said = [str(one.message) for one in told if one.category is gular.ReplacedProcessWarning]
        right = len(said) == 2 and all(name in one for one in said) and sum(key in one for one in said for key in keys[5:7]) == 2
        check(f"{name}: processes are replaced, and that is told", right and loader.stats()["each_replaced"] == 2, str(said))
        check(f"{name}: each sample comes once, as if nothing had happened", same(expected, same_samples))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made(each=dies(how, keys[5:6], 2), workers=2)
                check(f"{name} twice with a sample is an error", False)
            except gular.FunctionError as error:
                right = error.key == keys[5] and name in error.what and keys[5] in error.what and error.hint
                check(f"{name} twice with a sample is an error with its key", right, str(error))
            try:
                made(each=dies(how, keys, 1), workers=2)
                check(f"{name}: not more than some are replaced", False)
            except gular.FunctionError as error:
                check(f"{name}: not more than some are replaced", name in error.what and "8 others" in error.what and error.hint, str(error))


make_images()
program("pack", "images", "bundle")
shapes_and_orders()
libraries()
boxes_and_masks()
of_boxes()
drawn_elsewhere()
usual_places()
sizes()
mistakes()
large_messages()
lost_processes()
scripts()
finish()
