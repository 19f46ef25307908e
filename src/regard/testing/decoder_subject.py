"""The subject of the laws of decoders: a decoder, its sources and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard import tree
from regard.models import DecoderOutput
from regard.testing.assertion import equally_wide


@dataclass(frozen=True)
class DecoderSubject:
    """A decoder under test, whose inputs are tokens (`num_tokens`) or values (`num_features`).

    Sentence b has the same inputs in any batch, drawn from its own seed.
    """

    decoder: Any
    sources: tuple[Any, ...]
    encode: Callable[[Sequence[Any], int], Any]
    num_tokens: int | None
    num_features: int | None
    bos: int
    eos: int
    tolerance: float = 1e-10

    @property
    def has_tokens(self) -> bool:
        """Whether its outputs are log-probabilities, which can be searched."""
        return self.num_tokens is not None

    def prepare(self, sentences: Sequence[int], padding: int = 0, sources: Sequence[Any] | None = None) -> Any:
        """The memory of these sentences, or of `sources` if given."""
        sources = [self.sources[b] for b in sentences] if sources is None else sources
        return self.decoder.prepare(self.encode(sources, padding))

    def inputs(self, rows: Sequence[int], steps: int) -> Tensor:
        """The inputs of these rows (seeds): (R, T) ids that begin with bos, or (R, T, F) values."""
        inputs = []
        for row in rows:
            generator = torch.Generator().manual_seed(100 + row)
            if self.num_tokens is not None:
                ids = torch.randint(self.num_tokens, (steps,), generator=generator)
                ids[:1] = self.bos
                inputs.append(ids)
            else:
                like = next(leaf for leaf in tree.leaves(self.sources[0]) if leaf.is_floating_point())
                inputs.append(
                    torch.randn(steps, self.num_features or 1, generator=generator, dtype=torch.float64).to(like)
                )
        return torch.stack(inputs)

    def batch(self, steps: int) -> tuple[Any, Tensor]:
        """The memory of all sentences and an input sequence for each."""
        sentences = range(len(self.sources))
        return self.prepare(sentences), self.inputs(sentences, steps)

    def loop(
        self, memory: Any, inputs: Tensor, *, num_hypotheses: int = 1, state: Any = None
    ) -> tuple[DecoderOutput, Any]:
        """The loop of `step` over inputs (R, T) or (R, T, F), with alignments, and the final state."""
        state = self.decoder.initial_state(memory, num_hypotheses) if state is None else state
        outputs = []
        for x in inputs.unbind(1):
            output, state = self.decoder.step(x, memory, state, alignment=True)
            outputs.append(output)
        first = outputs[0]
        return DecoderOutput(
            _stack([o.log_probabilities for o in outputs]),
            _stack([o.values for o in outputs]),
            {name: torch.stack(equally_wide(*(o.alignments[name] for o in outputs)), 2) for name in first.alignments},
            {name: torch.stack([o.auxiliary[name] for o in outputs], 1) for name in first.auxiliary},
        ), state


def seen(output: DecoderOutput) -> dict[str, Tensor]:
    """All tensors of an output by name; alignments are (R, T, H, S), so that rows and steps come first."""
    tensors = {
        "log_probabilities": output.log_probabilities,
        "values": output.values,
        **{f"auxiliary {name}": tensor for name, tensor in output.auxiliary.items()},
        **{f"alignment {name}": tensor.transpose(1, 2) for name, tensor in output.alignments.items()},
    }
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _stack(tensors: Sequence[Tensor | None]) -> Tensor | None:
    present = [tensor for tensor in tensors if tensor is not None]
    return torch.stack(present, 1) if present else None
