"""The recurrent decoder's training pass as one node of the graph, for the parts that it knows."""

from regard.models.fused.table import refuse, run

__all__ = ["refuse", "run"]
