"""The plain way, written by hand in torch: a loop of steps, tanh of all pairs, tiled beams.

It uses the weights of a model of regard, so that both do the same job, and shares no code with it: the model is judged
by its results.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import Encoded, EncoderDecoder

Pair = tuple[Tensor, Tensor]


class PlainDecoder:
    """An LSTM decoder with additive attention after the cell; with or without input feeding.

    Args:
        decoder: the decoder whose weights are used.
    """

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder
        (layer,) = decoder.stack.layers
        self.cell = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        self.score = decoder.attention.score

    def keys(self, memory: Tensor) -> Tensor:
        """(B, S, D), computed once per source."""
        return F.linear(memory, self.score.key_projection.weight)

    def step(self, embedded: Tensor, state: Pair, feed: Tensor | None, keys: Tensor, memory: Tensor) -> tuple[Any, ...]:
        """The attentional output, and the cell's new state."""
        cell_input = embedded if feed is None else torch.cat([embedded, feed], -1)
        h, c = torch.lstm_cell(cell_input, state, *self.cell)
        query = F.linear(h, self.score.query_projection.weight)
        weights = torch.softmax(torch.tanh(query[:, None] + keys) @ self.score.v[0], -1)
        context = torch.bmm(weights[:, None], memory)[:, 0]
        return torch.tanh(self.decoder.readout(torch.cat([h, context], -1))), (h, c)

    def run(self, embedded: Tensor, memory: Tensor, state: Pair) -> Tensor:
        """All steps, teacher-forced: (B, T, D)."""
        keys, outputs = self.keys(memory), []
        feeds = self.decoder.input_feeding
        feed = torch.zeros_like(state[0]) if feeds else None
        for x in embedded.unbind(1):
            output, state = self.step(x, state, feed, keys, memory)
            feed = output if feeds else None
            outputs.append(output)
        return torch.stack(outputs, 1)

    def run_at_once(self, embedded: Tensor, memory: Tensor, state: Pair) -> Tensor:
        """The same without input feeding: torch's LSTM over all steps, then tanh of all pairs of all steps."""
        (layer,) = self.decoder.stack.layers
        h, _ = layer(embedded, tuple(part[None].contiguous() for part in state))  # cuDNN takes no views
        query = F.linear(h, self.score.query_projection.weight)
        energies = torch.tanh(query[:, :, None] + self.keys(memory)[:, None]) @ self.score.v[0]
        context = torch.bmm(torch.softmax(energies, -1), memory)
        return torch.tanh(self.decoder.readout(torch.cat([h, context], -1)))

    def logits(self, features: Tensor) -> Tensor:
        """The logits of the output layer; -inf for tokens that it never predicts."""
        head = self.decoder.head
        bias = head.projection.bias.masked_fill(head.never, float("-inf"))
        return F.linear(features, head.projection.weight, bias)


def encode(model: EncoderDecoder, source: Tensor) -> tuple[Tensor, Pair]:
    """The memory (B, S, 2·D) of sources of one length, and the decoder's first state."""
    (layer,) = model.encoder.stack.layers
    memory, final = layer(F.embedding(source, model.encoder.embedding.table.weight))
    states = tuple(part.transpose(0, 1).flatten(1) for part in final)
    ((h, c),) = model.decoder.bridge(Encoded(memory, None, (states,)))
    return memory, (h, c)


def training_step(
    model: EncoderDecoder, source: Tensor, inputs: Tensor, targets: Tensor, *, learning_rate: float, clip_norm: float
) -> Callable[[], dict[str, Tensor]]:
    """A step on a copy of the model: forward, backward, clipping, AdamW. Returns the summed loss and the gradients."""
    copied = copy.deepcopy(model)
    decoder = PlainDecoder(copied.decoder)
    optimizer = torch.optim.AdamW(copied.parameters(), lr=learning_rate, weight_decay=0.0, fused=True)

    def step() -> dict[str, Tensor]:
        optimizer.zero_grad()
        memory, state = encode(copied, source)
        embedded = F.embedding(inputs, copied.decoder.embedding.table.weight)
        logits = decoder.logits(decoder.run(embedded, memory, state))
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(copied.parameters(), clip_norm)
        optimizer.step()
        return {"loss": loss.detach() * targets.numel(), **gradients(copied)}

    return step


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """The gradients by the names of the parameters."""
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@torch.inference_mode()
def beam(model: EncoderDecoder, source: Tensor, *, width: int, length: int, bos: int, eos: int) -> Tensor:
    """Log-probabilities (B,) of the best outputs of this length, by a beam search with tiled memories."""
    decoder = PlainDecoder(model.decoder)
    memory, state = encode(model, source)
    batch = len(source)
    memory, h, c = (x.repeat_interleave(width, 0) for x in (memory, *state))
    keys, feed = decoder.keys(memory), torch.zeros_like(h)
    tokens = torch.full((batch * width,), bos, device=memory.device)
    totals = memory.new_full((batch, width), float("-inf"))
    totals[:, 0] = 0
    first = width * torch.arange(batch, device=memory.device)[:, None]
    for _ in range(length):
        embedded = F.embedding(tokens, model.decoder.embedding.table.weight)
        output, (h, c) = decoder.step(embedded, (h, c), feed, keys, memory)
        log_probabilities = decoder.logits(output).log_softmax(-1)
        log_probabilities[:, eos] = float("-inf")
        candidates = (totals[..., None] + log_probabilities.view(batch, width, -1)).flatten(1)
        totals, indices = candidates.topk(width)
        rows = (first + indices // log_probabilities.shape[1]).flatten()
        tokens = (indices % log_probabilities.shape[1]).flatten()
        h, c, feed = h[rows], c[rows], output[rows]
    return totals[:, 0]
