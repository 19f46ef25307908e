"""Additive energies: e_ts = Σ_d v_d · tanh(q_td + k_sd), or with a rectifier in place of tanh."""

from regard.ops.additive import custom
from regard.ops.additive.operation import ADDITIVE_ENERGIES, additive_energies, additive_gradients

__all__ = ["ADDITIVE_ENERGIES", "additive_energies", "additive_gradients", "custom"]
