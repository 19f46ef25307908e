"""`seq2seq.models` of IBM's pytorch-seq2seq, by its names and arguments, with masks.

Weights have the original's names, so `load_state_dict` takes a state of the original's models.
"""

from regard.interop.ibm.attention import Attention
from regard.interop.ibm.decoder import DecoderRNN
from regard.interop.ibm.recurrent import BaseRNN, EncoderRNN
from regard.interop.ibm.seq2seq import Seq2seq
from regard.interop.ibm.top_k import TopKDecoder

__all__ = ["Attention", "BaseRNN", "DecoderRNN", "EncoderRNN", "Seq2seq", "TopKDecoder"]
