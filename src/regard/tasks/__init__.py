"""Tasks: data, model, training and search put together for a purpose, such as turning texts into texts."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand
from regard.tasks.catalogue import catalogue, describe, explain
from regard.tasks.contract import AbstractModel, AbstractTask, DataFile, Metric
from regard.tasks.documents import DocumentEvaluation, DocumentModel, DocumentPrediction
from regard.tasks.forecasting import FileForecasts, Forecaster, ForecastEvaluation
from regard.tasks.image_to_text import ImagePrediction, ImageToText
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.loading import load
from regard.tasks.table import TASKS
from regard.tasks.text_to_speech import Speech, SpeechEvaluation, SpeechModel
from regard.tasks.text_to_text import TextToText
from regard.tasks.writing import Evaluation, ensemble

if TYPE_CHECKING:
    from regard.tasks.run import train

__getattr__ = on_demand(__name__, {"run": ["train"]})

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
