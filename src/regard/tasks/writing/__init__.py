"""What tasks share whose outputs are texts: search, decoders, metrics and training."""

from regard.tasks.writing.evaluation import Evaluation
from regard.tasks.writing.model import AbstractWriter, ensemble

__all__ = ["AbstractWriter", "Evaluation", "ensemble"]
