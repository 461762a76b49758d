"""Draw a train.zip like the one of Kaggle's "Dogs vs. Cats": train/cat.0.png, train/dog.0.png, …

    python draw_pets.py train.zip     # pointed ears are cats, hanging ears are dogs
"""
import random
import struct
import sys
import zipfile
import zlib

SIDE = 64


def png(rows):
    """The bytes of a PNG of `rows` of (red, green, blue)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def is_pet(kind, x, y):
    """Whether a point is part of the head, whose middle is (0, 0) and whose radius is 1."""
    if x * x + y * y < 1:
        return True
    if kind == "cat":  # two triangles that point up
        return -1.6 < y < 0 and abs(abs(x) - 0.7) < (y + 1.6) / 4
    return ((abs(x) - 1.15) / 0.35) ** 2 + ((y - 0.3) / 0.8) ** 2 < 1  # two ellipses at the sides


def draw(kind, chance):
    """A head somewhere in the picture, with two eyes and a nose."""
    fur, back = ([chance.randrange(low, low + 90) for _ in "rgb"] for low in (130, 20))
    radius = chance.uniform(12, 18)
    middle_x, middle_y = (chance.uniform(0.4, 0.6) * SIDE for _ in "xy")

    def pixel(column, row):
        x, y = (column - middle_x) / radius, (row - middle_y) / radius
        dark = (abs(x) - 0.4) ** 2 + (y + 0.2) ** 2 < 0.02 or x * x + (y - 0.35) ** 2 < 0.02
        colour = back if dark or not is_pet(kind, x, y) else fur
        noise = chance.randrange(-15, 16)
        return [value + noise for value in colour]

    return png([[pixel(column, row) for column in range(SIDE)] for row in range(SIDE)])


chance = random.Random(1)
with zipfile.ZipFile(sys.argv[1], "w") as file:
    for number in range(250):
        for kind in ("cat", "dog"):
            file.writestr(f"train/{kind}.{number}.png", draw(kind, chance))
