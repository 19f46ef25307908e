"""IBM's decoder, which returns outputs, weights, lengths and symbols."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Memory
from regard.errors import ConfigError, ShapeError
from regard.interop.ibm.attention import Attention
from regard.interop.ibm.recurrent import BaseRNN, Hidden
from regard.layers.linear import Linear
from regard.shapes import Bool, Float, Int, describe

Function = Callable[..., Tensor]
"""(logits (R, N), dim=1) to log-probabilities."""


class _LSTM(nn.LSTM):
    """`nn.LSTM` that computes a single step by cells, in a half to a quarter of the time of torch's layer."""

    def forward(self, x: Any, hx: Any = None) -> Any:
        """As torch's, batch first."""
        if hx is None or x.shape[1] != 1:
            return super().forward(x, hx)
        output, after = x[:, 0], []
        for layer, state in enumerate(zip(*hx, strict=True)):
            if layer:
                output = functional.dropout(output, self.dropout, self.training)
            names = (f"{kind}_l{layer}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            after.append(torch.lstm_cell(output, state, *(getattr(self, name) for name in names)))
            output = after[-1][0]
        h, c = (torch.stack(parts) for parts in zip(*after, strict=True))
        return output[:, None], (h, c)


class DecoderRNN(BaseRNN):
    """An embedding, a recurrent network, attention over all of its outputs, and a layer to the vocabulary.

        o_t, s_t = rnn(E y_{t-1}, s_{t-1}),   o'_t = tanh(W [c_t; o_t] + b),   log p_t = function(U o'_t + d)

    with c_t read by o_t (`Attention`). Contexts are not fed to the network, so all steps of a target are one call. With
    `bidirectional=True` the encoder's last states of both directions are concatenated.

    Args:
        vocab_size, max_len, hidden_size, n_layers, rnn_cell, input_dropout_p, dropout_p: as in `BaseRNN`. With an
            encoder in both directions `hidden_size` is twice the encoder's.
        sos_id, eos_id: the symbols that begin and end a sequence.
        bidirectional: whether the encoder is.

    >>> decoder = DecoderRNN(10, 7, 4, sos_id=1, eos_id=2, use_attention=True)
    >>> mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    >>> state, memory = torch.zeros(1, 2, 4), torch.randn(2, 5, 4)
    >>> outputs, hidden, about = decoder(encoder_hidden=state, encoder_outputs=memory, mask=mask)
    >>> len(outputs), outputs[0].shape, about[DecoderRNN.KEY_ATTN_SCORE][0].shape
    (7, torch.Size([2, 10]), torch.Size([2, 1, 5]))
    """

    KEY_ATTN_SCORE = "attention_score"
    KEY_LENGTH = "length"
    KEY_SEQUENCE = "sequence"

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        hidden_size: int,
        sos_id: int,
        eos_id: int,
        n_layers: int = 1,
        rnn_cell: str = "gru",
        bidirectional: bool = False,
        input_dropout_p: float = 0,
        dropout_p: float = 0,
        use_attention: bool = False,
    ) -> None:
        super().__init__(vocab_size, max_len, hidden_size, input_dropout_p, dropout_p, n_layers, rnn_cell)
        self.bidirectional_encoder = bidirectional
        kind = _LSTM if self.rnn_cell is nn.LSTM else nn.GRU
        self.rnn = kind(hidden_size, hidden_size, n_layers, batch_first=True, dropout=dropout_p)
        self.output_size = vocab_size
        self.max_length = max_len
        self.use_attention = use_attention
        self.sos_id, self.eos_id = sos_id, eos_id
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        if use_attention:
            self.attention = Attention(hidden_size)
        self.out = Linear(hidden_size, vocab_size)

    def forward_step(
        self,
        input_var: Int[Tensor, "B T"],
        hidden: Hidden | None,
        encoder_outputs: Float[Tensor, "B S D"] | None,
        function: Function,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[Float[Tensor, "B T N"], Hidden, Float[Tensor, "B T S"] | None]:
        """Steps with given inputs: log-probabilities (B, T, N), the states, the weights (B, T, S) or None."""
        return self.steps(input_var, hidden, self.prepare(encoder_outputs, mask), function)

    def prepare(self, encoder_outputs: Tensor | None, mask: Tensor | None = None) -> Memory | None:
        """The memory of `steps`, or None without attention.

        Raises:
            ShapeError: for attention without encoder outputs, or sizes that do not fit.
        """
        if not self.use_attention:
            return None
        if encoder_outputs is None:
            raise ShapeError("A decoder with attention needs encoder_outputs; got None.")
        return self.attention.prepare(encoder_outputs, mask)

    def steps(
        self, input_var: Int[Tensor, "R T"], hidden: Hidden | None, memory: Memory | None, function: Function
    ) -> tuple[Float[Tensor, "R T N"], Hidden, Float[Tensor, "R T S"] | None]:
        """As `forward_step`, with a prepared memory."""
        embedded = self.input_dropout(self.embedding(input_var))
        output, hidden = self.rnn(embedded, hidden)
        weights = None
        if memory is not None:
            output, weights = self.attention.attend(output, memory)
        log_probabilities = function(self.out(output.flatten(0, 1)), dim=1)
        return log_probabilities.view(*input_var.shape, -1), hidden, weights

    def forward(
        self,
        inputs: Int[Tensor, "B T"] | None = None,
        encoder_hidden: Hidden | None = None,
        encoder_outputs: Float[Tensor, "B S D"] | None = None,
        function: Function = functional.log_softmax,
        teacher_forcing_ratio: float = 0,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[list[Float[Tensor, "B N"]], Hidden, dict[str, Any]]:
        """Log-probabilities (B, N) of each step, the last states, and a dictionary.

        Its keys: `KEY_ATTN_SCORE`, the weights (B, 1, S) of each step, with attention; `KEY_SEQUENCE`, the most
        probable symbols (B, 1) of each step; `KEY_LENGTH`, for each sequence the number of steps up to and including
        its first end symbol.

        Args:
            inputs: (B, T) ids, the start symbol first; there are T - 1 steps. If None, there are `max_len`.
            encoder_hidden: the encoder's last states; zeros if None.
            encoder_outputs: (B, S, D), the memory.
            function: from logits to log-probabilities.
            teacher_forcing_ratio: the probability that all `inputs` are fed, drawn once per call with Python's
                `random`; otherwise the first of them and then the previous output.
            mask: (B, S) bool, True where a position may be attended to. The original has none.

        Raises:
            ShapeError: for sizes that do not fit.
            ConfigError: for a ratio that is no probability, or is above 0 without inputs.
        """
        inputs, max_length = self._validate_args(inputs, encoder_hidden, encoder_outputs, teacher_forcing_ratio)
        hidden = self._init_state(encoder_hidden)
        memory = self.prepare(encoder_outputs, mask)
        weights: list[Tensor] = []
        if random.random() < teacher_forcing_ratio:
            log_probabilities, hidden, alignment = self.steps(inputs[:, :-1], hidden, memory, function)
            outputs = list(log_probabilities.unbind(1))
            weights = [] if alignment is None else list(alignment.split(1, 1))
            symbols = [output.argmax(-1, keepdim=True) for output in outputs]
        else:
            outputs, symbols, fed = [], [], inputs[:, :1]
            for _ in range(max_length):
                log_probabilities, hidden, alignment = self.steps(fed, hidden, memory, function)
                fed = log_probabilities[:, 0].argmax(-1, keepdim=True)
                outputs.append(log_probabilities[:, 0])
                symbols.append(fed)
                weights += [] if alignment is None else [alignment]
        about: dict[str, Any] = {self.KEY_ATTN_SCORE: weights} if self.use_attention else {}
        about |= {self.KEY_SEQUENCE: symbols, self.KEY_LENGTH: self._lengths(torch.cat(symbols, 1))}
        assert hidden is not None
        return outputs, hidden, about

    def _lengths(self, symbols: Int[Tensor, "B T"]) -> list[int]:
        """The steps up to and including each row's first end symbol, or all."""
        before = (symbols == self.eos_id).cumsum(1) == 0
        return (before.sum(1) + 1).clamp(max=symbols.shape[1]).tolist()

    def _init_state(self, encoder_hidden: Hidden | None) -> Hidden | None:
        """The first states (L, B, D), directions concatenated.

        Raises:
            ShapeError: for other sizes, or a state of another cell.
        """
        if encoder_hidden is None:
            return None
        is_pair = isinstance(encoder_hidden, tuple)
        if is_pair != (self.rnn_cell is nn.LSTM):
            raise ShapeError(
                f"encoder_hidden of {self.rnn_cell.__name__} must be {'a tensor' if is_pair else 'a pair (h, c)'}; "
                f"got {'a pair' if is_pair else 'a tensor'}. Encoder and decoder need the same rnn_cell."
            )
        parts = encoder_hidden if isinstance(encoder_hidden, tuple) else (encoder_hidden,)
        joined = tuple(self._cat_directions(part) for part in parts)
        for part in joined:
            if part.dim() != 3 or (part.shape[0], part.shape[2]) != (self.n_layers, self.hidden_size):
                raise ShapeError(
                    f"encoder_hidden must be (L={self.n_layers}, B, D={self.hidden_size}), "
                    f"directions concatenated.\n{describe({'encoder_hidden': ('L B D', part)})}"
                )
        return joined if len(joined) == 2 else joined[0]

    def _cat_directions(self, h: Float[Tensor, "LD B D"]) -> Float[Tensor, "L B D2"]:
        """The states of both directions concatenated, if the encoder has two."""
        return torch.cat([h[0::2], h[1::2]], 2) if self.bidirectional_encoder else h

    def _validate_args(
        self,
        inputs: Tensor | None,
        encoder_hidden: Hidden | None,
        encoder_outputs: Tensor | None,
        teacher_forcing_ratio: float,
    ) -> tuple[Tensor, int]:
        """The inputs, of which B is read, and the number of steps."""
        if not 0 <= teacher_forcing_ratio <= 1:
            raise ConfigError(f"teacher_forcing_ratio is {teacher_forcing_ratio}; it must be a probability.")
        hidden = encoder_hidden[0] if isinstance(encoder_hidden, tuple) else encoder_hidden
        batch_size = 1 if hidden is None else hidden.shape[1]
        if inputs is None:
            if teacher_forcing_ratio > 0:
                raise ConfigError("Without inputs teacher_forcing_ratio must be 0.")
            if hidden is None and encoder_outputs is not None:
                batch_size = len(encoder_outputs)
            device = self.embedding.weight.device
            inputs = torch.full((batch_size, 1), self.sos_id, dtype=torch.long, device=device)
            return inputs, self.max_length
        if inputs.dim() != 2 or inputs.shape[1] < 2 or (hidden is not None and len(inputs) != batch_size):
            shown = {"inputs": ("B T", inputs)} | ({} if hidden is None else {"encoder_hidden": ("L B D", hidden)})
            raise ShapeError(
                "inputs must be (B, T) ids with T ≥ 2, the start symbol first and the B of encoder_hidden.\n"
                f"{describe(shown)}\n  To decode up to max_len steps, give inputs=None."
            )
        return inputs, inputs.shape[1] - 1
