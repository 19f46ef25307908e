"""Constraints on the outputs of single sentences: a prefix, and phrases to include and to exclude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from regard.decoding.processor import SearchState
from regard.errors import ConfigError, RegardError
from regard.shapes import Bool, Float, Int

NONE = -1
"""Padding after the end of a phrase; it is no token."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints on the output of a sentence. A phrase is one or more consecutive tokens.

    Args:
        prefix: the first tokens of the output.
        include: phrases that a finished output contains; they may overlap.
        exclude: phrases that no output contains, except within the prefix.

    Raises:
        ConfigError: for an empty phrase, or tokens that are no ids.
    """

    prefix: Sequence[int] = ()
    include: Sequence[Sequence[int]] = ()
    exclude: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            if any(len(phrase) == 0 for phrase in getattr(self, name)):
                raise ConfigError(f"Constraints: {name} has an empty phrase; a phrase is one or more tokens.")
        for phrase in (self.prefix, *self.include, *self.exclude):
            if wrong := [token for token in phrase if not isinstance(token, int) or token < 0]:
                raise ConfigError(f"Constraints: {wrong[0]!r} is not the id of a token; give whole numbers from 0.")


@dataclass(frozen=True, slots=True)
class Phrases:
    """P phrases of at most L tokens for each row.

    Args:
        tokens: (B, P, L), `NONE` beyond the end of a phrase.
        lengths: (B, P), 0 where a row has fewer phrases.
        largest: the largest of all tokens.
    """

    tokens: Tensor
    lengths: Tensor
    largest: int = NONE

    @classmethod
    def of(cls, phrases: Sequence[Sequence[Sequence[int]]], device: torch.device) -> Phrases:
        """The phrases of every sentence; repeated ones count once."""
        distinct = [list(dict.fromkeys(map(tuple, row))) for row in phrases]
        most = max(map(len, distinct), default=0)
        longest = max((len(phrase) for row in distinct for phrase in row), default=0)
        tokens = torch.full((len(distinct), most, longest), NONE)
        lengths = torch.zeros(len(distinct), most, dtype=torch.long)
        for b, row in enumerate(distinct):
            for p, phrase in enumerate(row):
                tokens[b, p, : len(phrase)] = torch.tensor(phrase)
                lengths[b, p] = len(phrase)
        return cls(tokens.to(device), lengths.to(device), int(tokens.max()) if tokens.numel() else NONE)

    def __getitem__(self, rows: Tensor) -> Phrases:
        return Phrases(self.tokens[rows], self.lengths[rows], self.largest)

    def require_tokens(self, log_probabilities: Float[Tensor, "R N"]) -> None:
        """Raises an error for an id outside the vocabulary."""
        if self.largest >= log_probabilities.shape[1]:
            raise RegardError(
                f"Constraints: {self.largest} is not a token: the decoder has N={log_probabilities.shape[1]} tokens."
            )

    def begun(self, tokens: Int[Tensor, "R t"]) -> Bool[Tensor, "R P L"]:
        """Whether the last l tokens of each row are the first l of a phrase, for l from 0 to L - 1."""
        result = torch.ones(self.tokens.shape, dtype=torch.bool, device=tokens.device)
        for length in range(1, self.tokens.shape[2]):
            if length > tokens.shape[1]:
                result[..., length] = False
            else:
                result[..., length] = (tokens[:, None, -length:] == self.tokens[..., :length]).all(-1)
        return result


class ForcedPrefix:
    """Forces the first tokens of each sentence, which keep the model's log-probabilities.

    Args:
        prefixes: for each sentence its first tokens; may be empty.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], device: torch.device) -> None:
        self._phrases = Phrases.of([[prefix] for prefix in prefixes], device)

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        position = state.step - 1
        if position >= self._phrases.tokens.shape[2]:
            return log_probabilities
        self._phrases.require_tokens(log_probabilities)
        tokens = self._phrases.tokens[state.sentences, 0, position]
        forced = tokens != NONE
        result = log_probabilities.masked_fill(forced[:, None], -inf)
        rows = forced.nonzero()[:, 0]
        result[rows, tokens[rows]] = state.log_probabilities[rows, tokens[rows]]
        return result


class ExcludedPhrases:
    """Forbids the last token of a phrase where the tokens before it have been chosen.

    Args:
        phrases: for each sentence the phrases that its outputs do not contain.
    """

    def __init__(self, phrases: Sequence[Sequence[Sequence[int]]], device: torch.device) -> None:
        self._phrases = Phrases.of(phrases, device)

    def __call__(self, log_probabilities: Tensor, state: SearchState, /) -> Tensor:
        self._phrases.require_tokens(log_probabilities)
        phrases = self._phrases[state.sentences]
        last = (phrases.lengths - 1).clamp(min=0)[..., None]
        complete = phrases.begun(state.tokens).gather(2, last)[..., 0] & (phrases.lengths > 0)
        row, phrase = complete.nonzero(as_tuple=True)
        result = log_probabilities.clone()
        result[row, phrases.tokens.gather(2, last)[row, phrase, 0]] = -inf
        return result


def checked(
    constraints: Sequence[Constraints | None] | None, count: int, *, eos: int, limits: Tensor, no_include: str = ""
) -> list[Constraints] | None:
    """The constraints of every sentence, or None if there are none.

    Args:
        limits: (B,), the largest numbers of tokens.
        no_include: what `include` needs and the search lacks; empty if it lacks nothing.

    Raises:
        ConfigError: for another number of sentences, an end of sentence in a phrase, or too many tokens.
    """
    if constraints is None:
        return None
    if len(constraints) != count:
        raise ConfigError(f"constraints: give one for each sentence, B={count}; got {len(constraints)}.")
    rows = [each if each is not None else Constraints() for each in constraints]
    for sentence, (row, limit) in enumerate(zip(rows, limits.tolist(), strict=True)):
        for name, phrases in (("prefix", [row.prefix]), ("include", row.include), ("exclude", row.exclude)):
            if any(eos in phrase for phrase in phrases):
                raise ConfigError(
                    f"{name} of sentence {sentence} has the end of sentence, {eos}, which ends an output."
                )
            longest = max(map(len, phrases), default=0)
            if name != "exclude" and longest >= limit:
                raise ConfigError(
                    f"{name} of sentence {sentence} has {longest} tokens, which leaves no room for an end within "
                    f"max_length={limit}."
                )
        if no_include and row.include:
            raise ConfigError(f"include of sentence {sentence} needs {no_include}.")
    return rows
