"""From what a head returns to a decoder's output."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.layers import QuantileHead, TokenHead, ValueHead
from regard.models.contract import DecoderOutput

HeadOutput = Tensor | tuple[Tensor, Mapping[str, Tensor]]
"""Log-probabilities or values, or values and further outputs by name."""


def output_of(outputs: HeadOutput, alignments: Mapping[str, Tensor], *, continuous: bool) -> DecoderOutput:
    """What a decoder says, from what its head returned.

    Args:
        outputs: log-probabilities; with `continuous` values, or a pair of values and further outputs by name, which
            become `auxiliary`.
        alignments: by name.
    """
    if not continuous:
        assert isinstance(outputs, Tensor)
        return DecoderOutput(log_probabilities=outputs, alignments=alignments)
    values, auxiliary = outputs if isinstance(outputs, tuple) else (outputs, {})
    return DecoderOutput(values=values, alignments=alignments, auxiliary=auxiliary)


def require_head(head: nn.Module, *, continuous: bool) -> None:
    """Refuses a head of tokens in a continuous decoder, and a head of values in another.

    Raises:
        UnsupportedError: with what to give instead.
    """
    if continuous and isinstance(head, TokenHead):
        raise UnsupportedError("continuous=True: the outputs are values, but a TokenHead gives log-probabilities.")
    if not continuous and isinstance(head, ValueHead | QuantileHead):
        raise UnsupportedError(f"A {type(head).__name__} gives values: the decoder needs continuous=True.")
