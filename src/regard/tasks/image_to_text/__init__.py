"""Image to text: pictures or handwriting, and a model that writes what they show."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.image_to_text.evaluation import ImagePrediction
    from regard.tasks.image_to_text.model import ImageToText

__getattr__ = on_demand(__name__, {"evaluation": ["ImagePrediction"], "model": ["ImageToText"]})

__all__ = ["ImagePrediction", "ImageToText"]
