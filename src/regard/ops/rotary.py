"""Rotary positions: pairs of features (a, b), as vectors in the plane, rotated by an angle for each position."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.shapes import Float

COMPLEX = ("cpu", "cuda")
"""Types of devices with complex numbers; compiled programs have real products instead."""


def rotate(
    x: Float[Tensor, "*rows H D"],
    angles: Float[Tensor, "*positions P"],
    layout: Literal["interleaved", "half"] = "interleaved",
) -> Float[Tensor, "*rows H D"]:
    """Rotates pair p of the first 2P features by angle p: (a, b) becomes (a cos φ - b sin φ, a sin φ + b cos φ).

    Args:
        x: (…, H, D); features beyond 2P stay as they are.
        angles: (…, P) in radians, the same for all heads; its other dimensions broadcast against those before H.
        layout: pairs are adjacent features (`interleaved`), or features p and P + p (`half`).

    Numerics: sines and cosines have the precision of the angles, products at least that of float32.

    Source: Su et al. 2021 (arXiv 2104.09864), equation 34, which is `interleaved`.

    >>> rotate(torch.tensor([[1.0, 0.0, 5.0]]), torch.tensor([torch.pi / 2]))
    tensor([[-4.3711e-08,  1.0000e+00,  5.0000e+00]])
    """
    num_pairs = angles.shape[-1]
    wide = torch.promote_types(x.dtype, torch.float32)
    if (
        layout == "interleaved"
        and 2 * num_pairs == x.shape[-1]
        and x.device.type in COMPLEX
        and not torch.compiler.is_compiling()
    ):
        return _rotate_as_complex(x.to(wide), angles).to(x.dtype)
    # interleaved features are (P, 2) with the pair last, halves (2, P) with the pair first
    shape, pair = ((num_pairs, 2), -1) if layout == "interleaved" else ((2, num_pairs), -2)
    # of half types, too, angles have their own precision and products are in float32
    cos, sin = (part.to(wide)[..., None, :] for part in (angles.cos(), angles.sin()))
    a, b = x[..., : 2 * num_pairs].to(wide).unflatten(-1, shape).unbind(pair)
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], pair).flatten(-2)
    return torch.cat([turned.to(x.dtype), x[..., 2 * num_pairs :]], -1)


def _rotate_as_complex(x: Tensor, angles: Tensor) -> Tensor:
    """(a + bi) · (cos φ + i sin φ) of adjacent features: one product instead of four, forward and backward."""
    pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (angles.shape[-1], 2)))
    turn = torch.complex(angles.cos().to(x.dtype), angles.sin().to(x.dtype))
    return torch.view_as_real(pairs * turn[..., None, :]).flatten(-2)
