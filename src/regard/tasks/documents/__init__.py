"""Documents: labelled texts, and a model that finds their labels."""

from regard.tasks.documents.evaluation import DocumentEvaluation, DocumentPrediction
from regard.tasks.documents.model import DocumentModel

__all__ = ["DocumentEvaluation", "DocumentModel", "DocumentPrediction"]
