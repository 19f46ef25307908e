"""The base of attention mechanisms that store their memory: `tfa.seq2seq.AttentionMechanism`."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.errors import ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import with_tuples
from regard.interop.tfa.layers.deferred import Type, tensors, type_of
from regard.shapes import Bool, Float, describe, keep_mask

StateFunction = Callable[[Float[Tensor, "R S"], Tree], Float[Tensor, "R S"]]


class AttentionMechanism(nn.Module):
    """An attention mechanism that stores its memory; the base class of users' own mechanisms.

    A subclass defines `_calculate_attention(query, state)`, which returns alignments (R, S) and the next state. It
    reads the memory from `values` and `keys`, and masks and normalises scores by `probability_fn(score, state)`.

    As in the original, and nowhere else in the package, a call changes a module: `setup_memory` stores the memory on
    the object, so one mechanism cannot be used for two sources at a time. It makes no parameters and may be called for
    every batch; it also replaces the previous mask, in the original only if the new batch has one. The keys are
    computed from the current weights: call it in every training step.

    Args:
        memory: (R, S, ...), or a tree of such tensors; or later, by `setup_memory`.
        probability_fn: from scores (R, S) and the state to alignments.
        query_layer: for the subclass.
        memory_layer: from values to keys, which are equal without it.
        memory_sequence_length: (R,), the number of real positions.
        dtype: of the weights; that of the inputs if None.
        name: without effect.
        score_mask_value: the score of padding, as in TensorFlow 1; the smallest number of its type if None.
    """

    def __init__(
        self,
        memory: Tree = None,
        probability_fn: StateFunction | None = None,
        query_layer: nn.Module | None = None,
        memory_layer: nn.Module | None = None,
        memory_sequence_length: Tensor | Sequence[int] | None = None,
        *,
        dtype: Type = None,
        name: str = "AttentionMechanism",
        score_mask_value: float | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.dtype = type_of(dtype)
        layers = {"query_layer": query_layer, "memory_layer": memory_layer}
        self.layers = nn.ModuleDict({name: layer for name, layer in layers.items() if layer is not None})
        self.default_probability_fn = probability_fn
        self.score_mask_value = score_mask_value
        self._values: Tree = None
        self._keys: Tensor | None = None
        self._mask: Tensor | None = None
        self._set_up(memory, memory_sequence_length)

    def _set_up(self, memory: Tree, memory_sequence_length: Tensor | Sequence[int] | None) -> None:
        """Stores the memory of the constructor, if any."""
        if memory is not None:
            self.setup_memory(memory, memory_sequence_length)
        elif memory_sequence_length is not None:
            warnings.warn(
                "memory_sequence_length without memory has no effect, as in tensorflow-addons: give it to "
                "setup_memory(memory, memory_sequence_length).",
                stacklevel=4,
            )

    @property
    def query_layer(self) -> nn.Module | None:
        """The projection of queries, or None."""
        return dict(self.layers.items()).get("query_layer")

    @property
    def memory_layer(self) -> nn.Module | None:
        """The projection from values to keys, or None."""
        return dict(self.layers.items()).get("memory_layer")

    @property
    def memory_initialized(self) -> bool:
        """Whether there is a memory."""
        return self._values is not None

    @property
    def values(self) -> Tree:
        """(R, S, M), the memory with zeros at padding."""
        self._check_memory()
        return self._values

    @property
    def keys(self) -> Tensor:
        """(R, S, units)."""
        self._check_memory()
        assert self._keys is not None
        return self._keys

    @property
    def batch_size(self) -> int:
        """R, the number of rows of the memory."""
        return int(next(tree.leaves(self.values)).shape[0])

    @property
    def alignments_size(self) -> int:
        """S, the number of positions of the memory."""
        return int(next(tree.leaves(self.values)).shape[1])

    @property
    def state_size(self) -> Any:
        """Of the attention state: S."""
        return self.alignments_size

    @property
    def context_size(self) -> int:
        """M, the width of the values."""
        return int(next(tree.leaves(self.values)).shape[-1])

    def setup_memory(
        self,
        memory: Tree,
        memory_sequence_length: Tensor | Sequence[int] | None = None,
        memory_mask: Bool[Tensor, "R S"] | None = None,
    ) -> None:
        """Stores a memory in place of the previous one.

        Args:
            memory: (R, S, ...) or a tree of such tensors.
            memory_sequence_length: (R,) integers above 0, the numbers of real positions.
            memory_mask: (R, S) bool, True where a position may be attended to; not with lengths.

        Raises:
            ShapeError: for lengths and a mask, lengths of 0, or a memory of fewer than three axes.
        """
        memory = with_tuples(tensors(memory, self))
        _check_tensors(memory)
        for leaf in tree.leaves(memory):
            if leaf.dim() < 3:
                raise ShapeError(
                    "memory must be (R, S, ...), three axes or more.\n" + describe({"memory": ("R S", leaf)})
                )
        first = next(tree.leaves(memory), None)
        if first is None:
            raise ShapeError("memory must be a tensor (R, S, ...), or a tree of them; got none.")
        if memory_sequence_length is not None and memory_mask is not None:
            raise ShapeError("Give memory_sequence_length or memory_mask, not both.")
        if memory_mask is not None:
            memory_mask = torch.as_tensor(memory_mask, device=first.device)
        lengths = None
        if memory_sequence_length is not None:
            lengths = torch.as_tensor(memory_sequence_length, device=first.device)
            if lengths.shape != first.shape[:1]:
                raise ShapeError(
                    "memory_sequence_length must be (R,), one for each row of memory.\n"
                    + describe({"memory": ("R S M", first), "memory_sequence_length": ("R", lengths)})
                    + "\n  With a beam, tile both by tile_batch."
                )
        mask = keep_mask(first, memory_mask, lengths, name="memory")
        if lengths is not None and len(lengths) and int(lengths.min()) < 1:
            row = int(lengths.argmin())
            raise ShapeError(
                f"memory_sequence_length must be above 0; that of row {row} is {int(lengths.min())}. "
                "An empty source cannot be attended to: omit the row."
            )
        self._keep(self._prepare_memory(memory, mask), mask)

    def _prepare_memory(self, memory: Tree, mask: Bool[Tensor, "R S"] | None) -> Tree:
        """The values of a memory; a subclass may join the tensors of a tree here.

        Args:
            mask: True where a position may be attended to; None means everywhere.
        """
        if mask is None:
            return memory
        return tree.map(lambda leaf: leaf.masked_fill(~mask[(..., *[None] * (leaf.dim() - 2))], 0), memory)

    def _keep(self, values: Tree, mask: Tensor | None) -> None:
        """Stores values, keys and mask."""
        self._values, self._mask = values, mask
        self._keys = values if self.memory_layer is None else self.memory_layer(values)

    def probability_fn(self, score: Float[Tensor, "R S"], state: Tree) -> Float[Tensor, "R S"]:
        """Alignments from scores, with the scores of padding replaced by `score_mask_value`."""
        if self.default_probability_fn is None:
            raise UnsupportedError(f"{type(self).__name__} has no probability_fn; give it to the constructor.")
        if self._mask is not None:
            lowest = torch.finfo(score.dtype).min
            score = score.masked_fill(~self._mask, lowest if self.score_mask_value is None else self.score_mask_value)
        return self.default_probability_fn(score, state)

    def forward(
        self, inputs: Any, state: Tree = None, *, mask: Tensor | None = None, setup_memory: bool = False
    ) -> Any:
        """Alignments (R, S) and the next state, or with `setup_memory` the values.

        Args:
            inputs: [query, state], or only the query as in TensorFlow 1; with `setup_memory` the memory or [memory,
                lengths].
            state: the attention state, if it is not in the inputs.
            mask: of the memory, with `setup_memory`.
            setup_memory: whether the inputs are a memory.

        Raises:
            UnsupportedError: without a memory.
        """
        if setup_memory:
            memory, *lengths = inputs if isinstance(inputs, list) else (inputs,)
            self.setup_memory(memory, lengths[0] if lengths else None, mask)
            return self.values
        if mask is not None:
            raise UnsupportedError("mask belongs to the memory: give it with setup_memory=True.")
        self._check_memory()
        if state is None:
            if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
                raise ShapeError("The inputs of a mechanism are [query, state].")
            inputs, state = inputs[:2]
        self.build_for(inputs.shape[-1], inputs)
        return self._calculate_attention(inputs, state)

    def _calculate_attention(self, query: Float[Tensor, "R Q"], state: Tree) -> tuple[Float[Tensor, "R S"], Tree]:
        """Alignments and the next state."""
        raise NotImplementedError(f"{type(self).__name__} must define _calculate_attention(query, state).")

    def attend(self, query: Float[Tensor, "R Q"], state: Tree) -> tuple[Tensor, Float[Tensor, "R S"], Tree]:
        """The context (R, M), the alignments (R, S) and the next state."""
        alignments, after = self([query, state])
        if not isinstance(self.values, Tensor) or self.values.dim() != 3:
            raise UnsupportedError(
                f"{type(self).__name__} has values that are not (R, S, M), of which there is no weighted sum: give "
                "AttentionWrapper an attention_fn."
            )
        return torch.einsum("rs,rsm->rm", alignments, self.values), alignments, after

    def build_for(self, query_size: int, like: Tensor | None = None) -> None:
        """Makes weights that depend on the query's width, if a subclass has them."""

    def initial_alignments(self, batch_size: int, dtype: Type = None) -> Float[Tensor, "R S"]:
        """The alignments before the first step: zeros."""
        return self._first(batch_size, dtype)

    def initial_state(self, batch_size: int, dtype: Type = None) -> Tree:
        """The state before the first step: the initial alignments."""
        return self.initial_alignments(batch_size, dtype)

    def _first(self, batch_size: int, dtype: Type) -> Tensor:
        like = next(tree.leaves(self.values))
        return like.new_zeros(batch_size, self.alignments_size, dtype=type_of(dtype) or like.dtype)

    def _check_memory(self) -> None:
        if not self.memory_initialized:
            raise UnsupportedError(
                f"{type(self).__name__} has no memory yet: call setup_memory(memory, "
                "memory_sequence_length), or give memory to the constructor."
            )

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy or a pickle: everything except the memory."""
        return self.__dict__ | {"_values": None, "_keys": None, "_mask": None}

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, except the memory and the weights."""
        for name in self.layers:
            raise UnsupportedError(f"A configuration cannot contain {name}; make the mechanism by its constructor.")
        dtype = None if self.dtype is None else str(self.dtype).removeprefix("torch.")
        return {"name": self.name, "dtype": dtype, "memory": None, "score_mask_value": self.score_mask_value}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        """A mechanism of the same options, without memory and with new weights.

        Args:
            custom_objects: without effect.
        """
        return cls(**config)


def _check_tensors(memory: Any) -> None:
    """Refuses anything but tensors, such as lengths given as the memory."""
    if memory is None or isinstance(memory, Tensor) or dataclasses.is_dataclass(memory):
        return
    if not isinstance(memory, (tuple, dict)):
        raise ShapeError(
            f"memory must be a tensor (R, S, ...), or a tree of them; got {type(memory).__name__}. The order is units, "
            "memory, memory_sequence_length."
        )
    for part in memory.values() if isinstance(memory, dict) else memory:
        _check_tensors(part)
