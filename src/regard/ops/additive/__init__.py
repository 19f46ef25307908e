"""Additive energies: e_ts = Σ_d v_d · tanh(q_td + k_sd)."""

from regard.ops.additive.operation import ADDITIVE_ENERGIES, additive_energies

__all__ = ["ADDITIVE_ENERGIES", "additive_energies"]
