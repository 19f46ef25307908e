"""Location-sensitive energies by the fastest implementation that takes the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from regard.errors import ShapeError
from regard.ops import over_steps
from regard.ops.additive import additive_energies
from regard.ops.autograd import without_autocast
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import compiled_reason, kernel_reason, numba_reason
from regard.shapes import Float, describe

KERNELS = "regard.ops.kernels.location"

_loop_reason = partial(compiled_reason, KERNELS)


def location_energies(
    query: Float[Tensor, "B K H D"],
    keys: Float[Tensor, "B S H D"],
    past: Float[Tensor, "B K H C *positions"],
    filters: Float[Tensor, "H F C *widths"],
    projection: Float[Tensor, "H F D"],
    v: Float[Tensor, "H D"],
) -> Float[Tensor, "B K H S"]:
    """e_s = Σ_d v_d · tanh(q_d + k_sd + Σ_f (F_f * past)_s U_fd), for every head, of K rows that share keys.

    The convolution is over S positions or, with two widths, over a plane of h·w = S cells, s = y·w + x. Half types are
    computed in float32.

    Args:
        query, keys: already projected.
        past: alignments in C channels, (B, K, H, C, S) or (B, K, H, C, h, w), padded with zeros.
        filters: F, (H, F, C, W) or (H, F, C, Y, X), of odd widths.
        projection: U.

    Raises:
        ShapeError: for sizes or devices that disagree, and even widths.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2; Shen et al. 2018 (arXiv 1712.05884), section 2.2; of a
    plane: Zhang et al. 2017 (doi 10.1016/j.patcog.2017.06.017), section 3.2.2.

    >>> query, keys, past = torch.zeros(2, 3, 1, 6), torch.zeros(2, 4, 1, 6), torch.ones(2, 3, 1, 1, 4)
    >>> filters, projection, v = torch.ones(1, 5, 1, 3), torch.ones(1, 5, 6), torch.ones(1, 6)
    >>> location_energies(query, keys, past, filters, projection, v).shape
    torch.Size([2, 3, 1, 4])
    """
    memory = keys, filters, projection, v
    kind = over_steps.once(_checked, *memory, query=query, past=past)
    loop = over_steps.current(query, past) if query.dtype == past.dtype == kind else None
    if loop is not None and loop.shared(_loop_reason, *memory) is None:
        return run_in_loop(loop, query, keys, past, *memory[1:])
    kind = torch.promote_types(kind, torch.promote_types(query.dtype, past.dtype))
    working = torch.float32 if kind.itemsize < 4 else kind
    keys, *weights = over_steps.once(_widened, *memory, working=working)
    inputs = [query.to(working), keys, past.to(working), *weights]
    energies: Tensor = choose(LOCATION_ENERGIES, *inputs).function(*inputs)
    return energies if energies.dtype == kind else energies.to(kind)


def _checked(keys: Tensor, *weights: Tensor, query: Tensor, past: Tensor) -> torch.dtype:
    """The widest type of keys and weights, whose sizes are checked with those of the first step."""
    _check(query, keys, past, *weights)
    return reduce(torch.promote_types, [x.dtype for x in weights], keys.dtype)


def _widened(*memory: Tensor, working: torch.dtype) -> list[Tensor]:
    """Keys and weights in the type of the computation."""
    return [x.to(working) for x in memory]


def _check(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> None:
    is_plane = filters.dim() == 5
    inputs = {
        "query": ("B K H D", query),
        "keys": ("B S H D", keys),
        "past": ("B K H C h w" if is_plane else "B K H C S", past),
        "filters": ("H F C Y X" if is_plane else "H F C W", filters),
        "projection": ("H F D", projection),
        "v": ("H D", v),
    }
    sizes: dict[str, int] = {}
    fit = len({x.device for _, x in inputs.values()}) == 1
    for letters, x in inputs.values():
        fit &= x.dim() == len(letters.split()) and all(
            sizes.setdefault(letter, size) == size for letter, size in zip(letters.split(), x.shape, strict=False)
        )
    if is_plane and fit:
        fit = sizes["h"] * sizes["w"] == sizes["S"]
    if not fit or any(width % 2 == 0 for width in filters.shape[3:]):
        shown, widths = describe(inputs), "Y and X" if is_plane else "W"
        relation = ", S must be h·w" if is_plane else ""
        raise ShapeError(
            f"The inputs must agree on their sizes and the device{relation}, and {widths} must be odd.\n{shown}"
        )


def _numba_reason(*inputs: Any) -> str | None:
    return kernel_reason(*inputs) or numba_reason(KERNELS, *inputs)


def reference(
    query: Float[Tensor, "B K H D"],
    keys: Float[Tensor, "B S H D"],
    past: Float[Tensor, "B K H C *positions"],
    filters: Float[Tensor, "H F C *widths"],
    projection: Float[Tensor, "H F D"],
    v: Float[Tensor, "H D"],
) -> Float[Tensor, "B K H S"]:
    """The formula of `location_energies`, with three tensors of R·S·D numbers."""
    # (B, K, S, H, D)
    hidden = torch.tanh(query[:, :, None] + keys[:, None] + located(past, filters, projection))
    return (hidden * v).sum(-1).transpose(2, 3)


def located(past: Tensor, filters: Tensor, projection: Tensor) -> Tensor:
    """u (B, K, S, H, D): the past convolved with the filters and projected."""
    features = _convolution(past, filters.flatten(0, 1), groups=len(filters))
    shared = features.flatten(2).unflatten(1, (len(filters), -1)).unflatten(0, past.shape[:2])
    return torch.einsum("bkhfs,hfd->bkshd", shared, projection)


def _convolution(past: Tensor, filters: Tensor, groups: int) -> Tensor:
    """Heads as groups of channels: (B·K, H·C, S) with (H·F, C, W) to (B·K, H·F, S); of a plane (h, w) in place of S."""
    convolve = functional.conv2d if filters.dim() == 4 else functional.conv1d
    padding = tuple(width // 2 for width in filters.shape[2:])
    return convolve(past.flatten(0, 1).flatten(1, 2), filters, padding=padding, groups=groups)


HELD = 1 << 28
"""The most tangents, a gigabyte of float32, that steps of a loop save for the backward pass; it recomputes others."""


def by_convolution(query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor) -> Tensor:
    """As the reference on a GPU, with filters and projection joined to one convolution, once for all steps."""
    with without_autocast(query.device.type):
        inputs = query, past, *over_steps.once(_joined, keys, filters, projection), v
        held = over_steps.once(_Held)
        held.tangents += query[..., 0].numel() * keys[0, :, 0].numel()
        if held.tangents <= HELD or not torch.is_grad_enabled():
            return _convolved(*inputs)
        energies: Tensor = checkpoint(_convolved, *inputs, use_reentrant=False, preserve_rng_state=False)
        return energies


class _Held:
    """The number of tangents that the steps of a loop have computed."""

    tangents = 0


def _joined(keys: Tensor, filters: Tensor, projection: Tensor) -> tuple[Tensor, Tensor]:
    """Keys (B, 1, H·D, S), and F and U as filters (H·D, C, *widths) of one convolution."""
    joined = torch.einsum("hfcw,hfd->hdcw", filters.flatten(3), projection).view(-1, *filters.shape[2:])
    return keys.flatten(2).mT[:, None].contiguous(), joined


def _convolved(query: Tensor, past: Tensor, keys: Tensor, filters: Tensor, v: Tensor) -> Tensor:
    located = _convolution(past, filters, groups=len(v)).view(*past.shape[:2], *keys.shape[2:])  # (B, K, H·D, S)
    hidden = torch.tanh(located + keys + query.flatten(2)[..., None])
    return (v[:, None] @ hidden.unflatten(2, (len(v), -1))).squeeze(3)


def _convolution_reason(query: Any = None, *rest: Any) -> str | None:
    return "it is for a GPU" if query is not None and query.device.type == "cpu" else None


def by_additive_energies(
    query: Tensor, keys: Tensor, past: Tensor, filters: Tensor, projection: Tensor, v: Tensor
) -> Tensor:
    """As the reference, for torch.compile and torch.func, with keys of every row, R·S·D numbers."""
    # every row is a sentence of one step, with keys k + u (B·K, S, H, D); energies (B·K, H, 1, S)
    row_keys = (keys[:, None] + located(past, filters, projection)).flatten(0, 1)
    return additive_energies(query.flatten(0, 1)[:, None], row_keys, v)[:, :, 0].unflatten(0, query.shape[:2])


def run(query: Tensor, keys: Tensor, past: Tensor, *weights: Tensor) -> Tensor:
    """The energies by compiled loops, with gradients."""
    inputs = query, keys, past, *weights
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _LocationEnergies.apply(*inputs)  # type: ignore[no-untyped-call]
    return _kernels().energies(*inputs)


def run_in_loop(loop: over_steps.Loop, query: Tensor, keys: Tensor, past: Tensor, *weights: Tensor) -> Tensor:
    """The energies of a step of a loop."""
    shared = loop.shared(SharedLocation, keys, *weights)
    energies: Tensor = over_steps.apply(_InLoop, shared, query, past, *shared.handles)
    return energies


def _kernels() -> Any:
    return import_module("regard.ops.kernels.location")


class _LocationEnergies(torch.autograd.Function):
    """Keeps only the inputs; second derivatives are those of torch's operations."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return _kernels().energies(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if not torch.is_grad_enabled():
            return _kernels().gradients(gradient, *ctx.saved_tensors, grad_past=ctx.needs_input_grad[2])
        # create_graph: kernels leave no graph of the gradients, torch's own operations do
        return torch.func.vjp(by_additive_energies, *ctx.saved_tensors)[1](gradient)


class SharedLocation(over_steps.Shared):
    """Keys, filters, projection and v of all steps of a loop."""

    def __init__(self, *memory: Tensor) -> None:
        super().__init__(memory, _sums)
        self.memory = [x.detach() for x in memory]
        self._steps: dict[int, Any] = {}

    def steps(self, hypotheses: int) -> Any:
        """Computes energies for this number of rows per sentence."""
        if hypotheses not in self._steps:
            self._steps[hypotheses] = self.new_steps(hypotheses)
        return self._steps[hypotheses]

    def new_steps(self, hypotheses: int) -> Any:
        """The same, with its own sums of gradients."""
        return _kernels().LocationSteps(*self.memory, hypotheses)


def _sums(factors: Sequence[Any]) -> Sequence[Tensor]:
    each = [(steps.grad_keys, *steps.convolution.gradients(), steps.grad_v) for steps in factors]  # by number of rows
    return [reduce(torch.add, sums) for sums in zip(*each, strict=True)]


class _InLoop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shared: SharedLocation, query: Tensor, past: Tensor, *memory: Tensor) -> Tensor:
        ctx.uses, ctx.new_steps = shared.uses, shared.new_steps
        ctx.save_for_backward(query, memory[0], past, *memory[1:])
        with without_autocast("cpu"):
            out = query.new_empty(*query.shape[:3], memory[0].shape[1])
            shared.steps(query.shape[1]).energies(query, past, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, _, past = ctx.saved_tensors[:3]
        if torch.is_grad_enabled():
            of_query, of_keys, of_past, *others = torch.func.vjp(by_additive_energies, *ctx.saved_tensors)[1](gradient)
            return None, of_query, of_past, of_keys, *others
        factors, hypotheses = ctx.uses.factors, query.shape[1]
        steps = next((one for one in factors if one.hypotheses == hypotheses), None)
        if steps is None:
            factors.append(steps := ctx.new_steps(hypotheses))
        grad_query = torch.empty(query.shape, dtype=query.dtype)
        grad_past = torch.empty(past.shape, dtype=past.dtype) if ctx.needs_input_grad[2] else None
        with without_autocast("cpu"):
            steps.gradients(gradient, query, past, grad_query, grad_past)
        return None, grad_query, grad_past, *(None,) * 4


LOCATION_ENERGIES = (
    Implementation("numba", run, _numba_reason),
    Implementation("convolution", by_convolution, _convolution_reason),
    Implementation("additive", by_additive_energies),
    Implementation("reference", reference),
)
