"""Random draws that belong to items: those of an item do not depend on the other items of its batch."""

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
"""Steps whose masks are drawn together where steps follow each other."""
HYPOTHESIS = 20
"""From this bit on, the word of a position holds which of its item's rows it is; the bits below are the position."""


def sites(module: nn.Module) -> dict[nn.Module, int]:
    """A number of 32 bits for every submodule, from its name: the same in every process."""
    return {inner: zlib.crc32(name.encode()) for name, inner in module.named_modules()}


def inside(site: int, number: int) -> int:
    """A site within a site, by its number; number 0 is the site itself."""
    return site if number == 0 else zlib.crc32(number.to_bytes(8, "little", signed=True), site)


class ItemDraws:
    """The draws of one training step for a batch of items: a pure function of seed, step, item and site.

    Several calls at one site differ: the first sequence from the second, and the first single step from the second.
    The t-th single step has the mask of position t of a sequence, so it makes no difference whether a model takes all
    steps at once.

    Args:
        sites: as `sites` gives them.
        items: (B,) which item each row of the batch is.
        seed, step: what all draws depend on; the step may be a tensor, of a recording that is made again.
        numbers: (B,) which part of its item each row is, if items have several rows; 0 if None.
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
        # the items and positions of whole sequences, which every layer asks for
        self._places: dict[tuple[int, int, torch.device], tuple[Tensor, Tensor]] = {}
        # calls so far: sequences by site, steps by site and by the number of sequences before them
        self._sequences: dict[int, int] = {}
        self._steps: dict[tuple[int, int], int] = {}
        # the masks of a few steps from one on, drawn together
        self._ahead: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def sequence_mask(
        self,
        like: Float[Tensor, "*rows D"],
        p: float,
        site: int,
        where: tuple[Int[Tensor, " N"], Int[Tensor, " N"]] | None = None,
    ) -> Float[Tensor, "*rows D"]:
        """The mask by which dropout multiplies the next sequence at a site.

        Args:
            like: has the shape, type and device of the mask.
            where: which rows of the batch, and which positions of them; if None, all of (B, T, D).
        """
        _check_recomputation()
        number = self._sequences.get(site, 0)
        self._sequences[site] = number + 1
        if where is None:
            key = (*like.shape[:2], like.device)
            if key not in self._places:
                # all positions of a sequence, a row of the batch after the other, as (B, T) is flattened
                rows, steps = (torch.arange(size, device=like.device) for size in like.shape[:2])
                everywhere = rows.repeat_interleave(len(steps)), steps.repeat(len(rows))
                self._places[key] = self._items_at(*everywhere)
            places = self._places[key]
        else:
            places = self._items_at(*where)
        # the number is negative, since positive ones are of layers within a module
        return self._mask(like, p, inside(site, -number), *places).view_as(like)

    def _items_at(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The items of some rows of the batch, and the positions, with the part of the item in the upper bits."""
        if self.numbers is not None:
            positions = positions + (self.numbers.to(rows.device)[rows] << HYPOTHESIS)
        return self.items.to(rows.device)[rows], positions

    def step_mask(self, like: Float[Tensor, "R D"], p: float, site: int) -> Float[Tensor, "R D"]:
        """The mask by which dropout multiplies the next step at a site, of B · K rows, K of every item."""
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
        """The masks of some steps: those of an item and a position do not depend on when they are drawn."""
        rows, device = len(like), like.device
        # the K rows of an item (its hypotheses) differ in the upper bits of the position; the first is as in a sequence
        rows_per_item = rows // max(len(self.items), 1)
        items = self.items.to(device).repeat_interleave(rows_per_item).repeat(count)
        hypotheses = torch.arange(rows_per_item, device=device).repeat(len(self.items)) << HYPOTHESIS
        positions = torch.arange(start, start + count, device=device)[:, None] + hypotheses
        return self._mask(like, p, site, items, positions.flatten()).view(count, rows, like.shape[1])

    def divided(self, parents: Int[Tensor, " R"], numbers: Int[Tensor, " R"]) -> ItemDraws:
        """The draws for sequences that are parts of items, such as the sentences of documents.

        Args:
            parents: (R,) the row of the batch that each part belongs to.
            numbers: (R,) which of its item's parts it is, from 0.
        """
        items = self.items.to(parents.device)[parents]
        seed, step = self.key
        return ItemDraws(self.sites, items, seed=seed, step=step, numbers=numbers)

    def of(self, items: Int[Tensor, " N"]) -> ItemDraws:
        """The draws for other items than the rows of the batch, such as its distinct words."""
        seed, step = self.key
        return ItemDraws(self.sites, items, seed=seed, step=step)

    def again(self) -> ItemDraws:
        """The same draws from the beginning, for a second pass that gets the masks of the first."""
        seed, step = self.key
        return ItemDraws(self.sites, self.items, seed=seed, step=step, numbers=self.numbers)

    def chance(self, steps: int, p: float | Float[Tensor, ""], site: int) -> Bool[Tensor, "B T"]:
        """True with probability p, for T positions of every item.

        Args:
            p: a tensor in float64, below 1, where recorded steps change it; it draws what the number draws.
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
        """The mask by which dropout multiplies R = B · K rows, K of every item, for example weights of attention.

        It follows from item and position only: a further call with the same position gets the same mask.

        Args:
            positions: of the rows.
            width: D.

        Raises:
            ShapeError: for rows that do not belong to the items.
        """
        items, positions = self._rows(positions)
        return dropout_mask(items, positions, width, p=p, key=self.key, site=site, dtype=dtype)

    def _rows(self, positions: Int[Tensor, " R"]) -> tuple[Tensor, Tensor]:
        """The items of R = B · K rows, and their positions, with the part of the item in the upper bits."""
        batch, device = len(self.items), positions.device
        if len(positions) % max(batch, 1):
            raise ShapeError(f"Draws by item are for R rows, a multiple of B={batch} items; got R={len(positions)}.")
        repeats = len(positions) // max(batch, 1)
        if self.numbers is not None:
            positions = positions + (self.numbers.to(device).repeat_interleave(repeats) << HYPOTHESIS)
        return self.items.to(device).repeat_interleave(repeats), positions

    def uniform(self, positions: Int[Tensor, " R"], width: int, site: int) -> Float[Tensor, "R D"]:
        """Numbers from 0 to below 1, for R = B · K rows, K of every item: for example the draws of hard attention.

        They follow from item and position only: a further call with the same position gets the same numbers.

        Args:
            positions: of the rows.
            width: D, how many numbers a row gets.

        Raises:
            ShapeError: for rows that do not belong to the items.
        """
        # 24 bits, so that float32 has each number and none is rounded to 1
        return (self._words(positions, width, site) >> 8).float() * 2.0**-24

    def _words(self, positions: Int[Tensor, " R"], width: int, site: int) -> Int[Tensor, "R D"]:
        """Random words of 32 bits for R = B · K rows, K of every item."""
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
        """Refuses rows that do not belong to the items.

        Raises:
            ShapeError: for other tensors than (B, T, D) and (B · K, D).
        """
        batch, rows = self.items.shape[0], x.shape[0]
        fits = rows == batch if x.dim() == 3 else x.dim() == 2 and (rows % batch == 0 if batch else not rows)
        if not fits:
            raise ShapeError(
                f"Dropout by item takes (B, T, D), or a step (R, D) with R a multiple of B, for B={batch} items; got "
                f"{tuple(x.shape)}. Use torch.nn.Dropout where rows are no items."
            )

    def _mask(self, like: Tensor, p: float, site: int, items: Tensor, positions: Tensor) -> Tensor:
        return dropout_mask(items, positions, like.shape[-1], p=p, key=self.key, site=site, dtype=like.dtype)


_CURRENT: ContextVar[ItemDraws | None] = ContextVar("regard.layers.items", default=None)


def current() -> ItemDraws | None:
    """The draws in use, or None where masks come from torch's generator."""
    return _CURRENT.get()


@contextmanager
def drawing(draws: ItemDraws | None) -> Iterator[None]:
    """Within the block, in this thread, layers draw by item; with None they draw from torch's generator."""
    token = _CURRENT.set(draws)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _check_recomputation() -> None:
    if torch._C._current_graph_task_id() != -1:
        raise RegardError(
            "Dropout by item cannot be drawn again in a backward pass, as activation checkpointing does: it would "
            "count as another call. Checkpoint parts without dropout only."
        )
