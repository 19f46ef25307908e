"""Reads and checks the text of a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import Finding, Findings
from regard.data.finding import Severity, by_severity, too_few
from regard.data.text import Normalisation, RunningText, TextSpan, Units
from regard.data.text.field import PLAIN_UNITS
from regard.data.text.running_text import line_end, suggested_share
from regard.data.text.vocabulary import SPECIALS, UNKNOWN
from regard.errors import counted
from regard.tasks.language_modelling.config import Files, RunningTextConfig

FEW_TOKENS, FEW_HELD_OUT = 20_000, 1_000
MANY_UNKNOWN, MANY_REPEATED, MANY_SYMBOLS = 0.05, 0.1, 0.05
"""Shares from which on the check warns: of unknown tokens, of held-out lines that are also in the training text, and of
symbols per token of the training text."""
LONG_LINE = 30
"""The approximate number of characters from which on lines hardly repeat by chance."""


def paths(files: Files | None) -> list[Path]:
    """The files of a key of the configuration."""
    return [] if files is None else [files] if isinstance(files, Path) else list(files)


def read_text(config: RunningTextConfig) -> RunningText:
    """The text of a configuration.

    Raises:
        DataError: for files that cannot be read, or have too little text.
    """
    units: Units = PLAIN_UNITS[config.units]()
    return RunningText.read(
        paths(config.train),
        held_out=paths(config.dev) or config.dev_fraction,
        units=units,
        normalisation=Normalisation(config.case, config.unicode),
        min_count=config.min_count,
        max_symbols=config.vocabulary_size,
    )


def chosen(config: RunningTextConfig, text: RunningText) -> dict[str, float]:
    """The values of open keys that follow from the text, by dotted key."""
    is_open = config.dev is None and config.dev_fraction is None
    return {"data.dev_fraction": suggested_share(len(text.ids))} if is_open else {}


def check(text: RunningText) -> Findings:
    """Checks for problems that make a training fail or its metrics misleading."""
    return Findings(by_severity([*_sizes(text), *_unknown(text), *_symbols(text), *_repeated(text)]))


def frequencies(text: RunningText) -> NDArray[np.int64]:
    """(N,) how often each id occurs in the training text."""
    part = text.train
    return np.bincount(text.ids[part.start : part.stop], minlength=len(text.field.vocabulary))


def _sizes(text: RunningText) -> Iterator[Finding]:
    for name, part in (("train", text.train), ("dev", text.held_out)):
        described = f"{part.num_tokens:,} tokens, {part.num_characters:,} characters, {part.num_words:,} words"
        yield Finding("info", f"{name} has {described}", part.num_tokens)
    yield Finding("info", f"the vocabulary has {len(text.field.vocabulary.symbols):,} symbols", 0)
    train, held_out = text.train.num_tokens, text.held_out.num_tokens
    if train < 2:
        yield Finding("error", "a text of one token has nothing to predict", 1)
    yield from too_few(train if train > 1 else 0, held_out, "token|tokens", least=(FEW_TOKENS, FEW_HELD_OUT))


def _unknown(text: RunningText) -> Iterator[Finding]:
    for name, part in (("train", text.train), ("dev", text.held_out)):
        share = part.num_unknown / max(part.num_tokens, 1)
        if part.num_unknown:
            severity: Severity = "warning" if share >= MANY_UNKNOWN else "info"
            shown = counted(part.num_unknown, f"of {name}'s tokens ({share:.2%}) is|are unknown")
            yield Finding(severity, f"{shown}: they count as <unk> in all figures", part.num_unknown)
    if text.held_out.num_unknown and not text.train.num_unknown:
        advice = "dev has symbols that train lacks, and <unk>, which stands for them, is never learned from train"
        if text.field.units.inventory is None:
            advice += "; with data.min_count=2 it is, from symbols that occur once"
        yield Finding("warning", advice, text.held_out.num_unknown)


def _symbols(text: RunningText) -> Iterator[Finding]:
    counts = frequencies(text)[len(SPECIALS) :]
    count = len(counts)
    if count > MANY_SYMBOLS * text.train.num_tokens > 0 and text.field.units.inventory is None:
        once = int((counts == 1).sum())
        advice = (
            f"the vocabulary has {count:,} symbols for {text.train.num_tokens:,} tokens, and {once:,} of them occur "
            "once; raise data.min_count, or choose smaller units"
        )
        yield Finding("warning", advice, count)


def _repeated(text: RunningText) -> Iterator[Finding]:
    """Held-out lines that are also lines of the training text."""
    train, lines = set(_lines(text, text.train)), list(_lines(text, text.held_out))
    if repeated := sum(line in train for line in lines):
        share = repeated / len(lines)
        shown = counted(repeated, f"of dev's {len(lines):,} long lines ({share:.1%}) is|are also in train")
        yield Finding("warning" if share >= MANY_REPEATED else "info", shown, repeated)


def _lines(text: RunningText, part: TextSpan) -> Iterator[int]:
    """A hash of every long line."""
    end = line_end(text.field)
    ids = text.ids[part.start : part.stop]
    edges = np.append(np.flatnonzero(ids == (UNKNOWN if end is None else end)), len(ids))
    least = LONG_LINE * text.train.num_tokens / max(text.train.num_characters, 1)
    start = 0
    for stop in edges.tolist():
        if stop - start >= least:
            yield hash(ids[start:stop].tobytes())
        start = stop + 1
