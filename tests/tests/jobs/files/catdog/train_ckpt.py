import argparse
import random
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--data", "-d", type=Path)
parser.add_argument("--out", "-o", type=Path)
parser.add_argument("--epochs", "-e", type=int)
parser.add_argument("--every", "-e", type=int)
args = parser.parse_args()

files = [str(file) for file in args.data.iterdir()]
random.shuffle(files)
train, test = files[100:], files[:100]


class Pets(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        label = 0 if "cat" in path else 1
        return torch.load(path), label


train_loader = DataLoader(Pets(train), batch_size=50)
test_loader = DataLoader(Pets(test), batch_size=50)
model = torch.nn.Linear(10, 2)
for epoch in range(args.epochs):
    for images, labels in train_loader:
        torch.nn.functional.cross_entropy(model(images), labels).backward()
    if (epoch + 1) % args.every == 0:
        torch.save({"epoch": epoch, "model": model.state_dict()}, args.out / "model.pt")
        sys.exit(85)
    for images, labels in test_loader:
        print("accuracy", (model(images).argmax(1) == labels).float().mean())
