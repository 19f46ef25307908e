"""The recurrent decoder's training pass as one node of the graph, and its step in searches, for the parts they know."""

from regard.models.fused.plan import Way
from regard.models.fused.support import refuse, run

__all__ = ["Way", "refuse", "run"]
