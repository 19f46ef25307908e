"""The likelihood of a text, per token, character and word."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.data.text.running_text import TextSpan
from regard.errors import RegardError


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The negative log-likelihood of a text in nats, and its numbers of tokens, characters and words.

    Predictions are from the true previous tokens (teacher forcing), as is usual for language models. Figures per
    character and per word are comparable between models of different units, unless tokens are unknown: the likelihood
    of `<unk>` is not that of its word.

    >>> figures = Likelihood(nats=math.log(2) * 12, num_tokens=4, num_characters=12, num_words=2)
    >>> round(figures.perplexity, 6), round(figures.bits_per_character, 6), round(figures.perplexity_per_word, 6)
    (8.0, 1.0, 64.0)
    """

    nats: float
    num_tokens: int
    num_characters: int
    num_words: int

    @classmethod
    def of(cls, nats: float, num_tokens: int, part: TextSpan) -> Likelihood:
        """The likelihood of a part of a running text.

        Raises:
            RegardError: if the numbers of tokens differ.
        """
        if num_tokens != part.num_tokens:
            raise RegardError(f"{num_tokens:,} tokens were scored, but this part of the text has {part.num_tokens:,}.")
        return cls(nats, num_tokens, part.num_characters, part.num_words)

    @property
    def nats_per_token(self) -> float:
        """The cross-entropy."""
        return self.nats / self.num_tokens

    @property
    def perplexity(self) -> float:
        """exp of the nats per token."""
        return _exp(self.nats_per_token)

    @property
    def bits_per_character(self) -> float:
        """Bits per character of the original text, with line ends."""
        return self.nats / math.log(2) / self.num_characters

    @property
    def perplexity_per_word(self) -> float:
        """exp of the nats per word, with words between white space; infinite without words."""
        return _exp(self.nats / self.num_words) if self.num_words else math.inf

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.4g} per token ({self.nats_per_token:.4f} nats), "
            f"{self.bits_per_character:.4f} bits per character, perplexity {self.perplexity_per_word:.4g} per word"
        )


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf
