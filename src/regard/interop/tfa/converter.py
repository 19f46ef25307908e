"""Converts models of tensorflow-addons' seq2seq from arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.config.spelling import suggestion
from regard.data.text import Vocabulary
from regard.errors import DataError, Option, UnsupportedError
from regard.interop.contract import AbstractKind, Converted, Origin
from regard.interop.files import mapping, read_arrays, read_lines, read_yaml
from regard.interop.texts import SIDE, Symbols, split_field, text_model
from regard.interop.tfa.named_arrays import CELLS, NamedArrays, cell_weights, size_of

PROGRAM = "tensorflow-addons"
KEYS: Mapping[str, Sequence[str]] = {
    "": ("source", "target", "encoder", "decoder", "names", "ignore"),
    "source": ("symbols", "padding", "begin", "unknown", "end"),
    "target": ("symbols", "begin", "end", "unknown"),
    "encoder": ("cell", "layers", "bidirectional", "forget_bias"),
    "decoder": (
        *("cell", "layers", "forget_bias", "attention", "attention_activation", "output_attention", "first_state"),
        *("beam_width", "length_penalty_weight", "coverage_penalty_weight", "maximum_iterations"),
    ),
    "decoder.attention": ("kind", "scale", "normalize", "probability_fn", "mode", "sigmoid_noise"),
}
"""The keys of a file of facts, by section."""
KINDS = {
    "luong": ("scale", "probability_fn"),
    "bahdanau": ("normalize", "probability_fn"),
    "luong_monotonic": ("scale", "mode", "sigmoid_noise"),
    "bahdanau_monotonic": ("normalize", "mode", "sigmoid_noise"),
}
"""Mechanisms, and the arguments of their constructors that affect results."""


class TensorFlowAddons(AbstractKind):
    """Arrays by name, `.npz`, from `model.get_weights()` or a checkpoint reader, with a file of facts.

    A model has an embedding, recurrent layers, an `AttentionWrapper` around a cell, and an output layer. The facts
    contain its options and the roles of its arrays. Texts are symbols between blanks.
    """

    summary = "tensorflow-addons' seq2seq (.npz, and facts in .json or .yaml): encoder, AttentionWrapper, output layer"
    files: ClassVar[Mapping[str, str]] = {
        "facts": "the options of the model, in JSON or YAML; by default FILE with the ending .json or .yaml"
    }

    def read(self, origin: Origin) -> Converted:
        path = origin.files.get("facts") or _beside(origin.path)
        facts = ModelFacts(mapping(read_yaml(path), path, "facts by name"), path)
        arrays = NamedArrays(
            read_arrays(origin.path), facts.section("names"), facts.get("", "ignore", ()), source=origin.path.name
        )
        sides = [_symbols(facts, side) for side in ("source", "target")]
        network = Network(arrays, facts)
        weights = network.weights(*sides)
        arrays.finish()
        decoder = facts.section("decoder")
        for key, consequence in (("beam_width", "a beam of 5"), ("maximum_iterations", "decoding.max_length_ratio")):
            if decoder.get(key) is None:
                network.notes.append(f"decoder.{key} is not among the facts; the search has {consequence}.")
        decoding: dict[str, Any] = {
            "beam": decoder.get("beam_width", 5),
            "keep_finished": True,
            "length_penalty": "gnmt",
            "alpha": float(decoder.get("length_penalty_weight", 0.0)),
        }
        if weight := float(decoder.get("coverage_penalty_weight", 0.0)):
            decoding |= {"coverage_penalty": "tfa", "beta": weight}
        if (limit := decoder.get("maximum_iterations")) is not None:
            decoding["max_length"] = limit
        source, target = map(split_field, sides)
        return text_model(
            source,
            target,
            weights,
            {},
            data={
                "source": SIDE,
                "target": SIDE,
                "source_begin": facts.get("source", "begin") is not None,
                "source_end": facts.get("source", "end") is not None,
            },
            model=network.section(),
            decoding=decoding,
            notes=network.notes,
        )


class ModelFacts:
    """The facts about a model, by section.

    Raises:
        DataError: for an unknown key.
    """

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self.values, self.path = values, path
        for section, known in KEYS.items():
            for key in self.section(section):
                if key not in known:
                    raise DataError(f"{path}: {section or 'facts'}: there is no {key!r}; {suggestion(str(key), known)}")

    def section(self, name: str) -> Mapping[str, Any]:
        """A section; empty if it is missing."""
        values: Any = self.values
        for part in filter(None, name.split(".")):
            values = mapping(values.get(part) or {}, self.path, f"{name} with keys")
        return mapping(values, self.path, f"{name} with keys")

    def get(self, section: str, key: str, default: Any = None) -> Any:
        """A value of a section."""
        return self.section(section).get(key, default)

    def choose(self, section: str, key: str, accepted: Sequence[Any], default: Any = None) -> Any:
        """A value of a section, which must be one of the accepted ones."""
        value = self.get(section, key, default)
        if value not in accepted:
            choices = " or ".join(map(repr, accepted))
            raise UnsupportedError(f"{self.path}: {section}.{key} is {value!r}; it must be {choices}.")
        return value


class Network:
    """The parts, sizes and weights of a model."""

    def __init__(self, arrays: NamedArrays, facts: ModelFacts) -> None:
        self.arrays, self.facts = arrays, facts
        self.notes: list[str] = []
        self.cells = {side: facts.choose(side, "cell", list(CELLS)) for side in ("encoder", "decoder")}
        self.layers = {side: int(facts.get(side, "layers", 1)) for side in ("encoder", "decoder")}
        self.bidirectional = facts.choose("encoder", "bidirectional", (True, False), False)
        self.size = {
            "encoder": size_of(arrays, "encoder.layers.0.forward", self.cells["encoder"]),
            "decoder": size_of(arrays, "decoder.layers.0", self.cells["decoder"]),
        }
        self.embedding_size = {
            side: arrays.matrix_shape(f"{side}.embedding.embeddings", "N, E")[1] for side in ("encoder", "decoder")
        }
        self.memory_size = self.size["encoder"] * (1 + self.bidirectional)
        self.kind = facts.choose("decoder.attention", "kind", list(KINDS))
        for key in facts.section("decoder.attention"):
            if key not in ("kind", *KINDS[self.kind]):
                raise DataError(f"{facts.path}: decoder.attention: {self.kind} has no {key!r}.")
        for key in ("scale", "normalize"):
            facts.choose("decoder.attention", key, (True, False), False)
        self.has_layer = "attention_layer.kernel" in arrays
        self.outputs_attention = facts.choose("decoder", "output_attention", (True, False), True)
        self.activation = facts.choose("decoder", "attention_activation", ("linear", "tanh"), "linear")
        self.layer_size = arrays.matrix_shape("attention_layer.kernel", "D + M, A")[1] if self.has_layer else None

    @property
    def fed_size(self) -> int:
        """The size of the fed-back vector: the attention layer's output, or the context."""
        return self.memory_size if self.layer_size is None else self.layer_size

    def section(self) -> dict[str, Any]:
        """The section `model` of the configuration."""
        shared: dict[str, dict[str, Any]] = {
            side: {
                "cell": CELLS[self.cells[side]][0],
                "layers": self.layers[side],
                "size": self.size[side],
                "embedding_size": self.embedding_size[side],
                "dropout": 0.0,
            }
            for side in ("encoder", "decoder")
        }
        decoder: dict[str, Any] = {
            **shared["decoder"],
            "bridge": self.facts.choose("decoder", "first_state", ("copy", "zero"), "copy"),
            "input_feeding": True,
            "readout": self.activation if self.has_layer else "context",
        }
        if not self.outputs_attention:
            decoder |= {"readout": "state", "input_feeding": self.activation if self.has_layer else "context"}
        if self.has_layer:
            decoder |= {"layer_size": self.layer_size, "layer_bias": "attention_layer.bias" in self.arrays}
        return {
            "architecture": "recurrent",
            "encoder": {**shared["encoder"], "bidirectional": self.bidirectional},
            "decoder": decoder,
            "attention": self._recipe(),
        }

    def _recipe(self) -> dict[str, Any]:
        """The section `attention`."""
        options = self.facts.section("decoder.attention")
        recipe: dict[str, Any] = {}
        if self.kind.startswith("bahdanau"):
            recipe |= {
                "size": len(self.arrays.get("attention_v")),
                "normalised": bool(options.get("normalize", False)),
            }
        else:
            recipe |= {"score": "general", "learned_scale": bool(options.get("scale", False))}
        if not self.kind.endswith("monotonic"):
            function = self.facts.choose("decoder.attention", "probability_fn", ("softmax", "hardmax"), "softmax")
            return {"recipe": self.kind, **recipe, "alignment": function}
        mode = self.facts.choose("decoder.attention", "mode", ("parallel", "recursive", "hard"), "parallel")
        recipe |= {"hard": "always" if mode == "hard" else "never", "noise": float(options.get("sigmoid_noise", 0.0))}
        if mode == "parallel":
            recipe["like"] = "tfa_parallel"
        if recipe["noise"]:
            self.notes.append("Noise on the energies is added only in training; the original always adds it.")
        return {"recipe": "monotonic", **recipe, "score": "additive" if "size" in recipe else "general"}

    def weights(self, source: Symbols, target: Symbols) -> dict[str, Tensor]:
        """The weights by our names, with rows of symbols in our order."""
        take = self.arrays.take
        weights: dict[str, Tensor] = {}
        for side, symbols in (("encoder", source), ("decoder", target)):
            shape = symbols.count, self.embedding_size[side]
            table = take(f"{side}.embedding.embeddings", shape, "N, E")
            weights[f"{side}.embedding.table.weight"] = symbols.rows(table)
        for layer in range(self.layers["encoder"]):
            width = self.memory_size if layer else self.embedding_size["encoder"]
            for direction, suffix in (("forward", ""), ("backward", "_reverse"))[: 1 + self.bidirectional]:
                role, sizes = f"encoder.layers.{layer}.{direction}", (width, self.size["encoder"])
                for name, tensor in self._cell("encoder", role, sizes).items():
                    weights[f"encoder.stack.layers.{layer}.{name}_l0{suffix}"] = tensor
        for layer in range(self.layers["decoder"]):
            width = self.size["decoder"] if layer else self.embedding_size["decoder"] + self.fed_size
            for name, tensor in self._cell("decoder", f"decoder.layers.{layer}", (width, self.size["decoder"])).items():
                weights[f"decoder.stack.layers.{layer}.{name}_l0"] = tensor
        weights |= {f"decoder.attention.{name}": tensor for name, tensor in self._mechanism().items()}
        size, layer_size = self.size["decoder"], self.layer_size
        if layer_size is not None:
            kernel = take("attention_layer.kernel", (size + self.memory_size, layer_size), "D + M, A")
            weights["decoder.readout.weight"] = kernel.t()
            if (bias := take("attention_layer.bias", (layer_size,), "A", optional=True)) is not None:
                weights["decoder.readout.bias"] = bias
        read = self.fed_size if self.outputs_attention else size
        wide = target.count
        weights["decoder.head.projection.weight"] = target.rows(take("output.kernel", (read, wide), "D, N").t())
        weights["decoder.head.projection.bias"] = target.biases(take("output.bias", (wide,), "N", optional=True))
        return weights

    def _cell(self, side: str, role: str, sizes: tuple[int, int]) -> dict[str, Tensor]:
        forget_bias = float(self.facts.get(side, "forget_bias", 1.0))
        return cell_weights(self.arrays, role, self.cells[side], sizes, forget_bias)

    def _mechanism(self) -> dict[str, Tensor]:
        """The weights of the mechanism."""
        take, size, memory_size = self.arrays.take, self.size["decoder"], self.memory_size
        options = self.facts.section("decoder.attention")
        weights: dict[str, Tensor] = {}
        if self.kind.startswith("bahdanau"):
            units = len(self.arrays.get("attention_v"))
            weights["score.v"] = take("attention_v", (units,), "A")[None]
            weights["score.query_projection.weight"] = take("query_layer.kernel", (size, units), "D, A").t()
            if options.get("normalize", False):
                weights["score.query_projection.bias"] = take("attention_b", (units,), "A")
                weights["score.gain"] = take("attention_g", (), "").reshape(1, 1)
        else:
            units = size
            if options.get("scale", False):
                weights["score.dot.scale"] = take("attention_g", (), "")
        weights["score.key_projection.weight"] = take("memory_layer.kernel", (memory_size, units), "M, A").t()
        if self.kind.endswith("monotonic"):
            weights["alignment.bias"] = take("attention_score_bias", (), "")
        return weights


def _symbols(facts: ModelFacts, side: str) -> Symbols:
    """A vocabulary.

    Targets may contain their padding and begin symbols, as there. So these are ordinary symbols, and our
    begin symbol is a copy of theirs.
    """
    tokens = facts.get(side, "symbols")
    if isinstance(tokens, str):
        tokens = read_lines(facts.path.parent / tokens)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise DataError(
            f"{facts.path}: {side}.symbols: expected a list of texts, or the name of a file with one per line."
        )
    places = {token: number for number, token in enumerate(tokens)}
    if len(places) < len(tokens):
        raise DataError(f"{facts.path}: {side}.symbols has a symbol twice; ids must follow from symbols.")
    for name in ("begin", "end"):
        token = facts.get("target", name)
        if side == "source" and name not in facts.section("source") and token in places:
            raise DataError(
                f"{facts.path}: source.{name} is missing, and the source has the symbol {token!r}, with which targets "
                f"{name}. Set {name}: {token!r} if every input {name}s with it, or {name}: null if none does."
            )
    numbers = []
    for name in ("padding", "begin", "end", "unknown"):
        token = facts.get(side, name)
        if token is not None and token not in places:
            raise DataError(f"{facts.path}: {side}.{name} is {token!r}, which is none of the {len(tokens):,} symbols.")
        if token is None and side == "target" and name in ("begin", "end"):
            raise DataError(f"{facts.path}: target.{name} is missing: the symbol with which an output {name}s.")
        numbers.append(-1 if token is None else places[token])
    special = numbers[2:] if side == "target" else numbers
    others = [token for number, token in enumerate(tokens) if number not in special]
    return Symbols(Vocabulary(others), torch.tensor(numbers + [places[token] for token in others]))


def _beside(path: Path) -> Path:
    """The file of facts next to the arrays."""
    files = [path.with_suffix(end) for end in (".json", ".yaml", ".yml") if path.with_suffix(end).is_file()]
    if not files:
        raise DataError(
            f"{path}: the file of facts is missing. Put {path.stem}.json or {path.stem}.yaml next to it, or give "
            f"{Option('--file facts=FILE', 'files=…')}; docs/converting.md has an example."
        )
    return files[0]
