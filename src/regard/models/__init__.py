"""Sequence models: encoders and decoders that call attention by its four methods."""

from regard.models.bridge import Bridge, FixedContext
from regard.models.captioner import captioner
from regard.models.change import ChangeDecoder
from regard.models.contract import Decoder, DecoderOutput, Encoded
from regard.models.encoder_decoder import EncoderDecoder, RecurrentEncoder
from regard.models.ensemble import EnsembleDecoder, EnsembleEncoder, EnsembleEncoderDecoder
from regard.models.hierarchical import (
    DocumentClassifier,
    DocumentOutput,
    Level,
    hierarchical_attention,
    pooled_words,
)
from regard.models.language_model import AbstractLanguageModel, LanguageState, negative_log_likelihood
from regard.models.loop import fed_outputs, feeds_back
from regard.models.past import AbstractPast, LookBack, NgramOutput
from regard.models.pointer import PointerDecoder, PointerMemory
from regard.models.pooling import Pooled, Pooling
from regard.models.readout import DeepReadout
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentFeatures, RecurrentMemory, RecurrentState
from regard.models.recurrent_language_model import (
    RecurrentCache,
    RecurrentLanguageModel,
    recurrent_language_model,
)
from regard.models.shard import register_entry_points
from regard.models.tacotron import (
    BidirectionalCells,
    CbhgEncoder,
    CbhgPostnet,
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    DecoderSizes,
    FrameHead,
    StopHead,
    Tacotron,
    TacotronDecoder,
    TacotronFeatures,
    TacotronMemory,
    TacotronOutput,
    TacotronState,
    decoder_inputs,
    group_frames,
    group_mask,
    initialise_tacotron,
    step_mask,
    stop_targets,
    tacotron1,
    tacotron2,
    ungroup_frames,
)
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
from regard.models.transformer_options import RefinementOptions, TransformerOptions, initialise

__all__ = [
    "AbstractLanguageModel",
    "AbstractPast",
    "BidirectionalCells",
    "Bridge",
    "CausalCache",
    "CausalLayer",
    "CbhgEncoder",
    "CbhgPostnet",
    "ChangeDecoder",
    "ConvolutionalEncoder",
    "ConvolutionalPostnet",
    "Decoder",
    "DecoderLayer",
    "DecoderOutput",
    "DecoderSizes",
    "DeepReadout",
    "DocumentClassifier",
    "DocumentOutput",
    "Encoded",
    "EncoderDecoder",
    "EncoderLayer",
    "EnsembleDecoder",
    "EnsembleEncoder",
    "EnsembleEncoderDecoder",
    "FixedContext",
    "FrameHead",
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
    "RefinementOptions",
    "StopHead",
    "Tacotron",
    "TacotronDecoder",
    "TacotronFeatures",
    "TacotronMemory",
    "TacotronOutput",
    "TacotronState",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerLanguageModel",
    "TransformerOptions",
    "TransformerState",
    "captioner",
    "decoder_inputs",
    "fed_outputs",
    "feeds_back",
    "group_frames",
    "group_mask",
    "hierarchical_attention",
    "initialise",
    "initialise_tacotron",
    "negative_log_likelihood",
    "pooled_words",
    "recurrent_language_model",
    "register_entry_points",
    "step_mask",
    "stop_targets",
    "tacotron1",
    "tacotron2",
    "transformer_decoder",
    "transformer_encoder",
    "transformer_language_model",
    "ungroup_frames",
]
