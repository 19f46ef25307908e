"""Layers that learn the sizes of their inputs from the first call."""

from regard.interop.tfa.layers.deferred import DeferredModule
from regard.interop.tfa.layers.dense import Dense
from regard.interop.tfa.layers.embedding import Embedding

__all__ = ["DeferredModule", "Dense", "Embedding"]
