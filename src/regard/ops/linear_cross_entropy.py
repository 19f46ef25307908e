"""The loss of an output layer and its gradients, by the fastest implementation."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError
from regard.ops import half
from regard.ops.autograd import second_order_gradients
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import (
    autocast_reason,
    device_reason,
    empty_reason,
    kernel_reason,
    numba_reason,
    type_reason,
)
from regard.ops.linear import PackedProduct, linear, outer
from regard.shapes import Bool, Float, Int, describe

BLOCK_ELEMENTS = 5 << 18
"""Numbers of a block of logits; smaller blocks read the weight and its gradient too often."""
MIN_ROWS = 64
"""The fewest rows of a block, as products of fewer are slow."""

_keeps_graph: Any = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
"""Whether a backward pass may be followed by another through the same graph (retain_graph)."""

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
"""Of features, weight and bias; None where none is needed."""


def linear_cross_entropy(
    features: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "N D"],
    bias: Float[Tensor, " N"] | None,
    targets: Int[Tensor, "*rows"],
    mask: Bool[Tensor, "*rows"] | None = None,
    never: Bool[Tensor, " N"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over real rows of the smoothed loss and of the negative log-likelihood of log p = log softmax(W x + b).

    loss = (1 - ε)·(-log p(y)) + ε·mean over the tokens with log p > -∞ of (-log p). On the CPU logits exist for one
    block of rows at a time: their gradient is computed with the loss and overwrites them. Only the loss has gradients.

    Args:
        targets: ids y; those of masked rows are ignored, as are their features.
        mask: True at real rows.
        never: True for tokens that are never predicted: log p = -∞.
        smoothing: ε.

    Raises:
        ShapeError: for sizes that disagree, or ids beyond N.

    Source: gradients with the loss, in blocks: Hsu et al. 2024 (arXiv 2410.10989), section 3.2; without the logits of
    all rows: Wijmans et al. 2024 (arXiv 2411.09009). Smoothing: Szegedy et al. 2016 (arXiv 1512.00567), section 7.

    >>> import torch
    >>> loss, _ = linear_cross_entropy(torch.zeros(3, 4), torch.ones(8, 4), None, torch.tensor([0, 1, 7]))
    >>> loss / 3
    tensor(2.0794)
    """
    rows, (num_tokens, size) = features.shape[:-1], weight.shape
    fits = features.shape[-1] == size and targets.shape == rows and (mask is None or mask.shape == rows)
    if not fits or any(x is not None and x.shape != (num_tokens,) for x in (bias, never)):
        letters = {"features": ("B T D" if features.dim() == 3 else "M D", features), "weight": ("N D", weight)}
        others = {"bias": ("N", bias), "targets": ("B T", targets), "mask": ("B T", mask), "never": ("N", never)}
        shown = letters | {name: (axes, x) for name, (axes, x) in others.items() if x is not None}
        raise ShapeError("features, weight, bias, targets, mask and never must agree.\n" + describe(shown))
    inputs = (features, weight, bias, targets, mask, never)
    return choose(LINEAR_CROSS_ENTROPY, *inputs).function(*inputs, smoothing=smoothing)


def _block_reason(features: Any = None, weight: Any = None, *others: Any) -> str | None:
    """Why losses cannot be computed in blocks, or None."""
    inputs = features, weight, *others
    return (
        kernel_reason(*inputs)
        or device_reason("cpu", *inputs)
        or type_reason(*inputs)
        or autocast_reason(features)
        or empty_reason(features, weight)
        or numba_reason("regard.ops.kernels.linear_cross_entropy", features)
    )


def reference(
    features: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "N D"],
    bias: Float[Tensor, " N"] | None,
    targets: Int[Tensor, "*rows"],
    mask: Bool[Tensor, "*rows"] | None = None,
    never: Bool[Tensor, " N"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """`cross_entropy` of log softmax(W x + b), in float32 or wider, with several tensors of rows times N numbers."""
    # masked features are zeroed, so that NaN in them does not reach the gradient of W
    if mask is not None:
        features = features.masked_fill(~mask[..., None], 0)
    if (copies := half.current()) is not None:
        features, weight, bias = copies.of_product(features, weight, bias)
    logits = functional.linear(features, weight, bias)
    logits = logits.float() if logits.element_size() < 4 else logits
    if never is not None:
        logits = logits.masked_fill(never, float("-inf"))
    return cross_entropy(logits.log_softmax(-1), targets, mask, smoothing=smoothing)


def cross_entropy(
    log_probabilities: Float[Tensor, "*rows N"],
    targets: Int[Tensor, "*rows"],
    mask: Bool[Tensor, "*rows"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over real positions of the smoothed loss and of the plain negative log-likelihood, in nats.

    loss = (1 - ε)·(-log p(y)) + ε·mean over the N' tokens with log p > -∞ of (-log p): impossible tokens
    (the extended ids that a source lacks) have no share.

    Args:
        targets: ids, for example (B, T); those at masked positions are ignored.
        mask: True at real positions.
        smoothing: ε.

    Returns:
        The loss to be minimised and the negative log-likelihood; divide both by the number of real positions.

    Source: Szegedy et al. 2016 (arXiv 1512.00567), section 7.

    >>> logp = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).log()
    >>> cross_entropy(logp, torch.tensor([[1, 0]]), torch.tensor([[True, False]]))[0]
    tensor(0.2877)
    """
    real = torch.ones_like(targets, dtype=torch.bool) if mask is None else mask
    chosen = log_probabilities.gather(-1, targets.masked_fill(~real, 0)[..., None])[..., 0]
    likelihood = -chosen.masked_fill(~real, 0).sum()
    if smoothing == 0.0:
        return likelihood, likelihood.detach()
    # -log p of impossible tokens is infinite: they are left out of the mean, and their gradients are 0
    possible = log_probabilities > float("-inf")
    uniform = -log_probabilities.masked_fill(~possible, 0).sum(-1) / possible.sum(-1).clamp(min=1)
    smoothed = uniform.masked_fill(~real, 0).sum()
    return (1 - smoothing) * likelihood + smoothing * smoothed, likelihood.detach()


def in_blocks(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    mask: Tensor | None = None,
    never: Tensor | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """As `linear_cross_entropy`, a block of rows at a time, without the masked ones."""
    features, targets = features.flatten(0, -2), targets.flatten()
    if mask is not None and not bool(mask.all()):
        real = mask.flatten().nonzero()[:, 0]
        features, targets = features.index_select(0, real), targets[real]
    if len(targets) == 0:
        return reference(features, weight, bias, targets, smoothing=smoothing)
    _check(targets, len(weight))
    inputs = (features, weight, bias, targets, never, smoothing)
    if torch.is_grad_enabled():
        loss, likelihood = _Loss.apply(*inputs)  # type: ignore[no-untyped-call]
    else:
        loss, likelihood, _ = _in_blocks((False, False, False), *inputs)
    return loss, likelihood


class _Loss(torch.autograd.Function):
    """Computes the gradients with the loss; the backward pass scales them. Second derivatives are the reference's."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        loss, likelihood, gradients = _in_blocks(ctx.needs_input_grad[:3], *inputs)
        *tensors, ctx.smoothing = inputs
        ctx.save_for_backward(*gradients, *tensors)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> Any:
        saved = ctx.saved_tensors  # read once, as a checkpoint computes them anew at each access
        gradients, inputs = saved[:3], saved[3:]
        if torch.is_grad_enabled():
            # create_graph: in torch's operations, which have second derivatives
            def loss(features: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor]:
                targets, never = inputs[3:]
                return reference(features, weight, bias, targets, never=never, smoothing=ctx.smoothing)[:1]

            results = second_order_gradients(loss, inputs[:3], ctx.needs_input_grad[:3], [grad_loss])
        else:
            # in place if no other pass can read them, as the gradient of the weight is as large as the weight
            multiply = torch.mul if _keeps_graph() else Tensor.mul_
            results = [None if gradient is None else multiply(gradient, grad_loss) for gradient in gradients]
        return *results, None, None, None


def _in_blocks(
    needed: tuple[bool, bool, bool],
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    never: Tensor | None,
    smoothing: float,
) -> tuple[Tensor, Tensor, Gradients]:
    """The loss, the negative log-likelihood, and the gradients of the loss.

        logits = x Wᵀ + b (M, N)              a block of M rows
        grad_logits (M, N)                    written over the logits by `turn`
        grad_x = grad_logits W (M, D),  grad_W += grad_logitsᵀ x (N, D),  grad_b += Σ rows of grad_logits (N)

    A block of logits stays in the processor's last cache for all of its products.
    """
    kernels = import_module("regard.ops.kernels.linear_cross_entropy")
    of_features, of_weight, of_bias = needed
    silent = targets[:0] if never is None else never.nonzero()[:, 0]
    count, num_tokens = len(features), len(weight)
    # a multiple of `MIN_ROWS` up to `BLOCK_ELEMENTS` numbers; W is packed if there are several blocks
    rows = min(max(MIN_ROWS, BLOCK_ELEMENTS // num_tokens // MIN_ROWS * MIN_ROWS), count)
    multiply = PackedProduct(weight) if rows < count else partial(linear, weight=weight)
    grad_weights: list[Tensor] = []
    grad_bias = weight.new_zeros(num_tokens) if of_bias else None
    grad_features: list[Tensor] = []
    # of every row, added up at the end, so that the loss does not depend on threads
    sums = torch.zeros(count, 2, dtype=torch.float64)

    def take(x: Tensor, ids: Tensor, block_sums: Tensor) -> None:
        logits = multiply(x, bias=bias)
        # from here on `logits` holds their gradient
        kernels.turn(logits, ids, silent, smoothing, block_sums, any(needed))
        if of_features:
            grad_features.append(linear(logits, weight.t()))
        if of_weight:
            # the sum is collected in the first block's gradient
            part = outer(logits, x)
            if grad_weights:
                grad_weights[0].add_(part)
            else:
                grad_weights.append(part)
        if grad_bias is not None:
            grad_bias.add_(logits.sum(0))

    for start in range(0, count, rows):
        block = slice(start, start + rows)
        take(features[block], targets[block], sums[block])
    likelihood, uniform = sums.sum(0).to(features.dtype).unbind()
    loss = likelihood.clone() if smoothing == 0.0 else (1 - smoothing) * likelihood + smoothing * uniform
    grad_all = grad_features[0] if len(grad_features) == 1 else torch.cat(grad_features) if of_features else None
    return loss, likelihood, (grad_all, grad_weights[0] if of_weight else None, grad_bias)


def _check(targets: Tensor, num_tokens: int) -> None:
    least, most = (int(x) for x in targets.aminmax())
    if least < 0 or most >= num_tokens:
        raise ShapeError(
            f"targets must lie between 0 and N - 1, N={num_tokens}; got {least} to {most}. "
            "Does the output layer belong to another vocabulary?"
        )


LINEAR_CROSS_ENTROPY = (
    Implementation("blocks", in_blocks, _block_reason),
    Implementation("reference", reference),
)
