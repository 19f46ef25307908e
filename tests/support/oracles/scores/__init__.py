"""Energies, straight from the equations."""
