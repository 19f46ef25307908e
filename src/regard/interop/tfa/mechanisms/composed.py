"""The base of mechanisms that are composed of the parts of `regard.attention`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard.attention import Mechanism
from regard.attention.contract import MechanismState, Memory, StepInputs, Tree, initial_position
from regard.errors import DataError, ShapeError, UnsupportedError
from regard.interop.tfa.layers.deferred import (
    DeferredModule,
    DeferredParameter,
    Type,
    adopt,
    check_type,
    checked_width,
    defer,
    target,
)
from regard.interop.tfa.layers.originals import FromTensorflow, Pool, Shape
from regard.interop.tfa.mechanisms.contract import AttentionMechanism
from regard.layers.module_weights import overridden
from regard.shapes import Bool, Float, describe


class ComposedAttention(FromTensorflow, AttentionMechanism, DeferredModule):
    """A mechanism with the calls of the original that is computed by a `Mechanism`, its `mechanism`.

    The weights get their values when the widths of memory and query are known: from `memory_size` and `query_size`,
    from the memory and the cell of the wrapper, from a state dict, or from the first query. The keys are computed again
    after a change of the weights, by a step of an optimiser or by loading.

    Args:
        units: the width of keys and projected queries.
        num_units: `units` by its name in TensorFlow 1.
        dtype, name: as in `AttentionMechanism`.
        score_mask_value: the score of padding, as in TensorFlow 1. If None, padding has a weight of exactly 0.
        query_size, memory_size: Q and M, to make the weights at once.
        query_layer, memory_layer: modules instead of the linear layers without bias that map queries and memory to
            `units` features.

    Raises:
        UnsupportedError: without one of units and num_units, or for options about queries that are not projected.
        ConfigError: for another width than a whole number above 0.
    """

    is_monotonic = False
    projects_query = True
    """Whether queries are projected; otherwise they must have `units` features."""
    _query_size: int | None = None
    _memory_size: int | None = None

    def __init__(
        self,
        units: int | None,
        *,
        num_units: int | None = None,
        dtype: Type = None,
        name: str,
        score_mask_value: float | None = None,
        query_size: int | None = None,
        memory_size: int | None = None,
        query_layer: nn.Module | None = None,
        memory_layer: nn.Module | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name, score_mask_value=score_mask_value)
        for option, value in (("query_layer", query_layer), ("query_size", query_size)):
            if value is not None and not self.projects_query:
                raise UnsupportedError(f"{type(self).__name__} does not project its queries: leave {option} out.")
        if (units is None) == (num_units is None):
            raise UnsupportedError(f"units={units} and num_units={num_units} are two names of one number: give one.")
        self.units = checked_width("units, the first argument,", num_units if units is None else units)
        self.mechanism: Mechanism
        self._is_built = False
        self._given = {"query_layer": query_layer, "memory_layer": memory_layer}
        self._sizes = {"query_size": query_size, "memory_size": memory_size}
        self._query_size = query_size if self.projects_query else self.units
        self._memory_size = memory_size
        self._memory: Memory | None = None
        self._stamp: tuple[bool, tuple[tuple[int, int], ...]] = (False, ())

    def _begin(self, memory: Tree, memory_sequence_length: Tensor | Sequence[int] | None) -> None:
        """Makes the weights, with values if their sizes are known, and stores the memory, if any."""
        with torch.random.fork_rng(devices=[]):  # a stand-in of any size, whose values are not used
            stand_in = self.compose(self._query_size or 1, self._memory_size or 1)
        defer(stand_in, self, self.name, self.dtype)
        self.mechanism = self._with_given_layers(stand_in)
        if self._memory_size is not None and self._query_size is not None:
            self.build(query_size=self._query_size, memory_size=self._memory_size)
        self._set_up(memory, memory_sequence_length)

    def compose(self, query_size: int, memory_size: int) -> Mechanism:
        """The mechanism."""
        raise NotImplementedError

    def initialise(self, mechanism: Mechanism) -> None:
        """Draws the weights whose initial values differ from those of `compose`."""
        raise NotImplementedError

    @property
    def built(self) -> bool:
        return self._is_built

    @property
    def query_layer(self) -> nn.Module | None:
        score: Any = self.mechanism.score
        return score.query_projection if self.projects_query else None

    @property
    def memory_layer(self) -> nn.Module:
        score: Any = self.mechanism.score
        layer: nn.Module = score.key_projection
        return layer

    def sizes_in(self, weights: Mapping[str, Tensor]) -> Mapping[str, int] | None:
        keys = weights.get("mechanism.score.key_projection.weight")
        queries = weights.get("mechanism.score.query_projection.weight")
        query_size = self._query_size if queries is None else queries.shape[1]
        memory_size = self._memory_size if keys is None else keys.shape[1]
        if query_size is None or memory_size is None:
            return None
        return {"query_size": query_size, "memory_size": memory_size}

    def build(self, query_size: int, memory_size: int, *, like: Tensor | None = None) -> None:
        """Makes the values of the weights, unless they have been made.

        Args:
            query_size, memory_size: Q and M.
            like: a tensor with the device and type of the weights.
        """
        if self.built:
            return
        with torch.inference_mode(False), torch.no_grad():
            mechanism = self.compose(query_size, memory_size)
            self.initialise(mechanism)
            mechanism.to(**target(self.mechanism, self.dtype, like))
        mechanism = self._with_given_layers(mechanism)
        adopt(mechanism, self.mechanism)
        self.mechanism = mechanism.train(self.training)
        self._query_size, self._memory_size, self._is_built = query_size, memory_size, True

    def _with_given_layers(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with the layers that were given to the constructor."""
        score: Any = mechanism.score
        if (layer := self._given["memory_layer"]) is not None:
            score.key_projection = layer
        if (layer := self._given["query_layer"]) is not None:
            bias = score.query_projection.bias
            score.query_projection = layer if bias is None else Shifted(layer, bias)
        return mechanism

    def build_for(self, query_size: int, like: Tensor | None = None) -> None:
        """Makes the weights for queries of this width, if there is a memory or `memory_size`."""
        if self._memory_size is not None:
            self.build(query_size=query_size, memory_size=self._memory_size, like=self._like(like))

    def _like(self, other: Tensor | None = None) -> Tensor | None:
        return self._values if isinstance(self._values, Tensor) else other

    def _prepare_memory(self, memory: Tree, mask: Bool[Tensor, "R S"] | None) -> Tree:
        """The memory, unchanged: the mechanism sets padding to zero."""
        return memory

    def _keep(self, values: Tree, mask: Tensor | None) -> None:
        if not isinstance(values, Tensor) or values.dim() != 3:
            raise ShapeError(
                f"{type(self).__name__} attends to a memory (R, S, M); "
                + (
                    "got:\n" + describe({"memory": ("R S", values)})
                    if isinstance(values, Tensor)
                    else "got a tree: let a subclass join it in _prepare_memory."
                )
            )
        self._values, self._mask, self._memory = values, mask, None
        if self._memory_size is None:
            self._memory_size = values.shape[-1]
        if self._query_size is not None:
            self._prepared()

    def _prepared(self, query_size: int | None = None) -> Memory:
        """The memory of the mechanism; missing weights are made for queries of this width."""
        if self._memory is None or self._is_stale():
            self._check_memory()
            query_size = query_size if self._query_size is None else self._query_size
            if query_size is None:
                raise UnsupportedError(
                    f"{type(self).__name__} has no weights before the width of its queries is known: give query_size "
                    "to the constructor, make the AttentionWrapper, or attend first."
                )
            assert self._memory_size is not None
            self.build(query_size=query_size, memory_size=self._memory_size, like=self._like())
            weight = next(self.mechanism.score.parameters(), None)
            if weight is not None and not isinstance(weight, DeferredParameter):
                check_type("memory", self._values, weight)
            self._memory = self.mechanism.prepare(self._values, mask=self._mask)
            self._stamp = torch.is_grad_enabled(), self._versions()
        return self._memory

    def _is_stale(self) -> bool:
        """Whether the weights have changed since the keys were computed, or the keys lack required gradients."""
        has_gradients, versions = self._stamp
        return (torch.is_grad_enabled() and not has_gradients) or self._versions() != versions

    def _versions(self) -> tuple[tuple[int, int], ...]:
        """The identity and the version of the weights of the keys."""
        if torch.compiler.is_compiling():
            return ()
        weights = self.memory_layer.parameters()
        return tuple((id(weight), 0 if weight.is_inference() else weight._version) for weight in weights)

    @property
    def values(self) -> Tensor:
        self._check_memory()
        if self._memory is not None:
            return self._memory.read[:, :, 0]
        return self._values if self._mask is None else self._values.masked_fill(~self._mask[..., None], 0)

    @property
    def keys(self) -> Tensor:
        return self._prepared().score[:, :, 0]

    @property
    def batch_size(self) -> int:
        self._check_memory()
        return int(self._values.shape[0])

    @property
    def alignments_size(self) -> int:
        self._check_memory()
        return int(self._values.shape[1])

    @property
    def context_size(self) -> int:
        if self._memory_size is None:
            self._check_memory()
        assert self._memory_size is not None
        return self._memory_size

    def attend(
        self, query: Float[Tensor, "R Q"], state: Float[Tensor, "R S"]
    ) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"], Tree]:
        if overridden(self, ComposedAttention, "_calculate_attention", "forward") is not None:
            return super().attend(query, state)
        context, alignments = self._step(query, state)
        return context, alignments, alignments

    def _calculate_attention(
        self, query: Float[Tensor, "R Q"], state: Float[Tensor, "R S"]
    ) -> tuple[Float[Tensor, "R S"], Tree]:
        _, alignments = self._step(query, state)
        return alignments, alignments

    def _step(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The context and the alignments of a step."""
        if not self.projects_query and query.shape[-1] != self.units:
            raise ShapeError(
                f"{type(self).__name__} multiplies queries with keys of units={self.units} features.\n"
                + describe({"query": ("R Q", query)})
                + f"\n  Give units={query.shape[-1]}, the width of the cell's output."
            )
        memory = self._prepared(query.shape[-1])
        check_type("query", query, self._values)
        if self.is_monotonic and state.shape != (len(query), self.alignments_size):
            raise ShapeError(
                f"The state of {type(self).__name__} is the previous alignment (R={len(query)}, "
                f"S={self.alignments_size}); got {tuple(state.shape)}. Begin with initial_state."
            )
        part_state = state[:, None] if self.is_monotonic else None
        before = MechanismState(None, None, part_state, initial_position(len(query), query.device))
        attended, _ = self.mechanism.step(query, memory, before, alignment=True, generator=self._generator(query))
        return attended.context, attended.alignment[:, 0]

    def probability_fn(self, score: Float[Tensor, "R S"], state: Tree) -> Float[Tensor, "R S"]:
        """Alignments from scores, by the alignment of `mechanism`; a monotonic one adds its bias."""
        memory = self._prepared()
        inputs = StepInputs(
            score[:, :0], memory, initial_position(len(score), score.device), None, self._generator(score)
        )
        support = None if self._mask is None else self._mask[:, None]
        part_state = state[:, None] if self.is_monotonic else None
        weights, _, _ = self.mechanism.alignment(score[:, None], support, inputs, part_state)
        return weights[:, 0]

    def array_names(self) -> list[str]:
        """Of attention_v, attention_g, attention_b, attention_score_bias, query_layer/kernel and memory_layer/kernel
        those that the mechanism has.
        """
        return [name for name, (place, _) in self._places.items() if self._has(place)]

    def take(self, arrays: Pool) -> dict[str, Tensor]:
        """By the names of `array_names`.

        The kernel of a layer that was used before it had a name lacks the layer's name: that of queries is in the scope
        of the wrapper, or is the one of two kernels that is in more scopes.
        """
        names, units = self.array_names(), self.units
        bare = [a for a in arrays.arrays if a.path[-1] == "kernel" and not a.has("query_layer", "memory_layer")]
        lacking = [
            name for name in names if name.endswith("/kernel") and not any(a.ends_with(name) for a in arrays.arrays)
        ]
        if len(bare) == len(lacking) == 2:  # queries first
            bare.sort(key=lambda array: -len(array.path))
            if len(bare[0].path) == len(bare[1].path):
                raise DataError(
                    f"{bare[0].name} and {bare[1].name} could each be the projection of queries or that of the "
                    "memory: name them query_layer/kernel and memory_layer/kernel."
                )
        if len(bare) == len(lacking):
            for array, name in zip(bare, lacking, strict=True):
                place = arrays.arrays.index(array)
                arrays.arrays[place] = replace(array, path=tuple(name.split("/")))
        sizes: dict[str, Shape] = {
            "attention_v": (units,),
            "attention_g": (),
            "attention_b": (units,),
            "attention_score_bias": (),
            "query_layer/kernel": ("Q" if self._query_size is None else self._query_size, units),
            "memory_layer/kernel": ("M" if self._memory_size is None else self._memory_size, units),
        }
        picked = arrays.pick({name: sizes[name] for name in names})
        places = [self._places[name] for name in names]
        return {f"mechanism.{place}": change(array) for (place, change), array in zip(places, picked, strict=True)}

    @property
    def _places(self) -> dict[str, Place]:
        return _ADDITIVE if self.projects_query else _MULTIPLICATIVE

    def _has(self, place: str) -> bool:
        """Whether there is a weight of this name, also in a given layer."""
        try:
            return self.mechanism.get_parameter(place) is not None
        except AttributeError:
            return False

    def _generator(self, like: Tensor) -> Generator | None:
        """The generator of random numbers; torch's default generator if None."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_memory": None}

    def get_config(self) -> dict[str, Any]:
        for name, layer in self._given.items():
            if layer is not None:
                raise UnsupportedError(f"A configuration cannot contain {name}; make the mechanism by its constructor.")
        return super().get_config() | {"units": self.units} | self._sizes


Place = tuple[str, Callable[[Tensor], Tensor]]

_ADDITIVE: dict[str, Place] = {
    "attention_v": ("score.v", lambda v: v[None]),
    "attention_score_bias": ("alignment.bias", lambda bias: bias),
    "attention_g": ("score.gain", lambda g: g.reshape(1, 1)),
    "attention_b": ("score.query_projection.bias", lambda b: b),
    "query_layer/kernel": ("score.query_projection.weight", lambda kernel: kernel.T),
    "memory_layer/kernel": ("score.key_projection.weight", lambda kernel: kernel.T),
}
"""By the original's names of the weights, in its order, our names and the conversions to ours."""
_MULTIPLICATIVE: dict[str, Place] = {
    "attention_g": ("score.dot.scale", lambda g: g),
    **{name: _ADDITIVE[name] for name in ("attention_score_bias", "memory_layer/kernel")},
}


class Shifted(nn.Module):
    """A layer's output plus a bias."""

    def __init__(self, layer: nn.Module, bias: nn.Parameter) -> None:
        super().__init__()
        self.layer, self.bias = layer, bias

    def forward(self, x: Tensor) -> Tensor:
        """layer(x) + b."""
        return self.layer(x) + self.bias
