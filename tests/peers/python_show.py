"""`gular.show` and `gular.view`: a batch as one picture that other readers accept, and the page in a notebook."""

import base64
import io
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as xml

sys.path.insert(0, os.environ["GULAR_PYTHON"])

from _shared import GULAR, check, finish, gular as program, skip

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    skip("python_show", missing.name, "pip install numpy pillow")
    finish()

import gular

HOSTILE = "<script>alert(1)</script>&\u202e"
boxes = ["image_id,class,xmin,ymin,xmax,ymax"]
for i in range(10):
    pixels = np.zeros((24, 32, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(32) * 8, np.arange(24)[:, None] * 8
    mask = np.zeros((24, 32), np.uint8)
    mask[6:12, 8:16] = 1
    for folder, picture in [("images", pixels), ("masks", mask)]:
        path = pathlib.Path("source") / folder / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
    boxes.append(f"{i}.png,0,8,6,16,12")
pathlib.Path("boxes.csv").write_text("\n".join(boxes) + "\n")
program("pack", "source", "bundle", "--images", "images/{key}.png", "--mask", "masks/{key}.png", "--labels", "boxes.csv")

SVG = "{http://www.w3.org/2000/svg}"


def parts(picture):
    return xml.fromstring(picture._repr_svg_())


def pixels_of(element):
    data = element.get("href").removeprefix("data:image/png;base64,")
    return np.array(Image.open(io.BytesIO(base64.b64decode(data))))


def batch(**options):
    return next(iter(gular.DataLoader("bundle", "train", 4, transform=gular.Resize(24, 32), shuffle=False, output="numpy", **options)))


stored = batch(numbers="stored", layout="NHWC", fields=["mask", "boxes"])
found = parts(gular.show(stored, layout="NHWC"))
images = found.findall(f"{SVG}image")
check("a picture and a mask of each sample", len(images) == 8, len(images))
check("pixels are the batch's", np.array_equal(pixels_of(images[0]), stored["image"][0]))
over = pixels_of(images[1])
check("0 of the mask is transparent", np.array_equal(over[..., 3] > 0, stored["mask"][0] > 0))
rect = found.find(f"{SVG}rect")
check("boxes are drawn where they are", [float(rect.get(n)) for n in ("x", "y", "width", "height")] == [6 + 32, 6 + 24, 32, 24], rect.attrib)
planes = batch()
same = pixels_of(parts(gular.show(planes)).find(f"{SVG}image"))
check("normalised numbers are shown stretched", same.shape == (24, 32, 3) and same[0, 0, 0] < 10 and same[0, -1, 0] > 245, same.shape)
labelled = {"image": planes["image"], "label": np.array([0, 1, -100, 0])}
text = [one.text for one in parts(gular.show(labelled, classes=[HOSTILE, "dog"])).findall(f"{SVG}text")]
check("classes are texts", text == ["<script>alert(1)</s…", "dog", "unknown", "<script>alert(1)</s…"], text)
gular.show(planes, most=2).save("batch.svg")
check("it is saved", len(xml.parse("batch.svg").findall(f"{SVG}image")) == 2)
for wrong, word in [({"key": []}, "no `image`"), ({"image": np.zeros(3)}, "four axes")]:
    try:
        gular.show(wrong)
        check(f"refused: {word}", False)
    except gular.OptionError as error:
        check(f"refused: {word}", word in str(error), error)

os.environ["PATH"] = f"{pathlib.Path(GULAR).parent}:{os.environ['PATH']}"
with gular.view("bundle", height=300) as page:
    check("the page is a frame", f'src="{page.url}"' in page._repr_html_() and 'height="300"' in page._repr_html_())
    with urllib.request.urlopen(page.url + "api/bundle") as answer:
        check("and answers", b'"source":"bundle"' in answer.read())


def answers(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def soon(is_true):
    end = time.monotonic() + 20
    while not is_true() and time.monotonic() < end:
        time.sleep(0.1)
    return is_true()


check("it ends with its block", not answers(page.url))
# A kernel in a process group of its own, which is interrupted as a notebook interrupts a cell, and killed.
KERNEL = """
import signal, time, gular
signal.signal(signal.SIGINT, lambda *_: None)
page = gular.view("bundle")
print(page.url, flush=True)
time.sleep(600)
"""
env = {**os.environ, "PYTHONPATH": os.environ["GULAR_PYTHON"]}
with subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True, start_new_session=True, env=env) as kernel:
    url = kernel.stdout.readline().strip()
    check("a notebook's page answers", answers(url), url)
    os.killpg(kernel.pid, signal.SIGINT)
    time.sleep(1)
    check("interrupting a cell does not end it", answers(url))
    kernel.kill()
    check("it ends with a kernel that was killed", soon(lambda: not answers(url)))
try:
    gular.view("nowhere")
    check("what is not a bundle is refused", False)
except gular.Error as error:
    check("what is not a bundle is refused", "nowhere" in str(error), error)
finish()
