"""Sequence labelling: a trained model with everything that prediction needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.input_rows import InputTable
from regard.data.text import PAD, Vocabulary
from regard.errors import DataError, InputError, Option, counted, first_of
from regard.metrics import ItemTerms, SpanScheme
from regard.metrics.calibration import (
    power_confidence,
    power_temperature,
    softmax_confidence,
    softmax_temperature,
)
from regard.runs.calibration import OUTPUT, Calibration, Stated
from regard.runs.contract import MOST_WEIGHTS, STATED, AbstractModel, shown_json
from regard.runs.given import of_data, of_inputs
from regard.runs.observation import observed
from regard.runs.predictions import ScoredPair, rounded
from regard.runs.trained_items import DataItem
from regard.tasks.encoded import batches_within, pad
from regard.tasks.labelling import tables
from regard.tasks.labelling.columns import UNANNOTATED, Sentence, tokens_of
from regard.tasks.labelling.config import LabellingConfig
from regard.tasks.labelling.evaluation import Labelling, LabellingEvaluation, ScoredSentence
from regard.tasks.labelling.network import Labeller
from regard.tasks.labelling.reading import cased, data_item, form_options, read_sentences, scheme_of
from regard.viz import plot_alignment
from regard.viz.report import Table

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

DECIMALS = 6
SENTENCE = "sentence"
"""The unit of the temperature of sentences; that of `output` is of tokens."""
MOST_TOKENS = 20
"""The most tokens in a table of a report."""
TINY = 1e-300
"""The least probability whose logarithm is taken."""
LONGEST_TOKEN = 40
"""The most characters of a token that are read."""


@dataclass(eq=False, repr=False)
class Tagger(AbstractModel[LabellingConfig]):
    """A model of sequence labelling: three vocabularies, the module and its configuration."""

    config: LabellingConfig
    tokens: Vocabulary
    characters: Vocabulary
    labels: Vocabulary
    module: Labeller

    assets = ("tokens.json", "characters.json", "labels.json")
    formats = ("tsv", "text", "jsonl", "csv", *tables.FORMATS)
    shown_sections = ("model",)

    @classmethod
    def build(
        cls, config: LabellingConfig, tokens: Vocabulary, characters: Vocabulary, labels: Vocabulary, *, name: str
    ) -> Tagger:
        """An untrained model; its weights are drawn from torch's global generator."""
        module = Labeller(config.model, num_tokens=len(tokens), num_characters=len(characters), num_labels=len(labels))
        return cls(config, module, tokens, characters, labels, name=name)

    def save_assets(self, folder: Path) -> None:
        for file in self.assets:
            getattr(self, file.removesuffix(".json")).save(folder / file)

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        return {
            "tokens": ("embedding.", self.tokens),
            "characters": ("characters.", self.characters),
            "labels": ("head.", self.labels),
        }

    def batch(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        """The arguments of `Labeller.forward`, on the CPU."""
        case = self.config.data.case
        tokens, mask = pad([self.tokens.ids([cased(token, case) for token in each]) for each in sentences])
        rows = {token: row for row, token in enumerate(dict.fromkeys(t for each in sentences for t in each), start=1)}
        words, _ = pad([np.array([rows[token] for token in each], dtype=np.int64) for each in sentences])
        spelling, _ = pad([np.array([PAD + 1]), *(self.characters.ids(token[:LONGEST_TOKEN]) for token in rows)])
        return {"tokens": tokens, "words": words, "spelling": spelling, "mask": mask}

    @of_inputs
    def predict(
        self,
        inputs: Sequence[str | Sequence[str]],
        *,
        alignment: bool = True,
        strict: bool = False,
        logarithms: bool = False,
    ) -> list[Labelling]:
        """The labels of sentences, in order; batching changes results by rounding only.

        Args:
            inputs: sentences, as lists of tokens or as texts with tokens between spaces; tokens may contain spaces
                other than U+0020, as in files.
            alignment: whether predictions have their alignments.
            strict: raises an error for an empty sentence.
            logarithms: whether predictions have the log-probabilities of all labels.

        Raises:
            DataError: for the first empty sentence, if `strict`.
        """
        if isinstance(inputs, str):
            raise TypeError("predict takes a list of sentences, as in predict([sentence]); got a text.")
        sentences = [tokens_of(each) for each in inputs]
        if strict and not all(sentences):
            raise DataError(f"input {sentences.index(()) + 1}: the sentence is empty")
        results = [Labelling((), (), (), None, ("the input is empty",), confidence=0.0)] * len(sentences)
        for indices in self._batches(sentences):
            rows = [sentences[i] for i in indices]
            for i, result in zip(indices, self._labelled(rows, alignment=alignment), strict=True):
                results[i] = result if logarithms else replace(result, logarithms=None)
        return results

    def from_json(self, value: Any) -> str | tuple[str, ...]:
        """A sentence: a text, or a list of tokens."""
        if isinstance(value, str):
            return value
        if not isinstance(value, list) or not all(isinstance(token, str) and token for token in value):
            raise DataError(f"expected a sentence, as a text or as a list of tokens; got {shown_json(value)}.")
        return tuple(value)

    def input_schema(self) -> dict[str, Any]:
        text = {"type": "string", "maxLength": self.longest_text}
        return {"anyOf": [text, {"type": "array", "items": {"type": "string", "minLength": 1}}]}

    def score_pairs(self, pairs: Sequence[tuple[Any, Any]]) -> list[ScoredPair]:
        """The log-probabilities of given labels: a list, or a text with blanks between them, one for each token."""
        results = []
        predictions = self.predict([sentence for sentence, _ in pairs], alignment=False, logarithms=True)
        for number, (prediction, (_, output)) in enumerate(zip(predictions, pairs, strict=True)):
            labels = output.split() if isinstance(output, str) else list(output)
            if len(labels) != len(prediction.tokens):
                counts = f"{counted(len(prediction.tokens), 'token|tokens')} and {counted(len(labels), 'label|labels')}"
                raise InputError(number, f"give a label for each token; there are {counts}")
            if unknown := [label for label in labels if label not in self.labels]:
                raise InputError(
                    number, f"there is no label {unknown[0]!r:.60}; they are {first_of(self.labels.symbols)}"
                )
            if not labels:
                results.append(ScoredPair((), (), 0.0, prediction.warnings))
                continue
            ids = self.labels.ids(labels)
            every, rows = prediction.logarithms, np.arange(len(labels))
            stated = softmax_confidence(every, self.temperature())[rows, ids]
            confidence = float(power_confidence(np.log(np.maximum(stated, TINY)).sum(), self.temperature(SENTENCE)))
            results.append(ScoredPair(labels, every[rows, ids].tolist(), confidence))
        return results

    @torch.inference_mode()
    def _labelled(self, sentences: Sequence[tuple[str, ...]], *, alignment: bool) -> Iterator[Labelling]:
        batch = {name: tensor.to(self.device) for name, tensor in self.batch(sentences).items()}
        labelled = self.module(**batch, alignment=alignment)
        every = self.module.head(labelled.features)
        log_probabilities, ids = every.max(-1)
        every = every.double().cpu().numpy()
        for row, tokens in enumerate(sentences):
            length = len(tokens)
            weights = None if labelled.alignment is None else labelled.alignment[row, :, :length, :length].cpu()
            labels = tuple(self.labels.tokens(ids[row, :length].tolist()))
            stated = softmax_confidence(every[row, :length], self.temperature()).max(-1)
            yield Labelling(
                tokens,
                labels,
                tuple(log_probabilities[row, :length].exp().tolist()),
                weights,
                confidences=tuple(stated.tolist()),
                confidence=float(power_confidence(np.log(stated).sum(), self.temperature(SENTENCE))),
                logarithms=every[row, :length],
            )

    def _batches(self, sentences: Sequence[tuple[str, ...]]) -> Iterator[NDArray[np.int64]]:
        lengths, most = np.array([len(each) for each in sentences], np.int64), self.config.decoding.batch_tokens
        order = np.argsort(lengths, kind="stable")
        batches = batches_within(
            order[lengths[order] > 0], lengths[:, None], lambda rows, longest: rows * longest <= most
        )
        return observed(batches, lambda rows: (len(rows), float(lengths[rows].sum())), float(lengths.sum()))

    @of_data
    def evaluate(self, path: Path | str) -> LabellingEvaluation:
        """Compares labels with those of a file like that of the training.

        Raises:
            DataError: for a file without sentences, or one that the model was trained on.
        """
        self.check_trained(path)
        return self.score(read_sentences(path, **form_options(self.config.data)))

    def score(self, sentences: Sequence[Sentence]) -> LabellingEvaluation:
        """As `evaluate`, for sentences instead of a file."""
        predictions = self.predict([each.tokens for each in sentences], alignment=False, logarithms=True)
        return LabellingEvaluation(
            list(map(ScoredSentence, sentences, predictions)), self.span_scheme, frozenset(self.labels.symbols)
        )

    def calibrate(self, evaluation: LabellingEvaluation) -> Calibration:
        """One temperature for the labels of tokens, and one for sentences, whose tokens are not independent."""
        scored = [each for each in evaluation.scored if each.prediction.logarithms is not None]
        is_right = [each.is_right for each in scored]
        rows, ids = [], []
        for each in scored:
            known = [i for i, label in enumerate(each.sentence.labels) if label in self.labels]
            rows.append(each.prediction.logarithms[known])
            ids.append(self.labels.ids([each.sentence.labels[i] for i in known]))
        temperature = softmax_temperature(np.concatenate(rows), np.concatenate(ids))
        tokens = [softmax_confidence(each.prediction.logarithms, temperature).max(-1) for each in scored]
        products = [float(np.log(each).sum()) for each in tokens]
        whole = power_temperature(products, is_right)
        before = [math.prod(each.prediction.probabilities) for each in scored]
        temperatures = {OUTPUT: temperature, SENTENCE: whole}
        return Calibration.fitted(temperatures, before, power_confidence(products, whole), is_right)

    @cached_property
    def span_scheme(self) -> SpanScheme | None:
        """The scheme of the labels that mark spans; None if they mark none."""
        return scheme_of([[label] for label in self.labels.symbols], self.config.data.span_scheme).scheme

    def input_table(self, name: str, head: Sequence[str], *, is_table: bool = False) -> InputTable | None:
        """Files with a token per line, recognised by their suffix, labels or columns."""
        return tables.input_table(name, head, self.config.data, self.labels, is_table=is_table)

    def formatted(
        self, prediction: Labelling, kept: Any, format: str, *, scores: bool = False, stated: Stated = STATED
    ) -> str:
        """The lines of the input with its labels, or lines made of its tokens (conll, conllu)."""
        if stated.withholds(prediction.confidence):
            prediction = replace(prediction, labels=(UNANNOTATED,) * len(prediction.labels))
        return tables.formatted(prediction, kept, format, self.config.data, scores=scores, confidence=stated.shown)

    def stated_record(self, prediction: Labelling, stated: Stated) -> dict[str, Any]:
        record = super().stated_record(prediction, stated)
        if stated.shown:
            record["confidences"] = list(prediction.confidences)
        return record

    def report_facts(self, evaluation: LabellingEvaluation) -> ReportFacts:
        """Errors by the tokens of sentences, the labels that are confused, and the tokens that most often are wrong."""
        from regard.runs.report import ReportFacts

        confused: Counter[tuple[str, str]] = Counter()
        seen: Counter[str] = Counter()
        wrong: Counter[str] = Counter()
        for entry in evaluation.scored:
            for token, right, label in zip(entry.sentence.tokens, entry.sentence.labels, entry.prediction.labels):
                seen[token] += 1
                if right not in ("", label):
                    confused[right, label] += 1
                    wrong[token] += 1
        case = self.config.data.case
        rows = [(token, count, seen[token]) for token, count in wrong.most_common(MOST_TOKENS)]
        return ReportFacts(
            lambda entry: [cased(token, case) for token in entry.sentence.tokens],
            self.tokens,
            confused,
            noun="labels",
            unit="tokens",
            inputs=lambda entry: entry.sentence.tokens,
            sections=[Table("Tokens with wrong labels", ["token", "wrong", "of"], rows)],
        )

    def item_terms(self, evaluation: LabellingEvaluation) -> ItemTerms:
        return evaluation.terms()

    def evaluate_outputs(self, evaluation: LabellingEvaluation, outputs: Sequence[str]) -> LabellingEvaluation:
        scored = []
        for each, text in zip(evaluation.scored, outputs, strict=True):
            labels = tuple(text.split())
            if len(labels) != len(each.sentence.tokens):
                raise DataError(
                    f"{each.place}: expected {counted(len(each.sentence.tokens), 'label|labels')} with blanks between "
                    f"them, one for each token; got {len(labels)}: {text!r:.60}."
                )
            prediction = Labelling(each.sentence.tokens, labels, (float("nan"),) * len(labels))
            scored.append(ScoredSentence(each.sentence, prediction))
        return replace(evaluation, scored=scored)

    def evaluated_items(self, evaluation: LabellingEvaluation, path: Path | str) -> Iterator[DataItem]:
        return (data_item(each.sentence) for each in evaluation.scored)

    def is_number(self, column: str) -> bool:
        """Scores are those of all tokens."""
        return column == "confidence"

    def rows(self, prediction: Labelling, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """One row: the labels, with blanks between them, and with `scores` their probabilities."""
        probabilities = " ".join(f"{each:.4f}" for each in prediction.probabilities)
        return [[" ".join(prediction.labels), *([probabilities] if scores else [])]]

    def record(self, prediction: Labelling) -> dict[str, Any]:
        """Tokens, labels, probabilities and, if there is attention, the alignment as the mean of the heads."""
        record: dict[str, Any] = {
            "tokens": list(prediction.tokens),
            "labels": list(prediction.labels),
            "probabilities": [round(each, DECIMALS) for each in prediction.probabilities],
            "warnings": list(prediction.warnings),
        }
        if prediction.alignment is not None:
            weights = prediction.alignment.mean(0).tolist()
            record["alignment"] = [[round(weight, DECIMALS) for weight in row] for row in weights]
        return record

    def details(self, prediction: Labelling) -> dict[str, Any]:
        """The weights of every head, `heads` (H, T, T)."""
        weights = prediction.alignment
        return {} if weights is None or weights.numel() > MOST_WEIGHTS else {"heads": rounded(weights)}

    def plot(
        self,
        predictions: Sequence[Labelling],
        path: Path,
        *,
        title: str = "",
        data: Literal["json", "npz"] | None = None,
        heads: bool = False,
        highest: Literal["largest"] | float = 1.0,
    ) -> Sequence[Path]:
        """Draws the attention of each token of a sentence, with its label: the mean of the heads, or each head."""
        if len(predictions) > 1:
            raise DataError(
                f"One picture shows one sentence; {Option('add --separate for a file of each', 'plot each alone')}."
            )
        (shown,) = predictions
        outputs = [f"{token}/{label}" for token, label in zip(shown.tokens, shown.labels)]
        weights = shown.alignment if heads else shown.alignment.mean(0)
        sides = ("tokens", "tokens with labels")
        return plot_alignment(
            weights, path, shown.tokens, outputs, title=title, data=data, highest=highest, sides=sides
        )

    def description(self) -> dict[str, Any]:
        return {
            "tokens": len(self.tokens.symbols),
            "characters": len(self.characters.symbols),
            "labels": ", ".join(self.labels.symbols),
            "spans": "none" if self.span_scheme is None else str(self.span_scheme),
        }
