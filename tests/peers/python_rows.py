"""The table of docs/python.md that says what to write instead of PyTorch's: each row runs.

A program here contains what its row says to write, word for word, and compares what comes of it with
PyTorch's or torchvision's own where that is possible.
"""

import os
import pathlib
import re
import sys
import time
import warnings

sys.path.insert(0, os.environ["GULAR_PYTHON"])

try:
    import torch
    from torch.utils.data import DataLoader, WeightedRandomSampler
    from torch.utils.data.distributed import DistributedSampler
    from torchvision import datasets
    from torchvision.transforms import v2
except ImportError as missing:
    print(f"skip python_rows: {missing.name} missing, install: pip install torch torchvision pillow")
    sys.exit(0)

import gular
from _shared import GULAR, check, finish, make_images, run

#: What PyTorch users have, as the table says, and a program with what they write. `ours` makes a loader
#: of the bundle, `folder` is the ImageFolder with the same images.
ROWS = [
    ("`num_workers=8`", """
loader = ours(workers=8)
assert loader.workers == 8
os.environ["OMP_NUM_THREADS"] = "1"
assert ours().workers == 1
del os.environ["OMP_NUM_THREADS"]
"""),
    ("`RandomResizedCrop(224)`, `RandomHorizontalFlip()`", """
assert shape(ours(size=224)) == (3, 224, 224)
loader = ours(transform=gular.RandomCrop(224, scale=(0.5, 1.0), flip=0.5))
assert shape(loader) == (3, 224, 224)
affine = torch.cat([batch["image_affine"] for batch in ours(transform=gular.RandomCrop(224, scale=(0.5, 1.0), flip=0.5), fields=["image_affine"])])
flipped = (affine[:, 1] < 0).float().mean()
assert 0.2 < flipped < 0.8, flipped
"""),
    ("`Resize(256)`, `CenterCrop(224)`", """
loader = gular.DataLoader("bundle", "val", shuffle=False)
same = gular.DataLoader("bundle", "val", shuffle=False, transform=gular.CenterCrop(224, resize_short=256))
assert torch.equal(images(loader), images(same))
near(images(same), "val", [v2.Resize(256), v2.CenterCrop(224)], same)
"""),
    ("`Resize((224, 224))`", """
loader = gular.DataLoader("bundle", "val", shuffle=False, transform=gular.Resize(224))
near(images(loader), "val", [v2.Resize((224, 224))], loader)
"""),
    ("`Normalize(mean, std)`", """
mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
plain = images(gular.DataLoader("bundle", "val", shuffle=False, size=32, normalise=([0.0] * 3, [1.0] * 3)))
found = images(gular.DataLoader("bundle", "val", shuffle=False, size=32, normalise=(mean, std)))
assert torch.allclose(found, v2.functional.normalize(plain, mean, std), atol=1e-5)
own = images(gular.DataLoader("pixels", normalise="bundle", transform=gular.Resize(24)))
assert abs(own.mean()) < 0.01 and abs(own.std() - 1) < 0.01, (own.mean(), own.std())
"""),
    ("`.half()`, `.to(memory_format=torch.channels_last)`", """
wide = images(ours(size=32, shuffle=False))
for found in (images(ours(size=32, shuffle=False, numbers="f16")), images(ours(size=32, shuffle=False, numbers="bf16"))):
    assert found.dtype in (torch.float16, torch.bfloat16) and torch.allclose(found.float(), wide, atol=2e-2)
assert next(iter(ours(layout="channels_last")))["image"].is_contiguous(memory_format=torch.channels_last)
"""),
    ("`DistributedSampler`", """
ranks = [[key for batch in ours(rank=rank, world_size=3) for key in batch["key"]] for rank in range(3)]
assert sorted(sum(ranks, [])) == sorted(keys)
for rank in range(3):
    numbers = sum((batch["index"].tolist() for batch in ours(order="torch", rank=rank, world_size=3)), [])
    assert numbers == list(DistributedSampler(range(len(keys)), 3, rank, seed=0)), rank
sizes = {len(list(ours(drop_last=True, rank=rank, world_size=3))) for rank in range(3)}
assert len(sizes) == 1
"""),
    ("`sampler.set_epoch(n)`", """
loader = ours()
first, second = list_of(loader), list_of(loader)
n = 1
loader.set_epoch(n)
assert list_of(loader) == second != first
"""),
    ("`for images, labels in loader`", """
loader = gular.DataLoader("bundle", as_tuple=("image", "label"))
for some, labels in loader:
    assert some.dtype == torch.float32 and labels.dtype == torch.int64
"""),
    ("`drop_last=True`", """
assert {len(batch["key"]) for batch in ours(batch_size=7, drop_last=True)} == {7}
"""),
    ("`generator=`, `torch.manual_seed(1)`", """
torch.manual_seed(1)
one, other, same = list_of(ours()), list_of(ours(seed=1)), list_of(ours(seed=1))
assert one != other == same
"""),
    ("`worker_init_fn=`, `persistent_workers=True`, `prefetch_factor=4`", """
loader = ours(batch_size=4)
list(loader)
epoch = sum(sample.stat().st_size for sample in pathlib.Path("images/train").rglob("*.*"))
deadline = time.time() + 20
while loader.stats()["bytes"] <= epoch and time.time() < deadline:
    time.sleep(0.01)
# Samples of the next epoch were read.
assert loader.stats()["bytes"] > epoch
"""),
    ("`PILToTensor()`: pixels as they are", """
loader = gular.DataLoader("bundle", "val", shuffle=False, batch_size=1, numbers="stored", transform=gular.Resize(150, 160))
expected = {path: v2.functional.pil_to_tensor(image).shape for image, path in pictures("val", [])}
assert all(batch["image"].dtype == torch.uint8 and batch["key"][0] in expected for batch in loader)
"""),
    ("`len(loader.dataset)`, `loader.dataset.class_to_idx`", """
loader = ours()
assert len(loader.dataset) == len(folder) and loader.dataset.class_to_idx == folder.class_to_idx
"""),
    ("`StatefulDataLoader`: `loader.state_dict()`, `loader.load_state_dict(state)`", """
loader = ours(batch_size=5)
batches = iter(loader)
begun = list(next(batches)["key"])
state = loader.state_dict()
loader = ours(batch_size=5, workers=3)
loader.load_state_dict(state)
assert sorted(begun + list_of(loader)) == sorted(keys)
"""),
    ("`WeightedRandomSampler`", """
labels = [label for batch in ours(draw="class", epochs=1, across_epochs=False) for label in batch["label"].tolist()]
assert len(labels) == len(keys) and len(set(labels)) == 3
weights = [float(number % 2) for number in range(len(keys))]
drawn = [number for batch in ours(draw=weights) for number in batch["index"].tolist()]
assert set(WeightedRandomSampler(weights, 500)) == {number for number in range(len(keys)) if number % 2}
assert drawn and all(number % 2 for number in drawn)
"""),
    ("`RandomCrop(32, padding=4)`", """
assert shape(ours(transform=gular.PadCrop(32, padding=4))) == (3, 32, 32)
"""),
    ("`v2.MixUp(alpha=0.2)`, `v2.CutMix()`", """
for loader in (ours(size=32, mixup=0.2), ours(size=32, cutmix=1.0)):
    batch = next(iter(loader))
    assert len(batch["other_label"]) == len(batch["weight"]) == len(batch["label"])
"""),
    ("`ColorJitter`, `RandomVerticalFlip`, `RandomGrayscale`, `RandomErasing`", """
loader = ours(size=32, augment=[gular.ColorJitter(0.4, 0.4, 0.4, 0.1), gular.VerticalFlip()])
assert not torch.equal(images(loader), images(ours(size=32)))
grey = images(ours(size=32, augment=[gular.Grayscale(1.0)], normalise=([0.0] * 3, [1.0] * 3)))
assert torch.allclose(grey[:, 0], grey[:, 2])
assert not torch.equal(images(ours(size=32, augment=[gular.Erasing(1.0)])), images(ours(size=32)))
"""),
    ("a transform of your own, albumentations, torchvision v2", """
dark = images(ours(size=32, shuffle=False, each=lambda sample, rng: sample["image"] // 2, each_in="threads"))
assert dark.mean() < images(ours(size=32, shuffle=False)).mean()
"""),
    ("`collate_fn`", """
loader = ours(size=32, each=lambda sample, rng: sample["key"], each_in="threads", collate=sorted)
assert sorted(key for batch in loader for key in batch) == sorted(keys)
"""),
    ("`DataLoader(val, shuffle=False)`", """
loader = gular.DataLoader("bundle", "val", shuffle=False)
assert list_of(loader) == list_of(loader) == list_of(gular.DataLoader("bundle", "val", shuffle=False))
shuffled = gular.DataLoader("bundle", "val")
assert list_of(shuffled) != list_of(shuffled)
"""),
    ("`Subset`, `random_split`", """
few = ours(select=lambda sample: sample.label < 10)
assert len(few.dataset) == len(keys)
assert list_of(ours(keys=[keys[0]])) == [keys[0]]
digests = [sample.digest for sample in seen_by_select()][:2]
assert len(list_of(ours(never=digests))) == len(keys) - 2
parts = [list_of(ours(fold=(0, 5))), list_of(ours(fold=(0, 5), split="train"))]
assert parts[0] == parts[1] and 0 < len(parts[0]) < len(keys)
"""),
    ("`ConcatDataset`, `itertools.cycle`", """
photos, drawings = ours(batch_size=4), ours(batch_size=4, seed=1)
mixed = iter(gular.Mix([(photos, 3), (drawings, 1)]))
taken = [next(mixed) for _ in range(8)]
assert {number for number, _ in taken} == {0, 1} and all(len(batch["key"]) for _, batch in taken)
loader = ours(batch_size=16)
stream = loader.stream()
assert sum(len(next(stream)["key"]) for _ in range(2 * len(loader))) == 2 * len(keys)
"""),
    ("`pin_memory=True`, `.to(\"cuda\", non_blocking=True)`", """
if torch.cuda.is_available():
    assert next(iter(ours(device="cuda")))["image"].is_cuda
else:
    assert next(iter(ours(device="cpu")))["image"].device.type == "cpu"
    # device="cuda"
"""),
]

HERE = pathlib.Path(__file__).resolve()


def ours(**options):
    return gular.DataLoader("bundle", **options)


def list_of(loader):
    return [key for batch in loader for key in batch["key"]]


def images(loader):
    return torch.cat([batch["image"] for batch in loader])


def shape(loader):
    return tuple(next(iter(loader))["image"].shape[1:])


def seen_by_select():
    seen = []
    gular.DataLoader("bundle", select=lambda sample: bool(seen.append(sample)) or True)
    return seen


def pictures(split, transforms):
    change = v2.Compose(transforms) if transforms else lambda picture: picture
    of_split = datasets.ImageFolder(f"images/{split}")
    for path, _ in of_split.samples:
        yield change(of_split.loader(path)), str(pathlib.Path(path).relative_to("images"))


def near(found, split, transforms, loader):
    """Compares pictures with torchvision's: both resize, and not to the last bit alike."""
    after = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    expected = {key: picture for picture, key in pictures(split, [*transforms, *after])}
    for key, picture in zip(list_of(loader), found):
        difference = (picture - expected[key]).abs().mean()
        assert difference < 0.05, (key, difference)


def rows_of_the_page():
    page = (HERE.parents[2] / "docs" / "python.md").read_text()
    table = page.split("| PyTorch | Gular |\n|---|---|\n")[1].split("\n\n")[0]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table.splitlines()]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_images()
    run(GULAR, "pack", "images", "bundle", "--quiet")
    run(GULAR, "pack", "images", "pixels", "--payload", "raw", "--size", "24", "--quiet")
    folder, keys = datasets.ImageFolder("images/train"), list_of(ours())
    page = rows_of_the_page()
    check("each row of the page has a program", [row[0] for row in page] == [name for name, _ in ROWS], str([row[0] for row in page]))
    for (name, what), (_, program) in zip(page, ROWS):
        # Calls and options, as the page has them.
        words = [word for word in re.findall(r"`([^`]+)`", what) if re.search(r"[=(]", word)]
        lacking = [part for word in words for part in word.split("…") if part.strip("[](), ") not in program]
        check(f"{name}: its program has what the page says", not lacking, str(lacking))
        try:
            exec(compile(program, name, "exec"), {**globals()})
            check(f"{name}: runs", True)
        except Exception as error:
            check(f"{name}: runs", False, repr(error))
    finish()
