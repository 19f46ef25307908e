"""Warnings about failing trainings, from the metrics of validations, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.training.selection import TIE_BREAKERS
from regard.training.trainee import Milestone

PATIENCE = 5
"""Validations after the first by which an alignment should have started to form."""
FALL = 0.8
"""A loss below this share of the loss at the first validation is falling."""
FOCUS, RISE = 0.5, 0.05
"""An alignment has formed if its focus rate reaches FOCUS, and started to form if the rate has risen by RISE."""
COVERAGE = 0.35
"""Attention is stuck on a few positions if its relative coverage is always lower."""


@dataclass(slots=True)
class Diagnosis:
    """The metrics of validations so far, as plain values, so that a resumed run does not repeat a warning.

    Args:
        validations: the number of validations so far.
        first_loss, first_focus: the teacher-forced loss and the focus rate of the first validation.
        highest_focus, highest_coverage: the highest focus rate and relative coverage so far.
        given: names of the warnings so far.
        is_aligned: whether a milestone of the alignment has been reached.
    """

    validations: int = 0
    first_loss: float | None = None
    first_focus: float | None = None
    highest_focus: float = 0.0
    highest_coverage: float = 0.0
    given: list[str] = field(default_factory=list)
    is_aligned: bool = False

    def observe(
        self,
        metrics: Mapping[str, float],
        *,
        focus: float | None = None,
        step: int = 0,
        alignment: Milestone | None = None,
    ) -> list[str]:
        """The warnings after a validation, if any.

        Args:
            focus: the highest focus rate of a head (`Validation.focus`); that of the metrics if None.
            alignment: replaces the focus rate as the criterion of a formed alignment, if given.
        """
        if alignment is not None:
            return self._observe_milestone(metrics.get(TIE_BREAKERS[0]), step, alignment)
        loss, focus = metrics.get(TIE_BREAKERS[0]), metrics.get("focus_rate") if focus is None else focus
        self.validations += 1
        if loss is None or focus is None:
            return []
        if self.first_loss is None or self.first_focus is None:
            self.first_loss, self.first_focus = loss, focus
        self.highest_focus = max(self.highest_focus, focus)
        self.highest_coverage = max(self.highest_coverage, metrics.get("relative_coverage", 1.0))
        if self.validations <= PATIENCE or loss >= FALL * self.first_loss:
            return []
        if self.highest_focus < min(self.first_focus + RISE, FOCUS):
            return self._once(
                "no alignment",
                f"the loss falls, from {self.first_loss:.3g} to {loss:.3g}, but the alignment does not form: its focus "
                f"rate was {self.first_focus:.2f} at the first validation and is {focus:.2f} after {self.validations} "
                "validations. "
                "The decoder may be learning the outputs without reading the inputs, and will then not generalise. "
                "Look at the pictures; check that inputs and outputs belong together; try another model.attention, a "
                "monotonic one for spelling or speech; raise decoder.dropout or training.scheduled_sampling, so that "
                "the decoder relies less on its last output.",
            )
        if self.highest_coverage < COVERAGE:
            return self._once(
                "stuck",
                f"the loss falls, from {self.first_loss:.3g} to {loss:.3g}, but nearly all weight lies on the same few "
                f"positions: {self.highest_coverage:.0%} of as many as there could be (relative_coverage). "
                "With energies that are large from the start, attention gets almost no gradient. Look at the pictures; "
                "try additive attention (model.attention.recipe=bahdanau) or a lower training.learning_rate.",
            )
        return []

    def _observe_milestone(self, loss: float | None, step: int, alignment: Milestone) -> list[str]:
        self.validations += 1
        self.is_aligned |= alignment.is_reached
        if loss is None:
            return []
        self.first_loss = loss if self.first_loss is None else self.first_loss
        if self.is_aligned or step < alignment.step or loss >= FALL * self.first_loss:
            return []
        return self._once(
            "no alignment",
            f"the loss falls, from {self.first_loss:.3g} to {loss:.3g}, but no alignment has formed by step {step:,}; "
            f"it should have by step {alignment.step:,}: {alignment.state}. {alignment.advice}",
        )

    def end(self, concern: str | None) -> list[str]:
        """The warnings about the final model, from its `Validation.concern`."""
        if concern is None:
            return []
        return self._once(
            "outputs",
            f"{concern} It has not learned the task. Train longer (training.epochs, training.early_stopping), with "
            "more steps (smaller batches) or with another training.learning_rate, and check that inputs "
            "and outputs belong together (regard data check).",
        )

    def _once(self, name: str, text: str) -> list[str]:
        if name in self.given:
            return []
        self.given.append(name)
        return [f"warning: {text}"]
