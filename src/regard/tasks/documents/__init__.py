"""Documents: labelled texts, and a model that finds their labels."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.tasks.documents.evaluation import DocumentEvaluation, DocumentPrediction
    from regard.tasks.documents.model import DocumentModel

__getattr__ = on_demand(
    __name__, {"evaluation": ["DocumentEvaluation", "DocumentPrediction"], "model": ["DocumentModel"]}
)

__all__ = ["DocumentEvaluation", "DocumentModel", "DocumentPrediction"]
