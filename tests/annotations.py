"""Shapes and types checked against annotations, in tests alone: an int is a float, as everywhere in Python."""

from __future__ import annotations

import ast
import dataclasses
import sys
import types
from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, get_type_hints

import torch
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError, config, jaxtyped

_checks = beartype(conf=BeartypeConf(is_pep484_tower=True))


CALLS = 16
"""So many calls of each function are checked in a test: loops over steps and searches repeat what they call."""

KERNELS = "regard.ops.kernels"
"""Modules in it are compiled from their source as it stands, without checks."""


_tests, _on = 0, True


def next_test(*, checks: bool = True) -> None:
    """Begins to count calls anew, in a test that checks annotations or not."""
    global _tests, _on
    _tests, _on = _tests + 1, checks


def install(modules: Sequence[str]) -> None:
    """Checks every function and every dataclass of these modules, and of those in them, once they are imported."""
    sys.meta_path.insert(0, _Finder(tuple(modules)))


def checked(what: Any) -> Any:
    """The function with arguments and result checked, but not while it is compiled or exported: sizes would be fixed.

    A letter is one size in all arguments and the result. The tensors of a look, and of what a part prepares from, are
    arguments like any other. Calls of one form (`_form`) are checked once, and in one test only the first `CALLS` calls
    of a function are looked at. What checks is made at the first call. Of a dataclass the arguments are checked.
    `jaxtyping.config.jaxtyping_disable` turns all of it off.
    """
    if isinstance(what, type):
        if dataclasses.is_dataclass(what):
            what.__init__ = checked(what.__init__)  # type: ignore[misc]
        return what
    strict: Callable[..., Any] | None = None
    passed: set[Any] = set()
    test, calls = 0, 0

    @wraps(what)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal strict, test, calls
        if not _on or config.jaxtyping_disable or torch.compiler.is_compiling():
            return what(*args, **kwargs)
        if test != _tests:
            test, calls = _tests, 0
        calls += 1
        if calls > CALLS:
            return what(*args, **kwargs)
        if strict is None:
            strict = _checks(_resolved(what))
        sizes: dict[Any, int] = {0: 0, 1: 1}
        try:
            form = _form(args, sizes), _form(kwargs, sizes)
        except TypeError:  # a size is a symbol, which has no hash
            return _check(strict, args, kwargs)
        if form in passed:
            result = what(*args, **kwargs)
            if (*form, _form(result, sizes)) not in passed:
                _check(_checks(wraps(_resolved(what))(lambda *args, **kwargs: result)), args, kwargs)
        else:
            result = _check(strict, args, kwargs)
            passed.add(form)
        passed.add((*form, _form(result, sizes)))
        return result

    return called


def _check(strict: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with jaxtyped("context"):
        try:
            for value in (*args, *kwargs.values()):
                if _reader(type(value)) is not None:
                    _check_fields(value)
            return strict(*args, **kwargs)
        except BeartypeCallHintViolation as error:
            raise TypeCheckError(str(error)) from error


def _form(value: Any, sizes: dict[Any, int]) -> Any:
    """All that a check can see of a value: types, kinds of tensors, and which sizes are equal, or 0, or 1.

    So the sizes of a call are numbered as they come. No annotation has another number in it.
    """
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return kind, value.dtype, *[sizes.setdefault(size, len(sizes)) for size in value.shape]
    if kind is tuple or kind is list:
        return kind, *[_form(item, sizes) for item in value]
    if kind is dict:
        return kind, *[(key, _form(item, sizes)) for key, item in value.items()]
    if kind is str:
        return value
    if (fields := _reader(kind)) is not None:
        return kind, *[_form(item, sizes) for item in fields(value)]
    return kind


@cache
def _reader(kind: type) -> Callable[[Any], list[Any]] | None:
    """Reads the fields of a class of the contract, whose tensors are checked like arguments; None for other classes."""
    if kind.__module__ != "regard.attention.contract" or not dataclasses.is_dataclass(kind):
        return None
    names = [field.name for field in dataclasses.fields(kind)]
    return lambda value: [getattr(value, name) for name in names]


def _resolved(function: Any) -> Any:
    """The function with annotations that are types; where one cannot be had, with Any."""
    parts = function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    same = types.FunctionType(*parts)
    for name in ("__kwdefaults__", "__qualname__", "__module__"):
        setattr(same, name, getattr(function, name))
    same.__annotations__ = {name: _type(hint, function) for name, hint in function.__annotations__.items()}
    return same


def _type(hint: Any, function: Any) -> Any:
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return get_type_hints(holder, function.__globals__, include_extras=True)["hint"]
    except Exception:
        return Any


def _check_fields(value: Any) -> None:
    for name, check in _fields(type(value)):
        field = getattr(value, name)
        if dataclasses.is_dataclass(field):
            _check_fields(field)
        else:
            check(field)


@cache
def _fields(kind: type) -> list[tuple[str, Callable[[Any], None]]]:
    return [(name, _field(f"{kind.__name__}.{name}", hint)) for name, hint in get_type_hints(kind).items()]


def _field(name: str, hint: Any) -> Callable[[Any], None]:
    def check(value: Any) -> None: ...

    check.__qualname__, check.__annotations__ = name, {"value": hint}
    return beartype(check)


class _Finder(MetaPathFinder):
    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not any(f"{name}.".startswith(f"{module}.") for module in self.modules) or name.startswith(KERNELS):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Adds `checked`: the innermost decorator of functions, the outermost of classes. What it compiles is not kept."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.decorator_list.append(ast.copy_location(ast.Name("_checked_", ast.Load()), node))
            elif isinstance(node, ast.ClassDef):
                node.decorator_list.insert(0, ast.copy_location(ast.Name("_checked_", ast.Load()), node))
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["_checked_"] = checked
        super().exec_module(module)
