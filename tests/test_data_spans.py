"""Spans of labels: the schemes, how they are recognised, and what seqeval finds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import get_args

import pytest

from regard.errors import RegardError
from regard.metrics import SpanScheme, recognise_scheme, score_spans
from regard.metrics.spans import ALIASES, LETTERS, TITLES
from regard.tasks.labelling.config import SchemeName

Spans = set[tuple[str, int, int]]
GOLDEN = json.loads(Path(__file__).with_name("golden").joinpath("seqeval/spans.json").read_text(encoding="utf-8"))
CASES = {
    "bio with _": (SpanScheme("bio", "_"), "BI"),
    "bioes at the end": (SpanScheme("bioes", "-", is_suffix=True), "BIES"),
    **{name: (SpanScheme(name), letters.replace("W", "")) for name, letters in LETTERS.items()},
}
FORMS = [(separator, is_suffix) for separator in "-_" for is_suffix in (False, True)]


def drawn(scheme: SpanScheme, letters: str) -> Iterator[list[str]]:
    """The sentences of `golden/seqeval/make.py`."""
    labels = ["O", *(label(scheme, position, kind) for position in letters for kind in "xy")]
    state = 1
    for _ in range(2_000):
        numbers = []
        for _ in range(11):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            numbers.append(state >> 16)
        yield [labels[number % len(labels)] for number in numbers[1 : 1 + numbers[0] % 11]]


def digests(spans: Sequence[Spans]) -> list[str]:
    texts = [repr([sorted(each) for each in spans[i : i + 100]]) for i in range(0, len(spans), 100)]
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]


def label(scheme: SpanScheme, position: str, kind: str) -> str:
    parts = (kind, position) if scheme.is_suffix else (position, kind)
    return scheme.separator.join(parts)


def written(scheme: SpanScheme, kinds: Sequence[str]) -> tuple[list[str], Spans]:
    """Labels by the definition of the scheme, and the spans; a kind in capitals begins a span of its own."""
    bounds = [i for i, kind in enumerate(kinds) if kind.isupper() or i == 0 or kind != kinds[i - 1].lower()]
    spans = [(kinds[b].lower(), b, e) for b, e in pairwise([*bounds, len(kinds)]) if kinds[b].lower() != "o"]
    labels = ["O"] * len(kinds)
    for kind, begin, end in spans:
        follows = any(other[0] == kind and other[2] == begin for other in spans)
        precedes = any(other[0] == kind and other[1] == end for other in spans)
        for i in range(begin, end):
            first, last = i == begin, i == end - 1
            if scheme.name in ("bio", "iob1"):
                position = "B" if first and (scheme.name == "bio" or follows) else "I"
            elif scheme.name in ("ioe1", "ioe2"):
                position = "E" if last and (scheme.name == "ioe2" or precedes) else "I"
            else:
                single, begins, inside, ends = {"bioes": "SBIE", "bmes": "SBME", "bilou": "UBIL"}[scheme.name]
                position = single if first and last else begins if first else ends if last else inside
            labels[i] = label(scheme, position, kind)
    return labels, set(spans)


@pytest.mark.parametrize("name", GOLDEN)
def test_spans_are_those_of_seqeval(name: str) -> None:
    scheme, letters = CASES[name]
    sentences = list(drawn(scheme, letters))
    assert digests([scheme.spans(labels) for labels in sentences]) == GOLDEN[name]["default"]
    if name != "ioe1":
        assert digests([scheme.spans(labels, strict=True) for labels in sentences]) == GOLDEN[name]["strict"]


def test_strict_ioe1_adds_to_those_of_seqeval_single_tokens_before_another_span_of_their_type() -> None:
    """The definition has them, and seqeval's own source says that it lacks some."""
    scheme, letters = CASES["ioe1"]
    without = []
    for labels in drawn(scheme, letters):
        tags = [("O", ""), *(scheme.parse(each) or ("O", "") for each in labels), ("O", "")]
        missed = {
            (kind, begin, end)
            for kind, begin, end in scheme.spans(labels, strict=True)
            if end - begin == 1 and tags[end][0] == "E" and tags[begin][0] != "E" and tags[end + 1][1] == kind
        }
        without.append(scheme.spans(labels, strict=True) - missed)
    assert digests(without) == GOLDEN["ioe1"]["strict"]


@pytest.mark.parametrize("name", TITLES)
@pytest.mark.parametrize(("separator", "is_suffix"), FORMS)
def test_spans_are_those_that_the_scheme_wrote(name: str, separator: str, is_suffix: bool) -> None:
    scheme = SpanScheme(name, separator, is_suffix)
    for kinds in product(["o", "x", "X", "y"], repeat=5):
        labels, spans = written(scheme, kinds)
        assert scheme.spans(labels) == scheme.spans(labels, strict=True) == spans


@pytest.mark.parametrize("name", TITLES)
@pytest.mark.parametrize(("separator", "is_suffix"), FORMS)
def test_a_scheme_is_recognised_from_what_it_wrote(name: str, separator: str, is_suffix: bool) -> None:
    scheme = SpanScheme(name, separator, is_suffix)
    sentences = [written(scheme, kinds)[0] for kinds in product(["o", "x", "X", "y", "Y"], repeat=4)]
    recognised = recognise_scheme(sentences)
    assert recognised.scheme == scheme
    assert (recognised.types, recognised.num_invalid) == (("x", "y"), 0)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ("B I O", "bio"),
        ("B M E S", "bmes"),
        ("B-x", "bio"),
        ("I-x O", "iob1"),
        ("S-x O B-x E-x", "bioes"),
        ("U-x O", "bilou"),
        ("b-x i-x o", "bio"),
        ("B-x-y I-x-y O", "bio"),
        ("B:x I:x", "bio"),
        ("NOUN VERB O", None),
        ("O", None),
        ("U L O", None),  # letter case
        ("S B", None),
        ("B-x L-x E-x", None),
        ("-LRB- -RRB- PRP$", None),
        ("B-x I-x X", None),
    ],
)
def test_labels_of_spans_are_told_from_others(labels: str, name: str | None) -> None:
    scheme = recognise_scheme([labels.split()]).scheme
    assert (scheme and scheme.name) == name


def test_labels_without_a_position_are_named_if_most_have_one() -> None:
    assert recognise_scheme([["B-x", "I-x", "X"]]).others == ("X",)
    assert recognise_scheme([["B-x", "DET", "NOUN"]]).others == ()
    named = recognise_scheme([["B-x", "I-x", "X"]], "bio")
    assert (named.scheme, named.others, named.num_spans) == (SpanScheme("bio"), ("X",), 1)


def test_spans_that_a_scheme_does_not_write_are_counted() -> None:
    recognised = recognise_scheme([["B-x", "I-x", "O", "B-x"], ["I-x", "O", "B-y"]])
    assert recognised.scheme == SpanScheme("bio")
    assert (recognised.num_spans, recognised.num_invalid) == (4, 1)


def test_figures_count_spans_with_their_types() -> None:
    scores = score_spans([{("x", 0, 2), ("y", 3, 4)}, set()], [{("x", 0, 2)}, {("x", 1, 2)}])
    assert scores.figures() == {"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2}
    assert scores.figures("x") == {"precision": 1.0, "recall": 1 / 2, "f1": 2 / 3}
    assert scores.types == ["x", "y"]
    assert score_spans([set()], [set()]).figures() == {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def test_names_are_those_of_the_configuration() -> None:
    assert {*TITLES, *ALIASES} == {*get_args(SchemeName)}
    assert SpanScheme("iob2") == SpanScheme("bio")
    with pytest.raises(RegardError, match="no scheme 'xyz'"):
        SpanScheme("xyz")
