"""Rules by which a free run of a decoder of frames ends: by its logits of stopping, or by silence."""

from __future__ import annotations

import math

from torch import Tensor

from regard.decoding.free_run import Stop
from regard.errors import ConfigError, UnsupportedError
from regard.models.contract import DecoderOutput
from regard.models.tacotron import STOP
from regard.shapes import Bool, Float


def stop_at_logit(threshold: float = 0.5) -> Stop:
    """Ends a row with the step in which the probability of stopping, σ(x), of any of its frames is above a threshold.

    Args:
        threshold: from 0 to 1, both excluded.

    Raises:
        ConfigError: for another threshold.

    >>> import torch
    >>> output = DecoderOutput(values=torch.zeros(2, 1), auxiliary={"stop": torch.tensor([[-1.0, 1.0], [-1.0, -1.0]])})
    >>> stop_at_logit()(output).tolist()
    [True, False]
    """
    if not 0 < threshold < 1:
        raise ConfigError(f"threshold={threshold} is a probability: give a number between 0 and 1.")
    least = math.log(threshold / (1 - threshold))

    def stop(output: DecoderOutput) -> Bool[Tensor, " R"]:
        if STOP not in output.auxiliary:
            raise UnsupportedError(
                "The decoder has no logits of stopping; use stop_at_silence, or attention_stop of free_run."
            )
        return (output.auxiliary[STOP] > least).any(1)

    return stop


def stop_at_silence(level: float | Float[Tensor, " F"]) -> Stop:
    """Ends a row with the step whose values are all below a level: all r frames are silent.

    For spectrograms that are 0 in silence, keithito's for example, whose decoder learns to say silence behind the end.
    A test for exactly 0, as there, never fires on what a network computes.

    Args:
        level: above what silence is, a number, or one for each of the F values of a step; 0.05 for values between 0 and
            1.

    >>> import torch
    >>> stop_at_silence(0.05)(DecoderOutput(values=torch.tensor([[0.01, -0.02], [0.01, 0.3]]))).tolist()
    [True, False]
    """

    def stop(output: DecoderOutput) -> Bool[Tensor, " R"]:
        if output.values is None:
            raise UnsupportedError("The decoder returns log-probabilities, not frames.")
        return (output.values < level).all(1)

    return stop
