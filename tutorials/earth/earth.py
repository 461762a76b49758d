"""The same in Python: `earth.py train BUNDLE WEIGHTS`, `earth.py predict WEIGHTS SCENE.tif MAP.tif`.

The network, its names and the numbers in its weights are those of the program in Rust; each predicts
with the weights of the other.
"""

import json
import pathlib
import sys

import gular
import numpy as np
import rasterio
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

CLASSES = {"water": (50, 90, 180), "forest": (30, 110, 50), "grass": (150, 190, 90), "bare": (200, 170, 120), "town": (190, 60, 60)}
UNKNOWN = 255
ROWS, MARGIN = 128, 32


def block(come, go):
    return nn.Sequential(nn.Conv2d(come, go, 3, padding=1), nn.ReLU(), nn.Conv2d(go, go, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, bands, width=8, out=len(CLASSES)):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, bands, 1, 1))
        self.register_buffer("std", torch.ones(1, bands, 1, 1))
        self.down1, self.down2 = block(bands, width), block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.up2, self.up1 = block(6 * width, 2 * width), block(3 * width, width)
        self.last = nn.Conv2d(width, out, 1)

    def forward(self, pixels):
        fine = self.down1((pixels.float() - self.mean) / self.std)
        coarse = self.down2(F.max_pool2d(fine, 2))
        middle = self.middle(F.max_pool2d(coarse, 2))
        coarse = self.up2(torch.cat([F.interpolate(middle, scale_factor=2), coarse], 1))
        return self.last(self.up1(torch.cat([F.interpolate(coarse, scale_factor=2), fine], 1)))


def train(bundle, weights):
    manifest = json.loads((pathlib.Path(bundle) / "manifest.json").read_text())
    side, _, bands = manifest["fields"][0]["shape"]
    # Over the pixels that are not nodata.
    usual = manifest["channel_statistics"]
    pixels, sums, squares = (np.array(usual[name], float) for name in ("counts", "sum", "sum_of_squares"))
    mean = sums / pixels
    torch.manual_seed(0)
    net = UNet(bands)
    net.mean.copy_(torch.from_numpy(mean).view(1, -1, 1, 1))
    net.std.copy_(torch.from_numpy(np.sqrt(squares / pixels - mean**2)).view(1, -1, 1, 1))
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3)
    options = {"batch_size": 8, "transform": gular.Resize(side, side), "numbers": "stored", "fields": ["mask"]}
    loader = gular.DataLoader(bundle, "train", augment=[gular.HorizontalFlip(), gular.QuarterTurns()], **options)
    for epoch in range(16):
        losses = []
        for batch in loader:
            loss = F.cross_entropy(net(batch["image"]), batch["mask"].long(), ignore_index=UNKNOWN)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")
    found = np.zeros((len(CLASSES), len(CLASSES)))
    for batch in gular.DataLoader(bundle, "val", **options):
        with torch.no_grad():
            guess = net(batch["image"]).argmax(1)
        known = batch["mask"] != UNKNOWN
        np.add.at(found, (batch["mask"][known].numpy(), guess[known].numpy()), 1)
    iou = found.diagonal() / (found.sum(0) + found.sum(1) - found.diagonal()).clip(1)
    print("val IoU:", ", ".join(f"{name} {value:.2f}" for name, value in zip(CLASSES, iou)) + f", mean {iou.mean():.2f}")
    save_file(net.state_dict(), weights)


def write_map(to, values, crs, transform, nodata):
    """Writes a number per pixel as GeoTIFF; `crs` is a text, `transform` six numbers in GDAL's order."""
    pathlib.Path(to).parent.mkdir(parents=True, exist_ok=True)
    height, width = values.shape
    place = {"crs": crs or None, "transform": rasterio.Affine.from_gdal(*map(float, transform))}
    shape = {"count": 1, "height": height, "width": width, "dtype": values.dtype}
    with rasterio.open(to, "w", driver="GTiff", nodata=nodata, compress="deflate", **shape, **place) as file:
        file.write(values, 1)


def predict(weights, scene, to):
    with rasterio.open(scene) as file:
        crs, transform = file.crs, file.transform.to_gdal()
        net = UNet(file.count)
        net.load_state_dict(load_file(weights))
        classes = np.empty((file.height, file.width), np.uint8)
        for top in range(0, file.height, ROWS):
            first, last = max(top - MARGIN, 0), min(top + ROWS + MARGIN, file.height)
            pixels = file.read(window=((first, last), (0, file.width)))
            image = torch.from_numpy(pixels.astype(np.float32))[None]
            whole = F.pad(image, (0, -file.width % 4, 0, (first - last) % 4), mode="replicate")
            with torch.no_grad():
                found = net(whole).argmax(1)[0, : last - first, : file.width].numpy().astype(np.uint8)
            found[(pixels == file.nodata).all(0)] = UNKNOWN
            classes[top : top + ROWS] = found[top - first :][:ROWS]
    write_map(to, classes, crs, transform, UNKNOWN)
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(CLASSES)] = list(CLASSES.values())
    picture = pathlib.Path(to).with_suffix(".png")
    Image.fromarray(colours[classes]).save(picture)
    print(f"{to} and {picture}")


if __name__ == "__main__":
    {"train": train, "predict": predict}[sys.argv[1]](*sys.argv[2:])
