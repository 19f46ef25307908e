"""Scores of the fused pass whose energies depend on earlier weights, in one form.

    e_s = v · tanh(q + k_s + Σ_f (F_f * past)_s U_f),  past: the last weights, their sum, or both as channels

That is what location-sensitive attention, coverage (one filter of one position) and coverage of a plane compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention import AdditiveScore, CoverageScore, LocationScore, PlaneCoverageScore
from regard.attention.peers import RectifiedScore

LOCATED = (LocationScore, CoverageScore, PlaneCoverageScore)


@dataclass(frozen=True)
class Located:
    """What is fixed of the past that filters slide over.

    Args:
        has_recent, has_sum: which channels there are.
        is_detached: whether gradients stop at earlier weights.
        grid: (h, w) of a plane; None of a line.
    """

    has_recent: bool
    has_sum: bool
    is_detached: bool
    grid: tuple[int, int] | None


def content_of(score: Any) -> Any:
    """The additive score inside, or the score itself."""
    if type(score) in LOCATED:
        return score.content
    return score.additive if type(score) is RectifiedScore else score


def keys_of(score: Any, prepared: Any) -> Tensor:
    """The keys of a memory (B, S, G, D)."""
    keys: Tensor = prepared.keys if type(score) is PlaneCoverageScore else prepared
    return keys


def describe(score: Any, prepared: Any) -> Located | None:
    """What is fixed; None for energies that do not depend on earlier weights."""
    match score:
        case LocationScore():
            return Located(score.location != "cumulative", score.location != "previous", score.detached, None)
        case CoverageScore():
            return Located(False, True, False, None)
        case PlaneCoverageScore():
            return Located(False, True, False, prepared.grid)
    return None


def filters_of(score: Any) -> tuple[Tensor | None, Tensor | None]:
    """F, (H, F, C, W) or (H, F, C, Y, X), and U (H, F, D); None of other scores."""
    match score:
        case LocationScore() | PlaneCoverageScore():
            return score.filters.weight.unflatten(0, (score.num_heads, -1)), score.location_projection
        case CoverageScore():
            projection = score.coverage_projection[:, None]
            return projection.new_ones(score.num_heads, 1, 1, 1), projection
    return None, None


def start_of(score: Any, leaf: Any) -> tuple[Tensor | None, Tensor | None]:
    """The last weights (B, H, P, S) before the first step, and what sums begin with (B, H, S)."""
    if type(score) is LocationScore:
        return leaf.recent, leaf.cumulative
    return (leaf[:, :, None], leaf) if type(score) in LOCATED else (None, None)


def uncalled(score: Any) -> list[tuple[nn.Module, str, type]]:
    """The modules inside that the pass does not call."""
    modules: list[tuple[nn.Module, str, type]] = []
    if (content := content_of(score)) is not score:
        modules.append((content, "the content in attention.score", AdditiveScore))
    if type(score) in (LocationScore, PlaneCoverageScore):
        kind = nn.Conv2d if type(score) is PlaneCoverageScore else nn.Conv1d
        modules.append((score.filters, "the filters in attention.score", kind))
    return modules
