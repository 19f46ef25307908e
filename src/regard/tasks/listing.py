"""The catalogue of all that has a name (recipes, parts, presets, models, tasks), and explanations of a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from regard import attention, ops
from regard.attention import RECIPES, AbstractAttention, cite
from regard.attention.citation import bibliography
from regard.config import presets
from regard.config.reading import preset_text
from regard.decoding import recorded
from regard.models import Decoder, TransformerDecoder, TransformerLanguageModel
from regard.ops.choose import choose
from regard.ops.eligibility import StandIn
from regard.runs.contract import TASKS, AbstractModel
from regard.runs.store import shipped
from regard.training.step import unrecorded

PARTS = {
    "score": attention.AbstractScore,
    "window": attention.AbstractWindow,
    "alignment": attention.AbstractAlignment,
    "read": attention.AbstractRead,
}
"""The base class of each part of a mechanism."""


DEVICES = {"cpu": "the CPU", "cuda": "a GPU"}


def catalogue() -> list[tuple[str, str, str]]:
    """Everything that a configuration or a command can name: (kind, name, description in a line)."""
    entries = [("recipe", name, _first_line(recipe)) for name, recipe in sorted(RECIPES.items())]
    for kind, base in PARTS.items():
        entries += [(kind, name, _first_line(part)) for name, part in vars(attention).items() if _is_a(part, base)]
    entries += [("preset", name, line) for name, line in presets().items()]
    for name, folder in shipped().items():
        card = (folder / "card.md").read_text(encoding="utf-8").splitlines() if (folder / "card.md").exists() else []
        entries.append(("model", name, next((line for line in card[1:] if line.strip()), "")))
    entries += [("task", name, task.summary) for name, task in TASKS.items()]
    return entries


def describe(name: str) -> str | None:
    """A description of a recipe, a part or a preset, with options, defaults and papers; None for another name."""
    if name in RECIPES:
        recipe = RECIPES[name]
        required = [p.name for p in inspect.signature(recipe).parameters.values() if p.default is p.empty]
        return f"recipe {_documented(name, recipe)}\n\n{cite(recipe(**dict.fromkeys(required, 12)))}"
    for kind, base in PARTS.items():
        part = vars(attention).get(name)
        if _is_a(part, base):
            papers = [bibliography()[key] for key in getattr(part, "sources", ())]
            return "\n\n".join([f"{kind} {_documented(name, part)}", *papers])
    if name in presets():
        return f"preset {name}\n\n{preset_text(name).rstrip()}"
    return None


def _documented(name: str, thing: Any) -> str:
    parameters = inspect.signature(thing).parameters.values()
    options = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
    return f"{name}({options})\n\n{inspect.getdoc(thing) or ''}"


def explain(model: AbstractModel[Any] | None = None) -> str:
    """How a model computes: steps of training and search, recorded steps on a GPU, implementations of operations.

    The implementations are those of large inputs without gradients, on the CPU and on a GPU. Without a model: the
    implementation of every operation on this machine, with the reason.
    """
    if model is None:
        return ops.explain()
    modules: list[Any] = list(model.module.modules())
    reasons: dict[str, None] = {part.feeds_back: None for part in modules if getattr(part, "feeds_back", None)}
    how = f"one by one: {'; '.join(reasons)}" if reasons else "all at once"
    lines = [model.name, f"  training takes the steps of a sequence {how}"]
    training: Any = model.config.training
    lines.append(_on_gpu("training", unrecorded(training)))
    decoder = next((x for x in modules if isinstance(x, Decoder) and not isinstance(x, AbstractAttention)), None)
    if isinstance(decoder, (TransformerDecoder, TransformerLanguageModel)):
        reason = decoder.unsupported_in_search()
        lines.append(f"  a search takes a step {'in one operation' if reason is None else f'layer by layer: {reason}'}")
    if decoder is not None:
        has_bytes = getattr(getattr(model.config, "decoding", None), "weights", "float32") != "float32"
        lines.append(
            _on_gpu("prediction", "decoding.weights is int8" if has_bytes else recorded.unsupported_reason(decoder))
        )
    operations = (f"  operations on {name}: {', '.join(_operations(device))}" for device, name in DEVICES.items())
    return "\n".join([*lines, *operations])


def _on_gpu(purpose: str, reason: str | None) -> str:
    """Whether the steps of training or prediction are recorded on a GPU, in a line."""
    mode = "replays recorded steps (CUDA graphs)" if reason is None else f"records no steps: {reason}"
    return f"  {purpose} on a GPU {mode}"


def _operations(device: str) -> Iterator[str]:
    """The implementation of each operation for large inputs without gradients."""
    rows, square = (StandIn(torch.device(device), shape) for shape in ((1024,), (1024, 1024)))
    arguments: dict[str, tuple[Any, ...]] = {
        "additive_energies": (square, square, rows),
        "dropout": (rows, rows),
        "largest": (square, 5),
        "linear": (square, square),
        "linear_cross_entropy": (square, square),
        "log_softmax": (square,),
        "masked_softmax": (square, square),
    }
    for name, inputs in arguments.items():
        yield f"{name} by {choose(ops.IMPLEMENTATIONS[name], *inputs).name}"


def _is_a(thing: object, base: type) -> bool:
    return inspect.isclass(thing) and issubclass(thing, base) and not thing.__name__.startswith("Abstract")


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
