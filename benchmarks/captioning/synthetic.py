"""Trains captioners with soft and hard attention on drawn pictures, and says how exact they are and where they look.

    python benchmarks/captioning/synthetic.py train FOLDER [--only soft hard] [--steps 7000] [--set KEY=VALUE]
    python benchmarks/captioning/synthetic.py report FOLDER [--only soft hard]

FOLDER gets the pictures (`train`, 30,000; `dev`, 300; `test`, 500; other seeds) and a run for each form. All have the
preset `captioning` with the settings below: a small residual encoder with cells of 16 × 16 pixels. `soft` and `hard`
attend with the new state and feed no context back, so that a word must be read where it is looked for; `soft-deep` has
the preset's LSTM and deep output, too; `soft-fed` feeds the context into the next step; `soft-before` attends with the
old state, as Show, Attend and Tell does; `published` has its gate and its doubly stochastic loss, too, which asks for
as much attention to paper as to objects. `train` continues what was stopped.

`report` prints a row for each run: minutes of computing, the share of exact captions, and the numbers about the maps of
the greedy outputs, free-running, on the test pictures. Pointing is over the words for colours and shapes of exact
captions, since other captions have words of which no box is known. `FORM.tsv` has the numbers of each picture.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path

from regard import load
from regard.data.pictures import read_boxes, write_synthetic_pictures
from regard.decoding import Search
from regard.metrics import CaptionMaps, caption_scores, map_scores

PARTS = {"train": (30_000, 1), "dev": (300, 3), "test": (500, 2)}
"""How many pictures, and the seed."""
SETTINGS = (
    "data.image={colour: rgb, invert: true}",
    "data.augmentation=null",
    "data.target.min_count=1",
    "data.max_length=12",
    "model.encoder={backbone: residual, widths: [16, 48, 96, 128], depths: [1, 1, 1, 1], stem_kernel: 5, "
    "positions: learned, dropout: 0.0, backbone_precision: bfloat16}",
    "training.alignment_losses={}",
    "training.learning_rate=0.003",
    "training.schedule=cosine",
    "training.batch_pixels=131072",
    "training.validate_every=1000",
    "training.label_smoothing=0.0",
    "decoding.beam=1",
)
ATTENTION = "recipe: show_attend_tell, size: 64, gate: null"
DECODER = "model.decoder={cell: gru, size: 192, embedding_size: 48, dropout: 0.0, "
AFTER = DECODER + "order: recur_then_attend, input_feeding: false}"
FORMS: dict[str, tuple[str, ...]] = {
    "soft": (f"model.attention={{{ATTENTION}}}", AFTER),
    "hard": (
        f"model.attention={{{ATTENTION}, hard: true, mix: 0.5}}",
        "training.reinforce={entropy_weight: 0.01}",
        AFTER,
    ),
    "soft-deep": (
        f"model.attention={{{ATTENTION}}}",
        "model.decoder={cell: lstm, size: 192, embedding_size: 48, dropout: 0.0, order: recur_then_attend, "
        "input_feeding: false, readout: deep}",
    ),
    "soft-fed": (f"model.attention={{{ATTENTION}}}", DECODER + "order: recur_then_attend, input_feeding: true}"),
    "soft-before": (f"model.attention={{{ATTENTION}}}", DECODER + "order: attend_then_recur}"),
    "published": (
        "model.attention={recipe: show_attend_tell, size: 64, gate: scalar}",
        "training.alignment_losses={doubly_stochastic: 1.0}",
        DECODER + "order: attend_then_recur}",
    ),
}
COLUMNS = (
    "attention", "CPU min", "exact", "BLEU-4", "CIDEr-D", "pointing", "chance", "by the centre", "weight on object",
    "divergence, bits", "weight on ink", "uniform",
)  # fmt: skip


def pictures(folder: Path) -> None:
    """Draws what is not there yet."""
    for part, (count, seed) in PARTS.items():
        if not (folder / part / "pictures.tsv").exists():
            write_synthetic_pictures(folder / part, count=count, seed=seed)


def train(folder: Path, names: list[str], steps: int, further: list[str]) -> None:
    """Trains, one after the other, on one thread; `FORM.cpu` has the seconds of computing of each call."""
    pictures(folder)
    for name in names:
        settings = [f"data.{part}={folder / part / 'pictures.tsv'}" for part in ("train", "dev")]
        settings += [*SETTINGS, *FORMS[name], f"training.max_steps={steps}", "training.threads=1", *further]
        sets = [part for setting in settings for part in ("--set", setting)]
        command = [sys.executable, "-m", "regard", "train", "--preset", "captioning", *sets, "-o", str(folder / name)]
        before = computing()
        with (folder / f"{name}.log").open("a") as log:
            done = subprocess.run(command, stderr=log, check=False)
        with (folder / f"{name}.cpu").open("a") as seconds:
            seconds.write(f"{computing() - before:.0f}\n")
        done.check_returncode()


def computing() -> float:
    """CPU seconds of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(folder: Path, name: str) -> list[str]:
    """A row of the report."""
    model = load(str(folder / name))
    boxes = read_boxes(folder / "test" / "boxes.jsonl")
    outputs = model.predict([folder / "test" / image for image in boxes], search=Search(beam=1))
    captions, exact = [], 0
    for (image, known), output in zip(boxes.items(), outputs, strict=True):
        words = output.text.split()
        is_exact = tuple(words) == known.words
        exact += is_exact
        captions.append(
            CaptionMaps(
                id=image,
                maps=output.alignment[: len(words)],  # without the end symbol
                grid=output.grid,
                boxes=known.boxes if is_exact else None,
                image=output.image,
                size=known.size,
            )
        )
    scores = map_scores(captions)
    scores.write(folder / f"{name}.tsv")
    figures = scores.figures()
    texts = caption_scores([output.text for output in outputs], [[" ".join(one.words)] for one in boxes.values()])
    cpu = sum(float(line) for line in (folder / f"{name}.cpu").read_text().split()) / 60
    shares = ("pointing", "pointing_chance", "centre_pointing", "weight_on_object")
    return [
        name,
        f"{cpu:.1f}",
        f"{exact / len(outputs):.1%}",
        f"{texts['bleu_4']:.3f}",
        f"{texts['cider_d']:.2f}",
        *(f"{figures[share]:.1%}" if share in figures else "" for share in shares),
        f"{figures['map_divergence']:.3f}",
        f"{figures['ink_share']:.1%}",
        f"{figures['uniform_ink_share']:.1%}",
    ]


def main() -> None:
    """Trains or reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--steps", type=int, default=7000, help="optimiser steps of each training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the configuration")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.what == "train":
        train(folder, options.only, options.steps, options.set)
        return
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for name in options.only:
        if (folder / name / "model.safetensors").exists():
            print("| " + " | ".join(row(folder, name)) + " |", flush=True)


if __name__ == "__main__":
    main()
