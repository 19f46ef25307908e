"""Ten pairs of runs, whose order the verdict on 400 words must agree with the order on 3,000 others.

    python benchmarks/comparing/pairs.py train DATA FOLDER
    python benchmarks/comparing/pairs.py measure FOLDER [--draws 200] [--trials 1000]
    python benchmarks/comparing/pairs.py equal [--trials 1000]

DATA has `ady_train.tsv` and so on of SIGMORPHON 2021. Each pair is of one language. The words of its three files are
shuffled; 1,000 are for training, 100 choose the saved model, and 3,400 are held out: 400 for the verdict and 3,000 for
the order. `measure` also draws other words for the verdict from all that are held out, and counts verdicts of
equal models, to which the outputs of both runs are dealt by chance.
"""

from __future__ import annotations

import argparse
import random as python_random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.metrics import MetricTerms, compare, ratio_terms

TRAINED, CHOSEN_ON, JUDGED = 1000, 100, 400
EMBEDDING = 64


@dataclass(frozen=True)
class Side:
    """One of the two runs: the number of training words, and keys of the configuration that differ."""

    words: int = TRAINED
    size: int = 96
    dropout: float = 0.3
    recipe: str = "bahdanau"
    seed: int = 1


PAIRS = {
    "ady": (Side(words=400), Side(words=800)),
    "arm": (Side(words=300), Side(words=600)),
    "bul": (Side(words=600), Side(words=1000)),
    "dut": (Side(words=700), Side(words=1000)),
    "fre": (Side(words=500), Side(words=1000)),
    "geo": (Side(words=250), Side(words=350)),
    "gre": (Side(words=400), Side(words=500)),
    "hin": (Side(size=32), Side(size=96)),
    "jpn": (Side(recipe="luong"), Side()),
    "rum": (Side(dropout=0.6), Side()),
}


def parts(data: Path, language: str, folder: Path) -> None:
    """Writes the shuffled words of a language: `pool.tsv`, `dev.tsv`, `judged.tsv`, `rest.tsv`."""
    names = ("train", "dev", "test")
    lines = [line for name in names for line in (data / f"{language}_{name}.tsv").read_text("utf-8").splitlines()]
    python_random.Random(language).shuffle(lines)
    folder.mkdir(parents=True, exist_ok=True)
    bounds = (0, TRAINED, TRAINED + CHOSEN_ON, TRAINED + CHOSEN_ON + JUDGED, len(lines))
    for name, start, end in zip(("pool", "dev", "judged", "rest"), bounds, bounds[1:]):
        (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines[start:end]), "utf-8")


def configuration(folder: Path, side: Side) -> dict[str, Any]:
    """A small model that trains in less than a minute."""
    train = folder / f"train-{side.words}.tsv"
    train.write_text("".join((folder / "pool.tsv").read_text("utf-8").splitlines(keepends=True)[: side.words]), "utf-8")
    sizes = {"size": side.size, "embedding_size": EMBEDDING, "dropout": side.dropout}
    return {
        "task": "text_to_text",
        "seed": side.seed,
        "data": {
            "train": str(train),
            "dev": str(folder / "dev.tsv"),
            "source": {"units": "character", "case": "lower"},
            "target": {"units": "whitespace"},
        },
        "model": {
            "encoder": {**sizes, "layers": 1},
            "decoder": {**sizes, "layers": 1},
            "attention": {"recipe": side.recipe},
        },
        "training": {
            "max_steps": 400,
            "epochs": 1000,
            "batch_tokens": 500,
            "learning_rate": 0.003,
            "warmup_steps": 40,
            "validate_every": 100,
            "average_checkpoints": 1,
            "samples": 0,
            "threads": 1,
        },
        "decoding": {"beam": 5, "length_penalty": "none"},
        "select": "wer",
    }


def train(data: Path, folder: Path) -> None:
    """Trains what is not trained yet."""
    from regard import tasks

    for language, sides in PAIRS.items():
        if not (folder / language / "rest.tsv").exists():
            parts(data, language, folder / language)
        for name, side in zip("AB", sides):
            tasks.train(configuration(folder / language, side), folder / language / name)


def evaluated(folder: Path) -> list[list[Mapping[str, MetricTerms]]]:
    """The held-out words of both runs of a pair, the words of the verdict first."""
    from regard import load

    models = [load(folder / name, device="cpu") for name in "AB"]
    sides = []
    for model in models:
        parts = [model.item_terms(model.evaluate(folder / f"{part}.tsv")) for part in ("judged", "rest")]
        sides.append([part.metrics for part in parts])
    return sides


def joined(metrics: Sequence[Mapping[str, MetricTerms]], name: str) -> MetricTerms:
    """The terms of a metric on all parts."""
    return replace(metrics[0][name], terms=np.concatenate([part[name].terms for part in metrics]))


def measure(folder: Path, draws: int, trials: int) -> None:
    """Prints the tables of a results file."""
    random = np.random.default_rng(0)
    agree = known = 0
    print("| pair | words of the verdict: difference (95 %) | p | verdict | 3,000 other words | same order |")
    print("|---|---|---|---|---|---|")
    pools, drawn = {}, {}
    for language in PAIRS:
        sides = evaluated(folder / language)
        both = [[metrics[part]["sequence_error_rate"] for metrics in sides] for part in (0, 1)]
        small, large = (compare(terms).differences[0, 1] for terms in both)
        verdict, order = {0: "chance", 1: "B better", -1: "A better"}[small.verdict], large.verdict
        same = "–" if not small.verdict or not order else "yes" if small.verdict == order else "NO"
        known, agree = known + (same != "–"), agree + (same == "yes")
        figures = [f"{100 * d.value:+.1f} ({100 * d.low:+.1f} to {100 * d.high:+.1f})" for d in (small, large)]
        print(f"| {language} | {figures[0]} | {small.p_value:.4f} | {verdict} | {figures[1]} | {same} |")
        pools[language] = [joined(metrics, "sequence_error_rate") for metrics in sides]
        counts = Counter[int]()
        for _ in range(draws):
            some = random.choice(len(pools[language][0].terms), JUDGED, replace=False)
            counts[compare([terms.at(some) for terms in pools[language]]).differences[0, 1].verdict] += 1
        true = np.sign(pools[language][0].value - pools[language][1].value)
        drawn[language] = (counts[int(true)], counts[0], counts[int(-true)])
    print(f"\n{agree} of the {known} verdicts that name a better run agree with the order on other words.\n")
    print(f"| pair | {draws} draws of {JUDGED} words: right verdict | chance | wrong verdict |\n|---|---|---|---|")
    for language, (right, none, wrong) in drawn.items():
        print(f"| {language} | {right} | {none} | {wrong} |")
    sums = np.sum(list(drawn.values()), 0)
    print(f"| all | {sums[0]} | {sums[1]} | {sums[2]} |\n")
    print(f"| equal models | pairs called different, of {trials} trials |\n|---|---|")
    for count in (2, 3, 5):
        for size in (50, JUDGED):
            alarms = sum(any_verdict(pools, count, size, random) for _ in range(trials))
            print(f"| {count} models, {size} words, any pair | {alarms} ({alarms / trials:.1%}) |")


def any_verdict(pools: dict[str, list[MetricTerms]], count: int, size: int, random: np.random.Generator) -> bool:
    """Whether any pair of models that are equal is called different: each has the outputs of A or of B by chance."""
    both = pools[str(random.choice(list(pools)))]
    some = random.choice(len(both[0].terms), size, replace=False)
    terms = np.stack([each.terms[some] for each in both])
    models = [replace(both[0], terms=terms[random.integers(2, size=size), np.arange(size)]) for _ in range(count)]
    return any(each.is_beyond_chance for each in compare(models).differences.values())


def equal(trials: int) -> None:
    """Prints how often two models with independent errors of one skewed distribution are called different, by the test
    and by an interval of the bootstrap without 0."""
    random = np.random.default_rng(0)
    print(f"| items | called different of {trials} | interval of the bootstrap without 0 |\n|---|---|---|")
    for size in (20, 50, JUDGED):
        verdicts = intervals = 0
        for trial in range(trials):
            errors, lengths = random.gamma(0.6, 2.0, (2, size)).round(), random.integers(3, 12, size)
            found = compare([ratio_terms(each, lengths) for each in errors], seed=trial).differences[0, 1]
            verdicts += found.is_beyond_chance
            intervals += found.low > 0 or found.high < 0
        print(f"| {size} | {verdicts} ({verdicts / trials:.1%}) | {intervals} ({intervals / trials:.1%}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    training, measuring, simulating = map(commands.add_parser, ("train", "measure", "equal"))
    training.add_argument("data", type=Path)
    for each in (training, measuring):
        each.add_argument("folder", type=Path)
    measuring.add_argument("--draws", type=int, default=200)
    for each in (measuring, simulating):
        each.add_argument("--trials", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.command == "train":
        train(arguments.data, arguments.folder)
    elif arguments.command == "equal":
        equal(arguments.trials)
    else:
        measure(arguments.folder, arguments.draws, arguments.trials)


if __name__ == "__main__":
    main()
