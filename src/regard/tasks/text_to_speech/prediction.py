"""A text that was read aloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.shapes import Float


@dataclass(frozen=True, eq=False, slots=True)
class Speech:
    """A text that was read aloud, in N = T / r steps.

    Args:
        text: what was read.
        tokens: S units, the end symbol last.
        mel: (T, M), the spectrogram, as the front end has it (not standardised).
        linear: (T, ·), a spectrogram without mel filters, of models that make one; else None.
        alignment: (N, S), the mean of heads; None if it was not asked for.
        stop: (N, r) probabilities of stopping, or (N, 1); None of a model that ends with silence.
        samples: (samples,) in [-1, 1]; None if no sound was asked for.
        sample_rate, hop_length: of the front end.
        num_frames: r.
        stop_reason: `stop` if the model ended the sentence, `length` if it became too long; empty if nothing was said.
        warnings: why the text could not be handled as it is, or was cut; empty for most.
    """

    text: str
    tokens: tuple[str, ...]
    mel: Float[Tensor, "T M"]
    linear: Float[Tensor, "T bins"] | None
    alignment: Float[Tensor, "N S"] | None
    stop: Float[Tensor, "N r"] | None
    samples: Float[Tensor, " samples"] | None
    sample_rate: int
    hop_length: int
    num_frames: int
    stop_reason: Literal["stop", "length", ""] = "stop"
    warnings: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the spectrogram is."""
        return len(self.mel) * self.hop_length / self.sample_rate
