"""The decoder and the model over ids of `tf.contrib.legacy_seq2seq`, with attention."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ShapeError, UnsupportedError
from regard.interop.legacy_seq2seq.attention import AttentionDecoder, Locations, LoopFunction
from regard.interop.tfa.cells.contract import as_cell
from regard.interop.tfa.cells.wrappers import OutputProjectionWrapper
from regard.interop.tfa.unrolling import dynamic_rnn
from regard.shapes import Bool, Float, Int, keep_right_padding


class EmbeddingAttentionDecoder(nn.Module):
    """An `AttentionDecoder` whose inputs are ids, or embeddings of its previous outputs.

    Args:
        cell: as in `AttentionDecoder`; its inputs have `embedding_size` features.
        num_symbols: N.
        embedding_size: I.
        num_heads: H.
        output_size: O; the width of the cell's output if None.
        output_projection: a layer from O to N that selects the symbol that is fed back; it is not applied to returned
            outputs. TensorFlow's pair (W, B) is the layer with the weight Wᵀ and the bias B. If None, outputs are
            logits: O must be N for `feed_previous`.
        attention_size: M.

    Raises:
        UnsupportedError: for an `output_projection` that is no `nn.Linear`.
        ShapeError: for one of other sizes.

    >>> decoder = EmbeddingAttentionDecoder(nn.GRUCell(3, 4), 10, 3, output_size=10, attention_size=6)
    >>> ids = [torch.zeros(5, dtype=torch.long)] * 7
    >>> outputs, state, locations = decoder(ids, torch.zeros(5, 4), torch.zeros(5, 9, 6), feed_previous=True)
    >>> len(outputs), outputs[0].shape
    (7, torch.Size([5, 10]))
    """

    def __init__(
        self,
        cell: Any,
        num_symbols: int,
        embedding_size: int,
        num_heads: int = 1,
        output_size: int | None = None,
        output_projection: nn.Linear | None = None,
        *,
        attention_size: int,
    ) -> None:
        super().__init__()
        self.num_symbols = num_symbols
        self.embedding = nn.Embedding(num_symbols, embedding_size)
        self.decoder = AttentionDecoder(
            cell, output_size, num_heads, input_size=embedding_size, attention_size=attention_size
        )
        if output_projection is not None and not isinstance(output_projection, nn.Linear):
            raise UnsupportedError(
                f"output_projection must be an nn.Linear; got {type(output_projection).__name__}. TensorFlow's (W, B) "
                "is the layer whose weight is W.T and whose bias is B."
            )
        if output_projection is not None and output_projection.weight.shape != (num_symbols, self.decoder.output_size):
            raise ShapeError(
                f"output_projection must be nn.Linear(O={self.decoder.output_size}, N={num_symbols}); "
                f"got {output_projection}."
            )
        self.output_projection = output_projection

    def loop_function(self, update_embedding_for_previous: bool = True) -> LoopFunction:
        """A function from (an output, t) to the embedding of its most probable symbol.

        Args:
            update_embedding_for_previous: whether the embedding of fed-back symbols gets gradients.

        Raises:
            ShapeError: for outputs that are no logits, without a projection.
        """
        if self.output_projection is None and self.decoder.output_size != self.num_symbols:
            raise ShapeError(
                f"feed_previous needs logits: output_size is {self.decoder.output_size}, and there are "
                f"N={self.num_symbols} symbols. Give output_size=N, or an output_projection."
            )

        def extract(previous: Tensor, t: int) -> Tensor:
            logits = previous if self.output_projection is None else self.output_projection(previous)
            embedded: Tensor = self.embedding(logits.argmax(-1))
            return embedded if update_embedding_for_previous else embedded.detach()

        return extract

    def forward(
        self,
        decoder_inputs: Sequence[Int[Tensor, " B"]],
        initial_state: Any,
        attention_states: Float[Tensor, "B S M"],
        feed_previous: bool = False,
        update_embedding_for_previous: bool = True,
        initial_state_attention: bool = False,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[list[Float[Tensor, "B O"]], Any, Locations]:
        """The results of an `AttentionDecoder`, from ids (B,) for each step.

        Args:
            feed_previous: whether the previous output is fed from the second step on, instead of `decoder_inputs`.
            update_embedding_for_previous: as in `loop_function`; read only with `feed_previous`.
        """
        loop = self.loop_function(update_embedding_for_previous) if feed_previous else None
        embedded = [self.embedding(ids) for ids in decoder_inputs]
        outputs, state, locations = self.decoder(
            embedded, initial_state, attention_states, loop, initial_state_attention, mask=mask
        )
        return outputs, state, locations


class EmbeddingAttentionSeq2Seq(nn.Module):
    """An encoder of ids and an `EmbeddingAttentionDecoder` that attends to its outputs and begins with its last state.

    Args:
        cell: of the decoder; the encoder has a copy with its own weights.
        num_encoder_symbols, num_decoder_symbols: symbols of the inputs and of the outputs.
        embedding_size: I, of both embeddings.
        num_heads: H.
        output_projection: as in `EmbeddingAttentionDecoder`; if None, the cell's outputs are mapped to
            `num_decoder_symbols` before they are concatenated with the reads, and outputs are logits.

    >>> model = EmbeddingAttentionSeq2Seq(nn.GRUCell(3, 4), 10, 12, 3)
    >>> ids = [torch.zeros(5, dtype=torch.long)] * 7
    >>> outputs, state, locations = model(ids, ids[:2])
    >>> outputs[0].shape, locations[0][0].shape
    (torch.Size([5, 12]), torch.Size([5, 7]))
    """

    def __init__(
        self,
        cell: Any,
        num_encoder_symbols: int,
        num_decoder_symbols: int,
        embedding_size: int,
        num_heads: int = 1,
        output_projection: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.encoder_embedding = nn.Embedding(num_encoder_symbols, embedding_size)
        self.encoder_cell: Any = deepcopy(as_cell(cell))
        self.is_projected = projected = output_projection is None
        self.decoder = EmbeddingAttentionDecoder(
            OutputProjectionWrapper(cell, num_decoder_symbols) if projected else cell,
            num_decoder_symbols,
            embedding_size,
            num_heads,
            num_decoder_symbols if projected else None,
            output_projection,
            attention_size=self.encoder_cell.output_size,
        )

    def encode(
        self, encoder_inputs: Sequence[Int[Tensor, " B"]], mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[Float[Tensor, "B S M"], Any]:
        """The outputs of the encoder's cell, and its state after each sentence's last real position.

        Raises:
            ShapeError: for no inputs, or a mask that is not right-padded.
        """
        if not len(encoder_inputs):
            raise ShapeError("encoder_inputs must have ids (B,) for each position; got none.")
        embedded = self.encoder_embedding(torch.stack(list(encoder_inputs), 1))
        mask = keep_right_padding(embedded, mask, name="encoder_inputs")
        outputs, state = dynamic_rnn(self.encoder_cell, embedded, None if mask is None else mask.sum(1))
        return outputs, state

    def forward(
        self,
        encoder_inputs: Sequence[Int[Tensor, " B"]],
        decoder_inputs: Sequence[Int[Tensor, " B"]],
        feed_previous: bool = False,
        initial_state_attention: bool = False,
        *,
        mask: Bool[Tensor, "B S"] | None = None,
    ) -> tuple[list[Float[Tensor, "B N"]], Any, Locations]:
        """Outputs of all steps, the last state, and for each step the weights (B, S) of every head.

        Args:
            encoder_inputs: ids (B,) for each of S positions.
            decoder_inputs: ids (B,) for each step.
            mask: (B, S) bool, right-padded, True at real positions: padding affects neither the first state nor
                attention. TensorFlow's model has none.
        """
        attention_states, state = self.encode(encoder_inputs, mask)
        outputs, state, locations = self.decoder(
            decoder_inputs,
            state,
            attention_states,
            feed_previous,
            initial_state_attention=initial_state_attention,
            mask=mask,
        )
        return outputs, state, locations
