"""Makes TSV files of SCAN (Lake & Baroni 2018, github.com/brendenlake/SCAN): a command, tab, its actions.

    python benchmarks/scan/commands_to_actions.py FOLDER_OF_SCAN OUTPUT

Of each split (simple, length, addprim_jump) a `train.SPLIT.tsv`, a `test.SPLIT.tsv`, and a `dev.SPLIT.tsv` with a
twentieth of the training commands, never one of a single word: `jump` is all that training on addprim_jump has of it.
"""

from __future__ import annotations

import gzip
import sys
from hashlib import sha256
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
        train, test = (rows(folder / f"tasks_{part}_{split}.txt.gz") for part in ("train", "test"))
        dev = {
            row
            for row in train
            if " " in row.partition("\t")[0] and int(sha256(row.encode()).hexdigest(), 16) % 20 == 0
        }
        parts = {"train": [row for row in train if row not in dev], "dev": sorted(dev), "test": test}
        for part, table in parts.items():
            (output / f"{part}.{split}.tsv").write_text("".join(table), encoding="utf-8")
            print(f"{part}.{split}.tsv: {len(table):,} pairs")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
