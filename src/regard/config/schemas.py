"""The configuration of each task, which stands beside the task."""

from __future__ import annotations

from regard.config.schema import Config
from regard.lazy import OnDemand

SCHEMAS: OnDemand[type[Config]] = OnDemand(
    {
        "text_to_text": "regard.tasks.text_to_text.config:TextToTextConfig",
        "documents": "regard.tasks.documents.config:DocumentsConfig",
        "forecasting": "regard.tasks.forecasting.config:ForecastingConfig",
        "language_modelling": "regard.tasks.language_modelling.config:LanguageModellingConfig",
        "labelling": "regard.tasks.labelling.config:LabellingConfig",
        "text_to_speech": "regard.tasks.text_to_speech.config:TextToSpeechConfig",
        "image_to_text": "regard.tasks.image_to_text.config:ImageToTextConfig",
    }
)
"""What `task:` may be; the first is meant where there is none."""
