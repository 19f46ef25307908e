"""Training: `train` trains a `Trainee` in a folder, validates it by decoding, and resumes bit for bit."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand
from regard.training.feedback import (
    feedback_mask,
    scheduled_sampling_mask,
    scheduled_sampling_probability,
    sequence_teacher_forcing_mask,
)
from regard.training.trainee import (
    CountingTrainee,
    DivisibleTrainee,
    Loss,
    Milestone,
    PlacedTrainee,
    Trainee,
    Validation,
)

if TYPE_CHECKING:
    from regard.training.loop import train
    from regard.training.outcome import Outcome, RunState, StopReason, read_state
    from regard.training.report import StepInfo

__getattr__ = on_demand(
    __name__,
    {
        "loop": ["train"],
        "outcome": ["Outcome", "RunState", "StopReason", "read_state"],
        "report": ["StepInfo"],
    },
)

__all__ = [
    "CountingTrainee",
    "DivisibleTrainee",
    "Loss",
    "Milestone",
    "Outcome",
    "PlacedTrainee",
    "RunState",
    "StepInfo",
    "StopReason",
    "Trainee",
    "Validation",
    "feedback_mask",
    "read_state",
    "scheduled_sampling_mask",
    "scheduled_sampling_probability",
    "sequence_teacher_forcing_mask",
    "train",
]
