"""Text to text: pairs of texts, and a model that turns one into the other."""

from regard.tasks.text_to_text.evaluation import Evaluation
from regard.tasks.text_to_text.model import TextToText, ensemble

__all__ = ["Evaluation", "TextToText", "ensemble"]
