"""Checkpoints that a run resumes from.

`checkpoints/` in a run folder:

    latest                          the name of the newest checkpoint, one line of text
    best                            the name of the best validated weights, one line of text
    config.yaml                     the configuration that the run began with (`regard.tasks`)
    step-00001200/                  the last two; after the end of the run the last one
      model.safetensors             the weights
      trainer_state.pt              everything else: tensors and plain containers, read with weights_only=True
      progress.json                 step and epoch, for people and programs; checksums of the two other files
    weights/step-00001000.safetensors   validated weights: the best, and until the end of the run those to be averaged
    weights/mean.safetensors        their mean, if it is the final model
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import weights
from regard.errors import OVERWRITE_OPTION, DataError, newer_format
from regard.files import checksum, create_folder, remove_folder, replace_text

NUM_KEPT = 2
VERSION = 2
WEIGHTS, STATE, PROGRESS = "model.safetensors", "trainer_state.pt", "progress.json"


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "checkpoints"
        self._latest = self._folder / "latest"

    @property
    def latest(self) -> int | None:
        """The step of the checkpoint in `latest`, else of the newest one; None if there is none."""
        steps = self._steps()
        name = _text(self._latest)
        return next((step for step in steps if step_name(step) == name), steps[-1] if steps else None)

    def sound(self, warn: Callable[[str], object]) -> int | None:
        """The step of the newest undamaged checkpoint, `latest` or an older one; None if there is no checkpoint.

        An older checkpoint becomes the latest, and the run repeats the steps after it.

        Args:
            warn: called with a text for each damaged checkpoint.
        """
        latest = self.latest
        if latest is None:
            return None
        steps = [step for step in self._steps() if step <= latest]
        for step in reversed(steps):
            if (damage := self._damage(step)) is None:
                if step_name(step) != _text(self._latest):
                    replace_text(self._latest, f"{step_name(step)}\n")
                return step
            older = [other for other in steps if other < step]
            remedy = f"The run resumes from step {older[-1]:,} and repeats the steps after it." if older else ""
            warn(f"{damage}\n  {remedy}".rstrip())
        raise DataError(
            f"{self._folder}: every checkpoint is damaged: {self._damage(steps[-1])}\n"
            f"  Restore the files to continue the run, or start again with {OVERWRITE_OPTION}. The model in the run "
            "folder is not affected."
        )

    def progress(self, step: int) -> dict[str, Any]:
        """Step, epoch, needed weights and checksums of a checkpoint, without reading its other files."""
        path = self._checkpoint(step) / PROGRESS
        try:
            progress = json.loads(path.read_text(encoding="utf-8"))
            if not {"step", "epoch", "weights"} <= set(progress):
                raise ValueError("step, epoch or weights is missing")
            numbers = [progress["step"], progress["epoch"], *progress["weights"]]
            if not all(isinstance(number, int) and number >= 0 for number in numbers):
                raise ValueError("step, epoch and weights must be whole numbers of at least 0")
            if not isinstance(progress.get("sha256", {}), dict):
                raise ValueError("sha256 must have a checksum for each file")
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: not the progress of a checkpoint ({error}).") from None
        return dict(progress)

    def save(self, module: nn.Module, state: dict[str, Any], *, step: int, epoch: int, needed: Collection[int]) -> None:
        """Writes a checkpoint, unless the latest is of the same step, and removes old ones.

        Args:
            state: tensors and plain containers.
            needed: steps whose validated weights are needed after resuming here.
        """
        if step != self.latest:
            copies = weights.snapshot(module)

            def write(folder: Path) -> None:
                weights.write(copies, folder / WEIGHTS)
                stream = io.BytesIO()  # torch.save names no path in its error for a full disk
                torch.save({"version": VERSION, **state}, stream)
                (folder / STATE).write_bytes(stream.getbuffer())
                sums = {name: checksum(folder / name) for name in (WEIGHTS, STATE)}
                progress = {"step": step, "epoch": epoch, "weights": sorted(needed), "sha256": sums}
                (folder / PROGRESS).write_text(json.dumps(progress) + "\n", encoding="utf-8")

            create_folder(self._checkpoint(step), write)
            replace_text(self._latest, f"{step_name(step)}\n")
        kept = [other for other in self._steps() if other <= step][-NUM_KEPT:]
        for other in set(self._steps()).difference(kept):
            remove_folder(self._checkpoint(other))
        self.keep_weights(needed)

    def load(self, step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights of a checkpoint and the rest of its state."""
        folder = self._checkpoint(step)
        path = folder / STATE
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise DataError(
                f"{path}: the state cannot be read ({str(error).splitlines()[0]}).\n"
                f"  To resume from an older checkpoint, write its name into {self._latest}."
            ) from error
        if state["version"] > VERSION:
            raise newer_format(path, state["version"], VERSION)
        return weights.load(folder / WEIGHTS), dict(state)

    def save_weights(self, module: nn.Module, step: int, *, best: bool) -> None:
        """Writes validated weights."""
        weights.save(weights.snapshot(module), self._weights(step))
        if best:
            replace_text(self._folder / "best", f"{step_name(step)}\n")

    def load_weights(self, steps: Collection[int]) -> dict[str, Tensor]:
        """The mean of the validated weights of one or more steps."""
        paths = [self._weights(step) for step in sorted(steps)]
        if len(paths) > 1 and self._mean.is_file() and not all(path.is_file() for path in paths):
            paths = [self._mean]
        return weights.mean(paths)

    def keep_weights(self, needed: Collection[int]) -> None:
        """Removes validated weights that neither the run nor a checkpoint needs."""
        names = {self._weights(step) for step in needed}
        for step in self._steps():
            with suppress(DataError):  # damaged, so no run resumes from it
                names |= {self._weights(other) for other in self.progress(step)["weights"]}
        for path in set(self._folder.glob("weights/step-*")) - names:
            path.unlink()

    def close(self, module: nn.Module, *, best: int, final: Collection[int]) -> None:
        """Keeps of a finished run the newest checkpoint, the best weights, and the final weights if they are a mean.

        Args:
            best: the step of the best validation.
            final: the steps of the validations whose mean is the final model.
        """
        if len(final) > 1:
            weights.save(weights.snapshot(module), self._mean)
        else:
            self._mean.unlink(missing_ok=True)
        for step in self._steps():
            if step != self.latest:
                remove_folder(self._checkpoint(step))
        for path in set(self._folder.glob("weights/step-*")) - {self._weights(best)}:
            path.unlink()

    def remove(self) -> None:
        """Removes all checkpoints and weights."""
        for step in self._steps():
            remove_folder(self._checkpoint(step))
        for path in (self._latest, self._folder / "best", *self._folder.glob("weights/*.safetensors")):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it has a user's file, or does not exist
            (self._folder / "weights").rmdir()

    def has_weights(self, step: int) -> bool:
        """Whether the validated weights of a step are there."""
        return self._weights(step).is_file()

    def _damage(self, step: int) -> str | None:
        """The damage of a checkpoint's files, or None."""
        folder = self._checkpoint(step)
        try:
            progress = self.progress(step)
        except DataError as error:
            return str(error)
        for name in (WEIGHTS, STATE):
            if not (folder / name).is_file():
                return f"{folder / name}: the file is missing."
            expected = progress.get("sha256", {}).get(name)
            if expected is not None and checksum(folder / name) != expected:
                return f"{folder / name}: the file is damaged: its checksum is wrong."
        return None

    def _checkpoint(self, step: int) -> Path:
        return self._folder / step_name(step)

    def _weights(self, step: int) -> Path:
        return self._folder / "weights" / f"{step_name(step)}.safetensors"

    @property
    def _mean(self) -> Path:
        return self._folder / "weights" / "mean.safetensors"

    def _steps(self) -> list[int]:
        numbers = (path.name.removeprefix("step-") for path in self._folder.glob("step-*") if path.is_dir())
        return sorted(int(number) for number in numbers if number.isdecimal())


def step_name(step: int) -> str:
    """The name of a step in files and folders.

    >>> step_name(1200)
    'step-00001200'
    """
    return f"step-{step:08d}"


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
