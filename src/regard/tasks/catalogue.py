"""What there is, and which way it takes."""

from __future__ import annotations

import inspect

from regard import attention, ops
from regard.attention import RECIPES
from regard.config import presets
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
    """Everything that can be named in a configuration or a command: (kind, name, one line about it)."""
    found = [("recipe", name, _first_line(recipe)) for name, recipe in sorted(RECIPES.items())]
    for kind, base in PARTS.items():
        found += [(kind, name, _first_line(part)) for name, part in vars(attention).items() if _is_a(part, base)]
    found += [("preset", name, line) for name, line in presets().items()]
    for name, folder in shipped().items():
        card = (folder / "card.md").read_text(encoding="utf-8").splitlines() if (folder / "card.md").exists() else []
        found.append(("model", name, next((line for line in card[1:] if line.strip()), "")))
    found.append(("task", "text_to_text", "any text to any text: pronunciation, translation, inflection, dates"))
    return found


def explain(model: TextToText | None = None) -> str:
    """Which implementation every operation takes here and why, and for a model which way its decoder takes."""
    lines = [ops.explain()]
    if model is not None:
        lines.append(f"{model.name}: {model.module.decoder.explain()}")
    return "\n".join(lines)


def _is_a(thing: object, base: type) -> bool:
    return inspect.isclass(thing) and issubclass(thing, base) and not thing.__name__.startswith("Abstract")


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
