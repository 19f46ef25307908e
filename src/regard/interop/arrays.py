"""Arrays by name, each of which is read by what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, overload

from torch import Tensor

from regard.config.spelling import suggestion
from regard.errors import DataError


class NamedArrays:
    """Arrays of another program, which are asked for by their roles.

    Args:
        arrays: by the names that the program gives them.
        names: the name of each role; a role that has none is a name itself, with / or . between its parts.
        ignored: patterns of names that are not read, as those of an optimiser's own arrays (`*/Adam*`).

    Raises:
        DataError: for a name that there is not.

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
        self.given = {plain(name): name for name in arrays}
        self.names, self.source = {role: plain(name) for role, name in names.items()}, source
        self.unread = {name for name in self.arrays if not any(fnmatchcase(self.given[name], p) for p in ignored)}
        for role, name in names.items():
            if plain(name) not in self.arrays:
                raise DataError(f"{source}: names.{role} is {name!r}; {suggestion(name, self.given.values())}")

    def __contains__(self, role: str) -> bool:
        return self.names.get(role, role) in self.arrays

    def __getitem__(self, role: str) -> Tensor:
        return self.look(role)

    def name_of(self, role: str) -> str:
        """The name of a role's array in the file."""
        name = self.names.get(role, role)
        return self.given.get(name, name)

    def look(self, role: str) -> Tensor:
        """The array of a role, which still counts as unread."""
        if role not in self:
            raise DataError(
                f"{self.source}: there is no array {self.name_of(role)!r}. Give its name under names.{role}; there are "
                f"{', '.join(sorted(self.given.values()))}."
            )
        return self.arrays[self.names.get(role, role)]

    @overload
    def take(self, role: str, shape: Sequence[int | None], letters: str) -> Tensor: ...

    @overload
    def take(
        self, role: str, shape: Sequence[int | None], letters: str, *, optional: Literal[True]
    ) -> Tensor | None: ...

    def take(self, role: str, shape: Sequence[int | None], letters: str, *, optional: bool = False) -> Tensor | None:
        """The array of a role.

        Args:
            shape: what it must be; None: any number.
            letters: the same in letters.
            optional: whether it may be missing; then None is returned.
        """
        if optional and role not in self:
            return None
        array = self.look(role)
        if array.dim() != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
            raise self.wrong(role, letters, shape)
        if not bool(array.isfinite().all()):
            raise DataError(
                f"{self.source}: {self.name_of(role)} has numbers that are not finite (NaN or infinite); take another "
                "checkpoint."
            )
        self.unread.discard(self.names.get(role, role))
        return array.clone()

    def wrong(self, role: str, letters: str, shape: Sequence[int | None] = ()) -> DataError:
        """The error about an array of a wrong shape."""
        numbers = ", ".join("any" if n is None else str(n) for n in shape)
        wanted = f"({letters})" + (f" = ({numbers})" if shape else "")
        got = tuple(self.look(role).shape)
        return DataError(f"{self.source}: {self.name_of(role)} is {got}; as {role} it must be {wanted}.")

    def finish(self) -> None:
        """Refuses arrays that nothing has read."""
        if self.unread:
            names = ", ".join(sorted(self.given[name] for name in self.unread))
            raise DataError(
                f"{self.source}: arrays that nothing here reads: {names}. Say what they are under names, or leave them "
                "out under ignore."
            )


def plain(name: str) -> str:
    """A name without TensorFlow's number of the output (:0), and with . between its parts.

    >>> plain("decoder/lstm_cell/kernel:0")
    'decoder.lstm_cell.kernel'
    """
    head, _, number = name.rpartition(":")
    return (head if head and number.isdigit() else name).replace("/", ".")
