"""Files with a token per line as inputs of predictions, and predictions in their form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from regard.data.input_rows import InputRow, InputTable
from regard.data.table_rows import TAB
from regard.data.text import Vocabulary
from regard.tasks.labelling.columns import (
    CONLLU,
    UNANNOTATED,
    Columns,
    Sentence,
    TokenText,
    is_blank,
    recognised_format,
)
from regard.tasks.labelling.config import LabellingData
from regard.tasks.labelling.evaluation import Labelling

FORMATS = ("conll", "conllu")
SUFFIXES = (
    ".conll", ".conllu", ".conll03", ".conll2003", ".iob", ".iob1", ".iob2", ".bio", ".bioes", ".bilou", ".bmes",
)  # fmt: skip
"""Files that have a token per line, whatever their content."""
OTHER_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv")
"""Files of another form."""
PLACEHOLDERS = frozenset({UNANNOTATED, "-", "?", "O"})
"""Contents of the column of the label for an unknown label."""


def input_table(
    name: str, head: Sequence[str], data: LabellingData, labels: Vocabulary, *, is_table: bool
) -> InputTable | None:
    """The reader of a file with a token per line; None for a file of another form.

    The form is recognised by the suffix, as CoNLL-U, by labels at least half of which the model knows, or by lines in
    blocks with the same number of columns. A file without labels of the model has no column of labels, and predictions
    add one.
    """
    path, filled = Path(name), [line for line in head if not is_blank(line)]
    format = recognised_format(filled, path)
    if data.format != "auto" and (is_table or (format != "conllu" and data.format != "conllu")):
        format = data.format
    columns = Columns.of(
        head,
        path,
        format=format,
        **{
            key: column if format == "conllu" or isinstance(column, int) else None
            for key, column in (("token_column", data.token_column), ("label_column", data.label_column))
        },
    )
    rows = columns.token_rows(head)
    values = [columns.label_of(row) for row in rows]
    has_labels = 2 * sum(value in labels or value in PLACEHOLDERS for value in values) >= max(len(values), 1)
    is_named = is_table or path.suffix.lower() in SUFFIXES or format == "conllu"
    if not is_named and (path.suffix.lower() in OTHER_SUFFIXES or not (has_labels or _are_tokens(columns, rows, head))):
        return None
    if format != "conllu" and not has_labels:
        columns = replace(columns, label=columns.width)

    def read(lines: Iterable[str], name: str) -> Iterator[InputRow]:
        for sentence in columns.read(lines, name, labelled=False, keep=True):
            yield InputRow(sentence.place, TokenText(sentence.tokens), (columns, sentence))

    shown = str(columns) if has_labels or format == "conllu" else f"{columns}, which is added"
    return InputTable(f"sentences with a token per line, {shown}", read, "conllu" if format == "conllu" else "conll")


def _are_tokens(columns: Columns, rows: Sequence[Sequence[str]], lines: Sequence[str]) -> bool:
    """Whether lines without known labels are tokens rather than sentences: blocks with a constant number of columns."""
    blank = [is_blank(line) for line in lines]
    ends = sum(is_end and not after for is_end, after in pairwise(blank))
    with_spaces = sum(" " in row[columns.token] for row in rows if -len(row) <= columns.token < len(row))
    return ends > 0 and len(rows) > ends + 1 and len({len(row) for row in rows}) == 1 and 2 * with_spaces < len(rows)


def formatted(
    prediction: Labelling,
    kept: tuple[Columns, Sentence] | None,
    format: str,
    data: LabellingData,
    *,
    scores: bool,
    confidence: bool,
) -> str:
    """A sentence in the lines of `conll` or `conllu`: the lines of the input with new labels, or new lines.

    Args:
        kept: the form and the sentence of an input with a token per line.
        scores, confidence: whether each token has the probability and the confidence of its label: in a further
            column, or in `misc` of CoNLL-U.
    """
    columns, sentence = kept if kept is not None else (None, None)
    if columns is not None and sentence is not None and (columns.format == "conllu") == (format == "conllu"):
        lines, rows, end = columns.filled(sentence, prediction.labels), sentence.rows, ""
    else:
        pairs = list(zip(prediction.tokens, prediction.labels))
        lines = _conllu(pairs, data) if format == "conllu" else [f"{token}{TAB}{label}" for token, label in pairs]
        rows, end = tuple(range(len(lines) - len(pairs), len(lines))), "\n"
    shown = {"Probability": prediction.probabilities} if scores else {}
    for name, values in (shown | ({"Confidence": prediction.confidences} if confidence else {})).items():
        for row, value in zip(rows, values, strict=True):
            lines[row] = _scored(lines[row], name, f"{value:.4f}", format)
    return "\n".join(lines) + end


def _conllu(pairs: Sequence[tuple[str, str]], data: LabellingData) -> list[str]:
    """Lines of CoNLL-U with only tokens and their labels."""
    column = data.label_column if isinstance(data.label_column, str) else "upos"
    lines = [f"# text = {' '.join(token for token, _ in pairs)}"]
    for number, (token, label) in enumerate(pairs, start=1):
        cells = {"id": str(number), "form": token, column: label}
        lines.append(TAB.join(cells.get(name, UNANNOTATED) for name in CONLLU))
    return lines


def _scored(line: str, name: str, value: str, format: str) -> str:
    if format == "conll":
        return f"{line}{TAB if TAB in line else ' '}{value}"
    *cells, misc = line.split(TAB)
    return TAB.join([*cells, f"{name}={value}" if misc == UNANNOTATED else f"{misc}|{name}={value}"])
