"""Sequence labelling: a label for each token of a sentence."""
