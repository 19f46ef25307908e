"""The part of `tf.contrib.legacy_seq2seq` with attention: the decoder of Grammar as a Foreign Language.

TensorFlow's functions make their weights in a variable scope. Here they belong to a module that is made once:

    decoder = AttentionDecoder(cell, input_size=32, attention_size=64)
    outputs, state, locations = decoder(decoder_inputs, initial_state, attention_states)

The functions with TensorFlow's names and arguments take that module as their `scope`.
"""

from regard.interop.legacy_seq2seq.attention import AttentionDecoder
from regard.interop.legacy_seq2seq.embedding import EmbeddingAttentionDecoder, EmbeddingAttentionSeq2Seq
from regard.interop.legacy_seq2seq.functions import (
    attention_decoder,
    embedding_attention_decoder,
    embedding_attention_seq2seq,
)

__all__ = [
    "AttentionDecoder",
    "EmbeddingAttentionDecoder",
    "EmbeddingAttentionSeq2Seq",
    "attention_decoder",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
]
