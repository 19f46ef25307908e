"""Makes files of labelled tokens of a German text: words in lower case, labelled by whether they had a capital letter.

    python benchmarks/labelling/truecase.py train.de FOLDER

`train.de` is the German side of Multi30k, as it is written. Writes `train.tsv` (lines 1 to 2,000), `dev.tsv` (20,001 to
20,500) and `test.tsv` (25,001 to 26,000), and prints the error of what is most frequent: each word in the form that it
has most often in `train.tsv`, unknown ones with a capital.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

PARTS = {"train": slice(2_000), "dev": slice(20_000, 20_500), "test": slice(25_000, 26_000)}


def tokens(line: str) -> list[str]:
    """Words and marks."""
    return re.findall(r"\w+|[^\w\s]", line)


def labelled(lines: Sequence[str]) -> str:
    """A token and its label per line, and a blank line after each sentence."""
    sentences = filter(None, map(tokens, lines))
    rows = ([f"{each.lower()}\t{'Upper' if each[0].isupper() else 'lower'}\n" for each in one] for one in sentences)
    return "".join("".join(each) + "\n" for each in rows)


def main() -> None:
    """Writes the files and prints the error of the most frequent form."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    lines = options.text.read_text(encoding="utf-8").splitlines()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        (options.folder / f"{name}.tsv").write_text(labelled(lines[part]), encoding="utf-8")
    forms: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for line in lines[PARTS["train"]]:
        for each in tokens(line):
            forms[each.lower()][each[0].isupper()] += 1
    tested = [each for line in lines[PARTS["test"]] for each in tokens(line)]
    usual = {word: counts.most_common(1)[0][0] for word, counts in forms.items()}
    wrong = sum(usual.get(each.lower(), True) != each[0].isupper() for each in tested)
    print(f"{len(tested):,} test tokens; the most frequent form: {wrong / len(tested):.2%} wrong")


if __name__ == "__main__":
    main()
