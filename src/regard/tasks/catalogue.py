"""Everything that has a name: recipes, parts, presets, models and tasks."""

from __future__ import annotations

import inspect
from typing import Any

from regard import attention, ops
from regard.attention import RECIPES, cite
from regard.attention.citation import bibliography
from regard.config import presets
from regard.config.load import preset_text
from regard.tasks.store import shipped
from regard.tasks.text_to_text import TextToText

PARTS = {
    "score": attention.AbstractScore,
    "window": attention.AbstractWindow,
    "alignment": attention.AbstractAlignment,
    "read": attention.AbstractRead,
}
"""What a mechanism is composed of."""


def catalogue() -> list[tuple[str, str, str]]:
    """Everything that a configuration or a command can name: (kind, name, one line about it)."""
    entries = [("recipe", name, _first_line(recipe)) for name, recipe in sorted(RECIPES.items())]
    for kind, base in PARTS.items():
        entries += [(kind, name, _first_line(part)) for name, part in vars(attention).items() if _is_a(part, base)]
    entries += [("preset", name, line) for name, line in presets().items()]
    for name, folder in shipped().items():
        card = (folder / "card.md").read_text(encoding="utf-8").splitlines() if (folder / "card.md").exists() else []
        entries.append(("model", name, next((line for line in card[1:] if line.strip()), "")))
    entries.append(("task", "text_to_text", "any text to any text: pronunciation, translation, inflection, dates"))
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


def explain(model: TextToText | None = None) -> str:
    """Which way a model's encoder and decoder take here and why; without a model, which way every operation takes."""
    if model is None:
        return ops.explain()
    parts = {"encoder": model.module.encoder, "decoder": model.module.decoder}
    lines = [f"  {name}: {part.explain()}" for name, part in parts.items() if hasattr(part, "explain")]
    return "\n".join([model.name, *lines])


def _is_a(thing: object, base: type) -> bool:
    return inspect.isclass(thing) and issubclass(thing, base) and not thing.__name__.startswith("Abstract")


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
