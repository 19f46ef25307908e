"""Attention a step at a time in buffers of all steps, and its derivative."""
