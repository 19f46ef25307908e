"""Models of other programs as folders that `regard predict` takes, read safely and checked weight by weight."""

from regard.conversion.contract import AbstractKind, Converted, Origin
from regard.conversion.convert import KINDS, convert

__all__ = ["KINDS", "AbstractKind", "Converted", "Origin", "convert"]
