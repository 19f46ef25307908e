"""How well `regard adapt` adds something new to a model, and how much the model forgets.

    python benchmarks/adaptation.py words|documents|series|speech DATA WORK

DATA is the folder with `g2p_multilingual`, `documents` (R8), `series` (ETTh1) and `speech_ru`; models and files are
written into WORK, and a base model that is there is not trained again. Each part prints a table in Markdown.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOAN = re.compile(
    "^а|ф|^е[влкпр]|нт|нц|нс[^к]|ци|кт|кс|пт|тор|изъм|логи|граф|ист(к[аи])?$|[^лтжбн]и[оа]|ау|еу|ео|теле|метър"
)
"""Spellings of Bulgarian loan words and names: Slavic words have no ф, and only a few begin with а. The pattern comes
from lists of words, before any model was trained."""
NEW = 200
SEEDS = (1, 2, 3)


def regard(*words: object) -> tuple[str, float]:
    """Runs a command; returns its standard output and its seconds of CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "regard", *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"regard {' '.join(map(str, words))}\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def figure(model: Path, file: Path, name: str) -> float:
    """A metric of a model on a file."""
    return float(json.loads(regard("evaluate", "--model", model, file, "--json")[0])[name])


def lines(path: Path, rows: Sequence[str]) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def words(data: Path, work: Path) -> None:
    """Bulgarian pronunciation: a lexicon without loan words and names gets 200 of them."""
    source = data / "g2p_multilingual"
    rows = {part: (source / f"bul_{part}.tsv").read_text("utf-8").splitlines() for part in ("train", "dev", "test")}
    old = {
        part: lines(work / f"old_{part}.tsv", [row for row in each if not LOAN.search(row.split("\t")[0])])
        for part, each in rows.items()
    }
    loans = [row for each in rows.values() for row in each if LOAN.search(row.split("\t")[0])]
    base = work / "runs" / "bul"
    if not (base / "outcome.json").exists():
        sides = ["--set", f"data.train={old['train']}", "--set", f"data.dev={old['dev']}"]
        regard("train", "--preset", "g2p", *sides, "--output", base)
    print("| split | way | old test, words wrong | new held-out words wrong | CPU seconds |\n|---|---|---|---|---|")
    for seed in SEEDS:
        shuffled = random.Random(seed - 1).sample(loans, len(loans))
        new, held_out = (
            lines(work / f"{name}{seed}.tsv", part)
            for name, part in (("new", shuffled[:NEW]), ("held", shuffled[NEW:]))
        )
        start = ["train", "--preset", "g2p", "--set", f"data.train={new}", "--set", f"training.start_from={base}"]
        ways: dict[str, list[object]] = {"before": [], "regard adapt": ["adapt", base, new, "--set", f"seed={seed}"]}
        if seed == SEEDS[0]:
            ways["start_from, its defaults"] = start
            ways["start_from, as from scratch"] = [
                *start,
                "--set",
                "training.epochs=38",
                "--set",
                "training.learning_rate=0.002",
            ]
            ways["regard adapt --replay 0"] = ["adapt", base, new, "--replay", "0"]
        for number, (way, command) in enumerate(ways.items()):
            model, seconds = base, 0.0
            if command:
                model = work / "runs" / f"words{seed}-{number}"
                seconds = regard(*command, "--output", model, "--overwrite")[1]
            wrong = [100 * figure(model, file, "sequence_error_rate") for file in (old["test"], held_out)]
            print(f"| {seed} | {way} | {wrong[0]:.1f} % | {wrong[1]:.1f} % | {seconds:.0f} |", flush=True)


def documents(data: Path, work: Path) -> None:
    """Reuters reports: a classifier of three labels gets a fourth, from 60 reports."""
    labels, rows = ("earn", "acq", "crude"), {}
    for part, most in (("train", 250), ("test", 80)):
        every = (data / "documents" / f"r8_{part}.txt").read_text("utf-8").splitlines()
        rows[part] = {
            label: [row for row in every if row.split("\t")[0] == label][:most] for label in (*labels, "trade")
        }
    old = {
        part: lines(work / f"reports_{part}.tsv", [row for label in labels for row in each[label]])
        for part, each in rows.items()
    }
    new, held_out = (
        lines(work / "trade.tsv", rows["train"]["trade"][:60]),
        lines(work / "trade_test.tsv", rows["test"]["trade"]),
    )
    base = work / "runs" / "reports"
    if not (base / "outcome.json").exists():
        regard("train", "--preset", "documents", "--set", f"data.train={old['train']}", "--output", base)
    model = work / "runs" / "trade"
    seconds = regard("adapt", base, new, "--output", model, "--overwrite")[1]
    print("| way | old test, wrong | new held-out reports, wrong | CPU seconds |\n|---|---|---|---|")
    for way, folder, spent in (("before", base, 0.0), ("regard adapt", model, seconds)):
        wrong = [100 * (1 - figure(folder, file, "accuracy")) for file in (old["test"], held_out)]
        print(f"| {way} | {wrong[0]:.1f} % | {wrong[1]:.1f} % | {spent:.0f} |", flush=True)


def series(data: Path, work: Path) -> None:
    """The oil temperature of a transformer (ETTh1): a forecaster of 16 months gets another month."""
    rows = (data / "series" / "ETTh1.csv").read_text("utf-8").splitlines()
    rows = [",".join(row.split(",")[i] for i in (0, -1)) for row in rows]
    head, body = rows[0], rows[1:]
    old, month, after = 11_520, 720, 720
    train = lines(work / "hours.csv", [head, *body[:old]])
    new = lines(work / "month.csv", [head, *body[old : old + month]])
    held_out = lines(work / "following.csv", [head, *body[old + month - 96 : old + month + after]])
    base, model = work / "runs" / "hours", work / "runs" / "month"
    if not (base / "outcome.json").exists():
        settings = ["data.split={fractions: [0.75, 0.25, 0.0]}", "data.history=96", "data.horizon=24", "data.stride=4"]
        options = [word for setting in settings for word in ("--set", setting)]
        regard("train", "--preset", "forecasting", "--set", f"data.train={train}", *options, "--output", base)
    seconds = regard("adapt", base, new, "--output", model, "--overwrite")[1]
    figures = json.loads((model / "adaptation.json").read_text("utf-8"))["held_out"]
    print("| held-out rows | MSE before | MSE after |\n|---|---|---|")
    for part in figures:
        print(
            f"| {part['data']} | {part['before']['mean_squared_error']:.4f} | "
            f"{part['after']['mean_squared_error']:.4f} |"
        )
    following = [figure(folder, held_out, "mean_squared_error") for folder in (base, model)]
    print(f"| the month after the new one | {following[0]:.4f} | {following[1]:.4f} |\n\n{seconds:.0f} CPU seconds")


def speech(data: Path, work: Path) -> None:
    """Russian speech: a small Tacotron gets a second session, recorded at another level with noise."""
    import torch

    from regard.audio import read_wave, write_wave

    folder = work / "speech"
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    (folder / "second" / "wavs").mkdir(parents=True, exist_ok=True)
    rows = (data / "speech_ru" / "metadata_train.csv").read_text("utf-8").splitlines()
    generator = torch.Generator().manual_seed(1)
    short = sorted(rows, key=lambda row: len(row.split("|")[-1]))[:110]
    for number, row in enumerate(short):
        name = row.split("|")[0]
        sound = next((data / "speech_ru" / "wavs").glob(f"{name}.*"))
        samples, rate = read_wave(sound)
        if number % 11 >= 8:
            samples = 0.25 * samples + 0.002 * torch.randn(samples.shape, generator=generator)
            write_wave(folder / "second" / "wavs" / f"{name}.wav", samples, rate)
        else:
            write_wave(folder / "wavs" / f"{name}.wav", samples, rate)
    first = [row for number, row in enumerate(short) if number % 11 < 8]
    second = [row for number, row in enumerate(short) if number % 11 >= 8]
    table, new = lines(folder / "metadata.csv", first), lines(folder / "second" / "metadata.csv", second)
    base, model = work / "runs" / "voice", work / "runs" / "voice2"
    if not (base / "outcome.json").exists():
        settings = [
            "data.case=lower",
            "training.max_steps=400",
            "model.decoder.num_frames=5",
            "data.dev_fraction=0.1",
            "model.encoder.size=64",
            "model.decoder.size=128",
            "training.validate_every=200",
        ]
        options = [word for setting in settings for word in ("--set", setting)]
        regard("train", "--preset", "speech", "--set", f"data.train={table}", *options, "--output", base)
    seconds = regard("adapt", base, new, "--set", "data.dev_fraction=0.2", "--output", model, "--overwrite")[1]
    print("| held-out sentences | metric | before | after |\n|---|---|---|---|")
    for part in json.loads((model / "adaptation.json").read_text("utf-8"))["held_out"]:
        for name in ("mel_cepstral_distortion", "teacher_forced_loss"):
            print(f"| {part['data']} | {name} | {part['before'][name]:.3f} | {part['after'][name]:.3f} |")
    print(f"\n{seconds:.0f} CPU seconds")


if __name__ == "__main__":
    part, data, work = sys.argv[1], Path(sys.argv[2]).absolute(), Path(sys.argv[3]).absolute()
    work.mkdir(parents=True, exist_ok=True)
    {"words": words, "documents": documents, "series": series, "speech": speech}[part](data, work)
