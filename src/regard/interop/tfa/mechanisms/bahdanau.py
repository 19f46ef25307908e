"""Additive attention: `BahdanauAttention` and `BahdanauMonotonicAttention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.attention import Mechanism, bahdanau
from regard.attention.contract import Tree
from regard.interop.tfa.layers.deferred import Type
from regard.interop.tfa.layers.functions import Initialiser, fill, initialiser
from regard.interop.tfa.mechanisms.composed import ComposedAttention
from regard.interop.tfa.mechanisms.functions import MonotonicMode, ProbabilityFunction, checked_function, with_function
from regard.interop.tfa.mechanisms.monotonic import AbstractMonotonicAttention, reader


class BahdanauAttention(ComposedAttention):
    """Additive attention, e_j = vᵀ tanh(W q + U h_j), or with `normalize` e_j = g · vᵀ/‖v‖ tanh(W q + U h_j + b).

    It is `regard.attention.bahdanau`, as `mechanism`; `mechanism.score` has W (`query_projection`, the transpose of
    query_layer's kernel; its bias is attention_b), U (`key_projection`, of memory_layer's), `v` (1, units)
    (attention_v) and `gain` (1, 1) (attention_g).

    Args:
        units: the width of the hidden layer.
        memory: (R, S, M); or later, by `setup_memory`.
        memory_sequence_length: (R,), the number of real positions.
        normalize: weight normalisation of v, with a bias.
        probability_fn: "softmax", "hardmax", "sparsemax", or a function of the scores (R, S), as in TensorFlow 1.
        kernel_initializer: of v: a name of Keras, or a function that fills a tensor.
        dtype: of the weights; that of the memory if None.
        name: without effect.
        options: num_units, score_mask_value, query_size, memory_size, query_layer (W) and memory_layer (U), as in
            `ComposedAttention`.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), but with the state after the step as the query.

    >>> import torch
    >>> mechanism = BahdanauAttention(4, torch.zeros(2, 5, 6), [5, 3])
    >>> alignments, state = mechanism([torch.zeros(2, 7), mechanism.initial_state(2)])
    >>> alignments[1]
    tensor([0.3333, 0.3333, 0.3333, 0.0000, 0.0000], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        units: int | None = None,
        memory: Tree = None,
        memory_sequence_length: Tensor | Sequence[int] | None = None,
        normalize: bool = False,
        probability_fn: str | ProbabilityFunction | None = "softmax",
        kernel_initializer: Initialiser = "glorot_uniform",
        dtype: Type = None,
        name: str = "BahdanauAttention",
        **options: Any,
    ) -> None:
        initialiser(kernel_initializer)
        super().__init__(units, dtype=dtype, name=name, **options)
        self.normalize, self.kernel_initializer = normalize, kernel_initializer
        self.function = checked_function(probability_fn)
        self._begin(memory, memory_sequence_length)

    def compose(self, query_size: int, memory_size: int) -> Mechanism:
        mechanism = bahdanau(query_size=query_size, memory_size=memory_size, size=self.units, normalised=self.normalize)
        return with_function(mechanism, self.function, self.score_mask_value)

    def initialise(self, mechanism: Mechanism) -> None:
        fill_vector(mechanism, self.kernel_initializer)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "normalize": self.normalize,
            "probability_fn": self.function,
            "kernel_initializer": self.kernel_initializer,
        }


class BahdanauMonotonicAttention(AbstractMonotonicAttention):
    """Monotonic attention with the energies of `BahdanauAttention` plus a learned bias.

    It is `regard.attention.monotonic`. `mechanism.alignment.bias` is attention_score_bias; the other weights are those
    of `BahdanauAttention`.

    Args:
        units, memory, memory_sequence_length, normalize, kernel_initializer, dtype, name: as in `BahdanauAttention`.
        sigmoid_noise: the standard deviation of normal noise on the energies, added only in training mode; the original
            always adds it.
        sigmoid_noise_seed: of the noise; torch's own generator if None.
        mode: recursive (exact), parallel (loses mass in long sources) or hard (see `monotonic_attention`).
        options: as in `BahdanauAttention`; score_mask_value is None or −∞: padding is never chosen.

    Source: Raffel et al. 2017 (arXiv 1704.00784).
    """

    def __init__(
        self,
        units: int | None = None,
        memory: Tree = None,
        memory_sequence_length: Tensor | Sequence[int] | None = None,
        normalize: bool = False,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: MonotonicMode = "parallel",
        kernel_initializer: Initialiser = "glorot_uniform",
        dtype: Type = None,
        name: str = "BahdanauMonotonicAttention",
        **options: Any,
    ) -> None:
        initialiser(kernel_initializer)
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
        self.normalize, self.kernel_initializer = normalize, kernel_initializer
        self._begin(memory, memory_sequence_length)

    def compose(self, query_size: int, memory_size: int) -> Mechanism:
        return reader(self, query_size=query_size, memory_size=memory_size, size=self.units, normalised=self.normalize)

    def initialise(self, mechanism: Mechanism) -> None:
        fill_vector(mechanism, self.kernel_initializer)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"normalize": self.normalize, "kernel_initializer": self.kernel_initializer}


def fill_vector(mechanism: Mechanism, wanted: Initialiser) -> None:
    """Initialises v, as a vector (units,) like the original's."""
    score: Any = mechanism.score
    fill(score.v[0], wanted)
