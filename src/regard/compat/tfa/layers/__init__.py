"""Layers that learn the sizes of their inputs from the first call."""

from regard.compat.tfa.layers.deferred import DeferredModule
from regard.compat.tfa.layers.dense import Dense

__all__ = ["DeferredModule", "Dense"]
