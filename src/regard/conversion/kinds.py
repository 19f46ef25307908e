"""The kinds of models that can be converted, by name."""

from __future__ import annotations

from collections.abc import Mapping

from regard.config.spelling import suggestion
from regard.conversion.contract import AbstractKind
from regard.conversion.eole import Eole
from regard.conversion.joeynmt import JoeyNMT
from regard.conversion.marian import Marian
from regard.conversion.nvidia import Nvidia
from regard.conversion.opennmt import OpenNMT
from regard.conversion.tfa import TensorFlowAddons
from regard.conversion.torch_transformer import TorchTransformer
from regard.errors import ConfigError

KINDS: Mapping[str, AbstractKind] = {
    "eole": Eole(),
    "opennmt": OpenNMT(),
    "tfa": TensorFlowAddons(),
    "joeynmt": JoeyNMT(),
    "marian": Marian(),
    "torch": TorchTransformer(),
    "nvidia": Nvidia(),
}
"""The kinds by the names that `regard convert` takes."""


def kind_of(name: str) -> AbstractKind:
    """The kind of a name.

    Raises:
        ConfigError: for a name that is none; the text has the nearest.
    """
    if name not in KINDS:
        raise ConfigError(f"there is no kind {name!r}; {suggestion(name, KINDS)}")
    return KINDS[name]
