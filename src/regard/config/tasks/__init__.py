"""The configuration of each task, by its name."""

from regard.config.schema import Config
from regard.config.tasks.documents import DocumentsConfig
from regard.config.tasks.forecasting import ForecastingConfig
from regard.config.tasks.image_to_text import ImageToTextConfig
from regard.config.tasks.labelling import LabellingConfig
from regard.config.tasks.language_modelling import LanguageModellingConfig
from regard.config.tasks.text_to_speech import TextToSpeechConfig
from regard.config.tasks.text_to_text import TextToTextConfig

SCHEMAS: dict[str, type[Config]] = {
    "text_to_text": TextToTextConfig,
    "documents": DocumentsConfig,
    "forecasting": ForecastingConfig,
    "language_modelling": LanguageModellingConfig,
    "labelling": LabellingConfig,
    "text_to_speech": TextToSpeechConfig,
    "image_to_text": ImageToTextConfig,
}
"""What `task:` may be; the first is meant where there is none."""
