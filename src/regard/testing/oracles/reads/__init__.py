"""Contexts from weights, position by position."""
