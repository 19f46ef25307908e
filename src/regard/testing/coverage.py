"""What is public, and what of it THE LIST does not show."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

from torch import nn

from regard import attention, layers, losses, models, ops
from regard.layers import twin
from regard.testing.cases import CASES, MECHANISMS, PARTS

_TWIN = "made from a layer for a search, and held to it by tests of its own"
ASSEMBLIES: dict[Any, str] = {
    attention.peers.ClampedForwardAlignment: "it breaks laws of padding by design, and has ESPnet's numbers",
    models.EncoderDecoder: "an encoder and a decoder, each with cases of its own",
    ops.largest: "a choice without derivatives, with tests of its own",
    ops.plain: "a switch, with tests of its own",
    models.register_entry_points: "tried in two processes by a test of its own",
    ops.log_softmax: "writes over what it is given, without derivatives; with tests of its own",
    twin.PackedHead: _TWIN,
    twin.PackedLinear: _TWIN,
    twin.PackedStack: _TWIN,
}
"""What needs no case, and why."""

UNDRAWN: dict[type, str] = {
    attention.peers.UnmaskedAlignment: "it breaks laws of padding by design",
    attention.peers.ClampedForwardAlignment: "it breaks laws of padding by design",
}
"""Parts that no composition is drawn from, and why."""


def public() -> list[Any]:
    """Every public part, recipe, mechanism, operation, loss, layer, encoder and decoder of the package."""
    parts = [part for part in _defined_in(attention) if issubclass(part, attention.AbstractPart)]
    operations = [getattr(ops, name) for name in ops.__all__ if name not in ("explain", "IMPLEMENTATIONS")]
    found = [*parts, *attention.RECIPES.values(), attention.Mechanism, attention.Parallel, *operations]
    for room in (layers, losses, models):
        found += [part for part in _defined_in(room) if issubclass(part, nn.Module)]
        found += [thing for name in room.__all__ if inspect.isfunction(thing := getattr(room, name))]
    return [thing for thing in dict.fromkeys(found) if thing not in ASSEMBLIES]


def missing() -> list[str]:
    """Names of public things that no case shows."""
    shown = {thing for case in CASES for thing in case.shows}
    return [thing.__name__ for thing in public() if thing not in shown]


def heads_missing() -> list[str]:
    """Parts that can have several heads and lack a case with one head or with several."""
    counts: dict[type, set[bool]] = {}
    for case in MECHANISMS:
        made = case.make()
        mechanisms = [m for m in made.modules() if isinstance(m, attention.Mechanism)]
        for part in case.shows:
            if inspect.isclass(part) and issubclass(part, attention.AbstractPart):
                counts.setdefault(part, set()).update(
                    m.num_heads > 1 for m in mechanisms if any(isinstance(x, part) for x in m.modules())
                )
    return [part.__name__ for part, seen in counts.items() if "num_heads" in _arguments(part) and len(seen) < 2]


def parts_missing() -> list[str]:
    """Public parts that no composition is drawn from."""
    drawn = {type(part.make(1)) for part in PARTS}
    parts = [part for part in _defined_in(attention) if issubclass(part, attention.AbstractPart)]
    return [part.__name__ for part in parts if part not in drawn and part not in UNDRAWN]


def _arguments(part: type) -> list[str]:
    return list(inspect.signature(part).parameters)


def _defined_in(room: ModuleType) -> list[type]:
    """Public, concrete classes of a room, exported or not."""
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
    classes = [
        thing
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__ == module.__name__ and not name.startswith(("_", "Abstract"))
    ]
    return list(dict.fromkeys(classes))
