"""Sequence models: encoders and decoders that know the verbs of attention and nothing of its inside."""

from regard.models.bridge import Bridge, FixedContext
from regard.models.contract import Decoder, DecoderOutput, Encoded
from regard.models.encoder import RecurrentEncoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.hierarchical import (
    DocumentClassifier,
    DocumentOutput,
    Level,
    hierarchical_attention,
    pooled_words,
)
from regard.models.pointer import PointerDecoder, PointerMemory
from regard.models.pooling import Pooled, Pooling
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentFeatures, RecurrentMemory, RecurrentState
from regard.models.shard import register_entry_points
from regard.models.transformer import (
    TransformerDecoder,
    TransformerEncoder,
    TransformerState,
    transformer_decoder,
    transformer_encoder,
)
from regard.models.transformer_layers import DecoderLayer, EncoderLayer, LayerState

__all__ = [
    "Bridge",
    "Decoder",
    "DecoderLayer",
    "DecoderOutput",
    "DocumentClassifier",
    "DocumentOutput",
    "Encoded",
    "EncoderDecoder",
    "EncoderLayer",
    "FixedContext",
    "LayerState",
    "Level",
    "PointerDecoder",
    "PointerMemory",
    "Pooled",
    "Pooling",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentFeatures",
    "RecurrentMemory",
    "RecurrentState",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerState",
    "hierarchical_attention",
    "pooled_words",
    "register_entry_points",
    "transformer_decoder",
    "transformer_encoder",
]
