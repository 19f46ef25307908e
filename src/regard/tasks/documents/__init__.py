"""Documents: labelled texts, and a model that finds their labels."""

from regard.tasks.documents.evaluation import DocumentEvaluation
from regard.tasks.documents.model import DocumentModel
from regard.tasks.documents.prediction import DocumentPrediction

__all__ = ["DocumentEvaluation", "DocumentModel", "DocumentPrediction"]
