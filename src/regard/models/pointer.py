"""The pointer: a decoder that can copy words of its source."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import logsigmoid, pad

from regard.attention import Parallel
from regard.errors import ShapeError, UnsupportedError
from regard.models import searches
from regard.models.contract import DecoderOutput, Encoded
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentFeatures, RecurrentMemory, RecurrentState
from regard.ops import log_add, safe_log
from regard.ops.eligibility import EXAMPLE_ROWS
from regard.shapes import Bool, Int, describe, num_hypotheses


@dataclass(frozen=True, slots=True)
class PointerMemory:
    """The core's memory, the extended ids of the source, and which of the X extended ids each source has."""

    core: RecurrentMemory
    source_ids: Int[Tensor, "B S"]
    extension: Bool[Tensor, "B X"]


class PointerDecoder(nn.Module):
    """A recurrent decoder that generates a token of its vocabulary or copies a token of the source.

    p = σ(w [c; s; x] + b),  P(y) = p · P_vocabulary(y) + (1 - p) · Σ_{j: source_j = y} α_j, with c the context, s the
    cell's state, x the embedded input and α the alignment, the mean of its heads.

    Source tokens outside the vocabulary of N have extended ids N … N + X - 1, per sentence. Log-probabilities have
    width N + X and are -∞ for extended ids that a source lacks; as an input an extended id is embedded as unknown. If α
    sums to less than 1 (an empty support, MoChA), the rest goes to generation; if it sums to more (GMM), it is divided
    by its sum. p is `auxiliary["generate"]`.

    Args:
        core: with attention over one source, in either order, and a `TokenEmbedding`.

    Source: See, Liu & Manning 2017 (arXiv 1704.04368), section 2.2 (here s_t is only the h of an LSTM).
    """

    def __init__(self, core: RecurrentDecoder) -> None:
        super().__init__()
        if core.attention is None or isinstance(core.attention, Parallel) or core.continuous:
            raise UnsupportedError("A pointer copies tokens by one alignment: it needs attention over one source.")
        self.core = core
        self.main_attention = core.main_attention
        self.gate = nn.Linear(core.attention.context_size + core.stack.size + core.embedding.size, 1)

    def prepare(self, encoded: Encoded) -> PointerMemory:
        """Everything that depends only on the source, B rows.

        Raises:
            UnsupportedError: without `source_ids`.
            ShapeError: if they do not fit the memory or the extension.
        """
        ids, extension = encoded.source_ids, encoded.extension
        if ids is None:
            raise UnsupportedError("A pointer copies by id: give Encoded(source_ids=...), (B, S) extended ids.")
        shape = encoded.memory.shape[:2]
        if extension is None:
            extension = ids.new_zeros(len(ids), 0, dtype=torch.bool)
        if ids.shape != shape or extension.dim() != 2 or len(extension) != shape[0]:
            shown = {"memory": ("B S M", encoded.memory), "source_ids": ("B S", ids), "extension": ("B X", extension)}
            raise ShapeError("source_ids must be (B, S) and extension (B, X).\n" + describe(shown))
        if encoded.mask is not None:
            ids = ids.masked_fill(~encoded.mask, 0)
        num_tokens = self.core.embedding.table.num_embeddings
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= num_tokens + extension.shape[1]):
            raise ShapeError(
                f"source_ids must lie between 0 and N + X - 1, N={num_tokens} and X={extension.shape[1]}; got "
                f"{int(ids.min())} to {int(ids.max())}. The extension needs a column for every extended id."
            )
        return PointerMemory(self.core.prepare(encoded), ids, extension)

    def initial_state(self, memory: PointerMemory, num_hypotheses: int = 1) -> RecurrentState:
        """The state before the first step."""
        return self.core.initial_state(memory.core, num_hypotheses)

    def step(
        self,
        inputs: Tensor,
        memory: PointerMemory,
        state: RecurrentState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, RecurrentState]:
        """One output step from inputs (R,), extended ids."""
        features, state = self.core.advance(inputs, memory.core, state, alignment=True, generator=generator)
        return self._output(features, memory, alignment), state

    def for_search(self, memory: PointerMemory, num_rows: int) -> tuple[PointerDecoder, PointerMemory]:
        """A twin whose steps are quicker for as many rows, without gradients, and the memory for them."""
        return searches.take(searches.PACKED, self, memory, num_rows)

    def forward(
        self, inputs: Tensor, memory: PointerMemory, *, alignment: bool = False, generator: Generator | None = None
    ) -> DecoderOutput:
        """All steps, teacher-forced: inputs (B, T), extended ids."""
        features = self.core.run(inputs, memory.core, alignment=True, generator=generator)
        return self._output(features, memory, alignment)

    def explain(self, *, rows: int = EXAMPLE_ROWS, device: str | None = None) -> str:
        """Which paths a training pass and a search take and why, as of a `RecurrentDecoder`."""
        return "; ".join(self.paths(rows=rows, device=device).values())

    def paths(self, *, rows: int = EXAMPLE_ROWS, device: str | None = None) -> dict[str, str]:
        """What `explain` says, of the `training` and of the `search`."""
        device = device or next(self.parameters()).device.type
        return {
            "training": self.core._explain_training(device),
            "search": searches.explain(searches.PACKED, self, rows, device),
        }

    def _output(self, features: RecurrentFeatures, memory: PointerMemory, alignment: bool) -> DecoderOutput:
        output = self.core.say(features)
        assert output.log_probabilities is not None
        assert features.context is not None
        assert self.core.attention is not None
        weights = features.alignment.mean(1).to(output.log_probabilities.dtype)
        odds = self.gate(torch.cat([features.context, features.cell, features.embedded], -1)).to(weights.dtype)
        generate, copy = logsigmoid(odds), logsigmoid(-odds)
        total = weights.sum(-1, keepdim=True)
        if self.core.attention.is_normalised:
            rest = (total == 0).to(weights.dtype)
        else:
            weights, rest = weights / total.clamp(min=1), (1 - total).clamp(min=0)
        num_extended = memory.extension.shape[1]
        copied = _mass(weights, memory.source_ids, output.log_probabilities.shape[-1] + num_extended)
        generated = log_add(generate, copy + safe_log(rest)) + output.log_probabilities
        return replace(
            output,
            log_probabilities=log_add(pad(generated, (0, num_extended), value=float("-inf")), copy + safe_log(copied)),
            alignments=output.alignments if alignment else {},
            auxiliary={**(output.auxiliary if alignment else {}), "generate": generate.exp()[..., 0]},
        )


def _mass(weights: Tensor, ids: Tensor, width: int) -> Tensor:
    """Weights (R, S) or (B, T, S) summed by id (B, S): (R, width) or (B, T, width). Ids are shared, not tiled."""
    batch, source = ids.shape
    rows = weights.shape[1] if weights.dim() == 3 else num_hypotheses(weights.shape[0], batch)
    mass = weights.new_zeros(batch, rows, width)
    mass = mass.scatter_add(-1, ids[:, None].expand(-1, rows, -1), weights.reshape(batch, rows, source))
    return mass.view(*weights.shape[:-1], width)
