#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes Fashion-MNIST as PNG files, a folder for each class: FOLDER/train/0-t-shirt/00001.png and so on.

    fashion_png.py FOLDER [COUNT [SOURCE]]

COUNT is how many images of each split, from the first on; 0, the default, all of them. SOURCE has the four files of
Fashion-MNIST, plain or .gz: by default $FASHION_MNIST, or else where the Debian package dataset-fashion-mnist puts them.
"""

import gzip
import os
import pathlib
import struct
import sys
import zlib

CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot"]


def opened(path):
    return path.open("rb") if path.exists() else gzip.open(f"{path}.gz", "rb")


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels, rows, columns):
    """A grey image of 8 bits, whose rows are not filtered."""
    lines = b"".join(b"\0" + pixels[r * columns:(r + 1) * columns] for r in range(rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def write_split(source, split, folder, count):
    with opened(source / f"{split}-images-idx3-ubyte") as images, opened(source / f"{split}-labels-idx1-ubyte") as labels:
        _, size, rows, columns = struct.unpack(">IIII", images.read(16))
        labels.read(8)
        for name in (f"{i}-{word}" for i, word in enumerate(CLASSES)):
            (folder / name).mkdir(parents=True, exist_ok=True)
        size = min(size, count or size)
        for i in range(size):
            label = labels.read(1)[0]
            (folder / f"{label}-{CLASSES[label]}" / f"{i:05}.png").write_bytes(png(images.read(rows * columns), rows, columns))
    return size


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    source = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else
                          os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))
    try:
        sizes = [write_split(source, split, folder / name, count) for split, name in (("train", "train"), ("t10k", "test"))]
    except FileNotFoundError as error:
        sys.exit(f"{error.filename}: there is no such file; install dataset-fashion-mnist, or give the folder as SOURCE")
    print(f"{sizes[0]} images in {folder}/train, {sizes[1]} in {folder}/test")


if __name__ == "__main__":
    main()
