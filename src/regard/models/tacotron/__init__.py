"""Tacotron 1 and 2: text to frames of speech, with any attention."""

from regard.models.tacotron.decoder import TacotronDecoder, TacotronFeatures, TacotronMemory, TacotronState
from regard.models.tacotron.encoders import BidirectionalCells, CbhgEncoder, ConvolutionalEncoder
from regard.models.tacotron.frames import (
    decoder_inputs,
    group_frames,
    group_mask,
    step_mask,
    stop_targets,
    ungroup_frames,
)
from regard.models.tacotron.heads import STOP, FrameHead, StopHead
from regard.models.tacotron.model import Tacotron, TacotronOutput
from regard.models.tacotron.postnets import CbhgPostnet, ConvolutionalPostnet
from regard.models.tacotron.published import DecoderSizes, initialise_tacotron, tacotron1, tacotron2

__all__ = [
    "STOP",
    "BidirectionalCells",
    "CbhgEncoder",
    "CbhgPostnet",
    "ConvolutionalEncoder",
    "ConvolutionalPostnet",
    "DecoderSizes",
    "FrameHead",
    "StopHead",
    "Tacotron",
    "TacotronDecoder",
    "TacotronFeatures",
    "TacotronMemory",
    "TacotronOutput",
    "TacotronState",
    "decoder_inputs",
    "group_frames",
    "group_mask",
    "initialise_tacotron",
    "step_mask",
    "stop_targets",
    "tacotron1",
    "tacotron2",
    "ungroup_frames",
]
