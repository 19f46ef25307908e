"""Speech: recorded sentences, and a model that reads texts aloud."""

from regard.tasks.text_to_speech.evaluation import Speech, SpeechEvaluation
from regard.tasks.text_to_speech.model import SpeechModel

__all__ = ["Speech", "SpeechEvaluation", "SpeechModel"]
