"""Weights and memories that the steps of a loop share: prepared at the first use, gradients computed after the last.

In a loop over T steps a weight is used T times, and autograd computes T small products for its gradient and adds them.
Within a `Loop` each use only stores the factors, as (x_t, grad_t) of a product, and one product of all of them is
computed after the backward steps of all uses. Operations find the loop by `current`; modules are called as usual.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from regard.errors import UnsupportedError
from regard.ops import half
from regard.ops.autograd import without_autocast
from regard.ops.eligibility import TENSOR_TYPES, autocast_reason, kernel_reason
from regard.ops.switch import switched_off

Storage = Literal["float32", "int8"]
Gradients = Callable[[Sequence[Any]], Sequence[Tensor | None]]
"""From the stored factors of all uses, last step first, to the gradients of the shared tensors."""


class Loop:
    """A context for the steps of a loop, with what they share.

    Shared tensors must not be changed in place during the loop. A loop that is made while gradients are enabled
    collects them; one without keeps packed weights. Where kernels cannot be used (`kernel_reason`, autocast without
    `ops.half`) nothing is shared. A loop is entered for each step or once for all: `with loop: …`; an inner loop
    replaces the outer one.

    Args:
        weights: the storage of the weights of products in a loop without gradients.
        is_idle: whether nothing is shared.

    Raises:
        UnsupportedError: for weights of bytes where kernels cannot be used.

    >>> import torch
    >>> from regard.layers import Linear
    >>> linear, state = Linear(3, 3), torch.zeros(2, 3)
    >>> with Loop():
    ...     for _ in range(5):
    ...         state = linear(state).tanh()
    >>> state.sum().backward()
    >>> linear.weight.grad.shape
    torch.Size([3, 3])
    """

    def __init__(self, weights: Storage = "float32", *, is_idle: bool = False) -> None:
        self.collects = torch.is_grad_enabled()
        self.stores_bytes = weights == "int8"
        reason = kernel_reason() or (autocast_reason() if half.current() is None else None)
        if self.stores_bytes and reason is not None:
            raise UnsupportedError(f"weights: int8 is impossible here: {reason}.")
        self._is_idle = is_idle or reason is not None
        self.hooks = None if self._is_idle else _saved_tensors_hooks()
        self._made: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._tokens: list[Any] = []

    def __enter__(self) -> Loop:
        self._tokens.append(_LOOP.set(None if self._is_idle else self))
        return self

    def __exit__(self, *error: object) -> None:
        _LOOP.reset(self._tokens.pop())

    @property
    def has_shared(self) -> bool:
        """Whether anything has been shared."""
        return bool(self._made)

    def shared(self, make: Callable[..., T], *things: Any, **options: Any) -> T:
        """The result of `make` for these tensors or modules, computed at the first use and dropped with any of them."""
        key = make, *map(id, things)
        if (entry := self._made.get(key)) is None:
            drop = partial(_drop, weakref.ref(self), key)
            watched = (weakref.ref(thing, drop) for thing in things if thing is not None)
            entry = self._made[key] = make(*things, **options), *watched
        made: T = entry[0]
        return made


def _drop(reference: weakref.ref[Loop], key: tuple[Any, ...], _: Any) -> None:
    # by a weak reference, as a cycle through the loop would be freed by the garbage collector only
    if (loop := reference()) is not None:
        loop._made.pop(key, None)


T = TypeVar("T")
_LOOP: ContextVar[Loop | None] = ContextVar("current loop", default=None)


def current(*inputs: Any) -> Loop | None:
    """The loop in which an operation is called, if it can share something for these inputs; otherwise None.

    It cannot under hooks of saved tensors, such as a checkpoint's, which computes a step again after the loop.
    """
    if torch.compiler.is_compiling() or (loop := _LOOP.get()) is None or loop.collects != torch.is_grad_enabled():
        return None
    if torch._C._are_functorch_transforms_active() or switched_off() or _saved_tensors_hooks() is not loop.hooks:
        return None
    return loop if TENSOR_TYPES.issuperset(map(type, inputs)) else None


def _saved_tensors_hooks() -> Any:
    """The current hook that packs saved tensors, or None."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return None if hooks is None else hooks[0]


def stores_bytes() -> bool:
    """Whether the current loop stores the weights of products as bytes."""
    loop = _LOOP.get()
    return loop is not None and loop.stores_bytes


def apply(function: type[torch.autograd.Function], *inputs: Any) -> Any:
    """`function.apply` without its check for transforms of torch.func, which `current` has made."""
    return super(torch.autograd.Function, function).apply(*inputs)  # type: ignore[misc]


def once(make: Callable[..., T], *things: Any, **options: Any) -> T:
    """The result of a function of tensors or modules, which a loop calls once for all steps."""
    loop = current()
    return make(*things, **options) if loop is None else loop.shared(make, *things, **options)


class Shared:
    """Tensors that all steps of a loop use, with the factors of their gradients.

    Args:
        tensors: the shared ones; missing ones are None.
        gradients: see `Gradients`; must not refer to a `Shared`, or the graph would never be freed.
    """

    def __init__(self, tensors: Sequence[Tensor | None], gradients: Gradients) -> None:
        self.uses = Uses(gradients)
        # never the tensors themselves, as the loop drops its entries with them
        self.handles: Sequence[Any] = (
            _Collect.apply(self.uses, *tensors)  # type: ignore[no-untyped-call]
            if torch.is_grad_enabled()
            else [None if x is None else x.detach() for x in tensors]
        )


class Uses:
    """The factors that the backward steps of all uses store, for each backward pass."""

    def __init__(self, gradients: Gradients) -> None:
        self.gradients = gradients
        self.collector: Callable[[], Any] = lambda: None
        self._factors: dict[int, list[Any]] = {}

    @property
    def factors(self) -> list[Any]:
        """The factors of the running backward pass, to which uses append; a new list if the pass does not collect."""
        node = self.collector()
        if node is None or not torch._C._will_engine_execute_node(node):
            return []
        return self._factors.setdefault(torch._C._current_graph_task_id(), [])

    def sum(self) -> Sequence[Tensor | None]:
        """The gradients of the shared tensors in the running backward pass; empty without factors."""
        factors = self._factors.pop(torch._C._current_graph_task_id(), [])
        return self.gradients(factors) if factors else ()


class _Collect(torch.autograd.Function):
    """The shared tensors for the uses; its backward step follows those of all uses."""

    @staticmethod
    def forward(ctx: Any, uses: Uses, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.uses, uses.collector = uses, weakref.ref(ctx)
        ctx.device = next(x.device.type for x in tensors if x is not None)
        ctx.set_materialize_grads(False)
        return tuple(None if x is None else x.detach() for x in tensors)

    @staticmethod
    def backward(ctx: Any, *others: Tensor | None) -> tuple[Tensor | None, ...]:
        # with create_graph uses compute gradients of the shared tensors themselves: `others`
        with without_autocast(ctx.device):
            sums = ctx.uses.sum() or (None,) * len(others)
            both = [a if b is None else b if a is None else a + b for a, b in zip(sums, others, strict=True)]
        return None, *(x if need else None for x, need in zip(both, ctx.needs_input_grad[1:], strict=True))
