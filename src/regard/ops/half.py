"""Half copies of all weights of products, made by one launch, as are the float32 gradients of the weights.

Autocast takes a launch for each weight and bias, forward and backward. Products read the copies by `current`; other
readers, such as an embedding whose matrix a head shares, read the weights in float32.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor


class HalfCopies:
    """Copies of weights in a half type.

    Args:
        weights: in float32.
        kind: bfloat16 or float16.

    >>> weight = torch.ones(2, 3, requires_grad=True)
    >>> copies = HalfCopies([weight], torch.bfloat16)
    >>> copies.of(weight)[0].sum().backward()
    >>> weight.grad.dtype
    torch.float32
    """

    def __init__(self, weights: Sequence[Tensor], kind: torch.dtype) -> None:
        self.kind = kind
        self._weights = weights  # kept, as their ids are keys
        self._inputs: dict[int, tuple[weakref.ref[Tensor], int, Tensor]] = {}
        copies = _Halve.apply(kind, *weights) if weights else ()  # type: ignore[no-untyped-call]
        self._copies: dict[int, Tensor] = dict(zip(map(id, weights), copies, strict=True))

    def of(self, *weights: Tensor) -> Sequence[Tensor]:
        """The copies of these weights; the weights themselves if one of them has no copy."""
        known = self._copies
        return [known[id(each)] for each in weights] if all(id(each) in known for each in weights) else weights

    def of_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """The input, weight and bias of a product x Wᵀ + b, in the half type if the weight has a copy."""
        read = self.of(weight) if bias is None else self.of(weight, bias)
        if read[0] is weight:
            return x, weight, bias
        return self.of_input(x), read[0], None if bias is None else read[1]

    def of_input(self, x: Tensor) -> Tensor:
        """x in the half type, converted once for all products that read x, such as those of query, keys and values."""
        if x.dtype == self.kind:
            return x
        source, version, copy = self._inputs.get(id(x), (None, 0, x))
        has_gradient = x.requires_grad and torch.is_grad_enabled()
        if source is None or source() is not x or version != x._version or copy.requires_grad != has_gradient:
            copy = x.to(self.kind)
            self._inputs[id(x)] = weakref.ref(x), x._version, copy
        return copy


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kind: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(_converted(weights, kind))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        converted = iter(_converted([x for x in gradients if x is not None], torch.float32))
        return None, *(None if x is None else next(converted) for x in gradients)


def _converted(tensors: tuple[Tensor, ...] | list[Tensor], kind: torch.dtype) -> list[Tensor]:
    results = [torch.empty_like(x, dtype=kind) for x in tensors]
    if results:
        torch._foreach_copy_(results, tensors)
    return results


_COPIES: ContextVar[HalfCopies | None] = ContextVar("half copies of weights", default=None)


def current() -> HalfCopies | None:
    """The copies in use; None under torch.compile, which places conversions itself."""
    return None if torch.compiler.is_compiling() else _COPIES.get()


@contextmanager
def copied(weights: Sequence[Tensor], kind: torch.dtype) -> Iterator[None]:
    """Lets products within the context read copies of these weights."""
    token = _COPIES.set(HalfCopies(weights, kind))
    try:
        yield
    finally:
        _COPIES.reset(token)
