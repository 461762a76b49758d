"""What changed between two pictures: `changes.py BUNDLE FOLDER` learns it, and draws the split `val` in the folder."""

import pathlib
import sys

import gular
import torch
from earth import UNKNOWN, UNet, write_map
from torch.nn import functional as F

bundle, folder = sys.argv[1:]
options = {"batch_size": 8, "transform": gular.Resize(64), "normalise": "bundle", "fields": ["after", "mask", "image_crs", "image_transform"]}

torch.manual_seed(0)
net = UNet(6, out=2)
optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3)


def scores(batch):
    # Both pictures were cropped, turned and normalised alike.
    return net(torch.cat([batch["image"], batch["after"]], 1))


for epoch in range(30):
    for batch in gular.DataLoader(bundle, "train", augment=[gular.HorizontalFlip(), gular.QuarterTurns()], seed=epoch, **options):
        loss = F.cross_entropy(scores(batch), batch["mask"].long(), ignore_index=UNKNOWN)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

both = either = 0
for batch in gular.DataLoader(bundle, "val", shuffle=False, **options):
    with torch.no_grad():
        found = scores(batch).argmax(1)
    both += (found & batch["mask"]).sum().item()
    either += (found | batch["mask"]).sum().item()
    for key, map_, crs, transform in zip(batch["key"], found, batch["image_crs"], batch["image_transform"]):
        write_map(pathlib.Path(folder, pathlib.Path(key).name), map_.byte().numpy(), crs.decode(), transform, UNKNOWN)
print(f"val IoU of what changed: {both / either:.2f}")
