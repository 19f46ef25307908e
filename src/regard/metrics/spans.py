"""Spans in the labels of tokens, such as names and chunks: schemes of labels, precision, recall and F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from regard.errors import RegardError

Span = tuple[str, int, int]
"""The type of a span, the index of its first token, and the index after its last one."""

SEPARATORS = "-_:/|."
OUTSIDE = "O"
UNTYPED = "_"
"""The type of spans whose labels are only positions: `B`, `I`."""
TITLES = {
    "bio": "BIO (IOB2)", "iob1": "IOB1", "ioe1": "IOE1", "ioe2": "IOE2", "bioes": "BIOES (IOBES)", "bmes": "BMES",
    "bilou": "BILOU",
}  # fmt: skip
ALIASES = {"iob2": "bio", "iobes": "bioes"}
LETTERS = {
    "bio": "BI", "iob1": "BI", "ioe1": "IE", "ioe2": "IE", "bioes": "BIES", "bmes": "BMESW", "bilou": "BILU",
}  # fmt: skip
"""The positions of each scheme, without `O`."""
POSITIONS = frozenset(OUTSIDE).union(*LETTERS.values())
COMMON = {"M": "I", "L": "E", "U": "S", "W": "S"}
"""Positions that have another letter in BIOES."""


@dataclass(frozen=True, slots=True)
class SpanScheme:
    """The form of labels of spans: `B-PER I-PER`, `PER_B PER_E`, `B I I`.

    Args:
        name: bio (the same as iob2): `B` begins a span, `I` continues it. iob1: `B` begins a span after another one of
            its type, `I` all others. ioe2: `E` ends a span. ioe1: `E` only before another span of its type. bioes
            (iobes): `B`, `I`, `E`, and `S` for a single token. bmes: the same with `M` for `I`. bilou: the same with
            `L` for `E` and `U` for `S`.
        separator: between position and type.
        is_suffix: whether the position comes last, as in `PER-B`.

    >>> scheme = SpanScheme("bioes")
    >>> sorted(scheme.spans(["B-PER", "E-PER", "O", "S-LOC", "I-LOC"]))
    [('LOC', 3, 4), ('LOC', 4, 5), ('PER', 0, 2)]
    >>> sorted(scheme.spans(["B-PER", "E-PER", "O", "S-LOC", "I-LOC"], strict=True))
    [('LOC', 3, 4), ('PER', 0, 2)]
    """

    name: str
    separator: str = "-"
    is_suffix: bool = False

    def __post_init__(self) -> None:
        if self.name not in {*TITLES, *ALIASES}:
            raise RegardError(f"There is no scheme {self.name!r}; there are {', '.join([*TITLES, *ALIASES])}.")
        object.__setattr__(self, "name", ALIASES.get(self.name, self.name))

    def __str__(self) -> str:
        return f"{TITLES[self.name]}, {self.label('X')}"

    def label(self, kind: str) -> str:
        """A label of this type."""
        position = LETTERS[self.name][0]
        if kind == UNTYPED:
            return position
        return f"{kind}{self.separator}{position}" if self.is_suffix else f"{position}{self.separator}{kind}"

    def parse(self, label: str) -> tuple[str, str] | None:
        """Position and type of a label; None if it has no position of any scheme."""
        if label.upper() == OUTSIDE:
            return OUTSIDE, ""
        if len(label) == 1:
            position, kind = label, UNTYPED
        elif self.is_suffix:
            kind, _, position = label.rpartition(self.separator)
        else:
            position, _, kind = label.partition(self.separator)
        position = position.upper()
        if not kind or position not in POSITIONS:
            return None
        return (OUTSIDE, "") if position == OUTSIDE else (position, kind)

    def spans(self, labels: Sequence[str], *, strict: bool = False) -> set[Span]:
        """The spans of a sentence.

        Without `strict` every token with a position belongs to one, as in the evaluation of CoNLL 2000 (`conlleval`):
        a span ends before `O`, before another type, before `B` and `S`, and after `E` and `S`. With `strict` only valid
        spans of the scheme count: in BIO `I-PER I-PER` is none, as it has no `B`.

        Source: the default and the strict mode of seqeval 1.2.2, whose strict mode misses a span of one token in IOE1
        before another of its type.
        """
        tags = [self._tag(label) for label in labels]
        tags = [(OUTSIDE, ""), *tags, (OUTSIDE, "")]
        bounds = [i for i in range(1, len(tags)) if self._breaks(tags, i, strict=strict)]
        return {
            (tags[begin][1], begin - 1, end - 1)
            for begin, end in pairwise(bounds)
            if tags[begin][0] != OUTSIDE and (not strict or self._is_valid(tags, begin, end))
        }

    def _tag(self, label: str) -> tuple[str, str]:
        position, kind = self.parse(label) or (OUTSIDE, "")
        return COMMON.get(position, position), kind

    def _breaks(self, tags: Sequence[tuple[str, str]], i: int, *, strict: bool) -> bool:
        """Whether a span may begin at this tag, or end before it."""
        (before, kind_before), (position, kind) = tags[i - 1], tags[i]
        if before == OUTSIDE or position in ("O", "B", "S") or before in ("E", "S") or kind != kind_before:
            return True
        # in IOB1 a `B` is valid only after a span of its type
        return strict and self.name == "iob1" and before == "B" and tags[i - 2][1] != kind

    def _is_valid(self, tags: Sequence[tuple[str, str]], begin: int, end: int) -> bool:
        """Whether these tags are a valid span of the scheme."""
        (first, kind), last, length = tags[begin], tags[end - 1][0], end - begin
        (before, kind_before), (after, kind_after) = tags[begin - 1], tags[end]
        if self.name == "bio":
            return first == "B"
        if self.name == "ioe2":
            return last == "E"
        if self.name == "iob1":
            follows = first == "I" or kind_before == kind
            return follows and not (last == "B" and after == "B" and kind_after != kind)
        if self.name == "ioe1":
            precedes = last == "I" or kind_after == kind
            return precedes and not (first == "E" and before == "E" and kind_before != kind)
        return first == last == "S" if length == 1 else first == "B" and last == "E"


@dataclass(frozen=True, slots=True)
class SpanScores:
    """Counts of spans by type, and their rates, which are 0 without spans.

    Args:
        correct: spans of the outputs that are in the references, with the same type and ends.
        predicted: spans of the outputs.
        support: spans of the references.
    """

    correct: Mapping[str, int]
    predicted: Mapping[str, int]
    support: Mapping[str, int]

    @property
    def types(self) -> list[str]:
        """The types that occur, in order."""
        return sorted({*self.predicted, *self.support})

    def figures(self, kind: str | None = None) -> dict[str, float]:
        """Precision, recall and F1 of one type, or of all spans together (micro)."""
        correct, predicted, support = (
            sum(counts.values()) if kind is None else counts.get(kind, 0)
            for counts in (self.correct, self.predicted, self.support)
        )
        return {
            "precision": correct / predicted if predicted else 0.0,
            "recall": correct / support if support else 0.0,
            "f1": 2 * correct / (predicted + support) if predicted + support else 0.0,
        }


def score_spans(outputs: Iterable[set[Span]], references: Iterable[set[Span]]) -> SpanScores:
    """The scores of the spans of sentences.

    >>> score_spans([{("PER", 0, 2), ("LOC", 3, 4)}], [{("PER", 0, 2)}]).figures()
    {'precision': 0.5, 'recall': 1.0, 'f1': 0.6666666666666666}
    """
    correct, predicted, support = Counter[str](), Counter[str](), Counter[str]()
    for output, reference in zip(outputs, references, strict=True):
        correct.update(kind for kind, *_ in output & reference)
        predicted.update(kind for kind, *_ in output)
        support.update(kind for kind, *_ in reference)
    return SpanScores(correct, predicted, support)


@dataclass(frozen=True, slots=True)
class RecognisedScheme:
    """The scheme of the labels of sentences.

    Args:
        scheme: None if the labels are not those of spans.
        others: labels without a position, if most have one.
        types: the types of the spans.
        num_spans: the number of spans.
        num_invalid: those that are not valid in the scheme.
    """

    scheme: SpanScheme | None
    others: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    num_spans: int = 0
    num_invalid: int = 0


def recognise_scheme(sentences: Iterable[Sequence[str]], name: str | None = None) -> RecognisedScheme:
    """The scheme of labels by their positions; of BIO and IOB1, and of IOE2 and IOE1, the one with more valid spans.

    Args:
        sentences: the labels of each sentence.
        name: the scheme, if it is known; labels without a position are then outside of spans.

    >>> recognise_scheme([["B_PER", "I_PER", "O", "B_LOC"]]).scheme
    SpanScheme(name='bio', separator='_', is_suffix=False)
    >>> recognise_scheme([["DET", "NOUN", "VERB"]]).scheme is None
    True
    """
    sentences = list(sentences)
    labels = sorted({label for sentence in sentences for label in sentence if label.upper() != OUTSIDE})
    forms = [SpanScheme(name or "bio", separator, side) for side in (False, True) for separator in SEPARATORS]
    form = max(forms, key=lambda form: sum(form.parse(label) is not None for label in labels))
    tags = {label: tag for label in labels if (tag := form.parse(label)) is not None}
    others = tuple(label for label in labels if label not in tags)
    if name is not None:
        return _recognised(form, sentences, others)
    is_typed = any(kind != UNTYPED for _, kind in tags.values())
    names = _names({position for position, _ in tags.values()} - {OUTSIDE}, is_typed=is_typed)
    if others or not names:
        return RecognisedScheme(None, others if names and is_typed and len(others) <= len(tags) else ())
    candidates = (replace(form, name=each) for each in names)
    return min((_recognised(scheme, sentences) for scheme in candidates), key=lambda each: each.num_invalid)


def _names(positions: set[str], *, is_typed: bool) -> tuple[str, ...]:
    """The schemes with these positions, the likeliest first.

    Without types, single letters are often other labels: they must be `I`, or `B` with others.
    """
    is_usual = positions == {"I"} or ("B" in positions and not positions.isdisjoint("IMEL"))
    if not positions or not (is_typed or is_usual):
        return ()
    pairs = (("bio", "iob1"), ("ioe2", "ioe1"), ("bioes",), ("bmes",), ("bilou",))
    return next((names for names in pairs if positions <= {*LETTERS[names[0]]}), ())


def _recognised(
    scheme: SpanScheme, sentences: Sequence[Sequence[str]], others: tuple[str, ...] = ()
) -> RecognisedScheme:
    spans = [scheme.spans(labels) for labels in sentences]
    invalid = sum(len(all_spans - scheme.spans(labels, strict=True)) for all_spans, labels in zip(spans, sentences))
    types = sorted({kind for all_spans in spans for kind, *_ in all_spans})
    return RecognisedScheme(scheme, others, tuple(types), sum(map(len, spans)), invalid)
