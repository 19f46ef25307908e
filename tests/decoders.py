"""Toy decoders whose every answer is known, and the slow, plain ways to the same results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.models.contract import DecoderOutput

BOS = 0


class HistoryDecoder:
    """Says what a hash of the source and of every token fed so far says; its state is the tokens fed, growing.

    "history" is an alignment of growing width that shows the tokens fed, "main" has two heads over the source.
    """

    main_attention = "main"

    def __init__(self, num_tokens: int, seed: int, *, scale: float = 2.0, dtype: torch.dtype = torch.float64) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.rates = torch.rand(num_tokens, generator=draw, dtype=torch.float64) * 9 + 1
        self.phases = torch.rand(num_tokens, generator=draw, dtype=torch.float64) * 6
        self.scale, self.dtype = scale, dtype

    def prepare(self, encoded: Sequence[Tensor]) -> dict[str, Tensor]:
        """Sources of different length, (S,) each; what pads them must not be seen."""
        lengths = torch.tensor([len(source) for source in encoded])
        values = torch.nn.utils.rnn.pad_sequence(list(encoded), batch_first=True, padding_value=77.0)
        return {"values": values, "mask": torch.arange(values.shape[1]) < lengths[:, None]}

    def initial_state(self, memory: dict[str, Tensor], num_hypotheses: int = 1) -> dict[str, Tensor]:
        values = memory["values"]
        return {"history": torch.zeros(len(values) * num_hypotheses, 0, dtype=torch.long, device=values.device)}

    def say(self, fed: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Log-probabilities (R, N) and alignments after feeding (R, t + 1) tokens, bos first."""
        code = (values * mask).sum(1)
        for token in fed.unbind(1):
            code = torch.sin(code * 1.7 + token * 2.3 + 0.4) * 3
        logits = self.scale * torch.sin(code[:, None] * self.rates.to(code) + self.phases.to(code))
        energies = torch.sin(code[:, None, None] * torch.tensor([[2.0], [5.0]]).to(code) + 3 * values[:, None])
        weights = energies.masked_fill(~mask[:, None], -math.inf).softmax(-1)
        return logits.log_softmax(1).to(self.dtype), {"main": weights, "history": fed[:, None].double()}

    def step(
        self, inputs: Tensor, memory: Any, state: Any, *, alignment: bool = False, generator: Any = None
    ) -> tuple[DecoderOutput, Any]:
        width = len(inputs) // len(memory["values"])
        fed = torch.cat([state["history"], inputs[:, None]], 1)
        said, seen = self.say(fed, *(memory[k].repeat_interleave(width, 0) for k in ("values", "mask")))
        return DecoderOutput(log_probabilities=said, alignments=seen if alignment else {}), {"history": fed}

    def forward(self, inputs: Tensor, memory: Any, *, alignment: bool = False, generator: Any = None) -> DecoderOutput:
        steps = [self.say(inputs[:, : t + 1], memory["values"], memory["mask"]) for t in range(inputs.shape[1])]
        return DecoderOutput(
            log_probabilities=torch.stack([said for said, _ in steps], 1),
            alignments={"main": torch.stack([seen["main"] for _, seen in steps], 2)},
        )


class Altered:
    """A decoder with a change to what it says at a step: `change(log_probabilities, step)`."""

    def __init__(self, decoder: Any, change: Callable[[Tensor, int], Tensor]) -> None:
        self.decoder, self.change = decoder, change
        self.prepare, self.initial_state = decoder.prepare, decoder.initial_state

    def step(self, inputs: Tensor, memory: Any, state: Any, **options: Any) -> tuple[DecoderOutput, Any]:
        output, state = self.decoder.step(inputs, memory, state, **options)
        said = self.change(output.log_probabilities, state["history"].shape[1])
        return DecoderOutput(log_probabilities=said, alignments=output.alignments), state

    def forward(self, inputs: Tensor, memory: Any, **options: Any) -> DecoderOutput:
        output = self.decoder.forward(inputs, memory, **options)
        said = [self.change(step, t + 1) for t, step in enumerate(output.log_probabilities.unbind(1))]
        return DecoderOutput(log_probabilities=torch.stack(said, 1), alignments=output.alignments)


def without(token: int) -> Callable[[Tensor, int], Tensor]:
    """A change that makes a token impossible."""

    def change(said: Tensor, step: int) -> Tensor:
        said = said.clone()
        said[:, token] = -math.inf
        return said

    return change


def sources(count: int, seed: int = 0, longest: int = 6) -> list[Tensor]:
    """Sources of different length, one of them the longest."""
    draw = torch.Generator().manual_seed(seed)
    lengths = [longest, *torch.randint(1, longest + 1, (count - 1,), generator=draw).tolist()][:count]
    return [torch.randn(length, generator=draw, dtype=torch.float64) for length in lengths]


def next_step(decoder: Any, source: Tensor, prefixes: list[list[int]]) -> list[list[float]]:
    """The log-probabilities of the token after each prefix of one sentence."""
    if not prefixes:
        return []
    fed = torch.tensor([[BOS, *tokens] for tokens in prefixes])
    return decoder.forward(fed, decoder.prepare([source] * len(prefixes))).log_probabilities[:, -1].tolist()


def outputs(decoder: Any, source: Tensor, eos: int, max_length: int) -> Iterator[tuple[list[int], float]]:
    """Every output of a sentence with its log-probability: those that end, and those cut at the maximum length."""
    open_outputs: list[tuple[list[int], float]] = [([], 0.0)]
    for _ in range(max_length):
        longer = []
        for (tokens, total), said in zip(open_outputs, next_step(decoder, source, [t for t, _ in open_outputs])):
            longer += [([*tokens, token], total + value) for token, value in enumerate(said) if value > -math.inf]
        yield from (output for output in longer if output[0][-1] == eos)
        open_outputs = [output for output in longer if output[0][-1] != eos]
    yield from open_outputs


def score(log_probability: float, length: int, penalty: str, alpha: float) -> float:
    """The penalised score, once more."""
    if penalty == "gnmt":
        return log_probability * math.pow(6.0, alpha) / math.pow(5.0 + length, alpha)
    return log_probability / length ** {"none": 0, "average": 1, "power": alpha}[penalty]
