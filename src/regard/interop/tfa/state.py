"""The state of an AttentionWrapper: `AttentionWrapperState`, and the alignments of all steps."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from torch import Tensor

from regard.attention.contract import Tree
from regard.errors import ShapeError
from regard.interop.tfa.cells.contract import check_order, with_tuples
from regard.interop.tfa.structure import TensorArray

AlignmentHistory = TensorArray
"""The alignments (R, S) of the steps so far.

`regard.tree.reorder` reorders all steps by hypotheses; `BeamSearchDecoder` does so once, at the end.
"""


class AttentionWrapperState(NamedTuple):
    """The state of an AttentionWrapper.

    With several mechanisms, alignments, histories and attention states are tuples, one for each.

    Args:
        cell_state: of the wrapped cell.
        attention: (R, A), an input of the cell in the next step.
        alignments: (R, S) of the last step.
        alignment_history: an `AlignmentHistory`, or () without one.
        attention_state: of the mechanism, usually the alignments.
        time: (R,) long, the number of steps taken; in TensorFlow 1 a scalar before the alignments. None in a state that
            was made without it.
    """

    cell_state: Tree
    attention: Tree
    alignments: Tree
    alignment_history: Tree
    attention_state: Tree
    time: Any = None

    def clone(self, **fields: Any) -> AttentionWrapperState:
        """A state with some fields replaced, usually `cell_state` by an encoder's last state.

        Raises:
            ShapeError: for tensors of other shapes or structures than the replaced ones.
        """
        replaced = {name: with_tuples(value) for name, value in fields.items()}
        if unknown := set(replaced) - set(self._fields):
            raise ShapeError(f"{', '.join(sorted(unknown))}: a state has the fields {', '.join(self._fields)}.")
        for name, value in replaced.items():
            check_order(getattr(self, name), value, name)
            _check_same(getattr(self, name), value, name)
        return self._replace(**replaced)


def _check_same(old: Any, new: Any, name: str) -> None:
    """Refuses a replacement of another structure or of other shapes."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        if old.shape != new.shape:
            raise ShapeError(
                f"The state has a {name} of the shape {tuple(old.shape)}; got {tuple(new.shape)}. With a beam, apply "
                "tile_batch to the new value."
            )
        return
    if isinstance(old, tuple) and type(old) is type(new) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new)):
            _check_same(before, after, f"{name}[{number}]")
        return
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            _check_same(old[key], new[key], f"{name}[{key!r}]")
        return
    if isinstance(old, AlignmentHistory) and isinstance(new, AlignmentHistory):
        return
    if dataclasses.is_dataclass(old) and type(old) is type(new):
        for field in dataclasses.fields(old):
            _check_same(getattr(old, field.name), getattr(new, field.name), f"{name}.{field.name}")
        return
    if name == "time" and (old is None or new is None):
        return
    raise ShapeError(f"The state has a {name} of {_kind(old)}; got {_kind(new)}: give it the same structure.")


def _kind(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (tuple, dict)) else type(value).__name__
