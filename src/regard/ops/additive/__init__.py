"""Additive energies: e_ts = Σ_d v_d · tanh(q_td + k_sd)."""

from regard.ops.additive.reference import additive_energies

__all__ = ["additive_energies"]
