"""Sequence models: encoders and decoders that know the verbs of attention and nothing of its inside."""

from regard.models.bridge import Bridge, FixedContext
from regard.models.contract import Decoder, DecoderOutput, Encoded
from regard.models.encoder import RecurrentEncoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentMemory, RecurrentState

__all__ = [
    "Bridge",
    "Decoder",
    "DecoderOutput",
    "Encoded",
    "EncoderDecoder",
    "FixedContext",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentMemory",
    "RecurrentState",
]
