"""Builds the network of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.interface import AbstractAttention
from regard.audio import FrontEnd
from regard.errors import ConfigError
from regard.models import Tacotron, tacotron1, tacotron2
from regard.tasks.build import build_mechanism
from regard.tasks.text_to_speech.config import TacotronConfig
from regard.tasks.text_to_speech.forms import form_of


class SpeechNetwork(nn.Module):
    """A Tacotron, and `reduction`, the r of its last training step, in a tensor that is saved with the weights."""

    reduction: Tensor

    def __init__(self, tacotron: Tacotron) -> None:
        super().__init__()
        self.tacotron = tacotron
        self.register_buffer("reduction", torch.tensor(tacotron.decoder.num_frames))

    def forward(self, *args: Any, **options: Any) -> Any:
        """The Tacotron's output with the r of its last training step."""
        return self.tacotron(*args, num_frames=int(self.reduction), **options)


def build_network(config: TacotronConfig, *, num_symbols: int, front_end: FrontEnd) -> SpeechNetwork:
    """The network, freshly initialised."""
    _check(config)

    def attention(*, query_size: int, memory_size: int) -> AbstractAttention:
        return build_mechanism(
            config.attention,
            query_size=query_size,
            memory_size=memory_size,
            input_size=config.decoder.num_fed_frames * front_end.num_mels,
        )

    form = None if config.like is None else form_of(config.like, config.architecture)
    options = (OPTIONS[config.architecture] if form is None else form.options)(config)
    if has_linear(config):
        options["num_linear"] = front_end.num_bins
    return SpeechNetwork(
        BUILD[config.architecture](
            num_symbols, attention=attention, num_features=front_end.num_mels, like=config.like, **options
        )
    )


def _decoder(config: TacotronConfig) -> dict[str, Any]:
    """The options of a decoder; without `dropout` the cells have that of the architecture."""
    options = config.decoder.model_dump(exclude={"reductions"})
    if config.decoder.dropout is None:
        del options["dropout"]
    return options


def _tacotron1(config: TacotronConfig) -> dict[str, Any]:
    return {
        "embedding_size": config.encoder.embedding_size,
        "encoder_size": config.encoder.size,
        "bank_size": max(1, config.encoder.size // 2),
        "encoder_prenet_sizes": (config.encoder.embedding_size, config.encoder.size // 2),
        "num_filters": config.encoder.filters,
        "postnet_size": config.postnet.size,
        "num_linear": None,
        **_decoder(config),
    }


def _tacotron2(config: TacotronConfig) -> dict[str, Any]:
    return {
        "embedding_size": config.encoder.embedding_size,
        "encoder_size": config.encoder.size,
        "num_convolutions": config.encoder.convolutions,
        "encoder_dropout": config.encoder.dropout,
        "postnet_size": config.postnet.size,
        "postnet_layers": config.postnet.layers,
        **_decoder(config),
    }


BUILD: dict[str, Callable[..., Tacotron]] = {"tacotron1": tacotron1, "tacotron2": tacotron2}
OPTIONS: dict[str, Callable[[TacotronConfig], dict[str, Any]]] = {"tacotron1": _tacotron1, "tacotron2": _tacotron2}
"""For each architecture, the options of its function from a configuration without `like`."""


def _check(config: TacotronConfig) -> None:
    """Refuses sizes that contradict each other."""
    halves = [("encoder", config.encoder.size)]
    if config.architecture == "tacotron1":
        halves.append(("postnet", config.postnet.size))
    for section, size in halves:
        if size % 2:
            raise ConfigError(
                f"size {size} is divided between two directions: give an even number", ("model", section, "size")
            )
    decoder = config.decoder
    if not decoder.prenet_sizes:
        raise ConfigError("a prenet has at least one layer: give its size", ("model", "decoder", "prenet_sizes"))
    if decoder.coarse_frames is not None and decoder.coarse_frames <= decoder.num_frames:
        raise ConfigError(
            f"the second decoder makes more frames in a step than the first, num_frames={decoder.num_frames}; got "
            f"{decoder.coarse_frames}",
            ("model", "decoder", "coarse_frames"),
        )
    if decoder.zoneout and decoder.dropout:
        raise ConfigError(
            "zoneout and dropout both act on the states of cells; set one of them", ("model", "decoder", "zoneout")
        )


def has_linear(config: TacotronConfig) -> bool:
    """Whether the postnet makes linear spectrograms, from which sounds are computed."""
    form = None if config.like is None else form_of(config.like, config.architecture)
    is_linear = config.architecture == "tacotron1" or (form is not None and form.linear_postnet)
    return config.postnet.layers > 0 and is_linear
