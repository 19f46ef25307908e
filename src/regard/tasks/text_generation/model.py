"""Models that write texts: the search for their outputs with all its options, whatever their inputs are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config import Config
from regard.config.combinations import STREAM_EXCLUSIONS, excluded
from regard.config.search import Search, with_search
from regard.config.texts import TextDecodingConfig, check_directions
from regard.data.tally import SymbolTally
from regard.data.text import EOS, UNKNOWN, Field
from regard.decoding import (
    Constraints,
    Hypothesis,
    Prediction,
    main_alignment,
    penalty_of,
    rerank,
    stream,
)
from regard.decoding import search as run_search
from regard.decoding.rescore import reverse_tokens
from regard.errors import ConfigError, DataError
from regard.metrics.edit_distance import symbol_errors
from regard.metrics.translation import TRANSLATION_METRICS, CorpusScore, Metric, corpus_score, is_available, scorer_of
from regard.models import EncoderDecoder, EnsembleEncoderDecoder
from regard.runs.contract import AbstractModel
from regard.tasks.encoded import numbered
from regard.tasks.streaming import Pieces, Streamed
from regard.tasks.text_generation.constraints import backwards, with_room, within
from regard.tasks.text_generation.constraints import encoded as constraints_in_ids
from regard.tasks.text_generation.directions import begin_symbol, joint_hypotheses
from regard.tasks.text_generation.ensembles import ensemble_of, scored_by, unknown_to
from regard.tasks.text_generation.evaluation import Evaluation, Scored, WrittenItem
from regard.tasks.text_generation.source import InputSource, Loaded

BEGIN, END = "<s>", "</s>"
"""The names of the begin and the end symbol in alignments."""

ConfigT = TypeVar("ConfigT", bound=Config)
SourceT = TypeVar("SourceT", bound=InputSource)


@dataclass(eq=False, repr=False)
class AbstractWriter(AbstractModel[ConfigT], Generic[ConfigT, SourceT]):
    """A model whose outputs are texts: an encoder of any inputs, and a decoder that writes.

    A task says how inputs are read (`sources`), batched (`batches`) and encoded (`loaded`), and how long their outputs
    may be (`lengths`). Searches, ensembles, rerankers, constraints, streams and metrics are those of this class.
    """

    target: Field
    module: EncoderDecoder
    _partners: dict[Any, Any] = field(init=False, default_factory=dict)
    """Models that predict together with this one, once they are loaded."""
    _direction: str | None = field(init=False, default=None)
    """The direction in which a model that has learned both writes; None until a search chooses it."""

    @abstractmethod
    def sources(self, inputs: Sequence[Any], decoding: Any = None) -> list[SourceT]:
        """What is read of inputs, in order; one that cannot be read has the size 0 and a warning.

        Args:
            inputs: as in `predict`.
            decoding: its limits of inputs hold; None: only those of the network.

        Raises:
            TypeError: for what is no input.
        """

    @abstractmethod
    def lengths(self, sources: Sequence[SourceT], decoding: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The fewest and the most symbols of each output, without the end symbol."""

    @abstractmethod
    def batches(
        self, sources: Sequence[SourceT], decoding: Any, *, in_order: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """Indices of the sources with a size, in batches that are searched for at once.

        Args:
            in_order: whether they stay in their order; else those of similar size are together.
        """

    @abstractmethod
    def loaded(self, sources: Sequence[SourceT]) -> Loaded:
        """Some sources, encoded, on the device."""

    @abstractmethod
    def differences(self, other: Self) -> Sequence[str]:
        """Why another model cannot predict together with this one, a line each: other symbols, another reading."""

    def dressed(self, prediction: Prediction, source: SourceT) -> Prediction:
        """The prediction, with what the task adds to it."""
        return prediction

    @property
    def is_reversed(self) -> bool:
        """Whether outputs are written from right to left; predictions are turned round again."""
        if self.trained_direction == "both":
            return self._direction == "right_to_left"
        return self.trained_direction == "right_to_left"

    @property
    def trained_direction(self) -> str:
        """The directions that it has learned: left_to_right, right_to_left or both."""
        direction: str = self._writing.direction
        return direction

    @property
    def begin(self) -> int:
        """The first input of the decoder."""
        return begin_symbol(self.trained_direction, self.is_reversed)

    def directed(self, direction: str | None) -> Self:
        """The same model, which writes in this direction if it has learned both."""
        directed = copy(self)
        directed._direction = direction or "left_to_right"
        return directed

    @property
    def depends_on_inputs(self) -> bool:
        """Whether the symbols of outputs depend on their inputs."""
        return False

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
            inputs: texts, which are normalised as in training, or what the task reads.
            search: the settings of the search, in place of the configuration's `decoding`. A `Search` leaves limits
                such as `max_length` as configured; `model.config.decoding.replace(max_length=20)` changes those, too.
            alignment: whether predictions have their alignments.
            strict: raises an error for an input that cannot be handled.
            constraints: for each input None, or an object like `{"prefix": "Das", "include": ["Haus"], "exclude": []}`:
                the text with which its output begins, in place of the configuration's, and texts that it contains and
                that it does not contain, in addition. They are normalised and split as outputs in training.

        Raises:
            ConfigError: for a search that contradicts the limits of the configuration.
            DataError: for constraints that cannot be kept, or, if `strict`, the first input that cannot be handled.
        """
        decoding = self._told(search)
        if decoding.members:
            together = self._ensemble(decoding)
            options: dict[str, Any] = {"alignment": alignment, "strict": strict, "constraints": constraints}
            return together.predict(inputs, search=_alone(decoding), **options)
        if self.trained_direction == "both" and self._direction is None:
            options = {"alignment": alignment, "strict": strict, "constraints": constraints}
            return self.directed(decoding.direction).predict(inputs, search=decoding, **options)
        asked = self._asked(inputs, decoding, strict, constraints)
        results: list[Prediction | None] = [None if source.size else self._nothing(source) for source in asked.sources]
        for batch in self.batches(asked.sources, decoding):
            sources = [asked.sources[i] for i in batch]
            loaded = self.loaded(sources)
            found = self._found(asked, batch, loaded, decoding, alignment)
            warnings = [source.warnings for source in sources]
            if decoding.reranker is not None:
                given = [inputs[i] for i in batch]
                found, unread = self._reranked(found, given, sources, decoding)
                more = ("the reranker cannot read it",)
                warnings = [(*each, *more * is_unread) for each, is_unread in zip(warnings, unread, strict=True)]
                reranker = self._partner(decoding.reranker, "reranker")
                for position, source in enumerate(sources):
                    texts = [source.spelling.decode(self._read(h).tokens.tolist()) for h in found[position]]
                    warnings[position] += unknown_to(reranker, given[position], texts)
            for i, kept, each, own in zip(batch, found, warnings, loaded.own, strict=True):
                ranked = [self._predicted(asked, i, hypothesis, own, each, decoding) for hypothesis in kept]
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

        The pieces of an output together are what `predict` returns for it, which its last piece has. Those of several
        inputs follow each other as they come; inputs of a batch are searched for at once.

        Raises:
            ConfigError: for a search whose outputs are not certain before they are whole, or a model that writes from
                right to left.
            DataError: as in `predict`.
        """
        decoding = self._told(search)
        if self.is_reversed or decoding.direction == "right_to_left":
            raise ConfigError(
                "Nothing can be streamed: the model writes from right to left, so the beginning comes last."
            )
        if (refused := excluded(decoding, STREAM_EXCLUSIONS)) is not None:
            raise ConfigError(refused[1], ("decoding", refused[0]))
        if decoding.members:
            options: dict[str, Any] = {"alignment": alignment, "strict": strict, "constraints": constraints}
            return self._ensemble(decoding).stream(inputs, search=_alone(decoding), **options)
        return self._streamed(self._asked(inputs, decoding, strict, constraints), decoding, alignment)

    def evaluate_items(
        self,
        items: Sequence[WrittenItem],
        *,
        metrics: Sequence[Metric] = (),
        tokenize: str | None = None,
        search: Search | None = None,
    ) -> Evaluation:
        """As `evaluate`, for items that have been read already.

        Args:
            items: inputs with their references.
            metrics: metrics of all outputs together: `bleu`, `chrf`. They ignore letter case if the model changes it.
            tokenize: how BLEU splits texts into words (`regard.metrics.corpus_score`).
            search: as in `predict`.
        """
        for name in metrics:
            scorer_of(name, tokenize=tokenize)  # refuses what cannot be computed before anything is decoded
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
        """As `evaluate_items`, for items that have been decoded already."""
        targets = [list(map(self.target.split, item.references)) for item in items]
        scored = [
            Scored(item, prediction, *symbol_errors(output_symbols(prediction), symbols))
            for item, prediction, symbols in zip(items, predictions, targets, strict=True)
        ]
        texts = [prediction.text for prediction in predictions]
        references = [list(map(self.target.normalisation, item.references)) for item in items]
        lowercase = self._writing.case != "keep"
        corpus: dict[str, CorpusScore] = {
            name: corpus_score(name, texts, references, tokenize=tokenize, lowercase=lowercase) for name in metrics
        }
        return Evaluation(scored, corpus, self.further_figures(scored), self._unwritable(items, targets))

    def _unwritable(self, items: Sequence[WrittenItem], targets: Sequence[Sequence[Sequence[str]]]) -> list[str]:
        """A warning of the symbols of references that no output can have, where no reference is without such."""
        tally = SymbolTally()
        for item, references in zip(items, targets, strict=True):
            known = self.copied(item)
            unknown = [
                [symbol for symbol in self.target.vocabulary.unknown(symbols) if symbol not in known]
                for symbols in references
            ]
            fewest = min(map(len, unknown), default=0)
            tally.add(item.place, next((symbols for symbols in unknown if len(symbols) == fewest), []))
        return tally.lines("item|items cannot be right, as the model cannot write symbols of the reference")

    def copied(self, item: WrittenItem) -> Container[str]:
        """Further symbols that the output of an item may have."""
        return ()

    def further_figures(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        """Figures that the task adds to those of all texts, by name."""
        return {}

    def rows(self, prediction: Prediction, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row for each output, the best first: its text, and its score if asked for or if there are several."""
        outputs = (prediction, *prediction.alternatives)
        scores = scores or self._told(None).num_best > 1
        return [(output.text, f"{output.score:.4f}") if scores else (output.text,) for output in outputs]

    def record(self, prediction: Prediction) -> dict[str, Any]:
        """Text, tokens, score, log-probability and, if it has one, alignment of the output and of its alternatives."""
        return prediction.record()

    def has_failed(self, prediction: Prediction) -> bool:
        return bool(prediction.warnings) and not prediction.source_tokens and not prediction.tokens

    def can_plot(self, prediction: Prediction) -> bool:
        return prediction.alignment is not None

    def automatic_metrics(self) -> tuple[Metric, ...]:
        """BLEU and chrF if outputs are sentences and sacrebleu is installed."""
        sentences = self._writing.units in ("word", "sentencepiece")
        return TRANSLATION_METRICS if sentences and is_available() else ()

    def _told(self, search: Search | None) -> TextDecodingConfig:
        """The settings of a search."""
        decoding: Any = self.config.decoding
        settings: TextDecodingConfig = with_search(decoding, search)
        check_directions(self.trained_direction, settings, None)
        return settings

    @property
    def _writing(self) -> Any:
        """The configuration's section of the outputs' texts."""
        data: Any = self.config.data
        return data.target

    def _found(
        self,
        asked: Asked[SourceT],
        batch: NDArray[np.int64],
        loaded: Loaded,
        decoding: TextDecodingConfig,
        alignment: bool,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of some of the inputs, within their limits."""
        if decoding.joint:
            return joint_hypotheses(self, asked, batch, loaded, decoding, alignment)
        text = [partial(self._written, asked.sources[i]) for i in batch]
        hypotheses = run_search(**self._arguments(asked, batch, loaded, candidates(decoding), alignment), text=text)
        return [
            self._kept(asked, i, each, own, decoding, alignment)
            for i, each, own in zip(batch, hypotheses, loaded.own, strict=True)
        ]

    def _nothing(self, source: SourceT) -> Prediction:
        """The prediction for an input that cannot be read."""
        return self.dressed(Prediction([], [], "", 0.0, 0.0, "length", warnings=source.warnings), source)

    def _streamed(self, asked: Asked[SourceT], decoding: TextDecodingConfig, alignment: bool) -> Iterator[Streamed]:
        for i, source in enumerate(asked.sources):
            if not source.size:
                yield Streamed.nothing(i, self._nothing(source))
        for batch in self.batches(asked.sources, decoding, in_order=True):
            sources = [asked.sources[i] for i in batch]
            loaded = self.loaded(sources)
            pieces = Pieces([source.spelling.decode for source in sources])
            for increment in stream(**self._arguments(asked, batch, loaded, decoding, alignment)):
                i, own = int(batch[increment.sentence]), loaded.own[increment.sentence]
                whole = None
                if increment.hypothesis is not None:
                    kept = self._kept(asked, i, [increment.hypothesis], own, decoding, alignment)
                    whole = self._predicted(asked, i, kept[0], own, asked.sources[i].warnings, decoding)
                yield pieces.piece(i, increment, whole, most=int(asked.limits[i]))

    def _asked(
        self,
        inputs: Sequence[Any],
        decoding: TextDecodingConfig,
        strict: bool,
        constraints: Sequence[Mapping[str, Any] | None] | None,
    ) -> Asked[SourceT]:
        """What is searched for, and with which limits."""
        sources = self.sources(inputs, decoding)
        if strict:
            for number, source in enumerate(sources, start=1):
                if source.warnings:
                    raise DataError(f"input {number} ({source.name!r:.60}): {'; '.join(source.warnings)}")
        longest = most_steps(self.module.decoder)
        least, most = self.lengths(sources, decoding)
        limits = np.minimum(most, longest)
        asked = constraints_in_ids(
            decoding,
            constraints,
            self.target,
            len(sources),
            ids_of=lambda encoding, i: sources[i].spelling.ids(encoding.tokens),
            by_input=self.depends_on_inputs,
            has_beam=decoding.method == "beam" and decoding.beam > 1,
        )
        if asked is not None and self.is_reversed:
            asked = backwards(asked)
        if asked is not None:
            limits = with_room(limits, asked, decoding, longest)
        items = torch.from_numpy(numbered([source.content for source in sources]))
        return Asked(sources, limits, np.minimum(least, limits), items, asked)

    def _arguments(
        self,
        asked: Asked[SourceT],
        batch: NDArray[np.int64],
        loaded: Loaded,
        decoding: TextDecodingConfig,
        alignment: bool,
    ) -> dict[str, Any]:
        """The arguments of a search for some of the inputs."""
        reads_weights = decoding.method == "beam" and decoding.coverage_penalty != "none"
        return {
            "decoder": self.module.decoder,
            "memory": loaded.memory,
            "options": decoding,
            "bos": self.begin,
            "eos": EOS,
            "max_length": torch.from_numpy(asked.limits[batch] + 1).to(self.device),
            "alignment": alignment or reads_weights,
            "items": asked.items[batch],
            "source": loaded.source,
            "min_length": torch.from_numpy(asked.least[batch]).to(self.device),
            "unk": UNKNOWN,
            "constraints": None if asked.constraints is None else [asked.constraints[i] for i in batch],
        }

    def _kept(
        self,
        asked: Asked[SourceT],
        i: int,
        hypotheses: Sequence[Hypothesis],
        own: Any,
        decoding: TextDecodingConfig,
        alignment: bool,
    ) -> list[Hypothesis]:
        """The hypotheses of an input within its limit."""
        kept = within(hypotheses, int(asked.limits[i]), decoding, partial(self._coverage, own=own))
        return kept if alignment else [replace(hypothesis, alignments={}) for hypothesis in kept]

    def _predicted(
        self,
        asked: Asked[SourceT],
        i: int,
        hypothesis: Hypothesis,
        own: Any,
        warnings: tuple[str, ...],
        decoding: TextDecodingConfig,
    ) -> Prediction:
        """The prediction of one of them."""
        source = asked.sources[i]
        further = () if asked.constraints is None else self._lacking(hypothesis, asked.constraints[i], source)
        return self._prediction(hypothesis, source, own, (*warnings, *further), self.shown(decoding))

    def _ensemble(self, decoding: TextDecodingConfig) -> Self:
        """This model and those of `decoding.ensemble` as one."""
        key = decoding.members, decoding.ensemble_weights, decoding.ensemble_average, decoding.ensemble_alignment
        if (key, self.device) not in self._partners:
            others = [self._partner(path, "ensemble") for path in decoding.members]
            self._partners[key, self.device] = ensemble(
                [self, *others],
                weights=decoding.ensemble_weights,
                average=decoding.ensemble_average,
                main=decoding.ensemble_alignment,
            )
        together: Self = self._partners[key, self.device]
        return together

    def _partner(self, path: Path, key: str) -> Self:
        """The model that a key of `decoding` names, which is loaded once."""
        from regard.runs.store import find_named, load_of_task

        if (path, self.device) not in self._partners:
            place = ("decoding", key)
            folder = find_named(path, place)
            self._partners[path, self.device] = load_of_task(folder, place, task=self.config.task, device=self.device)
        partner: Self = self._partners[path, self.device]
        return partner

    def check_trained_together(self, decoding: TextDecodingConfig, *paths: Path | str) -> None:
        """Refuses files that this model, or one that predicts together with it, was trained on."""
        partners = [self._partner(member, "ensemble") for member in decoding.members]
        partners += [self._partner(decoding.reranker, "reranker")] if decoding.reranker else []
        for model in (self, *partners):
            model.check_trained(*paths)

    def _reranked(
        self,
        found: list[list[Hypothesis]],
        inputs: Sequence[Any],
        sources: Sequence[SourceT],
        decoding: TextDecodingConfig,
    ) -> tuple[list[list[Hypothesis]], list[bool]]:
        """The hypotheses of each input in the order that the reranker helps to decide, and whether it cannot read the
        input, in which case they stay as they are."""
        assert decoding.reranker is not None
        reranker = self._partner(decoding.reranker, "reranker")
        outputs = [
            [(source.spelling.decode(self._read(h).tokens.tolist()), h.stop_reason == "eos") for h in ranked]
            for source, ranked in zip(sources, found, strict=True)
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
        reranked = [
            ranked[: decoding.num_best] if others is None else rerank([ranked], [others], **options)[0]
            for ranked, others in zip(found, rescored, strict=True)
        ]
        return reranked, [others is None for others in rescored]

    def _written(self, source: SourceT, ids: Sequence[int]) -> str:
        """The text of ids in the order in which they are written."""
        return source.spelling.decode(ids[::-1] if self.is_reversed else ids)

    def _read(self, hypothesis: Hypothesis) -> Hypothesis:
        """A hypothesis in the order in which it is read."""
        return reverse_tokens(hypothesis) if self.is_reversed else hypothesis

    def _coverage(self, hypothesis: Hypothesis, own: Any) -> Tensor:
        """What each source position got of the hypothesis's main attention, in all."""
        main = main_alignment(hypothesis.alignments, self.module.decoder)
        assert main is not None  # the search has refused a decoder without attention
        return main[:, own].double().sum(0)

    def _lacking(self, hypothesis: Hypothesis, asked: Constraints, source: SourceT) -> tuple[str, ...]:
        """A warning about texts that a hypothesis had to contain and does not."""
        ids = hypothesis.tokens.tolist()
        lacking = [p for p in asked.include if not any(ids[i : i + len(p)] == list(p) for i in range(len(ids)))]
        shown = ", ".join(repr(self._written(source, phrase)) for phrase in lacking)
        return (f"the output reached its greatest length without {shown}",) if lacking else ()

    def shown(self, decoding: TextDecodingConfig) -> tuple[str | None, int | None]:
        """The attention and the head of the alignment that results show. Those of an ensemble are the main ones of its
        members."""
        if isinstance(self.module, EnsembleEncoderDecoder):
            return None, None
        return decoding.alignment_layer, decoding.alignment_head

    def _prediction(
        self,
        hypothesis: Hypothesis,
        source: SourceT,
        own: Any,
        warnings: tuple[str, ...],
        shown: tuple[str | None, int | None],
    ) -> Prediction:
        hypothesis = self._read(hypothesis)
        alignments = {name: weights[..., own] for name, weights in hypothesis.alignments.items()}
        ids = hypothesis.tokens.tolist()
        ended = hypothesis.stop_reason == "eos"
        prediction = Prediction(
            list(source.columns),
            source.spelling.tokens(ids) + [END] * ended,
            source.spelling.decode(ids),
            hypothesis.score,
            hypothesis.log_probability,
            hypothesis.stop_reason,
            main_alignment(alignments, self.module.decoder, layer=shown[0], head=shown[1]),
            alignments,
            warnings,
            generate=hypothesis.auxiliary.get("generate"),
        )
        return self.dressed(prediction, source)


@dataclass(frozen=True, slots=True)
class Asked(Generic[SourceT]):
    """Inputs whose outputs are searched for.

    Args:
        limits, least: the most and the fewest symbols of each output.
        items: the numbers by which samples differ.
    """

    sources: list[SourceT]
    limits: NDArray[np.int64]
    least: NDArray[np.int64]
    items: Tensor
    constraints: Sequence[Constraints] | None


WriterT = TypeVar("WriterT", bound=AbstractWriter[Any, Any])


def ensemble(models: Sequence[WriterT], **options: Any) -> WriterT:
    """Models that predict together: one with the configuration of the first and the mean of their predictions.

    Args:
        models: two or more of one task that read and write the same symbols, of any architectures.
        options: `weights`, `average` and `main` of `regard.models.EnsembleDecoder`.

    Raises:
        ConfigError: for models whose symbols differ, with what differs.
    """
    first: Any = models[0]
    name = " + ".join(model.name for model in models)
    layers = [model.shown(model._told(None))[0] for model in models]
    mains = [
        getattr(model.module.decoder, "main_attention", None) if layer in (None, "mean") else layer
        for model, layer in zip(models, layers, strict=True)
    ]
    module = ensemble_of(models, main_attentions=mains, **options)
    config = first.config.model_copy(update={"decoding": _alone(first.config.decoding)})
    together: WriterT = replace(first, config=config, module=module, name=name, card="", fingerprints={})
    for number, model in enumerate(models):
        together.fingerprints |= {f"{key}.{number}": value for key, value in model.fingerprints.items()}
    return together


def _alone(decoding: TextDecodingConfig) -> TextDecodingConfig:
    """The settings of an ensemble, for the ensemble itself."""
    return decoding.model_copy(update={"ensemble": (), "ensemble_weights": None, "ensemble_alignment": None})


def candidates(decoding: TextDecodingConfig) -> TextDecodingConfig:
    """The search of what is reranked: of a beam, all its hypotheses."""
    if decoding.reranker is None or decoding.method != "beam":
        return decoding
    return decoding.model_copy(update={"num_best": max(decoding.beam, decoding.num_best)})


def output_symbols(prediction: Prediction) -> list[str]:
    """The symbols of the output, without the end symbol."""
    return prediction.tokens[:-1] if prediction.stop_reason == "eos" else prediction.tokens


def most_steps(part: Any) -> int:
    """The most symbols, without the end symbol, that an encoder reads or a decoder writes: learned positions end.

    A network of a user's own may say it by `max_length`, too.
    """
    most = getattr(part, "max_length", None)
    return np.iinfo(np.int32).max if most is None else most - 1


def size_of_field(side: Field, units: str | tuple[str, ...]) -> str:
    """How many symbols a field has, for people."""
    names = units if isinstance(units, str) else " and ".join(units)
    columns = f" in {side.num_columns} columns" if side.num_columns > 1 else ""
    return f"{len(side.vocabulary):,} {names} symbols{columns}"
