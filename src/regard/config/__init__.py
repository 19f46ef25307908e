"""Configurations: YAML files that are checked against a schema; errors have file, line and column."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.config.configuration import ABSENT, Configuration, differences, dump, save
    from regard.config.description import json_schema
    from regard.config.reading import from_preset, from_values, load, presets
    from regard.config.schema import Config

__all__ = [
    "ABSENT",
    "Config",
    "Configuration",
    "differences",
    "dump",
    "from_preset",
    "from_values",
    "json_schema",
    "load",
    "presets",
    "save",
]

__getattr__ = on_demand(  # `regard.config.search` is used without the modules that read files
    __name__,
    {
        "configuration": ["ABSENT", "Configuration", "differences", "dump", "save"],
        "description": ["json_schema"],
        "reading": ["from_preset", "from_values", "load", "presets"],
        "schema": ["Config"],
    },
)
