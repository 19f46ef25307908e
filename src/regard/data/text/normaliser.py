"""Normalisers of texts that are read aloud: a function, a table of replacements, abbreviations, numbers and case."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.config.spelling import suggestion
from regard.data.text.normalisation import LetterCase, Normalisation, UnicodeForm
from regard.data.text.replacements import Replacements
from regard.data.text.spoken import SpokenAbbreviations, SpokenNumbers, installed_version
from regard.errors import ConfigError, DataError, Option, RegardError, UnsupportedError, counted

TextFunction = Callable[[str], str]
MOST_KNOWN = 2**16
"""The most texts whose normalised form is kept."""


@dataclass(frozen=True)
class NamedFunction:
    """A function of the user that normalises texts.

    Only its name is saved: no code is stored with a model, and nothing is imported when a model is loaded.

    Args:
        name: `package.module:function`.
        function: None if the model was loaded without it.
    """

    name: str
    function: TextFunction | None = field(default=None, compare=False)

    def __call__(self, text: str) -> str:
        """The normalised text.

        Raises:
            UnsupportedError: without the function.
            DataError: if it raises an error, or returns something other than a text.
        """
        if self.function is None:
            raise UnsupportedError(
                f"This model normalises its texts by the function {self.name}, and functions are not stored with a "
                f"model.\n  Give it: {Option(f'--normaliser {self.name}', 'regard.load(folder, normaliser=function)')}"
            )
        try:
            result = self.function(text)
        except RegardError:
            raise
        except Exception as error:
            raise DataError(
                f"{_name(self)} failed for the text {text!r:.80}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(result, str):
            raise DataError(
                f"{_name(self)} must return a text; for {text!r:.80} it returned {result!r:.60}, "
                f"of type {type(result).__name__}."
            )
        return result


def _name(named: NamedFunction) -> str:
    """The name of the function that is called, which may be another than that of the training."""
    module, name = (getattr(named.function, key, None) for key in ("__module__", "__qualname__"))
    return f"{module}:{name}" if module and name else named.name


@dataclass(frozen=True)
class Normaliser:
    """Normalises texts in this order: Unicode form, function, replacements, abbreviations, numbers, letter case.

    Every part is optional. With numbers, case and form only, normalising is idempotent.

    Args:
        plain: the Unicode form, before every other part, and the letter case, at the end.

    >>> table = Replacements((("&", "and"),))
    >>> Normaliser(Normalisation("lower"), replacements=table, numbers=SpokenNumbers("en"))("Lee & 12 others")
    'lee and twelve others'
    """

    plain: Normalisation
    function: NamedFunction | None = None
    replacements: Replacements | None = None
    abbreviations: SpokenAbbreviations | None = None
    numbers: SpokenNumbers | None = None
    _known: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def case(self) -> LetterCase:
        """The letter case."""
        return self.plain.case

    @property
    def unicode(self) -> UnicodeForm:
        """The Unicode form."""
        return self.plain.unicode

    def __call__(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[text] = self._normalised(text)
        return known

    def of_all(self, texts: list[str]) -> list[str]:
        """The normalised texts."""
        return list(map(self, texts))

    def _normalised(self, text: str) -> str:
        form, parts = self._parts
        text = form(text)
        for part in parts:
            text = form(part(text))
        return self.plain(text)

    @cached_property
    def _parts(self) -> tuple[Normalisation, tuple[TextFunction, ...]]:
        """The Unicode form, and the parts in their order."""
        form = Normalisation(unicode=self.unicode)
        table = None if self.replacements is None else self.replacements.in_form(form)
        parts = (self.function, table, self.abbreviations, self.numbers)
        return form, tuple(part for part in parts if part is not None)

    def check(self) -> None:
        """Raises an error for packages that are not installed, and languages that they do not have."""
        for part in (self.abbreviations, self.numbers):
            if part is not None:
                part.check()

    def with_function(self, function: TextFunction) -> Normaliser:
        """The same with the function that was given when the model was loaded."""
        assert self.function is not None
        return replace(self, function=NamedFunction(self.function.name, function))

    def parts(self) -> dict[str, str]:
        """The parts, by the key of the configuration."""
        named = (self.abbreviations, self.numbers)
        return {
            **({} if self.function is None else {"normaliser": self.function.name}),
            **(
                {}
                if self.replacements is None
                else {"replacements": counted(len(self.replacements.entries), "text|texts")}
            ),
            **{part.key: part.language for part in named if part is not None},
        }

    def saved(self) -> dict[str, Any]:
        """The parts in the form of a saved field; replacements have their own file."""
        spoken = [part for part in (self.abbreviations, self.numbers) if part is not None]
        return {
            **({} if self.function is None else {"function": self.function.name}),
            **{part.key: [part.language, part.version or installed_version(part.package)] for part in spoken},
        }

    @classmethod
    def load(cls, plain: Normalisation, saved: dict[str, Any], table: Path) -> Normaliser | Normalisation:
        """The normaliser of a saved field, without its function; only case and form if it has no other part.

        Args:
            saved: as `saved` returns.
            table: the file of the replacements, if it exists.

        Raises:
            DataError: for values of other types.
        """
        name = saved.get("function")
        if not isinstance(name, str | None):
            raise DataError(f"`function` must be the name of a function; got {name!r:.60}.")
        spoken: dict[str, Any] = {}
        for kind in (SpokenAbbreviations, SpokenNumbers):
            value = saved.get(kind.key)
            if value is not None and not _is_pair(value):
                raise DataError(f"`{kind.key}` must be a language and a version; got {value!r:.60}.")
            spoken[kind.key] = None if value is None else kind(*value)
        function = None if name is None else NamedFunction(name)
        replacements = Replacements.read(table) if table.is_file() else None
        if function is None and replacements is None and not any(spoken.values()):
            return plain
        return cls(plain, function, replacements, **spoken)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str | None)
    )


def imported(name: str) -> TextFunction:
    """The function that a text `package.module:function` names, from Python's path or the current folder.

    Raises:
        ConfigError: for another text, a module that cannot be imported, or something that is not a function.
    """
    key = ("data", "normaliser")
    module_name, _, path = name.partition(":")
    if not (module_name and path and all(part.isidentifier() for part in (*module_name.split("."), *path.split(".")))):
        raise ConfigError(f"expected package.module:function, such as my_texts:spoken; got {name!r:.80}", key)
    with _current_folder():
        try:
            found: Any = import_module(module_name)
        except Exception as error:
            raise ConfigError(
                f"{name}: {module_name} cannot be imported ({type(error).__name__}: {error}); modules are searched for "
                "in Python's path, then in the current folder",
                key,
            ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            names = [each for each in vars(found) if not each.startswith("_")] if hasattr(found, "__dict__") else []
            hint = suggestion(part, names, "it has no similar name")
            raise ConfigError(f"{name}: there is no {part!r} in {module_name}; {hint}", key)
        found = getattr(found, part)
    if not callable(found):
        raise ConfigError(f"{name} is not a function, but of type {type(found).__name__}", key)
    function: TextFunction = found
    return function


@contextmanager
def _current_folder() -> Iterator[None]:
    """Within the block, modules of the current folder can be imported, unless others have their names."""
    before = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before
