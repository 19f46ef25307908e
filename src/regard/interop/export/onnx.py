"""ONNX: an encoder, a step, `model.json`, and a decoder that needs only numpy and onnxruntime."""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config.search import Search
from regard.errors import Option, UnsupportedError
from regard.interop.export.facts import facts_of, write_facts, write_pieces
from regard.interop.export.networks import FIRST_SYMBOL, Axes, Networks, exporting
from regard.interop.export.programs import source_program, step_program, worst
from regard.lazy import optional
from regard.tasks import TextToText

TOLERANCE = 1e-3
"""The largest accepted difference from torch; usual differences are near 1e-5."""
LARGEST_FILE = 1_800_000_000
"""The most bytes of weights in the ONNX file itself, which has at most 2 GiB."""
CHECKED = ((1, 3, 1), (3, 6, 1), (2, 9, 4))
"""Numbers of sentences, source positions and hypotheses with which exports are compared with torch."""
PURPOSE = "exporting to ONNX needs"
KNOWN = {
    # settings of the search that decode.py reads, and those without effect unless another one is set that is refused
    *("method", "beam", "num_best", "length_penalty", "alpha", "length_counts_begin", "min_length"),
    *("beta", "diversity", "patience", "batch_tokens"),
    # limits of lengths, and settings that select the returned alignment or do not change the search
    *("max_length", "max_length_ratio", "max_length_extra", "max_length_cap", "min_length_ratio", "max_source_length"),
    *("direction", "alignment_layer", "alignment_head", "validation_beam"),
}
"""Settings that an export takes."""
EMPTY: Mapping[Any, str] = {None: "null", "": "''", (): "'[]'"}
"""Empty values as arguments of a command line."""


def write_onnx(model: TextToText, folder: Path) -> None:
    """Writes `encoder.onnx`, `step.onnx`, `model.json` and `decode.py`, after a comparison with torch.

    Args:
        model: on the CPU, with one direction.
        folder: an empty folder.

    Raises:
        UnsupportedError: for an unsupported search, or a network that cannot be an ONNX graph or has other results
            there; or if onnx, onnxscript or onnxruntime is not installed.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        optional(package, PURPOSE, extra="onnx")
    require_plain_search(model.config.decoding)
    layer, head = model.chosen_attention(model.config.decoding)
    networks = Networks.of(model.module, layer=layer, head=head)
    memory = [f"memory_{i}" for i in range(len(networks.memory_axes))]
    state = [f"state_{i}" for i in range(len(networks.state_axes))]
    weights = ["alignment"] if networks.has_alignment else []
    after = [f"next_{name}" for name in state]
    first = [{axis: x for axis, x in axes.items() if x in "BS"} for axes in networks.state_axes]
    large = sum(p.numel() * p.element_size() for p in model.module.parameters()) > LARGEST_FILE
    with exporting(), quiet():
        torch.onnx.export(
            source_program(networks),
            f=folder / "encoder.onnx",
            input_names=["source", "lengths"],
            output_names=[*memory, *state],
            external_data=large,
            dynamo=True,
            verbose=False,
        )
        torch.onnx.export(
            step_program(networks),
            f=folder / "step.onnx",
            input_names=["tokens", "parents", *memory, *state],
            output_names=["log_probabilities", *weights, *after],
            external_data=large,
            dynamo=True,
            verbose=False,
        )
    axes: dict[str, Axes] = {"source": {0: "B", 1: "S"}, "lengths": {0: "B"}}
    _name_axes(folder / "encoder.onnx", {**axes, **dict(zip(memory + state, (*networks.memory_axes, *first)))})
    axes = {"tokens": {0: "B", 1: "K"}, "parents": {0: "B", 1: "K"}}
    axes |= dict(zip(memory + state, networks.memory_axes + networks.state_axes))
    axes |= {"log_probabilities": {0: "B", 1: "K"}, "alignment": {0: "B", 1: "K", 2: "S"}}
    grown = [{a: {"J": "K", "T": "T + 1"}.get(x, x) for a, x in axes.items()} for axes in networks.state_axes]
    _name_axes(folder / "step.onnx", {**axes, **dict(zip(after, grown))})
    _compare(networks, folder)
    write_facts(facts_of(model, networks), folder)
    write_pieces(model, folder)
    with resources.as_file(resources.files("regard.interop.export") / "decode.py") as program:
        shutil.copyfile(program, folder / "decode.py")


def _name_axes(path: Path, axes: Mapping[str, Axes]) -> None:
    """Names the axes of inputs and outputs by our letters."""
    onnx = optional("onnx", PURPOSE, extra="onnx")
    model = onnx.load(path, load_external_data=False)
    for value in (*model.graph.input, *model.graph.output):
        for axis, letter in axes.get(value.name, {}).items():
            size = value.type.tensor_type.shape.dim[axis]
            if not size.HasField("dim_value"):
                size.dim_param = letter
    del model.graph.value_info[:]  # intermediate sizes, in torch's symbols
    onnx.save(model, path)


def _compare(networks: Networks, folder: Path) -> None:
    """Refuses graphs whose results differ from torch's, for two steps of each of `CHECKED`."""
    runtime = optional("onnxruntime", PURPOSE, extra="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    encoder, step = (
        runtime.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
        for name in ("encoder", "step")
    )
    names = [each.name for each in step.get_inputs()]
    for sentences, positions, hypotheses in CHECKED:
        with exporting():
            lengths = torch.arange(positions, positions - sentences, -1)
            source = torch.arange(sentences * positions).view(sentences, -1) % 2 + FIRST_SYMBOL
            memory, state = networks.source(source, lengths)
            results = _run(encoder, ("source", "lengths"), (source, lengths))
            _require_equal("encoder", results, (*memory, *state), source)
            theirs = results[len(memory) :]
            tokens, parents = torch.ones(sentences, hypotheses, dtype=torch.long), torch.zeros_like(source[:, :1])
            parents = parents.expand(-1, hypotheses).contiguous()
            for _ in range(2):
                probabilities, weights, state = networks.step(tokens, parents, memory, state)
                results = _run(step, names, (tokens, parents, *memory, *theirs))
                _require_equal("step", results, (probabilities, *weights, *state), source)
                theirs = results[1 + len(weights) :]
                tokens, parents = probabilities.argmax(-1), torch.arange(hypotheses).flip(0).expand(sentences, -1)
                parents = parents.contiguous()


def _run(session: Any, names: Sequence[str], inputs: Sequence[Tensor]) -> list[Tensor]:
    feeds = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    return [torch.from_numpy(output) for output in session.run(None, feeds)]


def _require_equal(name: str, results: Sequence[Tensor], expected: Sequence[Tensor], source: Tensor) -> None:
    if (difference := worst(results, expected)) > TOLERANCE:
        raise UnsupportedError(
            f"The ONNX {name} differs from torch by {difference:.2g} for B={source.shape[0]}, S={source.shape[1]}; "
            f"this model cannot be exported to ONNX. Try {Option('--format torch', 'format=torch')}."
        )


@contextmanager
def quiet() -> Iterator[None]:
    """In this context torch prints nothing about making a graph."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def require_plain_search(decoding: Search) -> None:
    """Refuses settings of a search that `decode.py` does not know."""
    fields = type(decoding).model_fields
    unknown = {name: fields[name].default for name in fields if name not in KNOWN}
    unknown = {name: default for name, default in unknown.items() if getattr(decoding, name) != default}
    reason = "it does not know this setting" if len(unknown) == 1 else "it does not know these settings"
    if decoding.method != "beam":
        unknown, reason = {"method": "beam"}, "it searches with a beam"
    if unknown:
        settings = ", ".join(f"decoding.{name} is {getattr(decoding, name)}" for name in unknown)
        flags = {name: name.replace("_", "-") for name in unknown}
        defaults = " ".join(
            str(
                Option(
                    f"--no-{flags[name]}" if default is False else f"--{flags[name]} {EMPTY.get(default, default)}",
                    f"decoding.{name}={default}",
                )
            )
            for name, default in unknown.items()
        )
        raise UnsupportedError(
            f"{settings}, which the program that decodes an ONNX model cannot do: {reason}. Export with {defaults}, or "
            "leave the settings out of the configuration."
        )
