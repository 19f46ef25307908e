"""Models as other implementations compute them: for weights that were trained there, and for comparisons.

| encoder, decoder | `like` | what it changes |
|---|---|---|
| Transformer | `annotated_transformer` | `AnnotatedLayerNorm`; all matrices are drawn by Glorot & Bengio's formula |

`tacotron1` and `tacotron2` with the option `like` are assembled anew from the same parts:

| model | `like` | what is different |
|---|---|---|
| `tacotron1` | `coqui` | no maximum, normalised before ReLU; a logit of stopping from the frames; σ-normed location |
| `tacotron1` | `keithito` | TensorFlow's GRUs; frames from the cells only; no logit of stopping |
| `tacotron1` | `mozilla` | the old cell: additive, σ-normed, a window in evaluation; a queue of frames |
| `tacotron2` | `coqui` | dropout on h and c; the prenet drops in training only; a logit of stopping from the frames |
| `tacotron2` | `espnet` | asks with the old state; zoneout; location-sensitive on the sum, twice as sharp |
| `tacotron2` | `nvidia`, `speechbrain` | the prenet sees all r frames and has no biases; one logit a step |
| `tacotron2` | `rayhane` | asks with the upper of two LSTMs; zoneout; ReLU before the norm; both spectrograms |

`load_tacotron` copies the weights of NVIDIA's, SpeechBrain's, ESPnet's and Coqui's models by name. Padding counts
nowhere in any of them; where an original lets it count, the two agree on sentences without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.models.peers import coqui, espnet, keithito, mozilla, nvidia, rayhane, speechbrain
from regard.models.peers.annotated_transformer import AnnotatedLayerNorm, annotated_transformer
from regard.models.peers.coqui import FrameStop
from regard.models.peers.names import Names, load_named
from regard.models.peers.rayhane import ProjectedPostnet
from regard.models.tacotron import Tacotron

IMITATIONS: dict[str, Callable[[nn.Module], None]] = {"annotated_transformer": annotated_transformer}
"""For each implementation, the function that changes a new encoder or decoder."""

TACOTRONS: dict[str, dict[str, Callable[..., Tacotron]]] = {
    "tacotron1": {
        "coqui": coqui.tacotron1,
        "keithito": keithito.tacotron1,
        "mozilla": mozilla.tacotron1,
    },
    "tacotron2": {
        "coqui": coqui.tacotron2,
        "espnet": espnet.tacotron2,
        "nvidia": nvidia.tacotron2,
        "rayhane": rayhane.tacotron2,
        "speechbrain": speechbrain.tacotron2,
    },
}
"""For each model and implementation, the function that builds it."""

TABLES: dict[tuple[str, str], tuple[Callable[[Any], Names], tuple[str, ...]]] = {
    ("tacotron1", "coqui"): (coqui.names1, ()),
    ("tacotron2", "coqui"): (coqui.names2, ()),
    ("tacotron2", "espnet"): (espnet.names, espnet.UNUSED),
    ("tacotron2", "nvidia"): (nvidia.names, ()),
    ("tacotron2", "speechbrain"): (speechbrain.names, ()),
}
"""For each model and implementation whose weights can be read, the table of its names, and weights without effect."""


def load_tacotron(model: Tacotron, weights: Mapping[str, Tensor], *, kind: str, like: str) -> Tacotron:
    """The model, with the weights of another program.

    Args:
        model: as `tacotron1` or `tacotron2` builds it with this `like` and the sizes of the weights; it is changed.
        weights: the program's state dict.
        kind: tacotron1 or tacotron2.
        like: which program.

    Raises:
        UnsupportedError: for a program whose weights cannot be read.
        DataError: for a weight that is missing, of another shape, or left over.
    """
    if (kind, like) not in TABLES:
        known = ", ".join(f"{name} of {peer}" for name, peer in TABLES)
        raise UnsupportedError(f"There is no table of names for {kind} of {like}; there is one for {known}.")
    names, unused = TABLES[kind, like]
    return load_named(model, weights, names(model), unused=unused)


__all__ = [
    "IMITATIONS",
    "TABLES",
    "TACOTRONS",
    "AnnotatedLayerNorm",
    "FrameStop",
    "ProjectedPostnet",
    "annotated_transformer",
    "load_tacotron",
]
