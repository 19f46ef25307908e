"""Models that write texts: the search for their outputs with all its options, whatever their inputs are."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config import Config
from regard.config.combinations import STREAM_EXCLUSIONS, excluded
from regard.config.search import Search, with_search
from regard.config.texts import TextDecodingConfig, check_directions
from regard.data.tally import SymbolTally, unknown_symbols
from regard.data.text import EOS, UNKNOWN, Field, LetterUnits
from regard.decoding import (
    Constraints,
    Hypothesis,
    Prediction,
    SearchTree,
    main_alignment,
    penalty_of,
    rerank,
    rescore,
    search_tree,
    stream,
)
from regard.decoding import search as run_search
from regard.decoding.rescore import reverse_tokens
from regard.decoding.tree_recorder import refuse
from regard.errors import ConfigError, DataError
from regard.metrics.bootstrap import ItemTerms, MetricTerms, ShownItem, ratio_terms
from regard.metrics.calibration import (
    sigmoid_confidence,
    sigmoid_temperature,
)
from regard.metrics.edit_distance import differences, edit_distance, symbol_errors
from regard.metrics.translation import (
    TRANSLATION_METRICS,
    CorpusScore,
    Metric,
    corpus_score,
    corpus_terms,
    is_available,
    scorer_of,
)
from regard.models import EncoderDecoder, EnsembleEncoderDecoder
from regard.runs.calibration import OUTPUT, Calibration
from regard.runs.contract import AbstractModel, check_strict
from regard.runs.given import of_inputs
from regard.runs.observation import observed
from regard.runs.predictions import ScoredPair
from regard.tasks.encoded import item_numbers
from regard.tasks.streaming import Pieces, Streamed
from regard.tasks.text_generation.constraints import constraints_in_ids, extended_limits, reversed_constraints, within
from regard.tasks.text_generation.directions import BEGINS, joint_hypotheses
from regard.tasks.text_generation.ensembles import ensemble_of, scored_by, scored_outputs, unknown_to
from regard.tasks.text_generation.evaluation import Evaluation, Scored, WrittenItem
from regard.tasks.text_generation.nearest import NearState, TrainingStates, check_decoder, states_of
from regard.tasks.text_generation.source import EncodedSources, InputSource
from regard.viz import alignment_record

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

LONGEST_SCORED = 10
"""The limit on the symbols of an output whose probability is computed, as a multiple of `data.max_length`."""
MOST_LOGITS = 1 << 25
"""The most log-probabilities of a batch of given outputs (128 MB)."""
BEGIN, END = "<s>", "</s>"
"""The names of the begin and the end symbol in alignments."""

ConfigT = TypeVar("ConfigT", bound=Config)
SourceT = TypeVar("SourceT", bound=InputSource)


@dataclass(eq=False, repr=False)
class AbstractWriter(AbstractModel[ConfigT], Generic[ConfigT, SourceT]):
    """A model whose outputs are texts: an encoder of any inputs, and a decoder that writes.

    A task defines how inputs are read (`sources`), batched (`batches`) and encoded (`encode`), and the range of the
    outputs' lengths (`lengths`). Searches, ensembles, rerankers, constraints, streams and metrics are those of this
    class.
    """

    target: Field
    module: EncoderDecoder
    _further_models: dict[Any, Any] = field(init=False, default_factory=dict)
    """Rerankers, members of ensembles, ensembles and states of training items, once they are needed."""
    _direction: str | None = field(init=False, default=None)
    """The direction of a model that has learned both; None until a search chooses it."""

    @abstractmethod
    def sources(self, inputs: Sequence[Any], decoding: Any = None) -> list[SourceT]:
        """The inputs as the encoder reads them, in order; one that cannot be read has the size 0 and a warning.

        Args:
            inputs: as in `predict`.
            decoding: the settings whose limits on inputs apply; None: only the limits of the network.

        Raises:
            TypeError: for an input of another type.
        """

    @abstractmethod
    def lengths(self, sources: Sequence[SourceT], decoding: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The fewest and the most symbols of each output, without the end symbol."""

    @abstractmethod
    def batches(
        self, sources: Sequence[SourceT], decoding: Any, *, in_order: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """Indices of the readable sources in batches for the search.

        Args:
            in_order: whether the order of the sources is kept; else sources of similar size share a batch.
        """

    @abstractmethod
    def encode(self, sources: Sequence[SourceT]) -> EncodedSources:
        """Encodes sources on the device of the model."""

    @abstractmethod
    def differences(self, other: Self) -> Sequence[str]:
        """Why another model cannot predict together with this one, a line each: other symbols, other inputs."""

    @abstractmethod
    def items(self, data: Any) -> Sequence[WrittenItem]:
        """The items of opened data, each input with its references."""

    def training_data(self, material: Any) -> Sequence[Any]:
        """The opened training data of a material, which `items` reads."""
        data: Sequence[Any] = material.train
        return data

    def completed(self, prediction: Prediction, source: SourceT) -> Prediction:
        """The prediction with the fields that the task adds."""
        return prediction

    @property
    def is_reversed(self) -> bool:
        """Whether outputs are written from right to left; predictions are always in reading order."""
        trained = self.trained_direction
        return (self._direction if trained == "both" else trained) == "right_to_left"

    @property
    def trained_direction(self) -> str:
        """The directions that the decoder has learned: left_to_right, right_to_left or both."""
        direction: str = self._target_config.direction
        return direction

    @property
    def begin(self) -> int:
        """The first input of the decoder."""
        return BEGINS[self.is_reversed and self.trained_direction == "both"]

    def directed(self, direction: str | None) -> Self:
        """The same model, which writes in this direction if it has learned both."""
        directed = copy(self)
        directed._direction = direction or "left_to_right"
        return directed

    @property
    def depends_on_inputs(self) -> bool:
        """Whether the symbols of outputs depend on their inputs."""
        return False

    @of_inputs
    def predict(
        self,
        inputs: Sequence[Any],
        *,
        search: Search | None = None,
        alignment: bool = True,
        strict: bool = False,
        constraints: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Prediction]:
        """The outputs of inputs, in order; batching never changes a result.

        An input that cannot be handled as it is (empty, damaged, or with symbols that training did not have) does not
        affect the others; its `Prediction` has a warning.

        Args:
            inputs: texts, which are normalised as in training, or inputs of the task.
            search: the settings of the search, in place of the configuration's `decoding`. A `Search` leaves limits
                such as `max_length` as configured; `model.config.decoding.replace(max_length=20)` changes those, too.
            alignment: whether predictions have their alignments.
            strict: raises an error for an input with a warning.
            constraints: for each input None, or an object like `{"prefix": "Das", "include": ["Haus"], "exclude": []}`:
                the text with which its output begins, in place of the configuration's, and texts that it contains and
                that it does not contain, in addition. They are normalised and split as outputs in training. A list of
                symbols is a prefix, too, and stays as it is.

        Raises:
            ConfigError: for a search that contradicts the limits of the configuration.
            DataError: for constraints that no output can meet, or, if `strict`, the first input with a warning.
        """
        decoding = self._search_settings(search)
        options: dict[str, Any] = {"alignment": alignment, "strict": strict, "constraints": constraints}
        if decoding.members:
            return self._ensemble(decoding).predict(inputs, search=_without_ensemble(decoding), **options)
        if self.trained_direction == "both" and self._direction is None:
            return self.directed(decoding.direction).predict(inputs, search=decoding, **options)
        request = self._request(inputs, decoding, **options)
        results = [None if source.size else self._unreadable(source) for source in request.sources]
        sizes = np.array([source.size for source in request.sources], np.float64)
        batches = self.batches(request.sources, decoding)
        for batch in observed(batches, lambda rows: (len(rows), sizes[rows].sum()), sizes.sum()):
            sources = [request.sources[i] for i in batch]
            encoded = self.encode(sources)
            if decoding.joint:
                hypotheses = joint_hypotheses(self, request, batch, encoded)
            else:
                hypotheses = self._searched(request, batch, encoded)
            warnings = [source.warnings for source in sources]
            if decoding.reranker is not None:
                hypotheses, further = self._reranked(hypotheses, [inputs[i] for i in batch], sources, decoding)
                warnings = [own + more for own, more in zip(warnings, further, strict=True)]
            for i, each, reasons, positions in zip(batch, hypotheses, warnings, encoded.positions, strict=True):
                ranked = [self._prediction(request, i, hypothesis, positions, reasons) for hypothesis in each]
                results[i] = replace(ranked[0], alternatives=tuple(ranked[1:]))
        return [result for result in results if result is not None]

    def stream(
        self,
        inputs: Sequence[Any],
        *,
        search: Search | None = None,
        alignment: bool = True,
        strict: bool = False,
        constraints: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> Iterator[Streamed]:
        """The output of every input, piece by piece, as soon as its symbols are certain (`regard.decoding.stream`).

        The pieces of an output together are the result of `predict`, which its last piece has. Inputs of a batch are
        decoded together, so their pieces alternate.

        Raises:
            ConfigError: for a search whose outputs are uncertain until they are complete, or a model that writes from
                right to left.
            DataError: as in `predict`.
        """
        decoding = self._search_settings(search)
        if self.is_reversed or decoding.direction == "right_to_left":
            raise ConfigError(
                "Nothing can be streamed: the model writes from right to left, so the beginning comes last."
            )
        if (refused := excluded(decoding, STREAM_EXCLUSIONS)) is not None:
            raise ConfigError(refused[1], ("decoding", refused[0]))
        options: dict[str, Any] = {"alignment": alignment, "strict": strict, "constraints": constraints}
        if decoding.members:
            return self._ensemble(decoding).stream(inputs, search=_without_ensemble(decoding), **options)
        return self._streamed(self._request(inputs, decoding, **options))

    def search_tree(
        self,
        given: Any,
        *,
        search: Search | None = None,
        constraints: Mapping[str, Any] | None = None,
        runners_up: int = 3,
    ) -> SearchTree:
        """The tree of the search for the output of one input: what was kept, pruned and returned, and why.

        Its `prediction` is that of `predict`. With the symbols of a node (`SearchTree.symbols`) as the constraint
        `prefix` the search goes on from there.

        Args:
            given, search, constraints: as in `predict`, for one input.
            runners_up: as of `regard.decoding.search_tree`.

        Raises:
            ConfigError: for samples, a reranker, and `joint`, which have no tree.
            DataError: as in `predict`.
        """
        decoding = self._search_settings(search)
        refuse(decoding)
        options: dict[str, Any] = {"constraints": constraints, "runners_up": runners_up}
        if decoding.members:
            return self._ensemble(decoding).search_tree(given, search=_without_ensemble(decoding), **options)
        if self.trained_direction == "both" and self._direction is None:
            return self.directed(decoding.direction).search_tree(given, search=decoding, **options)
        inputs = self.listed([given])
        request = self._request(inputs, decoding, alignment=True, strict=False, constraints=[constraints])
        (source,) = request.sources
        if not source.size:
            return SearchTree.empty(self._unreadable(source))
        (batch,) = self.batches(request.sources, decoding)
        encoded = self.encode(request.sources)
        (positions,) = encoded.positions
        tree, hypotheses = search_tree(**self._arguments(request, batch, encoded), runners_up=runners_up)
        hypotheses = self._within_limit(request, 0, hypotheses, positions)
        ranked = [self._prediction(request, 0, each, positions, source.warnings) for each in hypotheses]
        prediction = replace(ranked[0], alternatives=tuple(ranked[1:]))
        tree = tree.spelled(lambda token: "".join(source.spelling.tokens([token])), END)
        return replace(tree.returning(hypotheses), prediction=prediction)

    def score_pairs(self, pairs: Sequence[tuple[Any, Any]]) -> list[ScoredPair]:
        """The log-probabilities of the symbols of given outputs and of their end, from teacher-forced passes.

        A pair that cannot be read has no symbols and a warning.

        Raises:
            DataError: for an output that is not a text.
        """
        decoding = self._search_settings(None)
        if decoding.members:
            return self._ensemble(decoding).score_pairs(pairs)
        if self.trained_direction == "both" and self._direction is None:
            return self.directed(decoding.direction).score_pairs(pairs)
        sources = self.sources([given for given, _ in pairs], decoding)
        most = min(max_symbols(self.module.decoder), LONGEST_SCORED * self.config.data.max_length)  # type: ignore[attr-defined]
        hypotheses = scored_outputs(self, [output for _, output in pairs], sources)
        results = [ScoredPair((), (), warnings=source.warnings) for source in sources]
        readable = [i for i, source in enumerate(sources) if source.size and len(hypotheses[i].tokens) <= most + 1]
        for i in {*range(len(pairs))}.difference(readable):
            if sources[i].size:
                text = f"{len(hypotheses[i].tokens) - 1:,} symbols, but an output may have at most {most:,}"
                results[i] = ScoredPair((), (), warnings=(*sources[i].warnings, text))
        cells = MOST_LOGITS // len(self.target.vocabulary)
        for batch in self.batches([sources[i] for i in readable], decoding):
            chosen = [readable[i] for i in batch]
            size = max(1, cells // max(len(hypotheses[i].tokens) for i in chosen))
            for part in (chosen[start : start + size] for start in range(0, len(chosen), size)):
                memory = self.encode([sources[i] for i in part]).memory
                rescored = rescore(self.module.decoder, memory, [[hypotheses[i]] for i in part], bos=self.begin)
                for i, (hypothesis,) in zip(part, rescored, strict=True):
                    results[i] = self._scored(sources[i], self._in_reading_order(hypothesis))
        return results

    def _scored(self, source: SourceT, hypothesis: Hypothesis) -> ScoredPair:
        ids, costs = hypothesis.tokens.tolist(), hypothesis.token_log_probabilities.tolist()
        tokens = source.spelling.tokens(ids[:-1])
        unknown = [token for token, number in zip(tokens, ids, strict=False) if number == UNKNOWN]
        warnings = source.warnings
        if unknown:
            warnings += (unknown_symbols(unknown, "output: not in the training data, read as <unk>"),)
        confidence = float(sigmoid_confidence(math.exp(min(costs)), self.temperature()))
        return ScoredPair([*tokens, END], costs, confidence, warnings)

    def views(self, prediction: Prediction) -> Mapping[str, Mapping[str, Any]]:
        if prediction.alignment is None:
            return {}
        columns = prediction.source_tokens or [str(number) for number in range(prediction.alignment.shape[-1])]
        return {"symbols": alignment_record(replace(prediction, source_tokens=columns), heads=True)}

    def nearest(self, given: Any, output: str | None = None, *, step: int = 1, count: int = 10) -> list[NearState]:
        """The training items whose decoder states are nearest to that of an output, nearest first.

        A state is what the decoder's head reads before it predicts a symbol. Those of at most 2,000 training items are
        computed at the first call, within 10 seconds and 64 MiB, and kept.

        Args:
            given: an input, as in `predict`.
            output: its output; None: that of `predict`.
            step: the number of the symbol that the state predicts, from 1; the last one is the end symbol.
            count: the most items.

        Raises:
            UnsupportedError: if the training data are not there any more or are others, or for an ensemble.
            DataError: for an input or output that cannot be read, or without such a step.
        """
        check_decoder(self)
        if self.trained_direction == "both" and self._direction is None:
            return self.directed(None).nearest(given, output, step=step, count=count)
        if output is None:
            (prediction,) = self.predict(self.listed([given]), alignment=False)
            output = prediction.text
        if count < 1:
            raise DataError(f"count is {count}; ask for 1 item or more.")
        found = states_of(self, given, output)
        if found is None:
            raise DataError(f"{given!r:.60} with the output {output!r:.60} cannot be read.")
        if not 1 <= step <= len(found[0]):
            raise DataError(f"step is {step}, but the output has the steps 1 to {len(found[0])}, its end included.")
        key = "training states", self._direction, self.device
        if key not in self._further_models:
            self._further_models[key] = TrainingStates.of(self)
        states: TrainingStates = self._further_models[key]
        return states.nearest(found[1][step - 1], count)

    def evaluate_items(
        self,
        items: Sequence[WrittenItem],
        *,
        metrics: Sequence[Metric] = (),
        tokenize: str | None = None,
        search: Search | None = None,
    ) -> Evaluation:
        """As `evaluate`, for items instead of a file.

        Args:
            metrics: metrics of all outputs together: `bleu`, `chrf`. They ignore letter case if the model changes it.
            tokenize: how BLEU splits texts into words (`regard.metrics.corpus_score`).
            search: as in `predict`.
        """
        for name in metrics:
            scorer_of(name, tokenize=tokenize)  # raises before anything is decoded
        predictions = self.predict([item.source for item in items], search=search, alignment=False)
        return self.evaluation(items, predictions, metrics=metrics, tokenize=tokenize)

    def evaluation(
        self,
        items: Sequence[WrittenItem],
        predictions: Sequence[Prediction],
        *,
        metrics: Sequence[Metric] = (),
        tokenize: str | None = None,
    ) -> Evaluation:
        """As `evaluate_items`, for items with their predictions."""
        targets = [list(map(self.target.split, item.references)) for item in items]
        scored = [
            Scored(item, prediction, *symbol_errors(output_symbols(prediction), symbols))
            for item, prediction, symbols in zip(items, predictions, targets, strict=True)
        ]
        texts = [prediction.text for prediction in predictions]
        references = [list(map(self.target.normalisation, item.references)) for item in items]
        lowercase = self._target_config.case != "keep"
        corpus: dict[Metric, CorpusScore] = {
            name: corpus_score(name, texts, references, tokenize=tokenize, lowercase=lowercase) for name in metrics
        }
        return Evaluation(scored, corpus, self.further_figures(scored), self._unwritable(items, targets))

    def _unwritable(self, items: Sequence[WrittenItem], targets: Sequence[Sequence[Sequence[str]]]) -> list[str]:
        """A warning about symbols that no output can have, of items all of whose references have such symbols."""
        tally = SymbolTally()
        for item, references in zip(items, targets, strict=True):
            known = self.copied(item)
            unknown = [
                [symbol for symbol in self.target.vocabulary.unknown(symbols) if symbol not in known]
                for symbols in references
            ]
            fewest: list[str] = min(unknown, key=len, default=[])
            tally.add(item.place, fewest)
        return tally.lines("item|items cannot be right, as the model cannot write symbols of the reference")

    def copied(self, item: WrittenItem) -> Container[str]:
        """Further symbols that the output of an item may have."""
        return ()

    def item_terms(self, evaluation: Evaluation) -> ItemTerms:
        scored, target = evaluation.scored, self._target_config
        texts = f"case {target.case}, {target.unicode}"
        symbols = f"{target.units}, {texts}"
        errors = np.array([entry.errors for entry in scored])
        metrics = {
            "sequence_error_rate": ratio_terms(errors > 0, is_share=True, basis=texts),
            "symbol_error_rate": ratio_terms(errors, [entry.length for entry in scored], is_share=True, basis=symbols),
            **self.further_terms(evaluation),
        }
        outputs = [entry.prediction.text for entry in scored]
        references = [list(map(self.target.normalisation, entry.item.references)) for entry in scored]
        lowercase = target.case != "keep"
        for name, score in evaluation.corpus.items():
            metrics[name] = corpus_terms(name, outputs, references, tokenize=score.tokenize, lowercase=lowercase)

        def show(index: int) -> ShownItem:
            item = scored[index].item
            return ShownItem(item.place, str(item.source), " | ".join(item.references), outputs[index], item.source)

        return ItemTerms([entry.place for entry in scored], metrics, show)

    def further_terms(self, evaluation: Evaluation) -> Mapping[str, MetricTerms]:
        """The terms of the figures that the task adds."""
        return {}

    def evaluate_outputs(self, evaluation: Evaluation, outputs: Sequence[str]) -> Evaluation:
        target, unknown = self.target, float("nan")
        predictions = [
            Prediction([], list(target.split(text)), target.normalisation(text), unknown, unknown, "length")
            for text in outputs
        ]
        tokenize = next((score.tokenize for score in evaluation.corpus.values()), None)
        metrics: Any = [*evaluation.corpus]
        items = [entry.item for entry in evaluation.scored]
        return self.evaluation(items, predictions, metrics=metrics, tokenize=tokenize)

    def further_figures(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Figures that the task adds to those of all texts, by name."""
        return {}

    def calibrate(self, evaluation: Evaluation) -> Calibration:
        read = [each for each in evaluation.scored if each.prediction.tokens]
        least = np.exp([each.prediction.least_log_probability for each in read])
        is_right = [each.is_right for each in read]
        temperature = sigmoid_temperature(least, is_right)
        before, after = (sigmoid_confidence(least, each) for each in (1.0, temperature))
        return Calibration.fitted({OUTPUT: temperature}, before, after, is_right)

    def report_facts(self, evaluation: Evaluation) -> ReportFacts:
        """Errors by the symbols of references, and the symbols that outputs confuse."""
        from regard.runs.report import ReportFacts

        confused: Counter[tuple[str, str]] = Counter()
        for entry in evaluation.scored:
            if not entry.is_right and entry.item.references:
                output = output_symbols(entry.prediction)
                references = [self.target.split(text) for text in entry.item.references]
                nearest = min(references, key=lambda symbols: edit_distance(symbols, output))
                pairs = differences(output, nearest)
                confused.update((str(right or ""), str(other or "")) for right, other in pairs)
        return ReportFacts(
            lambda entry: self.target.split(entry.item.references[0]),
            self.target.vocabulary,
            confused,
            noun="words" if self._target_config.units == "word" else "symbols",
            inputs=lambda entry: entry.item.source,
        )

    @property
    def is_calibrated(self) -> bool:
        """Temperatures are those of one model, not of an ensemble."""
        return super().is_calibrated and not self.config.decoding.members  # type: ignore[attr-defined]

    def rows(self, prediction: Prediction, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row for each output, the best first: its text, and its score if `scores` or if there are several."""
        outputs = (prediction, *prediction.alternatives)
        scores = scores or self._search_settings(None).num_best > 1
        return [(output.text, f"{output.score:.4f}") if scores else (output.text,) for output in outputs]

    def has_failed(self, prediction: Prediction) -> bool:
        return bool(prediction.warnings) and not prediction.source_tokens and not prediction.tokens

    def automatic_metrics(self, tokenize: str | None = None) -> tuple[Metric, ...]:
        """BLEU if a tokenizer is given; else BLEU and chrF if outputs are sentences and sacrebleu is installed."""
        if tokenize is not None:
            return ("bleu",)
        sentences = self._target_config.units in ("word", "sentencepiece")
        return TRANSLATION_METRICS if sentences and is_available() else ()

    def _search_settings(self, search: Search | None) -> TextDecodingConfig:
        decoding: Any = self.config.decoding
        settings: TextDecodingConfig = with_search(decoding, search)
        check_directions(self.trained_direction, settings, None)
        return settings

    @property
    def _target_config(self) -> Any:
        data: Any = self.config.data
        return data.target

    def _searched(
        self, request: SearchRequest[SourceT], batch: NDArray[np.int64], encoded: EncodedSources
    ) -> list[list[Hypothesis]]:
        """The hypotheses of a batch of inputs, within their limits, by a search in one direction."""
        texts = [partial(self._text, request.sources[i]) for i in batch]
        hypotheses = run_search(**self._arguments(request, batch, encoded), text=texts)
        return [
            self._within_limit(request, i, each, positions)
            for i, each, positions in zip(batch, hypotheses, encoded.positions, strict=True)
        ]

    def _unreadable(self, source: SourceT) -> Prediction:
        """The prediction for an input that cannot be read."""
        empty = Prediction([], [], "", 0.0, 0.0, "length", warnings=source.warnings, confidence=0.0)
        return self.completed(empty, source)

    def _streamed(self, request: SearchRequest[SourceT]) -> Iterator[Streamed]:
        for i, source in enumerate(request.sources):
            if not source.size:
                yield Streamed.nothing(i, self._unreadable(source))
        for batch in self.batches(request.sources, request.decoding, in_order=True):
            sources = [request.sources[i] for i in batch]
            encoded = self.encode(sources)
            composes = isinstance(self.target.units, LetterUnits)
            pieces = Pieces([source.spelling.decode for source in sources], composes=composes)
            for increment in stream(**self._arguments(request, batch, encoded)):
                i, positions = int(batch[increment.sentence]), encoded.positions[increment.sentence]
                prediction = None
                if increment.hypothesis is not None:
                    (hypothesis,) = self._within_limit(request, i, [increment.hypothesis], positions)
                    prediction = self._prediction(request, i, hypothesis, positions, request.sources[i].warnings)
                yield pieces.piece(i, increment, prediction, most=int(request.limits[i]))

    def _request(
        self,
        inputs: Sequence[Any],
        decoding: TextDecodingConfig,
        *,
        alignment: bool,
        strict: bool,
        constraints: Sequence[Mapping[str, Any] | None] | None,
    ) -> SearchRequest[SourceT]:
        """The search for the outputs of inputs, with its limits."""
        sources = self.sources(inputs, decoding)
        if strict:
            check_strict((source.name for source in sources), (source.warnings for source in sources))
        longest = max_symbols(self.module.decoder)
        least, most = self.lengths(sources, decoding)
        limits = np.minimum(most, longest)
        encoded = constraints_in_ids(
            decoding,
            constraints,
            self.target,
            len(sources),
            ids_of=lambda encoding, i: sources[i].spelling.ids(encoding.tokens),
            depends_on_inputs=self.depends_on_inputs,
            has_beam=decoding.method == "beam" and decoding.beam > 1,
        )
        if encoded is not None:
            encoded = reversed_constraints(encoded) if self.is_reversed else encoded
            limits = extended_limits(limits, encoded, decoding, longest)
        items = torch.from_numpy(item_numbers([source.content for source in sources]))
        return SearchRequest(sources, decoding, limits, np.minimum(least, limits), items, encoded, alignment)

    def _arguments(
        self, request: SearchRequest[SourceT], batch: NDArray[np.int64], encoded: EncodedSources
    ) -> dict[str, Any]:
        """The arguments of a search for the outputs of a batch."""
        decoding = request.decoding
        reads_weights = decoding.method == "beam" and decoding.coverage_penalty != "none"
        return {
            "decoder": self.module.decoder,
            "memory": encoded.memory,
            "options": _candidate_settings(decoding),
            "bos": self.begin,
            "eos": EOS,
            "max_length": torch.from_numpy(request.limits[batch] + 1).to(self.device),
            "alignment": request.alignment or reads_weights,
            "items": request.items[batch],
            "source": encoded.source,
            "min_length": torch.from_numpy(request.least[batch]).to(self.device),
            "unk": UNKNOWN,
            "constraints": None if request.constraints is None else [request.constraints[i] for i in batch],
        }

    def _within_limit(
        self, request: SearchRequest[SourceT], i: int, hypotheses: Sequence[Hypothesis], positions: Any
    ) -> list[Hypothesis]:
        """The hypotheses of an input within its limit."""
        coverage = partial(self._coverage, positions=positions)
        kept = within(hypotheses, int(request.limits[i]), request.decoding, coverage)
        return kept if request.alignment else [replace(hypothesis, alignments={}) for hypothesis in kept]

    def _ensemble(self, decoding: TextDecodingConfig) -> Self:
        """This model and those of `decoding.ensemble` as one."""
        key = decoding.members, decoding.ensemble_weights, decoding.ensemble_average, decoding.ensemble_alignment
        if (key, self.device) not in self._further_models:
            others = [self._named_model(path, "ensemble") for path in decoding.members]
            self._further_models[key, self.device] = ensemble(
                [self, *others],
                weights=decoding.ensemble_weights,
                average=decoding.ensemble_average,
                main=decoding.ensemble_alignment,
            )
        together: Self = self._further_models[key, self.device]
        return together

    def _named_model(self, path: Path, key: str) -> Self:
        """The model that a key of `decoding` names, loaded once."""
        from regard.runs.store import find_named, load_of_task

        if (path, self.device) not in self._further_models:
            place = ("decoding", key)
            folder = find_named(path, place)
            loaded = load_of_task(folder, place, task=self.config.task, device=self.device)
            self._further_models[path, self.device] = loaded
        model: Self = self._further_models[path, self.device]
        return model

    def check_trained_together(self, decoding: TextDecodingConfig, *paths: Path | str) -> None:
        """Refuses files on which this model, a member of its ensemble or its reranker was trained."""
        others = [self._named_model(member, "ensemble") for member in decoding.members]
        others += [self._named_model(decoding.reranker, "reranker")] if decoding.reranker else []
        for model in (self, *others):
            model.check_trained(*paths)

    def _reranked(
        self,
        hypotheses: list[list[Hypothesis]],
        inputs: Sequence[Any],
        sources: Sequence[SourceT],
        decoding: TextDecodingConfig,
    ) -> tuple[list[list[Hypothesis]], list[tuple[str, ...]]]:
        """The hypotheses of each input, ranked together with the reranker, and warnings about symbols it does not know.

        Of an input that the reranker cannot read the order stays, with a warning.
        """
        assert decoding.reranker is not None
        reranker, read = self._named_model(decoding.reranker, "reranker"), self._in_reading_order
        outputs = [
            [(source.spelling.decode(h.tokens.tolist()), h.stop_reason == "eos") for h in map(read, ranked)]
            for source, ranked in zip(sources, hypotheses, strict=True)
        ]
        rescored = scored_by(reranker, inputs, outputs)
        penalty = None
        if decoding.method == "beam":  # the second model's weights are not compared
            penalty = penalty_of(decoding.model_copy(update={"coverage_penalty": "none"}))
        options: dict[str, Any] = {
            "weight": decoding.reranker_weight,
            "penalty": penalty,
            "num_best": decoding.num_best,
        }
        results, warnings = [], []
        for given, source, ranked, others in zip(inputs, sources, hypotheses, rescored, strict=True):
            results.append(ranked[: decoding.num_best] if others is None else rerank([ranked], [others], **options)[0])
            texts = [source.spelling.decode(h.tokens.tolist()) for h in map(read, results[-1])]
            unread = ("the reranker cannot read it",) * (others is None)
            warnings.append((*unread, *unknown_to(reranker, given, texts)))
        return results, warnings

    def _text(self, source: SourceT, ids: Sequence[int]) -> str:
        """The text of ids in writing order."""
        return source.spelling.decode(ids[::-1] if self.is_reversed else ids)

    def _in_reading_order(self, hypothesis: Hypothesis) -> Hypothesis:
        return reverse_tokens(hypothesis) if self.is_reversed else hypothesis

    def _coverage(self, hypothesis: Hypothesis, positions: Any) -> Tensor:
        """(S,), the weights of the hypothesis's main attention, summed over its steps."""
        main = main_alignment(hypothesis.alignments, self.module.decoder)
        assert main is not None  # the search has refused a decoder without attention
        return main[:, positions].double().sum(0)

    def _missing(self, hypothesis: Hypothesis, constraints: Constraints, source: SourceT) -> tuple[str, ...]:
        """A warning about texts that a hypothesis should contain and lacks."""
        ids = hypothesis.tokens.tolist()
        missing = [p for p in constraints.include if not any(ids[i : i + len(p)] == list(p) for i in range(len(ids)))]
        shown = ", ".join(repr(self._text(source, phrase)) for phrase in missing)
        return (f"the output reached its greatest length without {shown}",) if missing else ()

    def chosen_attention(self, decoding: TextDecodingConfig) -> tuple[str | None, int | None]:
        """The attention and the head of the alignment of results. Those of an ensemble are the main ones of its
        members."""
        if isinstance(self.module, EnsembleEncoderDecoder):
            return None, None
        return decoding.alignment_layer, decoding.alignment_head

    def _prediction(
        self,
        request: SearchRequest[SourceT],
        i: int,
        hypothesis: Hypothesis,
        positions: Any,
        warnings: tuple[str, ...],
    ) -> Prediction:
        """The prediction of a hypothesis of an input."""
        source = request.sources[i]
        if request.constraints is not None:
            warnings += self._missing(hypothesis, request.constraints[i], source)
        layer, head = self.chosen_attention(request.decoding)
        hypothesis = self._in_reading_order(hypothesis)
        alignments = {name: weights[..., positions] for name, weights in hypothesis.alignments.items()}
        ids = hypothesis.tokens.tolist()
        least = min(hypothesis.token_log_probabilities.tolist(), default=0.0)
        prediction = Prediction(
            list(source.columns),
            source.spelling.tokens(ids) + [END] * (hypothesis.stop_reason == "eos"),
            source.spelling.decode(ids),
            hypothesis.score,
            hypothesis.log_probability,
            hypothesis.stop_reason,
            main_alignment(alignments, self.module.decoder, layer=layer, head=head),
            alignments,
            warnings,
            generate=hypothesis.auxiliary.get("generate"),
            confidence=float(sigmoid_confidence(math.exp(least), self.temperature())),
            least_log_probability=least,
        )
        return self.completed(prediction, source)


@dataclass(frozen=True, slots=True)
class SearchRequest(Generic[SourceT]):
    """A search for the outputs of inputs.

    Args:
        limits, least: the most and the fewest symbols of each output.
        items: the numbers that seed draws (`item_numbers`).
        alignment: whether predictions have their alignments.
    """

    sources: list[SourceT]
    decoding: TextDecodingConfig
    limits: NDArray[np.int64]
    least: NDArray[np.int64]
    items: Tensor
    constraints: Sequence[Constraints] | None
    alignment: bool


WriterT = TypeVar("WriterT", bound=AbstractWriter[Any, Any])


def ensemble(models: Sequence[WriterT], **options: Any) -> WriterT:
    """Models that predict together: one with the configuration of the first and the mean of their predictions.

    Args:
        models: two or more of one task that read and write the same symbols, of any architectures.
        options: `weights`, `average` and `main` of `regard.models.EnsembleDecoder`.

    Raises:
        ConfigError: for models whose symbols differ; the text lists the differences.
    """
    first: Any = models[0]
    name = " + ".join(model.name for model in models)
    layers = [model.chosen_attention(model._search_settings(None))[0] for model in models]
    mains = [
        getattr(model.module.decoder, "main_attention", None) if layer in (None, "mean") else layer
        for model, layer in zip(models, layers, strict=True)
    ]
    module = ensemble_of(models, main_attentions=mains, **options)
    config = first.config.model_copy(update={"decoding": _without_ensemble(first.config.decoding)})
    together: WriterT = replace(first, config=config, module=module, name=name, card="", fingerprints={})
    for number, model in enumerate(models):
        together.fingerprints |= {f"{key}.{number}": value for key, value in model.fingerprints.items()}
    return together


def _without_ensemble(decoding: TextDecodingConfig) -> TextDecodingConfig:
    return decoding.model_copy(update={"ensemble": (), "ensemble_weights": None, "ensemble_alignment": None})


def _candidate_settings(decoding: TextDecodingConfig) -> TextDecodingConfig:
    """The settings of a search whose outputs are reranked: of a beam, all its hypotheses."""
    if decoding.reranker is None or decoding.method != "beam":
        return decoding
    return decoding.model_copy(update={"num_best": max(decoding.beam, decoding.num_best)})


def output_symbols(prediction: Prediction) -> list[str]:
    """The symbols of the output, without the end symbol."""
    return prediction.tokens[:-1] if prediction.stop_reason == "eos" else prediction.tokens


def max_symbols(part: Any) -> int:
    """The most symbols, without the end symbol, of an encoder's inputs or a decoder's outputs.

    A part with learned positions, or with a `max_length` of a user's own, has such a limit.
    """
    most = getattr(part, "max_length", None)
    return np.iinfo(np.int32).max if most is None else most - 1


def size_of_field(side: Field, units: str | tuple[str, ...]) -> str:
    """The number of symbols of a field, in words."""
    names = units if isinstance(units, str) else " and ".join(units)
    columns = f" in {side.num_columns} columns" if side.num_columns > 1 else ""
    return f"{len(side.vocabulary):,} {names} symbols{columns}"
