"""`torch.export`: programs that torch loads and runs without regard."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch.export import ExportedProgram

from regard.errors import UnsupportedError
from regard.export.facts import facts_of, write_facts, write_pieces
from regard.export.networks import Networks
from regard.export.programs import forced_program, source_program, step_program
from regard.tasks import TextToText


def write_torch(model: TextToText, folder: Path) -> None:
    """Writes `encoder.pt2`, `step.pt2`, `model.json` and, where all steps can be taken at once, `forward.pt2`.

    Args:
        model: on the CPU; directed, if it has learned both directions.
        folder: an empty folder.

    Raises:
        UnsupportedError: for a network that torch.export cannot make a program of.
    """
    layer, head = model.shown(model.config.decoding)
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
    """Writes a program. torch's own writer of files ends the process where the disk is full."""
    content = io.BytesIO()
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())
