"""Splits the training words of g2p-en: 2,670 of them, by a hash, choose among trainings, so that dev.tsv need not.

python benchmarks/g2p/hold_out.py train.tsv fit.tsv chosen_on.tsv
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

COUNT = 2_670


def order(word: str) -> str:
    """What words are sorted by: nothing that their spelling or their place in the dictionary tells."""
    return hashlib.sha256(f"hold{word}".encode()).hexdigest()


def main(train: Path, fit: Path, held: Path) -> None:
    lines = train.read_text(encoding="utf-8").splitlines(keepends=True)
    words = {line.partition("\t")[0] for line in lines}
    chosen = set(sorted(words, key=order)[:COUNT])
    held.write_text("".join(line for line in lines if line.partition("\t")[0] in chosen), encoding="utf-8")
    fit.write_text("".join(line for line in lines if line.partition("\t")[0] not in chosen), encoding="utf-8")
    print(f"{fit}: {len(words) - len(chosen):,} words; {held}: {len(chosen):,} words")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
