"""Speech: recorded sentences, and a model that reads texts aloud."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.text_to_speech.evaluation import Speech, SpeechEvaluation
    from regard.tasks.text_to_speech.model import SpeechModel

__getattr__ = on_demand(__name__, {"evaluation": ["Speech", "SpeechEvaluation"], "model": ["SpeechModel"]})

__all__ = ["Speech", "SpeechEvaluation", "SpeechModel"]
