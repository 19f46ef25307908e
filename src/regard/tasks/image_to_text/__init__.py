"""Image to text: pictures or handwriting, and a model that writes what they show."""

from regard.tasks.image_to_text.model import ImageToText
from regard.tasks.image_to_text.prediction import ImagePrediction

__all__ = ["ImagePrediction", "ImageToText"]
