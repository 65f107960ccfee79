#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the images beside this script and, by Pillow, what is to be read of them: NAME.rgb holds the bytes (H, W, C).

    make.py       needs Pillow; written by 13.0.0
"""

import colorsys
import pathlib

from PIL import Image, ImageEnhance, ImageOps

HERE = pathlib.Path(__file__).resolve().parent


def picture(width, height):
    """Ramps and edges, none of them along an axis."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            edge = 90 if (x * 3 + y * 5) % 31 < 12 else 0
            image.putpixel((x, y), ((5 * x + edge) % 256, (7 * y + 2 * x) % 256, (3 * x * y // 4 + edge) % 256))
    return image


def keep(name, image):
    (HERE / f"{name}.rgb").write_bytes(image.tobytes())


def middle(image, side, height, width):
    """torchvision's Resize(side) and CenterCrop((height, width)), line by line."""
    w, h = image.size
    short, long = min(w, h), max(w, h)
    new_short, new_long = side, int(side * long / short)
    w, h = (new_short, new_long) if w <= h else (new_long, new_short)
    image = image.resize((w, h), Image.Resampling.BILINEAR)
    top, left = int(round((h - height) / 2.0)), int(round((w - width) / 2.0))
    return image.crop((left, top, left + width, top + height))


def operations(image, sign):
    """RandAugment's, of magnitude 21 of 30; then the hue turned."""
    w, h = image.size
    shear, factor = sign * 0.21, 1 + sign * 0.63
    right, down = int(sign * 150 / 331 * w * 0.7), int(sign * 150 / 331 * h * 0.7)

    def moved(*matrix):
        return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)

    def turned(pixel):
        hue, saturation, value = colorsys.rgb_to_hsv(*(v / 255 for v in pixel))
        return tuple(round(255 * v) for v in colorsys.hsv_to_rgb((hue + sign * 0.3) % 1, saturation, value))

    yield image
    yield moved(1, shear, 0, 0, 1, 0)
    yield moved(1, 0, 0, shear, 1, 0)
    yield moved(1, 0, -right, 0, 1, 0)
    yield moved(1, 0, 0, 0, 1, -down)
    yield image.rotate(sign * 21, Image.Resampling.NEAREST)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Color, ImageEnhance.Contrast, ImageEnhance.Sharpness):
        yield enhance(image).enhance(factor)
    yield ImageOps.posterize(image, 5)
    yield ImageOps.solarize(image, 76.5)
    yield ImageOps.autocontrast(image)
    yield ImageOps.equalize(image)
    hue = image.copy()
    hue.putdata([turned(pixel) for pixel in image.getdata()])
    yield hue


def main():
    base = picture(37, 23)
    transparent = base.copy()
    transparent.putalpha(Image.linear_gradient("L").resize(base.size))
    palette = base.quantize(16)
    files = {
        "rgb.png": base,
        "grey.png": base.convert("L"),
        "rgba.png": transparent,
        "grey_alpha.png": transparent.convert("LA"),
        "palette.png": palette,
        "bits.png": base.convert("1"),
        "baseline.jpg": base,
        "grey.jpg": base.convert("L"),
        "cmyk.jpg": base.convert("CMYK"),
        "progressive.jpg": base,
    }
    for name, image in files.items():
        options = {"progressive": True} if name == "progressive.jpg" else {"optimize": True}
        image.save(HERE / name, **options)
        keep(name, Image.open(HERE / name).convert("RGB"))
    keep("rgb.png.grey", base.convert("L"))

    picture(23, 37).save(HERE / "portrait.png", optimize=True)
    keep("portrait.png.middle", middle(picture(23, 37), 11, 9, 10))
    keep("rgb.png.smaller", middle(base, 20, 20, 20))
    keep("rgb.png.larger", middle(base, 60, 31, 60))
    (HERE / "operations.rgb").write_bytes(b"".join(
        done.tobytes() for sign in (1, -1) for done in operations(ImageOps.invert(base.point(lambda v: v // 2)), sign)))
    keep("rgb.png.stretched", base.resize((13, 29), Image.Resampling.BILINEAR))
    keep("rgb.png.box", base.crop((5, 3, 5 + 17, 3 + 11)).resize((24, 24), Image.Resampling.BILINEAR))


if __name__ == "__main__":
    main()
