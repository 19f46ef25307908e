"""Searches as one would say them: for one sentence, with lists, without stopping early where that changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from decoders import BOS, score
from regard.decoding import Constraints, Search


@dataclass
class Plain:
    """What a search of one sentence is given."""

    decoder: Any
    source: torch.Tensor
    eos: int
    options: Search
    max_length: int
    min_length: int = 0
    unk: int = 1
    constraints: Constraints = field(default_factory=Constraints)

    @property
    def shortest(self) -> int:
        return max(self.min_length, self.options.min_length)

    def model(self, tokens: Sequence[int]) -> tuple[list[float], list[list[float]]]:
        """The model's log-probabilities of the next token, and the attention (mean of heads) of all steps with that."""
        fed = torch.tensor([[BOS, *tokens]])
        output = self.decoder.forward(fed, self.decoder.prepare([self.source]))
        return output.log_probabilities[0, -1].tolist(), output.alignments["main"][0].mean(0).tolist()

    def changed(self, tokens: list[int]) -> list[float]:
        """The log-probabilities after everything that changes them."""
        said, attention = self.model(tokens)
        values, options, position = list(said), self.options, len(tokens)
        size = options.no_repeat_ngram_size
        seen = {tuple(tokens[i : i + size]) for i in range(position - size + 1)} if size else set()
        for token in range(len(values)):
            if size and tuple([*tokens, token][-size:]) in seen:
                values[token] = -math.inf
            if token in tokens:
                values[token] *= options.repetition_penalty
            if token == self.unk and options.unknown_penalty:
                values[token] -= options.unknown_penalty
            if any([*tokens, token][-len(phrase) :] == list(phrase) for phrase in self.constraints.exclude):
                values[token] = -math.inf
        if options.eos_threshold is not None:
            other = max(value for token, value in enumerate(said) if token != self.eos)
            if not said[self.eos] > options.eos_threshold * other:
                values[self.eos] = -math.inf
        steps = options.attention_stop
        if steps is not None and self.may_end(tokens):
            peaks = [row.index(max(row)) for row in attention]
            if len(peaks) >= steps and set(peaks[-steps:]) == {len(self.source) - 1}:
                values = [-math.inf] * len(values)
                values[self.eos] = said[self.eos]
        if position < len(self.constraints.prefix):
            forced = self.constraints.prefix[position]
            values = [-math.inf] * len(values)
            values[forced] = said[forced]
        return values

    def may_end(self, tokens: list[int]) -> bool:
        return len(tokens) >= self.shortest and all(contains(tokens, phrase) for phrase in self.constraints.include)

    def score(self, total: float, tokens: list[int]) -> float:
        options = self.options
        result = score(total, self.length(tokens), options.length_penalty, options.alpha)
        if options.coverage_penalty != "none" and tokens:
            coverage = [sum(column) for column in zip(*self.model(tokens[:-1])[1], strict=True)]
            if options.coverage_penalty in ("gnmt", "tfa"):
                result += options.beta * sum(math.log(min(weight, 1.0)) for weight in coverage)
            else:
                result -= options.beta * (sum(max(weight, 1.0) for weight in coverage) - len(coverage))
        return result

    def length(self, tokens: Sequence[int]) -> int:
        """The length that penalties divide by."""
        return max(len(tokens) + self.options.length_counts_begin, 1)

    def bank(self, tokens: list[int]) -> int:
        """How many tokens of the phrases to include it has."""
        return sum(
            len(phrase)
            if contains(tokens, phrase)
            else max(length for length in range(len(phrase)) if tokens[len(tokens) - length :] == list(phrase[:length]))
            for phrase in {tuple(phrase) for phrase in self.constraints.include}
        )

    def places(self, candidates: list[tuple[list[int], float, int]], width: int) -> list[tuple[list[int], float]]:
        """The next beam, of candidates: tokens, log-probability, and rank among the continuations of the parent."""
        ranked = sorted((c for c in candidates if c[1] > -math.inf), key=lambda c: -c[1])
        if not self.constraints.include:
            return [(tokens, total) for tokens, total, _ in ranked[:width]]
        likely = [c for c in ranked if c[2] < width or self.bank(c[0]) > self.bank(c[0][:-1]) or self.goes_on(c[0])]
        banks: dict[int, list[Any]] = {}
        for c in likely:
            banks.setdefault(self.bank(c[0]), []).append(c)
        taken = []
        for turn in range(len(likely)):
            taken += [banks[bank][turn] for bank in sorted(banks, reverse=True) if turn < len(banks[bank])]
        return [(tokens, total) for tokens, total, _ in ranked if any(tokens == c[0] for c in taken[:width])]

    def goes_on(self, tokens: list[int]) -> bool:
        """Whether the last token continues a phrase that was lacking."""
        *before, last = tokens
        for phrase in self.constraints.include:
            if not contains(before, phrase):
                length = max(n for n in range(len(phrase)) if before[len(before) - n :] == list(phrase[:n]))
                if phrase[length] == last:
                    return True
        return False

    def beam(self) -> list[tuple[list[int], float, str]]:
        """The hypotheses of beam search, best first: tokens, score, stop reason."""
        options = self.options
        groups, width = options.num_groups, options.beam // options.num_groups
        share = math.ceil(options.num_best / groups)
        enough = {
            **dict.fromkeys(("optimal", "top", "full"), math.inf),
            "first": max(1, share),
            "patience": max(share, math.ceil(options.patience * width)),
        }
        beams: list[list[tuple[list[int], float]]] = [[([], 0.0)] for _ in range(groups)]
        finished: list[list[tuple[list[int], float]]] = [[] for _ in range(groups)]
        over = [False] * groups
        for _ in range(self.max_length):
            chosen: list[int] = []
            ended = 0
            following: list[list[tuple[list[int], float]]] = []
            for g in range(groups):
                ends, candidates = [], []
                for tokens, total in beams[g]:
                    values = self.changed(tokens)
                    if self.may_end(tokens):
                        ends.append(([*tokens, self.eos], total + values[self.eos]))
                    values = [v - options.diversity * chosen.count(t) for t, v in enumerate(values)]
                    order = sorted((t for t in range(len(values)) if t != self.eos), key=lambda t: -values[t])
                    candidates += [([*tokens, t], total + values[t], order.index(t)) for t in sorted(order)]
                following.append(self.places(candidates, width))
                ends = [(tokens, total - options.diversity * ended) for tokens, total in ends if total > -math.inf]
                lowest = following[g][-1][1] if len(following[g]) == width else -math.inf
                ended += sum(total > lowest for _, total in ends)
                if options.stop in ("top", "full"):
                    best = sorted([end[1] for end in ends] + [c[1] for c in following[g]], reverse=True)[:width]
                    ends = [end for end in ends if end[1] in best]
                    if options.stop == "top":
                        over[g] = bool(ends) and max(end[1] for end in ends) == best[0]
                        over[g] &= len(ends) + len(finished[g]) >= share
                        following[g] = [c for c in following[g] if c[1] in best]
                elif options.stop != "optimal":
                    ends = sorted((end for end in ends if end[1] > lowest), key=lambda end: -end[1])
                    ends = ends[: enough[options.stop] - len(finished[g])]
                finished[g] += [(tokens, self.score(total, tokens)) for tokens, total in ends]
                chosen += [tokens[-1] for tokens, _ in following[g]]
                if options.stop == "full" and following[g] and len(finished[g]) >= (kept := max(share, width)):
                    worst = sorted((s for _, s in finished[g]), reverse=True)[kept - 1]
                    over[g] = self.score(following[g][0][1], following[g][0][0]) <= worst
            if all(not f and not done for f, done in zip(following, finished, strict=True)):
                break
            beams = following
            if all(
                len(done) >= enough[options.stop] or not f or o
                for f, done, o in zip(following, finished, over, strict=True)
            ):
                break
        results = []
        for g in range(groups):
            ended = [(t, s, "eos") for t, s in sorted(finished[g], key=lambda end: -end[1])]
            cut = [(tokens, self.score(total, tokens), "length") for tokens, total in beams[g]]
            results += (ended + sorted(cut, key=lambda end: -end[1]))[:share]
        if groups == 1:
            return results
        results.sort(key=lambda found: (found[2] != "eos", -found[1]))
        return [r for i, r in enumerate(results) if r[0] not in [o[0] for o in results[:i]]][: options.num_best]

    def kept(self) -> list[tuple[list[int], float, str]]:
        """The hypotheses of a beam in which finished ones keep their places, best first."""
        options, eos = self.options, self.eos
        beam: list[tuple[list[int], float, float]] = [([], 0.0, 0.0)]
        for _ in range(self.max_length):
            candidates = []
            for tokens, total, _ in beam:
                if tokens[-1:] == [eos]:
                    candidates.append((tokens, total, self.kept_score(total, tokens, tokens, True)))
                    continue
                for token, value in enumerate(self.changed(tokens)):
                    longer = [*tokens, token]
                    if total + value > -math.inf and (token != eos or self.may_end(tokens)):
                        counted = tokens if token == eos else longer
                        candidates.append(
                            (longer, total + value, self.kept_score(total + value, counted, longer, False))
                        )
            if not candidates:
                break
            beam = sorted(candidates, key=lambda candidate: -candidate[2])[: options.beam]
            if all(tokens[-1] == eos for tokens, _, _ in beam):
                break
        return [(t, s, "eos" if t[-1:] == [eos] else "length") for t, _, s in beam][: options.num_best]

    def kept_score(self, total: float, counted: list[int], tokens: list[int], had_ended: bool) -> float:
        """The score of a candidate: `counted` has the tokens that its length penalty counts."""
        kind = self.options.length_penalty
        length = len(counted) + self.options.length_counts_begin
        result = score(total, max(length, kind in ("average", "power")), kind, self.options.alpha)
        if self.options.coverage_penalty == "none" or (self.options.coverage_penalty == "tfa" and not had_ended):
            return result
        return result + self.score(0.0, tokens)

    def greedy(self) -> list[tuple[list[int], float, str]]:
        """The hypothesis of greedy search."""
        tokens: list[int] = []
        total, stop = 0.0, "length"
        while len(tokens) < self.max_length and stop == "length":
            values = self.changed(tokens)
            if not self.may_end(tokens):
                values[self.eos] = -math.inf
            token = values.index(max(values))
            if values[token] == -math.inf:
                break
            tokens, total = [*tokens, token], total + values[token]
            stop = "eos" if token == self.eos else "length"
        return [(tokens, self.score(total, tokens), stop)]


def contains(tokens: Sequence[int], phrase: Sequence[int]) -> bool:
    size = len(phrase)
    return any(list(tokens[i : i + size]) == list(phrase) for i in range(len(tokens) - size + 1))
