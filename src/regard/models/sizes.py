"""Error texts for a decoder that receives one step instead of all, or all instead of one."""

from __future__ import annotations

from torch import Tensor

from regard.shapes import describe


def one_step(inputs: Tensor) -> str:
    """For a call of `step` with a sequence."""
    return (
        f"step takes one input per row: (R,) ids or (R, F) values.\n{_show(inputs)}\n"
        "  For a whole target call the decoder itself (forward); for step t give inputs[:, t]."
    )


def all_steps(inputs: Tensor) -> str:
    """For a call of `forward` with one step."""
    return (
        f"forward takes the inputs of all steps: (B, T) ids or (B, T, F) values.\n{_show(inputs)}\n"
        "  For one step call step, or give inputs[:, None]."
    )


def _show(inputs: Tensor) -> str:
    letters = "B T F" if inputs.is_floating_point() else "B T"
    return describe({"inputs": (letters if inputs.dim() > 1 else "R", inputs)})
