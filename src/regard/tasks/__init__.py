"""Tasks: data, model, training and search put together for a purpose, such as turning texts into texts."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.runs.adaptation import adapt
    from regard.runs.contract import TASKS, AbstractModel, AbstractTask, Metric
    from regard.runs.distillation import distill
    from regard.runs.fingerprints import DataFile
    from regard.runs.run import TrainingRun
    from regard.runs.store import load
    from regard.runs.sweep.loop import Sweep, sweep
    from regard.runs.training import train
    from regard.tasks.documents.evaluation import DocumentEvaluation, DocumentPrediction
    from regard.tasks.documents.model import DocumentModel
    from regard.tasks.forecasting.evaluation import FileForecasts, ForecastEvaluation
    from regard.tasks.forecasting.model import Forecaster
    from regard.tasks.image_to_text.evaluation import ImagePrediction
    from regard.tasks.image_to_text.model import ImageToText
    from regard.tasks.language_modelling.evaluation import LikelihoodEvaluation
    from regard.tasks.language_modelling.model import LanguageModel
    from regard.tasks.listing import catalogue, describe, explain
    from regard.tasks.text_generation.evaluation import Evaluation
    from regard.tasks.text_generation.model import ensemble
    from regard.tasks.text_to_speech.evaluation import Speech, SpeechEvaluation
    from regard.tasks.text_to_speech.model import SpeechModel
    from regard.tasks.text_to_text.model import TextToText

__getattr__ = on_demand(
    __name__,
    {
        "documents.evaluation": ["DocumentEvaluation", "DocumentPrediction"],
        "documents.model": ["DocumentModel"],
        "forecasting.evaluation": ["FileForecasts", "ForecastEvaluation"],
        "forecasting.model": ["Forecaster"],
        "image_to_text.evaluation": ["ImagePrediction"],
        "image_to_text.model": ["ImageToText"],
        "language_modelling.evaluation": ["LikelihoodEvaluation"],
        "language_modelling.model": ["LanguageModel"],
        "listing": ["catalogue", "describe", "explain"],
        "regard.runs.adaptation": ["adapt"],
        "regard.runs.contract": ["TASKS", "AbstractModel", "AbstractTask", "Metric"],
        "regard.runs.distillation": ["distill"],
        "regard.runs.fingerprints": ["DataFile"],
        "regard.runs.run": ["TrainingRun"],
        "regard.runs.store": ["load"],
        "regard.runs.sweep.loop": ["Sweep", "sweep"],
        "regard.runs.training": ["train"],
        "text_generation.evaluation": ["Evaluation"],
        "text_generation.model": ["ensemble"],
        "text_to_speech.evaluation": ["Speech", "SpeechEvaluation"],
        "text_to_speech.model": ["SpeechModel"],
        "text_to_text.model": ["TextToText"],
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
    "LikelihoodEvaluation",
    "Metric",
    "Speech",
    "SpeechEvaluation",
    "SpeechModel",
    "Sweep",
    "TextToText",
    "TrainingRun",
    "adapt",
    "catalogue",
    "describe",
    "distill",
    "ensemble",
    "explain",
    "load",
    "sweep",
    "train",
]
