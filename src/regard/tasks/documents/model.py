"""Documents: a trained model with everything that prediction needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.data import bucket
from regard.data.documents import DocumentField, EncodedDocument, Labels, read_documents
from regard.data.documents.files import NAMED, NUMBERED, SUFFIXES
from regard.data.input_rows import InputRow, InputTable, separated_table
from regard.data.table_rows import TAB
from regard.data.text import Vocabulary
from regard.data.text_file import suffix_of
from regard.errors import DataError, InputError, counted, first_of
from regard.metrics import ItemTerms
from regard.metrics.calibration import (
    sigmoid_confidence,
    sigmoid_temperature,
    softmax_confidence,
    softmax_temperature,
)
from regard.models import DocumentClassifier
from regard.runs.calibration import OUTPUT, Calibration, Stated
from regard.runs.contract import AbstractModel, check_strict, check_texts
from regard.runs.given import of_data, of_inputs
from regard.runs.observation import observed
from regard.runs.predictions import ScoredPair, rounded
from regard.runs.trained_items import DataItem
from regard.tasks.documents.build import build_classifier
from regard.tasks.documents.config import DocumentsConfig
from regard.tasks.documents.encoded import EncodedDocuments
from regard.tasks.documents.evaluation import MOST_SHOWN, TINY, DocumentEvaluation, DocumentPrediction
from regard.tasks.documents.evaluation import evaluation as scored_documents
from regard.tasks.documents.reading import data_item, read_file
from regard.viz import WeightedDocument, plot_document, save_documents
from regard.viz.report import Table

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

LONGEST_TITLE = 60
"""The most characters of a title; a longer one is the text itself, and left out."""
FIELD, LABELS = "words", "labels.json"


@dataclass(eq=False, repr=False)
class DocumentModel(AbstractModel[DocumentsConfig]):
    """A classifier of documents: sentences and words, labels, the network and its configuration."""

    config: DocumentsConfig
    field: DocumentField
    labels: Labels
    module: DocumentClassifier

    longest_text = 100_000

    @classmethod
    def build(
        cls, config: DocumentsConfig, field: DocumentField, labels: Labels, *, name: str = "model"
    ) -> DocumentModel:
        """An untrained model; its weights are drawn from torch's global generator."""
        module = build_classifier(config.model, num_words=len(field.words.vocabulary), num_labels=len(labels))
        return cls(config, module, field, labels, name=name)

    assets = (f"{FIELD}.json", f"{FIELD}-sentences.json", LABELS)

    def save_assets(self, folder: Path) -> None:
        self.field.save(folder, FIELD)
        self.labels.save(folder / LABELS)

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        return {"words": ("embedding.", self.field.words.vocabulary)}

    def named_rows(self) -> Mapping[str, Sequence[str]]:
        return {"head.weight": self.labels.names, "head.bias": self.labels.names}

    def unlike(self, other: DocumentModel) -> Sequence[str]:
        lines = []
        if self.field.words.normalisation != other.field.words.normalisation:
            lines.append(f"texts were normalised differently ({other.field.words.normalisation}), which is not copied")
        if self.labels.several != other.labels.several:
            kinds = ["one label", "several labels"]
            here, there = kinds[self.labels.several], kinds[other.labels.several]
            lines.append(f"documents have {here} here and had {there} there, so the outputs mean something else")
        return lines

    @property
    def input_fields(self) -> tuple[str | int, ...]:
        fields = self.config.data.text_field
        return fields if isinstance(fields, tuple) else ("text" if fields is None else fields,)

    def input_table(self, name: str, head: Sequence[str], *, is_table: bool = False) -> InputTable | None:
        """Tab-separated labels and texts without names of columns, as training reads them."""
        lines = [line for line in head if line.strip()]
        field = self.config.data.text_field
        if SUFFIXES.get(suffix_of(Path(name)), "tsv") != "tsv" or not lines or isinstance(field, str):
            return None
        fields = field if isinstance(field, tuple) else (NUMBERED[0] if field is None else field,)
        counts = {line.count(TAB) for line in lines}
        if not all(isinstance(each, int) for each in fields) or len(counts) > 1 or NAMED[0] in lines[0].split(TAB):
            return None
        if counts.pop() < max(1, *map(int, fields)):
            return None
        return separated_table(head, TAB, fields, fields)

    def folder_inputs(self, folder: Path) -> Iterator[InputRow]:
        """The documents of a folder, at any depth, with the names of their files."""
        for document in read_documents(folder, format="folder", labelled=False):
            yield InputRow(str(document.file), document.text, [str(document.file)])

    @of_inputs
    def predict(
        self, inputs: Sequence[str], *, alignment: bool = True, strict: bool = False
    ) -> list[DocumentPrediction]:
        """The labels of texts, in order; batching changes results by rounding only.

        A text that cannot be handled as it is (without words, or without a word of the training) does not affect the
        others; its prediction has a warning. A text without words has the labels of an empty document.

        Args:
            inputs: texts; where training joined several fields, these are separated by tabs.
            alignment: whether predictions have the weights of words and sentences.
            strict: raises an error for a text with a warning.

        Raises:
            DataError: for the first text with a warning, if `strict`.
        """
        check_texts(inputs)
        joined = len(self.input_fields) - 1
        texts = ["\n\n".join(text.split(TAB, joined)) for text in inputs] if joined else inputs
        return self.predict_documents(texts, alignment=alignment, strict=strict)

    def predict_documents(
        self, texts: Sequence[str], *, alignment: bool = True, strict: bool = False
    ) -> list[DocumentPrediction]:
        """As `predict`, of the texts of `regard.data.documents.Document`, in which several fields are joined."""
        encoded = [self.field.encode(text) for text in texts]
        warnings = [self._warnings(item) for item in encoded]
        if strict:
            check_strict(texts, warnings)
        documents = EncodedDocuments.of(encoded)
        results: list[DocumentPrediction | None] = [None] * len(texts)
        for i, probabilities, alignments in self.classify(documents, alignment=alignment):
            sentences = encoded[i].tokens if alignment else ()
            results[i] = self.prediction(probabilities, sentences, alignments, warnings[i])
        return [result for result in results if result is not None]

    def score_pairs(self, pairs: Sequence[tuple[Any, Any]]) -> list[ScoredPair]:
        """The log-probabilities of given labels: a label, or where documents may have several, a list of labels.

        Where documents may have several, those of the other labels are that the document does not have them.
        """
        results = []
        predictions = self.predict([text for text, _ in pairs], alignment=False)
        for number, (prediction, (_, output)) in enumerate(zip(predictions, pairs, strict=True)):
            given = [output] if isinstance(output, str) else list(output)
            if unknown := [name for name in given if name not in self.labels]:
                raise InputError(
                    number, f"there is no label {unknown[0]!r:.60}; they are {first_of(self.labels.names)}"
                )
            if not self.labels.several and len(given) != 1:
                raise InputError(number, f"a document has one label; got {len(given)}")

            def chance(values: Mapping[str, float], name: str, given: Sequence[str] = given) -> float:
                return values[name] if name in given else 1 - values[name]

            names = self.labels.names if self.labels.several else given
            logarithms = [math.log(max(chance(prediction.probabilities, name), TINY)) for name in names]
            confidence = math.prod(chance(prediction.confidences, name) for name in names)
            results.append(ScoredPair(names, logarithms, confidence, prediction.warnings))
        return results

    def classify(
        self, documents: EncodedDocuments, indices: Sequence[int] | None = None, *, alignment: bool = False
    ) -> Iterator[tuple[int, Tensor, dict[str, Tensor]]]:
        """The index of each document with the probabilities (C,) of its labels, float64, and its alignments.

        Args:
            indices: of the documents; all if None.
            alignment: whether there are alignments, in the form of `DocumentPrediction`.
        """
        chosen = np.arange(len(documents)) if indices is None else np.asarray(indices, dtype=np.int64)
        words, sentences = documents.words[chosen], documents.counts[chosen]
        batch_words = self.config.decoding.batch_words
        batches = bucket(words, sentences, batch_tokens=batch_words, seed=0, epoch=0, shuffle=False)
        for batch in observed(batches, lambda rows: (len(rows), float(words[rows].sum())), float(words.sum())):
            ids, mask = documents.pad(chosen[batch])
            with torch.inference_mode():
                output = self.module(ids.to(self.device), mask.to(self.device))
            logits = output.logits.double().cpu()
            probabilities = logits.sigmoid() if self.labels.several else logits.softmax(-1)
            weights = {name: tensor.float().cpu() for name, tensor in output.alignments.items()} if alignment else {}
            for row, i in enumerate(chosen[batch].tolist()):
                count = int(documents.counts[i])
                longest = int(mask[row].sum(-1).max()) if count else 0
                cut = {"word": (slice(None), slice(count), slice(longest)), "sentence": (slice(None), slice(count))}
                yield i, probabilities[row], {name: tensor[row][cut[name]] for name, tensor in weights.items()}

    def prediction(
        self,
        probabilities: Tensor,
        sentences: Sequence[Sequence[str]] = (),
        alignments: Mapping[str, Tensor] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> DocumentPrediction:
        """The prediction that follows from the probabilities (C,) of the labels."""
        values = probabilities.tolist()
        order = sorted(range(len(values)), key=lambda i: -values[i])
        ranked = {self.labels.names[i]: values[i] for i in order}
        temperature = self.temperature()
        if self.labels.several:
            names = tuple(name for name, p in ranked.items() if p >= self.config.decoding.threshold)
            stated = sigmoid_confidence([values[i] for i in order], temperature).tolist()
            confidence = math.prod(p if name in names else 1 - p for name, p in zip(ranked, stated, strict=True))
        else:
            names = tuple(ranked)[:1]
            logarithms = np.log(np.maximum([values[i] for i in order], TINY))
            stated = softmax_confidence(logarithms, temperature).tolist()
            confidence = stated[0]
        confidences = dict(zip(ranked, stated, strict=True))
        return DocumentPrediction(names, ranked, sentences, alignments or {}, warnings, confidence, confidences)

    def calibrate(self, evaluation: DocumentEvaluation) -> Calibration:
        known = [each for each in evaluation.scored if all(name in self.labels for name in each.document.labels)]
        rows = [[each.prediction.probabilities[name] for name in self.labels.names] for each in known]
        probabilities = np.array(rows).reshape(len(known), len(self.labels))
        documents = [each.document for each in known]
        is_right = [each.is_right for each in known]
        if self.labels.several:
            temperature = sigmoid_temperature(probabilities, self.labels.indicators(documents))
            chosen = self.labels.indicators([replace(each.document, labels=each.prediction.labels) for each in known])
            stated = [sigmoid_confidence(probabilities, each) for each in (1.0, temperature)]
            before, after = (np.where(chosen > 0, each, 1 - each).prod(-1) for each in stated)
        else:
            logarithms = np.log(np.maximum(probabilities, TINY))
            temperature = softmax_temperature(logarithms, self.labels.ids(documents))
            before, after = (softmax_confidence(logarithms, each).max(-1) for each in (1.0, temperature))
        return Calibration.fitted({OUTPUT: temperature}, before, after, is_right)

    @of_data
    def evaluate(
        self, path: Path | str, *, source_field: Any = None, target_field: str | int | None = None
    ) -> DocumentEvaluation:
        """Compares predictions for the documents of a file or folder with their labels.

        Args:
            path: in the form of the training documents.
            source_field, target_field: columns or fields of the text and of the label; those of training if None.

        Raises:
            DataError: for a file without documents, or that the model was trained on.
        """
        self.check_trained(path)
        documents = read_file(self.config.data, path, text_field=source_field, label_field=target_field)
        if not len(documents):
            raise DataError(f"{path}: there are no documents to evaluate.")
        encoded = [self.field.encode(item.text) for item in documents]
        results = {
            i: self.prediction(probabilities, warnings=self._warnings(encoded[i]))
            for i, probabilities, _ in self.classify(EncodedDocuments.of(encoded))
        }
        return scored_documents(documents, [results[i] for i in range(len(documents))], self.labels)

    def item_terms(self, evaluation: DocumentEvaluation) -> ItemTerms:
        return evaluation.terms(self.labels)

    def evaluate_outputs(self, evaluation: DocumentEvaluation, outputs: Sequence[str]) -> DocumentEvaluation:
        separator = self.config.data.label_separator if self.labels.several else None
        documents = [entry.document for entry in evaluation.scored]
        predictions = []
        for document, text in zip(documents, outputs, strict=True):
            names = [text] if separator is None else text.split(separator)
            labels = tuple(name for name in map(str.strip, names) if name)
            unknown = [name for name in labels if name not in evaluation.names]
            if unknown or (not self.labels.several and len(labels) != 1):
                known = self.labels.names[0]
                raise DataError(f"{document.place}: expected a label, such as {known!r}; got {text!r:.60}.")
            predictions.append(DocumentPrediction(labels, {}))
        return scored_documents(documents, predictions, self.labels)

    def report_facts(self, evaluation: DocumentEvaluation) -> ReportFacts:
        """Errors by the words of documents, and the labels that are confused."""
        from regard.runs.report import ReportFacts

        confused: Counter[tuple[str, str]] = Counter()
        for entry in evaluation.scored:
            missing = sorted(set(entry.document.labels) - set(entry.prediction.labels))
            wrong = sorted(set(entry.prediction.labels) - set(entry.document.labels))
            confused.update(zip_longest(missing, wrong, fillvalue=""))
        return ReportFacts(
            lambda entry: [word for sentence in self.field.encode(entry.document.text).tokens for word in sentence],
            self.field.words.vocabulary,
            confused,
            noun="labels",
            unit="words",
            inputs=lambda entry: entry.document.text,
            sections=_by_label(evaluation),
        )

    def evaluated_items(self, evaluation: DocumentEvaluation, path: Path | str) -> Iterator[DataItem]:
        return (data_item(entry.document) for entry in evaluation.scored)

    def rows(self, prediction: DocumentPrediction, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row with the labels, and with `scores` their least probability; with `num_best` a row for each label."""
        num_best = self.config.decoding.num_best
        if num_best > 1:
            return [(name, f"{p:.4f}") for name, p in list(prediction.probabilities.items())[:num_best]]
        least = min((prediction.probabilities[name] for name in prediction.labels), default=1.0)
        shown = (self.config.data.label_separator or "").join(prediction.labels)
        return [(shown, f"{least:.4f}") if scores else (shown,)]

    def row_confidences(self, prediction: DocumentPrediction) -> Sequence[float]:
        if (num_best := self.config.decoding.num_best) > 1:
            return list(prediction.confidences.values())[:num_best]
        return super().row_confidences(prediction)

    def stated_record(self, prediction: DocumentPrediction, stated: Stated) -> dict[str, Any]:
        record = super().stated_record(prediction, stated)
        if stated.shown:
            record["confidence"] = prediction.confidence
            record["confidences"] = dict(prediction.confidences)
        return record

    def can_plot(self, prediction: DocumentPrediction) -> bool:
        return prediction.word_weights is not None and bool(prediction.sentences)

    def details(self, prediction: DocumentPrediction) -> dict[str, Any]:
        """The weights of every head: `word` (H, S, W) and `sentence` (H, S)."""
        return {name: rounded(weights) for name, weights in prediction.alignments.items()}

    def plot(
        self,
        predictions: Sequence[DocumentPrediction],
        path: Path,
        *,
        title: str = "",
        data: Literal["json", "npz"] | None = None,
        heads: bool = False,
        highest: Literal["largest"] | float = "largest",
    ) -> Sequence[Path]:
        """Draws documents with words coloured by the weights of words and sentences (`plot_document`)."""
        documents = [drawn for each in predictions for drawn in self.weighted(each, heads=heads)]
        shown = title if len(title) <= LONGEST_TITLE else ""
        files = [plot_document(documents, path, title=shown or None, highest=highest)]
        if data is not None:
            files.append(save_documents(documents, path.with_suffix(f".{data}")))
        return files

    @staticmethod
    def weighted(
        prediction: DocumentPrediction, *, heads: bool = False, label: str | None = None
    ) -> list[WeightedDocument]:
        """A prediction in the form in which it is drawn: the mean of the heads, or every head of its words."""
        words = prediction.alignments["word"]
        shown = ", ".join(prediction.labels) or "no label"
        least = min((prediction.probabilities[name] for name in prediction.labels), default=None)
        return [
            WeightedDocument(
                prediction.sentences,
                weights,
                prediction.sentence_weights,
                predicted=shown + (f" (head {number} of {len(words)})" if heads and len(words) > 1 else ""),
                probability=least,
                label=label,
            )
            for number, weights in enumerate(words if heads else words.mean(0, keepdim=True), start=1)
        ]

    def description(self) -> dict[str, Any]:
        kind = "labels, of which a document may have several" if self.labels.several else "labels"
        return {
            "words": f"{len(self.field.words.vocabulary):,} {self.config.data.units} symbols",
            "labels": f"{len(self.labels):,} {kind}: {', '.join(self.labels.names)}",
        }

    def _warnings(self, encoded: EncodedDocument) -> tuple[str, ...]:
        if not encoded.num_words:
            return (encoded.refusal or "the document has no words; its label is a guess",)
        warnings = []
        if len(encoded.unknown) == encoded.num_words:
            warnings.append("no word of the document was in the training data")
        if encoded.num_cut:
            warnings.append(counted(encoded.num_cut, "sentence|sentences beyond data.max_sentences was|were not read"))
        return tuple(warnings)


def _by_label(evaluation: DocumentEvaluation) -> list[Table]:
    """Precision, recall and F1 of each label, the rarest last, and the confusion matrix."""
    labels = evaluation.details["labels"].items()
    rows = [
        (name, figures["support"], figures["precision"], figures["recall"], figures["f1"]) for name, figures in labels
    ]
    rows.sort(key=lambda row: -row[1])
    columns = ["label", "documents", "precision", "recall", "F1"]
    tables = [Table("Errors by label", columns, rows, bars=columns[2:])]
    if not evaluation.scores.several and len(evaluation.names) <= MOST_SHOWN:
        matrix = [[name, *row] for name, row in zip(evaluation.names, evaluation.details["confusion"], strict=True)]
        tables.append(Table("Confusion matrix", ["right, by row", *evaluation.names], matrix))
    return tables
