"""arctic-captions: captioners with its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.interop.captioners import CaptionerWeights, cell_weights, load_captioner
from regard.models import RecurrentDecoder
from regard.models.captioner import CaptionerForm

CAPTIONER = CaptionerForm(readout="deep_tanh", zero_start=True)
"""The published models, with selector, prev2out and ctx2out: õ = tanh(…) before L_o; the vector of `bos` is 0."""
RECORDS = ("history_errs", "zipped_params")
"""Entries of its files that are not weights."""


def from_arctic(weights: Mapping[str, Any], *, never: Sequence[int] = (), dropout: float = 0.0) -> RecurrentDecoder:
    """A decoder with the weights of arctic-captions with soft attention, equal to it up to rounding.

    Its captions begin with a vector of zeros without an id. Here it is that of a new token N (`bos`), which is never
    predicted. Id 0 is the end of a caption, 1 the unknown word.

    Args:
        weights: the arrays of the `.npz` file of a model with selector, prev2out and ctx2out, one LSTM layer, and one
            layer in each of the other networks, as the published models.
        never: further ids that are never predicted.
        dropout: in later training.

    Raises:
        DataError: for weights that are missing, of other shapes, or left over.
    """
    theirs = CaptionerWeights({name: torch.as_tensor(value) for name, value in weights.items() if name not in RECORDS})
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
    return load_captioner(
        "arctic",
        {
            "embedding.table.weight": torch.cat([table, nothing]),
            "attention.score.query_projection.weight": query.t(),
            "attention.score.query_projection.bias": keys_bias.flatten(),
            "attention.score.key_projection.weight": keys.t(),
            "attention.score.v": v.reshape(1, -1),
            "attention.read.gate.weight": gate.reshape(1, -1),
            "attention.read.gate.bias": gate_bias.reshape(1),
            **cell_weights(gates(torch.cat([ih, of_context])), gates(hh), gates(bias), torch.zeros_like(bias)),
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
