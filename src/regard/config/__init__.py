"""Configuration: one YAML file; errors in it have file, line and column."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.config.configuration import ABSENT, Configuration, differences, dump, save
    from regard.config.description import json_schema
    from regard.config.reading import from_preset, from_values, load, presets
    from regard.config.reference import describe
    from regard.config.schema import Config

__all__ = [
    "ABSENT",
    "Config",
    "Configuration",
    "describe",
    "differences",
    "dump",
    "from_preset",
    "from_values",
    "json_schema",
    "load",
    "presets",
    "save",
]

__getattr__ = on_demand(  # the settings of searches are read without what reads files
    __name__,
    {
        "configuration": ["ABSENT", "Configuration", "differences", "dump", "save"],
        "description": ["json_schema"],
        "reading": ["from_preset", "from_values", "load", "presets"],
        "reference": ["describe"],
        "schema": ["Config"],
    },
)
