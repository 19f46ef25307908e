"""Image to text: pictures or handwriting, and a model that writes what they show."""

from regard.tasks.image_to_text.evaluation import ImagePrediction
from regard.tasks.image_to_text.model import ImageToText

__all__ = ["ImagePrediction", "ImageToText"]
