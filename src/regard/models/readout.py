"""The readout of a recurrent decoder: the features that its head reads, and those that are fed to the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn

from regard.errors import ShapeError, UnsupportedError
from regard.layers.linear import Linear
from regard.shapes import Float

Order = Literal["recur_then_attend", "attend_then_recur"]
Readout = Literal["tanh", "linear", "context", "state"]
InputFeeding = bool | Literal["context", "linear", "tanh"]
FirstContext = Literal["attended", "zeros"]
Activation = Literal["tanh", "linear"]
Part = Literal["state", "context", "readout"]
"""The cell's state s_t, the context c_t, or the output of the readout."""


class DeepReadout(nn.Module):
    """õ_t = x_t + L_h s_t + L_z c_t + b, or its tanh: Show, Attend and Tell's deep output before the head.

    The paper's output is L_o(E y_{t-1} + L_h h_t + L_z ẑ_t), with x = E y_{t-1} the embedded input and L_o the head. As
    `RecurrentDecoder(readout=...)` it replaces tanh(W [s; x; c]).

    Args:
        size: D, of the cell's state s.
        embedding_size: E, of x and of õ.
        context_size: V, of the context c.
        previous: whether x is added (`prev2out` of arctic-captions).
        context: whether L_z c is added (`ctx2out` there).
        tanh: whether õ is the tanh of the sum, as there but not in the paper.

    Source: Xu et al. 2015 (arXiv 1502.03044), equation 7; Pascanu et al. 2014 (arXiv 1312.6026).

    >>> import torch
    >>> readout = DeepReadout(5, embedding_size=4, context_size=6)
    >>> readout(torch.zeros(2, 5), torch.ones(2, 4), torch.zeros(2, 6)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        size: int,
        *,
        embedding_size: int,
        context_size: int,
        previous: bool = True,
        context: bool = True,
        tanh: bool = False,
    ) -> None:
        super().__init__()
        self.size = embedding_size
        self.previous, self.tanh = previous, tanh
        self.of_state = Linear(size, embedding_size)
        self.of_context = Linear(context_size, embedding_size, bias=False) if context else None

    def check(self, embedding_size: int, size: int, context_size: int) -> None:
        """Raises `ShapeError` if the sizes of a decoder differ from these."""
        ours = embedding_size, size, context_size
        built = (
            self.size if self.previous else embedding_size,
            self.of_state.in_features,
            context_size if self.of_context is None else self.of_context.in_features,
        )
        if ours != built:
            raise ShapeError(
                f"The readout was built for embedding_size={built[0]}, size={built[1]} and "
                f"context_size={built[2]}; the decoder has {ours[0]}, {ours[1]} and {ours[2]}."
            )

    def forward(
        self, state: Float[Tensor, "*rows D"], x: Float[Tensor, "*rows E"], context: Float[Tensor, "*rows V"]
    ) -> Float[Tensor, "*rows E"]:
        """õ."""
        total: Tensor = self.of_state(state)
        if self.of_context is not None:
            total = total + self.of_context(context)
        if self.previous:
            total = total + x
        return total.tanh() if self.tanh else total


@dataclass(frozen=True, slots=True)
class Reading:
    """The part of a step that the head reads, and the part that is fed to the next step.

    | `readout` | õ_t |
    |---|---|
    | `tanh` | tanh(W [s_t; c_t] + b), the attention layer; with x_t if attention comes first |
    | `linear` | W [s_t; c_t] + b |
    | `context` | c_t |
    | `state` | s_t; the context must then be an input of the cell |
    | a `DeepReadout` | its sum, E features |

    | `input_feeding` | further input of the cell; zeros at the first step |
    |---|---|
    | True | õ_{t-1} |
    | `context` | c_{t-1} |
    | `linear`, `tanh` | the output of the attention layer, whatever the head reads |
    | False | nothing |

    Args:
        head: the part that the head reads.
        fed: the part that is fed to the next step, if any.
        layer: the activation of the attention layer; None if there is no such layer.
        reads_input: whether the attention layer also reads x_t.
        begins_with_zeros: whether attention before the cell starts at the second step.
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
        """From the options of a `RecurrentDecoder`; `first` is its `first_context`.

        Raises:
            UnsupportedError: for unknown options, and for combinations in which one of them would have no effect.
        """
        reads = "deep" if isinstance(readout, DeepReadout) else readout
        attends_first = order == "attend_then_recur"
        if first not in get_args(FirstContext):
            raise UnsupportedError(f"first_context={first!r} must be 'attended' or 'zeros'.")
        if first == "zeros" and not (attends and attends_first):
            raise UnsupportedError(
                "first_context='zeros' is for order='attend_then_recur'; 'recur_then_attend' always starts with zeros."
            )
        _check(reads, input_feeding, attends=attends, attends_first=attends_first, has_context=has_context)
        layers = [kind for kind in get_args(Activation) if kind in (reads, input_feeding)] if has_context else []
        head: Part = "readout" if reads == "deep" or (reads in layers) else "state"
        head = "context" if reads == "context" else head
        fed = fed_back(reads, input_feeding) if attends and not attends_first else None
        return cls(head, fed, layers[0] if layers else None, attends and attends_first, first == "zeros")


def fed_back(readout: str | DeepReadout, input_feeding: InputFeeding) -> Part | None:
    """The part that is fed to the next step with recur_then_attend."""
    if not input_feeding:
        return None
    return "context" if input_feeding == "context" or (input_feeding is True and readout == "context") else "readout"


def _check(reads: str, input_feeding: InputFeeding, *, attends: bool, attends_first: bool, has_context: bool) -> None:
    """Raises an error for options that are unknown or have no effect together."""
    layers = get_args(Activation)
    if reads != "deep" and reads not in get_args(Readout):
        words = ", ".join(map(repr, get_args(Readout)))
        raise UnsupportedError(f"readout={reads!r} must be {words} or a DeepReadout.")
    if input_feeding not in (True, False, "context", *layers):
        raise UnsupportedError(f"input_feeding={input_feeding!r} must be True, False, 'context', 'linear' or 'tanh'.")
    if not attends:
        if reads == "deep":
            raise UnsupportedError("A DeepReadout adds the context of attention; this decoder has no attention.")
        if reads not in layers or (reads == "linear" and not has_context):
            raise UnsupportedError(f"readout={reads!r} needs the context of attention; this decoder has no attention.")
    if isinstance(input_feeding, str) and (not attends or attends_first):
        reason = "the cell reads the context of the same step" if attends else "there is no attention"
        raise UnsupportedError(f"input_feeding={input_feeding!r} is for order='recur_then_attend'; here {reason}.")
    if reads == "state" and not attends_first and not isinstance(input_feeding, str):
        raise UnsupportedError(
            "readout='state' leaves out the context, which must then be an input of the cell: use "
            "order='attend_then_recur', or input_feeding='context', 'linear' or 'tanh'."
        )
    if reads == "context" and attends_first:
        raise UnsupportedError(
            "readout='context' leaves out the input x_t, on which the context depends only with "
            "order='recur_then_attend'."
        )
    if input_feeding in layers and reads in ("deep", *layers) and reads != input_feeding:
        raise UnsupportedError(
            f"input_feeding={input_feeding!r} and readout={reads!r} are two layers, but a decoder has one. "
            "Use input_feeding=True to feed the head's input, or 'context'."
        )
