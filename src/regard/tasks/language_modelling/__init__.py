"""Language modelling: running text, and a model that says what follows."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.language_modelling.evaluation import LikelihoodEvaluation
    from regard.tasks.language_modelling.model import LanguageModel

__getattr__ = on_demand(__name__, {"evaluation": ["LikelihoodEvaluation"], "model": ["LanguageModel"]})

__all__ = ["LanguageModel", "LikelihoodEvaluation"]
