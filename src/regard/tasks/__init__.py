"""What a user wants done: tasks join data, model, training and search."""

from regard.tasks.catalogue import catalogue, explain
from regard.tasks.evaluation import Evaluation
from regard.tasks.run import train
from regard.tasks.store import load
from regard.tasks.text_to_text import TextToText

__all__ = ["Evaluation", "TextToText", "catalogue", "explain", "load", "train"]
