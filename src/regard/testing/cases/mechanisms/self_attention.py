"""Multi-head attention."""

from __future__ import annotations

from regard import attention as a
from regard.testing.cases.case import MechanismCase, PartCase, of_recipe


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
    _tanh_dot("tanh dot, 1 head", 1),
    _tanh_dot("tanh dot, 2 heads", 2),
    of_recipe("multi-head, causal", a.multi_head, (a.CausalWindow,), size=4, num_heads=2, window=a.CausalWindow()),
)

PARTS: tuple[PartCase, ...] = (
    PartCase("scaled dot", "score", lambda heads: a.ScaledDotScore(6, 6, 4, num_heads=heads, bias=True)),
    PartCase("tanh dot", "score", lambda heads: a.TanhDotScore(6, 6, 4, num_heads=heads)),
    PartCase("projected sum", "read", lambda heads: a.ProjectedSum(6, 4, num_heads=heads, output_size=6, bias=True)),
)
