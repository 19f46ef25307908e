"""Additive energies e = v · φ(q + k) and their gradients, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import RegardError, ShapeError
from regard.ops.autograd import autocasts
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import FLOATS, compiles, kernel_reason, numba_reason, stand_in, triton_reason
from regard.ops.switch import switched_off
from regard.shapes import Float, describe

Activation = Literal["tanh", "relu", "leaky_relu"]


def find_slope(activation: Activation, slope: float | None) -> float | None:
    """The slope of a rectifier below 0: 0 for relu, for leaky_relu 0.01 if None. None for tanh.

    Raises:
        RegardError: for an unknown activation, and for a slope of an activation that has none.
    """
    if activation == "tanh" and slope is None:
        return None
    if activation == "leaky_relu":
        return 0.01 if slope is None else float(slope)
    if activation not in ("tanh", "relu"):
        raise RegardError(f"activation={activation!r} must be tanh, relu or leaky_relu.")
    if slope is not None:
        raise RegardError(f"slope={slope} needs activation='leaky_relu'; activation={activation!r} has no slope.")
    return 0.0


def activate(x: Tensor, slope: float | None) -> Tensor:
    """tanh(x), max(x, 0) or the leaky rectifier."""
    if slope is None:
        return torch.tanh(x)
    return functional.leaky_relu(x, slope) if slope else torch.relu(x)


def additive_energies(
    query: Float[Tensor, "B T *heads D"],
    keys: Float[Tensor, "B S *heads D"],
    v: Float[Tensor, "*heads D"],
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> Float[Tensor, "B *heads T S"]:
    """e_ts = Σ_d v_d · tanh(q_td + k_sd) of each head, or with a rectifier in place of tanh.

    Forward and backward there is no tensor of size T·S·D, except of up to `FEW` numbers on a GPU. Half types are
    computed in float32: by the kernels for a GPU without copies of the inputs, by its formula with tangents in the half
    type.

    Args:
        slope: of leaky_relu below 0, 0.01 if None.

    Raises:
        ShapeError: for sizes or devices that disagree.
        RegardError: for an unknown activation, or a slope without leaky_relu.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.1.2, with query and keys already projected.

    >>> additive_energies(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3)).shape
    torch.Size([1, 2, 4])
    """
    _check(query, keys, v)
    kind = result_type(query, keys, v)
    implementation = choose(ADDITIVE_ENERGIES, query, keys, v)
    inputs = _as_read(implementation.name, query, keys, v)
    energies: Tensor = implementation.function(*inputs, activation, slope=slope)
    return energies if energies.dtype == kind else energies.to(kind)


def _check(query: Tensor, keys: Tensor, v: Tensor) -> None:
    if (
        query.dim() not in (3, 4)
        or query.shape[0] != keys.shape[0]
        or query.shape[2:] != keys.shape[2:]
        or query.shape[2:] != v.shape
        or not query.device == keys.device == v.device
    ):
        shown = {"query": ("B T H D", query), "keys": ("B S H D", keys), "v": ("H D", v)}
        if query.dim() == 3:
            shown = {name: (letters.replace("H ", ""), x) for name, (letters, x) in shown.items()}
        raise ShapeError(
            "query, keys and v must agree on B, H (heads) and D, and be on one device.\n"
            + describe(shown)
            + f"\n  They are on {query.device}, {keys.device} and {v.device}. Without heads: (B, T, D), (B, S, D), (D)."
        )


def result_type(query: Tensor, keys: Tensor, v: Tensor) -> torch.dtype:
    """The type of the energies."""
    kind = query.dtype
    if kind == keys.dtype == v.dtype:
        return kind
    return torch.promote_types(torch.promote_types(kind, keys.dtype), v.dtype)


def working_type(kind: torch.dtype) -> torch.dtype:
    """The type in which energies of a type are computed: float32 or wider."""
    return torch.float32 if kind.itemsize < 4 else kind


def _as_read(name: str, query: Tensor, keys: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs as an implementation reads them: in one type, but half types unchanged by kernels for a GPU.

    There a step of a search takes as long as reading its keys, and half types have half as many bytes. The formula on a
    GPU has tangents in the half type of query and keys; products with v and sums are float32.
    """
    if query.dtype == keys.dtype == v.dtype and query.dtype in FLOATS:
        return query, keys, v
    working = working_type(result_type(query, keys, v))
    if name == "reference" and not query.is_cpu and working == torch.float32:
        return query, keys, v.to(working)
    on_gpu = name == "triton" or (name == "compiled" and query.device.type == "cuda")
    if on_gpu and working == torch.float32:
        return query, keys, v
    return query.to(working), keys.to(working), v.to(working)


def _compiled(
    query: Tensor, keys: Tensor, v: Tensor, activation: Activation = "tanh", *, slope: float | None = None
) -> Tensor:
    """As a custom operator, which torch.compile does not trace into."""
    return torch.ops.regard.additive_energies(query, keys, v, find_slope(activation, slope))


def _with(
    kernels: Implementation,
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> Tensor:
    kind = result_type(query, keys, v)
    energies = run(kernels.function(), find_slope(activation, slope), *_as_read(kernels.name, query, keys, v))
    return energies if energies.dtype == kind else energies.to(kind)


def _compiled_reason(*inputs: Any, **options: Any) -> str | None:
    if not compiles():
        return "it is for torch.compile and torch.export"
    return (
        None if torch.compiler.is_dynamo_compiling() else switched_off()
    )  # the switch is a context variable, which Dynamo cannot trace


FEW = 1 << 25
"""Up to so many hyperbolic tangents, B·T·S·D of all heads, the formula is taken on a GPU.

Measured on an H100 in float32, kernels and formula in milliseconds: a step of 2^18.3 tangents 0.127 and 0.065, forward
and backward of 2^25 1.50 and 0.65, of 2^31 4.5 and 35. The kernels take longer to launch than few tangents to compute.
"""


def few_reason(query: Any = None, keys: Any = None, *rest: Any) -> str | None:
    """Why the formula is taken instead of kernels for a GPU, or None."""
    if query is None or keys is None or query.device.type == "cpu" or query.numel() * keys.shape[1] > FEW:
        return None
    return "the formula is faster for so few tangents"


def _unsupported_reason(kernels: Implementation, *inputs: Any, **options: Any) -> str | None:
    return kernels.unsupported_reason(*inputs[:1]) or few_reason(*inputs[:2]) or kernel_reason(*inputs[:3])


def reference(
    query: Float[Tensor, "B T *heads D"],
    keys: Float[Tensor, "B S *heads D"],
    v: Float[Tensor, "*heads D"],
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> Float[Tensor, "B *heads T S"]:
    """The formula of `additive_energies`: T·S·D hyperbolic tangents, and as many numbers in memory, per sentence."""
    return plain_energies(query, keys, v, find_slope(activation, slope))


def plain_energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """As `reference`, with the rectifier's slope or None for tanh."""
    hidden = activate(query[:, :, None] + keys[:, None], slope)  # (B, T, S, *heads, D)
    is_one_product = hidden.dtype == v.dtype and v.numel() == v.shape[-1] and not autocasts(hidden.device.type)
    if not hidden.is_cpu and is_one_product:
        sums = hidden @ v.flatten()  # one head: one tensor of T·S·D and one kernel less
    else:
        sums = (hidden * v).sum(-1)
    return sums if query.dim() == 3 else sums.movedim(3, 1)


def run(module: ModuleType, slope: float | None, *inputs: Tensor) -> Tensor:
    """The energies by a module of kernels, with gradients."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _AdditiveEnergies.apply(module, slope, *inputs)  # type: ignore[no-untyped-call]
    return module.energies(*inputs, slope)


class _AdditiveEnergies(torch.autograd.Function):
    """Keeps only the inputs; a second derivative is that of the reference."""

    @staticmethod
    def forward(ctx: Any, module: ModuleType, slope: float | None, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.module, ctx.slope = module, slope
        ctx.save_for_backward(query, keys, v)
        return module.energies(query, keys, v, slope)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if not torch.is_grad_enabled():
            gradients = ctx.module.gradients(gradient, *inputs, ctx.slope)
            return None, None, *(x if need else None for x, need in zip(gradients, needed, strict=True))
        # create_graph: kernels leave no graph of the gradients, torch's own operations do
        working = working_type(gradient.dtype)

        def plainly(*inputs: Tensor) -> Tensor:
            query, keys, v = (x.to(working) for x in inputs)
            return plain_energies(query, keys, v, ctx.slope).to(gradient.dtype)

        pull_back: Any = torch.func.vjp(plainly, *inputs)[1]
        return None, None, *pull_back(gradient)


NUMBA, TRITON, CHUNKED = (f"regard.ops.kernels.additive{name}" for name in ("", "_triton", "_chunked"))

KERNELS = (
    Implementation("numba", partial(import_module, NUMBA), partial(numba_reason, NUMBA)),
    Implementation("triton", partial(import_module, TRITON), partial(triton_reason, TRITON)),
    Implementation("chunked", partial(import_module, CHUNKED)),
)
"""Modules of kernels: for the CPU, for a GPU, and for other devices."""

ADDITIVE_ENERGIES = (
    Implementation("compiled", _compiled, _compiled_reason),
    *(
        Implementation(kernels.name, partial(_with, kernels), partial(_unsupported_reason, kernels))
        for kernels in KERNELS
    ),
    Implementation("reference", reference),
)


def kernels_for(device: str) -> ModuleType:
    """The first module of kernels for a type of device."""
    return choose(KERNELS, stand_in(device)).function()


# Custom operators for torch.compile and torch.export, with shapes and a gradient, which call the kernels.


@torch.library.custom_op(
    "regard::additive_energies",
    mutates_args=(),
    schema="(Tensor query, Tensor keys, Tensor v, float? slope) -> Tensor",
)
def _operation(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    return kernels_for(query.device.type).energies(query, keys, v, slope)


@torch.library.custom_op(
    "regard::additive_gradients",
    mutates_args=(),
    schema="(Tensor gradient, Tensor query, Tensor keys, Tensor v, float? slope) -> (Tensor, Tensor, Tensor)",
)
def _gradients(
    gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    return kernels_for(query.device.type).gradients(gradient, query, keys, v, slope)


@_operation.register_fake
def _(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    shape = query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1]
    return query.new_empty(shape, dtype=result_type(query, keys, v))


@_gradients.register_fake
def _(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), keys.new_empty(keys.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.slope = inputs
    ctx.save_for_backward(*tensors)


def _pull_back(ctx: Any, gradient: Tensor) -> Any:
    return *torch.ops.regard.additive_gradients(gradient, *ctx.saved_tensors, ctx.slope), None


_operation.register_autograd(_pull_back, setup_context=_keep)
