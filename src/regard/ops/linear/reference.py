"""Products with a weight matrix, as torch's own library computes them."""

from torch.nn.functional import linear

__all__ = ["linear"]
