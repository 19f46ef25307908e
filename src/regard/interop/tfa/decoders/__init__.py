"""Decoders, the loop of their steps, and beams."""
