"""What the head of a recurrent decoder reads, and what is fed to the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from regard.errors import UnsupportedError
from regard.models.readout import DeepReadout

Order = Literal["recur_then_attend", "attend_then_recur"]
Readout = Literal["tanh", "linear", "context", "state"]
InputFeeding = bool | Literal["context", "linear", "tanh"]
FirstContext = Literal["attended", "zeros"]
Activation = Literal["tanh", "linear"]
Part = Literal["state", "context", "readout"]
"""The cell's state s_t, the context c_t, or the readout's output."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which part of a step the head reads, and which is fed to the next step.

    | `readout` | õ_t |
    |---|---|
    | `tanh` | tanh(W [s_t; c_t] + b), the attention layer; with x_t if attention comes first |
    | `linear` | W [s_t; c_t] + b |
    | `context` | c_t |
    | `state` | s_t; the context has to go into the cell |
    | a `DeepReadout` | its sum, E features |

    | `input_feeding` | goes into the cell with x_t; zeros before the first step |
    |---|---|
    | True | õ_{t-1} |
    | `context` | c_{t-1} |
    | `linear`, `tanh` | the attention layer's output, whatever the head reads |
    | False | nothing |

    Args:
        head: what the head reads.
        fed: what is fed to the next step; None for nothing.
        layer: how the attention layer ends, if the readout is one; None for a `DeepReadout` or no readout.
        reads_input: whether the attention layer reads x_t too.
        begins_with_zeros: whether attention that comes first begins with the second step.
    """

    head: Part
    fed: Part | None = None
    layer: Activation | None = None
    reads_input: bool = False
    begins_with_zeros: bool = False

    @classmethod
    def of(
        cls,
        readout: Readout | DeepReadout,
        input_feeding: InputFeeding,
        order: Order,
        *,
        attends: bool,
        has_context: bool = True,
        first: FirstContext = "attended",
    ) -> Reading:
        """From the options of a `RecurrentDecoder`.

        Args:
            has_context: whether a step has a context.
            first: `first_context`.

        Raises:
            UnsupportedError: for unknown options, and for combinations in which one of them would have no effect.
        """
        reads = "deep" if isinstance(readout, DeepReadout) else readout
        attends_first = order == "attend_then_recur"
        if first not in get_args(FirstContext):
            raise UnsupportedError(f"first_context={first!r} must be 'attended' or 'zeros'.")
        if first == "zeros" and not (attends and attends_first):
            raise UnsupportedError(
                "first_context='zeros' is for order='attend_then_recur'; what 'recur_then_attend' feeds is zeros first."
            )
        _check(reads, input_feeding, attends=attends, attends_first=attends_first, has_context=has_context)
        layers = [kind for kind in get_args(Activation) if kind in (reads, input_feeding)] if has_context else []
        head: Part = "readout" if reads == "deep" or (reads in layers) else "state"
        head = "context" if reads == "context" else head
        fed = fed_back(reads, input_feeding) if attends and not attends_first else None
        return cls(head, fed, layers[0] if layers else None, attends and attends_first, first == "zeros")


def fed_back(readout: str | DeepReadout, input_feeding: InputFeeding) -> Part | None:
    """What is fed to the next step where the cell comes first."""
    if not input_feeding:
        return None
    return "context" if input_feeding == "context" or (input_feeding is True and readout == "context") else "readout"


def _check(reads: str, input_feeding: InputFeeding, *, attends: bool, attends_first: bool, has_context: bool) -> None:
    """Refuses what means nothing."""
    layers = get_args(Activation)
    if reads != "deep" and reads not in get_args(Readout):
        words = ", ".join(map(repr, get_args(Readout)))
        raise UnsupportedError(f"readout={reads!r} must be {words} or a DeepReadout.")
    if input_feeding not in (True, False, "context", *layers):
        raise UnsupportedError(f"input_feeding={input_feeding!r} must be True, False, 'context', 'linear' or 'tanh'.")
    if not attends:
        if reads == "deep":
            raise UnsupportedError("A DeepReadout adds what attention read: it is for decoders with attention.")
        if reads not in layers or (reads == "linear" and not has_context):
            raise UnsupportedError(f"readout={reads!r} reads what attention read: it is for decoders with attention.")
    if isinstance(input_feeding, str) and (not attends or attends_first):
        reason = (
            "the context of the same step goes into the cell"
            if attends
            else "without attention there is nothing to feed"
        )
        raise UnsupportedError(f"input_feeding={input_feeding!r} is for order='recur_then_attend'; here {reason}.")
    if reads == "state" and not attends_first and not isinstance(input_feeding, str):
        raise UnsupportedError(
            "readout='state' says nothing of the context, so that it has to be fed into the cell: it is for "
            "order='attend_then_recur' or input_feeding='context' (or 'linear', 'tanh')."
        )
    if reads == "context" and attends_first:
        raise UnsupportedError(
            "readout='context' says nothing of the input, which order='attend_then_recur' attends without; it is "
            "for order='recur_then_attend'."
        )
    if input_feeding in layers and reads in ("deep", *layers) and reads != input_feeding:
        raise UnsupportedError(
            f"input_feeding={input_feeding!r} and readout={reads!r} are two layers, and a decoder has one; "
            "use input_feeding=True to feed what the head reads, or 'context'."
        )
