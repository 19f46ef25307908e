"""The least and the greatest length of an output, from the length of its input."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.config.tasks.text_to_text import DecodingConfig


def symbol_limits(decoding: DecodingConfig, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most symbols of each output, without the end symbol, for inputs with these numbers of symbols."""
    if decoding.max_length is not None:
        return np.full_like(lengths, decoding.max_length)
    most = np.maximum((lengths * decoding.max_length_ratio + decoding.max_length_extra).astype(np.int64), 1)
    return most if decoding.max_length_cap is None else np.minimum(most, decoding.max_length_cap)


def least_symbols(decoding: DecodingConfig, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fewest symbols of each output, for inputs with these numbers of symbols."""
    ratio = np.ceil(lengths * decoding.min_length_ratio - 1e-9).astype(np.int64)
    return np.maximum(ratio, decoding.min_length)
