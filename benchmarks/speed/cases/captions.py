"""Decoders over the cells of an image: a training pass, and a beam."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import plane_coverage
from regard.decoding import Search, search
from regard.models import Encoded, captioner
from speed.case import OURS, PLAIN, Aim, Answer, Case, Contest, draw, draw_integers, with_gradients

Pair = tuple[Tensor, Tensor]
BOS, EOS = 1, 2


class PlainCaptioner:
    """A captioner step by step in torch: additive attention, coverage of the plane or none, a gate, a deep readout.

    Args:
        decoder: the decoder whose weights are used; no code is shared.
        grid: (h, w).
    """

    def __init__(self, decoder: Any, grid: tuple[int, int]) -> None:
        self.decoder, self.grid = decoder, grid
        (layer,) = decoder.stack.layers
        self.cell = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        self.score, self.gate = decoder.attention.score, decoder.attention.read.gate
        self.is_covered = hasattr(self.score, "filters")
        self.content = self.score.content if self.is_covered else self.score

    def first(self, memory: Tensor) -> tuple[Tensor, Pair, Tensor]:
        """The keys (B, S, A), the first state, and the coverage (B, S)."""
        first = torch.tanh(self.decoder.bridge.maps[0](memory.mean(1))).chunk(2, 1)
        return (
            F.linear(memory, self.content.key_projection.weight),
            (first[0], first[1]),
            torch.zeros_like(memory[..., 0]),
        )

    def step(
        self, x: Tensor, state: Pair, covered: Tensor, keys: Tensor, memory: Tensor
    ) -> tuple[Tensor, Pair, Tensor]:
        """The head's input, the cell's new state and the new coverage."""
        h, _ = state
        hidden = self.content.query_projection(h)[:, None] + keys
        if self.is_covered:
            features = self.score.filters(covered.unflatten(1, self.grid)[:, None])
            hidden = hidden + features.flatten(2).transpose(1, 2) @ self.score.location_projection[0]
        weights = torch.softmax(torch.tanh(hidden) @ self.content.v[0], -1)
        context = torch.sigmoid(self.gate(h)) * torch.bmm(weights[:, None], memory)[:, 0]
        h, c = torch.lstm_cell(torch.cat([x, context], -1), state, *self.cell)
        readout = self.decoder.readout
        return x + readout.of_state(h) + readout.of_context(context), (h, c), covered + weights

    def run(self, inputs: Tensor, memory: Tensor) -> Tensor:
        """All steps, teacher-forced: the logits (B, T, N)."""
        keys, state, covered = self.first(memory)
        outputs = []
        for x in self.decoder.embedding.table(inputs).unbind(1):
            output, state, covered = self.step(x, state, covered, keys, memory)
            outputs.append(output)
        return self.decoder.head.projection(torch.stack(outputs, 1))

    @torch.inference_mode()
    def beam(self, memory: Tensor, *, width: int, length: int) -> Tensor:
        """Log-probabilities (B,) of the best outputs of this length, by a beam search with tiled memories."""
        batch = len(memory)
        memory = memory.repeat_interleave(width, 0)
        keys, (h, c), covered = self.first(memory)
        tokens = torch.full((batch * width,), BOS, device=memory.device)
        totals = memory.new_full((batch, width), float("-inf"))
        totals[:, 0] = 0
        first = width * torch.arange(batch, device=memory.device)[:, None]
        for _ in range(length):
            output, (h, c), covered = self.step(self.decoder.embedding.table(tokens), (h, c), covered, keys, memory)
            said = self.decoder.head.projection(output).log_softmax(-1)
            said[:, EOS] = float("-inf")
            candidates = (totals[..., None] + said.view(batch, width, -1)).flatten(1)
            totals, indices = candidates.topk(width)
            rows = (first + indices // said.shape[1]).flatten()
            tokens = (indices % said.shape[1]).flatten()
            h, c, covered = h[rows], c[rows], covered[rows]
        return totals[:, 0]


def build(dtype: torch.dtype, M: int, E: int, D: int, A: int, N: int, F: int, W: int) -> Any:
    """The decoder, with coverage of a plane by F filters of W by W, or without where F is 0; the same each time."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"query_size": D, "memory_size": M, "size": A}
    attention = plane_coverage(**sizes, num_filters=F, kernel_size=W, gate="scalar") if F else None
    options: dict[str, Any] = {"embedding_size": E, "size": D, "attention_size": A, "attention": attention}
    return captioner(N, memory_size=M, padding=None, **options).to(dtype)


def training_pass(
    dtype: torch.dtype, *, B: int, T: int, h: int, w: int, M: int, E: int, D: int, A: int, N: int, F: int, W: int
) -> Contest:
    """The loss of captions of T tokens over grids of h by w cells, and the gradients of memory and all weights."""
    decoder = build(dtype, M, E, D, A, N, F, W)
    memory = draw(B, h * w, M).float().to(dtype).requires_grad_()
    tokens = draw_integers(3, N, B, T + 1)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    leaves = {"memory": memory, **dict(decoder.named_parameters())}
    plainly = PlainCaptioner(decoder, (h, w))

    def ours() -> Answer:
        loss, _ = decoder.cross_entropy(inputs, decoder.prepare(Encoded(memory, grid=(h, w))), targets)
        return with_gradients("loss", loss, leaves)

    def plain() -> Answer:
        logits = plainly.run(inputs, memory)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        return with_gradients("loss", loss, leaves)

    return Contest({OURS: ours, PLAIN: plain}, shares_terms=True)


def beam(
    dtype: torch.dtype,
    *,
    B: int,
    K: int,
    T: int,
    h: int,
    w: int,
    M: int,
    E: int,
    D: int,
    A: int,
    N: int,
    F: int,
    W: int,
) -> Contest:
    """A beam search of width K for captions of T tokens over grids of h by w cells."""
    decoder = build(dtype, M, E, D, A, N, F, W).eval()
    memory = draw(B, h * w, M).float().to(dtype)
    options = Search(beam=K, length_penalty="none", min_length=T)
    plainly = PlainCaptioner(decoder, (h, w))

    def ours() -> Answer:
        with torch.inference_mode():
            prepared = decoder.prepare(Encoded(memory, grid=(h, w)))
        hypotheses = search(decoder, prepared, options, bos=BOS, eos=EOS, max_length=T)
        return {"log-probabilities": memory.new_tensor([best.log_probability for (best,) in hypotheses])}

    return Contest({OURS: ours, PLAIN: lambda: {"log-probabilities": plainly.beam(memory, width=K, length=T)}})


_SIZES = {"B": 16, "T": 40, "h": 8, "w": 30, "M": 256, "E": 256, "D": 256, "A": 256, "N": 120}
_QUICK = {"B": 3, "T": 5, "h": 3, "w": 4, "M": 16, "E": 16, "D": 16, "A": 16, "N": 20}
_FILTERS, _FEW = {"F": 128, "W": 11}, {"F": 4, "W": 3}
_NONE = {"F": 0, "W": 0}

CAPTIONS = (
    Case(
        "formula",
        "decoder's training pass over images: LSTM, coverage of the plane, a gate, a deep readout",
        training_pass,
        {**_SIZES, **_FILTERS},
        {**_QUICK, **_FEW},
        aims=(Aim(PLAIN, 1.6),),
        measures_memory=True,
    ),
    Case(
        "caption",
        "the same without coverage: Show, Attend and Tell's",
        training_pass,
        {**_SIZES, "T": 20, "h": 14, "w": 14, "M": 512, "N": 10000, **_NONE},
        {**_QUICK, **_NONE},
        aims=(Aim(PLAIN, 1.4),),
    ),
    Case(
        "formula-beam",
        "beam of 5 over images with coverage of the plane",
        beam,
        {**_SIZES, "B": 4, "K": 5, **_FILTERS},
        {**_QUICK, "K": 3, **_FEW},
        aims=(Aim(PLAIN, 1.6),),
    ),
)
