"""Every score, window, alignment, read and recipe, with one head and with several.

Each file has the `CASES` of a family and its `PARTS` for compositions; they are collected here.
"""

from __future__ import annotations

import importlib
import pkgutil

from support.cases.case import MechanismCase, PartCase

_families = [importlib.import_module(file.name) for file in pkgutil.iter_modules(__path__, f"{__name__}.")]

MECHANISMS: tuple[MechanismCase, ...] = tuple(case for family in _families for case in getattr(family, "CASES", ()))
"""Published mechanisms, and some others."""

PARTS: tuple[PartCase, ...] = tuple(case for family in _families for case in getattr(family, "PARTS", ()))
"""Single parts, for queries and memories of 6 features and 1 or 2 heads."""
