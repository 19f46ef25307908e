"""All kinds of hostile inputs, and how often the runner draws each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from hostile import checkpoints, commands, configurations, files, pictures, predictions, recordings, resumes, tasks
from hostile.trial import Trial

Draw = Callable[[Random, Path], Trial]

KINDS: dict[str, Draw] = {
    "configurations": configurations.draw,
    "overrides": configurations.preset_draw,
    "data files": files.draw,
    "predictions": predictions.draw,
    "checkpoints": checkpoints.draw,
    "pictures": pictures.draw,
    "resumes": resumes.draw,
    "command lines": commands.draw,
    "tasks": tasks.draw,
    "recordings": recordings.draw,
}
SHARES = {
    "configurations": 18, "overrides": 8, "data files": 15, "predictions": 12, "checkpoints": 12, "pictures": 7,
    "resumes": 4, "command lines": 8, "tasks": 12, "recordings": 4,
}  # fmt: skip
"""Of a hundred inputs."""


def kind_of(number: int) -> str:
    """Which kind the input of a number is."""
    place = (number * 37) % 100  # 37 and 100 have no common factor: every hundred has all shares, mixed
    for kind, share in SHARES.items():
        if place < share:
            return kind
        place -= share
    raise AssertionError(SHARES)


def drawn(number: int, folder: Path, seed: int) -> Trial:
    """The input of a number: the same for the same seed, whatever came before it."""
    return KINDS[kind_of(number)](Random(f"{seed}/{number}"), folder)
