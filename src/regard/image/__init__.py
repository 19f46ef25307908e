"""Pictures: files, handwriting as strokes, and their conversion to inputs of networks.

    file ──► read_image ──► picture (H, W, C) uint8
    strokes ──► Rendering.draw ──► picture (H, W, C) uint8
    picture ──► Fitting ──► (C, H, W) float32 ──► pad_images ──► (B, C, H, W), mask (B, H, W)

`StrokeAugmentation` and `ImageAugmentation` vary them at random, with a generator for each item.

A picture is an array (H, W, C) of bytes: white is 255, C is 1 (grey) or 3 (red, green, blue).
"""

from typing import TYPE_CHECKING

from regard.image.augmentation import ImageAugmentation, StrokeAugmentation, item_generator
from regard.image.fitting import IMAGENET_MEAN, IMAGENET_STD, Fitting, Frame, pad_images
from regard.image.inkml import read_inkml
from regard.image.read import image_size, read_image
from regard.image.strokes import Strokes, Symbol
from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.image.rendering import Placement, Rendering, pixel_strokes
    from regard.image.resizing import resize

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Fitting",
    "Frame",
    "ImageAugmentation",
    "Placement",
    "Rendering",
    "StrokeAugmentation",
    "Strokes",
    "Symbol",
    "image_size",
    "item_generator",
    "pad_images",
    "pixel_strokes",
    "read_image",
    "read_inkml",
    "resize",
]

# these need torch, which tables of pictures do not
__getattr__ = on_demand(__name__, {"rendering": ["Placement", "Rendering", "pixel_strokes"], "resizing": ["resize"]})
