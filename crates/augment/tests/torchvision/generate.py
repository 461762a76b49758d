"""What torchvision makes of small pictures: `python generate.py > vectors.json`."""

import json
from unittest import mock

import torch
import torchvision
from torchvision.transforms import functional as F
from torchvision.transforms import v2

# Square, for quarter turns.
SIDE = 7
# Width and height of the two pictures of a batch.
PAIR = 6, 4


def picture():
    values = [(i * i * 37 + i * 91 + i // 3 * 17) % 256 for i in range(SIDE * SIDE * 3)]
    # Grey, black, white and one that is nearly grey.
    values[:12] = [77, 77, 77, 0, 0, 0, 255, 255, 255, 128, 129, 128]
    return values


def cases():
    yield "rgb_to_grayscale", 0, lambda x: F.rgb_to_grayscale(x, 3)
    for name in ["adjust_brightness", "adjust_contrast", "adjust_saturation"]:
        for factor in [0.0, 0.4, 1.0, 1.37, 2.5]:
            yield name, factor, lambda x, n=name, f=factor: getattr(F, n)(x, f)
    for turn in [-0.5, -0.17, 0.0, 0.08, 0.33, 0.5]:
        yield "adjust_hue", turn, lambda x, t=turn: F.adjust_hue(x, t)
    yield "hflip", 0, F.hflip
    yield "vflip", 0, F.vflip
    for turns in range(4):
        yield "rot90", turns, lambda x, t=turns: torch.rot90(x, t, [-2, -1])
    # Two to the right and one up: the crop's corner is at (4 - 2, 4 + 1) of the padded picture.
    yield "pad_crop", 0, lambda x: F.crop(F.pad(x, [4]), 5, 2, SIDE, SIDE)
    # Rows 2 to 5, columns 1 to 3.
    yield "erase", 1, lambda x: F.erase(x, 2, 1, 4, 3, torch.ones(3, 4, 3, dtype=x.dtype))


def flat(x):
    return x.permute(1, 2, 0).reshape(-1).tolist()


class Drawn:
    """A distribution that has one number."""

    def __init__(self, number):
        self.number = number

    def sample(self, shape):
        return torch.tensor(self.number, dtype=torch.float64)


def blends():
    """A batch of two, for `roll(1)` and half a batch are the same there."""
    width, height = PAIR
    n = 2 * 3 * height * width
    batch = torch.tensor([(i * i * 29 + i * 83) % 256 / 256 for i in range(n)])
    batch = batch.view(2, 3, height, width)
    labels = torch.tensor([0, 1])
    made = []

    def add(blend, drawn, centre):
        blend._dist = Drawn(drawn)
        # In the order of `CutMix.make_params`: column, row.
        draws = [torch.tensor([at]) for at in centre or ()]
        with mock.patch("torch.randint", side_effect=draws):
            images, soft = blend(batch, labels)
        case = {"drawn": drawn, "centre": centre, "weight": soft[0, 0].item()}
        made.append({**case, "made": [flat(image) for image in images]})

    for weight in [0.0, 0.3, 0.77, 1.0]:
        add(v2.MixUp(num_classes=2), weight, None)
        for centre in [(0, 0), (3, 1), (5, 3)]:
            add(v2.CutMix(num_classes=2), weight, centre)
    return {"width": width, "height": height, "pair": [flat(x) for x in batch], "cases": made}


def vectors():
    values = picture()
    stored = torch.tensor(values, dtype=torch.uint8).view(SIDE, SIDE, 3).permute(2, 0, 1)
    made = []
    for name, argument, change in cases():
        floats = [round(v, 7) for v in flat(change(stored.float() / 255))]
        case = {"name": name, "argument": argument, "u8": flat(change(stored)), "f32": floats}
        made.append(case)
    return {
        "torchvision": torchvision.__version__,
        "width": SIDE,
        "height": SIDE,
        "pixels": values,
        "cases": made,
        "blends": blends(),
    }


if __name__ == "__main__":
    print(json.dumps(vectors()))
