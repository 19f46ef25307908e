"""The network: an encoder of the history, a decoder of the horizon, and the base to which its outputs are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, UnsupportedError
from regard.layers import QuantileHead, ValueEmbedding, ValueHead
from regard.models import ChangeDecoder, RecurrentEncoder
from regard.shapes import Bool, Float
from regard.tasks.build import build_decoder, build_encoder
from regard.tasks.forecasting.config import RecurrentForecasterConfig

Batch = Mapping[str, Tensor]
"""The tensors of `SeriesBatch.tensors`."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of the forecasts of R sequences: windows, or windows times targets.

    Args:
        last: (R, F) the last observation, which is the first input.
        base: (R, T, F), to which the outputs are added, or None.
        known: (R, T, K) known inputs of the horizon.
    """

    memory: Any
    last: Tensor
    base: Tensor | None
    known: Tensor

    def inputs(self, previous: Float[Tensor, "R T F"]) -> Tensor:
        """The decoder's inputs (R, T, I), from the values of the previous steps."""
        steps = previous.shape[1]
        base = [] if self.base is None else [self.base[:, :steps]]
        return torch.cat([*base, previous, self.known[:, :steps]], -1)

    @property
    def first(self) -> Tensor:
        """The inputs (R, I) of the first step."""
        return self.inputs(self.last[:, None])[:, 0]

    @property
    def feed(self) -> Futures:
        """Makes the next inputs from values, for free runs."""
        return Futures(self.base, self.known)


@dataclass(frozen=True, slots=True)
class Futures:
    """The inputs of steps besides the values, from `Conditions`."""

    base: Tensor | None
    known: Tensor

    def __call__(self, values: Float[Tensor, "R F"], rows: Tensor, step: Any) -> Float[Tensor, "R I"]:
        """The inputs of a step from the values of the one before."""
        base = [] if self.base is None else [self.base[rows, step]]
        return torch.cat([*base, values, self.known[rows, step]], -1)


class LinearPath(nn.Module):
    """A linear map of the history: step t of target f is x W + b, with the past x (P,) of this target.

    Its weights are those of a ridge regression (`regard.data.series.LinearForecast`) and are not trained.
    """

    weights: Tensor

    def __init__(self, num_targets: int, past: int, steps: int) -> None:
        super().__init__()
        self.register_buffer("weights", torch.zeros(num_targets, past + 1, steps))

    def forward(self, past: Float[Tensor, "B P F"]) -> Float[Tensor, "B T F"]:
        """The forecasts."""
        values = torch.einsum("bpf,fpt->btf", past, self.weights[:, :-1])
        return values + self.weights[:, -1].T


class ForecastNetwork(nn.Module):
    """A network that forecasts F targets from their history and K known inputs.

    The encoder reads the values of a step, a flag for each missing one, and the known inputs. The decoder's inputs are
    the value of the linear path, if there is one, the values of the previous step, and the known inputs.

    Args:
        linear: the path to which the decoder's outputs are added, or None.
        is_separate: whether every target is a sequence of its own.
    """

    decoder: Any

    def __init__(
        self,
        encoder: RecurrentEncoder,
        decoder: nn.Module,
        *,
        linear: LinearPath | None = None,
        is_separate: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.linear = linear
        self.is_separate = is_separate

    def prepare(self, batch: Batch) -> Conditions:
        """Encodes the histories of a batch."""
        history, observed = batch["history"], batch["history_observed"]
        mask = batch.get("history_mask")
        real = torch.ones_like(observed[..., 0]) if mask is None else mask
        missing = (~observed & real[..., None]).to(history.dtype)
        base = None if self.linear is None else self.split(self.linear(_to_the_right(history, observed, mask)))
        fold, known = self.split, batch["future_known"]
        count = history.shape[2] if self.is_separate else 1
        inputs = [fold(history), fold(missing), _repeated(batch["history_known"], count)]
        repeated = None if mask is None else _repeated(mask, count)
        encoded = self.encoder.encode(torch.cat(inputs, -1), repeated)
        last = fold(_last(history, mask)[:, None])[:, 0]
        return Conditions(self.decoder.prepare(encoded), last, base, _repeated(known, count))

    def split(self, values: Float[Tensor, "B N F"]) -> Tensor:
        """(B·F, N, 1) if every target is a sequence of its own, else the values."""
        return values.transpose(1, 2).reshape(-1, values.shape[1], 1) if self.is_separate else values

    def joined(self, values: Tensor, num_windows: int) -> Tensor:
        """Values (R, T, F or 1, …) as (B, T, F, …)."""
        if not self.is_separate:
            return values
        rows = values.squeeze(2).unflatten(0, (num_windows, -1))
        return rows.transpose(1, 2)


def build_network(
    config: RecurrentForecasterConfig, *, num_targets: int, num_known: int, history: int, horizon: int
) -> ForecastNetwork:
    """The network that a configuration describes, freshly initialised."""
    width = 1 if config.channels == "separate" else num_targets
    is_linear, levels = config.adds_to == "linear", config.quantiles
    encoder = build_encoder(
        config.encoder,
        lambda: ValueEmbedding(2 * width + num_known, config.encoder.embedding_size, dropout=config.encoder.dropout),
    )
    num_inputs = (2 if is_linear else 1) * width + num_known
    core = build_decoder(
        config.decoder,
        config.attention,
        encoder.stack,
        embedding=lambda: ValueEmbedding(num_inputs, config.decoder.embedding_size, dropout=config.decoder.dropout),
        head=lambda size, _: _head(size, width, levels),
        continuous=True,
    )
    if is_linear:  # so that the forecasts of an untrained network are those of the linear path
        for parameter in core.head.parameters():
            nn.init.zeros_(parameter)
    return ForecastNetwork(
        encoder,
        core if config.adds_to == "nothing" else ChangeDecoder(core),
        linear=LinearPath(num_targets, history, horizon) if is_linear else None,
        is_separate=config.channels == "separate",
    )


def _head(size: int, width: int, levels: Sequence[float] | None) -> nn.Module:
    """The output layer of points or quantiles."""
    if levels is None:
        return ValueHead(size, width)
    try:
        return QuantileHead(size, width, levels=levels)
    except UnsupportedError as error:
        raise ConfigError(str(error), ("model", "quantiles")) from None


def _repeated(values: Tensor, count: int) -> Tensor:
    """Every row `count` times."""
    return values if count == 1 else values.repeat_interleave(count, 0)


def _last(history: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"] | None) -> Tensor:
    """(B, F) the values at the last real step."""
    if mask is None:
        return history[:, -1]
    at = (mask.sum(1) - 1).clamp(min=0)
    return history[torch.arange(len(history), device=history.device), at]


def _to_the_right(
    history: Float[Tensor, "B S F"], observed: Bool[Tensor, "B S F"], mask: Bool[Tensor, "B S"] | None
) -> Tensor:
    """(B, S, F) the histories aligned at the right; missing values before them are the first observed value."""
    steps = torch.arange(history.shape[1], device=history.device)
    first = observed.to(torch.uint8).argmax(1, keepdim=True)  # (B, 1, F)
    shift = 0 if mask is None else (history.shape[1] - mask.sum(1))[:, None]
    at = (steps - shift)[..., None] if mask is not None else steps[None, :, None]
    at = torch.maximum(at.expand(history.shape), first)
    return history.gather(1, at)
