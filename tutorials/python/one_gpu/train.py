"""Train on one GPU, or on the CPU, in a job that may be stopped at any time.

    python train.py pets     # SIGTERM, or the end of --time-limit, stops it with exit code 85
    python train.py pets     # the same command again resumes with the next sample
"""
import argparse
import os
import signal
import time

import gular
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("bundle", help="a folder or a URL")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--checkpoint", default="output/checkpoint.pt")
parser.add_argument("--time-limit", type=float, default=float("inf"), help="seconds")
args = parser.parse_args()
end, signals = time.monotonic() + args.time_limit, []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
common = {"batch_size": 32, "size": 64, "device": device, "as_tuple": ("image", "label")}
train_loader, val_loader = (gular.DataLoader(args.bundle, split, **common) for split in ("train", "val"))
layers = [nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()]
model = nn.Sequential(*layers, nn.Linear(32, len(train_loader.classes))).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
parts = {"model": model, "optimizer": optimizer, "loader": train_loader}
if os.path.exists(args.checkpoint):
    saved = torch.load(args.checkpoint, map_location="cpu")
    torch.set_rng_state(saved["random"])
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    print(f"resumed in epoch {saved['loader']['epoch']} after {saved['loader']['consumed']} samples", flush=True)

for epoch in range(train_loader.epoch, args.epochs):
    model.train()
    for images, labels in train_loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if signals or time.monotonic() > end:
            break
    os.makedirs(os.path.dirname(args.checkpoint) or ".", exist_ok=True)
    state = {name: part.state_dict() for name, part in parts.items()}
    torch.save({"random": torch.get_rng_state(), **state}, args.checkpoint + ".part")
    os.replace(args.checkpoint + ".part", args.checkpoint)
    if state["loader"]["consumed"] < train_loader.n_samples:
        print(f"stopped in epoch {epoch} after {state['loader']['consumed']} samples", flush=True)
        raise SystemExit(85)
    model.eval()
    with torch.no_grad():
        right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in val_loader)
    print(f"epoch {epoch}: {train_loader.check_delivered()}; accuracy {right / val_loader.n_samples:.2f}", flush=True)
