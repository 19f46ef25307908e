"""Goldens of HiFi-GAN's generator with weight norm, both kinds of residual blocks.

Program: jik876/hifi-gan at commit 4769534, `models.Generator`, on torch 2.13.0 (CPU).

    git clone https://github.com/jik876/hifi-gan && git -C hifi-gan checkout 4769534
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/hifi_gan/make.py hifi-gan

It reads mel spectrograms (B, bands, frames); the inputs here are (B, frames, bands). A module of plots that its tools
import is not needed and stands empty.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import draw, record

SIZES = {
    "upsample_initial_channel": 8,
    "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 6],
    "resblock_kernel_sizes": [3, 7],
}
KINDS = {"1": [[1, 3, 5], [1, 2, 4]], "2": [[1, 2], [3, 6]]}


class Options(dict):
    """The configuration, by attributes as well."""

    __getattr__ = dict.__getitem__


def run(generator, mels):
    return {"samples": generator(mels.transpose(1, 2))[:, 0]}


def main() -> None:
    sys.modules["matplotlib"] = types.ModuleType("matplotlib")
    sys.modules["matplotlib"].use = lambda name: None
    sys.modules["matplotlib.pylab"] = types.ModuleType("matplotlib.pylab")
    sys.modules["matplotlib"].pylab = sys.modules["matplotlib.pylab"]
    sys.path.insert(0, sys.argv[1])
    from models import Generator

    for kind, dilations in KINDS.items():
        options = Options(SIZES, resblock=kind, resblock_dilation_sizes=dilations)
        record(
            f"hifi_gan/generator_{kind}",
            lambda options=options: Generator(options),
            run,
            {"mels": draw(1, 2, 9, 80)},
            scale=0.8,
            differentiable=False,
        )


if __name__ == "__main__":
    main()
