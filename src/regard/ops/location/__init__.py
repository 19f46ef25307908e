"""Location-sensitive energies: e_s = Σ_d v_d · tanh(q_d + k_sd + u_sd), where u is what filters see of the past."""

from regard.ops.location.operation import LOCATION_ENERGIES, location_energies

__all__ = ["LOCATION_ENERGIES", "location_energies"]
