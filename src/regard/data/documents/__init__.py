"""Labelled documents: reading, sentences, labels and ids."""

from regard.data.documents.field import DocumentField, EncodedDocument, document_findings, pad_documents
from regard.data.documents.files import Document, Documents, hold_out_documents, read_documents
from regard.data.documents.labels import Labels
from regard.data.documents.sentences import Sentences

__all__ = [
    "Document",
    "DocumentField",
    "Documents",
    "EncodedDocument",
    "Labels",
    "Sentences",
    "document_findings",
    "hold_out_documents",
    "pad_documents",
    "read_documents",
]
