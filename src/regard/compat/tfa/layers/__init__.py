"""Layers that learn the sizes of their inputs from the first call."""

from regard.compat.tfa.layers.deferred import DeferredModule
from regard.compat.tfa.layers.dense import Dense
from regard.compat.tfa.layers.embedding import Embedding

__all__ = ["DeferredModule", "Dense", "Embedding"]
