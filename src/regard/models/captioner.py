"""Show, Attend and Tell: decoders of captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from regard.attention import luong, show_attend_tell
from regard.attention.interface import AbstractAttention
from regard.errors import UnsupportedError
from regard.interop.variants import CAPTIONERS
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.layers.cells.cell import Cell
from regard.models.bridge import Bridge, BridgeKind
from regard.models.readout import DeepReadout
from regard.models.recurrent_decoder import RecurrentDecoder

Gate = Literal["scalar", "vector"]


@dataclass(frozen=True, kw_only=True)
class CaptionerForm:
    """The variants of decoders of captions.

    Args:
        attention: the recipe, called with query_size, memory_size and, if it is gated, size, hard, mix and gate.
        gate: the default gate; None for attention without the options of `show_attend_tell`.
        order: of attention and the cell (`RecurrentDecoder`).
        readout: the input of the head: `deep` output (`DeepReadout`), deep output through tanh, the `state`, or the
            `tanh` of an attention layer.
        bridge: from the mean of the annotations to the first state.
        zero_start: whether the embedding of the first token is 0.
    """

    attention: Callable[..., AbstractAttention] = show_attend_tell
    gate: Gate | None = "scalar"
    order: Literal["attend_then_recur", "recur_then_attend"] = "attend_then_recur"
    readout: Literal["deep", "deep_tanh", "state", "tanh"] = "deep"
    bridge: BridgeKind = "tanh"
    zero_start: bool = False


BILINEAR = CaptionerForm(
    attention=partial(luong, score="general"), gate=None, order="recur_then_attend", readout="tanh"
)
"""Luong's attention over an image, after the cell."""


def captioner(
    num_tokens: int,
    *,
    memory_size: int,
    embedding_size: int = 512,
    size: int = 512,
    attention_size: int = 512,
    attention: AbstractAttention | None = None,
    hard: bool = False,
    mix: float = 0.0,
    gate: Gate | Literal["default"] | None = "default",
    cell: Cell = "lstm",
    num_layers: int = 1,
    dropout: float = 0.0,
    padding: int | None = 0,
    bos: int = 1,
    unknown: int = 3,
    never: Sequence[int] = (),
    like: str | None = None,
) -> RecurrentDecoder:
    """A decoder of captions, over the annotations a_1 … a_S of an image (`Encoded`).

        c_t = β_t Σ_j α_tj a_j,  s_t = cell([E y_{t-1}; c_t], s_{t-1}),
        p(y_t) = softmax(L_o(E y_{t-1} + L_h s_t + L_z c_t)),

    with α and β of `show_attend_tell`, whose query is s_{t-1}; s_0 = tanh(W mean(a) + b), and likewise an LSTM's c_0.

    `like="bilinear"` is Luong's attention: s_t = cell(E y_{t-1}, s_{t-1}), then c_t by e_j = s_tᵀ W a_j without a gate;
    L_o tanh(W [s_t; c_t]).

    Args:
        num_tokens: N.
        memory_size: M, the features of an annotation.
        embedding_size, size, attention_size: E, D and A.
        attention: another attention, with queries of D features, instead of the options of attention.
        hard, mix: as in `show_attend_tell`: one annotation is drawn at each step; train it with `losses.reinforce`.
        gate: "scalar", "vector", or None; "default" is that of the paper or of the program.
        cell, num_layers: of the recurrent layers.
        dropout: on the head's input, and between layers.
        padding, unknown: as in `TokenEmbedding`; padding is `bos` in variants with a `zero_start`.
        bos: the first token of a caption, only for variants with a `zero_start`.
        never: as in `TokenHead`.
        like: `bilinear`, or another program (`regard.interop.variants`); the paper's if None.

    Raises:
        UnsupportedError: for options that contradict each other.

    Source: Xu et al. 2015, Show, Attend and Tell (arXiv 1502.03044), sections 3.1.2 and 4; bilinear: Luong, Pham &
    Manning 2015 (arXiv 1508.04025).

    >>> import torch
    >>> from regard.models.contract import Encoded
    >>> decoder = captioner(9, memory_size=6, embedding_size=4, size=5, attention_size=3)
    >>> memory = decoder.prepare(Encoded(torch.zeros(2, 12, 6), grid=(3, 4)))
    >>> decoder(torch.tensor([[1, 4], [1, 7]]), memory).log_probabilities.shape
    torch.Size([2, 2, 9])
    """
    if like is not None and like not in CAPTIONERS:
        raise UnsupportedError(f"like={like!r} must be {', '.join(map(repr, CAPTIONERS))}, or None.")
    form: CaptionerForm = CaptionerForm() if like is None else CAPTIONERS[like]
    if attention is not None:
        if hard or mix or gate != "default":
            raise UnsupportedError(
                "hard, mix and gate are options of the default attention; leave them out if attention is given."
            )
    elif form.gate is None:
        if hard or mix or gate not in ("default", None):
            raise UnsupportedError(f"like={like!r} is soft attention without a gate: leave out hard, mix and gate.")
        attention = form.attention(query_size=size, memory_size=memory_size)
    else:
        chosen: Any = form.gate if gate == "default" else gate
        sizes = {"query_size": size, "memory_size": memory_size, "size": attention_size}
        attention = form.attention(**sizes, hard=hard, mix=mix, gate=chosen)
    embedding = TokenEmbedding(
        num_tokens, embedding_size, padding=bos if form.zero_start else padding, unknown=min(unknown, num_tokens - 1)
    )
    options: dict[str, Any] = {"attention": attention, "order": form.order}
    if form.order == "recur_then_attend":
        options["input_feeding"] = False
    inputs = RecurrentDecoder.input_size(embedding_size, size, **options)
    if form.readout in ("deep", "deep_tanh"):
        width, is_tanh = embedding_size, form.readout == "deep_tanh"
        options["readout"] = DeepReadout(
            size, embedding_size=embedding_size, context_size=attention.context_size, tanh=is_tanh
        )
    else:
        width, options["readout"] = size, form.readout
    stack = RecurrentStack(inputs, size, num_layers, cell=cell, dropout=dropout)
    bridge = Bridge(memory_size, stack, form.bridge)
    return RecurrentDecoder(
        embedding, stack, TokenHead(width, num_tokens, never=never), bridge, dropout=dropout, **options
    )
