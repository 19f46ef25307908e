"""Tasks: data, model, training and search put together for a purpose, such as turning texts into texts."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.runs.contract import TASKS, AbstractModel, AbstractTask, DataFile, Metric
    from regard.runs.store import load
    from regard.runs.training import train
    from regard.tasks.documents import DocumentEvaluation, DocumentModel, DocumentPrediction
    from regard.tasks.forecasting import FileForecasts, Forecaster, ForecastEvaluation
    from regard.tasks.image_to_text import ImagePrediction, ImageToText
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.listing import catalogue, describe, explain
    from regard.tasks.text_generation import Evaluation, ensemble
    from regard.tasks.text_to_speech import Speech, SpeechEvaluation, SpeechModel
    from regard.tasks.text_to_text import TextToText

__getattr__ = on_demand(
    __name__,
    {
        "listing": ["catalogue", "describe", "explain"],
        "regard.runs.contract": ["TASKS", "AbstractModel", "AbstractTask", "DataFile", "Metric"],
        "documents": ["DocumentEvaluation", "DocumentModel", "DocumentPrediction"],
        "forecasting": ["FileForecasts", "ForecastEvaluation", "Forecaster"],
        "image_to_text": ["ImagePrediction", "ImageToText"],
        "language_modelling": ["LanguageModel"],
        "regard.runs.store": ["load"],
        "regard.runs.training": ["train"],
        "text_to_speech": ["Speech", "SpeechEvaluation", "SpeechModel"],
        "text_to_text": ["TextToText"],
        "text_generation": ["Evaluation", "ensemble"],
    },
)

__all__ = [
    "TASKS",
    "AbstractModel",
    "AbstractTask",
    "DataFile",
    "DocumentEvaluation",
    "DocumentModel",
    "DocumentPrediction",
    "Evaluation",
    "FileForecasts",
    "ForecastEvaluation",
    "Forecaster",
    "ImagePrediction",
    "ImageToText",
    "LanguageModel",
    "Metric",
    "Speech",
    "SpeechEvaluation",
    "SpeechModel",
    "TextToText",
    "catalogue",
    "describe",
    "ensemble",
    "explain",
    "load",
    "train",
]
