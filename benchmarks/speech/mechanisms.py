"""Trains a small voice with each of six mechanisms of attention, and says when it reads, and how well.

    python benchmarks/speech/mechanisms.py train CORPUS RUNS [--only dca gmm]
    python benchmarks/speech/mechanisms.py report CORPUS RUNS
    python benchmarks/speech/mechanisms.py picture CORPUS RUNS --sentence 4 -o alignments.png

CORPUS has `metadata_train.csv`, `metadata_dev.csv`, `phones.tsv` and `wavs`. All runs have the sizes, the optimiser and
the losses of the preset `speech` and the settings below; Tacotron 2, but the last. `train` continues what was stopped.
`report` prints a row for each run: the first validation from which on errors of centres and boundaries were below those
of both baselines (the diagonal; mean durations), with the minutes of computing up to there, and the figures of `regard
evaluate` of the saved model on all held-out sentences: teacher-forced for alignments, free-running for the rest.
`picture` draws the teacher-forced alignments of a held-out sentence, with the labels' ends of phones in red.

Mechanisms that compare nothing with the symbols have the guided loss for 200 steps only, and additive attention for
800 (a default of theirs): later it holds them at a constant speed, which is its minimum and needs no look at what is
said. The former, and stepwise monotonic attention, which moves by at most one symbol a step, have finer steps
(`FINE`).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from regard import load
from regard.data.speech import read_ljspeech
from regard.tasks.text_to_speech.evaluation import forced_alignments
from regard.tasks.text_to_speech.reading import read_sentences

mpl.use("Agg")

SETTINGS = (
    "data.units=phones",
    "model.decoder.num_frames=4",
    "training.batch_frames=2000",
    "training.max_steps=3000",
    "training.validate_every=200",
)
FINE = ("model.decoder.num_frames=2", "training.max_steps=4000")
MECHANISMS: dict[str, tuple[str, ...]] = {
    "location": ("model.attention.recipe=location_sensitive",),
    "forward": ("model.attention.recipe=forward_attention", "model.attention.transition_agent=true"),
    "dca": ("model.attention.recipe=dynamic_convolution", "model.attention.alpha=0.04", *FINE),
    "gmm": (
        "model.attention.recipe=gmm",
        "model.attention.initial_step=0.4",
        "model.attention.initial_width=2.0",
        *FINE,
    ),
    "stepwise": (
        "model.attention.recipe=stepwise_monotonic",
        "model.attention.bias=0.0",
        "model.attention.noise=0.5",
        *FINE,
        "model.decoder.num_frames=3",
        "training.alignment_losses_until=600",
    ),
    "tacotron1": (
        "model.architecture=tacotron1",
        "model.attention.recipe=bahdanau",
        "model.decoder.num_frames=5",
        "training.max_steps=5000",
    ),
}
COLUMNS = (
    "mechanism", "aligned at step", "CPU min", "steps", "CPU min", "centres ms", "boundaries ms", "within 50 ms",
    "focus", "reading errors", "clean", "x5 errors", "x5 clean", "MCD dB", "contrast", "pauses kept",
)  # fmt: skip


def regard(*arguments: str) -> list[str]:
    """The command line of this Python."""
    return [sys.executable, "-m", "regard", *arguments]


def train(corpus: Path, runs: Path, names: list[str]) -> None:
    """Trains, one after the other; `NAME.cpu` has the seconds of computing of each call."""
    runs.mkdir(parents=True, exist_ok=True)
    for name in names:
        settings = [f"data.{part}={corpus / f'metadata_{part}.csv'}" for part in ("train", "dev")]
        settings += [f"data.cache={runs / 'cache'}", *SETTINGS, *MECHANISMS[name]]
        sets = [part for setting in settings for part in ("--set", setting)]
        before = computing()
        with (runs / f"{name}.log").open("a") as log:
            done = subprocess.run(
                regard("train", "--preset", "speech", *sets, "-o", str(runs / name)), stderr=log, check=False
            )
        with (runs / f"{name}.cpu").open("a") as seconds:
            seconds.write(f"{computing() - before:.0f}\n")
        done.check_returncode()


def computing() -> float:
    """CPU seconds of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(name: str, corpus: Path, runs: Path) -> list[str]:
    """A row of the report."""
    lines = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_text().splitlines()]
    cpu = sum(float(line) for line in (runs / f"{name}.cpu").read_text().split()) / 60
    last = lines[-1]
    found = first_aligned([line for line in lines if line["kind"] == "validation"])
    share = 0 if found is None else found["timing"]["total_seconds"] / last["timing"]["total_seconds"]
    said = subprocess.run(
        regard("evaluate", "--json", "--model", str(runs / name), str(corpus / "metadata_dev.csv")),
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, Any] = json.loads(said.stdout)
    return [
        name,
        "never" if found is None else f"{found['step']:,}",
        "" if found is None else f"{share * cpu:.1f}",
        f"{last['step']:,}",
        f"{cpu:.1f}",
        f"{figures['centre_ms']:.0f}",
        f"{figures['boundary_ms']:.0f}",
        f"{figures['near_share']:.0%}",
        f"{figures['focus_rate']:.2f}",
        f"{figures['reading_errors']:.2f}",
        f"{figures['clean']:.0%}",
        f"{figures['joined_reading_errors']:.2f}",
        f"{figures['joined_clean_share']:.0%}",
        f"{figures['mcd_db']:.1f}",
        f"{figures['contrast']:.2f}",
        f"{figures['pauses_kept']:.0%}",
    ]


def first_aligned(validations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first from which on centres and boundaries were always nearer than those of both baselines."""
    found = None
    for line in validations:
        is_better = all(
            line[name] < min(line[f"diagonal_{name}"], line[f"mean_durations_{name}"])
            for name in ("centre_ms", "boundary_ms")
        )
        found = (found or line) if is_better else None
    return found


def picture(corpus: Path, runs: Path, names: list[str], number: int, path: Path) -> None:
    """The alignments of a sentence side by side."""
    table = corpus / "metadata_dev.csv"
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 4), squeeze=False, sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        model = load(str(runs / name))
        sentences = read_sentences(model.config.data, read_ljspeech(table)[number : number + 1], table, [])
        alignment = forced_alignments(model, sentences)[0].numpy()
        units = (*model.field.split(sentences[0].text), "</s>")
        step = int(model.module.reduction) * model.front_end.hop_length / model.front_end.sample_rate
        extent = (0, len(alignment) * step, len(units) - 0.5, -0.5)
        axis.imshow(alignment.T, aspect="auto", vmin=0, vmax=1, cmap="Blues", extent=extent, interpolation="nearest")
        for row, end in enumerate(sentences[0].labels.for_units(units).ends):
            axis.plot([end, end], [row - 0.5, row + 0.5], color="red", linewidth=1)
        axis.set_yticks(range(len(units)), units, fontsize=7)
        axis.set(title=name, xlabel="seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    """Trains, reports or draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "report", "picture"))
    parser.add_argument("corpus", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--only", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--sentence", type=int, default=0, help="of the picture, counted from 0")
    parser.add_argument("-o", "--output", type=Path, default=Path("alignments.png"))
    options = parser.parse_args()
    if options.what == "train":
        train(options.corpus.resolve(), options.runs, options.only)
        return
    if options.what == "picture":
        picture(options.corpus, options.runs, options.only, options.sentence, options.output)
        return
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for name in options.only:
        if (options.runs / name).exists():
            print("| " + " | ".join(row(name, options.corpus, options.runs)) + " |")


if __name__ == "__main__":
    main()
