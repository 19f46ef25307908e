"""Programs of torch.export from a model's networks, for any number of sentences, positions and hypotheses."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config

from regard.errors import UnsupportedError
from regard.interop.export.facts import facts_of, write_facts, write_pieces
from regard.interop.export.networks import FIRST_SYMBOL, ForcedNetwork, Networks, exporting
from regard.tasks import TextToText

EXAMPLE_STEPS = 4
DIMENSIONS = {letter: Dim(letter, min=least) for letter, least in {"B": 1, "J": 1, "K": 2, "T": 0, "U": 2}.items()}
"""The varying axes besides S: sentences, hypotheses before and after a step, steps in a cache, and steps of a
teacher-forced pass. torch divides rows by sentences, so its programs for one hypothesis and for several differ.
"""


def source_program(networks: Networks) -> ExportedProgram:
    """The program of `SourceNetwork`."""
    return _program(networks, networks.source, networks.source_inputs, ({0: "B", 1: "S"}, {0: "B"}), "source")


def step_program(networks: Networks) -> ExportedProgram:
    """The program of `StepNetwork`."""
    axes = ({0: "B", 1: "K"}, {0: "B", 1: "K"}, networks.memory_axes, networks.state_axes)
    return _program(networks, networks.step, networks.step_inputs, axes, "step")


def forced_program(networks: Networks) -> ExportedProgram:
    """The program of `ForcedNetwork`."""
    if (reason := networks.feeds_back) is not None:
        raise UnsupportedError(f"A teacher-forced program for any number of steps is impossible, because {reason}.")
    source, lengths = networks.source_inputs
    inputs = torch.full((len(source), EXAMPLE_STEPS), FIRST_SYMBOL)
    axes = ({0: "B", 1: "S"}, {0: "B"}, {0: "B", 1: "U"})
    network = ForcedNetwork(networks.model).eval()
    return _program(networks, network, (source, lengths, inputs), axes, "teacher-forced pass")


def _program(networks: Networks, network: nn.Module, inputs: Sequence[Any], axes: Any, name: str) -> ExportedProgram:
    least, most = networks.positions
    dimensions = {**DIMENSIONS, "S": Dim("S", min=least, max=most)}
    # otherwise torch assumes sizes of 2 or more, and no program takes a batch of one
    with exporting(), _config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        try:
            return torch.export.export(network, tuple(inputs), dynamic_shapes=_dynamic(axes, dimensions))
        except Exception as error:  # torch has no common class for its refusals
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise UnsupportedError(
                f"torch.export cannot make a program of the {name} for any sizes: {' '.join(lines[:2]):.300}"
            ) from error


def _dynamic(axes: Any, dimensions: Mapping[str, Dim]) -> Any:
    """The same structure with a `Dim` for each letter."""
    if isinstance(axes, tuple):
        return tuple(_dynamic(each, dimensions) for each in axes)
    return {axis: dimensions[letter] for axis, letter in axes.items()}


def worst(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """The largest difference of pairs of tensors; infinite where only one is infinite."""
    largest = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.numel():
            difference = torch.where(a == b, 0.0, (a.double() - b.double()).abs())
            largest = max(largest, float(difference.nan_to_num(nan=torch.inf).max().detach()))
    return largest


def write_torch(model: TextToText, folder: Path) -> None:
    """Writes `encoder.pt2`, `step.pt2`, `model.json` and, where all steps can be computed at once, `forward.pt2`.

    Args:
        model: on the CPU, with one direction.
        folder: an empty folder.

    Raises:
        UnsupportedError: for a network that torch.export does not support.
    """
    layer, head = model.chosen_attention(model.config.decoding)
    networks = Networks.of(model.module, layer=layer, head=head)
    _write(source_program(networks), folder / "encoder.pt2")
    _write(step_program(networks), folder / "step.pt2")
    facts = facts_of(model, networks)
    try:
        _write(forced_program(networks), folder / "forward.pt2")
    except UnsupportedError as error:
        facts["forward"] = str(error)
    write_facts(facts, folder)
    write_pieces(model, folder)


def _write(program: ExportedProgram, path: Path) -> None:
    """Writes a program by way of memory: torch's writer of files ends the process if the disk is full."""
    content = io.BytesIO()
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())
