"""NVIDIA's Tacotron 2: attention, the model, its front end, and the converter of checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.attention import AbstractAttention, recipes
from regard.audio import FrontEnd, Standardisation, logarithm
from regard.data.text import Field, Normalisation, Vocabulary
from regard.data.text.units import CharacterUnits
from regard.errors import ConfigError, DataError, Option, UnsupportedError
from regard.interop.contract import UNKNOWN_DATA, AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_checkpoint, read_lines, tensors
from regard.interop.options import validated
from regard.interop.tacotron import (
    ONE_WIDTH,
    TACOTRON2,
    TACOTRON2_FIXED,
    Names,
    Weights,
    convolution_blocks,
    dropout_options,
    load_tacotron,
    numbered,
    transposed,
)
from regard.layers import CellStack, ConvolutionBlock, Prenet, RecurrentStack, TokenEmbedding
from regard.models.tacotron import (
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    FrameHead,
    StopHead,
    Tacotron,
    TacotronDecoder,
    initialise_tacotron,
)
from regard.tasks.text_to_speech.config import TextToSpeechConfig
from regard.tasks.text_to_speech.forms import TacotronForm

location_sensitive = partial(recipes.location_sensitive, location="both", bias=False)


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 1,
    embedding_size: int = 512,
    num_convolutions: int = 3,
    kernel_size: int = 5,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    prenet_dropout: float = 0.5,
    size: int = 1024,
    dropout: float = 0.1,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
) -> Tacotron:
    """A query LSTM and an output LSTM with dropout on h; a prenet of all r frames, without biases, that always drops.

    The encoder has the width of the embeddings, and each step one stop logit. Padding, which has a vector as in the
    original, never affects results: they are the original's without padding.
    """
    widths = embedding_size, embedding_size
    blocks = [ConvolutionBlock(*widths, kernel_size, dropout=0.5) for _ in range(num_convolutions)]
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=None),
        blocks,
        RecurrentStack(embedding_size, embedding_size // 2, bidirectional=True),
    )
    attend = partial(location_sensitive, size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=embedding_size)
    context = mechanism.context_size
    prenet = Prenet(
        num_frames * num_features, (prenet_size,) * prenet_layers, dropout=prenet_dropout, drops="always", bias=False
    )
    decoder = TacotronDecoder(
        prenet,
        mechanism,
        FrameHead(size, context, num_features, num_frames, stop=StopHead(size, context, 1)),
        query_cells=CellStack(prenet_size + context, size, dropout=dropout),
        output_cells=CellStack(size + context, size, dropout=dropout),
        num_fed_frames=num_frames,
    )
    postnet = ConvolutionalPostnet(num_features, postnet_size, num_layers=postnet_layers)
    model = Tacotron(encoder, decoder, {"mel": postnet})
    initialise_tacotron(model)
    return model


def _names(model: Tacotron) -> Names:
    """The names of their modules by ours."""
    return {
        **numbered(
            "decoder.prenet.layers.{}", "decoder.prenet.layers.{}.linear_layer", len(model.decoder.prenet.layers)
        ),
        **convolution_blocks(
            model,
            encoder="encoder.convolutions",
            postnet="postnet.convolutions",
            filters="0.conv",
            norm="1",
        ),
        "encoder.embedding.table": "embedding",
        "encoder.stack.layers.0": "encoder.lstm",
        "decoder.query_cells.cells.0.layers.0": "decoder.attention_rnn",
        "decoder.output_cells.cells.0.layers.0": "decoder.decoder_rnn",
        "decoder.attention.score.content.query_projection": "decoder.attention_layer.query_layer.linear_layer",
        "decoder.attention.score.content.key_projection": "decoder.attention_layer.memory_layer.linear_layer",
        "decoder.attention.score.content.v": "decoder.attention_layer.v.linear_layer.weight",
        "decoder.attention.score.filters": "decoder.attention_layer.location_layer.location_conv.conv",
        "decoder.attention.score.location_projection": transposed(
            "decoder.attention_layer.location_layer.location_dense.linear_layer.weight"
        ),
        "decoder.head.projection": "decoder.linear_projection.linear_layer",
        "decoder.head.stop.projection": "decoder.gate_layer.linear_layer",
    }


TACOTRON2_WEIGHTS = Weights(_names)
TACOTRON2_FORM = TacotronForm(
    TACOTRON2 | {"attention.like": "nvidia"},
    TACOTRON2_FIXED,
    dropout_options,
    equal=(*ONE_WIDTH, ("decoder.num_fed_frames", "decoder.num_frames")),
)
FRONT_END = FrontEnd(
    sample_rate=22050, n_fft=1024, win_length=1024, hop_length=256, f_min=0.0, f_max=8000.0, compression=logarithm(1e-5)
)

PROGRAM = "NVIDIA's Tacotron 2"
PADDING = "_"
PHONES = (
    "AA AA0 AA1 AA2 AE AE0 AE1 AE2 AH AH0 AH1 AH2 AO AO0 AO1 AO2 AW AW0 AW1 AW2 AY AY0 AY1 AY2 B CH D DH EH EH0 EH1 "
    "EH2 ER ER0 ER1 ER2 EY EY0 EY1 EY2 F G HH IH IH0 IH1 IH2 IY IY0 IY1 IY2 JH K L M N NG OW OW0 OW1 OW2 OY OY0 OY1 "
    "OY2 P R S SH T TH UH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH"
)
"""ARPAbet of CMUdict, with stresses."""
PRENET_LAYERS = 2
"""The number of layers of every prenet there."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SYMBOLS = (PADDING, "-", *"!'(),.:;? ", *LETTERS, *(f"@{phone}" for phone in PHONES.split()))
"""The 148 symbols in the order of their ids; those with `@` are phones, which texts here never have."""
SYMBOLS_FILE = Option("--file symbols=FILE", "files={'symbols': path}")
COUNTED = re.compile(r"(?P<list>encoder\.convolutions|postnet\.convolutions)\.(?P<number>\d+)\.")
CLEANED = (
    "Inputs are letters, punctuation and blanks. NVIDIA's cleaners, which write out numbers and abbreviations and turn "
    "other letters into ASCII, are not applied; letters become lower case."
)
LONGEST = (
    "Sentences have at most decoding.max_frames_per_unit frames per symbol; NVIDIA's have max_decoder_steps, 1000."
)
SKIPPED = "Unknown symbols were skipped there; here they are vectors of zeros, with a warning."


class Nvidia(AbstractKind):
    """A checkpoint of `NVIDIA/tacotron2`: a file with `state_dict`."""

    summary = "NVIDIA/tacotron2 (checkpoint): a voice, without its vocoder"
    files: ClassVar[Mapping[str, str]] = {
        "symbols": "a text file with the symbol of each id in a line, if they are not the 148 English ones"
    }
    facts: ClassVar[Mapping[str, str]] = {
        "case": "lower (as its English cleaners), upper or keep",
        "gate_threshold": "the probability at which a sentence ends; default 0.5",
    }

    def read(self, origin: Origin) -> Converted:
        """The model, with the sizes of its weights. Texts have no end symbol."""
        from regard.tasks.text_to_speech.model import SpeechModel  # slow to import, and no variant needs it

        weights = _weights(origin.path)
        symbols = tuple(read_lines(origin.files["symbols"])) if "symbols" in origin.files else SYMBOLS
        table = _weight(weights, "embedding.weight")
        if len(table) != len(symbols):
            raise DataError(
                f"embedding.weight is {tuple(table.shape)}, but there are {len(symbols):,} symbols; give those of the "
                f"model: {SYMBOLS_FILE}."
            )
        case = origin.facts.get("case", "lower")
        if case not in ("lower", "upper", "keep"):
            raise ConfigError(f"fact case: it must be lower, upper or keep; got {case!r}.")
        threshold = origin.facts.get("gate_threshold", 0.5)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise ConfigError(f"fact gate_threshold: it must be a probability between 0 and 1; got {threshold!r}.")
        config = validated(
            TextToSpeechConfig,
            {
                "data": {
                    "train": UNKNOWN_DATA,
                    "units": "characters",
                    "case": case,
                    "unicode": "keep",
                    "source_end": False,
                    "front_end": "nvidia",
                },
                "model": _network(weights),
                "decoding": {"stop_threshold": float(threshold)},
            },
            "the converted configuration",
        )
        field = Field(Normalisation(case, "keep"), CharacterUnits(), Vocabulary(symbols[1:]))
        count = FRONT_END.num_mels
        scale = Standardisation(torch.zeros(count, dtype=torch.float64), torch.ones(count, dtype=torch.float64))
        model = SpeechModel.build(config, field, scale)
        weights["embedding.weight"] = torch.cat([table[:1], table.new_zeros(3, table.shape[1]), table[1:]])
        load_tacotron(model.module.tacotron, weights, kind="tacotron2", like="nvidia")
        return Converted(model, (CLEANED, SKIPPED, LONGEST) if symbols is SYMBOLS else (SKIPPED, LONGEST))


def _weights(path: Path) -> dict[str, Tensor]:
    """The weights by name."""
    saved = mapping(read_checkpoint(path), path, "a checkpoint")
    saved = tensors(saved.get("state_dict", saved), path, f"a state dict of {PROGRAM}")
    weights = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    for name in list(weights):  # older versions of torch did not count batches
        if name.endswith(".running_mean"):
            weights.setdefault(name.replace("running_mean", "num_batches_tracked"), torch.tensor(0))
    return weights


def _weight(weights: Mapping[str, Tensor], name: str) -> Tensor:
    """A weight whose shape is read."""
    if name not in weights:
        raise DataError(f"There is no weight {name} in the checkpoint of {PROGRAM}.")
    return weights[name]


def _network(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """The section `model`, with the sizes of the weights."""
    counts: dict[str, int] = {}
    for name in weights:
        if match := COUNTED.match(name):
            counts[match["list"]] = max(counts.get(match["list"], 0), int(match["number"]) + 1)
    last = counts.get("postnet.convolutions", 1) - 1
    mels = len(_weight(weights, f"postnet.convolutions.{last}.0.conv.weight"))
    expected = FRONT_END.num_mels
    width = len(_weight(weights, "decoder.linear_projection.linear_layer.weight"))
    if mels != expected or width != expected:
        raise UnsupportedError(
            f"A step of this checkpoint of {PROGRAM} has {width} numbers of {mels} channels; supported is one frame of "
            f"{expected} channels (n_frames_per_step 1, n_mel_channels {expected})."
        )
    sizes = [_weight(weights, f"decoder.{name}.weight_hh").shape[1] for name in ("attention_rnn", "decoder_rnn")]
    if sizes[0] != sizes[1]:
        raise UnsupportedError(
            f"attention_rnn_dim is {sizes[0]} and decoder_rnn_dim {sizes[1]}; here both have one size "
            "(model.decoder.size)."
        )
    filters = _weight(weights, "decoder.attention_layer.location_layer.location_conv.conv.weight")
    return {
        "architecture": "tacotron2",
        "like": "nvidia",
        "encoder": {
            "size": _weight(weights, "embedding.weight").shape[1],
            "convolutions": counts.get("encoder.convolutions", 0),
        },
        "decoder": {
            "size": sizes[0],
            "prenet_sizes": tuple(
                len(_weight(weights, f"decoder.prenet.layers.{layer}.linear_layer.weight"))
                for layer in range(PRENET_LAYERS)
            ),
            "num_frames": 1,
        },
        "postnet": {
            "size": len(_weight(weights, "postnet.convolutions.0.0.conv.weight")),
            "layers": counts.get("postnet.convolutions", 0),
        },
        "attention": {
            "recipe": "location_sensitive",
            "like": "nvidia",
            "size": len(_weight(weights, "decoder.attention_layer.query_layer.linear_layer.weight")),
            "num_filters": filters.shape[0],
            "kernel_size": filters.shape[2],
        },
    }
