"""Models as other implementations compute them: for weights that were trained there, and for comparisons.

| encoder, decoder | `like` | what it changes |
|---|---|---|
| Transformer | `annotated_transformer` | `AnnotatedLayerNorm`; all matrices are drawn by Glorot & Bengio's formula |
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from regard.models.peers.annotated_transformer import AnnotatedLayerNorm, annotated_transformer

IMITATIONS: dict[str, Callable[[nn.Module], None]] = {"annotated_transformer": annotated_transformer}
"""For each implementation, the function that changes a new encoder or decoder."""

__all__ = ["IMITATIONS", "AnnotatedLayerNorm", "annotated_transformer"]
