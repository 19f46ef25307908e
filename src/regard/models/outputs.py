"""Parts that decoders share: outputs from the results of heads, names of alignments, losses, error texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from torch import Tensor, nn

from regard.attention import Parallel
from regard.attention.alignments import Choice
from regard.attention.contract import Tree
from regard.attention.interface import AbstractAttention
from regard.errors import UnsupportedError
from regard.layers import QuantileHead, TokenHead, ValueHead
from regard.losses import cross_entropy
from regard.models.contract import DecoderOutput
from regard.shapes import Bool, Float, Int, describe

HeadOutput = Tensor | tuple[Tensor, Mapping[str, Tensor]]
"""Log-probabilities or values, or values and further outputs by name."""


def output_of(outputs: HeadOutput, alignments: Mapping[str, Tensor], *, continuous: bool) -> DecoderOutput:
    """A decoder's output from that of its head: log-probabilities; with `continuous` values, or values and
    `auxiliary`."""
    if not continuous:
        assert isinstance(outputs, Tensor)
        return DecoderOutput(log_probabilities=outputs, alignments=alignments)
    values, auxiliary = outputs if isinstance(outputs, tuple) else (outputs, {})
    return DecoderOutput(values=values, alignments=alignments, auxiliary=auxiliary)


def require_head(head: nn.Module, *, continuous: bool) -> None:
    """Raises `UnsupportedError` for a head of tokens in a continuous decoder, or a head of values in another."""
    if continuous and isinstance(head, TokenHead):
        raise UnsupportedError("continuous=True: the outputs are values, but a TokenHead returns log-probabilities.")
    if not continuous and isinstance(head, ValueHead | QuantileHead):
        raise UnsupportedError(f"A {type(head).__name__} returns values: the decoder needs continuous=True.")


def named(name: str, weights: Tree) -> dict[str, Tensor]:
    """An alignment by its name; a tuple of several memories as name.0, name.1, …; empty for None.

    >>> named("attention", None)
    {}
    """
    if weights is None:
        return {}
    if isinstance(weights, tuple):
        return {f"{name}.{index}": weight for index, weight in enumerate(weights)}
    return {name: weights}


def chosen(name: str, auxiliary: Tree) -> dict[str, Tensor]:
    """The fields of a `Choice` of hard attention, as name.index and so on; those of several memories as name.0.index.

    >>> chosen("attention", (None, None))
    {}
    """
    if isinstance(auxiliary, tuple):
        inner = (chosen(f"{name}.{index}", one) for index, one in enumerate(auxiliary))
        return {key: tensor for one in inner for key, tensor in one.items()}
    if not isinstance(auxiliary, Choice):
        return {}
    return {f"{name}.{field.name}": getattr(auxiliary, field.name) for field in fields(auxiliary)}


def main_name(name: str, attention: AbstractAttention | None) -> str:
    """The name of the main alignment: the only one, or that of the first memory."""
    return f"{name}.0" if isinstance(attention, Parallel) else name


def cross_entropy_by(
    head: nn.Module,
    features: Float[Tensor, "B T D"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"] | None,
    *,
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` of a head's outputs; a `TokenHead` computes them without log-probabilities."""
    if isinstance(head, TokenHead):
        return head.cross_entropy(features, targets, mask, smoothing=smoothing)
    return cross_entropy(head(features), targets, mask, smoothing=smoothing)


def cross_entropy_of(
    output: DecoderOutput, targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` from log-probabilities."""
    if output.log_probabilities is None:
        raise UnsupportedError(
            "This decoder is continuous, and values have no cross-entropy. Compare its values with the targets instead."
        )
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)


def one_step(inputs: Tensor) -> str:
    """The error text for a call of `step` with a sequence."""
    return (
        f"step takes one input per row: (R,) ids or (R, F) values.\n{_show(inputs)}\n"
        "  For a whole target call the decoder itself (forward); for step t give inputs[:, t]."
    )


def all_steps(inputs: Tensor) -> str:
    """The error text for a call of `forward` with one step."""
    return (
        f"forward takes the inputs of all steps: (B, T) ids or (B, T, F) values.\n{_show(inputs)}\n"
        "  For one step call step, or give inputs[:, None]."
    )


def _show(inputs: Tensor) -> str:
    letters = "B T F" if inputs.is_floating_point() else "B T"
    return describe({"inputs": (letters if inputs.dim() > 1 else "R", inputs)})
