"""Makes TSV files of SCAN (Lake & Baroni 2018, github.com/brendenlake/SCAN): a command, tab, its actions.

    python benchmarks/scan/commands_to_actions.py FOLDER_OF_SCAN OUTPUT

Of each split (simple, length, addprim_jump) a `train.SPLIT.tsv` and a `test.SPLIT.tsv`.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

SPLITS = ("simple", "length", "addprim_jump")


def rows(path: Path) -> list[str]:
    """The lines `IN: command OUT: actions` of a file as rows of a table."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.strip().removeprefix("IN: ").split(" OUT: ") for line in file]
    return ["\t".join(line) + "\n" for line in lines]


def main(folder: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        for part in ("train", "test"):
            table = rows(folder / f"tasks_{part}_{split}.txt.gz")
            (output / f"{part}.{split}.tsv").write_text("".join(table), encoding="utf-8")
            print(f"{part}.{split}.tsv: {len(table):,} pairs")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
