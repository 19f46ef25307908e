"""Arrays of a file by name, each read by its role, and the weights of recurrent cells among them.

| cell | arrays | ours |
|---|---|---|
| `lstm` (Keras) | kernel (F, 4D), recurrent_kernel (D, 4D), bias (4D); gates i, f, c, o | `lstm`: i, f, g, o |
| `gru` (Keras) | kernel (F, 3D), recurrent_kernel (D, 3D), bias (2, 3D); gates z, r, h | `gru`: r, z, n |
| `gru_reset_before` (Keras) | with reset_after=False; one bias (3D) | `gru_reset_before`: r, z, n |
| `lstm_v1` (TensorFlow 1) | kernel (F + D, 4D), bias (4D); gates i, j, f, o | `lstm`: forget_bias is added to f |
| `gru_v1` (TensorFlow 1) | gates and candidate: kernel (F + D, 2D and D), bias; r, u, c | `gru_reset_before`: u is z |

Kernels multiply rows from the right, so all are transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor

from regard.config.spelling import suggestion
from regard.errors import DataError
from regard.interop.tfa.cells.gated import AbstractGatedCell
from regard.interop.tfa.cells.gru import GRUCell, KerasGRUCell
from regard.interop.tfa.cells.lstm import KerasLSTMCell, LSTMCell


class NamedArrays:
    """The arrays of a file, each read once by its role.

    Args:
        arrays: by their names in the file.
        names: the name of each role; a role without one is a name itself, with / or . between its parts.
        ignored: patterns of the names that are not read, such as those of an optimiser's arrays (`*/Adam*`).
        source: the file, for errors.

    Raises:
        DataError: for a name that is not in the file.

    >>> import torch
    >>> arrays = NamedArrays({"cell/kernel:0": torch.ones(2, 3)}, {}, source="model.npz")
    >>> arrays.take("cell.kernel", (None, 3), "F, D").shape
    torch.Size([2, 3])
    >>> arrays.finish()
    """

    def __init__(
        self,
        arrays: Mapping[str, Tensor],
        names: Mapping[str, str],
        ignored: Sequence[str] = (),
        *,
        source: str = "the arrays",
    ) -> None:
        self.arrays = {plain(name): array for name, array in arrays.items()}
        self.names_in_file = {plain(name): name for name in arrays}
        self.names, self.source = {role: plain(name) for role, name in names.items()}, source
        self.unread = {
            name for name, full in self.names_in_file.items() if not any(fnmatchcase(full, each) for each in ignored)
        }
        for role, name in names.items():
            if plain(name) not in self.arrays:
                hint = suggestion(name, self.names_in_file.values())
                raise DataError(f"{source}: names.{role} is {name!r}; {hint}")

    def __contains__(self, role: str) -> bool:
        return self.names.get(role, role) in self.arrays

    def name_of(self, role: str) -> str:
        """The name of a role's array in the file."""
        name = self.names.get(role, role)
        return self.names_in_file.get(name, name)

    def get(self, role: str) -> Tensor:
        """The array of a role, which still counts as unread."""
        if role not in self:
            raise DataError(
                f"{self.source}: there is no array {self.name_of(role)!r}. Give its name under names.{role}; there are "
                f"{', '.join(sorted(self.names_in_file.values()))}."
            )
        return self.arrays[self.names.get(role, role)]

    def matrix_shape(self, role: str, letters: str) -> tuple[int, int]:
        """The shape of a matrix, which still counts as unread.

        Raises:
            DataError: for an array that is no matrix.
        """
        shape = self.get(role).shape
        if len(shape) != 2:
            raise self.shape_error(role, letters)
        return shape[0], shape[1]

    @overload
    def take(self, role: str, shape: Sequence[int | None], letters: str) -> Tensor: ...

    @overload
    def take(self, role: str, shape: Sequence[int | None], letters: str, *, optional: bool) -> Tensor | None: ...

    def take(self, role: str, shape: Sequence[int | None], letters: str, *, optional: bool = False) -> Tensor | None:
        """The array of a role.

        Args:
            shape: the expected sizes; None: any size.
            letters: the same in letters, for errors.
            optional: whether it may be missing; then None is returned.

        Raises:
            DataError: for an array that is missing, of another shape, or not finite.
        """
        if optional and role not in self:
            return None
        array = self.get(role)
        if array.dim() != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
            raise self.shape_error(role, letters, shape)
        if not bool(array.isfinite().all()):
            raise DataError(
                f"{self.source}: {self.name_of(role)} has numbers that are not finite (NaN or infinite); take another "
                "checkpoint."
            )
        self.unread.discard(self.names.get(role, role))
        return array.clone()

    def shape_error(self, role: str, letters: str, shape: Sequence[int | None] = ()) -> DataError:
        """The error about an array of another shape."""
        numbers = ", ".join("any" if n is None else str(n) for n in shape)
        expected = f"({letters})" + (f" = ({numbers})" if shape else "")
        got = tuple(self.get(role).shape)
        return DataError(f"{self.source}: {self.name_of(role)} is {got}; as {role} it must be {expected}.")

    def finish(self) -> None:
        """Refuses arrays that were not read."""
        if self.unread:
            names = ", ".join(sorted(self.names_in_file[name] for name in self.unread))
            raise DataError(
                f"{self.source}: arrays without a role: {names}. Give their roles under names, or list them "
                "under ignore."
            )


def plain(name: str) -> str:
    """A name without TensorFlow's output number (:0), and with . between its parts.

    >>> plain("decoder/lstm_cell/kernel:0")
    'decoder.lstm_cell.kernel'
    """
    head, _, number = name.rpartition(":")
    return (head if head and number.isdigit() else name).replace("/", ".")


CELLS: Mapping[str, tuple[Literal["lstm", "gru", "gru_reset_before"], Callable[..., AbstractGatedCell]]] = {
    "lstm": ("lstm", KerasLSTMCell),
    "gru": ("gru", KerasGRUCell),
    "gru_reset_before": ("gru_reset_before", partial(KerasGRUCell, reset_after=False)),
    "lstm_v1": ("lstm", LSTMCell),
    "gru_v1": ("gru_reset_before", GRUCell),
}
"""By the names in a file of facts: our cell, and the original's."""


def size_of(arrays: NamedArrays, role: str, cell: str) -> int:
    """D, the size of a cell's state, from the shape of an array."""
    if cell == "gru_v1":
        return arrays.matrix_shape(f"{role}.candidate.kernel", "F + D, D")[1]
    if cell == "lstm_v1":
        return arrays.matrix_shape(f"{role}.kernel", "F + D, 4·D")[1] // 4
    return arrays.matrix_shape(f"{role}.recurrent_kernel", "D, gates·D")[0]


def cell_weights(
    arrays: NamedArrays, role: str, cell: str, sizes: tuple[int, int], forget_bias: float = 1.0
) -> dict[str, Tensor]:
    """weight_ih, weight_hh, bias_ih and bias_hh of a layer; one bias of `gru_reset_before`.

    Args:
        role: of the cell's arrays, the part before `.kernel`.
        cell: its name in `CELLS`; a cell of Keras may have no bias.
        sizes: F and D, of the inputs and of the state.
        forget_bias: of `lstm_v1`.
    """
    ours, kind = CELLS[cell]
    options: dict[str, Any] = {"forget_bias": forget_bias} if cell == "lstm_v1" else {}
    original = kind(sizes[1], **options)
    widths = {"F": sizes[0], "F + D": sum(sizes)}
    values: dict[str, Tensor] = {}
    for name, letters in original.array_shapes().items():
        shape = tuple(widths[size] if isinstance(size, str) else size for size in letters)
        is_optional = name == "bias" and not cell.endswith("v1")
        array = arrays.take(f"{role}.{plain(name)}", shape, ", ".join(map(str, letters)), optional=is_optional)
        values[name] = next(iter(values.values())).new_zeros(shape) if array is None else array
    weights = original.from_tensorflow(values)
    if ours != "gru_reset_before":
        weights["bias_ih"] = weights.pop("bias")
        weights.setdefault("bias_hh", torch.zeros_like(weights["bias_ih"]))
    return weights
