"""Handwritten formulas (CROHME) to LaTeX: trainings, expression rates on test 2014, and what the errors are.

    python benchmarks/captioning/formulas.py prepare FOLDER --data HANDWRITING
    python benchmarks/captioning/formulas.py train FOLDER [--only small large quarter no-coverage ...] [--set KEY=VALUE]
    python benchmarks/captioning/formulas.py report FOLDER [--only ...] [--beam 5]

HANDWRITING holds `train.jsonl.gz` and `test2014.jsonl.gz`, with `strokes` and `tokens`. FOLDER gets `train.jsonl`,
`dev.jsonl` (400 formulas of the training, which choose the step), `quarter.jsonl` (a quarter of the formulas of both,
all from `train.jsonl`) and `test.jsonl`. Trainings have the preset `formulas`. `small` begins with symbols 16 pixels
high and little augmentation, which is fast; `large` goes on with its weights and the preset's own sizes, and `larger`
with symbols of 24 pixels, more augmentation and more dropout. Those of the ablation differ from `quarter` (symbols 16
pixels high) by what their name says, and take as many steps. `train`
continues what was stopped.

`report` prints for each run the rates of the greedy search and of the beam, pictures a second of that search with one
thread, and the kinds of errors; where both directions were learned, both rank the beam (a joint search).
`NAME.errors.txt` lists every formula that is wrong.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import time
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import torch

from regard import load
from regard.image import Strokes
from regard.metrics import expression_rates
from regard.models.vision import multiply_adds

SETTINGS = (
    "model.encoder.backbone_precision=bfloat16",
    "training.schedule=cosine",
    "training.threads=1",
    "training.validation_pictures=200",
    "decoding.validation_beam=1",
)
SMALL = "data.image={unit: 16.0, pen: 1.8, max_pixels: 80000}"
WHOLE = ("data.train=train.jsonl", "model.encoder.dropout=0.1", "model.decoder.dropout=0.2")
LIGHT = "data.augmentation={strokes: {scale: 0.2, stretch: 0.1, slant: 0.2, rotation: 3, elastic: 0.0, jitter: 0.02}}"
QUARTER = (
    "data.train=quarter.jsonl", SMALL, LIGHT, "model.encoder.dropout=0.1", "model.decoder.dropout=0.2",
    "training.batch_pixels=200000", "training.max_steps=5000", "training.warmup_steps=500",
    "training.validate_every=1000",
)  # fmt: skip
LARGER_CHANGES = (
    "data.augmentation={strokes: {scale: 0.3, stretch: 0.2, slant: 0.35, rotation: 6, pen: 0.4, elastic: 0.08, "
    "jitter: 0.04}}"
)
FORMS: dict[str, tuple[str, ...]] = {
    "small": (
        *WHOLE, SMALL, LIGHT, "training.batch_pixels=200000", "training.max_steps=13000", "training.warmup_steps=500",
        "training.validate_every=2500",
    ),
    "large": (
        *WHOLE, "training.start_from=small", "training.batch_pixels=200000", "training.max_steps=11000",
        "training.warmup_steps=300", "training.learning_rate=0.0007", "training.validate_every=2000",
    ),
    "larger": (
        "data.train=train.jsonl", "model.encoder.dropout=0.2", "model.decoder.dropout=0.3", LARGER_CHANGES,
        "data.image={unit: 24.0, pen: 2.2, max_pixels: 180000}", "training.start_from=large",
        "training.batch_pixels=240000", "training.max_steps=10000", "training.warmup_steps=300",
        "training.validate_every=2000",
    ),
    "quarter": QUARTER,
    "no-coverage": (*QUARTER, "model.attention={recipe: bahdanau, size: 128}"),
    "no-augmentation": (*QUARTER, "data.augmentation=null"),
    "both-directions": (*QUARTER, "data.target.direction=both"),
}  # fmt: skip
STRUCTURE = {"{", "}", "^", "_", "\\frac", "\\sqrt", "\\limits"}
COLUMNS = (
    "run", "greedy", "beam", "≤ 1", "≤ 2", "≤ 3", "symbol errors", "pictures/s", "GFLOP a picture", "million weights",
)  # fmt: skip


def prepare(folder: Path, data: Path) -> None:
    """Writes the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {
        part: gzip.decompress((data / f"{part}.jsonl.gz").read_bytes()).decode().splitlines(keepends=True)
        for part in ("train", "test2014")
    }
    rows = lines["train"]
    random.Random(1).shuffle(rows)
    parts = {"train": rows[:-400], "dev": rows[-400:], "quarter": rows[: len(rows) // 4], "test": lines["test2014"]}
    for part, chosen in parts.items():
        (folder / f"{part}.jsonl").write_text("".join(chosen), encoding="utf-8")
        print(f"{part}.jsonl: {len(chosen):,} formulas")


def train(folder: Path, names: list[str], further: list[str]) -> None:
    """Trains, one after the other."""
    for name in names:
        settings = ("data.dev=dev.jsonl", *SETTINGS, *FORMS[name], *further)
        sets = [part for setting in settings for part in ("--set", setting)]
        command = [sys.executable, "-m", "regard", "train", "--preset", "formulas", *sets, "-o", name]
        with (folder / f"{name}.log").open("a") as log:
            subprocess.run(command, stderr=log, check=True, cwd=folder)


def kinds_of_errors(outputs: list[list[str]], references: list[list[str]]) -> Counter[str]:
    """How many formulas have what kind of error first: the first place where output and reference differ."""
    kinds: Counter[str] = Counter()
    for output, reference in zip(outputs, references, strict=True):
        for tag, start, end, other, stop in SequenceMatcher(None, reference, output, autojunk=False).get_opcodes():
            if tag != "equal":
                missing, given = reference[start:end], output[other:stop]
                if STRUCTURE.intersection(missing + given):
                    kinds["structure"] += 1
                elif tag == "replace":
                    kinds[f"{' '.join(missing[:1])} read as {' '.join(given[:1])}"] += 1
                else:
                    kinds["left out" if tag == "delete" else "too many"] += 1
                break
    return kinds


def report(folder: Path, name: str, beam: int) -> list[str]:
    """A row; the errors go to a file."""
    model = load(str(folder / name))
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    pictures = [Strokes.of(row["strokes"]) for row in rows]
    references = [row["tokens"].split() for row in rows]
    settings = model.config.decoding
    joint = model.config.data.target.direction == "both"
    rates = []
    for search in (settings.replace(beam=1), settings.replace(beam=beam, joint=joint)):
        begin = time.perf_counter()
        outputs = [output.text.split() for output in model.predict(pictures, search=search)]
        seconds = time.perf_counter() - begin
        rates.append(expression_rates(outputs, [[reference] for reference in references]))
    wrong = [(row, output) for row, output in zip(rows, outputs, strict=True) if row["tokens"].split() != output]
    with (folder / f"{name}.errors.txt").open("w", encoding="utf-8") as file:
        for row, output in wrong:
            print(row["id"], row["tokens"], " ".join(output), sep="\n\t", file=file)
    kinds = kinds_of_errors(outputs, references)
    print(f"{name}: first errors of {len(wrong)} formulas: {kinds.most_common(12)}", file=sys.stderr)
    for low, high in ((1, 5), (6, 10), (11, 20), (21, 40), (41, 1000)):
        inside = [output == ref for output, ref in zip(outputs, references, strict=True) if low <= len(ref) <= high]
        print(f"  {low} to {high} symbols: {sum(inside)} of {len(inside)} exact", file=sys.stderr)
    cost = 2 * multiply_adds(model.module.encoder.backbone, 128, 512) / (128 * 512)  # billions a pixel
    pixels = [float(np.prod(model.reader(picture).shape[1:])) for picture in pictures]
    best = rates[-1]
    return [
        name,
        f"{rates[0]['exact']:.1%}",
        *(f"{best[key]:.1%}" for key in ("exact", "within_1", "within_2", "within_3", "symbol_error_rate")),
        f"{len(rows) / seconds:.1f}",
        f"{cost * np.mean(pixels):.2f}",
        f"{sum(parameter.numel() for parameter in model.module.parameters()) / 1e6:.2f}",
    ]


def main() -> None:
    """Prepares, trains or reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "train", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="the folder of the compressed tables")
    parser.add_argument("--only", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the configuration")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.what == "prepare":
        if options.data is None:
            parser.error("prepare needs --data")
        prepare(folder, options.data)
    elif options.what == "train":
        train(folder, options.only, options.set)
    else:
        torch.set_num_threads(1)
        print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
        for name in options.only:
            if (folder / name / "model.safetensors").exists():
                print("| " + " | ".join(report(folder, name, options.beam)) + " |", flush=True)


if __name__ == "__main__":
    main()
