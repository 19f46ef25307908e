"""Self-attention with positions, and key-value heads that heads share."""

from __future__ import annotations

from regard import attention as a
from support.cases.case import MechanismCase, PartCase, of_recipe


def _sharing(score: a.RelativeDotScore) -> a.Mechanism:
    """Keys and values that share the vectors for offsets."""
    read = a.RelativeSum(6, 4, num_heads=2, offsets=score.offsets, bias=True)
    return a.Mechanism(score, a.SoftmaxAlignment(), read)


CASES: tuple[MechanismCase, ...] = (
    of_recipe("rotary, 1 head", a.multi_head, (a.RotaryDotScore,), size=4, num_heads=1, positions="rotary"),
    MechanismCase(
        "rotary, 4 features of 6, in halves, 2 heads",
        (a.RotaryDotScore,),
        lambda: a.Mechanism(
            a.RotaryDotScore(5, 6, 12, num_heads=2, layout="half", base=100.0, rotary_size=4, bias=True),
            a.SoftmaxAlignment(),
            a.WeightedSum(6, num_heads=2),
        ),
    ),
    of_recipe("linear bias, 1 head", a.multi_head, (a.LinearBiasWindow,), size=4, num_heads=1, positions="linear_bias"),
    of_recipe(
        "linear bias, causal, 3 heads",
        a.multi_head,
        (a.LinearBiasWindow, a.CausalWindow, a.Intersection),
        size=6,
        num_heads=3,
        positions="linear_bias",
        causal=True,
    ),
    of_recipe("buckets, 1 head", a.multi_head, (a.BucketBiasWindow,), size=4, num_heads=1, positions="buckets"),
    of_recipe(
        "buckets, both ways, 2 heads",
        a.multi_head,
        (a.BucketBiasWindow,),
        size=4,
        num_heads=2,
        window=a.BucketBiasWindow(2, num_buckets=8, max_distance=4),
    ),
    of_recipe(
        "relative, 1 head", a.multi_head, (a.RelativeDotScore, a.RelativeSum), size=4, num_heads=1, positions="relative"
    ),
    MechanismCase(
        "relative, near, 2 heads, biases",
        (a.RelativeDotScore, a.RelativeSum),
        lambda: _sharing(a.RelativeDotScore(5, 6, 4, num_heads=2, max_distance=1, bias=True)),
    ),
    of_recipe(
        "transformer-xl, 1 head", a.multi_head, (a.TransformerXLScore,), size=4, num_heads=1, positions="transformer_xl"
    ),
    of_recipe(
        "transformer-xl, 4 heads that share 2 keys",
        a.multi_head,
        (a.TransformerXLScore,),
        size=8,
        num_heads=4,
        num_key_value_heads=2,
        positions="transformer_xl",
    ),
    of_recipe(
        "multi-head, 4 heads that share 2 keys and values",
        a.multi_head,
        (a.ScaledDotScore, a.ProjectedSum),
        size=8,
        num_heads=4,
        num_key_value_heads=2,
        bias=True,
    ),
    of_recipe(
        "rotary, causal, 4 heads that share a key and a value",
        a.multi_head,
        (a.RotaryDotScore, a.CausalWindow),
        size=8,
        num_heads=4,
        num_key_value_heads=1,
        positions="rotary",
        causal=True,
    ),
)


PARTS: tuple[PartCase, ...] = (
    PartCase("rotary", "score", lambda heads: a.RotaryDotScore(6, 6, 4, num_heads=heads)),
    PartCase("relative", "score", lambda heads: a.RelativeDotScore(6, 6, 4, num_heads=heads, max_distance=2)),
    PartCase("transformer-xl", "score", lambda heads: a.TransformerXLScore(6, 6, 4, num_heads=heads, bias=True)),
    PartCase("linear bias", "window", lambda heads: a.LinearBiasWindow(heads)),
    PartCase("buckets", "window", lambda heads: a.BucketBiasWindow(heads, num_buckets=8, max_distance=4)),
    PartCase("relative sum", "read", lambda heads: a.RelativeSum(6, 4, num_heads=heads, output_size=6, max_distance=2)),
)
