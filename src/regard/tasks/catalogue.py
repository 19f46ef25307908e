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
    """Which way a model's encoder and decoder take here and why; without a model, which way every operation takes."""
    if model is None:
        return ops.explain()
    parts = {"encoder": model.module.encoder, "decoder": model.module.decoder}
    said = [f"  {name}: {part.explain()}" for name, part in parts.items() if hasattr(part, "explain")]
    return "\n".join([model.name, *said])


def _is_a(thing: object, base: type) -> bool:
    return inspect.isclass(thing) and issubclass(thing, base) and not thing.__name__.startswith("Abstract")


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
