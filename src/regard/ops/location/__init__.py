"""Location-sensitive energies: e_s = Σ_d v_d · tanh(q_d + k_sd + u_sd), with u from filters over past alignments."""

from regard.ops.location.operation import LOCATION_ENERGIES, location_energies

__all__ = ["LOCATION_ENERGIES", "location_energies"]
