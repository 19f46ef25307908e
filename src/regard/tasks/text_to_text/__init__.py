"""Text to text: pairs of texts, and a model that turns one into the other."""

from regard.tasks.text_to_text.model import TextToText

__all__ = ["TextToText"]
