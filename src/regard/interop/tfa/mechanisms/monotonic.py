"""Monotonic attention: the base of both mechanisms, and their mode `parallel` as a variant of the recipe."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor

from regard import ops
from regard.attention import Mechanism, monotonic, recipes
from regard.attention.alignments.monotonic import MonotonicAlignment
from regard.errors import UnsupportedError
from regard.interop.tfa.layers.deferred import Type, type_of
from regard.interop.tfa.mechanisms.composed import ComposedAttention
from regard.interop.tfa.mechanisms.functions import MonotonicMode, check_mode
from regard.shapes import Float

READER = ("num_heads", "bias", "learned_bias", "noise", "hard", "remaining")


class ClippedMonotonicAlignment(MonotonicAlignment):
    """Their mode `parallel` (`ops.clipped_monotonic_alignment`), which loses mass in long sources.

    Their mode `recursive` is `MonotonicAlignment`, which is exact, and their mode `hard` is hard="always". They add
    noise also in evaluation; here it is added only in training.
    """

    def expect(self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"]) -> Float[Tensor, "R H S"]:
        """α_i, the expected alignment."""
        return ops.clipped_monotonic_alignment(chance, previous)


def clipped_monotonic(**options: Any) -> Mechanism:
    """BahdanauMonotonicAttention and LuongMonotonicAttention in mode `parallel`."""
    if options.get("hard") == "always":
        raise UnsupportedError(
            "like='tfa_parallel': with hard='always' there is no expected alignment; leave one of the two out."
        )
    plain = recipes.monotonic(**options)
    alignment = ClippedMonotonicAlignment(**{name: options[name] for name in READER if name in options})
    return Mechanism(plain.score, alignment, plain.read, plain.window)


class AbstractMonotonicAttention(ComposedAttention):
    """Attention that moves from left to right; its state is the previous alignment.

    Args:
        units, options: as in `ComposedAttention`.
        sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode: as in `BahdanauMonotonicAttention`.
    """

    is_monotonic = True

    def __init__(
        self,
        units: int | None,
        *,
        sigmoid_noise: float,
        sigmoid_noise_seed: int | None,
        score_bias_init: float,
        mode: MonotonicMode,
        score_mask_value: float | None = None,
        **options: Any,
    ) -> None:
        check_mode(mode)
        if score_mask_value is not None and score_mask_value != -math.inf:
            raise UnsupportedError(
                f"score_mask_value={score_mask_value}: monotonic attention never stops at padding; give -inf or None."
            )
        super().__init__(units, score_mask_value=score_mask_value, **options)
        self.sigmoid_noise, self.sigmoid_noise_seed = sigmoid_noise, sigmoid_noise_seed
        self.score_bias_init, self.mode = score_bias_init, mode
        self._noise: Generator | None = None

    def initial_alignments(self, batch_size: int, dtype: Type = None) -> Float[Tensor, "R S"]:
        """The alignments before the first step: 1 at the first position."""
        first = self._first(batch_size, type_of(dtype))
        first[:, :1] = 1
        return first

    def _generator(self, like: Tensor) -> Generator | None:
        if self.sigmoid_noise_seed is None or not self.training:
            return None
        if self._noise is None or self._noise.device != like.device:
            self._noise = torch.Generator(like.device).manual_seed(self.sigmoid_noise_seed)
        return self._noise

    def get_config(self) -> dict[str, Any]:
        names = ("sigmoid_noise", "sigmoid_noise_seed", "score_bias_init", "mode")
        return super().get_config() | {name: getattr(self, name) for name in names}


def reader(attention: AbstractMonotonicAttention, **options: Any) -> Mechanism:
    """`regard.attention.monotonic` with the options of a mechanism, and further ones."""
    like: Any = "tfa_parallel" if attention.mode == "parallel" else None
    return monotonic(
        bias=attention.score_bias_init,
        noise=attention.sigmoid_noise,
        hard="always" if attention.mode == "hard" else "never",
        like=like,
        **options,
    )
