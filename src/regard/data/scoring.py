"""How far outputs are from their references.

An item has one output and one or more references; it is right when the output equals any of them. Outputs and
references are sequences of symbols, such as `Field.split` gives.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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
    places: dict[Hashable, int] = {}
    for i, symbol in enumerate(first):
        places[symbol] = places.get(symbol, 0) | 1 << i
    full = (1 << len(first)) - 1
    last = 1 << (len(first) - 1)
    rises, falls, distance = full, 0, len(first)  # vertical steps of +1 and −1 in a column of the table
    for symbol in second:
        equal = places.get(symbol, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        rises_across = falls | ~(diagonal | rises) & full
        falls_across = diagonal & rises
        distance += bool(rises_across & last) - bool(falls_across & last)
        rises_across = rises_across << 1 | 1
        rises = (falls_across << 1 | ~(diagonal | rises_across)) & full
        falls = rises_across & diagonal & full
    return distance


def symbol_errors(output: Symbols, references: Sequence[Symbols]) -> tuple[int, int]:
    """The least edit distance over the references, and that reference's length (of equally near ones the longest).

    >>> symbol_errors("abc", ["abd", "xyz"])
    (1, 3)
    """
    distance, length = min((edit_distance(reference, output), -len(reference)) for reference in references)
    return distance, -length


def symbol_error_rate(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> float:
    """Edit distances to the nearest references over the lengths of those references, both summed over the items.

    With phones as symbols this is the phone error rate, with words the word error rate of sentences, with the
    characters of texts the character error rate. It can exceed 1, and is infinite where all references are empty
    and an output is not.

    >>> symbol_error_rate(["ab", "x"], [["abc"], ["x", "y"]])
    0.25
    """
    _check(outputs, references)
    errors = [symbol_errors(output, given) for output, given in zip(outputs, references)]
    distance, length = sum(e[0] for e in errors), sum(e[1] for e in errors)
    return distance / length if length else (float("inf") if distance else 0.0)


def sequence_accuracy(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> float:
    """The share of items whose output equals any of their references.

    >>> sequence_accuracy(["ab", "x"], [["abc"], ["y", "x"]])
    0.5
    """
    _check(outputs, references)
    right = sum(any(tuple(output) == tuple(one) for one in given) for output, given in zip(outputs, references))
    return right / len(outputs)


def sequence_error_rate(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> float:
    """The share of items whose output equals none of their references; for words to phones, the word error rate."""
    return 1 - sequence_accuracy(outputs, references)


def character_error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """`symbol_error_rate` of the characters of texts.

    >>> character_error_rate(["holle"], [["hello"]])
    0.4
    """
    return symbol_error_rate(outputs, references)


def _equal(first: Hashable, second: Hashable) -> bool:
    return first == second


def _check(outputs: Sequence[Symbols], references: Sequence[Sequence[Symbols]]) -> None:
    if len(outputs) != len(references) or not outputs:
        raise RegardError(
            f"A rate needs as many outputs as items, and at least one; got {len(outputs)} outputs and "
            f"the references of {len(references)} items."
        )
    if isinstance(references, str) or any(isinstance(given, str) for given in references):
        raise RegardError("The references of an item are a list, also when there is one: [['a b'], ['c']].")
    missing = next((i for i, given in enumerate(references) if not given), None)
    if missing is not None:
        raise RegardError(f"Item {missing} has no reference.")
