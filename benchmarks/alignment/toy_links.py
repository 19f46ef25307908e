"""Alignment error rate on a made language with known links, with and without supervision.

    python benchmarks/alignment/toy_links.py FOLDER --architecture recurrent [--supervised]

Sentences `determiner adjective? noun verb determiner adjective? noun adverb?` are translated word by word, by a
dictionary, into `adverb? noun adjective? noun adjective? particle verb`: the object comes before the verb, adjectives
follow their noun, determiners are left out, half of the verbs and a third of the nouns are two words, and the particle
translates nothing; a link of it to the object's noun is possible. Words are made of two to four syllables, which
sentencepiece divides into pieces, so links between words have to be found from weights of pieces. The error rate is
that of `regard align --references` on 500 sentences that were not trained on.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from regard.data.text import AlignmentErrors, alignment_errors, read_links
from regard.tasks import TextToText, load

COUNTS = {"train": 6000, "dev": 200, "test": 500}
KINDS = {"noun": 40, "adjective": 20, "verb": 20, "adverb": 8, "determiner": 2}
TWO_WORDS = {"noun": 1 / 3, "verb": 1 / 2}


class Language:
    """A dictionary and the order of words of both sides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.used: set[str] = set()
        self.words = {kind: [self.word("ptkbdg", "aiu") for _ in range(count)] for kind, count in KINDS.items()}
        self.dictionary = {
            word: [self.word("mnlrsv", "aeo") for _ in range(1 + (self.random.random() < TWO_WORDS.get(kind, 0)))]
            for kind, words in self.words.items()
            for word in words
            if kind != "determiner"
        }
        self.particle = self.word("mnlrsv", "aeo")

    def word(self, consonants: str, vowels: str) -> str:
        """A word that neither language has yet."""
        while True:
            draw = self.random.choice
            word = "".join(draw(consonants) + draw(vowels) for _ in range(self.random.randint(2, 4)))
            if word not in self.used:
                self.used.add(word)
                return word

    def pair(self) -> tuple[str, str, str]:
        """A sentence, its translation and their links."""
        draw, source = self.random.choice, []

        def add(kind: str, share: float = 1.0) -> list[int]:
            if self.random.random() >= share:
                return []
            source.append(draw(self.words[kind]))
            return [len(source) - 1]

        subject = [add("determiner"), add("adjective", 0.5), add("noun")]
        verb = add("verb")
        thing = [add("determiner"), add("adjective", 0.5), add("noun")]
        adverb = add("adverb", 0.5)
        target, links = [], []
        for place in [*adverb, *subject[2], *subject[1], *thing[2], *thing[1], None, *verb]:
            words = [self.particle] if place is None else self.dictionary[source[place]]
            origin, mark = (place, "-") if place is not None else (thing[2][0], "?")
            links += [f"{origin}{mark}{len(target) + n}" for n in range(len(words))]
            target += words
        return " ".join(source), " ".join(target), " ".join(links)


def write(folder: Path, seed: int) -> None:
    """The pairs and links of all files."""
    language, seen = Language(seed), set()
    for name, count in COUNTS.items():
        rows = []
        while len(rows) < count:
            row = language.pair()
            if row[0] not in seen:
                seen.add(row[0])
                rows.append(row)
        (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target, _ in rows))
        (folder / f"{name}.links").write_text("".join(f"{links}\n" for _, _, links in rows))


def configuration(arguments: argparse.Namespace, folder: Path) -> Path:
    """The configuration of a training."""
    pieces = {"units": "sentencepiece", "vocabulary_size": arguments.pieces}
    data = {"train": "train.tsv", "dev": "dev.tsv", "source": pieces, "target": pieces}
    size = arguments.size
    training = {
        "max_steps": arguments.steps,
        "epochs": 1000,
        "batch_tokens": 2000,
        "validate_every": arguments.steps // 4,
        "samples": 3,
        "threads": 1,
        "device": "cpu",
    }
    model: dict[str, object] = {
        "encoder": {"size": size, "embedding_size": size, "layers": 1},
        "decoder": {"size": size, "embedding_size": size},
        "attention": {"recipe": "bahdanau", "size": size},
    }
    if arguments.architecture == "transformer":
        layers = {"size": size, "layers": 3, "feed_forward_size": 2 * size, "heads": 4}
        model = {"architecture": "transformer", "encoder": layers, "decoder": layers}
    if arguments.supervised:
        data |= {"alignments": "train.links", "alignment_units": "word"}
        supervision: dict[str, object] = {"supervision": arguments.weight}
        if arguments.architecture == "transformer":
            supervision |= {"supervision_layer": "cross.1", "supervision_head": 0}
        training["alignment_losses"] = supervision
    values = {"task": "text_to_text", "data": data, "model": model, "training": training, "seed": arguments.seed}
    name = f"{arguments.architecture}{'-supervised' if arguments.supervised else ''}"
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def errors(model: TextToText, folder: Path, part: str = "test", **options: Any) -> AlignmentErrors:
    """What `regard align --references` prints about the test sentences, or the held-out ones."""
    rows = [line.split("\t") for line in (folder / f"{part}.tsv").read_text().splitlines()]
    found = model.align([(source, target) for source, target in rows], **options)
    return alignment_errors([each.links() for each in found], read_links(folder / f"{part}.links"))


def shown(name: str, found: AlignmentErrors) -> str:
    """A row of a table."""
    rates = (f"{100 * rate:.1f}" for rate in (found.error_rate, found.precision, found.recall))
    return f"| {name} | {' | '.join(rates)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architecture", choices=("recurrent", "transformer"), default="recurrent")
    parser.add_argument("--supervised", action="store_true")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--pieces", type=int, default=60)
    parser.add_argument("--weight", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "test.links").exists():
        write(folder, seed=7)
    path = configuration(arguments, folder)
    run = folder / path.stem
    train = [sys.executable, "-m", "regard", "train", str(path), "--output", str(run)]
    subprocess.run(train, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    model = load(run, device="cpu")
    evaluation = model.evaluate(folder / "test.tsv", metrics=())
    tokens = [len(field.split(text)) / len(text.split()) for field, text in _texts(model, folder)]
    print(f"pieces per word: {sum(tokens) / len(tokens):.2f}")
    print(f"CPU seconds of the training: {used.ru_utime + used.ru_stime:.0f}")
    print(f"sequence error rate: {100 * evaluation.metrics['sequence_error_rate']:.1f} %")
    print("| alignment | AER % | precision % | recall % |\n|---|---|---|---|")
    print(shown("as predictions show it", errors(model, folder)))
    print(shown("with the end symbol", errors(model, folder, end_symbol=True)))
    if arguments.architecture == "transformer":
        names = [*(f"cross.{number}" for number in range(3)), "mean"]
        for name in names:
            print(shown(f"layer {name}", errors(model, folder, layer=name)))
        choices = [(name, head) for name in names for head in (None, *range(4))]
        best = min(choices, key=lambda each: errors(model, folder, "dev", layer=each[0], head=each[1]).error_rate)
        found = errors(model, folder, layer=best[0], head=best[1])
        heads = "all heads" if best[1] is None else f"head {best[1]}"
        print(shown(f"layer {best[0]}, {heads}: the best on `dev`", found))


def _texts(model: object, folder: Path) -> list[tuple[object, str]]:
    """Each text of the test with its field."""
    rows = [line.split("\t") for line in (folder / "test.tsv").read_text().splitlines()]
    return [(field, text) for row in rows for field, text in zip((model.source, model.target), row, strict=True)]


if __name__ == "__main__":
    main()
