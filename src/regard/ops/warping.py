"""Dynamic time warping, by the fastest implementation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import empty_reason, kernel_reason, numba_reason, type_reason
from regard.shapes import Float, Int, describe

MODULE = "regard.ops.kernels.warping"
MOVES = ((1, 1), (1, 0), (0, 1))
"""The steps of t and u, in their order of preference."""


def _unsupported_reason(costs: Any = None, lengths: Any = None, other_lengths: Any = None) -> str | None:
    return kernel_reason(costs) or numba_reason(MODULE, costs) or type_reason(costs) or empty_reason(costs)


def warping_path(
    costs: Float[Tensor, "B T U"],
    lengths: Int[Tensor, " B"] | None = None,
    other_lengths: Int[Tensor, " B"] | None = None,
) -> tuple[Int[Tensor, "B P 2"], Int[Tensor, " B"]]:
    """The cheapest monotonic path through two sequences: dynamic time warping.

    A path is a list of pairs (t, u) from (0, 0) to (T - 1, U - 1), in which t, u or both increase by 1 from pair to
    pair. The smallest sum of costs is

        D(t, u) = cost(t, u) + min(D(t-1, u-1), D(t-1, u), D(t, u-1)).

    Among equal predecessors the first in this order is taken.

    Args:
        costs: of pairing step t of one sequence with step u of the other; finite where real.
        lengths, other_lengths: real steps of both, at least 1; T and U if None.

    Returns:
        The pairs, padded with -1 to P = T + U - 1, and their number. They have no gradients; a differentiable sum of
        costs along the path is `costs[b][path[b, :n, 0], path[b, :n, 1]].sum()`.

    Raises:
        ShapeError: for other shapes, or lengths below 1 or beyond T or U.

    Cost: T·U steps, and T·U bytes, for each pair of sequences.

    Source: Sakoe & Chiba 1978, Dynamic programming algorithm optimization for spoken word recognition (IEEE Trans.
        ASSP 26), the form without weights and slope constraint.

    >>> costs = torch.tensor([[[0.0, 2.0], [0.0, 1.0], [3.0, 0.0]]])
    >>> path, number = warping_path(costs)
    >>> path[0, : number[0]].tolist()
    [[0, 0], [1, 0], [2, 1]]
    """
    if costs.dim() != 3:
        raise ShapeError(f"costs must be (B, T, U).\n{describe({'costs': ('B T U', costs)})}")
    costs = costs.detach()
    lengths = _lengths("lengths", lengths, costs, 1)
    other_lengths = _lengths("other_lengths", other_lengths, costs, 2)
    return choose(WARPING_PATH, costs, lengths, other_lengths).function(costs, lengths, other_lengths)


def _lengths(name: str, lengths: Tensor | None, costs: Tensor, axis: int) -> Tensor:
    size = costs.shape[axis]
    if lengths is None:
        lengths = torch.full((len(costs),), size)
    shown = {"costs": ("B T U", costs), name: ("B", lengths)}
    if lengths.shape != (len(costs),) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ShapeError(f"{name} must be (B,) integers, one for each pair of sequences.\n{describe(shown)}")
    if len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= size:
        letter = "TU"[axis - 1]
        raise ShapeError(
            f"{name} must lie between 1 and {letter}={size}; got {int(lengths.min())} to {int(lengths.max())}."
        )
    return lengths.to(costs.device, torch.long)


def reference(costs: Tensor, lengths: Tensor, other_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """As `warping_path`, by antidiagonals t + u = d, which depend only on the two before."""
    batch, num_steps, num_others = costs.shape
    steps = torch.arange(num_steps, device=costs.device)
    infinite = costs.new_full((batch, 1 + num_steps), float("inf"))
    # sums[:, 1 + t] of antidiagonal d is D(t, d - t), with D = ∞ outside the matrix
    before, last = infinite, infinite.clone()
    moves = torch.zeros(batch, num_steps + num_others - 1, num_steps, dtype=torch.long, device=costs.device)
    for d in range(num_steps + num_others - 1):
        u = d - steps
        inside = (u >= 0) & (u < num_others)
        here = costs[:, steps, u.clamp(0, num_others - 1)]
        options = torch.stack([before[:, :-1], last[:, :-1], last[:, 1:]])  # D(t-1, u-1), D(t-1, u), D(t, u-1)
        best = options.min(0).values
        # `min` may return any of equal ones
        moves[:, d] = (options == best).long().argmax(0)
        sums = infinite.clone()
        sums[:, 1:] = torch.where(inside, here + (best if d else torch.zeros_like(best)), infinite[:, 1:])
        before, last = last, sums
    grow = torch.tensor(MOVES, device=costs.device)
    rows = torch.arange(batch, device=costs.device)
    at = torch.stack([lengths - 1, other_lengths - 1], 1)
    pairs = torch.full((batch, num_steps + num_others - 1, 2), -1, dtype=torch.long, device=costs.device)
    counts = torch.zeros(batch, dtype=torch.long, device=costs.device)
    for i in range(num_steps + num_others - 1):
        real = (at >= 0).all(1)
        pairs[:, i] = torch.where(real[:, None], at, -1)
        counts += real
        t, u = at.clamp(min=0).unbind(1)
        at = torch.where(real[:, None] & (at.sum(1) > 0)[:, None], at - grow[moves[rows, t + u, t]], -1)
    # the pairs are from the end to the beginning: reversed within each row's number of pairs
    order = (counts[:, None] - 1 - torch.arange(pairs.shape[1], device=costs.device)).clamp(min=0)
    turned = pairs.gather(1, order[..., None].expand_as(pairs))
    padding = torch.arange(pairs.shape[1], device=costs.device) >= counts[:, None]
    return turned.masked_fill(padding[..., None], -1), counts


WARPING_PATH = (
    Implementation("numba", loaded(MODULE, "warping_path"), _unsupported_reason),
    Implementation("reference", reference),
)
