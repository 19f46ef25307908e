"""Encoded sources for the tests of decoders: single sentences, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard import tree
from regard.errors import ShapeError
from regard.models import Encoded


@dataclass(frozen=True, slots=True)
class EncodedSource:
    """The output of an encoder for one sentence.

    Args:
        values: (S, M), or a tuple of them for several memories; (S,) ids for language models.
        final_state: a tree of tensors without a batch dimension, or None.
        source_ids: (S,) extended ids for copying, or None.
        extension: (X,) bool, which extended ids the source has, or None.
    """

    values: Any
    final_state: Any = None
    source_ids: Tensor | None = None
    extension: Tensor | None = None


def draw_source(
    length: int | Sequence[int],
    memory_size: int | Sequence[int],
    *,
    seed: int,
    final_sizes: Any = None,
    dtype: torch.dtype = torch.float64,
) -> EncodedSource:
    """A sentence of normal numbers, which depends only on its seed.

    Args:
        length, memory_size: S and M; tuples of them for several memories.
        final_sizes: a tree (tuples) of the sizes of the final state, such as `((4, 4),)` for an LSTM layer; no state if
            None.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(sizes: Any) -> Any:
        if isinstance(sizes, tuple):
            return tuple(draw(size) for size in sizes)
        return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)

    values: Any
    if isinstance(length, int) and isinstance(memory_size, int):
        values = torch.randn(length, memory_size, generator=generator, dtype=torch.float64).to(dtype)
    elif isinstance(length, Sequence) and isinstance(memory_size, Sequence):
        shapes = zip(length, memory_size, strict=True)
        values = tuple(torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    else:
        raise ShapeError(f"length={length} and memory_size={memory_size} must both be numbers or both be tuples.")
    return EncodedSource(values, None if final_sizes is None else draw(final_sizes))


def encode(sources: Sequence[EncodedSource], padding: int = 0) -> Encoded:
    """A batch as an encoder would return it, padded to its longest sentence plus `padding` columns.

    >>> encode([draw_source(2, 3, seed=0), draw_source(4, 3, seed=1)], padding=1).mask.int()
    tensor([[1, 1, 0, 0, 0],
            [1, 1, 1, 1, 0]], dtype=torch.int32)
    """
    several = isinstance(sources[0].values, tuple)
    batches = [_pad(list(rows), padding) for rows in zip(*(s.values if several else (s.values,) for s in sources))]
    ids = [s.source_ids for s in sources if s.source_ids is not None]
    extensions = [s.extension for s in sources if s.extension is not None]
    states = [s.final_state for s in sources]
    return Encoded(
        memory=tuple(values for values, _ in batches) if several else batches[0][0],
        mask=tuple(mask for _, mask in batches) if several else batches[0][1],
        final_state=tree.map(lambda *rows: torch.stack(rows), *states),
        source_ids=_pad(ids, padding)[0] if ids else None,
        extension=_pad(extensions, padding)[0] if extensions else None,
    )


def _pad(rows: list[Tensor], padding: int) -> tuple[Tensor, Tensor]:
    """Rows (B, width, ...) of different lengths, and a mask (B, width)."""
    width = max(len(row) for row in rows) + padding
    padded = [pad(row, (0, 0) * (row.dim() - 1) + (0, width - len(row))) for row in rows]
    return torch.stack(padded), torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
