"""The published parallel form, whose division has to be clipped."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import Float


def clipped_monotonic_alignment(
    choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """α_j = p_j c_j Σ_{k ≤ j} α_{i-1,k} / c_k with c_j = Π_{l < j} (1 - p_l), as tensorflow-addons computes it.

    It is `expected_monotonic_alignment` as long as c stays above 1e-10; beyond that position mass is lost. Of 200
    positions with p between 0.1 and 0.9, from a uniform start, about a seventh is left. For comparisons only.

    Numerics: c = exp(Σ log max(1 - p, tiny)); the divisor is clipped to 1e-10. Half types are computed in float32.

    Source: Raffel et al. 2017 (arXiv 1704.00784), appendix C; the clipping: `monotonic_attention` of
    tensorflow-addons, mode `parallel`.
    """
    kept = torch.promote_types(choose.dtype, previous.dtype)
    working = torch.promote_types(kept, torch.float32)
    choose, previous = choose.to(working), previous.to(working)
    # c_j (…, S) as the exponential of a sum of logarithms: 0 before the first position, where nothing was passed
    passed = (1 - choose).clamp(torch.finfo(working).tiny, 1).log()
    survived = torch.nn.functional.pad(passed, (1, 0))[..., :-1].cumsum(-1).exp()
    return (choose * survived * (previous / survived.clamp(1e-10, 1)).cumsum(-1)).to(kept)
