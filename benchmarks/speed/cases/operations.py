"""Every other operation with several implementations: the one that is chosen against the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from regard import ops
from speed.case import OURS, PLAIN, Answer, Case, Contest, draw, with_gradients

Inputs = Callable[..., tuple[Any, ...]]


def _plain_batch_norm(*inputs: Tensor, activation: Any) -> Any:
    """The reference as the operation is called: it has no defaults of its own."""
    *_, reference = ops.IMPLEMENTATIONS["batch_norm"]
    return reference.function(*inputs, None, 1e-5, activation)


PLAINLY: dict[str, Callable[..., Any]] = {"batch_norm": _plain_batch_norm}
"""References that are not called as the operation is."""


def contest(
    dtype: torch.dtype, *, operation: str, inputs: Inputs, options: Mapping[str, Any] | None = None, **sizes: int
) -> Contest:
    """Forward and backward, by the public operation and by its reference, with options of both."""
    tensors = tuple(x.float().to(dtype) if _is_floating(x) else x for x in inputs(**sizes))

    @cache
    def probe(shape: torch.Size) -> Tensor:
        return draw(*shape, seed=9).float().to(tensors[0].device, dtype)  # called when torch's default may be another

    def job(function: Callable[..., Tensor]) -> Answer:
        arguments = [x.detach().requires_grad_() if _is_floating(x) else x for x in tensors]
        found = function(*arguments, **(options or {}))
        result = found[0] if isinstance(found, tuple) else found  # statistics beside it have no gradients
        leaves = {f"grad_input_{i}": x for i, x in enumerate(filter(_is_floating, arguments))}
        return with_gradients("result", result, leaves, probe(result.shape))

    *_, reference = ops.IMPLEMENTATIONS[operation]
    plain = PLAINLY.get(operation, reference.function)
    sides = {OURS: partial(job, getattr(ops, operation)), PLAIN: partial(job, plain)}
    largest = max(float(x.abs().max()) for x in tensors if _is_floating(x))
    return Contest(sides, terms={"result": largest}, shares_terms=True)


def forward_contest(dtype: torch.dtype, *, operation: str, inputs: Inputs, **sizes: int) -> Contest:
    """Forward only, without gradients; both sides copy the first input, which an implementation may overwrite."""
    tensors = tuple(x.float().to(dtype) if _is_floating(x) else x for x in inputs(**sizes))

    @torch.no_grad()
    def job(function: Callable[..., Any]) -> Answer:
        results = function(tensors[0].clone(), *tensors[1:])
        results = results if isinstance(results, tuple) else (results,)
        return {f"result {i}": x.to(dtype) for i, x in enumerate(results)}

    *_, reference = ops.IMPLEMENTATIONS[operation]
    return Contest({OURS: partial(job, getattr(ops, operation)), PLAIN: partial(job, reference.function)})


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _case(
    operation: str, what: str, inputs: Inputs, sizes: Mapping[str, int], kind: Callable[..., Contest] = contest
) -> Case:
    make = partial(kind, operation=operation, inputs=inputs)
    return Case(operation.replace("_", "-"), what, make, sizes, {name: min(size, 16) for name, size in sizes.items()})


def additive_attention(dtype: torch.dtype, *, B: int, T: int, S: int, D: int, V: int) -> Contest:
    """Its gradients are sums of tanh or its slope times the gradients of energies, which cancel each other."""
    base = contest(dtype, operation="additive_attention", inputs=_additive, B=B, T=T, S=S, D=D, V=V)
    query, keys, v, values = _additive(B, T, S, D, V)
    energies = ops.additive_energies(query, keys, v)[:, 0].requires_grad_()
    (grad_energies,) = torch.autograd.grad(energies.softmax(-1) @ values[:, :, 0], energies, draw(B, T, V, seed=9))
    size, most = grad_energies.abs(), float(v.abs().max())
    grad_query, grad_keys = (most * float(size.sum(axis).max()) for axis in (2, 1))
    terms = {"grad_input_0": grad_query, "grad_input_1": grad_keys, "grad_input_2": float(size.sum())}
    return replace(base, terms=terms, shares_terms=False)


def _additive(B: int, T: int, S: int, D: int, V: int) -> tuple[Tensor, ...]:
    return draw(B, T, 1, D), draw(B, S, 1, D, seed=1), draw(1, D, seed=2) / D**0.5, draw(B, S, 1, V, seed=3)


def warping_path(dtype: torch.dtype, *, B: int, T: int) -> Contest:
    """Pairs of sounds of equal length; the costs of their cheapest paths."""
    costs = draw(B, T, T).abs().to(dtype)
    lengths = torch.full((B,), T)
    *_, reference = ops.IMPLEMENTATIONS["warping_path"]

    def job(function: object) -> Answer:
        assert callable(function)
        pairs, counts = function(costs, lengths, lengths)
        real = torch.arange(pairs.shape[1], device=costs.device) < counts[:, None]
        rows = torch.arange(B, device=costs.device)[:, None].expand_as(real)[real]
        taken = pairs[real]
        return {"cost": costs.new_zeros(B).index_add(0, rows, costs[rows, taken[:, 0], taken[:, 1]])}

    sides = {OURS: partial(job, ops.warping_path), PLAIN: partial(job, reference.function)}
    return Contest(sides, terms={"cost": float(2 * T * costs.max())})


OPERATIONS = (
    Case(
        "additive-attention",
        "additive attention of all steps at once, forward and backward",
        additive_attention,
        {"B": 64, "T": 50, "S": 50, "D": 256, "V": 512},
        {"B": 4, "T": 16, "S": 16, "D": 16, "V": 16},
    ),
    Case(
        "additive-attention-long",
        "additive attention of long sequences, forward and backward",
        additive_attention,
        {"B": 8, "T": 1000, "S": 1000, "D": 256, "V": 256},
        {"B": 2, "T": 100, "S": 100},
        gate={"B": 1, "T": 200, "S": 300},
        untimed=(PLAIN,),
        measures_memory=True,
        megabytes=150,
    ),
    _case(
        "dot_attention",
        "dot-product attention of four heads over a third of the positions, forward and backward",
        lambda B, T, S, H, D: (
            draw(B, T, H, D),
            draw(B, S, H, D, seed=1),
            draw(B, S, H, D, seed=2),
            draw(B, 1, S, seed=3) > 0.4,
        ),
        {"B": 32, "T": 50, "S": 50, "H": 4, "D": 64},
    ),
    _case(
        "entmax",
        "1.5-entmax of energies, forward and backward",
        lambda R, S: (3 * draw(R, S),),
        {"R": 1280, "S": 50},
    ),
    _case(
        "masked_softmax",
        "softmax over a third of the positions, forward and backward",
        lambda R, S: (draw(R, S), draw(R, S, seed=1) > 0.4),
        {"R": 3200, "S": 50},
    ),
    _case(
        "linear",
        "product with a weight, forward",
        lambda M, N, K: (draw(M, K), draw(N, K, seed=1), draw(N, seed=2)),
        {"M": 1280, "N": 1024, "K": 256},
        forward_contest,
    ),
    _case(
        "log_softmax",
        "log-probabilities of a beam's step, forward",
        lambda R, N: (draw(R, N),),
        {"R": 320, "N": 5000},
        forward_contest,
    ),
    _case(
        "largest",
        "the 6 largest of a beam's step, forward",
        lambda R, N: (draw(R, N), 6),
        {"R": 320, "N": 5000},
        forward_contest,
    ),
    _case(
        "expected_monotonic_alignment",
        "expected monotonic alignment of a step, forward and backward",
        lambda R, S: (draw(R, S).sigmoid(), torch.softmax(draw(R, S, seed=1), -1)),
        {"R": 64, "S": 200},
    ),
    _case(
        "moving_chunk_softmax",
        "softmax over chunks that begin at the first position, forward and backward",
        lambda R, S: (torch.softmax(draw(R, 1, S), -1), draw(R, 1, S, seed=1), None, None),
        {"R": 64, "S": 200},
    ),
    _case(
        "batch_norm",
        "batch norm of real rows, residual and ReLU, forward and backward",
        lambda N, F: (
            draw(N, F),
            draw(N, seed=1) > -1,
            1 + draw(F, seed=2) / 10,
            draw(F, seed=3) / 10,
            draw(N, F, seed=4),
        ),
        {"N": 15_000, "F": 64},
        partial(contest, options={"activation": "relu"}),
    ),
    _case(
        "dropout",
        "dropout by item, forward and backward",
        lambda N, F: (draw(N, F), torch.arange(N), torch.arange(N) % 20, 0.3, (1, 2), 9),
        {"N": 1280, "F": 256},
    ),
    Case(
        "warping-path",
        "dynamic time warping of pairs of sounds of two seconds",
        warping_path,
        {"B": 8, "T": 160},
        {"B": 2, "T": 6},
        gate={"B": 2, "T": 20},
    ),
)
