"""Modules that learn the sizes of their inputs from the first call, as TensorFlow's layers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, ShapeError

Type = torch.dtype | str | None


class DeferredModule(nn.Module):
    """A module whose weights are made by `build`, when the sizes of its inputs are known.

    That is at its construction if they are given there; else when `load_state_dict` gives the weights, from their
    shapes; else in the first call. An optimiser has to be made after that, since there are no parameters before.
    """

    @property
    def built(self) -> bool:
        """Whether the weights have been made."""
        raise NotImplementedError

    def sizes_in(self, weights: Mapping[str, Tensor]) -> Mapping[str, int] | None:
        """The arguments of `build` for which these weights, by their names in this module, are those of a state dict.

        None if the weights do not say.
        """
        raise NotImplementedError

    def build(self, *sizes: Any, **named: Any) -> None:
        """Makes the weights, unless they have been made."""
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        if not self.built:
            own = {name[len(prefix) :]: value for name, value in state_dict.items() if name.startswith(prefix)}
            sizes = self.sizes_in(own)
            if sizes is not None:
                self.build(**sizes)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def type_of(dtype: Type) -> torch.dtype | None:
    """A type from its name, for example "float32".

    Raises:
        ConfigError: for a name of no floating type of torch.
    """
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found is None and dtype is None:
        return None
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ConfigError(f"dtype={dtype!r} must be a floating type of torch, or its name, as 'float32'.")
    return found


def checked_width(name: str, value: Any) -> int:
    """A number of features.

    Raises:
        ConfigError: for anything but a whole number above 0, such as a tensor in its place.
    """
    if isinstance(value, Tensor) or not hasattr(value, "__index__") or value < 1:
        kind = type(value).__name__ if isinstance(value, Tensor) else repr(value)
        raise ConfigError(f"{name} must be a whole number, 1 or more; got {kind}.")
    return int(value)


def check_type(name: str, values: Tensor, weight: Tensor) -> None:
    """Refuses values of another type than the weights that they are multiplied with, unless autocast chooses the type.

    Raises:
        ShapeError: naming both types.
    """
    if values.dtype != weight.dtype and not torch.is_autocast_enabled(values.device.type):
        kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (values, weight)]
        raise ShapeError(
            f"{name} has the type {kinds[0]}, and the weights are {kinds[1]}: bring both to one type, with .to(dtype)."
        )


def placed(module: nn.Module, dtype: torch.dtype | None, like: Tensor | None) -> nn.Module:
    """The module on the device of `like`, with the given type, or with that of `like` if it is None."""
    if like is None:
        return module if dtype is None else module.to(dtype)
    kind = like.dtype if like.is_floating_point() else None
    return module.to(like.device, dtype or kind)
