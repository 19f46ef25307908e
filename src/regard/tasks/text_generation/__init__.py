"""What tasks share whose outputs are texts: search, decoders, metrics and training."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.text_generation.evaluation import Evaluation
    from regard.tasks.text_generation.model import AbstractWriter, ensemble

__getattr__ = on_demand(__name__, {"evaluation": ["Evaluation"], "model": ["AbstractWriter", "ensemble"]})

__all__ = ["AbstractWriter", "Evaluation", "ensemble"]
