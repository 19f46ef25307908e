"""Shared parts of programs with Tacotrons: published sizes, options of their builders, and names of weights.

`tacotron1` and `tacotron2` with the option `like` are assembled from the same parts:

| model | `like` | differences |
|---|---|---|
| `tacotron1` | `coqui` | no maximum, normalised before ReLU; a logit of stopping from the frames; σ-normed location |
| `tacotron1` | `keithito` | TensorFlow's GRUs; frames from the cells only; no logit of stopping |
| `tacotron1` | `mozilla` | the old cell: additive, σ-normed, a window in evaluation; a queue of frames |
| `tacotron2` | `coqui` | dropout on h and c; the prenet drops in training only; a logit of stopping from the frames |
| `tacotron2` | `espnet` | the query is the old state; zoneout; location-sensitive on the sum, twice as sharp |
| `tacotron2` | `nvidia`, `speechbrain` | the prenet sees all r frames and has no biases; one logit a step |
| `tacotron2` | `rayhane` | the query is the upper of two LSTMs; zoneout; ReLU before the norm; both spectrograms |

`load_tacotron` copies the weights of NVIDIA's, SpeechBrain's, ESPnet's and Coqui's models by name. Padding never
affects results; where it does in an original, the two agree on sentences without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import DataError, UnsupportedError
from regard.interop.variants import TACOTRON_WEIGHTS
from regard.models.tacotron import Tacotron
from regard.tasks.text_to_speech.config import TacotronConfig

TACOTRON2: dict[str, Any] = {
    "architecture": "tacotron2",
    "encoder.size": 512,
    "encoder.embedding_size": 512,
    "encoder.convolutions": 3,
    "encoder.dropout": 0.5,
    "decoder.size": 1024,
    "decoder.prenet_sizes": (256, 256),
    "decoder.prenet_drops": "always",
    "decoder.num_frames": 1,
    "decoder.num_fed_frames": 1,
    "decoder.query": "new",
    "decoder.dropout": 0.1,
    "decoder.zoneout": 0.0,
    "decoder.coarse_frames": None,
    "decoder.stops": True,
    "postnet.size": 512,
    "postnet.layers": 5,
    "attention.recipe": "location_sensitive",
    "attention.size": 128,
}
"""The keys of `model` with the published values of Tacotron 2 in most programs."""
TACOTRON1: dict[str, Any] = {
    "architecture": "tacotron1",
    "encoder.size": 256,
    "encoder.embedding_size": 256,
    "encoder.filters": 16,
    "decoder.size": 256,
    "decoder.prenet_sizes": (256, 128),
    "decoder.prenet_drops": "training",
    "decoder.num_frames": 2,
    "decoder.num_fed_frames": 1,
    "decoder.query": "new",
    "decoder.dropout": None,
    "decoder.zoneout": 0.0,
    "decoder.coarse_frames": None,
    "decoder.stops": True,
    "postnet.size": 256,
    "attention.recipe": "location_sensitive",
    "attention.size": 128,
}
"""The same for Tacotron 1."""
TACOTRON2_FIXED = (
    "architecture",
    "encoder.dropout",
    "decoder.prenet_drops",
    "decoder.num_fed_frames",
    "decoder.query",
    "decoder.zoneout",
    "decoder.coarse_frames",
    "decoder.stops",
)
"""Keys of a Tacotron 2 that have no other value."""
ZONEOUT_FIXED = (*(key for key in TACOTRON2_FIXED if key != "decoder.zoneout"), "decoder.dropout")
"""The same with zoneout instead of dropout in the cells."""
TACOTRON1_FIXED = (*(key for key in TACOTRON2_FIXED if key != "encoder.dropout"), "decoder.dropout")
QUEUE_FIXED = tuple(key for key in TACOTRON1_FIXED if key != "decoder.num_fed_frames")
"""The same of a Tacotron 1 whose prenet reads a queue of frames."""
ONE_WIDTH = (("encoder.embedding_size", "encoder.size"),)
"""Equal keys: the encoder has the width of the embeddings."""


def tacotron2_options(config: TacotronConfig) -> dict[str, Any]:
    """The options of all builders of Tacotron 2."""
    return {
        "num_frames": config.decoder.num_frames,
        "embedding_size": config.encoder.embedding_size,
        "num_convolutions": config.encoder.convolutions,
        "prenet_size": config.decoder.prenet_sizes[0],
        "prenet_layers": len(config.decoder.prenet_sizes),
        "size": config.decoder.size,
        "postnet_size": config.postnet.size,
        "postnet_layers": config.postnet.layers,
    }


def dropout_options(config: TacotronConfig) -> dict[str, Any]:
    """The same, and the dropout of the cells."""
    dropout = config.decoder.dropout
    return tacotron2_options(config) | ({} if dropout is None else {"dropout": dropout})


def tacotron1_options(config: TacotronConfig) -> dict[str, Any]:
    """The options of all builders of Tacotron 1."""
    return {
        "num_frames": config.decoder.num_frames,
        "embedding_size": config.encoder.embedding_size,
        "num_filters": config.encoder.filters,
        "bank_size": config.encoder.size // 2,
        "prenet_sizes": config.decoder.prenet_sizes,
        "size": config.decoder.size,
        "postnet_projection": config.postnet.size,
    }


def queue_options(config: TacotronConfig) -> dict[str, Any]:
    """The same, and those of builders whose prenet may read a queue of frames."""
    return tacotron1_options(config) | {
        "num_fed_frames": config.decoder.num_fed_frames,
        "encoder_prenet_sizes": (config.encoder.embedding_size, config.encoder.size // 2),
        "recurrent_size": config.encoder.size // 2,
    }


Find = str | Callable[[Callable[[str], Tensor]], Tensor]
"""Their name of one of our modules, or a function from a look-up of their weights by name to our weight."""
Names = Mapping[str, Find]


class Weights(NamedTuple):
    """The names of a program's weights.

    Args:
        names: from the model to a table from our modules (or weights) to theirs; the longest matching prefix counts.
        unused: their weights that have no effect.
    """

    names: Callable[[Tacotron], Names]
    unused: tuple[str, ...] = ()


def load_tacotron(model: Tacotron, weights: Mapping[str, Tensor], *, kind: str, like: str) -> Tacotron:
    """Loads the weights of another program into a model.

    Args:
        model: from `tacotron1` or `tacotron2` with this `like` and the sizes of the weights; is changed.
        weights: the program's state dict.
        kind: tacotron1 or tacotron2.
        like: the program.

    Raises:
        UnsupportedError: for a program without a table of names.
        DataError: for a weight that is missing, of another shape, or left over.
    """
    if like not in TACOTRON_WEIGHTS.get(kind, {}):
        known = ", ".join(f"{name} of {program}" for name, table in TACOTRON_WEIGHTS.items() for program in table)
        raise UnsupportedError(f"There is no table of names for {kind} of {like}; there is one for {known}.")
    table: Weights = TACOTRON_WEIGHTS[kind][like]
    names, unread = table.names(model), set(weights) - set(table.unused)

    def find(name: str) -> Tensor:
        if name not in weights:
            raise DataError(f"There is no weight {name}.")
        unread.discard(name)
        return weights[name]

    with torch.no_grad():
        for name, ours in model.state_dict().items():
            prefix = max((key for key in names if name == key or name.startswith(f"{key}.")), key=len, default=None)
            if prefix is None:
                raise DataError(f"{name} is missing in the table of names of {like}.")
            theirs = names[prefix]
            if isinstance(theirs, str):
                part = theirs + name[len(prefix) :]
                tensor = find(part if part in weights else part.removesuffix("_l0"))
            else:
                tensor = theirs(find)
            if tensor.shape != ours.shape:
                raise DataError(f"{name} needs {tuple(ours.shape)}; the weight is {tuple(tensor.shape)}.")
            ours.copy_(tensor)
    if unread:
        raise DataError(f"Weights that no module here has: {', '.join(sorted(unread))}.")
    return model


def numbered(ours: str, theirs: str, count: int) -> dict[str, Find]:
    """Modules that are numbered from 0 in both; `{}` is the number."""
    return {ours.format(number): theirs.format(number) for number in range(count)}


def convolution_blocks(
    model: Tacotron, *, encoder: str, postnet: str, filters: str = "0", norm: str = "1"
) -> dict[str, Find]:
    """The names of the blocks of a Tacotron 2.

    Args:
        encoder, postnet: their lists of blocks.
        filters, norm: the convolution and the normalisation in a block.
    """
    sides: tuple[tuple[str, str, Any], ...] = (
        ("encoder", encoder, model.encoder),
        ("postnets.mel", postnet, model.postnets["mel"]),
    )
    table: dict[str, Find] = {}
    for side, theirs, module in sides:
        count = len(module.convolutions)
        table |= numbered(f"{side}.convolutions.{{}}.convolution.filters", f"{theirs}.{{}}.{filters}", count)
        table |= numbered(f"{side}.convolutions.{{}}.norm", f"{theirs}.{{}}.{norm}", count)
    return table


def transposed(name: str) -> Find:
    """Their linear layer on location features, as our projection (1, F, D)."""
    return lambda find: find(name).T[None]


def context_last(name: str, context_size: int) -> Find:
    """Columns [c; p] as [p; c]."""
    return lambda find: find(name).roll(-context_size, 1)


def frame_by_frame(name: str, num_features: int) -> Find:
    """Rows that hold the r frames of a feature together, as rows that hold the features of a frame together."""
    return lambda find: find(name).unflatten(0, (num_features, -1)).transpose(0, 1).flatten(0, 1)
