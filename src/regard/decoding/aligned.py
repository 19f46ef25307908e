"""A given pair of texts with its alignment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.decoding.result import DECIMALS
from regard.decoding.words import hard_links


@dataclass(frozen=True, slots=True, eq=False)
class AlignedPair:
    """The alignment of a given output with its source, in words or in symbols. Pictures show it like a `Prediction`.

    Args:
        source_tokens: S strings, the columns of the alignment; the last is "</s>" if `end_symbol`.
        tokens: T strings, its rows; likewise.
        text: the output.
        alignment: (T, S) weights.
        rest: (T,), the weight of each row at what has no column: blanks and the end symbol.
        log_probability: of the output and its end symbol, given the source; NaN if the pair could not be read.
        end_symbol: whether the alignment has the end symbol of both sides.
        warnings: what the user should know about this pair.
    """

    source_tokens: list[str]
    tokens: list[str]
    text: str
    alignment: Tensor
    rest: Tensor
    log_probability: float
    end_symbol: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def is_read(self) -> bool:
        """Whether the pair could be read; otherwise it has no words and no links."""
        return not math.isnan(self.log_probability)

    def __repr__(self) -> str:
        parts = [repr(self.text), f"links {pharaoh(self.links())!r}", f"log_probability={self.log_probability:.4f}"]
        parts.append(f"alignment {tuple(self.alignment.shape)}")
        if self.warnings:
            parts.append(f"warnings={list(self.warnings)}")
        return f"AlignedPair({', '.join(parts)})"

    def hard(self, *, threshold: float | None = None) -> Tensor:
        """(T, S) bool without the end symbol, True at the links of `hard_links`.

        With the end symbol in the alignment, a row whose largest weight is there has no link.
        """
        links = hard_links(self.alignment, threshold=threshold)
        return links[:-1, :-1] if self.end_symbol else links

    def links(self, *, threshold: float | None = None) -> list[tuple[int, int]]:
        """The links as numbers of source and output, from 0, in that order.

        Args:
            threshold: as in `hard_links`.
        """
        return pairs_of(self.hard(threshold=threshold))

    def record(self, *, threshold: float | None = None) -> dict[str, Any]:
        """The pair as a JSON object; weights have six decimals."""
        return {
            "text": self.text,
            "source_tokens": list(self.source_tokens),
            "tokens": list(self.tokens),
            "log_probability": self.log_probability,
            "links": pharaoh(self.links(threshold=threshold)),
            "alignment": [[round(weight, DECIMALS) for weight in row] for row in self.alignment.tolist()],
            "rest": [round(weight, DECIMALS) for weight in self.rest.tolist()],
            "warnings": list(self.warnings),
        }


def pairs_of(links: Tensor) -> list[tuple[int, int]]:
    """The links of a matrix (T, S) as numbers of source and output, sorted."""
    return sorted((source, target) for target, source in links.nonzero().tolist())


def pharaoh(links: list[tuple[int, int]]) -> str:
    """Links as `0-0 1-2`: the number of the source's word, then that of the output's."""
    return " ".join(f"{source}-{target}" for source, target in links)
