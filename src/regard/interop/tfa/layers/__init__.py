"""Layers that learn the sizes of their inputs from the first call."""
