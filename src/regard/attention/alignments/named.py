"""Alignments by the names that recipes and configurations use."""

from __future__ import annotations

from typing import Literal, get_args

from regard.attention.alignments.hardmax import HardmaxAlignment
from regard.attention.alignments.sigmoid import SigmoidAlignment
from regard.attention.alignments.softmax import SoftmaxAlignment
from regard.attention.alignments.sparse import EntmaxAlignment, SparsemaxAlignment
from regard.attention.contract import AbstractAlignment
from regard.errors import UnsupportedError

AlignmentName = Literal["softmax", "sparsemax", "entmax15", "entmax", "hardmax", "sigmoid", "smoothed_sigmoid"]


def alignment_named(name: AlignmentName, *, sharpening: float = 1.0, num_heads: int = 1) -> AbstractAlignment:
    """The alignment of this name; all of them depend on the energies of one step only.

    Args:
        name: `softmax`; `sparsemax`, `entmax15` (α = 1.5) and `entmax` (each head learns its α), with weights of
            exactly 0; `hardmax`, only one position (with straight-through gradients); `sigmoid`, each position by
            itself; `smoothed_sigmoid`, sigmoids divided by their sum.
        sharpening: a factor on the energies.
        num_heads: H, for `entmax`.

    Raises:
        UnsupportedError: for an unknown name, and for hardmax with sharpening, which changes nothing.

    >>> alignment_named("sparsemax", sharpening=2.0).sharpening
    2.0
    """
    match name:
        case "softmax":
            return SoftmaxAlignment(sharpening=sharpening)
        case "sparsemax":
            return SparsemaxAlignment(sharpening=sharpening)
        case "entmax15":
            return EntmaxAlignment(1.5, sharpening=sharpening)
        case "entmax":
            return EntmaxAlignment(learned=True, num_heads=num_heads, sharpening=sharpening)
        case "sigmoid" | "smoothed_sigmoid":
            return SigmoidAlignment(normalised=name == "smoothed_sigmoid", sharpening=sharpening)
        case "hardmax":
            if sharpening != 1.0:
                raise UnsupportedError(
                    f"sharpening={sharpening} does not change which energy is the largest: leave it out with hardmax."
                )
            return HardmaxAlignment(straight_through=True)
    raise UnsupportedError(f"alignment={name!r} must be one of {', '.join(get_args(AlignmentName))}.")
