"""Beams as rows of a batch: repeated rows, and hypotheses traced back through their parents."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.interop.tfa.layers.deferred import checked_width, tensors
from regard.interop.tfa.structure import TensorArray, map_structure
from regard.shapes import Float, Int, describe


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeats every row of every tensor of a structure: rows 0, 0, …, 1, 1, …

    Args:
        t: tensors (B, …).
        multiplier: the number of copies, 1 or more.
        name: without effect.

    Returns:
        Tensors (B · multiplier, …).

    Raises:
        ShapeError: for a tensor without rows.
        ConfigError: for another multiplier.

    >>> tile_batch((torch.tensor([1, 2]),), 2)
    (tensor([1, 1, 2, 2]),)
    """
    count = checked_width("multiplier", multiplier)

    def tiled(leaf: Any) -> Any:
        if isinstance(leaf, TensorArray):
            return TensorArray(tuple(map(tiled, leaf.steps)))
        leaf = tensors(leaf)
        if not isinstance(leaf, Tensor):
            leaf = torch.as_tensor(leaf)
        if leaf.dim() < 1:
            raise ShapeError("t must have rows to repeat, (B, …); got a scalar.")
        return leaf.repeat_interleave(count, 0)

    return map_structure(tiled, _with_vectors(t))


def _with_vectors(t: Any) -> Any:
    """A structure with tensors instead of lists of numbers, such as lengths."""
    if isinstance(t, list) and t and all(isinstance(each, (int, float)) for each in t):
        return torch.as_tensor(t)
    if isinstance(t, (list, tuple)):
        parts = [_with_vectors(each) for each in t]
        return type(t)(*parts) if hasattr(t, "_fields") else type(t)(parts)
    return {key: _with_vectors(each) for key, each in t.items()} if isinstance(t, dict) else t


def gather_tree(
    step_ids: Int[Tensor, "T B K"],
    parent_ids: Int[Tensor, "T B K"],
    max_sequence_lengths: Any,
    end_token: int | Tensor,
) -> Int[Tensor, "T B K"]:
    """The tokens of whole hypotheses, from those of all steps.

    Hypotheses are traced back from their places at the last of a sentence's `max_sequence_lengths` steps. After the
    first end token, and after these steps, they have only end tokens.

    Args:
        step_ids: the new token of each hypothesis.
        parent_ids: the place before the step of the hypothesis that it extends.
        max_sequence_lengths: (B,) steps of each sentence; more than T are T.
        end_token: the id of the end.

    Raises:
        ShapeError: for tensors whose sizes do not fit.
        RegardError: for a parent that is no place of the beam.

    >>> gather_tree(torch.tensor([[[2, 3]], [[4, 5]]]), torch.tensor([[[0, 0]], [[1, 0]]]), [2], 9)[:, 0]
    tensor([[3, 2],
            [4, 5]])
    """
    step_ids, parent_ids = torch.as_tensor(step_ids), torch.as_tensor(parent_ids)
    lengths = torch.as_tensor(max_sequence_lengths, device=step_ids.device)
    shown = {"step_ids": ("T B K", step_ids), "parent_ids": ("T B K", parent_ids)}
    if step_ids.dim() != 3 or step_ids.shape != parent_ids.shape or lengths.shape != step_ids.shape[1:2]:
        raise ShapeError(
            "step_ids and parent_ids must be (T, B, K), max_sequence_lengths (B,).\n"
            + describe({**shown, "max_sequence_lengths": ("B", lengths)})
        )
    num_steps, _, width = step_ids.shape
    parents = parent_ids.long()
    reached = torch.arange(num_steps, device=lengths.device)[:, None] < lengths  # (T, B)
    wrong = ((parents < 0) | (parents >= width)) & reached[..., None]
    if bool(wrong.any()):
        step, sentence, place = wrong.nonzero()[0].tolist()
        raise RegardError(
            f"parent_ids[{step}, {sentence}, {place}] is {int(parents[step, sentence, place])}, which is no place of a "
            f"beam of {width}."
        )
    end = int(end_token)
    ids = torch.full_like(step_ids, end)
    here = torch.arange(width, device=parents.device).expand(parents.shape[1:])
    for step in reversed(range(num_steps)):
        real = reached[step][:, None]
        ids[step] = torch.where(real, step_ids[step].gather(1, here), ids[step])
        here = torch.where(real, parents[step].clamp(0, width - 1).gather(1, here), here)
    ended = (ids == end).cummax(0).values if num_steps else ids == end
    return ids.masked_fill(ended, end)


def gather_tree_from_array(
    t: Float[Tensor, "T R *rest"] | TensorArray, parent_ids: Int[Tensor, "T B K"], sequence_length: Tensor
) -> Float[Tensor, "T R *rest"]:
    """The entries of an array over steps and places, in the order of whole hypotheses.

    At steps beyond its length a hypothesis has the entry of its own place. Entries must be those *after* the choice of
    a step; alignments of `AttentionWrapper` are those before it, so this function orders them one choice late.
    `BeamSearchDecoder` orders them by the parents instead.

    Args:
        t: (T, B, K, …) or (T, B K, …), in the order of the beam after the choice of each step.
        parent_ids: as in `gather_tree`.
        sequence_length: (B, K), of the hypotheses at their last places.

    Raises:
        ShapeError: for an array whose rows are not those of the beams.
    """
    array = t.stack() if isinstance(t, TensorArray) else t
    parent_ids, sequence_length = torch.as_tensor(parent_ids), torch.as_tensor(sequence_length)
    num_steps, count, width = parent_ids.shape
    places = torch.arange(width, device=parent_ids.device).expand(num_steps, count, width)
    traced = gather_tree(places, parent_ids, sequence_length.amax(1), width + 1)
    reached = torch.arange(num_steps, device=array.device)[:, None, None] < sequence_length
    return placed(array, torch.where(reached, traced, places))


def placed(array: Tensor, places: Int[Tensor, "T B K"]) -> Tensor:
    """The entries of an array (T, B, K, …) or (T, B K, …) at given places of each step, in the array's shape.

    Raises:
        ShapeError: for another number of rows.
    """
    num_steps, count, width = places.shape
    split = array.shape[:3] == (num_steps, count, width)
    if not split and array.shape[:2] != (num_steps, count * width):
        raise ShapeError(
            f"The array must be (T={num_steps}, B={count}, K={width}, …) or (T, B K, …).\n"
            + describe({"array": ("T B K" if array.dim() > 3 else "T R", array)})
        )
    rows = array.flatten(0, 2) if split else array.flatten(0, 1)
    first = torch.arange(0, num_steps * count * width, width, device=places.device).view(num_steps, count, 1)
    return rows.index_select(0, (places + first).flatten()).view(array.shape)
