"""Sequence models: encoders and decoders that know the verbs of attention and nothing of its inside."""

from regard.models.bridge import Bridge, FixedContext
from regard.models.change import ChangeDecoder
from regard.models.contract import Decoder, DecoderOutput, Encoded
from regard.models.encoder import RecurrentEncoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.pointer import PointerDecoder, PointerMemory
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
    "ChangeDecoder",
    "Decoder",
    "DecoderLayer",
    "DecoderOutput",
    "Encoded",
    "EncoderDecoder",
    "EncoderLayer",
    "FixedContext",
    "LayerState",
    "PointerDecoder",
    "PointerMemory",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentFeatures",
    "RecurrentMemory",
    "RecurrentState",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerState",
    "register_entry_points",
    "transformer_decoder",
    "transformer_encoder",
]
