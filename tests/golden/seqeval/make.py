"""Spans of random labels by the program whose figures papers quote.

Program: seqeval 1.2.2, its default mode (`get_entities`) and its strict one (`scheme`).

    python3.11 -m venv peers
    peers/bin/pip install numpy==2.4.6 seqeval==1.2.2
    peers/bin/python tests/golden/seqeval/make.py

Each case is a scheme with a separator and the place of the position: 2,000 sentences of up to ten labels, drawn by a
linear congruential generator (`sentences`), which the test draws again. So the file has digests only, one of the spans
of each hundred sentences. The strict mode of seqeval knows BMES under the letters of IOBES; its default mode knows the
letters B, I, E and S and the separator `-`. Labels are written so before they are given to it (`renamed`).
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, IOE1, IOE2, Entities

FILE = Path(__file__).with_name("spans.json")
CASES = {
    "bio": (IOB2, "BI", "-", False),
    "iob1": (IOB1, "BI", "-", False),
    "ioe1": (IOE1, "IE", "-", False),
    "ioe2": (IOE2, "IE", "-", False),
    "bioes": (IOBES, "BIES", "-", False),
    "bmes": (IOBES, "BMES", "-", False),
    "bilou": (BILOU, "BILU", "-", False),
    "bio with _": (IOB2, "BI", "_", False),
    "bioes at the end": (IOBES, "BIES", "-", True),
}


def sentences(letters: str, separator: str, is_suffix: bool) -> Iterator[list[str]]:
    """2,000 sentences of labels of two types."""
    names = [(letter, kind) for letter in letters for kind in "xy"]
    labels = ["O", *(f"{k}{separator}{p}" if is_suffix else f"{p}{separator}{k}" for p, k in names)]
    state = 1
    for _ in range(2_000):
        drawn = []
        for _ in range(11):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            drawn.append(state >> 16)
        yield [labels[number % len(labels)] for number in drawn[1 : 1 + drawn[0] % 11]]


def renamed(label: str, letters: dict[str, str], is_suffix: bool) -> str:
    """The label with another letter, and with - before the type."""
    if label == "O":
        return label
    position, kind = (label[-1], label[0]) if is_suffix else (label[0], label[-1])
    position = letters.get(position, position)
    return f"{kind}-{position}" if is_suffix else f"{position}-{kind}"


def digests(spans: list[set[tuple[str, int, int]]]) -> list[str]:
    """A digest of the spans of each hundred sentences."""
    texts = [repr([sorted(each) for each in spans[i : i + 100]]) for i in range(0, len(spans), 100)]
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]


def main() -> None:
    warnings.simplefilter("ignore")  # a label such as x-B "seems not to be NE tag"
    result = {}
    for name, (scheme, letters, separator, is_suffix) in CASES.items():
        default, strict = [], []
        for labels in sentences(letters, separator, is_suffix):
            common = [renamed(label, {"M": "I", "L": "E", "U": "S"}, is_suffix) for label in labels]
            default.append({(kind, start, end + 1) for kind, start, end in get_entities(common, suffix=is_suffix)})
            own = [renamed(label, {"M": "I"}, is_suffix) for label in labels]
            entities = Entities([own], scheme, suffix=is_suffix).entities[0]
            strict.append({(each.tag, each.start, each.end) for each in entities})
        result[name] = {"default": digests(default), "strict": digests(strict)}
    FILE.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
