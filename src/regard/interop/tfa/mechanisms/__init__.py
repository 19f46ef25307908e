"""Attention mechanisms that keep their memory, and their functions."""
