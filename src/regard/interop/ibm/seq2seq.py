"""IBM's model: an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.interop.ibm.decoder import DecoderRNN, Function
from regard.interop.ibm.recurrent import Hidden
from regard.interop.ibm.top_k import TopKDecoder
from regard.shapes import Float, Int, keep_mask


class Seq2seq(nn.Module):
    """An encoder whose outputs and last states go to a decoder.

    The decoder attends to real positions only, where lengths are given; the original's attended to padding.

    Args:
        encoder: an `EncoderRNN`.
        decoder: a `DecoderRNN` or a `TopKDecoder`; others are called without a mask.
        decode_function: from logits to log-probabilities.

    >>> from regard.interop.ibm import EncoderRNN
    >>> encoder = EncoderRNN(10, 7, 4, variable_lengths=True)
    >>> model = Seq2seq(encoder, DecoderRNN(12, 7, 4, sos_id=1, eos_id=2, use_attention=True))
    >>> outputs, hidden, about = model(torch.zeros(2, 5, dtype=torch.long), [5, 3])
    >>> about["attention_score"][0][1, 0, 3:]
    tensor([0., 0.], grad_fn=<SliceBackward0>)
    """

    def __init__(self, encoder: Any, decoder: Any, decode_function: Function = functional.log_softmax) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.decode_function = decode_function

    def flatten_parameters(self) -> None:
        """Stores the weights of both recurrent networks contiguously, for cuDNN."""
        for part in (self.encoder, self.decoder):
            rnn = part.rnn
            (rnn.rnn if isinstance(rnn, DecoderRNN) else rnn).flatten_parameters()

    def forward(
        self,
        input_variable: Int[Tensor, "B S"],
        input_lengths: Sequence[int] | Int[Tensor, " B"] | None = None,
        target_variable: Int[Tensor, "B T"] | None = None,
        teacher_forcing_ratio: float = 0,
    ) -> tuple[list[Float[Tensor, "B N"]], Hidden, dict[str, Any]]:
        """The result of the decoder, `DecoderRNN` or `TopKDecoder`.

        Args:
            input_variable: (B, S) ids.
            input_lengths: of each sequence; an encoder with `variable_lengths` ends there, and later positions are not
                attended to.
            target_variable: (B, T) ids, the start symbol first.
            teacher_forcing_ratio: as in `DecoderRNN`.
        """
        encoder_outputs, encoder_hidden = self.encoder(input_variable, input_lengths)
        masked: dict[str, Tensor | None] = {}
        if input_lengths is not None and isinstance(self.decoder, (DecoderRNN, TopKDecoder)):
            lengths = torch.as_tensor(input_lengths, device=encoder_outputs.device)
            masked = {"mask": keep_mask(encoder_outputs, lengths=lengths, name="input_variable")}
        result: tuple[list[Tensor], Hidden, dict[str, Any]] = self.decoder(
            inputs=target_variable,
            encoder_hidden=encoder_hidden,
            encoder_outputs=encoder_outputs,
            function=self.decode_function,
            teacher_forcing_ratio=teacher_forcing_ratio,
            **masked,
        )
        return result
