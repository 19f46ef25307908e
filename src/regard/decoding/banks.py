"""Beam search for outputs that must contain phrases: dynamic beam allocation."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from regard.decoding.constraint import NONE, Constraints, Phrases
from regard.decoding.live_beam import widened
from regard.ops import largest
from regard.shapes import Bool, Float, Int


class Banks:
    """Dynamic beam allocation.

    The bank of a hypothesis is the number of phrase tokens that it has: all tokens of a phrase that it contains, and
    for any other phrase the length of its longest prefix that is a suffix of the hypothesis. The candidates for the
    next beam are the most probable continuations of every hypothesis, and for each missing phrase the token that
    continues it. The places of the beam are assigned in rounds over the banks, from the highest to the lowest: each
    bank gets its most probable candidate, then its second, and so on, until the beam is full. So no bank displaces
    another that has candidates, and the hypothesis with the most phrase tokens always has a place.

    Source: Post and Vilar 2018, Fast Lexically Constrained Decoding with Dynamic Beam Allocation, section 4. There the
    beam is divided into equal parts, unused places go to other banks, and phrases do not overlap.
    """

    def __init__(self, constraints: Sequence[Constraints], device: torch.device) -> None:
        self._phrases = Phrases.of([row.include for row in constraints], device)

    def begin(self, sentences: Int[Tensor, " R"]) -> Bool[Tensor, "R P"]:
        """The phrases that empty hypotheses contain: those of length 0."""
        return self._phrases.lengths[sentences] == 0

    def extend(
        self,
        processed: Float[Tensor, "R N"],
        totals: Float[Tensor, "B K"],
        tokens: Int[Tensor, "R t"],
        sentences: Int[Tensor, " R"],
        contained: Bool[Tensor, "R P"],
        *,
        width: int,
        eos: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The next beam.

        Args:
            processed: the log-probabilities of the next token.
            totals: those of the hypotheses, -inf if there is none.
            tokens: the tokens so far.
            sentences: the index of each row's sentence.
            contained: the phrases that each hypothesis contains.
            width: of the next beam.

        Returns:
            Log-probabilities (B, width), descending; tokens; the places of their parents in (B, K); the phrases that
            they contain, (B, width, P).
        """
        self._phrases.require_tokens(processed)
        phrases, count = self._phrases[sentences], len(totals)
        begun = phrases.begun(tokens)
        steps = torch.arange(begun.shape[2], device=tokens.device)
        values, candidates = largest(processed, width, without=eos)
        longest = (begun * steps).amax(-1, keepdim=True)
        further = phrases.tokens.gather(2, longest)[..., 0].masked_fill(contained, NONE).sort(1).values
        fresh = (further != NONE) & ~(further[..., None] == candidates[:, None]).any(-1)
        fresh[:, 1:] &= further[:, 1:] != further[:, :-1]
        further = further.clamp(min=0)
        values = torch.cat([values, processed.gather(1, further).masked_fill(~fresh, -inf)], 1)
        candidates = torch.cat([candidates, further], 1)

        continued = begun[:, None] & (candidates[..., None, None] == phrases.tokens[:, None])  # (R, C, P, L)
        reached = (continued * (steps + 1)).amax(-1)
        lengths = phrases.lengths[:, None]
        contained = contained[:, None] | (reached == lengths)
        bank = torch.where(contained, lengths, reached).sum(-1).view(count, -1)
        summed = (totals.view(-1, 1) + values).masked_fill(totals.view(-1, 1) == -inf, -inf).view(count, -1)
        summed, bank = widened(summed, width, -inf), widened(bank, width, 0)  # for small vocabularies
        chosen = allocate(summed, bank, width)
        new_totals, chosen = summed.gather(1, chosen), chosen.clamp(max=len(totals[0]) * candidates.shape[1] - 1)
        parents = chosen // candidates.shape[1]
        contained = contained.view(count, -1, contained.shape[-1])
        contained = contained.gather(1, chosen[..., None].expand(-1, -1, contained.shape[-1]))
        return new_totals, candidates.view(count, -1).gather(1, chosen), parents, contained


def allocate(totals: Float[Tensor, "B M"], bank: Int[Tensor, "B M"], count: int) -> Int[Tensor, "B C"]:
    """The candidates that get the `count` places of a beam, most probable first; of equal ones the first.

    >>> allocate(torch.tensor([[-1.0, -2.0, -3.0, -9.0]]), torch.tensor([[0, 0, 0, 1]]), 3)
    tensor([[0, 1, 3]])
    """
    order = totals.argsort(dim=1, descending=True, stable=True)
    possible = totals.gather(1, order) > -inf
    ranked = bank.gather(1, order).masked_fill(~possible, -1)
    by_bank = ranked.argsort(dim=1, descending=True, stable=True)
    grouped = ranked.gather(1, by_bank)
    places = torch.arange(totals.shape[1], device=totals.device).expand_as(totals)
    begins = torch.ones_like(possible)
    begins[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    within = places - (places * begins).cummax(1).values
    round_of = torch.empty_like(order).scatter_(1, by_bank, within)
    fullest = ranked.amax(1, keepdim=True)
    turn = round_of * (fullest + 1) + (fullest - ranked)
    turn = turn.masked_fill(~possible, torch.iinfo(turn.dtype).max)
    first = turn.argsort(dim=1, stable=True)[:, :count].sort(dim=1).values
    return order.gather(1, first)
