"""Readers by kind of data: `text`, `series`, `documents`, `pictures` and `speech`.

This module has what they share: files of lines, defects, findings, batches of similar lengths, held-out items. It
does not need torch."""

from regard.data.bucketing import bucket, padding
from regard.data.defects import Defects, collecting
from regard.data.finding import Finding, Findings
from regard.data.lines import Lines
from regard.data.pairs import Pair, Pairs, Selection
from regard.data.split import hold_out, share

__all__ = [
    "Defects",
    "Finding",
    "Findings",
    "Lines",
    "Pair",
    "Pairs",
    "Selection",
    "bucket",
    "collecting",
    "hold_out",
    "padding",
    "share",
]
