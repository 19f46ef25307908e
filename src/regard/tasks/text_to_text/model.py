"""Text to text: a trained model with everything that prediction needs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config.search import Search
from regard.config.texts import ParallelFiles, TextDecodingConfig
from regard.data import Pair, Pairs
from regard.data.input_rows import InputTable, separated_table
from regard.data.table_rows import TAB
from regard.data.tally import longer_than_training, unknown_symbols
from regard.data.text import (
    BOS,
    EOS,
    UNKNOWN,
    Encoding,
    ExtendedVocabulary,
    Extension,
    Field,
    ParallelText,
    Vocabulary,
    open_pairs,
)
from regard.data.text.extended import UNCOPYABLE
from regard.data.text.readers import by_suffix
from regard.data.text.references import Item, group, parallel
from regard.data.text.table_pairs import BARS
from regard.decoding import AlignedPair, Prediction, SearchSource, merge_words
from regard.decoding.recorded import capture_for
from regard.errors import ConfigError, DataError
from regard.metrics.translation import Metric
from regard.models import EncoderDecoder, EnsembleEncoderDecoder, PointerDecoder
from regard.runs.contract import check_texts
from regard.runs.given import of_data
from regard.runs.trained_items import DataItem
from regard.tasks.encoded import batches_within, pad
from regard.tasks.text_generation.directions import different_directions
from regard.tasks.text_generation.ensembles import differences_of_fields
from regard.tasks.text_generation.evaluation import Evaluation, Scored
from regard.tasks.text_generation.model import BEGIN, END, AbstractWriter, max_symbols, size_of_field
from regard.tasks.text_generation.source import EncodedSources, InputSource, Spelling
from regard.tasks.text_to_text.aligning import Side, align
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import DecodingConfig, TextToTextConfig
from regard.tasks.text_to_text.copying import padded
from regard.training import grid
from regard.viz import alignment_record, plot_alignment

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

MAX_SOURCE_RATIO = 10
"""Default limit on the length of an input, as a multiple of `data.max_length`."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TextSource(InputSource):
    """A text as it is read.

    Args:
        extension: what a pointer may copy of it; None without a pointer.
    """

    encoding: Encoding
    extension: Extension | None


@dataclass(eq=False, repr=False)
class TextToText(AbstractWriter[TextToTextConfig, TextSource]):
    """A text-to-text model: the fields of both sides, the module and its configuration.

    Args:
        source, target: the fields, which turn texts into ids and back.
    """

    config: TextToTextConfig
    source: Field
    target: Field
    module: EncoderDecoder
    extended: ExtendedVocabulary | None = field(init=False, default=None)
    """Names what a pointer copies; None without a pointer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(isinstance(part, PointerDecoder) for part in self.module.decoder.modules()):
            self.extended = ExtendedVocabulary(self.source, self.target)

    @classmethod
    def build(cls, config: TextToTextConfig, source: Field, target: Field, *, name: str = "model") -> TextToText:
        """An untrained model; its weights are drawn from torch's global generator."""
        sizes = {"num_source": len(source.vocabulary), "num_target": len(target.vocabulary)}
        module = build_model(config.model, **sizes, max_length=config.data.max_length)
        return cls(config, module, source=source, target=target, name=name)

    assets = ("source.json", "target.json", "source.model", "target.model")

    def save_assets(self, folder: Path) -> None:
        self.source.save(folder, "source")
        self.target.save(folder, "target")

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        return {"source": ("encoder.", self.source.vocabulary), "target": ("decoder.", self.target.vocabulary)}

    def unlike(self, other: TextToText) -> Sequence[str]:
        lines = [
            f"source: its inputs were read {'with' if theirs else 'without'} {symbol} symbol (data.{key})"
            for key, symbol in (("source_end", "an end"), ("source_begin", "a begin"))
            if (theirs := getattr(other.config.data, key)) != getattr(self.config.data, key)
        ]
        if self.trained_direction != other.trained_direction:
            lines.append(f"target: its outputs are written {other.trained_direction}")
        sides = (("source", self.source, other.source), ("target", self.target, other.target))
        return lines + [
            f"{side}: its texts were normalised differently ({saved.normalisation}), which is not copied"
            for side, field, saved in sides
            if field.normalisation != saved.normalisation
        ]

    def sources(self, inputs: Sequence[str], decoding: DecodingConfig | None = None) -> list[TextSource]:
        check_texts(inputs)
        longest = max_symbols(self.module.encoder) - self.config.data.source_begin
        if decoding is not None:
            longest = min(longest, self._longest(decoding))
        return [self._source(text, _capped(self.source.encode(text), longest)) for text in inputs]

    def lengths(
        self, sources: Sequence[TextSource], decoding: DecodingConfig
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sizes = np.array([source.size for source in sources], dtype=np.int64)
        ratio = np.ceil(sizes * decoding.min_length_ratio - 1e-9).astype(np.int64)
        least = np.maximum(ratio, decoding.min_length)
        if decoding.max_length is not None:
            return least, np.full_like(sizes, decoding.max_length)
        most = np.maximum((sizes * decoding.max_length_ratio + decoding.max_length_extra).astype(np.int64), 1)
        return least, most if decoding.max_length_cap is None else np.minimum(most, decoding.max_length_cap)

    def batches(
        self, sources: Sequence[TextSource], decoding: DecodingConfig, *, in_order: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """Batches of at most `decoding.batch_tokens` symbols times hypotheses, with end symbols and padding.

        Fewer than four hypotheses count as four: the memory of the encoder does not shrink with them.
        """
        sizes = np.array([source.size for source in sources], dtype=np.int64)
        order = np.arange(len(sizes)) if in_order else np.argsort(sizes, kind="stable")
        most = decoding.batch_tokens // max(decoding.width, 4)
        return batches_within(
            order[sizes[order] > 0], sizes[:, None], lambda rows, longest: rows * (longest + 1) <= most
        )

    def encode(self, sources: Sequence[TextSource]) -> EncodedSources:
        ids, mask = pad([source.encoding.ids for source in sources], begin=self.source_begin, end=self.source_end)
        extensions = [source.extension for source in sources]
        copied = padded([extension for extension in extensions if extension is not None]) if self.extended else {}
        if capture_for(self.device) is not None:  # sources of similar lengths share recordings
            tensors = {"ids": ids, "mask": mask, **copied}
            copied = grid.padded(tensors, dict.fromkeys(tensors, ".S"))
            ids, mask = copied.pop("ids"), copied.pop("mask")
        with torch.inference_mode():
            memory = self.module.prepare(
                ids.to(self.device),
                None if bool(mask.all()) else mask.to(self.device),
                **{name: tensor.to(self.device) for name, tensor in copied.items()},
            )
        return EncodedSources(memory, SearchSource(ids, mask), [slice(len(source.columns)) for source in sources])

    def differences(self, other: TextToText) -> Sequence[str]:
        lines = []
        for side, ours, theirs in (("source", self.source, other.source), ("target", self.target, other.target)):
            lines += [f"{side}: {line}" for line in differences_of_fields(ours, theirs)]
        if self.source_end != other.source_end:
            lines.append("source: an end symbol follows the inputs of one of them only (data.source_end)")
        if self.source_begin != other.source_begin:
            lines.append("source: a begin symbol precedes the inputs of one of them only (data.source_begin)")
        return lines + different_directions([self, other])

    @property
    def source_begin(self) -> int | None:
        """The id that precedes every input, if one does."""
        return BOS if self.config.data.source_begin else None

    @property
    def source_end(self) -> int | None:
        """The id that follows every input, if one does."""
        return EOS if self.config.data.source_end else None

    @property
    def depends_on_inputs(self) -> bool:
        return self.extended is not None

    def chosen_attention(self, decoding: TextDecodingConfig) -> tuple[str | None, int | None]:
        """The attention and the head that the configuration chooses, or else the supervised ones."""
        layer, head = super().chosen_attention(decoding)
        losses = self.config.training.alignment_losses
        if layer is None and losses.supervision and not isinstance(self.module, EnsembleEncoderDecoder):
            layer, head = losses.supervision_layer, losses.supervision_head if head is None else head
        return layer, head

    @of_data
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
        self.check_trained_together(self._search_settings(search), path, *references)
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
            metrics = self.automatic_metrics(tokenize)
        return self.evaluate_items(items, metrics=metrics, tokenize=tokenize, search=search)

    def held_out(self) -> tuple[Path, dict[str, Any]] | None:
        dev = self.config.data.dev
        return (dev.source, {"references": [dev.target]}) if isinstance(dev, ParallelFiles) else super().held_out()

    def evaluated_items(self, evaluation: Evaluation, path: Path | str) -> Iterator[DataItem]:
        source, target = self.source.normalisation, self.target.normalisation
        for entry in evaluation.scored:
            yield DataItem(entry.place, source(entry.item.source), tuple(map(target, entry.item.references)))

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

        The units define words (`Field.words`), and the weights of the symbols of a word are merged (`merge_words`). A
        row and its `rest`, the weights at blanks and, without `end_symbol`, at the end symbol, together have the sum of
        the attention's weights, 1 for a softmax.

        Args:
            pairs: inputs with their outputs; they are normalised as in training.
            words: whether rows and columns are words; else they are symbols.
            end_symbol: whether the end symbol is one of the rows and columns.
            normalise: whether rows are divided by their sum, without the rest.
            layer, head: the attention and its head (`chosen_heads`); as in predictions if both are None.
            strict: raises an error for a pair with a warning.

        Raises:
            ConfigError: if the decoder has no such attention or head, or the inputs no end symbol.
            DataError: for the first pair with a warning, if `strict`.
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
        longest = self._longest(self.config.decoding)
        sources = self.sources(inputs, self.config.decoding)
        most = min(longest, max_symbols(self.module.decoder))
        targets = [_capped(self.target.encode(text), most, "output") for text in outputs]
        ids = [source.spelling.ids(target.tokens) for source, target in zip(sources, targets, strict=True)]
        warnings = []
        for source, target, scored in zip(sources, targets, ids, strict=True):
            unknown = [token for token, number in zip(target.tokens, scored) if number == UNKNOWN]
            warnings.append((*source.warnings, *self._reasons(target, unknown, "output")))
        if strict:
            for number, (pair, reasons) in enumerate(zip(pairs, warnings, strict=True), start=1):
                if reasons:
                    place = pair.place if isinstance(pair, Pair) else f"pair {number}"
                    raise DataError(f"{place} ({inputs[number - 1]!r:.60}): {'; '.join(reasons)}")
        if layer is None and head is None:
            layer, head = self.chosen_attention(self.config.decoding)
        labels = {"words": words, "end_symbol": end_symbol}
        if end_symbol and self.source_end is None:
            raise ConfigError(
                "end_symbol: no end symbol follows the inputs of this model (data.source_end); leave it out."
            )

        def memory(batch: np.ndarray) -> Any:
            return self.encode([sources[i] for i in batch]).memory

        encodings = [source.encoding for source in sources]
        return align(
            self.module.decoder,
            memory,
            Side(
                self.source,
                inputs,
                encodings,
                has_begin=self.source_begin is not None,
                has_end=self.source_end is not None,
                **labels,
            ),
            Side(self.target, outputs, targets, **labels),
            ids,
            texts=outputs,
            warnings=warnings,
            readable=[bool(s.size) and not t.refusal for s, t in zip(sources, targets, strict=True)],
            batch_tokens=self.config.decoding.batch_tokens,
            normalise=normalise,
            layer=layer,
            head=head,
            is_reversed=self.is_reversed,
        )

    def copied(self, item: Any) -> Container[str]:
        return () if self.extended is None else frozenset(self.source.split(item.source))

    def report_facts(self, evaluation: Evaluation) -> ReportFacts:
        """As of all texts, with errors by the symbols of inputs."""
        facts = super().report_facts(evaluation)

        def symbols(entry: Scored) -> Sequence[str]:
            return self.source.encode(entry.item.source).tokens

        return replace(facts, symbols=symbols, vocabulary=self.source.vocabulary)

    def items(self, pairs: Any) -> list[Item]:
        """Pairs grouped by input."""
        return group(pairs, normalise_source=self.source.normalisation, normalise_target=self.target.normalisation)

    @property
    def input_fields(self) -> tuple[str | int, ...]:
        fields = self.config.data.source_field
        return fields if isinstance(fields, tuple) else (fields,)

    def input_table(self, name: str, head: Sequence[str], *, is_table: bool = False) -> InputTable | None:
        """Pairs in columns, if the first lines have at least those of the training pairs; targets are not read."""
        data = self.config.data
        fields = (*self.input_fields, *(() if data.autoencode else (data.target_field,)))
        lines = [line for line in head if line.strip()]
        if by_suffix(Path(name)) is None and all(isinstance(field, int) for field in fields):
            for separator in (TAB, f" {BARS} "):
                counts = {line.count(separator) + 1 for line in lines}
                if len(lines) > 1 and len(counts) == 1 and counts.pop() > max(map(int, fields)) > 0:
                    return separated_table(head, separator, None, self.input_fields)
        return None

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
        """Draws alignments (`regard.viz.plot_alignment`), with `words` those of words (`by_words`)."""
        if words:
            predictions = [self.by_words(prediction) for prediction in predictions]
        return plot_alignment(
            predictions, path, title=title, data=data, heads=heads, highest=highest, end_symbol=end_symbol
        )

    def views(self, prediction: Prediction) -> Mapping[str, Mapping[str, Any]]:
        views = dict(super().views(prediction))
        merged = self.by_words(prediction)
        if views and (merged.tokens, merged.source_tokens) != (prediction.tokens, prediction.source_tokens):
            views["words"] = alignment_record(merged, heads=True)
        return views

    def by_words(self, prediction: Prediction) -> Prediction:
        """A prediction whose tokens and alignments are words and end symbols (`merge_words`, `Field.words`).

        Weights at blanks belong to no word, so rows may sum to less than before.
        """
        if prediction.alignment is None:
            return replace(prediction, alternatives=tuple(map(self.by_words, prediction.alternatives)))
        data = self.config.data
        source, columns = _in_words(
            self.source, prediction.source_tokens, has_begin=data.source_begin, has_end=data.source_end
        )
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

    def description(self) -> dict[str, Any]:
        return {
            "source": size_of_field(self.source, self.config.data.source.units),
            "target": size_of_field(self.target, self.config.data.target.units),
        }

    def _longest(self, decoding: DecodingConfig) -> int:
        """The most symbols of an input."""
        return decoding.max_source_length or MAX_SOURCE_RATIO * self.config.data.max_length

    def _source(self, text: str, encoding: Encoding) -> TextSource:
        spelling = Spelling.of(self.target)
        extension, content, unknown = None, encoding.ids, encoding.unknown
        if self.extended is not None:  # a pointer reads symbols besides ids
            extension = self.extended.extend(text) if encoding.tokens else Extension(encoding.ids, (), ())
            decode, tokens, ids = self.extended.decode, self.extended.tokens, self.extended.ids
            spelling = Spelling(
                partial(decode, extension=extension),
                partial(tokens, extension=extension),
                partial(ids, extension=extension),
            )
            symbols = "\n".join(encoding.tokens).encode("utf-8", "surrogatepass")
            content = np.frombuffer(symbols, np.uint8).astype(np.int64)
            if unknown:  # symbols that the pointer can copy need no warning
                fixed = (token for token, number in zip(encoding.tokens, extension.ids) if number == UNCOPYABLE)
                unknown = self.source.vocabulary.unknown(fixed)
        return TextSource(
            name=text,
            size=len(encoding.tokens),
            content=content,
            spelling=spelling,
            columns=[
                *[BEGIN] * self.config.data.source_begin,
                *encoding.tokens,
                *[END] * self.config.data.source_end,
            ],
            unknown=unknown,
            warnings=self._reasons(encoding, unknown, "input"),
            encoding=encoding,
            extension=extension,
        )

    def _reasons(self, encoding: Encoding, unknown: Sequence[str], side: str) -> tuple[str, ...]:
        """Why a text cannot be handled as it is."""
        if not encoding.tokens:
            return (encoding.refusal or f"the {side} is empty",)
        warnings: list[str] = []
        field, label, names = self.source, "", "symbols"
        if side != "input":
            field, label, names = self.target, f"{side}: ", f"symbols of the {side}"
        if unknown:
            warnings.append(unknown_symbols(unknown, f"{label}not in the training data, read as <unk>"))
        count, most = len(encoding.tokens), field.longest or self.config.data.max_length
        if count > most:
            warnings.append(longer_than_training(count, most, names))
        return tuple(warnings)


def _in_words(
    field: Field, tokens: Sequence[str], *, has_begin: bool = False, has_end: bool
) -> tuple[list[str], Tensor]:
    """The words of tokens, the end symbol last, and for each token the number of its word, -1 for the begin symbol."""
    words = field.words(tokens[has_begin : len(tokens) - has_end])
    numbers = torch.tensor([*[-1] * has_begin, *words.index.tolist(), *[len(words)] * has_end], dtype=torch.long)
    return [*words.texts, *[END] * has_end], numbers


def _capped(encoding: Encoding, longest: int, side: str = "input") -> Encoding:
    """The encoding, or a refusal of too many symbols: memory and time grow with the longest text of a batch."""
    count = len(encoding.tokens)
    if count <= longest:
        return encoding
    refusal = f"{count:,} symbols, but an {side} may have at most {longest:,} (max_source_length)"
    return Encoding(encoding.ids[:0], [], [], refusal)
