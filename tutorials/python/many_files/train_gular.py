"""Train a ResNet on many small files that lie in a folder of a federation, or of this machine.

DATA is a folder or a URL that fsspec opens, such as pelican://…, with train/CLASS/FILE and
val/CLASS/FILE. Each sample is one request.
"""

import argparse
import time

import fsspec
import gular
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms

NORMALIZE = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


class RemoteImages(Dataset):
    """A sample per file; its class is the folder it lies in."""

    def __init__(self, root, split, transform):
        self.fs, folder = fsspec.url_to_fs(f"{root}/{split}")
        self.files = sorted(self.fs.find(folder))
        self.names = sorted({file.split("/")[-2] for file in self.files})
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with self.fs.open(self.files[index]) as file:
            image = Image.open(file).convert("RGB")
        label = self.names.index(self.files[index].split("/")[-2])
        return self.transform(image), label


def make_loaders(args):
    crop = [transforms.RandomResizedCrop(args.size), transforms.RandomHorizontalFlip()]
    middle = [transforms.Resize(args.size * 8 // 7), transforms.CenterCrop(args.size)]
    train_set = RemoteImages(args.data, "train", transforms.Compose([*crop, transforms.ToTensor(), NORMALIZE]))
    val_set = RemoteImages(args.data, "val", transforms.Compose([*middle, transforms.ToTensor(), NORMALIZE]))
    common = {"batch_size": args.batch_size, "num_workers": args.workers}
    return DataLoader(train_set, shuffle=True, **common), DataLoader(val_set, **common)


def run_epoch(model, loader, criterion, optimizer=None):
    """Mean loss and top-1 accuracy; trains where there is an optimizer."""
    model.train(optimizer is not None)
    loss_sum = right = seen = 0
    with torch.set_grad_enabled(optimizer is not None):
        for images, labels in loader:
            outputs = model(images)
            loss = criterion(outputs, labels)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(labels)
            right += (outputs.argmax(1) == labels).sum().item()
            seen += len(labels)
    return loss_sum / seen, right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--weights", default="weights.pt")
    args = parser.parse_args()
    torch.manual_seed(0)

    common = {"batch_size": args.batch_size, "size": args.size, "as_tuple": ("image", "label")}
    train_loader = gular.DataLoader(args.data, "train", order="window", **common)
    val_loader = gular.DataLoader(args.data, "val", **common)
    model = models.resnet18(num_classes=args.classes)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
    for epoch in range(args.epochs):
        start = time.perf_counter()
        loss, right = run_epoch(model, train_loader, criterion, optimizer)
        val_loss, val_right = run_epoch(model, val_loader, criterion)
        scheduler.step()
        took = time.perf_counter() - start
        print(f"epoch {epoch} loss {loss:.4f} top-1 {right:.3f}, val loss {val_loss:.4f} top-1 {val_right:.3f}, {took:.1f} s")
    torch.save(model.state_dict(), args.weights)


if __name__ == "__main__":
    main()
