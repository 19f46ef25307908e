"""Text to text: a trained model with everything that prediction needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.combinations import STREAM_EXCLUSIONS, excluded
from regard.config.search import Search, told
from regard.config.tasks.text_to_text import DecodingConfig, TextToTextConfig
from regard.data import (
    BOS,
    EOS,
    UNKNOWN,
    Encoding,
    ExtendedVocabulary,
    Extension,
    Field,
    Pair,
    Pairs,
    ParallelText,
    Vocabulary,
    open_pairs,
)
from regard.data.extended import UNCOPYABLE
from regard.data.references import Item, group, parallel
from regard.data.scoring import symbol_errors
from regard.data.translation import TRANSLATION_METRICS, CorpusScore, Metric, corpus_score, is_available, scorer_of
from regard.decoding import (
    AlignedPair,
    Constraints,
    Hypothesis,
    Prediction,
    SearchSource,
    main_alignment,
    merge_words,
    penalty_of,
    rerank,
    stream,
)
from regard.decoding import search as run_search
from regard.decoding.rerank import reverse_tokens
from regard.errors import ConfigError, DataError
from regard.models import EncoderDecoder, EnsembleEncoderDecoder, PointerDecoder
from regard.tasks.contract import AbstractModel
from regard.tasks.encoded import numbered, pad
from regard.tasks.streaming import Pieces, Streamed
from regard.tasks.text_to_text.aligning import END, Side, align
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.constraints import backwards, with_room
from regard.tasks.text_to_text.constraints import encoded as constraints_in_ids
from regard.tasks.text_to_text.copying import padded
from regard.tasks.text_to_text.evaluation import Evaluation, Scored
from regard.tasks.text_to_text.limits import least_symbols, symbol_limits, within
from regard.tasks.text_to_text.partners import ensemble_of, load_partner, scored_by, unknown_to
from regard.viz import plot_alignment

MAX_SOURCE_RATIO = 10
"""Default limit on the length of an input, as a multiple of `data.max_length`."""


@dataclass(eq=False, repr=False)
class TextToText(AbstractModel[TextToTextConfig]):
    """A text-to-text model: the fields of both sides, the module and its configuration.

    `regard.load` returns one, from a run folder or a shipped model's name. Several threads may call it at once.

    Args:
        config: the resolved configuration.
        source, target: the fields, which turn texts into ids and back.
        module: encoder and decoder; set to evaluation mode.
        name: shown in messages.
        card: a text about the model, its data and its limits.
        fingerprints: SHA-256 of the training and held-out files, by name; metrics on training files are refused.
    """

    config: TextToTextConfig
    source: Field
    target: Field
    module: EncoderDecoder
    _: KW_ONLY
    name: str = "model"
    card: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)
    extended: ExtendedVocabulary | None = field(init=False, default=None)
    """Names what a pointer copies; None without a pointer."""
    _partners: dict[Any, TextToText] = field(init=False, default_factory=dict)
    """Models that predict together with this one, once they are loaded."""

    def __post_init__(self) -> None:
        self.module.eval()
        if any(isinstance(part, PointerDecoder) for part in self.module.decoder.modules()):
            self.extended = ExtendedVocabulary(self.source, self.target)

    @classmethod
    def build(cls, config: TextToTextConfig, source: Field, target: Field, *, name: str = "model") -> TextToText:
        """An untrained model; its weights are drawn from torch's global generator."""
        sizes = {"num_source": len(source.vocabulary), "num_target": len(target.vocabulary)}
        module = build_model(config.model, **sizes, max_length=config.data.max_length)
        return cls(config, source, target, module, name=name)

    assets = ("source.json", "target.json", "source.model", "target.model")

    def save_assets(self, folder: Path) -> None:
        """Writes the fields: `source.json` and `target.json`, and models of sentencepiece."""
        self.source.save(folder, "source")
        self.target.save(folder, "target")

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        """Those of the source, which the encoder has, and of the target, which the decoder has."""
        return {"source": ("encoder.", self.source.vocabulary), "target": ("decoder.", self.target.vocabulary)}

    def unlike(self, other: TextToText) -> Sequence[str]:
        """Other normalisations of texts, another order of writing."""
        sides = (("source", self.source, other.source), ("target", self.target, other.target))
        turned = [f"target: its outputs are written {other.config.data.target.direction}"]
        return turned * (self.is_reversed != other.is_reversed) + [
            f"{side}: its texts were normalised differently ({saved.normalisation}), which is not copied"
            for side, field, saved in sides
            if field.normalisation != saved.normalisation
        ]

    @property
    def is_reversed(self) -> bool:
        """Whether outputs are written from right to left; predictions are turned round again."""
        return self.config.data.is_reversed

    def predict(
        self,
        inputs: Sequence[str],
        *,
        search: Search | None = None,
        alignment: bool = True,
        strict: bool = False,
        constraints: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Prediction]:
        """The outputs of texts, in order; batching never changes a result.

        An input that cannot be handled as it is (empty, or with symbols that training did not have) does not affect the
        others; its `Prediction` has a warning.

        Args:
            inputs: texts; they are normalised as in training.
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
        decoding = told(self.config.decoding, search)
        if decoding.members:
            together = self._ensemble(decoding)
            options: dict[str, Any] = {"alignment": alignment, "strict": strict, "constraints": constraints}
            return together.predict(inputs, search=_alone(decoding), **options)
        asked = self._asked(inputs, decoding, strict, constraints)
        results: list[Prediction | None] = [
            None if encoding.tokens else Prediction([], [], "", 0.0, 0.0, "length", warnings=warnings)
            for encoding, warnings in zip(asked.encodings, asked.warnings, strict=True)
        ]
        for batch in _batches(asked.lengths, decoding.width, decoding.batch_tokens):
            text = [partial(self._written, asked.extensions[i]) for i in batch]
            hypotheses = run_search(**self._arguments(asked, batch, candidates(decoding), alignment), text=text)
            found = [self._kept(asked, i, each, decoding, alignment) for i, each in zip(batch, hypotheses, strict=True)]
            warnings = [asked.warnings[i] for i in batch]
            if decoding.reranker is not None:
                found, unread = self._reranked(found, [(inputs[i], asked.extensions[i]) for i in batch], decoding)
                more = ("the reranker cannot read it",)
                warnings = [(*each, *more * is_unread) for each, is_unread in zip(warnings, unread, strict=True)]
                reranker = self._partner(decoding.reranker, "reranker")
                for position, i in enumerate(batch):
                    texts = [self._text(self._read(h).tokens.tolist(), asked.extensions[i]) for h in found[position]]
                    warnings[position] += unknown_to(reranker, inputs[i], texts)
            for i, kept, each in zip(batch, found, warnings, strict=True):
                ranked = [self._predicted(asked, i, hypothesis, each, decoding) for hypothesis in kept]
                results[i] = replace(ranked[0], alternatives=tuple(ranked[1:]))
        return [result for result in results if result is not None]

    def stream(
        self,
        inputs: Sequence[str],
        *,
        search: Search | None = None,
        alignment: bool = True,
        strict: bool = False,
        constraints: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> Iterator[Streamed]:
        """The output of every text, piece by piece, as soon as its symbols are certain (`regard.decoding.stream`).

        The pieces of an output together are what `predict` returns for it, which its last piece has. Those of several
        inputs follow each other as they come; inputs of a batch are searched for at once.

        Args:
            inputs, search, alignment, strict, constraints: as in `predict`.

        Raises:
            ConfigError: for a search whose outputs are not certain before they are whole, or a model that writes from
                right to left.
            DataError: as in `predict`.
        """
        decoding = told(self.config.decoding, search)
        if self.is_reversed:
            raise ConfigError(
                "Nothing can be streamed: the model writes from right to left, so the beginning comes last."
            )
        if (refused := excluded(decoding, STREAM_EXCLUSIONS)) is not None:
            raise ConfigError(refused[1], ("decoding", refused[0]))
        if decoding.members:
            options: dict[str, Any] = {"alignment": alignment, "strict": strict, "constraints": constraints}
            return self._ensemble(decoding).stream(inputs, search=_alone(decoding), **options)
        return self._streamed(self._asked(inputs, decoding, strict, constraints), decoding, alignment)

    def _streamed(self, asked: Asked, decoding: DecodingConfig, alignment: bool) -> Iterator[Streamed]:
        for i in np.flatnonzero(asked.lengths == 0).tolist():
            yield Streamed.nothing(i, Prediction([], [], "", 0.0, 0.0, "length", warnings=asked.warnings[i]))
        for batch in _batches(asked.lengths, decoding.width, decoding.batch_tokens, in_order=True):
            pieces = Pieces([partial(self._text, extension=asked.extensions[i]) for i in batch])
            for increment in stream(**self._arguments(asked, batch, decoding, alignment)):
                i = int(batch[increment.sentence])
                whole = None
                if increment.hypothesis is not None:
                    kept = self._kept(asked, i, [increment.hypothesis], decoding, alignment)
                    whole = self._predicted(asked, i, kept[0], asked.warnings[i], decoding)
                yield pieces.piece(i, increment, whole, most=int(asked.limits[i]))

    def _asked(
        self,
        inputs: Sequence[str],
        decoding: DecodingConfig,
        strict: bool,
        constraints: Sequence[Mapping[str, Any] | None] | None,
    ) -> Asked:
        """What is searched for, and with which limits."""
        if isinstance(inputs, str) or not isinstance(inputs, Sequence):
            raise TypeError(f"predict takes a list of texts, as in predict([text]); got {type(inputs).__name__}.")
        if others := [text for text in inputs if not isinstance(text, str)]:
            raise TypeError(f"predict takes texts; got {others[0]!r:.60}, a {type(others[0]).__name__}.")
        longest = decoding.max_source_length or MAX_SOURCE_RATIO * self.config.data.max_length
        longest = min(longest, self._most(self.module.encoder))
        encodings = [_capped(self.source.encode(text), longest) for text in inputs]
        extensions = [self._extension(text, encoding) for text, encoding in zip(inputs, encodings, strict=True)]
        warnings = [self._warnings(*each) for each in zip(encodings, extensions, strict=True)]
        if strict:
            for number, (text, reasons) in enumerate(zip(inputs, warnings), start=1):
                if reasons:
                    raise DataError(f"input {number} ({text!r:.60}): {'; '.join(reasons)}")
        lengths = np.array([len(encoding.tokens) for encoding in encodings], dtype=np.int64)
        most = self._most(self.module.decoder)
        limits = np.minimum(symbol_limits(decoding, lengths), most)
        asked = constraints_in_ids(
            decoding,
            constraints,
            self.target,
            len(inputs),
            ids_of=lambda encoding, i: self._scored(encoding, extensions[i]),
            by_input=self.extended is not None,
            has_beam=decoding.method == "beam" and decoding.beam > 1,
        )
        if asked is not None and self.is_reversed:
            asked = backwards(asked)
        if asked is not None:
            limits = with_room(limits, asked, decoding, most)
        least = least_symbols(decoding, lengths, limits)
        items = torch.from_numpy(numbered([self._content(encoding) for encoding in encodings]))
        return Asked(encodings, extensions, warnings, lengths, limits, least, items, asked)

    def _arguments(self, asked: Asked, batch: np.ndarray, decoding: DecodingConfig, alignment: bool) -> dict[str, Any]:
        """The arguments of a search for some of the inputs."""
        reads_weights = decoding.method == "beam" and decoding.coverage_penalty != "none"
        ids, mask = pad([asked.encodings[i].ids for i in batch], end=EOS)
        return {
            "decoder": self.module.decoder,
            "memory": self._memory(ids, mask, [asked.extensions[i] for i in batch]),
            "options": decoding,
            "bos": BOS,
            "eos": EOS,
            "max_length": torch.from_numpy(asked.limits[batch] + 1).to(self.device),
            "alignment": alignment or reads_weights,
            "items": asked.items[batch],
            "source": SearchSource(ids, mask),
            "min_length": torch.from_numpy(asked.least[batch]).to(self.device),
            "unk": UNKNOWN,
            "constraints": None if asked.constraints is None else [asked.constraints[i] for i in batch],
        }

    def _kept(
        self, asked: Asked, i: int, hypotheses: Sequence[Hypothesis], decoding: DecodingConfig, alignment: bool
    ) -> list[Hypothesis]:
        """The hypotheses of an input within its limit."""
        columns = len(asked.encodings[i].tokens) + 1
        kept = within(hypotheses, int(asked.limits[i]), decoding, partial(self._coverage, columns=columns))
        return kept if alignment else [replace(hypothesis, alignments={}) for hypothesis in kept]

    def _predicted(
        self, asked: Asked, i: int, hypothesis: Hypothesis, warnings: tuple[str, ...], decoding: DecodingConfig
    ) -> Prediction:
        """The prediction of one of them."""
        extension = asked.extensions[i]
        further = () if asked.constraints is None else self._lacking(hypothesis, asked.constraints[i], extension)
        tokens, shown = asked.encodings[i].tokens, self._shown(decoding)
        return self._prediction(hypothesis, tokens, extension, (*warnings, *further), shown)

    def evaluate(
        self,
        path: Path | str,
        *,
        references: Sequence[Path | str] = (),
        source_field: str | int | Sequence[str | int] | None = None,
        target_field: str | int | None = None,
        metrics: Sequence[Metric] | None = None,
        tokenize: str | None = None,
        search: Search | None = None,
    ) -> Evaluation:
        """Compares free-running outputs for the inputs of a file with references; repeated inputs of a file of pairs
        are one item with several references.

        Args:
            path: a TSV or JSONL file of pairs, or with `references` a text file with one input per line.
            references: text files with one reference per line of `path`.
            source_field, target_field: columns or fields of a file of pairs; those of the training data if None.
            metrics: metrics of all outputs together: `bleu`, `chrf`. If None, both if outputs are sentences (units
                `word` or `sentencepiece`) and sacrebleu is installed.
            tokenize: how BLEU splits texts into words; with it alone, `metrics` is `bleu`.
            search: as in `predict`.

        Raises:
            DataError: for a file without pairs or that the model was trained on, or files of different numbers of
                lines.
        """
        decoding = told(self.config.decoding, search)
        partners = [self._partner(member, "ensemble") for member in decoding.members]
        for model in (self, *partners, *([self._partner(decoding.reranker, "reranker")] if decoding.reranker else ())):
            model.refuse_trained(path, *references)
        if references:
            if source_field is not None or target_field is not None:
                raise ConfigError("source_field and target_field are for files of pairs; lines have no columns.")
            items = parallel(path, references, normalise_target=self.target.normalisation)
            if not items:
                raise DataError(f"{path}: the file has no lines to evaluate.")
        else:
            items = self.items(self.pairs(path, source_field=source_field, target_field=target_field))
        if tokenize is not None and metrics is not None and "bleu" not in metrics:
            raise ConfigError("The tokenizer is for BLEU, which is not one of the metrics; add bleu.")
        if metrics is None:
            metrics = ("bleu",) if tokenize is not None else self._automatic()
        return self.evaluate_items(items, metrics=metrics, tokenize=tokenize, search=search)

    def pairs(
        self,
        path: Path | str,
        *,
        target: Path | str | None = None,
        source_field: str | int | Sequence[str | int] | None = None,
        target_field: str | int | None = None,
    ) -> Pairs:
        """The pairs of a TSV or JSONL file, or of two text files with a line for each.

        Args:
            path: the file, or that of the inputs.
            target: the file of the outputs.
            source_field, target_field: columns or fields of a file of pairs; those of the training data if None.

        Raises:
            DataError: for a file that cannot be read or has no pairs.
        """
        data = self.config.data
        if target is not None and (source_field is not None or target_field is not None):
            raise ConfigError("source_field and target_field are for files of pairs; lines have no columns.")
        fields: dict[str, Any] = {
            "source_field": data.source_field if source_field is None else source_field,
            "target_field": data.target_field if target_field is None else target_field,
            "format": data.format if data.format != "parallel" else "auto",
            "autoencode": data.autoencode,
        }
        pairs = open_pairs(path, **fields) if target is None else open_pairs(ParallelText(path, target))
        if not len(pairs):
            raise DataError(f"{path}: the file has no pairs.")
        return pairs

    def align(
        self,
        pairs: Sequence[Pair | tuple[str, str]],
        *,
        words: bool = True,
        end_symbol: bool = False,
        normalise: bool = False,
        layer: str | None = None,
        head: int | None = None,
        strict: bool = False,
    ) -> list[AlignedPair]:
        """The alignments of given outputs with their inputs, in order, from a teacher-forced pass.

        Symbols of a word are merged (`merge_words`); what a word is follows from the units (`Field.words`). A row sums
        to what the attention's rows sum to, 1 for a softmax, with what it has at blanks and, unless it is asked for, at
        the end symbol, which is `rest`.

        Args:
            pairs: inputs with their outputs; they are normalised as in training.
            words: whether rows and columns are words; else they are symbols.
            end_symbol: whether the end symbol is one of the rows and columns.
            normalise: whether rows are divided by their sum, without the rest.
            layer, head: which attention and which of its heads (`chosen_heads`); as in predictions if both are None.
            strict: raises an error for a pair that cannot be read as it is, in place of a warning.

        Raises:
            ConfigError: if the decoder has no such attention or head.
            DataError: for the first pair that cannot be read as it is, if `strict`.
            UnsupportedError: for a model without attention.
        """
        for pair in pairs:
            if not isinstance(pair, Pair) and (isinstance(pair, str) or [*map(type, pair)] != [str, str]):
                raise TypeError(f"align takes pairs of texts, as in align([(source, target)]); got {pair!r:.60}.")
        if self.config.decoding.members:
            options: dict[str, Any] = {"words": words, "end_symbol": end_symbol, "normalise": normalise}
            options |= {"layer": layer, "head": head, "strict": strict}
            return self._ensemble(self.config.decoding).align(pairs, **options)
        texts = [(pair.source, pair.target) if isinstance(pair, Pair) else pair for pair in pairs]
        inputs, outputs = [pair[0] for pair in texts], [pair[1] for pair in texts]
        longest = self.config.decoding.max_source_length or MAX_SOURCE_RATIO * self.config.data.max_length
        limits = [min(longest, self._most(part)) for part in (self.module.encoder, self.module.decoder)]
        sources = [_capped(self.source.encode(text), limits[0]) for text in inputs]
        targets = [_capped(self.target.encode(text), limits[1], "output") for text in outputs]
        extensions = [self._extension(text, encoding) for text, encoding in zip(inputs, sources, strict=True)]
        ids = [self._scored(*each) for each in zip(targets, extensions, strict=True)]
        warnings = []
        for source, extension, target, scored in zip(sources, extensions, targets, ids, strict=True):
            unknown = [token for token, number in zip(target.tokens, scored) if number == UNKNOWN]
            warnings.append((*self._warnings(source, extension), *self._reasons(target, unknown, "output")))
        if strict:
            for number, (pair, reasons) in enumerate(zip(pairs, warnings, strict=True), start=1):
                if reasons:
                    place = pair.place if isinstance(pair, Pair) else f"pair {number}"
                    raise DataError(f"{place} ({inputs[number - 1]!r:.60}): {'; '.join(reasons)}")
        if layer is None and head is None:
            layer, head = self._shown(self.config.decoding)
        kinds = {"words": words, "end_symbol": end_symbol}

        def memory(batch: np.ndarray) -> Any:
            return self._memory(*pad([sources[i].ids for i in batch], end=EOS), [extensions[i] for i in batch])

        return align(
            self.module.decoder,
            memory,
            Side(self.source, inputs, sources, **kinds),
            Side(self.target, outputs, targets, **kinds),
            ids,
            texts=outputs,
            warnings=warnings,
            readable=[bool(s.tokens) and not t.refusal for s, t in zip(sources, targets, strict=True)],
            batch_tokens=self.config.decoding.batch_tokens,
            normalise=normalise,
            layer=layer,
            head=head,
            is_reversed=self.is_reversed,
        )

    def items(self, pairs: Any) -> list[Item]:
        """Pairs grouped by input."""
        return group(pairs, normalise_source=self.source.normalisation, normalise_target=self.target.normalisation)

    def evaluate_items(
        self,
        items: Sequence[Item],
        *,
        metrics: Sequence[Metric] = (),
        tokenize: str | None = None,
        search: Search | None = None,
    ) -> Evaluation:
        """As `evaluate`, for items that have been read already.

        Args:
            items: inputs with their references.
            metrics: metrics of all outputs together: `bleu`, `chrf`. They ignore letter case if the model changes it.
            tokenize: how BLEU splits texts into words (`regard.data.corpus_score`).
            search: as in `predict`.
        """
        for name in metrics:
            scorer_of(name, tokenize=tokenize)  # refuses what cannot be computed before anything is decoded
        predictions = self.predict([item.source for item in items], search=search, alignment=False)
        return self.evaluation(items, predictions, metrics=metrics, tokenize=tokenize)

    def evaluation(
        self,
        items: Sequence[Item],
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
        lowercase = self.config.data.target.case != "keep"
        corpus: dict[str, CorpusScore] = {
            name: corpus_score(name, texts, references, tokenize=tokenize, lowercase=lowercase) for name in metrics
        }
        return Evaluation(scored, corpus)

    def _automatic(self) -> tuple[Metric, ...]:
        """BLEU and chrF if outputs are sentences and sacrebleu is installed."""
        sentences = self.config.data.target.units in ("word", "sentencepiece")
        return TRANSLATION_METRICS if sentences and is_available() else ()

    @property
    def input_fields(self) -> tuple[str | int, ...]:
        """The columns or fields of an input in the training pairs."""
        fields = self.config.data.source_field
        return fields if isinstance(fields, tuple) else (fields,)

    def rows(self, prediction: Prediction, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row for each output, the best first: its text, and its score if asked for or if there are several."""
        outputs = (prediction, *prediction.alternatives)
        scores = scores or self.config.decoding.num_best > 1
        return [(output.text, f"{output.score:.4f}") if scores else (output.text,) for output in outputs]

    def record(self, prediction: Prediction) -> dict[str, Any]:
        """Text, tokens, score, log-probability and, if it has one, alignment of the output and of its alternatives."""
        return prediction.record()

    def can_plot(self, prediction: Prediction) -> bool:
        """Whether it has an alignment."""
        return prediction.alignment is not None

    def plot(
        self,
        predictions: Sequence[Prediction],
        path: Path,
        *,
        title: str = "",
        data: Literal["json", "npz"] | None = None,
        heads: bool = False,
        highest: Literal["largest"] | float = 1.0,
        words: bool = False,
        end_symbol: bool = True,
    ) -> Sequence[Path]:
        """Draws alignments (`regard.viz.plot_alignment`), of `words` if asked for (`by_words`)."""
        if words:
            predictions = [self.by_words(prediction) for prediction in predictions]
        return plot_alignment(
            predictions, path, title=title, data=data, heads=heads, highest=highest, end_symbol=end_symbol
        )

    def by_words(self, prediction: Prediction) -> Prediction:
        """A prediction whose tokens and alignments are words and end symbols (`merge_words`, `Field.words`).

        What has been attended to at blanks belongs to no word, so rows may sum to less than before.
        """
        if prediction.alignment is None:
            return replace(prediction, alternatives=tuple(map(self.by_words, prediction.alternatives)))
        source, columns = _in_words(self.source, prediction.source_tokens, has_end=True)
        target, rows = _in_words(self.target, prediction.tokens, has_end=prediction.stop_reason == "eos")
        merged = {name: merge_words(a, columns, rows).weights for name, a in prediction.alignments.items()}
        return replace(
            prediction,
            source_tokens=source,
            tokens=target,
            alignment=merge_words(prediction.alignment, columns, rows).weights,
            alignments=merged,
            alternatives=tuple(map(self.by_words, prediction.alternatives)),
            generate=None,
        )

    def parts(self) -> Mapping[str, nn.Module]:
        """Encoder and decoder."""
        return {"encoder": self.module.encoder, "decoder": self.module.decoder}

    def information(self) -> dict[str, Any]:
        """Facts about the model: sizes, vocabularies, configuration."""
        return {
            "name": self.name,
            "task": self.config.task,
            "parameters": self.num_parameters,
            "source": _size(self.source, self.config.data.source.units),
            "target": _size(self.target, self.config.data.target.units),
            "model": self.config.model.model_dump(mode="json"),
            "decoding": self.config.decoding.model_dump(mode="json"),
        }

    def _extension(self, text: str, encoding: Encoding) -> Extension | None:
        """What a pointer may copy of an input; None without a pointer."""
        if self.extended is None:
            return None
        return self.extended.extend(text) if encoding.tokens else Extension(encoding.ids, (), ())

    def _scored(self, encoding: Encoding, extension: Extension | None) -> np.ndarray:
        """The ids of an output's symbols, of which a pointer may have copied some."""
        if self.extended is None or extension is None:
            return encoding.ids
        return self.extended.ids(encoding.tokens, extension)

    def _most(self, part: Any) -> int:
        """The most symbols, without the end symbol, that the encoder reads or the decoder says: learned positions end.

        A network of a user's own may say it by `max_length`, too.
        """
        most = getattr(part, "max_length", None)
        return np.iinfo(np.int32).max if most is None else most - 1

    def _content(self, encoding: Encoding) -> np.ndarray:
        """Numbers that tell an input from others: its ids, which a pointer does not only read."""
        if self.extended is None:
            return encoding.ids
        return np.frombuffer("\n".join(encoding.tokens).encode("utf-8", "surrogatepass"), np.uint8).astype(np.int64)

    def _memory(self, ids: Tensor, mask: Tensor, extensions: Sequence[Extension | None]) -> Any:
        copied = padded([extension for extension in extensions if extension is not None]) if self.extended else {}
        with torch.inference_mode():
            return self.module.prepare(
                ids.to(self.device),
                None if bool(mask.all()) else mask.to(self.device),
                **{name: tensor.to(self.device) for name, tensor in copied.items()},
            )

    def _ensemble(self, decoding: DecodingConfig) -> TextToText:
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
        return self._partners[key, self.device]

    def _partner(self, path: Path, key: str) -> TextToText:
        """The model that a key of `decoding` names, which is loaded once."""
        if (path, self.device) not in self._partners:
            self._partners[path, self.device] = load_partner(path, key, self.device)
        return self._partners[path, self.device]

    def _reranked(
        self, found: list[list[Hypothesis]], items: Sequence[tuple[str, Extension | None]], decoding: DecodingConfig
    ) -> tuple[list[list[Hypothesis]], list[bool]]:
        """The hypotheses of each input in the order that the reranker helps to decide, and whether it cannot read the
        input, in which case they stay as they are."""
        assert decoding.reranker is not None
        reranker = self._partner(decoding.reranker, "reranker")
        outputs = [
            [(self._text(self._read(h).tokens.tolist(), extension), h.stop_reason == "eos") for h in ranked]
            for (_, extension), ranked in zip(items, found, strict=True)
        ]
        rescored = scored_by(reranker, [text for text, _ in items], outputs)
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

    def _written(self, extension: Extension | None, ids: Sequence[int]) -> str:
        """The text of ids in the order in which they are written."""
        return self._text(ids[::-1] if self.is_reversed else ids, extension)

    def _read(self, hypothesis: Hypothesis) -> Hypothesis:
        """A hypothesis in the order in which it is read."""
        return reverse_tokens(hypothesis) if self.is_reversed else hypothesis

    def _warnings(self, encoding: Encoding, extension: Extension | None) -> tuple[str, ...]:
        """What the user should know of an input; a symbol that a pointer can copy may be unknown."""
        return self._reasons(encoding, self._unknown(encoding, extension), "input")

    def _unknown(self, encoding: Encoding, extension: Extension | None) -> Sequence[str]:
        """The unknown symbols of an input that no pointer can copy."""
        if not encoding.unknown or extension is None:
            return encoding.unknown
        fixed = (token for token, number in zip(encoding.tokens, extension.ids) if number == UNCOPYABLE)
        return self.source.vocabulary.unknown(fixed)

    def _reasons(self, encoding: Encoding, unknown: Sequence[str], side: str) -> tuple[str, ...]:
        """Why a text cannot be handled as it is."""
        if not encoding.tokens:
            return (encoding.refusal or f"the {side} is empty",)
        warnings, whose = [], "" if side == "input" else f"{side}: "
        if unknown:
            shown = ", ".join(map(repr, dict.fromkeys(unknown)))
            warnings.append(f"{whose}not in the training data, read as <unk>: {shown}")
        if len(encoding.tokens) > self.config.data.max_length:
            count, most = len(encoding.tokens), self.config.data.max_length
            warnings.append(f"{whose}{count} symbols, but training had at most {most}")
        return tuple(warnings)

    def _coverage(self, hypothesis: Hypothesis, columns: int) -> Tensor:
        """What each source position got of the hypothesis's main attention, in all."""
        main = main_alignment(hypothesis.alignments, self.module.decoder)
        assert main is not None  # the search has refused a decoder without attention
        return main[:, :columns].double().sum(0)

    def _lacking(self, hypothesis: Hypothesis, asked: Constraints, extension: Extension | None) -> tuple[str, ...]:
        """A warning about texts that a hypothesis had to contain and does not."""
        ids = hypothesis.tokens.tolist()
        lacking = [p for p in asked.include if not any(ids[i : i + len(p)] == list(p) for i in range(len(ids)))]
        shown = ", ".join(repr(self._written(extension, phrase)) for phrase in lacking)
        return (f"the output reached its greatest length without {shown}",) if lacking else ()

    def _shown(self, decoding: DecodingConfig) -> tuple[str | None, int | None]:
        """The attention and the head of the alignment that results show: without a choice the supervised ones. Those
        of an ensemble are the main ones of its members."""
        if isinstance(self.module, EnsembleEncoderDecoder):
            return None, None
        layer, head = decoding.alignment_layer, decoding.alignment_head
        losses = self.config.training.alignment_losses
        if layer is None and losses.supervision:
            layer, head = losses.supervision_layer, losses.supervision_head if head is None else head
        return layer, head

    def _text(self, ids: Sequence[int], extension: Extension | None) -> str:
        """The text of ids in the order in which they are read."""
        if self.extended is None or extension is None:
            return self.target.decode(ids)
        return self.extended.decode(ids, extension)

    def _prediction(
        self,
        hypothesis: Hypothesis,
        source: list[str],
        extension: Extension | None,
        warnings: tuple[str, ...],
        shown: tuple[str | None, int | None],
    ) -> Prediction:
        columns = len(source) + 1
        hypothesis = self._read(hypothesis)
        alignments = {name: weights[..., :columns] for name, weights in hypothesis.alignments.items()}
        ids = hypothesis.tokens.tolist()
        ended = hypothesis.stop_reason == "eos"
        if self.extended is None or extension is None:
            tokens = self.target.tokens(ids)
        else:
            tokens = self.extended.tokens(ids, extension)
        return Prediction(
            [*source, END],
            tokens + [END] * ended,
            self._text(ids, extension),
            hypothesis.score,
            hypothesis.log_probability,
            hypothesis.stop_reason,
            main_alignment(alignments, self.module.decoder, layer=shown[0], head=shown[1]),
            alignments,
            warnings,
            generate=hypothesis.auxiliary.get("generate"),
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Texts that are searched for.

    Args:
        encodings, extensions, warnings: of each text.
        lengths: symbols of each.
        limits, least: the most and the fewest symbols of each output.
        items: the numbers by which samples differ.
        constraints: of each output, or None.
    """

    encodings: list[Encoding]
    extensions: list[Extension | None]
    warnings: list[tuple[str, ...]]
    lengths: np.ndarray
    limits: np.ndarray
    least: np.ndarray
    items: Tensor
    constraints: Sequence[Constraints] | None


def ensemble(models: Sequence[TextToText], **options: Any) -> TextToText:
    """Models that predict together: one with the configuration of the first and the mean of their predictions.

    Args:
        models: two or more that read and write the same symbols, of any architectures.
        options: `weights`, `average` and `main` of `regard.models.EnsembleDecoder`.

    Raises:
        ConfigError: for models whose symbols differ, with what differs.
    """
    first = models[0]
    name = " + ".join(model.name for model in models)
    layers = [model._shown(model.config.decoding)[0] for model in models]
    mains = [
        getattr(model.module.decoder, "main_attention", None) if layer in (None, "mean") else layer
        for model, layer in zip(models, layers, strict=True)
    ]
    module = ensemble_of(models, main_attentions=mains, **options)
    config = first.config.model_copy(update={"decoding": _alone(first.config.decoding)})
    together = TextToText(config, first.source, first.target, module, name=name)
    for number, model in enumerate(models):
        together.fingerprints |= {f"{key}.{number}": value for key, value in model.fingerprints.items()}
    return together


def _alone(decoding: DecodingConfig) -> DecodingConfig:
    """The settings of an ensemble, for the ensemble itself."""
    return decoding.model_copy(update={"ensemble": (), "ensemble_weights": None, "ensemble_alignment": None})


def candidates(decoding: DecodingConfig) -> DecodingConfig:
    """The search of what is reranked: of a beam, all its hypotheses."""
    if decoding.reranker is None or decoding.method != "beam":
        return decoding
    return decoding.model_copy(update={"num_best": max(decoding.beam, decoding.num_best)})


def output_symbols(prediction: Prediction) -> list[str]:
    """The symbols of the output, without the end symbol."""
    return prediction.tokens[:-1] if prediction.stop_reason == "eos" else prediction.tokens


def _in_words(field: Field, tokens: Sequence[str], *, has_end: bool) -> tuple[list[str], Tensor]:
    """The words of tokens, and the number of the word of each; the end symbol is the last word."""
    words = field.words(tokens[: len(tokens) - has_end])
    numbers = torch.from_numpy(np.append(words.index, [len(words)] * has_end).astype(np.int64))
    return [*words.texts, *[END] * has_end], numbers


def _capped(encoding: Encoding, longest: int, side: str = "input") -> Encoding:
    """The encoding, or a refusal if it has too many symbols: memory and time grow with the longest text."""
    count = len(encoding.tokens)
    if count <= longest:
        return encoding
    refusal = f"{count:,} symbols, but an {side} may have at most {longest:,} (max_source_length)"
    return Encoding(encoding.ids[:0], [], [], refusal)


def _size(side: Field, units: str | tuple[str, ...]) -> str:
    names = units if isinstance(units, str) else " and ".join(units)
    columns = f" in {side.num_columns} columns" if side.num_columns > 1 else ""
    return f"{len(side.vocabulary):,} {names} symbols{columns}"


def _batches(lengths: np.ndarray, width: int, batch_tokens: int, *, in_order: bool = False) -> Iterator[np.ndarray]:
    """Indices of non-empty inputs in batches of at most `batch_tokens` symbols times hypotheses, of similar length
    unless they are to be in order."""
    order = np.arange(len(lengths)) if in_order else np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    for stop in range(1, len(order) + 1):
        if (
            stop == len(order)
            or (stop + 1 - start) * (lengths[order[start : stop + 1]].max() + 1) * width > batch_tokens
        ):
            yield order[start:stop]
            start = stop
