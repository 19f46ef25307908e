"""Weights from energies, straight from the equations: one head, one sentence."""
