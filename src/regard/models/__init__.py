"""Sequence models: encoders and decoders that know the verbs of attention and nothing of its inside."""

from regard.models.bridge import Bridge, FixedContext
from regard.models.change import ChangeDecoder
from regard.models.contract import Decoder, DecoderOutput, Encoded
from regard.models.encoder import RecurrentEncoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.ensemble import EnsembleDecoder, EnsembleEncoder, EnsembleEncoderDecoder
from regard.models.hierarchical import (
    DocumentClassifier,
    DocumentOutput,
    Level,
    hierarchical_attention,
    pooled_words,
)
from regard.models.language_model import AbstractLanguageModel, LanguageState, negative_log_likelihood
from regard.models.past import AbstractPast, LookBack, NgramOutput
from regard.models.pointer import PointerDecoder, PointerMemory
from regard.models.pooling import Pooled, Pooling
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentFeatures, RecurrentMemory, RecurrentState
from regard.models.recurrent_language_model import (
    RecurrentCache,
    RecurrentLanguageModel,
    recurrent_language_model,
)
from regard.models.shard import register_entry_points
from regard.models.transformer import (
    TransformerDecoder,
    TransformerEncoder,
    TransformerState,
    transformer_decoder,
    transformer_encoder,
)
from regard.models.transformer_language_model import (
    CausalCache,
    CausalLayer,
    TransformerLanguageModel,
    transformer_language_model,
)
from regard.models.transformer_layers import DecoderLayer, EncoderLayer, LayerState
from regard.models.transformer_options import TransformerOptions, initialise
from regard.models.weights import from_marian, from_torch_transformer

__all__ = [
    "AbstractLanguageModel",
    "AbstractPast",
    "Bridge",
    "CausalCache",
    "CausalLayer",
    "ChangeDecoder",
    "Decoder",
    "DecoderLayer",
    "DecoderOutput",
    "DocumentClassifier",
    "DocumentOutput",
    "Encoded",
    "EncoderDecoder",
    "EncoderLayer",
    "EnsembleDecoder",
    "EnsembleEncoder",
    "EnsembleEncoderDecoder",
    "FixedContext",
    "LanguageState",
    "LayerState",
    "Level",
    "LookBack",
    "NgramOutput",
    "PointerDecoder",
    "PointerMemory",
    "Pooled",
    "Pooling",
    "RecurrentCache",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentFeatures",
    "RecurrentLanguageModel",
    "RecurrentMemory",
    "RecurrentState",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerLanguageModel",
    "TransformerOptions",
    "TransformerState",
    "from_marian",
    "from_torch_transformer",
    "hierarchical_attention",
    "initialise",
    "negative_log_likelihood",
    "pooled_words",
    "recurrent_language_model",
    "register_entry_points",
    "transformer_decoder",
    "transformer_encoder",
    "transformer_language_model",
]
