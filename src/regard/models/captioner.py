"""Show, Attend and Tell: decoders that write what they see in an image, as the paper and other programs have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from regard.attention import luong, show_attend_tell
from regard.attention.verbs import AbstractAttention
from regard.errors import DataError, UnsupportedError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.layers.cells.cell import Cell
from regard.models.bridge import Bridge, BridgeKind
from regard.models.readout import DeepReadout
from regard.models.recurrent_decoder import RecurrentDecoder

Like = Literal["arctic", "sgrvinod", "bilinear"]
Gate = Literal["scalar", "vector"]
BRIDGES: dict[str | None, BridgeKind] = {None: "tanh", "arctic": "tanh", "sgrvinod": "linear", "bilinear": "tanh"}
"""How the first state follows from the mean of the annotations."""


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
    like: Like | None = None,
) -> RecurrentDecoder:
    """A decoder of captions, over the annotations a_1 … a_S of an image (`Encoded`).

        c_t = β_t Σ_j α_tj a_j,  s_t = cell([E y_{t-1}; c_t], s_{t-1}),
        p(y_t) = softmax(L_o(E y_{t-1} + L_h s_t + L_z c_t)),

    with α and β of `show_attend_tell`, asked with s_{t-1}; s_0 = tanh(W mean(a) + b), also the memory of an LSTM.

    | `like` | what it changes |
    |---|---|
    | `arctic` | õ = tanh(…) before L_o; the vector of `bos` is 0, for its captions begin with a vector of zeros |
    | `sgrvinod` | a rectifier in place of tanh in the energies; a vector gate; no deep output, L_o s_t; a linear s_0 |
    | `bilinear` | s_t = cell(E y_{t-1}, s_{t-1}), then c_t by e_j = s_tᵀ W a_j without a gate; L_o tanh(W [s_t; c_t]) |

    Args:
        num_tokens: N.
        memory_size: M, the features of an annotation.
        embedding_size, size, attention_size: E, D and A.
        attention: another attention, with queries of D features; then no option of attention is read.
        hard, mix: one annotation is drawn at each step, as in `show_attend_tell`; train it with `losses.reinforce`.
        gate: "scalar", "vector", or None; "default" is that of the paper or of the program.
        cell, num_layers: of the recurrent layers.
        dropout: on what the head reads, and between layers.
        padding, unknown: as in `TokenEmbedding`; with `arctic` the padding is `bos`.
        bos: the token that a caption begins with; only `arctic` reads it.
        never: as in `TokenHead`.
        like: the paper's if None; or as arctic-captions (with selector, prev2out and ctx2out, as its published models),
            sgrvinod's tutorial in PyTorch, or Luong's attention over an image.

    Raises:
        UnsupportedError: for options that contradict each other.

    Source: Xu et al. 2015, Show, Attend and Tell (arXiv 1502.03044), sections 3.1.2 and 4; bilinear: Luong, Pham &
    Manning 2015 (arXiv 1508.04025).

    >>> from regard.models.contract import Encoded
    >>> decoder = captioner(9, memory_size=6, embedding_size=4, size=5, attention_size=3)
    >>> memory = decoder.prepare(Encoded(torch.zeros(2, 12, 6), grid=(3, 4)))
    >>> decoder(torch.tensor([[1, 4], [1, 7]]), memory).log_probabilities.shape
    torch.Size([2, 2, 9])
    """
    if like is not None and like not in get_args(Like):
        raise UnsupportedError(f"like={like!r} must be {', '.join(map(repr, get_args(Like)))}, or None.")
    if attention is None:
        attention = _attention(size, memory_size, attention_size, hard, mix, gate, like)
    elif hard or mix or gate != "default":
        raise UnsupportedError(
            "hard, mix and gate are options of the attention that is built here; leave out attention."
        )
    embedding = TokenEmbedding(
        num_tokens, embedding_size, padding=bos if like == "arctic" else padding, unknown=min(unknown, num_tokens - 1)
    )
    options: dict[str, Any] = {"attention": attention, "order": "attend_then_recur"}
    width = embedding_size
    if like == "bilinear":
        options = {"attention": attention, "order": "recur_then_attend", "input_feeding": False}
        width, options["readout"] = size, "tanh"
    elif like == "sgrvinod":
        width, options["readout"] = size, "state"
    else:
        options["readout"] = DeepReadout(
            size, embedding_size=embedding_size, context_size=attention.context_size, tanh=like == "arctic"
        )
    inputs = {name: option for name, option in options.items() if name != "readout"}
    stack = RecurrentStack(
        RecurrentDecoder.input_size(embedding_size, size, **inputs), size, num_layers, cell=cell, dropout=dropout
    )
    bridge = Bridge(memory_size, stack, BRIDGES[like])
    return RecurrentDecoder(
        embedding, stack, TokenHead(width, num_tokens, never=never), bridge, dropout=dropout, **options
    )


def _attention(
    size: int, memory_size: int, attention_size: int, hard: bool, mix: float, gate: Any, like: Like | None
) -> AbstractAttention:
    if like == "bilinear":
        if hard or mix or gate not in ("default", None):
            raise UnsupportedError("like='bilinear' is soft attention without a gate: leave out hard, mix and gate.")
        return luong(query_size=size, memory_size=memory_size, score="general")
    if gate == "default":
        gate = "vector" if like == "sgrvinod" else "scalar"
    rectified: Any = "sgrvinod" if like == "sgrvinod" else None
    return show_attend_tell(
        query_size=size,
        memory_size=memory_size,
        size=attention_size,
        hard=hard,
        mix=mix,
        gate=gate,
        like=rectified,
    )


def from_sgrvinod(
    weights: Mapping[str, Tensor], *, padding: int | None = None, never: Sequence[int] = (), dropout: float = 0.0
) -> RecurrentDecoder:
    """A decoder with the weights of sgrvinod's `DecoderWithAttention`, equal to it up to rounding.

    Args:
        weights: its `state_dict()`.
        padding, never: as in `captioner`; `word_map` of that program says which ids `<pad>` and `<start>` have.
        dropout: in later training; there 0.5.

    Raises:
        DataError: for weights that are missing, of other shapes, or left over.
    """
    theirs = _Weights(weights)
    projections = {side: theirs.linear(f"attention.{side}_att") for side in ("encoder", "decoder", "full")}
    first = [theirs.linear(f"init_{name}") for name in "hc"]
    cell = [theirs.take(f"decode_step.{kind}_{side}") for kind in ("weight", "bias") for side in ("ih", "hh")]
    embedding, gate, head = theirs.take("embedding.weight"), theirs.linear("f_beta"), theirs.linear("fc")
    theirs.finish()
    return _loaded(
        "sgrvinod",
        {
            "embedding.table.weight": embedding,
            "attention.score.additive.query_projection.weight": projections["decoder"][0],
            # tanh or rectifier see the sum of both biases; one of v moves all energies alike
            "attention.score.additive.query_projection.bias": projections["decoder"][1] + projections["encoder"][1],
            "attention.score.additive.key_projection.weight": projections["encoder"][0],
            "attention.score.additive.v": projections["full"][0],
            "attention.read.gate.weight": gate[0],
            "attention.read.gate.bias": gate[1],
            **_cell(*cell),
            "bridge.maps.0.weight": torch.cat([weight for weight, _ in first]),
            "bridge.maps.0.bias": torch.cat([bias for _, bias in first]),
            "head.projection.weight": head[0],
            "head.projection.bias": head[1],
        },
        padding=padding,
        never=never,
        dropout=dropout,
    )


def from_arctic(weights: Mapping[str, Any], *, never: Sequence[int] = (), dropout: float = 0.0) -> RecurrentDecoder:
    """A decoder with the weights of arctic-captions, equal to it up to rounding; of soft attention.

    Its captions begin with a vector of zeros, which has no id there. Here it is that of a new token, number N, which is
    never predicted: with it captions begin (`bos`). Id 0 is the end of a caption, 1 the unknown word.

    Args:
        weights: the arrays of its `.npz` file, of a model with selector, prev2out and ctx2out, one LSTM layer and one
            layer in each network beside it, as its published models.
        never: further ids that are never predicted.
        dropout: in later training.

    Raises:
        DataError: for weights that are missing, of other shapes, or left over.
    """
    theirs = _Weights({name: torch.as_tensor(value) for name, value in weights.items() if name not in ARCTIC_RECORDS})
    table = theirs.take("Wemb")
    first = [theirs.product(f"ff_{name}") for name in ("state", "memory")]
    state, context, head = (theirs.product(f"ff_{name}") for name in ("logit_lstm", "logit_ctx", "logit"))
    ih, hh, of_context, bias = (theirs.take(f"decoder_{name}") for name in ("W", "U", "Wc", "b"))
    keys, keys_bias, query, v, _ = (theirs.take(f"decoder_{n}") for n in ("Wc_att", "b_att", "Wd_att", "U_att", "c_tt"))
    gate, gate_bias = theirs.take("decoder_W_sel"), theirs.take("decoder_b_sel")
    theirs.finish()

    def gates(columns: Tensor) -> Tensor:
        """(…, 4·D) with the gates i, f, o, g as (4·D, …) with i, f, g, o."""
        i, f, o, g = columns.t().chunk(4)
        return torch.cat([i, f, g, o])

    nothing = table.new_zeros(1, table.shape[1])
    return _loaded(
        "arctic",
        {
            "embedding.table.weight": torch.cat([table, nothing]),
            "attention.score.query_projection.weight": query.t(),
            "attention.score.query_projection.bias": keys_bias.flatten(),
            "attention.score.key_projection.weight": keys.t(),
            "attention.score.v": v.reshape(1, -1),
            "attention.read.gate.weight": gate.reshape(1, -1),
            "attention.read.gate.bias": gate_bias.reshape(1),
            **_cell(gates(torch.cat([ih, of_context])), gates(hh), gates(bias), torch.zeros_like(bias)),
            "bridge.maps.0.weight": torch.cat([weight for weight, _ in first]),
            "bridge.maps.0.bias": torch.cat([bias for _, bias in first]),
            "readout.of_state.weight": state[0],
            "readout.of_state.bias": state[1] + context[1],
            "readout.of_context.weight": context[0],
            "head.projection.weight": torch.cat([head[0], nothing]),
            "head.projection.bias": torch.cat([head[1], head[1].new_zeros(1)]),
        },
        bos=len(table),
        never=(len(table), *never),
        dropout=dropout,
        unknown=1,
    )


ARCTIC_RECORDS = ("history_errs", "zipped_params")
"""What its files have beside weights."""


class _Weights:
    """Weights by name, of which each is to be taken."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.left = dict(weights)

    def take(self, name: str) -> Tensor:
        """A weight, or DataError."""
        if name not in self.left:
            raise DataError(f"There is no weight {name}; there are {', '.join(sorted(self.left)) or 'none'}.")
        return self.left.pop(name).detach()

    def linear(self, name: str) -> tuple[Tensor, Tensor]:
        """W and b of a linear layer of torch."""
        return self.take(f"{name}.weight"), self.take(f"{name}.bias")

    def product(self, name: str) -> tuple[Tensor, Tensor]:
        """W and b of x W + b, W transposed as torch has it."""
        return self.take(f"{name}_W").t(), self.take(f"{name}_b")

    def finish(self) -> None:
        """DataError if any was not taken."""
        if self.left:
            raise DataError(f"Weights that nothing here computes: {', '.join(sorted(self.left))}.")


def _cell(*weights: Tensor) -> dict[str, Tensor]:
    """The weights of an LSTM layer by our names."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"stack.layers.0.{name}_l0": weight for name, weight in zip(names, weights, strict=True)}


def _loaded(like: Like, weights: Mapping[str, Tensor], **options: Any) -> RecurrentDecoder:
    """A captioner with these weights, in float32 or, as they are, in float64."""
    table, hidden = weights["embedding.table.weight"], weights["stack.layers.0.weight_hh_l0"]
    score = "attention.score.additive" if like == "sgrvinod" else "attention.score"
    width, memory_size = weights[f"{score}.key_projection.weight"].shape
    decoder = captioner(
        len(table),
        memory_size=memory_size,
        embedding_size=table.shape[1],
        size=hidden.shape[1],
        attention_size=width,
        like=like,
        **options,
    )
    if all(weight.dtype == torch.float64 for weight in weights.values()):
        decoder.double()
    parameters = dict(decoder.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            if weight.shape != parameters[name].shape:
                raise DataError(f"{name} needs {tuple(parameters[name].shape)}; the weight is {tuple(weight.shape)}.")
            parameters[name].copy_(weight)
    assert set(weights) == set(parameters), set(parameters) ^ set(weights)
    return decoder
