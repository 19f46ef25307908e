"""Do the models learn what they should? Copy and reverse, the bottleneck, and the autoencoder.

    python benchmarks/learning/run.py copy reverse bottleneck --output runs/learning
    python benchmarks/learning/run.py autoencoder --words train.txt held_out.txt --output runs/learning

Prints a table; figures are on held-out sequences, decoded freely. A run that was interrupted continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import regard
from regard.config import Configuration, from_preset, load
from regard.data.text import synthetic
from regard.tasks import Evaluation
from regard.viz import plot_curves

COPY = Path(__file__).parent / "copy.yaml"
WITHOUT = ("model.attention=null", "model.decoder.input_feeding=null")


def synthetic_files(task: str, folder: Path, *, max_length: int = 20) -> list[str]:
    """Pairs of a synthetic task, none in two files, as overrides of the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, str]] = set()
    for name, count, seed in (("train", 60_000, 1), ("dev", 1_000, 2), ("test", 2_000, 3)):
        pairs = [pair for pair in synthetic.generate(task, count, max_length=max_length, seed=seed) if pair not in seen]
        seen |= set(pairs)
        synthetic.write(folder / f"{name}.tsv", pairs)
    return [f"data.train={folder / 'train.tsv'}", f"data.dev={folder / 'dev.tsv'}"]


def learn(configuration: Configuration, name: str, output: Path) -> tuple[regard.TextToText, float]:
    """A trained model and the seconds that its training took, validation included."""
    outcome = regard.train(configuration, output / name)
    if outcome.stop_reason == "interrupted":
        raise SystemExit("Interrupted: the same command continues.")
    return regard.load(output / name), outcome.seconds


def report(name: str, evaluation: Evaluation, seconds: float) -> None:
    """A line of the table."""
    accuracy = 1 - evaluation.metrics["sequence_error_rate"]
    print(f"| {name} | {len(evaluation.scored):,} | {accuracy:.2%} | {seconds:.0f} |", flush=True)


def bottleneck(output: Path, overrides: Sequence[str]) -> None:
    """Error against length, with and without attention."""
    curves = {}
    for name, extra in (("with attention", ()), ("without attention", WITHOUT)):
        folder = output / "bottleneck"
        files = synthetic_files("copy", folder / "data")
        configuration = load(COPY, [*files, *extra, *overrides])
        model, seconds = learn(configuration, f"bottleneck/{name.replace(' ', '-')}", output)
        evaluation = model.evaluate(folder / "data" / "test.tsv")
        report(f"copy {name}", evaluation, seconds)
        lengths = np.array([len(one.item.source.split()) for one in evaluation.scored])
        wrong = np.array([not one.is_right for one in evaluation.scored])
        places = np.unique(lengths)
        curves[name] = (places, [float(wrong[lengths == length].mean()) for length in places])
    plot_curves(
        output / "bottleneck.svg",
        curves,
        x_label="length of the sequence",
        y_label="share of sequences not copied exactly",
        title="The bottleneck: one vector against attention, the same training",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["copy", "reverse", "bottleneck", "autoencoder"])
    parser.add_argument("--output", type=Path, default=Path("runs/learning"))
    parser.add_argument("--words", type=Path, nargs=2, metavar=("TRAIN", "HELD_OUT"))
    parser.add_argument("--set", action="append", default=[], help="as of `regard train`")
    options = parser.parse_args()
    print("| what | held-out sequences | exactly right | seconds |\n|---|---|---|---|")
    for what in options.what:
        if what == "bottleneck":
            bottleneck(options.output, options.set)
        elif what == "autoencoder":
            if options.words is None:
                parser.error("autoencoder needs --words TRAIN HELD_OUT, words one a line")
            files = [f"data.train={options.words[0]}", f"data.dev={options.words[1]}"]
            model, seconds = learn(from_preset("autoencoder", [*files, *options.set]), what, options.output)
            report(what, model.evaluate(options.words[1]), seconds)
        else:
            files = synthetic_files(what, options.output / what / "data")
            model, seconds = learn(load(COPY, [*files, *options.set]), f"{what}/run", options.output)
            report(what, model.evaluate(options.output / what / "data" / "test.tsv"), seconds)


if __name__ == "__main__":
    main()
