"""The tasks, by the name that a configuration gives: `task: text_to_text`."""

from __future__ import annotations

from typing import Any

from regard.config import Config
from regard.tasks.contract import AbstractTask
from regard.tasks.documents.task import DocumentsTask
from regard.tasks.forecasting.task import ForecastingTask
from regard.tasks.image_to_text.task import ImageToTextTask
from regard.tasks.labelling.task import LabellingTask
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.tasks.text_to_speech.task import TextToSpeechTask
from regard.tasks.text_to_text.task import TextToTextTask

TASKS: dict[str, AbstractTask[Any]] = {
    "text_to_text": TextToTextTask(),
    "documents": DocumentsTask(),
    "forecasting": ForecastingTask(),
    "language_modelling": LanguageModellingTask(),
    "labelling": LabellingTask(),
    "text_to_speech": TextToSpeechTask(),
    "image_to_text": ImageToTextTask(),
}


def task_of(config: Config) -> AbstractTask[Any]:
    """The task of a configuration."""
    return TASKS[config.task]
