"""What tasks share whose outputs are texts: search, decoders, metrics and training."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.writing.evaluation import Evaluation
    from regard.tasks.writing.model import AbstractWriter, ensemble

__getattr__ = on_demand(__name__, {"evaluation": ["Evaluation"], "model": ["AbstractWriter", "ensemble"]})

__all__ = ["AbstractWriter", "Evaluation", "ensemble"]
