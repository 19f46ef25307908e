"""Alignments that depend on the energies of one step only, and their names in recipes and configurations."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention.contract import AbstractAlignment, Parts, StepInputs, Tree
from regard.attention.sizes import heads_reason
from regard.errors import UnsupportedError
from regard.shapes import Bool, Float


class AbstractNormaliser(AbstractAlignment):
    """Weights that depend on the energies of one step only, multiplied by a factor β, the `sharpening`."""

    is_positionwise = True

    def __init__(self, *, sharpening: float = 1.0) -> None:
        super().__init__()
        if sharpening <= 0:
            raise ValueError(f"sharpening={sharpening} must be above 0.")
        self.sharpening = sharpening

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """Weights (R, H, S), from energies that are multiplied by β."""
        raise NotImplementedError

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        energies = energies if self.sharpening == 1.0 else energies * self.sharpening
        return self.normalise(energies, support), state, None


class SoftmaxAlignment(AbstractNormaliser):
    """α_j = exp(β e_j) / Σ_k exp(β e_k) over the support.

    Args:
        sharpening: β; above 1 the weights are more peaked.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equation 6; sharpening: Chorowski et al. 2015
    (arXiv 1506.07503), section 2.3.
    """

    @property
    def softmax_factor(self) -> float:
        return float(self.sharpening)

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        return ops.masked_softmax(energies, support)


class SparsemaxAlignment(AbstractNormaliser):
    """The distribution over the support that is nearest to β e: α_j = max(β e_j - τ, 0), with τ such that Σ α_j = 1.

    Args:
        sharpening: β; above 1 the weights are more peaked, and fewer are above 0.

    Source: Martins & Astudillo 2016 (arXiv 1602.02068), section 2.
    """

    sources = ("martins2016",)

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        return ops.sparsemax(energies, support)


class EntmaxAlignment(AbstractNormaliser):
    """α-entmax: weights max((α - 1) β e_j - τ, 0)^{1/(α - 1)} that sum to 1; softmax for α = 1, sparsemax for α = 2.

    Args:
        alpha: α, 1 or more; 1.5 is fast.
        learned: whether each head learns its own α = 1 + σ(a), between 1 and 2; `alpha` is then the initial value.
        num_heads: H, with `learned`.
        sharpening: β, a factor on the energies.

    Source: Peters, Niculae & Martins 2019 (arXiv 1905.05702); learned: Correia, Niculae & Martins 2019
    (arXiv 1909.00015), section 3.
    """

    def __init__(
        self, alpha: float = 1.5, *, learned: bool = False, num_heads: int = 1, sharpening: float = 1.0
    ) -> None:
        super().__init__(sharpening=sharpening)
        if alpha < 1 or (learned and not 1 < alpha < 2):
            between = "between 1 and 2 to be learned" if learned else "1 (softmax) or more"
            raise ValueError(f"alpha={alpha} must be {between}.")
        self.fixed_alpha = alpha
        self.num_heads = num_heads
        self.sources = ("peters2019", "correia2019") if learned else ("peters2019",)
        start = math.log((alpha - 1) / (2 - alpha)) if learned else 0.0
        self.alpha_logits = nn.Parameter(torch.full((num_heads, 1), start)) if learned else None

    @property
    def alpha(self) -> Tensor | float:
        """α; (H, 1) if it is learned."""
        if self.alpha_logits is None:
            return self.fixed_alpha
        return 1 + self.alpha_logits.to(torch.promote_types(self.alpha_logits.dtype, torch.float32)).sigmoid()

    def unsupported_reason(self, parts: Parts) -> str | None:
        if self.alpha_logits is None:
            return None
        return heads_reason(parts, self.num_heads, "EntmaxAlignment learns an alpha for")

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        return ops.entmax(energies, support, self.alpha)


class HardmaxAlignment(AbstractNormaliser):
    """α_j = 1 where e_j is the largest in the support (the first of equal ones), 0 elsewhere.

    The weights have no gradient, so the score learns nothing from the context, as with tf.contrib.seq2seq's
    `probability_fn="hardmax"`. With `straight_through` it learns as if the weights were softmax(e).

    Args:
        straight_through: whether gradients are those of softmax(e) instead of the true ones, zero.

    Source: straight-through: Bengio, Léonard & Courville 2013 (arXiv 1308.3432), section 3.
    """

    def __init__(self, *, straight_through: bool = False) -> None:
        super().__init__()
        self.straight_through = straight_through
        self.sources = ("bengio2013",) if straight_through else ()

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        weights = ops.hardmax(energies, support)
        if self.straight_through:
            soft = ops.masked_softmax(energies, support)
            weights = weights + (soft - soft.detach())
        return weights


class SigmoidAlignment(AbstractNormaliser):
    """α_j = σ(β e_j + r), or with `normalised` the smoothing α_j = σ(β e_j + r) / Σ_k σ(β e_k + r).

    Unlike in a softmax, one large energy does not suppress all others, and a constant added to the energies changes the
    weights.

    Args:
        normalised: whether the weights of a row are divided by their sum.
        bias: the initial value of r, which is learned; None for no r.
        sharpening: β.

    Numerics: smoothing is computed as the softmax of log σ, which neither underflows nor overflows.

    Source: smoothing: Chorowski et al. 2015 (arXiv 1506.07503), section 2.3.
    """

    def __init__(self, *, normalised: bool = False, bias: float | None = None, sharpening: float = 1.0) -> None:
        super().__init__(sharpening=sharpening)
        self.is_normalised = normalised
        self.sources = ("chorowski2015",) if normalised else ()
        self.bias = None if bias is None else nn.Parameter(torch.tensor(float(bias)))

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        if self.bias is not None:
            energies = energies + self.bias
        if self.is_normalised:
            working = energies.to(torch.promote_types(energies.dtype, torch.float32))
            return ops.masked_softmax(nn.functional.logsigmoid(working), support).to(energies.dtype)
        weights = energies.sigmoid()
        return weights if support is None else weights.masked_fill(~support, 0)


class ExponentialAlignment(AbstractNormaliser):
    """α_j = exp(e_j), 0 outside the support: for scores that are log-densities, such as `MixtureScore`.

    The sum of a row is the probability of the real positions: less than 1 once a mixture moves past the end.
    """

    is_normalised = False

    def __init__(self) -> None:
        super().__init__()

    def unsupported_reason(self, parts: Parts) -> str | None:
        if not parts.window.is_bounded:
            return (
                f"{type(parts.window).__name__} adds a bias without a bound, so exp(e) has no bound either: "
                "ExponentialAlignment needs densities. Use SoftmaxAlignment."
            )
        if parts.score.is_log_density:
            return None
        return (
            f"exp(e) of a {type(parts.score).__name__} has no bound: ExponentialAlignment needs a score whose "
            "energies are log-densities, such as MixtureScore. Use SoftmaxAlignment."
        )

    def normalise(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        if support is not None:
            energies = energies.masked_fill(~support, float("-inf"))
        return energies.exp()


AlignmentName = Literal["softmax", "sparsemax", "entmax15", "entmax", "hardmax", "sigmoid", "smoothed_sigmoid"]


def alignment_named(name: AlignmentName, *, sharpening: float = 1.0, num_heads: int = 1) -> AbstractAlignment:
    """The alignment of this name.

    Args:
        name: `softmax`; `sparsemax`, `entmax15` (α = 1.5) and `entmax` (each head learns its α), with weights of
            exactly 0; `hardmax`, one position (with straight-through gradients); `sigmoid`; `smoothed_sigmoid`,
            sigmoids divided by their sum.
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
