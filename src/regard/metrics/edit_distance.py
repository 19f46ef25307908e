"""Distances of outputs from their references.

An item has one output and one or more references, and is correct if the output equals one of them. Outputs and
references are sequences of symbols, as from `Field.split`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypedDict

from regard.errors import RegardError

Symbols = Sequence[Hashable]


def edit_distance(first: Symbols, second: Symbols) -> int:
    """The least number of insertions, deletions and substitutions that turn one sequence into the other.

    Cost: one pass over `second` with bit operations on integers of `len(first)` bits.

    Source: Myers 1999, A fast bit-vector algorithm for approximate string matching; in the form of Hyyrö 2003.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not first or not second:
        return len(first) + len(second)
    occurrences: dict[Hashable, int] = {}
    for i, symbol in enumerate(first):
        occurrences[symbol] = occurrences.get(symbol, 0) | 1 << i
    full = (1 << len(first)) - 1
    last = 1 << (len(first) - 1)
    rises, falls, distance = full, 0, len(first)  # vertical steps of +1 and −1 in a column of the table
    for symbol in second:
        equal = occurrences.get(symbol, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        rises_across = falls | ~(diagonal | rises) & full
        falls_across = diagonal & rises
        distance += bool(rises_across & last) - bool(falls_across & last)
        rises_across = rises_across << 1 | 1
        rises = (falls_across << 1 | ~(diagonal | rises_across)) & full
        falls = rises_across & diagonal & full
    return distance


def symbol_errors(output: Symbols, references: Sequence[Symbols]) -> tuple[int, int]:
    """The least edit distance to a reference, and the length of that reference (the longest of equally near ones).

    >>> symbol_errors("abc", ["abd", "xyz"])
    (1, 3)
    """
    distance, length = min((edit_distance(reference, output), -len(reference)) for reference in references)
    return distance, -length


def differences(output: Symbols, reference: Symbols) -> list[tuple[Hashable | None, Hashable | None]]:
    """The symbols that differ along a shortest edit path: (reference, output), None where one of them has none.

    >>> differences("sitting", "kitten")
    [('k', 's'), ('e', 'i'), (None, 'g')]
    """
    pairs = [
        (None if i is None else reference[i], None if j is None else output[j]) for i, j in edit_path(output, reference)
    ]
    return [pair for pair in pairs if pair[0] != pair[1]]


def edit_path(output: Symbols, reference: Symbols) -> list[tuple[int | None, int | None]]:
    """The places of the symbols along a shortest edit path: (reference, output), None where one of them has none.

    >>> edit_path("abd", "acbd")
    [(0, 0), (1, None), (2, 1), (3, 2)]
    """
    width = len(output) + 1
    table = [list(range(width))]
    for i, symbol in enumerate(reference, start=1):
        row, above = [i], table[-1]
        for j, other in enumerate(output, start=1):
            row.append(min(above[j - 1] + (symbol != other), above[j] + 1, row[-1] + 1))
        table.append(row)
    path: list[tuple[int | None, int | None]] = []
    i, j = len(reference), len(output)
    while i or j:
        if i and j and table[i][j] == table[i - 1][j - 1] + (reference[i - 1] != output[j - 1]):
            i, j = i - 1, j - 1
            path.append((i, j))
        elif i and table[i][j] == table[i - 1][j] + 1:
            i -= 1
            path.append((i, None))
        else:
            j -= 1
            path.append((None, j))
    return path[::-1]


def symbol_error_rate(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> float:
    """Edit distances to the nearest references over the lengths of those references, both summed over the items.

    With phones as symbols this is the phone error rate, with words the word error rate of sentences, and of texts the
    character error rate. It can exceed 1, and is infinite if all references are empty and an output is not.

    >>> symbol_error_rate(["ab", "x"], [["abc"], ["x", "y"]])
    0.25
    """
    check_outputs(outputs, references)
    errors = [symbol_errors(*item) for item in zip(outputs, references)]
    distance, length = sum(pair[0] for pair in errors), sum(pair[1] for pair in errors)
    return distance / length if length else (float("inf") if distance else 0.0)


def sequence_accuracy(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> float:
    """The share of items whose output equals one of their references.

    >>> sequence_accuracy(["ab", "x"], [["abc"], ["y", "x"]])
    0.5
    """
    check_outputs(outputs, references)
    correct = sum(tuple(output) in map(tuple, targets) for output, targets in zip(outputs, references))
    return correct / len(outputs)


def sequence_error_rate(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> float:
    """The share of items whose output equals none of their references: for words to phones, the word error rate."""
    return 1 - sequence_accuracy(outputs, references)


class ExpressionRates(TypedDict):
    """Shares of expressions with at most 0, 1, 2 and 3 errors, and the symbol error rate."""

    exact: float
    within_1: float
    within_2: float
    within_3: float
    symbol_error_rate: float


def expression_rates(
    candidates: Sequence[str | Symbols], references: Sequence[Sequence[str | Symbols]]
) -> ExpressionRates:
    """The shares of formulas with at most 0, 1, 2 and 3 errors, and the symbol error rate.

    An error is an insertion, deletion or substitution of a symbol, as in papers that compare LaTeX. The CROHME
    competitions compare graphs of symbols and relations instead, which do not depend on the order of symbols. Of
    several references the nearest counts.

    Args:
        candidates: the formulas: texts with spaces between symbols, or symbols.
        references: one or more of each item.

    Raises:
        RegardError: as `symbol_error_rate`.

    Source: Mouchère et al. 2014, ICFHR 2014 Competition on Recognition of On-line Handwritten Mathematical Expressions.

    >>> expression_rates(["x ^ { 2 }", "a + b"], [["x ^ { 2 }"], ["a - c"]])  # doctest: +NORMALIZE_WHITESPACE
    {'exact': 0.5, 'within_1': 0.5, 'within_2': 1.0, 'within_3': 1.0, 'symbol_error_rate': 0.25}
    """
    check_outputs(candidates, references)
    outputs = [_symbols(one) for one in candidates]
    targets = [[_symbols(one) for one in several] for several in references]
    errors = [symbol_errors(*item)[0] for item in zip(outputs, targets)]
    shares = [sum(count <= most for count in errors) / len(errors) for most in range(4)]
    return ExpressionRates(
        exact=shares[0],
        within_1=shares[1],
        within_2=shares[2],
        within_3=shares[3],
        symbol_error_rate=symbol_error_rate(outputs, targets),
    )


def _symbols(expression: str | Symbols) -> Symbols:
    return expression.split() if isinstance(expression, str) else expression


def check_outputs(outputs: Sequence[Any], references: Sequence[Sequence[Any]], item: str = "item") -> None:
    """Checks that there is an output for each item, and that each has a list of references.

    Raises:
        RegardError: otherwise, naming the first item without references.
    """
    if isinstance(outputs, str):
        raise RegardError(f"The outputs must be a list with one for each {item}; got a single text.")
    check_references(references, item)
    if len(outputs) != len(references) or not outputs:
        raise RegardError(
            f"Scores need the same number of outputs and {item}s, at least one; got {len(outputs)} outputs and "
            f"the references of {len(references)} {item}s."
        )


def check_references(references: Sequence[Sequence[Any]], item: str) -> None:
    """Checks that each item has a list of references.

    Raises:
        RegardError: otherwise, naming the first item without references.
    """
    if isinstance(references, str) or any(isinstance(texts, str) for texts in references):
        raise RegardError(f"The references of an {item} must be a list, even a single one: [['a b'], ['c']].")
    empty = next((i for i, texts in enumerate(references) if not len(texts)), None)
    if empty is not None:
        raise RegardError(f"{item.capitalize()} {empty} has no reference; every {item} needs at least one.")
