"""Attention mechanisms: four parts and one state."""
