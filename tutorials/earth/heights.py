"""A number for each pixel: `heights.py BUNDLE FOLDER` learns heights, and draws those of the split `val` in the folder."""

import json
import pathlib
import sys

import gular
import numpy as np
import torch
from earth import UNet, write_map

bundle, folder = sys.argv[1:]
fields = {field["name"]: field for field in json.loads(pathlib.Path(bundle, "manifest.json").read_text())["fields"]}
height, width, bands = fields["image"]["shape"]
nodata = float(fields["height"]["nodata"])
options = {"batch_size": 8, "transform": gular.Resize(height, width), "normalise": "bundle"}
places = ["height", "image_crs", "image_transform"]

torch.manual_seed(0)
net = UNet(bands, out=1)
optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3)
loader = gular.DataLoader(bundle, "train", augment=[gular.HorizontalFlip(), gular.QuarterTurns()], fields=["height"], **options)
for epoch in range(20):
    for batch in loader:
        truth = batch["height"].reshape(-1, height, width)
        # Pixels without a measurement teach nothing.
        known = truth != nodata
        loss = (10 * net(batch["image"])[:, 0] - truth)[known].abs().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: {loss.item():.2f} m off")

errors, spread = [], []
for batch in gular.DataLoader(bundle, "val", shuffle=False, fields=places, **options):
    with torch.no_grad():
        found = 10 * net(batch["image"])[:, 0]
    truth = batch["height"].reshape(found.shape)
    known = truth != nodata
    errors.append((found - truth)[known])
    spread.append(truth[known])
    for key, map_, crs, transform in zip(batch["key"], found, batch["image_crs"], batch["image_transform"]):
        write_map(pathlib.Path(folder, f"{pathlib.Path(key).name}.tif"), map_.numpy(), crs.decode(), transform, nodata)
spread = torch.cat(spread)
print(f"val: {torch.cat(errors).abs().mean():.2f} m off; the mean height alone is {(spread - spread.mean()).abs().mean():.2f} m off")
