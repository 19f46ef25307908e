"""A server of trained models: predictions, alignments and scores by HTTP, and a page on which to look at them."""

from regard.serve.app import application
from regard.serve.limits import Limits
from regard.serve.models import Models

__all__ = ["Limits", "Models", "application"]
