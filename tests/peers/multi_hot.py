"""Images of several classes, and of boxes: packed from a table, trained with a binary cross-entropy, read by numpy."""

import csv
import io
import json
import pathlib
import sys

from _shared import check, finish, gular, skip

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "python"))
try:
    import numpy as np
    import torch
    from gular_dataset import GularDataset
    from PIL import Image
except ImportError as missing:
    skip("multi_hot", missing.name, "pip install torch numpy pillow")
    finish()

TAGS = ["blue", "green", "red"]
noise = np.random.default_rng(7)
pathlib.Path("images").mkdir()
rows, coco = [], {"images": [], "annotations": [], "categories": [{"id": 7, "name": "spot"}]}
for i in range(160):
    has = [tag for tag in TAGS if noise.random() < 0.5] or ["red"]
    pixels = noise.integers(0, 60, (8, 8, 3), dtype=np.uint8)
    for tag in has:
        y, x = noise.integers(0, 6, 2)
        pixels[y : y + 3, x : x + 3, 2 - TAGS.index(tag)] = 255
    Image.fromarray(pixels).save(f"images/{i}.png")
    rows.append((f"{i}.png", "|".join(has)))
    coco["images"].append({"id": i, "file_name": f"{i}.png", "width": 8, "height": 8})
    for n in range(i % 4):
        coco["annotations"].append({"image_id": i, "category_id": 7, "bbox": [n, 1, 2, 4], "iscrowd": 0})
with open("tags.csv", "w", newline="") as file:
    csv.writer(file).writerows([("file_name", "tags"), *rows])
pathlib.Path("instances.json").write_text(json.dumps(coco))

options = ["--label-separator", "|", "--payload", "raw", "--size", "8", "--fractions", "train=0.75,val=0.25"]
gular("pack", "images", "tags", "--labels", "tags.csv", *options)


def split(name):
    pictures, labels = GularDataset("tags", name), GularDataset("tags", name, field="labels")
    numbers = range(len(pictures))
    x = np.stack([np.asarray(pictures.raw(i)) for i in numbers]).reshape(len(pictures), -1)
    y = np.stack([np.asarray(labels.raw(i)) for i in numbers])
    for i in numbers:
        wanted = [tag in dict(rows)[pictures.key(i)].split("|") for tag in TAGS]
        if y[i].tolist() != wanted:
            check(f"labels of {pictures.key(i)}", False, y[i])
    return torch.from_numpy(x.astype(np.float32) / 255), torch.from_numpy(y.astype(np.float32))


torch.manual_seed(0)
(x, y), (x_val, y_val) = split("train"), split("val")
check("labels are u8 [classes]", y.shape[1:] == (3,) and len(x) + len(x_val) == 160, y.shape)
model = torch.nn.Sequential(torch.nn.Linear(192, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
optimiser, loss_of = torch.optim.Adam(model.parameters(), 0.01), torch.nn.BCEWithLogitsLoss()
first = None
for _ in range(150):
    loss = loss_of(model(x), y)
    first = first or loss.item()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
right = ((model(x_val) > 0).float() == y_val).float().mean().item()
check("binary cross-entropy falls", loss.item() < 0.1 * first, (first, loss.item()))
check("unseen images get their classes", right > 0.9, right)

gular("pack", "images", "boxes", "--labels", "instances.json")
boxes, labels = GularDataset("boxes", field="boxes"), GularDataset("boxes", field="box_labels")
for i in range(len(boxes)):
    n = int(boxes.key(i).removesuffix(".png")) % 4
    found, classes = (np.load(io.BytesIO(bytes(data.raw(i)))) for data in (boxes, labels))
    wanted = np.array([[k / 8, 1 / 8, (k + 2) / 8, 5 / 8] for k in range(n)]).reshape(n, 4)
    if not (np.array_equal(found, wanted) and classes.tolist() == [0] * n):
        check(f"boxes of {boxes.key(i)}", False, found)
check("boxes are numpy's arrays", len(boxes) == 160)
finish()
