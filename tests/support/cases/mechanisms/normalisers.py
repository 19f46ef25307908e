"""Alignments that depend on the energies of one step only, and hard attention."""

from __future__ import annotations

from typing import Any

from regard import attention as a
from regard.interop.sgrvinod import RectifiedScore
from support.cases.case import MechanismCase, PartCase, of_recipe


def _composed(name: str, alignment: a.AbstractAlignment, heads: int = 1, **options: Any) -> MechanismCase:
    return MechanismCase(
        name,
        (type(alignment),),
        lambda: a.Mechanism(a.BilinearScore(4, 6, num_heads=heads), alignment, a.WeightedSum(6, num_heads=heads)),
        query_size=4,
        **options,
    )


CASES: tuple[MechanismCase, ...] = (
    _composed("hardmax", a.HardmaxAlignment()),
    _composed(
        "hardmax, straight-through, 2 heads",
        a.HardmaxAlignment(straight_through=True),
        2,
        exempt={"gradients_are_those_of_finite_differences": "the gradient is softmax's by design"},
    ),
    _composed("sparsemax", a.SparsemaxAlignment()),
    _composed("entmax of 1.3, 2 heads", a.EntmaxAlignment(1.3), 2),
    of_recipe("bahdanau, entmax of 1.5", a.bahdanau, (a.EntmaxAlignment,), size=4, alignment="entmax15"),
    of_recipe(
        "multi-head, a learned alpha each", a.multi_head, (a.EntmaxAlignment,), size=4, num_heads=2, alignment="entmax"
    ),
    _composed("sigmoid with a bias", a.SigmoidAlignment(bias=-1.0)),
    of_recipe(
        "location-sensitive, smoothed, 2 heads",
        a.location_sensitive,
        (a.SigmoidAlignment,),
        size=4,
        num_filters=2,
        kernel_size=3,
        num_heads=2,
        alignment="smoothed_sigmoid",
        sharpening=2.0,
    ),
    of_recipe("show, attend and tell", a.show_attend_tell, (a.GatedSum,), size=4),
    of_recipe(
        "show, attend and tell like sgrvinod, 2 heads",
        a.show_attend_tell,
        (a.GatedSum, RectifiedScore),
        size=4,
        num_heads=2,
        gate="vector",
        like="sgrvinod",
    ),
    of_recipe(
        "show, attend and tell like sgrvinod, no gate",
        a.show_attend_tell,
        (RectifiedScore,),
        size=4,
        gate=None,
        like="sgrvinod",
    ),
    of_recipe(
        "show, attend and tell, hard, 2 heads",
        a.show_attend_tell,
        (a.StochasticAlignment, a.GatedSum),
        size=4,
        num_heads=2,
        hard=True,
        mix=0.5,
    ),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("rectified", "score", lambda heads: RectifiedScore(6, 6, 4, num_heads=heads)),
    PartCase(
        "hardmax",
        "alignment",
        lambda heads: a.HardmaxAlignment(),
        {"half_types_are_close_to_float32": "after rounding another energy may be the largest"},
    ),
    PartCase("sparsemax", "alignment", lambda heads: a.SparsemaxAlignment()),
    PartCase("entmax", "alignment", lambda heads: a.EntmaxAlignment(learned=True, num_heads=heads)),
    PartCase("sigmoid", "alignment", lambda heads: a.SigmoidAlignment(bias=-0.5)),
    PartCase("smoothed sigmoid", "alignment", lambda heads: a.SigmoidAlignment(normalised=True)),
    PartCase(
        "stochastic, its expectation",
        "alignment",
        lambda heads: a.StochasticAlignment(temperature=2.0, evaluation="expectation"),
    ),
    PartCase(
        "gated sum of slices", "read", lambda heads: a.GatedSum(6, 6, num_heads=heads, gate="vector", split_heads=True)
    ),
)
