"""Text to text: pairs of texts, and a model that turns one into the other."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.text_to_text.model import TextToText

__getattr__ = on_demand(__name__, {"model": ["TextToText"]})

__all__ = ["TextToText"]
