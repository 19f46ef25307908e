"""Multi-head attention."""

from __future__ import annotations

from regard import attention as a
from support.cases.case import MechanismCase, PartCase, of_recipe


def _tanh_dot(name: str, num_heads: int) -> MechanismCase:
    """A dot product of bounded projections."""
    return MechanismCase(
        name,
        (a.TanhDotScore,),
        lambda: a.Mechanism(
            a.TanhDotScore(5, 6, 4, num_heads=num_heads), a.SoftmaxAlignment(), a.WeightedSum(6, num_heads=num_heads)
        ),
    )


CASES: tuple[MechanismCase, ...] = (
    of_recipe("multi-head, 1 head", a.multi_head, (a.ScaledDotScore, a.ProjectedSum), size=4, num_heads=1),
    of_recipe(
        "multi-head, biases, 2 heads", a.multi_head, (a.ScaledDotScore, a.ProjectedSum), size=4, num_heads=2, bias=True
    ),
    *(
        of_recipe(
            f"multi-head, normalised, {heads} heads",
            a.multi_head,
            (a.NormalisedDotScore,),
            size=4,
            num_heads=heads,
            normalised=True,
        )
        for heads in (1, 2)
    ),
    of_recipe(
        "multi-head, normalised and rotary, keys that heads share",
        a.multi_head,
        (a.NormalisedDotScore, a.RotaryDotScore),
        size=8,
        num_heads=4,
        num_key_value_heads=2,
        positions="rotary",
        normalised=True,
    ),
    of_recipe("multi-head, dropped weights", a.multi_head, (a.DroppedRead,), size=4, num_heads=2, dropout=0.5),
    _tanh_dot("tanh dot, 1 head", 1),
    _tanh_dot("tanh dot, 2 heads", 2),
    of_recipe("multi-head, causal", a.multi_head, (a.CausalWindow,), size=4, num_heads=2, window=a.CausalWindow()),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("scaled dot", "score", lambda heads: a.ScaledDotScore(6, 6, 4, num_heads=heads, bias=True)),
    PartCase("normalised dot", "score", lambda heads: a.NormalisedDotScore(6, 6, 4, num_heads=heads, bias=True)),
    PartCase("dropped read", "read", lambda heads: a.DroppedRead(a.ProjectedSum(6, 6, num_heads=heads), dropout=0.5)),
    PartCase("tanh dot", "score", lambda heads: a.TanhDotScore(6, 6, 4, num_heads=heads)),
    PartCase("projected sum", "read", lambda heads: a.ProjectedSum(6, 4, num_heads=heads, output_size=6, bias=True)),
)
