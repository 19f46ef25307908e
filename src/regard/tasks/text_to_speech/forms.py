"""The Tacotrons of other programs (`model.like`): their published sizes, and the keys that their forms fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.config.place import KeyPath
from regard.config.schema import Section
from regard.errors import ConfigError
from regard.interop.variants import FORMS


@dataclass(frozen=True)
class TacotronForm:
    """The form of a Tacotron of another program.

    Args:
        published: the published value of every key of `model`, by its dotted name.
        fixed: the keys that have no other value in this form; all others may be set.
        options: makes the options of the function that builds the network from the section `model`.
        equal: pairs of keys with the same number in this form; if one is set, the other follows.
        uniform: whether all layers of the prenet have the same size.
        linear_postnet: whether a Tacotron 2 has a postnet of linear spectrograms, as Tacotron 1.
    """

    published: Mapping[str, Any]
    fixed: tuple[str, ...]
    options: Callable[[Any], dict[str, Any]]
    equal: tuple[tuple[str, str], ...] = ()
    uniform: bool = True
    linear_postnet: bool = False


def form_of(like: str, architecture: object = None) -> TacotronForm:
    """The form of an implementation; its first if it has none of this architecture."""
    forms = FORMS[like]
    form: TacotronForm = forms[str(architecture) if str(architecture) in forms else next(iter(forms))]
    return form


def completed(values: dict[str, Any], like: str) -> dict[str, Any]:
    """The keys of `model` that are set, completed by the published values of an implementation.

    Sections may be mappings or sections, of which only set keys count. Attention with a recipe is not completed.
    """
    form = form_of(like, values.get("architecture"))
    result: dict[str, Any] = {name: _set_values(value) for name, value in values.items()}
    published = dict(form.published)
    for follower, leader in form.equal:
        for one, other in ((follower, leader), (leader, follower)):
            if _value(result, one) is None and (value := _value(result, other)) is not None:
                published[one] = value
    attention = result.get("attention")
    if isinstance(attention, dict) and "recipe" in attention:
        published = {key: value for key, value in published.items() if not key.startswith("attention.")}
    for key, value in published.items():
        *sections, name = key.split(".")
        if not sections:
            result.setdefault(name, value)
        elif isinstance(section := result.setdefault(sections[0], {}), dict):
            result[sections[0]] = {name: value, **section}
    return result


def check_form(model: Any) -> None:
    """Refuses a key of a `model` with another value than its form fixes."""
    form, like = form_of(model.like, model.architecture), model.like
    expected = {key: form.published[key] for key in form.fixed}
    for follower, leader in form.equal:
        expected[follower] = _value(model, leader)
    for key, value in expected.items():
        actual = _value(model, key)
        if actual != value and (actual or None, value or None) != (None, None):
            equal = next((leader for follower, leader in form.equal if follower == key), None)
            reason = f"the same as {equal}" if equal else "fixed"
            raise ConfigError(
                f"like: {like} has {_shown(value)} here, {reason}; got {_shown(actual)}. Leave {key} out, or leave "
                "`like` out for a network whose parts can be chosen",
                _path(key),
            )
    sizes = model.decoder.prenet_sizes
    if form.uniform and len(set(sizes)) > 1:
        raise ConfigError(
            f"like: {like} has a prenet whose layers are all of one size; got {list(sizes)}",
            _path("decoder.prenet_sizes"),
        )
    if not model.postnet.layers:
        raise ConfigError(f"like: {like} has a postnet; got 0 layers", _path("postnet.layers"))


def _set_values(value: Any) -> Any:
    """The keys of a section that are set; other values unchanged."""
    if isinstance(value, Section):
        return {name: _set_values(getattr(value, name)) for name in value.model_fields_set}
    if hasattr(value, "model_extra") and hasattr(value, "recipe"):
        return value.model_dump(exclude_unset=True) | {"recipe": value.recipe}
    return value


def _value(model: Any, key: str) -> Any:
    """The value of a dotted key in sections or mappings; None if there is none."""
    for name in key.split("."):
        model = model.get(name) if isinstance(model, dict) else getattr(model, name, None)
    return model


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _path(key: str) -> KeyPath:
    return tuple(key.split("."))
