"""Weights of an original's layer from its arrays, by TensorFlow's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import DataError, UnsupportedError

Arrays = Mapping[str, Any] | Sequence[Any]
"""Arrays by name, as `{v.name: v.numpy() for v in layer.variables}`; the variables themselves; or the arrays of
`layer.get_weights()`, in its order."""
Shape = tuple[int | str, ...]
"""Sizes, or letters where any size is accepted."""


class FromTensorflow(nn.Module):
    """A module with a conversion from the weights of an original."""

    def array_names(self) -> list[str]:
        """The names of all arrays of the original, in the order of its `get_weights()`."""
        raise NotImplementedError

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """A state dict of this module, whose arrays are removed from the pool."""
        raise NotImplementedError

    def from_tensorflow(self, weights: Arrays) -> dict[str, Tensor]:
        """A state dict from the arrays of the original, for `load_state_dict`.

        Args:
            weights: `{v.name: v.numpy() for v in layer.variables}`, `layer.variables`, or `layer.get_weights()`. Names
                may be complete, as `decoder/attention_wrapper/lstm_cell/kernel:0`, those of a checkpoint, or only their
                last parts.

        Raises:
            DataError: for arrays that are missing, left over or of another shape, by their names.
        """
        pool = Pool.of(weights, self)
        state = self.take(pool)
        pool.finish()
        return state


@dataclass(frozen=True)
class Array:
    """An array of the original.

    Args:
        name: as given.
        path: the parts of the name, without TensorFlow's suffixes.
    """

    name: str
    path: tuple[str, ...]
    value: Tensor

    def has(self, *bases: str) -> bool:
        """Whether a part of the path except the last is one of these names, with or without a number at its end."""
        return any(base_of(part) in bases or part in bases for part in self.path[:-1])

    def ends_with(self, name: str) -> bool:
        """Whether the last parts of the path are this name."""
        parts = tuple(name.split("/"))
        return self.path[-len(parts) :] == parts


class Pool:
    """The arrays that have not been taken yet.

    Args:
        arrays: in order.
        owner: their module, for errors.
    """

    def __init__(self, arrays: Iterable[Array], owner: nn.Module) -> None:
        self.arrays, self.owner = list(arrays), owner

    @classmethod
    def of(cls, weights: Arrays, owner: FromTensorflow) -> Pool:
        """The pool of the arguments of `from_tensorflow`."""
        if isinstance(weights, Mapping):
            named = list(weights.items())
        elif not isinstance(weights, Sequence) or isinstance(weights, (str, bytes)):
            raise DataError(
                f"The arrays of a {type(owner).__name__} are given by name, {{v.name: v.numpy() for v in variables}}, "
                f"or as the list of get_weights(); got {type(weights).__name__}."
            )
        elif weights and all(isinstance(getattr(each, "name", None), str) for each in weights):
            named = [(each.name, each) for each in weights]
        else:
            names = owner.array_names()
            if len(weights) != len(names):
                raise DataError(
                    f"get_weights() of a {type(owner).__name__} has {len(names)} arrays, {', '.join(names)}; "
                    f"got {len(weights)}."
                )
            named = list(zip(names, weights, strict=True))
        return cls((Array(name, _path(name), _tensor(name, value)) for name, value in named), owner)

    def part(self, belongs: Callable[[Array], bool], owner: nn.Module) -> Pool:
        """A pool of some of the arrays, which are removed from this one."""
        chosen = [array for array in self.arrays if belongs(array)]
        self.arrays = [array for array in self.arrays if not belongs(array)]
        return Pool(chosen, owner)

    def pick(self, shapes: Mapping[str, Shape]) -> list[Tensor]:
        """The first array of each name, which is removed from the pool.

        Args:
            shapes: all names of a layer, with their shapes.

        Raises:
            DataError: for arrays that are missing or of another shape.
        """
        places = [
            next((place for place, array in enumerate(self.arrays) if array.ends_with(name)), None) for name in shapes
        ]
        if missing := [name for name, place in zip(shapes, places, strict=True) if place is None]:
            self._check_names(shapes, missing)
        picked = [self.arrays[place] for place in places if place is not None]
        for array, (name, shape) in zip(picked, shapes.items(), strict=True):
            self.check(array, name, shape)
        self.arrays = [array for place, array in enumerate(self.arrays) if place not in places]
        return [array.value for array in picked]

    def check(self, array: Array, name: str, shape: Shape) -> None:
        """Refuses an array of another shape."""
        sizes = array.value.shape
        if len(sizes) != len(shape) or any(isinstance(b, int) and a != b for a, b in zip(sizes, shape)):
            shown = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
            raise DataError(
                f"{array.name} has the shape {tuple(sizes)}; the {name} of this {type(self.owner).__name__} is {shown}."
            )

    def finish(self) -> None:
        """Refuses arrays that are left over."""
        if self.arrays:
            self._check_names((), ())

    def _check_names(self, names: Iterable[str], missing: Sequence[str]) -> None:
        names = list(names) or (self.owner.array_names() if isinstance(self.owner, FromTensorflow) else [])
        others = [array.name for array in self.arrays if not any(array.ends_with(name) for name in names)]
        if not missing and not others:  # several of one name
            others = [array.name for array in self.arrays]
        raise DataError(
            f"The arrays of a {type(self.owner).__name__} are {', '.join(names)}.\n"
            f"  missing: {', '.join(missing) or 'none'}\n  others: {', '.join(others) or 'none'}"
        )


def parts_of(module: nn.Module, name: str) -> FromTensorflow:
    """A part of a module, which must be a `FromTensorflow`.

    Raises:
        UnsupportedError: for another module.
    """
    if not isinstance(module, FromTensorflow):
        raise UnsupportedError(
            f"{name} is a {type(module).__name__}, which has no from_tensorflow: use a module of regard.interop.tfa, "
            "such as KerasLSTMCell or Dense."
        )
    return module


def taken(arrays: Pool, module: Any, prefix: str, belongs: Callable[[Array], bool]) -> dict[str, Tensor]:
    """The weights that a part takes from the arrays that may belong to it; the others stay."""
    part = parts_of(module, prefix)
    own = arrays.part(belongs, part)
    state = prefixed(prefix, part.take(own))
    arrays.arrays += own.arrays
    return state


def prefixed(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with a prefix."""
    return {f"{prefix}.{name}": value for name, value in state.items()}


def base_of(name: str) -> str:
    """A layer's name without TensorFlow's number at its end.

    >>> base_of("lstm_cell_12")
    'lstm_cell'
    """
    return re.sub(r"_\d+$", "", name)


def in_order(groups: Iterable[str]) -> list[str]:
    """Names of layers in the order of their construction: the given order, or by number if that is alphabetical.

    >>> in_order(["lstm_cell_10", "lstm_cell_9"]), in_order(["lstm_cell_9", "gru_cell"])
    (['lstm_cell_9', 'lstm_cell_10'], ['lstm_cell_9', 'gru_cell'])
    """
    names = list(dict.fromkeys(groups))
    if names != sorted(names):
        return names
    return sorted(names, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)])


def _path(name: str) -> tuple[str, ...]:
    name = name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
    return tuple(part for part in re.sub(r":\d+$", "", name).split("/") if part)


def _tensor(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) and hasattr(value, "numpy"):
        value = value.numpy()
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name} must be an array; got {type(value).__name__}.") from None
