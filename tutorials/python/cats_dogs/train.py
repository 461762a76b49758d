"""Tell cats from dogs: DATA has train/cat, train/dog, val/cat and val/dog.

Goes on from its checkpoint, so that a job that was evicted loses one epoch at most.
"""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for before, after in [(3, 16), (16, 32), (32, 64)]:
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(64, 2)

    def forward(self, images):
        return self.classifier(self.features(images))


def train(model, loader, optimizer, device):
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = seen = 0
    for images, labels in loader:
        found = model(images.to(device)).argmax(1).cpu()
        right += (found == labels.cpu()).sum().item()
        seen += len(labels)
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)

    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    augment = [transforms.RandomResizedCrop(args.size), transforms.RandomHorizontalFlip()]
    middle = [transforms.Resize(args.size * 8 // 7), transforms.CenterCrop(args.size)]

    def folder(split, cut):
        changes = transforms.Compose([*cut, transforms.ToTensor(), normalize])
        return datasets.ImageFolder(os.path.join(args.data, split), changes)

    train_loader = DataLoader(folder("train", augment), args.batch_size, shuffle=True, num_workers=args.workers)
    val_loader = DataLoader(folder("val", middle), args.batch_size, num_workers=args.workers)

    model = Network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    first = 0
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
        print(f"resumed from {args.checkpoint} at epoch {first}")
    for epoch in range(first, args.epochs):
        loss = train(model, train_loader, optimizer, device)
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy(model, val_loader, device):.3f}", flush=True)
        state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, args.checkpoint + ".part")
        os.replace(args.checkpoint + ".part", args.checkpoint)


if __name__ == "__main__":
    main()
