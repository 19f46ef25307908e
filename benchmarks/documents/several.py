"""Documents with none or several labels, made so that a word alone tells little: F1 of `--preset documents`.

    python benchmarks/documents/several.py FOLDER [--count 2000] [--set KEY=VALUE …]

A topic's sentence has two of its words, and a sentence about nothing has words of two different topics, so that single
words occur about as often with their label as without it. A document has up to three topics' sentences and some about
nothing, in random order. Writes train.jsonl and test.jsonl, trains and prints what `regard evaluate` says.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

TOPICS = {
    "sport": ["team", "goal", "match", "coach", "score", "league"],
    "money": ["bank", "share", "price", "market", "profit", "loan"],
    "health": ["doctor", "nurse", "fever", "clinic", "pill", "cure"],
    "travel": ["train", "hotel", "ticket", "beach", "guide", "flight"],
    "music": ["song", "band", "choir", "violin", "tune", "drum"],
}
FRAME = tuple("the old new and with of some every near after before was is had saw".split())  # noqa: SIM905


def sentence(generator: random.Random, words: list[str]) -> str:
    """Words among others, in random order."""
    every = [*words, *generator.choices(FRAME, k=generator.randint(4, 9))]
    generator.shuffle(every)
    return " ".join(every).capitalize() + "."


def document(generator: random.Random) -> dict[str, object]:
    """A text and its labels."""
    labels = generator.sample(sorted(TOPICS), generator.choice([0, 1, 1, 2, 3]))
    sentences = [sentence(generator, generator.sample(TOPICS[name], 2)) for name in labels]
    for _ in range(generator.randint(1, 4)):
        first, second = generator.sample(sorted(TOPICS), 2)
        sentences.append(sentence(generator, [generator.choice(TOPICS[first]), generator.choice(TOPICS[second])]))
    generator.shuffle(sentences)
    return {"label": labels, "text": " ".join(sentences)}


def main() -> None:
    """Makes the documents, trains and evaluates."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="training documents")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, count, seed in (("train", options.count, 1), ("test", 1000, 2)):
        generator = random.Random(seed)
        lines = (json.dumps(document(generator)) + "\n" for _ in range(count))
        (options.folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    settings = [f"data.train={options.folder / 'train.jsonl'}", "data.label_separator=;", "select=micro_f1"]
    run = str(options.folder / "run")
    command = [sys.executable, "-m", "regard", "train", "--preset", "documents", "-o", run]
    subprocess.run([*command, *(f"--set={each}" for each in [*settings, *options.set])], check=True)
    test = str(options.folder / "test.jsonl")
    subprocess.run([sys.executable, "-m", "regard", "evaluate", "-m", run, test], check=True)


if __name__ == "__main__":
    main()
