"""Whether an alignment of speech has formed, and advice if it has not."""

from __future__ import annotations

import math

from regard.metrics.speech import SpeechScores
from regard.tasks.text_to_speech.config import TextToSpeechConfig
from regard.training import Milestone

MOST_ERRORS, LEAST_FOCUS = 20.0, 0.5
"""Without labels an alignment has formed with at most this number of reading errors per 100 units, free-running, and at
least this focus rate, teacher-forced."""
COARSE, FINE = 4, 2
"""r with which alignments form soon, in general and for location-relative recipes."""
CONTENT_BASED = ("bahdanau", "luong", "location_sensitive")
"""Recipes that can attend to any position at any step."""
LOCATION_RELATIVE = ("dynamic_convolution", "gmm")
"""Recipes without comparison with the symbols."""
GUIDED_STEPS = {"dynamic_convolution": 200, "gmm": 200, "bahdanau": 800}
"""Steps of the guided loss for recipes that it would hold at a constant speed: those that compare nothing with the
symbols, and additive attention, which finds positions by counting as long as that is rewarded."""


def milestone(config: TextToSpeechConfig, scores: SpeechScores, step: int) -> Milestone:
    """Whether the alignment has formed, by the scores of a validation.

    With labels it has formed if its centres and its boundaries are nearer to them than those of all baselines; a delay
    counts (`TimingErrors`). The focus rate is not enough: a sharp alignment may read the wrong units.

    Args:
        step: by which the alignment should have formed.
    """
    timing, reading, health = scores.timing, scores.reading, scores.alignment
    assert reading is not None
    assert health is not None
    if timing is not None and scores.baselines:
        others = ", ".join(
            f"{name} {errors.centre_ms:.0f} and {errors.boundary_ms:.0f} ms"
            for name, errors in scores.baselines.items()
        )
        state = (
            f"its centres are {timing.centre_ms:.0f} ms and its boundaries {timing.boundary_ms:.0f} ms from the labels "
            f"(lag {timing.lag_ms:+.0f} ms), not both better than without it ({others})"
        )
        return Milestone(step, bool(scores.is_aligned), state, advice(config))
    errors, focus = reading.per_hundred(), float(health.focus_rate)
    state = f"there are {errors:.0f} reading errors per 100 units, and the focus rate is {focus:.2f}"
    return Milestone(step, errors <= MOST_ERRORS and focus >= LEAST_FOCUS, state, advice(config))


def advice(config: TextToSpeechConfig) -> str:
    """Settings to try that the configuration does not have."""
    decoder, data, training = config.model.decoder, config.data, config.training
    recipe, until = config.model.attention.recipe, training.alignment_losses_until or math.inf
    remedies = []
    if not data.trim_silence:
        remedies.append("cut the silence around sentences (data.trim_silence: true)")
    is_relative = recipe in LOCATION_RELATIVE
    if is_relative and decoder.num_frames > FINE:
        remedies.append(f"finer steps (model.decoder.num_frames: {FINE})")
    elif not is_relative and decoder.num_frames < COARSE:
        remedies.append(
            f"more frames in a step (model.decoder.num_frames: {COARSE}), fewer later (model.decoder.reductions)"
        )
    if not training.alignment_losses.guided_attention:
        remedies.append("the guided loss (training.alignment_losses.guided_attention: 10)")
    elif until > (guided := GUIDED_STEPS.get(recipe, math.inf)):
        remedies.append(
            f"the guided loss at the beginning only (training.alignment_losses_until: {guided}), since it holds "
            f"{recipe} at a constant speed"
        )
    elif until < GUIDED_STEPS.get(recipe, training.align_by or 0):
        remedies.append("the guided loss for longer (training.alignment_losses_until)")
    elif recipe in GUIDED_STEPS:
        remedies.append("more steps (training.epochs)")
    if recipe in CONTENT_BASED:
        remedies.append("attention that moves forward only (model.attention.recipe: forward_attention)")
    if data.units == "characters":
        remedies.append("phones in place of characters (data.units: phones)")
    remedies.append("more or cleaner recordings with exact texts (regard data check)")
    return f"Look at the pictures, and try: {'; '.join(remedies)}."
