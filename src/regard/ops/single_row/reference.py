"""The plain formulas. Every part reads the same sum, of inputs that are known in different forms:

    y = b + W_x x + Σ_s α_s m_s + W [left; right]

x is mostly zero (behind a rectifier and dropout) and α nearly zero at most positions; m_s = W_c v_s is what the weights
make of a value v_s, so that W_c c for the context c = Σ_s α_s v_s costs no product with a vector. All of them are for
one sentence; rows (R, …) are hypotheses or, mostly, one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.ops.softmax import masked_softmax
from regard.shapes import Float


@dataclass(frozen=True, eq=False)
class Affine:
    """The weights of the sum.

    Args:
        bias: (N,).
        columns: W_xᵀ (K_x, N), or without rows.
        mixed: m (S, N), or without rows.
        weight: W (N, K), or without columns.
    """

    bias: Tensor
    columns: Tensor
    mixed: Tensor
    weight: Tensor


def affine(maps: Affine, x: Tensor, alpha: Tensor, left: Tensor, right: Tensor) -> Float[Tensor, "R N"]:
    """y, from x (R, K_x), α (R, S), left (R, K_l) and right (R, K_r); each may have no columns."""
    read = torch.cat([left, right], 1)
    return maps.bias + x @ maps.columns + alpha @ maps.mixed + read @ maps.weight.t()


def rectify(maps: Affine, x: Tensor, mask: Tensor | None) -> Float[Tensor, "R N"]:
    """mask ⊙ max(y, 0), mask (R, N): a layer of a prenet."""
    nothing = x[:, :0]
    y = affine(maps, x, nothing, nothing, nothing).relu()
    return y if mask is None else y * mask


def lstm(
    maps: Affine, recurrent: Tensor, x: Tensor, alpha: Tensor, left: Tensor, right: Tensor, h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """An LSTM's new h and c (R, D) from the old: its gates (R, 4·D) are y + W_hh h."""
    i, f, g, o = (affine(maps, x, alpha, left, right) + h @ recurrent.t()).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def located(
    query: Tensor,
    keys: Tensor,
    past: Tensor,
    matrix: Tensor,
    v: Tensor,
    mask: Tensor | None,
    sharpening: float,
) -> Float[Tensor, "R H S"]:
    """α = softmax(β e) of location-sensitive energies, with filters and their projection as one matrix M:

    u_s = Σ_{c w} past_{c, s + w - ⌊W/2⌋} M_{c W + w},  e_s = v · tanh(q + k_s + u_s)

    Args:
        query: (R, H, D).
        keys: (S, H, D).
        past: (R, H, C, S).
        matrix: (H, C·W, D).
        v: (H, D).
        mask: (S,) or None; without any support α is 0.
    """
    channels, width = past.shape[2], matrix.shape[1] // past.shape[2]
    padded = torch.nn.functional.pad(past, (width // 2, (width - 1) // 2))
    taps = padded.unfold(3, width, 1).transpose(2, 3).reshape(*past.shape[:2], past.shape[3], channels * width)
    u = torch.einsum("rhst,htd->rhsd", taps, matrix)
    energies = (v[:, None] * torch.tanh(query[:, :, None] + keys.transpose(0, 1) + u)).sum(3)
    return masked_softmax(sharpening * energies, None if mask is None else mask[None, None])
