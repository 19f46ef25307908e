"""Labelled sentences: files with a token and its label per line, and what is learned from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config.tasks.labelling import LabellingData
from regard.data import Finding, Findings, Vocabulary
from regard.data.defects import item_or_defect
from regard.data.finding import NUM_EXAMPLES
from regard.data.lines import Lines
from regard.data.split import are_held_out
from regard.errors import DataError
from regard.tasks.trained_items import DataItem

FEW_SENTENCES = 200


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: a label for each token, and the file and line of the first."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    place: str


def read_sentences(path: Path | str, *, token_column: int = 0, label_column: int = -1) -> list[Sentence]:
    """The sentences of a file with one token per line.

    Args:
        token_column, label_column: counted from 0; -1 is the last.

    Raises:
        DataError: for a line without these columns, with file, line and what it has; for a file without sentences.
    """
    file = Lines(Path(path))
    lines: list[str | None] = [None] * len(file)
    for index in range(len(file)):
        with item_or_defect:
            lines[index] = file[index]
    separator = "\t" if any("\t" in line for line in lines if line) else None
    sentences: list[Sentence] = []
    tokens: list[tuple[str, str]] = []
    size = 0
    for number, line in enumerate([*lines, ""], start=1):
        if line is None or line.strip():
            size += 1
            with item_or_defect:
                if line is not None:
                    tokens.append(_token(line.split(separator), token_column, label_column, f"{path}:{number}"))
        elif size:
            if len(tokens) == size:  # a sentence with a line that cannot be read is left out
                words, labels = zip(*tokens)
                sentences.append(Sentence(words, labels, f"{path}:{number - size}"))
            tokens, size = [], 0
    if not sentences:
        raise DataError(f"{path}: the file has no sentences.")
    return sentences


def _token(columns: list[str], token_column: int, label_column: int, place: str) -> tuple[str, str]:
    for key, column in (("token_column", token_column), ("label_column", label_column)):
        if not -len(columns) <= column < len(columns) or (len(columns) < 2 and token_column != label_column):
            shown = ", ".join(map(repr, columns[:4]))
            raise DataError(f"{place}: {len(columns)} columns ({shown:.80}), but data.{key} is {column}.")
    token, label = columns[token_column].strip(), columns[label_column].strip()
    if not token or not label:
        raise DataError(f"{place}: the {'label' if token else 'token'} is empty.")
    return token, label


@dataclass(frozen=True, slots=True)
class LabellingMaterial:
    """Sentences, and what is learned from those of the training: tokens, characters and labels."""

    train: Sequence[Sentence]
    dev: Sequence[Sentence]
    tokens: Vocabulary
    characters: Vocabulary
    labels: Vocabulary


def read_material(data: LabellingData) -> LabellingMaterial:
    """Reads the sentences; without a file of held-out ones a hash of the text chooses them.

    Raises:
        DataError: for files that cannot be read, or without sentences on one of the sides.
    """
    columns = {"token_column": data.token_column, "label_column": data.label_column}
    train = read_sentences(data.train, **columns)
    if data.dev is not None:
        dev = read_sentences(data.dev, **columns)
    else:
        is_dev = are_held_out((" ".join(each.tokens) for each in train), data.dev_fraction)
        if is_dev.all() or not is_dev.any():
            held_out = "all" if is_dev.all() else "none"
            raise DataError(
                f"Of {len(train):,} sentences, data.dev_fraction={data.dev_fraction:g} holds out {held_out}.\n"
                "  Name a file of held-out sentences in data.dev."
            )
        train, dev = [[each for each, held in zip(train, is_dev) if held == side] for side in (False, True)]
    words = ([cased(token, data.case) for token in each.tokens] for each in train)
    return LabellingMaterial(
        train,
        dev,
        Vocabulary.build(words, min_count=data.min_count),
        Vocabulary.build(token for each in train for token in each.tokens),
        Vocabulary.build(each.labels for each in train),
    )


def data_item(sentence: Sentence) -> DataItem:
    """A sentence by which it is found again: its tokens and its labels."""
    return DataItem(sentence.place, "\t".join(sentence.tokens), ("\t".join(sentence.labels),))


def cased(token: str, case: str) -> str:
    """The token in the letter case of the vocabulary."""
    return token.lower() if case == "lower" else token


def check(material: LabellingMaterial, max_length: int) -> Findings:
    """Checks the sentences: their number, labels, lengths, and what is on both sides."""
    return Findings(tuple(_findings(material, max_length)))


def _findings(material: LabellingMaterial, max_length: int) -> Iterator[Finding]:
    count, labels = len(material.train), material.labels
    shown = ", ".join(labels.symbols[:10]) + ", …" * (len(labels.symbols) > 10)
    if len(labels.symbols) < 2:
        yield Finding("error", f"all tokens have the same label, {shown}", count)
    if all(len(each.tokens) > max_length for each in material.train):
        yield Finding("error", f"no sentence has at most data.max_length={max_length} tokens", count)
    if unknown := [each for each in material.dev if labels.unknown(each.labels)]:
        names = ", ".join(sorted({name for each in unknown for name in labels.unknown(each.labels)}))
        yield _about(f"sentences with labels that the training lacks ({names})", unknown)
    if count < FEW_SENTENCES:
        yield Finding("warning", f"{count:,} training sentences are too few to learn much from", count)
    if long := [each for each in material.train if len(each.tokens) > max_length]:
        yield _about(f"sentences of more than {max_length} tokens are left out of the training", long)
    trained = {each.tokens for each in material.train}
    if both := [each for each in material.dev if each.tokens in trained]:
        yield _about("held-out sentences are in the training, too", both)
    tokens = sum(len(each.tokens) for each in material.train)
    yield Finding("info", f"{count:,} sentences, {tokens:,} tokens; {len(labels.symbols)} labels: {shown}", count)


def _about(text: str, sentences: Sequence[Sentence]) -> Finding:
    places = tuple(each.place for each in sentences[:NUM_EXAMPLES])
    return Finding("warning", f"{len(sentences):,} {text}", len(sentences), places)
