"""Language modelling: running text, and a model that says what follows."""

from regard.tasks.language_modelling.evaluation import Evaluation
from regard.tasks.language_modelling.model import LanguageModel

__all__ = ["Evaluation", "LanguageModel"]
