"""Modules that learn the sizes of their inputs from the first call, as TensorFlow's layers do."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.interop.tfa.structure import map_structure

Type = torch.dtype | str | None


class DeferredParameter(nn.UninitializedParameter):
    """A weight of unknown shape, which later becomes an `nn.Parameter` with values, as the same object.

    So an optimiser that is made before the first call trains it. Until then it can be moved to a device or a type,
    copied, frozen and put into groups of parameters; anything else is an error with its name.

    Args:
        name: for errors, for example "the weight of dense".
        dtype: that of torch's default if None.
    """

    title: str
    origin: tuple[torch.dtype, torch.device]

    def __new__(cls, name: str, dtype: torch.dtype | None = None) -> Self:
        """A parameter without values."""
        self: Any = super().__new__(cls, dtype=dtype)
        self.title, self.origin = name, (self.data.dtype, self.data.device)
        return self

    def materialize(self, shape: Any, device: Any = None, dtype: torch.dtype | None = None) -> None:
        """Becomes an `nn.Parameter` of a shape, with values to be filled in."""
        del self.title, self.origin
        with torch.inference_mode(False):  # also if the first call is in inference mode
            super().materialize(shape, device, dtype)

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Unknown.

        Raises:
            UnsupportedError: always.
        """
        raise self._unknown()

    ndim = shape

    def _unknown(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.title} has no values before its sizes are known: call the model once, as with a first batch under "
            "torch.no_grad(), or give the sizes to the constructor (input_size of cells and layers, memory_size and "
            "query_size of mechanisms)."
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuses operations that need values."""
        if func is torch.Tensor.requires_grad_:
            args[0].requires_grad = args[1] if len(args) > 1 else (kwargs or {}).get("requires_grad", True)
            return args[0]
        if func is torch.Tensor.bfloat16:
            return args[0].to(torch.bfloat16)
        try:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        except RegardError:
            raise
        except ValueError:
            parts = [part for each in args for part in (each if isinstance(each, (list, tuple)) else (each,))]
            deferred = next((part for part in parts if isinstance(part, cls)), None)
            if deferred is None:
                raise
            raise deferred._unknown() from None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = _restored(type(self), self.title, self.origin, self.data, self.requires_grad)
        copied: Self = memo[id(self)]
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (type(self), self.title, self.origin, self.data, self.requires_grad)


def _restored(kind: Any, name: str, origin: Any, data: Tensor, requires_grad: bool) -> Any:
    """A copy of a deferred parameter."""
    copied = kind(name, data.dtype)
    copied.data, copied.origin, copied.requires_grad = data.clone(), origin, requires_grad
    return copied


class DeferredModule(nn.Module):
    """A module whose weights get their values in `build`, when the sizes of its inputs are known.

    They are known from the constructor, from the weights of `load_state_dict`, or from the first call. Until then the
    weights are `DeferredParameter`s, which optimisers may contain.
    """

    @property
    def built(self) -> bool:
        """Whether the weights have values."""
        raise NotImplementedError

    def sizes_in(self, weights: Mapping[str, Tensor]) -> Mapping[str, int] | None:
        """The arguments of `build` that give these weights, by their names in this module; None if unknown."""
        raise NotImplementedError

    def build(self, *sizes: Any, **named: Any) -> None:
        """Makes the values of the weights, unless they have been made."""
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        if not self.built:
            own = {name[len(prefix) :]: value for name, value in state_dict.items() if name.startswith(prefix)}
            sizes = self.sizes_in(own)
            if sizes is not None:
                self.build(**sizes)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def deferred(title: str, dtype: torch.dtype | None) -> nn.Parameter:
    """A `DeferredParameter`, typed as the parameter that it becomes."""
    weight: Any = DeferredParameter(title, dtype)
    parameter: nn.Parameter = weight
    return parameter


def materialize(weight: nn.Parameter, *shape: int) -> None:
    """Gives a deferred weight a shape, on the CPU and in torch's default type, for drawing initial values."""
    assert isinstance(weight, DeferredParameter)
    weight.materialize(shape, torch.device("cpu"), torch.get_default_dtype())


def defer(module: nn.Module, owner: nn.Module, title: str, dtype: torch.dtype | None) -> None:
    """Replaces the weights of a module by deferred ones, except weights that the owner already has.

    Its linear layers then have 0 inputs, as torch's lazy ones.

    Args:
        title: the owner's name, for errors.
        dtype: as in `DeferredParameter`.
    """
    owned = {id(weight) for weight in owner.parameters()}
    for name, weight in list(module.named_parameters()):
        if id(weight) not in owned:
            _set(module, name, deferred(f"{name} of {title}", dtype))
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.in_features = 0


def adopt(module: nn.Module, stand_in: nn.Module) -> None:
    """Fills the deferred weights of a stand-in with a module's values, and makes them the module's weights."""
    for name, weight in list(module.named_parameters()):
        other = stand_in.get_parameter(name)
        if isinstance(other, DeferredParameter) and other is not weight:
            other.materialize(weight.shape, weight.device, weight.dtype)
            other.data.copy_(weight.data)
            _set(module, name, other)


def _set(module: nn.Module, name: str, weight: nn.Parameter) -> None:
    path, _, own = name.rpartition(".")
    module.get_submodule(path)._parameters[own] = weight


def type_of(dtype: Type) -> torch.dtype | None:
    """A type from its name, for example "float32", or from a type of NumPy or TensorFlow.

    Raises:
        ConfigError: for anything but a floating type of torch.
    """
    if dtype is None:
        return None
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", None))
    kind = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(name), None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise ConfigError(f"dtype={dtype!r} must be a floating type of torch, or its name, as 'float32'.")
    return kind


def checked_width(name: str, value: Any) -> int:
    """A number of features, or another whole number above 0.

    Raises:
        ConfigError: for anything but a whole number above 0, such as a tensor.
    """
    try:
        width = 0 if isinstance(value, Tensor) else index(value)
    except TypeError:
        width = 0
    if width < 1:
        shown = type(value).__name__ if hasattr(value, "__array__") else repr(value)
        raise ConfigError(f"{name} must be a whole number, 1 or more; got {shown}.")
    return width


def check_type(name: str, values: Tensor, weight: Tensor) -> None:
    """Refuses values of another type than the weights that they are multiplied with, unless autocast is on."""
    if values.dtype != weight.dtype and not torch.is_autocast_enabled(values.device.type):
        kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (values, weight)]
        raise ShapeError(
            f"{name} has the type {kinds[0]}, but the weights are {kinds[1]}: convert one of them with .to(dtype)."
        )


def target(module: nn.Module, dtype: torch.dtype | None, like: Tensor | None) -> dict[str, Any]:
    """Type and device for the deferred weights of a module, as arguments of `to`.

    They are those to which the module was moved; otherwise the given type, or that of `like`, and its device.
    """
    kind, device = None, None
    for weight in module.parameters():
        if isinstance(weight, DeferredParameter):
            kind = weight.dtype if weight.dtype != weight.origin[0] else None
            device = weight.device if weight.device != weight.origin[1] else None
    if like is not None:
        kind = kind or dtype or (like.dtype if like.is_floating_point() else None)
        device = device or like.device
    return {"dtype": kind or dtype, "device": device}


def tensors(structure: Any, module: nn.Module | None = None) -> Any:
    """A structure with tensors instead of NumPy's arrays.

    Floating-point arrays get the type of the module's weights, by default torch's default type, as in Keras.
    """
    kinds = () if module is None else (weight.dtype for weight in module.parameters() if weight.dtype.is_floating_point)
    kind = next(iter(kinds), torch.get_default_dtype())

    def tensor(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) or not hasattr(leaf, "__array__"):
            return leaf
        values = torch.as_tensor(np.asarray(leaf))
        return values.to(kind) if values.is_floating_point() else values

    return map_structure(tensor, structure)


def first_weight(module: nn.Module) -> Tensor:
    """The first floating-point weight with values of a module, or an empty tensor."""
    weights = (weight for weight in module.parameters() if not isinstance(weight, DeferredParameter))
    return next((weight for weight in weights if weight.is_floating_point()), torch.empty(0))
