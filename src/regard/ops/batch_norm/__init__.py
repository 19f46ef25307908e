"""Batch normalisation whose statistics are those of real rows, with what follows it, by the fastest implementation."""

from __future__ import annotations

from torch import Tensor

from regard.errors import ShapeError
from regard.ops.batch_norm import autograd, reference, selection
from regard.ops.batch_norm.reference import Activation as Activation
from regard.ops.batch_norm.reference import Statistics as Statistics
from regard.ops.choose import Implementation, choose
from regard.shapes import Bool, Float, describe

BATCH_NORM = (
    Implementation("numba", autograd.batch_norm, autograd.refuse),
    Implementation("selection", selection.batch_norm, selection.refuse),
    Implementation("reference", reference.batch_norm),
)


def batch_norm(
    x: Float[Tensor, "*rows F"],
    mask: Bool[Tensor, "*rows"] | None,
    weight: Float[Tensor, " F"],
    bias: Float[Tensor, " F"],
    residual: Float[Tensor, "*rows F"] | None = None,
    *,
    statistics: Statistics | None = None,
    epsilon: float = 1e-5,
    activation: Activation = "none",
) -> tuple[Float[Tensor, "*rows F"], Float[Tensor, " F"], Float[Tensor, " F"], Tensor]:
    """y = f(w (x - mean) / √(variance + ε) + b + r) at the N real rows and 0 at the others; f is the activation.

    Mean and variance (divided by N) are those of the real rows. Gradients of x, w, b and r include that of the
    statistics; the returned statistics have none. With a single row x - mean and the variance are 0.

    Args:
        mask: True at real rows; all if None.
        residual: r; 0 if None.
        statistics: mean and variance to use instead of those of the rows.
        epsilon: ε.
        activation: f: none, relu, or relu6, min(max(x, 0), 6).

    Returns:
        y of the type of x, the mean and the variance that were used, and N, a tensor without axes.

    Raises:
        ShapeError: for sizes that do not fit together.

    Source: Ioffe & Szegedy 2015 (arXiv 1502.03167), algorithm 1.
    """
    shape, size = x.shape, x.shape[-1]
    fits = weight.shape == bias.shape == (size,) and (residual is None or residual.shape == shape)
    if not fits or (mask is not None and mask.shape != shape[:-1]):
        shown = {"x": ("", x), "weight": ("F", weight), "bias": ("F", bias)}
        shown |= {} if mask is None else {"mask": ("", mask)}
        shown |= {} if residual is None else {"residual": ("", residual)}
        raise ShapeError("x (..., F), mask (...), weight, bias (F,) and residual must agree.\n" + describe(shown))
    inputs = (
        x.reshape(-1, size),
        None if mask is None else mask.reshape(-1),
        weight,
        bias,
        None if residual is None else residual.reshape(-1, size).to(x.dtype),
        statistics,
        epsilon,
        activation,
    )
    y, mean, variance, count = choose(BATCH_NORM, *inputs).function(*inputs)
    return y.view(shape), mean, variance, count


__all__ = ["BATCH_NORM", "batch_norm"]
