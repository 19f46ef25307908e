"""Recorded sentences, time intervals of their units, and long sentences joined from short ones."""

from regard.data.speech.intervals import Intervals, read_intervals
from regard.data.speech.joining import join_texts, join_units
from regard.data.speech.ljspeech import Utterance, read_ljspeech

__all__ = ["Intervals", "Utterance", "join_texts", "join_units", "read_intervals", "read_ljspeech"]
