"""Backbones by name, as configurations name them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from regard.errors import ConfigError
from regard.models.vision.backbone import AbstractBackbone
from regard.models.vision.dense import DenseBackbone
from regard.models.vision.efficientnet import EfficientNetLite
from regard.models.vision.plain import PlainBackbone
from regard.models.vision.residual import ResidualBackbone
from regard.models.vision.resnet import DEPTHS, ResNet

BACKBONES: dict[str, Callable[..., AbstractBackbone]] = {
    "plain": PlainBackbone,
    "residual": ResidualBackbone,
    "dense": DenseBackbone,
    "efficientnet-lite0": EfficientNetLite,
    **{f"resnet{depth}": partial(ResNet, depth) for depth in DEPTHS},
}
"""Every backbone by its name."""


def backbone_named(name: str, *, channels: int, **options: Any) -> AbstractBackbone:
    """A backbone by its name in `BACKBONES`.

    Args:
        channels: of the images, 1 or 3.
        options: of the backbone.

    Raises:
        ConfigError: for an unknown name or option; the text lists those that there are.

    >>> backbone_named("plain", channels=1, widths=(8, 16)).stride
    4
    """
    if name not in BACKBONES:
        raise ConfigError(f"There is no backbone {name!r}. There are {', '.join(BACKBONES)}.")
    make = BACKBONES[name]
    known = [key for key, x in inspect.signature(make).parameters.items() if x.kind == x.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise ConfigError(f"The backbone {name} has no option {option!r}. It has {', '.join(known)}.")
    return make(channels=channels, **options)
