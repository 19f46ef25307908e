"""Models with weights sharded among processes (FSDP2): all their methods gather the weights that they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.layers.module_weights import ENTRY

ENTRY_POINTS = (
    "forward",
    "encode",
    "prepare",
    "extend",
    "initial_state",
    "step",
    "cross_entropy",
    "advance",
    "run",
    "head_output",
    "pool",
    "initial",
    "observe",
    "observe_at",
    "at",
    "start",
    "join",
    "locate",
    "project",
    "begin",
    "read",
    "take",
)
"""The methods by which modules call each other."""
_INSIDE: ContextVar[frozenset[int]] = ContextVar("regard_inside", default=frozenset())
"""The ids of the sharded modules whose weights are gathered, inside one of their entry points."""


def register_entry_points(model: nn.Module) -> nn.Module:
    """Makes all methods of a model that `fully_shard` has sharded gather the weights, as `forward` does.

    FSDP gathers a module's weights when the module is called, and frees them afterwards. Models here have more methods:
    `encode` and `prepare` once per source, `step` in searches, `cross_entropy` in training. Call this once, after the
    last `fully_shard`; training steps and searches then work as in one process, whether the model, its encoder and
    decoder, or each layer was sharded. Fast paths that read the weights of other modules are off.

    All processes gather weights together, so all must make the same calls: the same number of batches, and searches of
    the same sentences. Otherwise search inside `FSDPModule.unshard` of the whole model.

    Returns:
        The model.

    Raises:
        UnsupportedError: if nothing in the model is sharded.
    """
    from torch.distributed.fsdp import FSDPModule, register_fsdp_forward_method

    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not sharded:
        raise UnsupportedError("Nothing in this model is sharded: call torch.distributed.fsdp.fully_shard first.")
    for owner in sharded:
        for number, module in enumerate(_managed(owner)):
            for name in ENTRY_POINTS:
                original = getattr(module, name, None)
                if callable(original) and not isinstance(original, nn.Module):  # a mechanism's `read` is a part
                    gathering = f"_regard_{number}_{name}"
                    setattr(owner, gathering, _flat(original))
                    register_fsdp_forward_method(owner, gathering)
                    setattr(module, name, _entry(owner, original, getattr(owner, gathering)))
    return model


def _managed(owner: nn.Module) -> list[nn.Module]:
    """A sharded module and its submodules, except those inside another sharded module."""
    from torch.distributed.fsdp import FSDPModule

    managed, todo = [owner], list(owner.children())
    while todo:
        module = todo.pop(0)
        if not isinstance(module, FSDPModule):
            managed.append(module)
            todo.extend(module.children())
    return managed


def _entry(owner: nn.Module, direct: Callable[..., Any], gathering: Callable[..., Any]) -> Callable[..., Any]:
    """The method, between gathering and freeing the owner's weights unless they are gathered already."""

    @wraps(direct)
    def enter(*args: Any, **kwargs: Any) -> Any:
        inside = _INSIDE.get()
        if id(owner) in inside:
            return direct(*args, **kwargs)
        token = _INSIDE.set(inside | {id(owner)})
        try:
            tensors: list[Tensor] = []
            form = _divide((args, kwargs), tensors)
            form, *results = gathering(form, *tensors)
            return _unite(form, results)
        finally:
            _INSIDE.reset(token)

    setattr(enter, ENTRY, True)
    return enter


def _flat(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with tensors as separate arguments and results, because FSDP does not find tensors in dataclasses."""

    def call(form: Any, *tensors: Tensor) -> tuple[Any, ...]:
        args, kwargs = _unite(form, tensors)
        results: list[Tensor] = []
        form = _divide(method(*args, **kwargs), results)
        return form, *results

    return call


class _Place:
    """The index of a tensor in the list; no dataclass, because FSDP would search it for tensors."""

    def __init__(self, index: int) -> None:
        self.index = index


def _divide(value: Any, tensors: list[Tensor]) -> Any:
    """The value with each tensor replaced by its place in the list, to which it is appended."""

    def take(tensor: Tensor) -> _Place:
        tensors.append(tensor)
        return _Place(len(tensors) - 1)

    return _mapped(value, Tensor, take)


def _unite(form: Any, tensors: Sequence[Tensor]) -> Any:
    """The value with each place replaced by its tensor."""
    return _mapped(form, _Place, lambda place: tensors[place.index])


def _mapped(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """The value with `function` applied to its parts of type `kind`, in tuples, lists, dicts and dataclasses."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple | list):
        parts = [_mapped(part, kind, function) for part in value]
        make: Any = getattr(type(value), "_make", type(value))
        return make(parts)
    if isinstance(value, dict):
        return {key: _mapped(part, kind, function) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init]
        return type(value)(**{name: _mapped(getattr(value, name), kind, function) for name in names})
    return value
