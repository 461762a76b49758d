"""The same training step in Python fed by gular, by PyTorch's DataLoader, and by DALI where it is installed.

    python3 peers.py FOLDER BUNDLE      with FOLDER/class/file, and the bundle of them

`gular` is the package in PYTHONPATH, `gular.DataLoader(device="cuda")`.
Images are cut, mirrored and normalised as ours; the network, batch and numbers are those
of `gpu bench`. Prints one JSON object.
"""

import json
import os
import statistics
import sys
import time

import gular
import torch
import torchvision
from torchvision.transforms import v2

SIZE, BATCH, ROUNDS, STEPS = 224, 128, 5, 60
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEVICE = torch.device("cuda")
# Batches a worker process holds ready.
PREFETCH = 2


def torch_batches(folder, workers):
    """Uniform bytes to the GPU and normalised there, as the fastest advice has it."""
    pipeline = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()])

    def load(path):
        data = torchvision.io.read_file(path)
        return torchvision.io.decode_image(data, torchvision.io.ImageReadMode.RGB)

    data = torchvision.datasets.ImageFolder(folder, transform=pipeline, loader=load)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers, pin_memory=True, drop_last=True,
                                         persistent_workers=True, prefetch_factor=PREFETCH)
    mean = torch.tensor(MEAN, device=DEVICE).view(1, 3, 1, 1) * 255
    std = torch.tensor(STD, device=DEVICE).view(1, 3, 1, 1) * 255
    while True:
        for images, labels in loader:
            images, labels = images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
            images = ((images.float() - mean) / std).to(torch.bfloat16, memory_format=torch.channels_last)
            yield images, labels


def dali_batches(folder, threads):
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def
    def pipe():
        data, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(data, device="mixed", output_type=types.RGB)
        images = fn.resize(images, size=(SIZE, SIZE))
        images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="HWC",
                                          mean=[255 * m for m in MEAN], std=[255 * s for s in STD])
        return images, labels.gpu()

    built = pipe(batch_size=BATCH, num_threads=threads, device_id=0)
    built.build()
    while True:
        for out in DALIGenericIterator([built], ["images", "labels"], reader_name="reader", auto_reset=True):
            images = out[0]["images"].permute(0, 3, 1, 2).to(torch.bfloat16)
            yield images, out[0]["labels"].flatten().long()


def gular_batches(bundle):
    loader = gular.DataLoader(bundle, batch_size=BATCH, size=SIZE, numbers="bf16", layout="channels_last", drop_last=True, device=DEVICE)
    for batch in loader.stream():
        yield batch["image"], batch["label"]


def main():
    folder, bundle, cores = sys.argv[1], sys.argv[2], len(os.sched_getaffinity(0))
    torch.backends.cudnn.benchmark = True
    net = torchvision.models.resnet50().to(DEVICE).to(torch.bfloat16)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    loss = torch.nn.CrossEntropyLoss()

    def step(images, labels):
        optimiser.zero_grad()
        loss(net(images).float(), labels).backward()
        optimiser.step()

    def rate(batches, ahead):
        # What was made ahead while another was measured is used up first.
        for _ in range(ahead + 5):
            step(*next(batches))
        torch.cuda.synchronize()
        since = time.perf_counter()
        for _ in range(STEPS):
            step(*next(batches))
        torch.cuda.synchronize()
        return STEPS / (time.perf_counter() - since)

    ahead = {"synthetic": 0, "gular": 5, "DataLoader": cores * PREFETCH, "DALI": 4}
    sources = {"gular": gular_batches(bundle), "DataLoader": torch_batches(folder, cores)}
    try:
        import nvidia.dali  # noqa: F401
        sources["DALI"] = dali_batches(folder, cores)
    except ImportError:
        print("DALI is not installed", file=sys.stderr)
    first = next(sources["DataLoader"])

    def same():
        while True:
            yield first

    sources = {"synthetic": same(), **sources}
    rows = {}
    for name, batches in sources.items():
        for _ in range(10):
            step(*next(batches))
    for _ in range(ROUNDS):
        for name, batches in sources.items():
            rows.setdefault(name, []).append(rate(batches, ahead[name]))
    record = {name: {"steps_per_second": values, "images_per_second": BATCH * statistics.median(values)} for name, values in rows.items()}
    print(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__, "workers": cores, **record}))


if __name__ == "__main__":
    main()
