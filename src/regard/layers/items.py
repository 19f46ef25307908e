"""Random draws by item, which do not depend on the other items of the batch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError, ShapeError
from regard.ops.dropout import LOW, dropout_mask, philox
from regard.shapes import Bool, Float, Int

AHEAD = 16
"""The most consecutive steps whose masks are drawn together."""
HYPOTHESIS = 20
"""The bit from which on a word holds the number of a row within its item; the bits below hold the position."""


def sites(module: nn.Module) -> dict[nn.Module, int]:
    """A number of 32 bits for every submodule: a hash of its name, the same in every process."""
    return {inner: zlib.crc32(name.encode()) for name, inner in module.named_modules()}


def inside(site: int, number: int) -> int:
    """The hash of a numbered site within a site; number 0 is the site itself."""
    return site if number == 0 else zlib.crc32(number.to_bytes(8, "little", signed=True), site)


class ItemDraws:
    """The draws of one training step for a batch of items: a pure function of seed, step, item and site.

    Successive calls at one site have different draws: sequences, and single steps. The t-th single step has the mask of
    position t of a sequence, so a model may take all steps at once or one after the other.

    Args:
        sites: the result of `sites`.
        items: (B,) the item of each row of the batch.
        seed, step: of all draws; the step is a tensor in a recording that is replayed.
        numbers: (B,) the number of each row within its item, if items have several rows; 0 if None.
    """

    def __init__(
        self,
        sites: Mapping[nn.Module, int],
        items: Int[Tensor, " B"],
        *,
        seed: int,
        step: int | Tensor,
        numbers: Int[Tensor, " B"] | None = None,
    ) -> None:
        self.sites = sites
        self.items = items
        self.numbers = numbers
        self.key = seed, step
        # the items and positions of whole sequences, which all layers share
        self._places: dict[tuple[int, int, torch.device], tuple[Tensor, Tensor]] = {}
        # the numbers of calls: sequences by site, steps by site and by the number of sequences before them
        self._sequences: dict[int, int] = {}
        self._steps: dict[tuple[int, int], int] = {}
        # the masks of consecutive steps, drawn together, with the first step
        self._ahead: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def sequence_mask(
        self,
        like: Float[Tensor, "*rows D"],
        p: float,
        site: int,
        where: tuple[Int[Tensor, " N"], Int[Tensor, " N"]] | None = None,
    ) -> Float[Tensor, "*rows D"]:
        """The factors of dropout for the next sequence at a site.

        Args:
            like: shape, type and device of the mask.
            where: rows of the batch and positions in them; if None, all of (B, T, D).
        """
        _check_recomputation()
        number = self._sequences.get(site, 0)
        self._sequences[site] = number + 1
        if where is None:
            key = (*like.shape[:2], like.device)
            if key not in self._places:
                # all positions in the order of a flattened (B, T)
                rows, steps = (torch.arange(size, device=like.device) for size in like.shape[:2])
                everywhere = rows.repeat_interleave(len(steps)), steps.repeat(len(rows))
                self._places[key] = self._items_at(*everywhere)
            places = self._places[key]
        else:
            places = self._items_at(*where)
        # the number is negative, since positive ones are of layers within a module
        return self._mask(like, p, inside(site, -number), *places).view_as(like)

    def _items_at(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The items of rows of the batch, and their positions, with the number within the item in the upper bits."""
        if self.numbers is not None:
            positions = positions + (self.numbers.to(rows.device)[rows] << HYPOTHESIS)
        return self.items.to(rows.device)[rows], positions

    def step_mask(self, like: Float[Tensor, "R D"], p: float, site: int) -> Float[Tensor, "R D"]:
        """The factors of dropout for the next step at a site, of B · K rows, K for each item."""
        _check_recomputation()
        number = self._sequences.get(site, 0)
        t = self._steps.get((site, number), 0)
        self._steps[site, number] = t + 1
        rows, width = like.shape
        key = site, number, p, rows, width, like.dtype, like.device
        first, masks = self._ahead.get(key, (t, None))
        if masks is None or not first <= t < first + len(masks):
            count = 1 if masks is None or t != first + len(masks) else min(2 * len(masks), AHEAD)
            first, masks = t, self._step_masks(like, p, inside(site, -number), t, count).unbind(0)
            self._ahead[key] = first, masks
        return masks[t - first]

    def _step_masks(self, like: Tensor, p: float, site: int, start: int, count: int) -> Float[Tensor, "n R D"]:
        """The masks of `count` steps from `start` on."""
        rows, device = len(like), like.device
        # the K rows of an item (its hypotheses) differ in the upper bits of the position; the first is as in a sequence
        rows_per_item = rows // max(len(self.items), 1)
        items = self.items.to(device).repeat_interleave(rows_per_item).repeat(count)
        hypotheses = torch.arange(rows_per_item, device=device).repeat(len(self.items)) << HYPOTHESIS
        positions = torch.arange(start, start + count, device=device)[:, None] + hypotheses
        return self._mask(like, p, site, items, positions.flatten()).view(count, rows, like.shape[1])

    def of(self, items: Int[Tensor, " N"], numbers: Int[Tensor, " N"] | None = None) -> ItemDraws:
        """The draws of the same step for other items than the rows of the batch, such as its distinct words."""
        seed, step = self.key
        return ItemDraws(self.sites, items, seed=seed, step=step, numbers=numbers)

    def divided(self, parents: Int[Tensor, " R"], numbers: Int[Tensor, " R"]) -> ItemDraws:
        """The draws for sequences that are parts of items, such as the sentences of documents.

        Args:
            parents: (R,) the row of the batch that each part belongs to.
            numbers: (R,) the number of the part within its item, from 0.
        """
        return self.of(self.items.to(parents.device)[parents], numbers)

    def again(self) -> ItemDraws:
        """The same draws from the beginning, for a second pass with the masks of the first."""
        return self.of(self.items, self.numbers)

    def chance(self, steps: int, p: float | Float[Tensor, ""], site: int) -> Bool[Tensor, "B T"]:
        """True with probability p, for T positions of each item.

        Args:
            p: a number, or the same in a float64 tensor below 1, which recorded steps can change.
        """
        device = self.items.device
        if not isinstance(p, Tensor) and p >= 1:
            return torch.ones(len(self.items), steps, dtype=torch.bool, device=device)
        positions = torch.arange(steps, device=device).repeat(len(self.items))
        if not isinstance(p, Tensor):
            return self.mask_at(positions, 1, p, site, torch.float32).view(-1, steps) == 0
        limit = (p * 2.0**32).round().clamp(max=LOW).long()
        return (self._words(positions, 1, site) < limit).view(-1, steps)

    def mask_at(
        self, positions: Int[Tensor, " R"], width: int, p: float, site: int, dtype: torch.dtype
    ) -> Float[Tensor, "R D"]:
        """The factors of dropout for R = B · K rows, K for each item, such as weights of attention.

        They depend on item and position only: a further call with the same position has the same mask.

        Raises:
            ShapeError: if R is not a multiple of B.
        """
        items, positions = self._rows(positions)
        return dropout_mask(items, positions, width, p=p, key=self.key, site=site, dtype=dtype)

    def _rows(self, positions: Int[Tensor, " R"]) -> tuple[Tensor, Tensor]:
        """The items and positions of R = B · K rows, as in `_items_at`."""
        batch, device = len(self.items), positions.device
        if len(positions) % max(batch, 1):
            raise ShapeError(f"Draws by item are for R rows, a multiple of B={batch} items; got R={len(positions)}.")
        repeats = len(positions) // max(batch, 1)
        if self.numbers is not None:
            positions = positions + (self.numbers.to(device).repeat_interleave(repeats) << HYPOTHESIS)
        return self.items.to(device).repeat_interleave(repeats), positions

    def uniform(self, positions: Int[Tensor, " R"], width: int, site: int) -> Float[Tensor, "R D"]:
        """D numbers from 0 to below 1 for R = B · K rows, K for each item, such as the draws of hard attention.

        They depend on item and position only: a further call with the same position has the same numbers.

        Raises:
            ShapeError: if R is not a multiple of B.
        """
        # 24 bits are exact in float32, and none is rounded to 1
        return (self._words(positions, width, site) >> 8).float() * 2.0**-24

    def _words(self, positions: Int[Tensor, " R"], width: int, site: int) -> Int[Tensor, "R D"]:
        """Random words of 32 bits for R = B · K rows, K for each item."""
        items, positions = self._rows(positions)
        device = positions.device
        shape = len(positions), width
        counter = (
            torch.arange(width, device=device).expand(shape),
            (positions.long() & LOW)[:, None].expand(shape),
            (items.long() & LOW)[:, None].expand(shape),
            torch.full(shape, site & LOW, device=device),
        )
        first, *_ = philox(counter, (self.key[0] & LOW, self.key[1] & LOW))
        return first

    def check(self, x: Tensor) -> None:
        """Checks that x is (B, T, D) or (B · K, D).

        Raises:
            ShapeError: otherwise.
        """
        batch, rows = self.items.shape[0], x.shape[0]
        fits = rows == batch if x.dim() == 3 else x.dim() == 2 and (rows % batch == 0 if batch else not rows)
        if not fits:
            raise ShapeError(
                f"Dropout by item takes (B, T, D), or a step (R, D) with R a multiple of B, for B={batch} items; got "
                f"{tuple(x.shape)}. Use torch.nn.Dropout if rows are not items."
            )

    def _mask(self, like: Tensor, p: float, site: int, items: Tensor, positions: Tensor) -> Tensor:
        return dropout_mask(items, positions, like.shape[-1], p=p, key=self.key, site=site, dtype=like.dtype)


_CURRENT: ContextVar[ItemDraws | None] = ContextVar("regard.layers.items", default=None)


def current() -> ItemDraws | None:
    """The draws in use, or None if masks come from torch's generator."""
    return _CURRENT.get()


@contextmanager
def drawing(draws: ItemDraws | None) -> Iterator[None]:
    """A context in which layers of this thread draw by item; with None they draw from torch's generator."""
    token = _CURRENT.set(draws)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _check_recomputation() -> None:
    if torch._C._current_graph_task_id() != -1:
        raise RegardError(
            "Dropout by item cannot be drawn again in a backward pass, as activation checkpointing does: it would "
            "count as another call. Checkpoint only parts without dropout."
        )
