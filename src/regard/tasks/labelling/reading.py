"""Reads and checks labelled sentences, a token with its label per line, and learns their vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data import Finding, Findings
from regard.data.defects import item_or_defect
from regard.data.finding import NUM_EXAMPLES, too_few
from regard.data.lines import Lines
from regard.data.split import held_out_indices
from regard.data.text import Vocabulary
from regard.errors import DataError, counted, first_of
from regard.metrics import RecognisedScheme, recognise_scheme
from regard.metrics.spans import TITLES
from regard.runs.trained_items import DataItem
from regard.tasks.labelling.columns import INVISIBLE, Columns, Sentence
from regard.tasks.labelling.config import LabellingData

FEW_SENTENCES = 200
NO_SPANS = RecognisedScheme(None)


def read_sentences(path: Path | str, **options: Any) -> list[Sentence]:
    """The sentences of a file with one token per line.

    Args:
        options: `format`, `token_column` and `label_column`, as in the configuration's `data`.

    Raises:
        ConfigError: for the name of a column in a file that is not CoNLL-U.
        DataError: for a line without these columns, with file, line and the columns that it has; for a file without
            sentences or labels.
    """
    return _read(path, options)[1]


def form_options(data: LabellingData) -> dict[str, Any]:
    """The keys of a configuration that describe the form of files."""
    return data.model_dump(include={"format", "token_column", "label_column"})


def _read(path: Path | str, options: Mapping[str, Any]) -> tuple[Columns, list[Sentence]]:
    file = Lines(Path(path))
    lines: list[str | None] = [None] * len(file)
    for index in range(len(file)):
        with item_or_defect:
            lines[index] = file[index]
    columns = Columns.of((line for line in lines if line is not None), Path(path), **options)
    sentences = list(columns.read(lines, str(path)))
    if not sentences:
        raise DataError(f"{path}: the file has no sentences.")
    if not any(label for each in sentences for label in each.labels):
        raise DataError(f"{path}: no token has a label ({columns}); name the column in data.label_column.")
    return columns, sentences


@dataclass(frozen=True, slots=True)
class LabellingMaterial:
    """Sentences, and the vocabularies of the training sentences: tokens, characters and labels.

    Args:
        spans: the scheme of the labels that mark spans.
        form: the form of the training file, in words.
    """

    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    tokens: Vocabulary
    characters: Vocabulary
    labels: Vocabulary
    spans: RecognisedScheme = NO_SPANS
    span_scheme: str | None = None
    form: str = ""


def read_material(data: LabellingData) -> LabellingMaterial:
    """Reads the sentences; without a held-out file a hash of the text chooses the held-out sentences."""
    options = form_options(data)
    columns, train = _read(data.train, options)
    every = train
    if data.dev is not None:
        dev = read_sentences(data.dev, **options)
    else:
        texts, advice = (" ".join(each.tokens) for each in train), "Name a file of held-out sentences in data.dev."
        parts = held_out_indices(texts, data.dev_fraction, what="sentence|sentences", advice=advice)
        train, dev = ([every[i] for i in part] for part in parts)
    words = ([cased(token, data.case) for token in each.tokens] for each in train)
    return LabellingMaterial(
        train,
        dev,
        Vocabulary.build(words, min_count=data.min_count),
        Vocabulary.build(token for each in train for token in each.tokens),
        Vocabulary.build([label for label in each.labels if label] for each in train),
        scheme_of([each.labels for each in every], data.span_scheme),
        data.span_scheme,
        str(columns),
    )


def scheme_of(sentences: Sequence[Sequence[str]], name: str | None) -> RecognisedScheme:
    """The scheme of labels that mark spans, as the configuration's `data.span_scheme` names it."""
    labelled = [[label for label in labels if label] for labels in sentences]
    return NO_SPANS if name == "none" else recognise_scheme(labelled, name)


def data_item(sentence: Sentence) -> DataItem:
    """A sentence as an item of the record of trained items: its tokens and its labels."""
    return DataItem(sentence.place, "\t".join(sentence.tokens), ("\t".join(sentence.labels),))


def cased(token: str, case: str) -> str:
    """The token in the letter case of the vocabulary."""
    return token.lower() if case == "lower" else token


def check(material: LabellingMaterial, max_length: int) -> Findings:
    """Checks the sentences: their number, labels and lengths."""
    return Findings(tuple(_findings(material, max_length)))


def _findings(material: LabellingMaterial, max_length: int) -> Iterator[Finding]:
    count, labels = len(material.train), material.labels
    shown = first_of(labels.symbols, 10)
    if len(labels.symbols) < 2:
        yield Finding("error", f"all tokens have the same label, {shown}", count)
    if all(len(each.tokens) > max_length for each in material.train):
        yield Finding("error", f"no sentence has at most data.max_length={max_length} tokens", count)
    if unknown := [each for each in material.dev if _unknown(labels, each)]:
        names = ", ".join(sorted({name for each in unknown for name in _unknown(labels, each)}))
        yield _about("sentence|sentences of dev has|have labels that the training lacks", unknown, names)
    if labels.symbols and not any(label in labels for each in material.dev for label in each.labels):
        yield Finding("error", "no held-out token has a label of the training", len(material.dev))
    yield from too_few(count, 0, "sentence|sentences", least=(FEW_SENTENCES, 0))
    if long := [each for each in material.train if len(each.tokens) > max_length]:
        yield _about(f"sentence|sentences of more than {max_length} tokens is|are left out of the training", long)
    if hidden := [each for each in material.train if not {*INVISIBLE}.isdisjoint("".join(each.tokens))]:
        characters = ", ".join(
            f"U+{ord(each):04X}" for each in INVISIBLE if any(each in "".join(s.tokens) for s in hidden)
        )
        yield _about("sentence|sentences has|have tokens with invisible characters", hidden, characters)
    if partial := [each for each in material.train if "" in each.labels]:
        yield _about(
            "training sentence|sentences has|have tokens without a label, from which nothing is learned", partial
        )
    yield from _span_findings(material.spans, material.span_scheme)
    tokens = sum(len(each.tokens) for each in material.train)
    yield Finding(
        "info",
        f"train has {counted(count, 'sentence|sentences')}, {counted(tokens, 'token|tokens')}; "
        f"{counted(len(labels.symbols), 'label|labels')}: {shown}",
        count,
    )
    if material.form:
        yield Finding("info", f"lines have {material.form}", count)


def _span_findings(spans: RecognisedScheme, name: str | None) -> Iterator[Finding]:
    """Findings about spans, for a configuration that names a scheme, `none`, or leaves it open."""
    scheme, others = spans.scheme, first_of(spans.others)
    if name == "none":
        return
    if scheme is None and not spans.others:
        yield Finding("info", "the labels do not mark spans, so there is no span_f1", 0)
    elif scheme is None:
        text = (
            f"most labels mark spans, but {counted(len(spans.others), 'label|labels has|have')} no position "
            f"({others}), so there is no span_f1; a scheme in data.span_scheme counts them as tokens outside spans"
        )
        yield Finding("warning", text, len(spans.others))
    elif not spans.types:
        yield Finding("error", f"data.span_scheme is {name}, but no label is like {scheme.label('X')}", 0)
    else:
        types = first_of(spans.types, 10)
        chosen = "data.span_scheme" if name else "recognised from the labels"
        shown = f"{TITLES[scheme.name]}, {scheme.label(spans.types[0])}, {chosen}"
        text = (
            f"{counted(spans.num_spans, 'span|spans')} of {counted(len(spans.types), 'type|types')} ({types}): {shown}"
        )
        yield Finding("info", text, spans.num_spans)
        if spans.others:
            yield Finding(
                "info",
                f"{counted(len(spans.others), 'label|labels has|have no position and marks|mark no span')} ({others})",
                0,
            )
        if spans.num_invalid:
            text = (
                f"{counted(spans.num_invalid, f'of {spans.num_spans:,} spans is|are')} not written as "
                f"{TITLES[scheme.name]} demands: counted for span_f1, but not for span_f1_strict"
            )
            yield Finding("warning", text, spans.num_invalid)


def _unknown(labels: Vocabulary, sentence: Sentence) -> list[str]:
    return labels.unknown(label for label in sentence.labels if label)


def _about(text: str, sentences: Sequence[Sentence], shown: str = "") -> Finding:
    places = tuple(each.place for each in sentences[:NUM_EXAMPLES])
    return Finding("warning", counted(len(sentences), text) + f": {shown}" * bool(shown), len(sentences), places)
