"""IBM's encoder, and the base class of encoder and decoder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import ConfigError, ShapeError
from regard.layers import Dropout
from regard.shapes import Float, Int, describe, keep_mask

Hidden = Tensor | tuple[Tensor, Tensor]
"""The states (L, B, D) of all layers; a pair h and c of an LSTM."""


class BaseRNN(nn.Module):
    """The base class of `EncoderRNN` and `DecoderRNN`.

    Args:
        vocab_size: N.
        max_len: the largest number of symbols of a sequence.
        hidden_size: D, of the embeddings too.
        input_dropout_p: dropout of the embeddings.
        dropout_p: dropout between the layers of the recurrent network; torch warns if there is only one.
        n_layers: L.
        rnn_cell: lstm or gru.

    Raises:
        ConfigError: for another cell.
    """

    SYM_MASK = "MASK"
    SYM_EOS = "EOS"

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        hidden_size: int,
        input_dropout_p: float,
        dropout_p: float,
        n_layers: int,
        rnn_cell: str,
    ) -> None:
        super().__init__()
        cells: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU}
        if rnn_cell.lower() not in cells:
            raise ConfigError(f"rnn_cell is {rnn_cell!r}; it must be lstm or gru.")
        self.rnn_cell = cells[rnn_cell.lower()]
        self.vocab_size, self.max_len, self.hidden_size, self.n_layers = vocab_size, max_len, hidden_size, n_layers
        self.input_dropout_p, self.dropout_p = input_dropout_p, dropout_p
        self.input_dropout = Dropout(p=input_dropout_p)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Defined by subclasses."""
        raise NotImplementedError


class EncoderRNN(BaseRNN):
    """An embedding and a recurrent network over it.

    Args:
        vocab_size, max_len, hidden_size, input_dropout_p, dropout_p, n_layers, rnn_cell: as in `BaseRNN`.
        bidirectional: outputs have 2·D features.
        variable_lengths: whether sequences end at their lengths: padding does not enter states, and its outputs are 0.
        embedding: (N, D), the first weights of the embedding; drawn if None.
        update_embedding: whether the embedding is trained.

    Raises:
        ShapeError: for an embedding of another shape.

    >>> encoder = EncoderRNN(10, 7, 4, bidirectional=True, variable_lengths=True)
    >>> output, hidden = encoder(torch.zeros(2, 7, dtype=torch.long), [5, 7])
    >>> output.shape, hidden.shape
    (torch.Size([2, 7, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(
        self,
        vocab_size: int,
        max_len: int,
        hidden_size: int,
        input_dropout_p: float = 0,
        dropout_p: float = 0,
        n_layers: int = 1,
        bidirectional: bool = False,
        rnn_cell: str = "gru",
        variable_lengths: bool = False,
        embedding: Float[Tensor, "N D"] | None = None,
        update_embedding: bool = True,
    ) -> None:
        super().__init__(vocab_size, max_len, hidden_size, input_dropout_p, dropout_p, n_layers, rnn_cell)
        self.variable_lengths = variable_lengths
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        if embedding is not None:
            if embedding.shape != (vocab_size, hidden_size):
                raise ShapeError(
                    f"embedding must be (N={vocab_size}, D={hidden_size}).\n"
                    + describe({"embedding": ("N D", embedding)})
                )
            self.embedding.weight = nn.Parameter(embedding)
        self.embedding.weight.requires_grad = update_embedding
        self.rnn = self.rnn_cell(
            hidden_size, hidden_size, n_layers, batch_first=True, bidirectional=bidirectional, dropout=dropout_p
        )

    def forward(
        self, input_var: Int[Tensor, "B S"], input_lengths: Sequence[int] | Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B S D"], Hidden]:
        """Outputs (B, S, D) of the last layer and the last states (L, B, D), twice as many in both directions.

        Args:
            input_var: (B, S) ids.
            input_lengths: of each sequence, in any order. With `variable_lengths` outputs are as long as the longest.

        Raises:
            ShapeError: for lengths that do not fit, or none with `variable_lengths`.
        """
        embedded = self.input_dropout(self.embedding(input_var))
        if not self.variable_lengths:
            if input_lengths is not None and min(map(int, input_lengths), default=0) < input_var.shape[1]:
                warnings.warn(
                    "Some input_lengths are shorter than the batch, but this encoder also reads padding: make it with "
                    "variable_lengths=True.",
                    stacklevel=2,
                )
            output, hidden = self.rnn(embedded)
            return output, hidden
        if input_lengths is None:
            raise ShapeError("An encoder with variable_lengths needs input_lengths, one for each sequence.")
        lengths = torch.as_tensor(input_lengths).cpu()
        keep_mask(embedded, lengths=lengths, name="input_var")
        if lengths.numel() and int(lengths.min()) < 1:
            raise ShapeError(f"input_lengths must be at least 1; got {int(lengths.min())}.")
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        output, hidden = self.rnn(packed)
        return pad_packed_sequence(output, batch_first=True)[0], hidden
