"""Configuration: one YAML file; errors in it have file, line and column."""

from regard.config.configuration import Configuration
from regard.config.description import describe, json_schema
from regard.config.load import from_preset, load, presets
from regard.config.save import ABSENT, differences, dump, save
from regard.config.schema import Config

__all__ = [
    "ABSENT",
    "Config",
    "Configuration",
    "describe",
    "differences",
    "dump",
    "from_preset",
    "json_schema",
    "load",
    "presets",
    "save",
]
