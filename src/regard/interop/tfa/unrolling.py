"""Cells over sequences: `tf.nn.dynamic_rnn` and `tf.nn.bidirectional_dynamic_rnn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.errors import ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import as_cell, with_tuples
from regard.interop.tfa.cells.contract import initial_state as zero_state
from regard.interop.tfa.layers.deferred import Type, tensors
from regard.interop.tfa.structure import carry, checked_lengths, cleared
from regard.shapes import describe


def dynamic_rnn(
    cell: Any,
    inputs: Tree,
    sequence_length: Tensor | Sequence[int] | None = None,
    initial_state: Tree = None,
    dtype: Type = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Tree, Tree]:
    """All steps of a cell over a batch of sequences.

    After the end of a sequence its outputs are zeros, its state is that after its last step, and its inputs are not
    read. An `AlignmentHistory` in the state continues, as a TensorArray there.

    Args:
        cell: an `RNNCell`, an `AttentionWrapper`, or one of torch's cells.
        inputs: (B, T, F), or a tree of such tensors.
        sequence_length: (B,) integers, 0 to T; T if None.
        initial_state: zeros if None.
        dtype: of the first state if it is zeros; that of the inputs if None.
        parallel_iterations, swap_memory, scope: without effect.
        time_major: whether inputs and outputs are (T, B, F).

    Returns:
        outputs (B, T, D), and the state after the last step of each sequence.

    Raises:
        ShapeError: for inputs of different numbers of rows or steps, or lengths that do not fit.

    >>> from regard.interop.tfa import GRUCell
    >>> outputs, state = dynamic_rnn(GRUCell(4), torch.ones(2, 5, 3), sequence_length=[5, 2])
    >>> outputs.shape, bool(outputs[1, 2:].any()), torch.equal(state[1], outputs[1, 1])
    (torch.Size([2, 5, 4]), False, True)
    """
    cell = as_cell(cell)
    inputs = with_tuples(tensors(inputs, cell if isinstance(cell, nn.Module) else None))
    rows, steps, first = _sizes(inputs, time_major)
    if not time_major:
        inputs = tree.map(lambda leaf: leaf.transpose(0, 1), inputs)
    lengths = None if sequence_length is None else checked_lengths(sequence_length, rows, steps, first)
    state = with_tuples(initial_state)
    if state is None:
        made = zero_state(cell, rows, dtype or _kind(first))
        state = tree.map(lambda leaf: leaf.to(first.device), made)
    shortest = steps if lengths is None or rows == 0 else int(lengths.min())
    longest = steps if lengths is None or rows == 0 else int(lengths.max())
    if lengths is not None and shortest < longest:
        over = torch.arange(steps, device=first.device)[:, None] >= lengths
        inputs = tree.map(lambda leaf: cleared(leaf, over) if leaf.is_floating_point() else leaf, inputs)
    outputs = []
    for t in range(longest):
        output, after = cell(tree.map(lambda leaf, t=t: leaf[t], inputs), state)
        if t >= shortest:
            assert lengths is not None
            finished = lengths <= t
            output = tree.map(lambda leaf, finished=finished: cleared(leaf, finished), output)
            after = carry(finished, state, with_tuples(after))
        state = after
        outputs.append(output)
    if not outputs:
        like = first if first.is_floating_point() else first.float()
        nothing = like.new_zeros(rows, cell.output_size)
        return nothing.expand(steps, *nothing.shape).transpose(0, 0 if time_major else 1), state
    axis = 0 if time_major else 1
    stacked = tree.map(lambda *leaves: torch.stack(leaves, axis), outputs[0], *outputs[1:])
    if longest < steps:
        stacked = tree.map(lambda leaf: _lengthened(leaf, axis, steps - longest), stacked)
    return stacked, state


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Tensor,
    sequence_length: Tensor | Sequence[int] | None = None,
    initial_state_fw: Tree = None,
    initial_state_bw: Tree = None,
    dtype: Type = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Tensor, Tensor], tuple[Tree, Tree]]:
    """A cell over each sequence from its first step to its last, and another from its last to its first.

    Args:
        cell_fw, cell_bw: two different cells.
        inputs: (B, T, F).
        sequence_length: (B,) integers; the backward cell starts at the last step of each sequence.
        initial_state_fw, initial_state_bw: zeros if None.
        dtype, parallel_iterations, swap_memory, time_major, scope: as in `dynamic_rnn`.

    Returns:
        the outputs of both, each (B, T, D) in the order of the inputs, and their last states.

    Raises:
        UnsupportedError: for the same cell in both directions, which would share its weights.

    >>> from regard.interop.tfa import GRUCell
    >>> outputs, states = bidirectional_dynamic_rnn(GRUCell(4), GRUCell(4), torch.ones(2, 5, 3), [5, 2])
    >>> torch.equal(outputs[1][:, 0], states[1])
    True
    """
    if cell_fw is cell_bw:
        raise UnsupportedError(
            "cell_fw and cell_bw are the same object, so both directions would share their weights: make two cells."
        )
    forward, state_forward = dynamic_rnn(
        cell_fw, inputs, sequence_length, initial_state_fw, dtype, time_major=time_major
    )
    reversed_inputs = reverse_sequence(inputs, sequence_length, time_major=time_major)
    backward, state_backward = dynamic_rnn(
        cell_bw, reversed_inputs, sequence_length, initial_state_bw, dtype, time_major=time_major
    )
    backward = reverse_sequence(backward, sequence_length, time_major=time_major)
    return (forward, backward), (state_forward, state_backward)


def reverse_sequence(
    inputs: Tree, sequence_length: Tensor | Sequence[int] | None = None, *, time_major: bool = False
) -> Tree:
    """Reverses each sequence; padding after it stays in place.

    Args:
        inputs: (B, T, ...), or a tree of such tensors.
        sequence_length: (B,) integers; T if None.
        time_major: whether inputs are (T, B, ...).

    >>> reverse_sequence(torch.tensor([[1, 2, 3], [4, 5, 6]]), [3, 2])
    tensor([[3, 2, 1],
            [5, 4, 6]])
    """
    axis = 0 if time_major else 1
    inputs = with_tuples(inputs)
    if sequence_length is None:
        return tree.map(lambda leaf: leaf.flip(axis), inputs)
    rows, steps, first = _sizes(inputs, time_major)
    time_first = tree.map(lambda leaf: leaf.transpose(0, 1), inputs) if not time_major else inputs
    lengths = checked_lengths(sequence_length, rows, steps, first)
    position = torch.arange(steps, device=first.device)[:, None].expand(steps, rows)
    source = torch.where(position < lengths, lengths - 1 - position, position)
    row = torch.arange(rows, device=first.device).expand(steps, rows)
    result = tree.map(lambda leaf: leaf[source, row], time_first)
    return result if time_major else tree.map(lambda leaf: leaf.transpose(0, 1), result)


def _sizes(inputs: Tree, time_major: bool) -> tuple[int, int, Tensor]:
    """B, T and the first tensor of inputs."""
    letters = "T B F" if time_major else "B T F"
    leaves = list(tree.leaves(inputs))
    if not leaves or any(leaf.dim() < 2 for leaf in leaves):
        raise ShapeError(
            "inputs must be (B, T, F), or a tree of such tensors.\n"
            + describe({f"inputs[{number}]": (letters, leaf) for number, leaf in enumerate(leaves)})
        )
    first = leaves[0]
    if any(leaf.shape[:2] != first.shape[:2] for leaf in leaves):
        raise ShapeError(
            "The tensors of inputs disagree on T (steps) or B (rows).\n"
            + describe({f"inputs[{number}]": (letters, leaf) for number, leaf in enumerate(leaves)})
        )
    rows, steps = (first.shape[1], first.shape[0]) if time_major else first.shape[:2]
    return rows, steps, first


def _kind(first: Tensor) -> torch.dtype:
    return first.dtype if first.is_floating_point() else torch.get_default_dtype()


def _lengthened(outputs: Tensor, axis: int, count: int) -> Tensor:
    shape = list(outputs.shape)
    shape[axis] = count
    return torch.cat([outputs, outputs.new_zeros(shape)], axis)
