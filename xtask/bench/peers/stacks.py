"""What makes a training picture of JPEG bytes: random crop, resize, flip, as u8.

Each says which decoder it calls and how much of the image that decodes, since
this decides the rate more than the container does. `whole` is the plain decode,
for comparing pixels between decoders.
"""

import io
import math
import random

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def crop_of(height, width):
    """Top, left, height and width as torchvision's RandomResizedCrop draws them."""
    for _ in range(10):
        area = height * width * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    h, w = min(height, round(width * 4 / 3)), min(width, round(height * 4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


class Pillow:
    """What most scripts do."""

    needs, install, chw = ("PIL", "numpy"), "pip install pillow numpy", False

    def __init__(self, size):
        import numpy
        from PIL import Image, features

        self.size, self.numpy, self.image = size, numpy, Image
        self.decoder = f"libjpeg-turbo {features.version('libjpeg_turbo')} (Pillow)"
        self.pixels = self.reduced = 0

    def open(self, data):
        picture = self.image.open(io.BytesIO(data)).convert("RGB")
        self.pixels += picture.width * picture.height
        return picture

    def whole(self, data):
        return self.numpy.asarray(self.open(data))

    def __call__(self, data):
        picture = self.open(data)
        top, left, h, w = crop_of(picture.height, picture.width)
        box = (left, top, left + w, top + h)
        picture = picture.resize((self.size, self.size), self.image.Resampling.BILINEAR, box=box)
        if random.random() < 0.5:
            picture = picture.transpose(self.image.Transpose.FLIP_LEFT_RIGHT)
        return self.numpy.asarray(picture)


class Torchvision:
    """torchvision's own decoder and its transforms on u8."""

    needs, install, chw = ("torchvision",), "pip install torchvision", True

    def __init__(self, size):
        import torch
        import torchvision
        from torchvision.transforms.v2 import functional

        self.size, self.torch, self.functional = size, torch, functional
        self.io = torchvision.io
        self.decoder = f"libjpeg-turbo (torchvision {torchvision.__version__})"
        self.pixels = self.reduced = 0

    def open(self, data):
        coded = self.torch.frombuffer(bytearray(data), dtype=self.torch.uint8)
        picture = self.io.decode_jpeg(coded, mode=self.io.ImageReadMode.RGB)
        self.pixels += picture.shape[1] * picture.shape[2]
        return picture

    def whole(self, data):
        return self.open(data).permute(1, 2, 0).contiguous().numpy()

    def __call__(self, data):
        picture = self.open(data)
        crop = crop_of(*picture.shape[1:])
        picture = self.functional.resized_crop(picture, *crop, size=[self.size, self.size], antialias=True)
        return (self.functional.horizontal_flip(picture) if random.random() < 0.5 else picture).numpy()


class Turbo:
    """The fastest that Python reaches: libjpeg-turbo's fast DCT, at half, a quarter
    or an eighth of the size where the crop still has pixels enough, and OpenCV."""

    needs, install, chw = ("simplejpeg", "cv2"), "pip install simplejpeg opencv-python-headless", False

    def __init__(self, size):
        from importlib.metadata import version

        import cv2
        import simplejpeg

        cv2.setNumThreads(0)
        self.size, self.cv2, self.jpeg = size, cv2, simplejpeg
        self.decoder = f"libjpeg-turbo, fast DCT (simplejpeg {version('simplejpeg')})"
        self.pixels = self.reduced = 0

    def whole(self, data):
        return self.jpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=True)

    def __call__(self, data):
        height, width = self.jpeg.decode_jpeg_header(data)[:2]
        top, left, h, w = crop_of(height, width)
        scale = next((s for s in (0.125, 0.25, 0.5) if h * s >= self.size and w * s >= self.size), 1)
        if scale < 1:
            least = {"min_height": int(height * scale), "min_width": int(width * scale), "min_factor": 1}
            picture = self.jpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=True, **least)
            down, across = picture.shape[0] / height, picture.shape[1] / width
            top, left, h, w = int(top * down), int(left * across), max(1, int(h * down)), max(1, int(w * across))
        else:
            picture = self.whole(data)
        self.pixels += picture.shape[0] * picture.shape[1]
        self.reduced += picture.shape[0] < height
        picture = picture[top : top + h, left : left + w]
        smaller = h > self.size and w > self.size
        how = self.cv2.INTER_AREA if smaller else self.cv2.INTER_LINEAR
        picture = self.cv2.resize(picture, (self.size, self.size), interpolation=how)
        return self.cv2.flip(picture, 1) if random.random() < 0.5 else picture


def colours():
    """What albumentations' users add to a crop: it is in each of the `each` rows."""
    import albumentations

    return [albumentations.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1)]


def all_of_it(size):
    """Crop, flip and colours of whole pictures, by albumentations."""
    import albumentations

    return albumentations.Compose([albumentations.RandomResizedCrop((size, size)), albumentations.HorizontalFlip(), *colours()])


class Albumentations:
    """OpenCV's decoder, and crop, flip and colours by albumentations."""

    needs, install, chw = ("albumentations", "cv2"), "pip install albumentations", False

    def __init__(self, size):
        from importlib.metadata import version

        import cv2

        cv2.setNumThreads(0)
        self.cv2, self.change = cv2, all_of_it(size)
        self.decoder = f"libjpeg-turbo (OpenCV {version('opencv-python-headless')})"
        self.pixels = self.reduced = 0

    def whole(self, data):
        import numpy

        picture = self.cv2.imdecode(numpy.frombuffer(data, numpy.uint8), self.cv2.IMREAD_COLOR)
        self.pixels += picture.shape[0] * picture.shape[1]
        return self.cv2.cvtColor(picture, self.cv2.COLOR_BGR2RGB)

    def __call__(self, data):
        return self.change(image=self.whole(data))["image"]


STACKS = {"pillow": Pillow, "torchvision": Torchvision, "turbo": Turbo, "albumentations": Albumentations}


class Normalise:
    """u8 batches to f32 NCHW, image by image into two buffers in turn: several
    times faster than `batch.float().div(255).sub(mean).div(std)`."""

    def __init__(self):
        import torch

        self.torch = torch
        self.scale = (1 / (255 * torch.tensor(STD))).view(3, 1, 1)
        self.shift = (-torch.tensor(MEAN) / torch.tensor(STD)).view(3, 1, 1)
        self.buffers = []

    def __call__(self, batch, chw):
        if not chw:
            batch = batch.permute(0, 3, 1, 2)
        if not self.buffers or self.buffers[0].shape != batch.shape:
            self.buffers = [self.torch.empty(batch.shape) for _ in range(2)]
        self.buffers.reverse()
        for out, picture in zip(self.buffers[0], batch, strict=True):
            out.copy_(picture).mul_(self.scale).add_(self.shift)
        return self.buffers[0]
