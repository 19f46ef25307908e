"""The public conformance suite, which tests your own mechanism or decoder against the contract."""

from regard.testing.decoder import DECODER_LAWS, check_decoder
from regard.testing.mechanism import LAWS, check_mechanism
from regard.testing.source import EncodedSource, draw_source, encode

__all__ = ["DECODER_LAWS", "LAWS", "EncodedSource", "check_decoder", "check_mechanism", "draw_source", "encode"]
