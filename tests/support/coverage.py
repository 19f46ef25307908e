"""The public things of the package, and those that no case of THE LIST shows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

from torch import nn

from regard import attention, layers, losses, models, ops
from regard.interop import variants
from regard.interop.coqui import UnmaskedAlignment
from regard.interop.espnet import ClampedForwardAlignment
from regard.layers.cells.layer import LAYERS
from regard.models.vision.convolution import ConvolutionFilters
from support.cases import CASES, MECHANISMS, PARTS

ASSEMBLIES: dict[Any, str] = {
    ClampedForwardAlignment: "it breaks laws of padding by design; ESPnet's numbers test it",
    models.EncoderDecoder: "an encoder and a decoder, each of which has its own cases",
    models.EnsembleEncoderDecoder: "encoders and decoders, each of which has its own cases",
    models.EnsembleEncoder: "encoders, each of which has its own cases; the tests of ensembles compare it with them",
    layers.Linear: "a product with a weight, which has a case as an operation",
    **dict.fromkeys(LAYERS.values(), "a layer of recurrent stacks, which have cases with every cell"),
    ConvolutionFilters: "a convolution of image encoders, which have their own cases",
    ops.attend: "its v belongs to no row; its own tests compare it with the equation, in loops and outside",
    ops.batch_norm: "its rows depend on each other by design; its own tests compare it with the equation",
    ops.largest: "a choice without derivatives, which has its own tests",
    ops.warping_path: "a choice without derivatives, which has its own tests",
    ops.plain: "a switch, which has its own tests",
    models.initialise: "it draws weights, which its own tests look at",
    **dict.fromkeys(
        (models.group_frames, models.ungroup_frames, models.group_mask, models.step_mask, models.stop_targets),
        "it groups frames, which its own tests look at",
    ),
    models.fed_outputs: "steps one by one with what they said fed back, which its own tests compare with a plain loop",
    models.feeds_back: "a question about a mask",
    models.decoder_inputs: "it moves frames by a step, which its own tests look at",
    models.initialise_tacotron: "it draws weights, which its own tests look at",
    models.Tacotron: "an encoder, decoders and postnets, each of which has its own cases",
    models.tacotron1: "a Tacotron of such parts, which has its own tests",
    models.tacotron2: "a Tacotron of such parts, which has its own tests",
    models.negative_log_likelihood: "a sum over batches, which has its own tests",
    models.register_entry_points: "its own test needs two processes",
    ops.log_softmax: "it overwrites its input and has no derivatives; it has its own tests",
}
"""The things that need no case, and why."""

UNDRAWN: dict[type, str] = {
    UnmaskedAlignment: "it breaks laws of padding by design",
    ClampedForwardAlignment: "it breaks laws of padding by design",
}
"""Parts that are in no composition, and why."""


def public() -> list[Any]:
    """Every public part, recipe, mechanism, operation, loss, layer, encoder and decoder of the package."""
    operations = [getattr(ops, name) for name in ops.__all__ if name not in ("explain", "IMPLEMENTATIONS")]
    things: list[Any] = [*_parts(), *attention.RECIPES.values(), attention.Mechanism, attention.Parallel, *operations]
    things += [part for part in _classes(_variants()) if issubclass(part, nn.Module)]
    for room in (layers, losses, models):
        things += [part for part in _classes(_modules(room)) if issubclass(part, nn.Module)]
        things += [thing for name in room.__all__ if inspect.isfunction(thing := getattr(room, name))]
    return [thing for thing in dict.fromkeys(things) if thing not in ASSEMBLIES]


def missing() -> list[str]:
    """The names of public things that no case shows."""
    shown = {thing for case in CASES for thing in case.shows}
    return [thing.__name__ for thing in public() if thing not in shown]


def heads_missing() -> list[str]:
    """The names of parts that can have several heads, without a case with one head or without one with several."""
    counts: dict[type, set[bool]] = {}
    for case in MECHANISMS:
        mechanisms = [m for m in case.make().modules() if isinstance(m, attention.Mechanism)]
        for part in case.shows:
            if inspect.isclass(part) and issubclass(part, attention.AbstractPart):
                counts.setdefault(part, set()).update(
                    m.num_heads > 1 for m in mechanisms if any(isinstance(x, part) for x in m.modules())
                )
    return [part.__name__ for part, several in counts.items() if "num_heads" in _arguments(part) and len(several) < 2]


def parts_missing() -> list[str]:
    """The names of public parts that are in no composition."""
    drawn = {type(part.make(1)) for part in PARTS}
    return [part.__name__ for part in _parts() if part not in drawn and part not in UNDRAWN]


def _arguments(part: type) -> list[str]:
    return list(inspect.signature(part).parameters)


def _parts() -> list[type]:
    """Public parts of mechanisms, those of other programs' variants included."""
    classes = _classes([*_modules(attention), *_variants()])
    return [part for part in classes if issubclass(part, attention.AbstractPart)]


def _modules(room: ModuleType) -> list[ModuleType]:
    """The modules of a room."""
    return [importlib.import_module(m.name) for m in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]


def _variants() -> list[ModuleType]:
    """The modules of `regard.interop` that have variants of mechanisms and models."""
    tables = [
        *variants.RECIPE_VARIANTS.values(),
        *variants.TACOTRONS.values(),
        variants.TRANSFORMERS,
        variants.CAPTIONERS,
    ]
    names = {place.partition(":")[0] for table in tables for place in table.places.values()}
    return [importlib.import_module(name) for name in sorted(names) if name.startswith("regard.interop.")]


def _classes(modules: list[ModuleType]) -> list[type]:
    """Public, concrete classes of modules, exported or not."""
    classes = [
        thing
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__ == module.__name__ and not name.startswith(("_", "Abstract"))
    ]
    return list(dict.fromkeys(classes))
