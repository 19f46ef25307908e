"""Checkpoints that a run continues from.

`checkpoints/` of a run folder:

    latest                          the name of the newest one, a line of text
    best                            the name of the best validated weights, a line of text
    step-00001200/                  the last two are kept
      model.safetensors             the weights
      trainer_state.pt              all else: tensors and plain containers, read with weights_only=True
      progress.json                 step and epoch, for people and programs that only look
    weights/step-00001000.safetensors   validated weights: the best, and those whose mean is taken
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training import weights
from regard.training.files import create_folder, remove_folder, replace_text

KEPT = 2
VERSION = 1


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "checkpoints"
        self._latest = self._folder / "latest"

    @property
    def latest(self) -> int | None:
        """The step of the newest checkpoint, or None if there is none."""
        if not self._latest.exists():
            return None
        name = self._latest.read_text(encoding="utf-8").strip()
        if not (self._folder / name / "progress.json").is_file() or not name.startswith("step-"):
            raise RegardError(f"{self._latest} names {name!r}, which is no checkpoint beside it.")
        return int(name.removeprefix("step-"))

    def progress(self, step: int) -> dict[str, Any]:
        """Step, epoch and needed weights of a checkpoint, without reading the rest of it."""
        return json.loads((self._checkpoint(step) / "progress.json").read_text(encoding="utf-8"))

    def save(self, module: nn.Module, state: dict[str, Any], *, step: int, epoch: int, needed: Collection[int]) -> None:
        """Writes a checkpoint and removes the old ones; one of the same step is the same, and is left.

        Args:
            state: tensors and plain containers.
            needed: steps whose validated weights a run needs that continues from here.
        """
        if step != self.latest:
            copies = weights.snapshot(module)

            def write(folder: Path) -> None:
                save_file(copies, folder / "model.safetensors")
                torch.save({"version": VERSION, **state}, folder / "trainer_state.pt")
                progress = {"step": step, "epoch": epoch, "weights": sorted(needed)}
                (folder / "progress.json").write_text(json.dumps(progress) + "\n", encoding="utf-8")

            create_folder(self._checkpoint(step), write)
            replace_text(self._latest, f"{step_name(step)}\n")
        kept = [other for other in self._steps() if other <= step][-KEPT:]
        for other in set(self._steps()).difference(kept):
            remove_folder(self._checkpoint(other))
        self.keep_weights(needed)

    def load(self, module: nn.Module, step: int) -> dict[str, Any]:
        """Puts the weights of a checkpoint into the module and returns the state."""
        folder = self._checkpoint(step)
        path = folder / "trainer_state.pt"
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise RegardError(
                f"{path}: this state cannot be read ({str(error).splitlines()[0]}).\n"
                f"  To continue from an older checkpoint of the folder, write its name into {self._latest}."
            ) from error
        if state["version"] > VERSION:
            raise RegardError(f"{path}: written by a newer regard (version {state['version']} of the format).")
        weights.restore(module, weights.load(folder / "model.safetensors"))
        return state

    def save_weights(self, module: nn.Module, step: int, *, best: bool) -> None:
        """Writes validated weights."""
        weights.save(weights.snapshot(module), self._weights(step))
        if best:
            replace_text(self._folder / "best", f"{step_name(step)}\n")

    def load_weights(self, steps: Collection[int]) -> dict[str, Tensor]:
        """The mean of validated weights; of one, these."""
        return weights.mean([self._weights(step) for step in sorted(steps)])

    def keep_weights(self, needed: Collection[int]) -> None:
        """Removes validated weights that neither the run nor a checkpoint needs."""
        names = {self._weights(step) for step in needed}
        for step in self._steps():
            names |= {self._weights(other) for other in self.progress(step)["weights"]}
        for path in set(self._folder.glob("weights/step-*")) - names:
            path.unlink()

    def _checkpoint(self, step: int) -> Path:
        return self._folder / step_name(step)

    def _weights(self, step: int) -> Path:
        return self._folder / "weights" / f"{step_name(step)}.safetensors"

    def _steps(self) -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in self._folder.glob("step-*"))


def step_name(step: int) -> str:
    """How files and folders of a step are called.

    >>> step_name(1200)
    'step-00001200'
    """
    return f"step-{step:08d}"
