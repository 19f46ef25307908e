"""Speech: recorded sentences, and a model that reads texts aloud."""

from regard.tasks.text_to_speech.evaluation import SpeechEvaluation
from regard.tasks.text_to_speech.model import SpeechModel
from regard.tasks.text_to_speech.prediction import Speech

__all__ = ["Speech", "SpeechEvaluation", "SpeechModel"]
