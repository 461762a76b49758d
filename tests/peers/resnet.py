"""Weights that PyTorch saved under torchvision's names give PyTorch's outputs in `gular-train predict`."""

import csv
import os
import pathlib
import subprocess

from _shared import check, finish, gular, skip

try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import save_file
except ImportError as missing:
    skip("resnet", missing.name, "pip install torchvision safetensors pillow")
    finish()

TRAIN = os.environ["GULAR_TRAIN_BIN"]
SIDE = 64
# Part of the largest output. The same sums in the same libtorch, in batches of other sizes; a
# wrong stride, padding or epsilon is a hundred times that.
TOLERANCE = 1e-4


def make_pictures(n):
    """Pictures of the size that the network takes, so that nothing is resized; key -> pixels as the network has them."""
    noise = numpy.random.default_rng(3)
    made = {}
    for i in range(n):
        path = pathlib.Path(f"images/train/class {i % 3}/{i}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = noise.integers(0, 256, (8, 8, 3), dtype=numpy.uint8).repeat(SIDE // 8, 0).repeat(SIDE // 8, 1)
        Image.fromarray(pixels).save(path)
        values = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
        mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        made[path.relative_to("images").as_posix()] = (values - mean[:, None, None]) / std[:, None, None]
    return made


def make_network(name, n_classes):
    """torchvision's network with random weights, and running sums as after some training."""
    torch.manual_seed(7)
    network = torchvision.models.get_model(name, num_classes=n_classes)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.2, 0.2)
        for _ in range(3):
            network(torch.randn(8, 3, SIDE, SIDE))
    return network.eval()


def predict(weights, *options):
    command = [TRAIN, "predict", "bundle", "--weights", weights, "--logits", "--quiet", "--device", "cpu",
               "--size", str(SIDE), "--resize-short", str(SIDE), "--batch-size", "7", *options]
    return subprocess.run(command, capture_output=True, text=True)


def compare(name, network, pictures, *options, dtype=torch.float32):
    saved = {key: value.to(dtype) if value.is_floating_point() else value for key, value in network.state_dict().items()}
    save_file(saved, f"{name}.safetensors", {"format": "pt"})
    result = predict(f"{name}.safetensors", *options)
    check(f"{name}: it predicts", result.returncode == 0, result.stderr[-500:])
    if result.returncode:
        return
    rows = list(csv.DictReader(result.stdout.splitlines()))
    keys = [row["key"] for row in rows]
    check(f"{name}: every sample once, in the order of keys", keys == sorted(pictures), keys[:3])
    with torch.no_grad():
        expected = network(torch.stack([pictures[key] for key in keys]))
    columns = [column for column in rows[0] if column.startswith("score_")]
    found = torch.tensor([[float(row[column]) for column in columns] for row in rows])
    largest = expected.abs().max()
    worst = ((found - expected).abs().max() / largest).item()
    check(f"{name}: PyTorch's outputs within {TOLERANCE}", worst <= TOLERANCE, worst)
    spread = (expected.std(0).max() / largest).item()
    check(f"{name}: pictures differ by far more", spread > 100 * TOLERANCE, spread)
    names = [column.removeprefix("score_") for column in columns]
    predicted = [names[i] for i in expected.argmax(1)]
    check(f"{name}: the same classes", [row["prediction"] for row in rows] == predicted, rows[0])


def main():
    pictures = make_pictures(30)
    gular("pack", "images", "bundle")
    compare("resnet18", make_network("resnet18", 3), pictures)
    # As ImageNet's weights come: of other classes than the bundle's.
    large = make_network("resnet50", 1000)
    compare("resnet50", large, pictures, "--network", "resnet50", "--other-classes")
    compare("halves", large.half().float(), pictures, "--other-classes", dtype=torch.float16)

    refused = predict("resnet50.safetensors")
    check("other classes are refused", refused.returncode == 2 and "the weights have 1000 classes" in refused.stderr, refused.stderr)
    refused = predict("resnet18.safetensors", "--network", "resnet50")
    named = "tensor `fc.weight` of the weights is F32 [3, 512], expected F32 [3, 2048]"
    check("the first tensor that does not fit is named", refused.returncode == 2 and named in refused.stderr, refused.stderr)
    finish()


main()
