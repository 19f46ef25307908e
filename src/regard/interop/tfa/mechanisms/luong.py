"""Multiplicative attention: `LuongAttention` and `LuongMonotonicAttention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.attention import Mechanism, luong
from regard.attention.contract import Tree
from regard.interop.tfa.layers.deferred import Type
from regard.interop.tfa.layers.functions import fill
from regard.interop.tfa.mechanisms.composed import ComposedAttention
from regard.interop.tfa.mechanisms.functions import MonotonicMode, ProbabilityFunction, checked_function, with_function
from regard.interop.tfa.mechanisms.monotonic import AbstractMonotonicAttention, reader


class LuongAttention(ComposedAttention):
    """Multiplicative attention, e_j = g · qᵀ W h_j, with queries of `units` features.

    It is `regard.attention.luong`, as `mechanism`; `mechanism.score` has W (`key_projection`, the transpose of
    memory_layer's kernel) and with `scale` g (`dot.scale`, attention_g).

    Args:
        units: the width of queries and keys.
        memory: (R, S, M); or later, by `setup_memory`.
        memory_sequence_length: (R,), the number of real positions.
        scale: whether g is learned, starting from 1; otherwise it is 1.
        probability_fn: "softmax", "hardmax", "sparsemax", or a function of the scores (R, S), as in TensorFlow 1.
        dtype: of the weights; that of the memory if None.
        name: without effect.
        options: num_units, score_mask_value, memory_size and memory_layer (W), as in `ComposedAttention`.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1, `general`.

    >>> import torch
    >>> mechanism = LuongAttention(4, torch.zeros(2, 5, 6), [5, 3])
    >>> mechanism([torch.zeros(2, 3), mechanism.initial_state(2)])
    Traceback (most recent call last):
    regard.errors.ShapeError: LuongAttention multiplies queries with keys of units=4 features.
      query  (R=2, Q=3) float32
      Give units=3, the width of the cell's output.
    """

    projects_query = False

    def __init__(
        self,
        units: int | None = None,
        memory: Tree = None,
        memory_sequence_length: Tensor | Sequence[int] | None = None,
        scale: bool = False,
        probability_fn: str | ProbabilityFunction | None = "softmax",
        dtype: Type = None,
        name: str = "LuongAttention",
        **options: Any,
    ) -> None:
        super().__init__(units, dtype=dtype, name=name, **options)
        self.scale, self.function = scale, checked_function(probability_fn)
        self._begin(memory, memory_sequence_length)

    def compose(self, query_size: int, memory_size: int) -> Mechanism:
        mechanism = luong(query_size=query_size, memory_size=memory_size, learned_scale=self.scale)
        return with_function(mechanism, self.function, self.score_mask_value)

    def initialise(self, mechanism: Mechanism) -> None:
        fill_keys(mechanism)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"scale": self.scale, "probability_fn": self.function}


class LuongMonotonicAttention(AbstractMonotonicAttention):
    """Monotonic attention with the energies of `LuongAttention` plus a learned bias.

    It is `regard.attention.monotonic`. `mechanism.alignment.bias` is attention_score_bias; the other weights are those
    of `LuongAttention`.

    Args:
        units, memory, memory_sequence_length, scale, dtype, name: as in `LuongAttention`.
        sigmoid_noise: the standard deviation of normal noise on the energies, added only in training mode; the original
            always adds it.
        sigmoid_noise_seed: of the noise; torch's own generator if None.
        mode: recursive (exact), parallel (loses mass in long sources) or hard (see `monotonic_attention`).
        options: as in `LuongAttention`; score_mask_value is None or −∞: padding is never chosen.

    Source: Raffel et al. 2017 (arXiv 1704.00784).
    """

    projects_query = False

    def __init__(
        self,
        units: int | None = None,
        memory: Tree = None,
        memory_sequence_length: Tensor | Sequence[int] | None = None,
        scale: bool = False,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: MonotonicMode = "parallel",
        dtype: Type = None,
        name: str = "LuongMonotonicAttention",
        **options: Any,
    ) -> None:
        super().__init__(
            units,
            sigmoid_noise=sigmoid_noise,
            sigmoid_noise_seed=sigmoid_noise_seed,
            score_bias_init=score_bias_init,
            mode=mode,
            dtype=dtype,
            name=name,
            **options,
        )
        self.scale = scale
        self._begin(memory, memory_sequence_length)

    def compose(self, query_size: int, memory_size: int) -> Mechanism:
        return reader(self, query_size=query_size, memory_size=memory_size, score="general", learned_scale=self.scale)

    def initialise(self, mechanism: Mechanism) -> None:
        fill_keys(mechanism)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"scale": self.scale}


def fill_keys(mechanism: Mechanism) -> None:
    """Initialises W Glorot-uniformly, as Keras."""
    score: Any = mechanism.score
    fill(score.key_projection.weight, "glorot_uniform")
