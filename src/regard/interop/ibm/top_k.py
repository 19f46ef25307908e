"""IBM's beam search, as a decoder around a decoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import tree
from regard.attention import Memory
from regard.config.search import Search
from regard.decoding import Hypothesis, SimpleDecoder, search
from regard.errors import ConfigError, UnsupportedError
from regard.interop.ibm.decoder import DecoderRNN, Function
from regard.interop.ibm.recurrent import Hidden
from regard.shapes import Bool, Float, Int


class TopKDecoder(nn.Module):
    """The k most probable sequences of a `DecoderRNN`, by this library's beam search.

    Finished sequences precede those cut at the maximum length, as in the original; the k are then ranked by their
    log-probabilities. Outputs, states and weights are computed by a further pass over the best sequences, with
    gradients. Call `.eval()` first: active dropout has other masks in that pass than in the search.

    The original does not run on torch 1.5 and later (it divides indices as floats). When more than k sequences had
    ended, those that ended first replaced the others regardless of probability; inputs must have `max_len` + 1
    symbols; and its "sequence" has all sequences of the first sentence.

    Args:
        k: the width of the beam, and the number of returned sequences.

    Raises:
        ConfigError: for a k below 1.

    >>> decoder = TopKDecoder(DecoderRNN(10, 7, 4, sos_id=1, eos_id=2).eval(), 3)
    >>> outputs, hidden, about = decoder(encoder_hidden=torch.zeros(1, 2, 4))
    >>> about["score"].shape, about["topk_sequence"][0].shape
    (torch.Size([2, 3]), torch.Size([2, 3, 1]))
    """

    def __init__(self, decoder_rnn: DecoderRNN, k: int) -> None:
        super().__init__()
        if not isinstance(k, int) or k < 1:
            raise ConfigError(f"k is {k!r}; it must be a whole number, 1 or more.")
        self.rnn = decoder_rnn
        self.k = k

    def forward(
        self,
        inputs: Int[Tensor, "B T"] | None = None,
        encoder_hidden: Hidden | None = None,
        encoder_outputs: Float[Tensor, "B S D"] | None = None,
        function: Function = functional.log_softmax,
        teacher_forcing_ratio: float = 0,
        retain_output_probs: bool = True,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[list[Float[Tensor, "B N"]], Hidden, dict[str, Any]]:
        """Log-probabilities (B, N) of each step of the best sequences, their states at the end, and a dictionary.

        Its keys, with T steps: "score" (B, k), best first; "topk_sequence", T tensors (B, k, 1); "topk_length", B lists
        of k numbers of steps up to and including the end symbol; "sequence", T tensors (B, 1), and "length", B numbers,
        of the best; "output", T tensors (B, k, N); "h_t", states (L, B, k, D) after each step; "inputs"; and, with
        attention, "attention_score", T tensors (B, k, S), which the original lacks. After its end a sequence continues
        with end symbols. If fewer than k sequences exist, the others have the score -∞ and length 0.

        Args:
            inputs: (B, T) ids, of which only T is read: there are T - 1 steps. If None, there are `max_len`.
            encoder_hidden, encoder_outputs, function, mask: as in `DecoderRNN`.
            teacher_forcing_ratio: only 0.
            retain_output_probs: whether outputs are returned; otherwise both lists are empty.

        Raises:
            UnsupportedError: for another `teacher_forcing_ratio`.
            RegardError: for a function whose results are no log-probabilities.
        """
        if teacher_forcing_ratio:
            raise UnsupportedError(f"teacher_forcing_ratio is {teacher_forcing_ratio}; in a beam search it must be 0.")
        inputs, max_length = self.rnn._validate_args(inputs, encoder_hidden, encoder_outputs, 0)
        batch = len(inputs)
        memory = self.rnn.prepare(encoder_outputs, mask)
        first = self._first(encoder_hidden, batch)
        beams = self._search(first, memory, function, max_length)
        device = inputs.device
        symbols = torch.full((batch, self.k, max_length), self.rnn.eos_id, dtype=torch.long, device=device)
        scores = torch.full((batch, self.k), -torch.inf, dtype=self.rnn.out.weight.dtype, device=device)
        lengths = [[0] * self.k for _ in range(batch)]
        for sentence, hypotheses in enumerate(beams):
            for rank, hypothesis in enumerate(sorted(hypotheses, key=lambda each: -each.log_probability)):
                lengths[sentence][rank] = len(hypothesis.tokens)
                symbols[sentence, rank, : len(hypothesis.tokens)] = hypothesis.tokens.to(device)
                scores[sentence, rank] = hypothesis.log_probability
        outputs, states, weights = self._force(symbols, first, memory, function)
        ends = torch.tensor(lengths, device=device).flatten().clamp(min=1) - 1
        last = tree.map(
            lambda *steps: torch.stack(steps)[ends, :, torch.arange(batch * self.k, device=device)], *states
        )
        hidden = tree.map(lambda h: h.unflatten(0, (batch, self.k))[:, 0].transpose(0, 1), last)
        by_beam: list[Tensor] = [step.unflatten(0, (batch, self.k)) for step in outputs] if retain_output_probs else []
        about: dict[str, Any] = {
            "inputs": inputs,
            "output": by_beam,
            "h_t": [tree.map(lambda h: h.unflatten(1, (batch, self.k)), state) for state in states],
            "score": scores,
            "topk_length": lengths,
            "topk_sequence": list(symbols[..., None].unbind(2)),
            "length": [row[0] for row in lengths],
            "sequence": list(symbols[:, 0, :, None].unbind(1)),
        }
        if memory is not None:
            about[self.rnn.KEY_ATTN_SCORE] = [step.unflatten(0, (batch, self.k)) for step in weights]
        return [step[:, 0] for step in by_beam], hidden, about

    def _first(self, encoder_hidden: Hidden | None, batch: int) -> Hidden:
        """The first states (L, B, D)."""
        state = self.rnn._init_state(encoder_hidden)
        if state is not None:
            return state
        zeros = self.rnn.out.weight.new_zeros(self.rnn.n_layers, batch, self.rnn.hidden_size)
        return (zeros, zeros) if self.rnn.rnn_cell is nn.LSTM else zeros

    def _search(
        self, first: Hidden, memory: Memory | None, function: Function, max_length: int
    ) -> list[list[Hypothesis]]:
        """The k best hypotheses of each sentence."""

        def step(ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
            log_probabilities, hidden, _ = self.rnn.steps(ids[:, None], tree.map(_swap, state), memory[0], function)
            return log_probabilities[:, 0], tree.map(_swap, hidden)

        rows = tree.map(_swap, first)
        decoder = SimpleDecoder(lambda _: ((memory, rows), rows), step, expand_memory=False)
        options = Search(beam=self.k, num_best=self.k, length_penalty="none")
        bos, eos = self.rnn.sos_id, self.rnn.eos_id
        return search(decoder, decoder.prepare(None), options, bos=bos, eos=eos, max_length=max_length)

    def _force(
        self, symbols: Int[Tensor, "B k T"], first: Hidden, memory: Memory | None, function: Function
    ) -> tuple[list[Tensor], list[Hidden], list[Tensor]]:
        """Teacher-forced outputs (B·k, N), states (L, B·k, D) and weights (B·k, S) of each step."""
        hidden: Hidden = tree.map(lambda h: h.repeat_interleave(self.k, 1), first)
        fed = symbols.new_full((symbols.shape[0] * self.k, 1), self.rnn.sos_id)
        outputs, states, weights = [], [], []
        for taken in symbols.flatten(0, 1).split(1, 1):
            log_probabilities, hidden, alignment = self.rnn.steps(fed, hidden, memory, function)
            outputs.append(log_probabilities[:, 0])
            states.append(hidden)
            weights += [] if alignment is None else [alignment[:, 0]]
            fed = taken
        return outputs, states, weights


def _swap(h: Float[Tensor, "A B D"]) -> Float[Tensor, "B A D"]:
    """Exchanges rows and layers."""
    return h.transpose(0, 1).contiguous()
