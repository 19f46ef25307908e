"""What the steps of a loop share, weights and memories: prepared at the first use, gradients computed after the last.

In a loop over T steps a weight is used T times, and autograd makes T small products for its gradient and adds them.
Within a `Loop` each use only keeps what the gradient is made of, as (x_t, grad_t) of a product, and one product of
all of them is made when the backward pass has seen every use. Operations look for the loop by `current`; modules are
called as ever and know nothing of it.
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
"""From what every use has kept, last step first, to the gradients of the shared tensors."""


class Loop:
    """What the steps of a loop have shared so far.

    A tensor that is shared must not be changed in place while steps are taken. A loop that begins with gradients
    (`torch.is_grad_enabled`) collects them; one without keeps weights laid out for products. Where no kernels may
    compute (`kernel_reason`, autocast without `ops.half`) nothing is shared. A loop is entered for every step or for
    all: `with loop: …`; a loop within a loop has its own.

    Args:
        weights: how those of products are stored in a loop without gradients.
        is_idle: whether nothing is shared.

    Raises:
        UnsupportedError: for weights of bytes where no kernels may compute.

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
        """Whether anything has been made for the steps."""
        return bool(self._made)

    def shared(self, make: Callable[..., T], *things: Any, **options: Any) -> T:
        """What `make` has made of these tensors or modules, at its first use now; it is dropped with any of them."""
        key = make, *map(id, things)
        if (found := self._made.get(key)) is None:
            drop = partial(_drop, weakref.ref(self), key)
            watched = (weakref.ref(thing, drop) for thing in things if thing is not None)
            found = self._made[key] = make(*things, **options), *watched
        made: T = found[0]
        return made


def _drop(loop: weakref.ref[Loop], key: tuple[Any, ...], _: Any) -> None:
    # a loop that its own weak references called would be freed by the garbage collector only, with all that it made
    if (found := loop()) is not None:
        found._made.pop(key, None)


T = TypeVar("T")
_LOOP: ContextVar[Loop | None] = ContextVar("the loop that is run", default=None)


def current(*inputs: Any) -> Loop | None:
    """The loop within which an operation is called on these inputs, if it may keep something for them.

    It may not where a step is called by what keeps tensors in its own way, as a checkpoint, which computes the step
    again when the loop has ended.
    """
    if torch.compiler.is_compiling() or (loop := _LOOP.get()) is None or loop.collects != torch.is_grad_enabled():
        return None
    if torch._C._are_functorch_transforms_active() or switched_off() or _saved_tensors_hooks() is not loop.hooks:
        return None
    return loop if TENSOR_TYPES.issuperset(map(type, inputs)) else None


def _saved_tensors_hooks() -> Any:
    """What packs the tensors that are saved for the backward pass now."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return None if hooks is None else hooks[0]


def stores_bytes() -> bool:
    """Whether the loop that is run stores the weights of products as bytes."""
    loop = _LOOP.get()
    return loop is not None and loop.stores_bytes


def apply(function: type[torch.autograd.Function], *inputs: Any) -> Any:
    """`function.apply` without its questions about transforms of functions, which `current` has asked."""
    return super(torch.autograd.Function, function).apply(*inputs)  # type: ignore[misc]


def once(make: Callable[..., T], *things: Any, **options: Any) -> T:
    """What a function makes of tensors or modules; within a loop it is called once for all steps."""
    loop = current()
    return make(*things, **options) if loop is None else loop.shared(make, *things, **options)


class Shared:
    """Tensors that all steps of a loop use, and what their gradients are made of.

    Args:
        tensors: the shared ones; None for those that are not there.
        gradients: see `Gradients`; must not hold a `Shared`, or the graph would never be freed.
    """

    def __init__(self, tensors: Sequence[Tensor | None], gradients: Gradients) -> None:
        self.uses = Uses(gradients)
        # never the tensors themselves: what a loop has made is dropped with them
        self.handles: Sequence[Any] = (
            _Collect.apply(self.uses, *tensors)  # type: ignore[no-untyped-call]
            if torch.is_grad_enabled()
            else [None if x is None else x.detach() for x in tensors]
        )


class Uses:
    """What the backward steps of all uses keep, for each backward pass through the graph."""

    def __init__(self, gradients: Gradients) -> None:
        self.gradients = gradients
        self.collector: Callable[[], Any] = lambda: None
        self._kept: dict[int, list[Any]] = {}

    @property
    def kept(self) -> list[Any]:
        """What was kept in the backward pass that is running; a use adds to it, in vain if nobody collects."""
        node = self.collector()
        if node is None or not torch._C._will_engine_execute_node(node):
            return []
        return self._kept.setdefault(torch._C._current_graph_task_id(), [])

    def sum(self) -> Sequence[Tensor | None]:
        """The gradients of the shared tensors in the backward pass that is running; nothing if no use kept anything."""
        kept = self._kept.pop(torch._C._current_graph_task_id(), [])
        return self.gradients(kept) if kept else ()


class _Collect(torch.autograd.Function):
    """The shared tensors as each use gets them. Its backward step comes when those of all uses are done."""

    @staticmethod
    def forward(ctx: Any, uses: Uses, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.uses, uses.collector = uses, weakref.ref(ctx)
        ctx.device = next(x.device.type for x in tensors if x is not None)
        ctx.set_materialize_grads(False)
        return tuple(None if x is None else x.detach() for x in tensors)

    @staticmethod
    def backward(ctx: Any, *others: Tensor | None) -> tuple[Tensor | None, ...]:
        # with create_graph the gradients that the uses made read the shared tensors again, and have gradients for them
        with without_autocast(ctx.device):
            sums = ctx.uses.sum() or (None,) * len(others)
            both = [a if b is None else b if a is None else a + b for a, b in zip(sums, others, strict=True)]
        return None, *(x if need else None for x, need in zip(both, ctx.needs_input_grad[1:], strict=True))
