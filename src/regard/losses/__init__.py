"""Losses: what outputs and alignments are trained on."""

from regard.losses.cross_entropy import cross_entropy

__all__ = ["cross_entropy"]
