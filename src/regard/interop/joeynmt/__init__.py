"""Joey NMT: the options that its recurrent models and Transformers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.interop.options import Options

PROGRAM = "Joey NMT"


def side_options(
    model: Mapping[str, Any], encoder_defaults: Mapping[str, Any], decoder_defaults: Mapping[str, Any]
) -> tuple[Options, Options]:
    """The options of the encoder and the decoder; tied embeddings are the encoder's."""
    encoder = Options(model["encoder"], PROGRAM, encoder_defaults)
    decoder = dict(model["decoder"])
    if model.get("tied_embeddings", False):
        decoder["embeddings"] = encoder["embeddings"]
    return encoder, Options(decoder, PROGRAM, decoder_defaults)
