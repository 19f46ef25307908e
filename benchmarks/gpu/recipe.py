"""The recipe of g2p-en on synthetic words: steps of its training and its decoding, in float32 and bfloat16."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from place import Place, Result, short
from speed.clock import Quartiles, ratio, turns
from speed.report import table

from regard.config import load
from regard.config.tasks.text_to_text import TextToTextConfig
from regard.data import BOS, EOS, PAD
from regard.decoding import Search, search
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.reading import read_data
from regard.tasks.text_to_text.trainee import TextTrainee
from regard.training.accumulation import LocalBatch
from regard.training.step import Stepper

RECIPE = Path(__file__).parents[1] / "g2p" / "g2p-en.yaml"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PRECISIONS = ("float32", "bfloat16")
WORDS, STEPS, ROWS, BEAM = 20_000, 20, 512, 5
TINY_WORDS, TINY_STEPS, TINY_ROWS = 60, 2, 6


def words(count: int, seed: int) -> str:
    """Lines of words of 3 to 14 letters and their phones: one for a letter, which depends on the one before."""
    draw = np.random.default_rng(seed)
    lines = []
    for length in draw.integers(3, 15, count):
        letters = draw.integers(len(LETTERS), size=length)
        phones = (letters + np.roll(letters, 1) % 2 * 13) % 39
        lines.append("".join(LETTERS[i] for i in letters) + "\t" + " ".join(f"P{i}" for i in phones))
    return "".join(f"{line}\n" for line in lines)


def prepare(
    place: Place, folder: Path, precision: str, *, compiled: bool = False
) -> tuple[TextToTextConfig, TextTrainee]:
    """The recipe's model on the device, and its data."""
    count = WORDS if place.is_full else TINY_WORDS
    overrides = [f"training.precision={precision}", f"training.compile={str(compiled).lower()}"]
    for part, number, seed in (("train", count, 1), ("dev", max(10, count // 40), 2)):
        path = folder / f"{part}.tsv"
        path.write_text(words(number, seed), encoding="utf-8")
        overrides.append(f"data.{part}={path}")
    overrides.append(f"training.device={place.device.type}")
    if not place.is_full:
        overrides += [
            "model.encoder.size=16",
            "model.decoder.size=16",
            "model.attention.size=16",
            "training.batch_tokens=64",
        ]
    config = load(RECIPE, overrides).config
    data = read_data(config.data)
    torch.manual_seed(1)
    model = TextToText.build(config, data.source, data.target, name="synthetic")
    model.module.to(place.device)
    return config, TextTrainee(model, data.train, data.dev)


def steps(
    place: Place, folder: Path, precision: str, *, compiled: bool
) -> tuple[Callable[[], Any], float, list[float]]:
    """Some steps of the trainer, the target symbols in them, and a list that the losses are added to."""
    config, trainee = prepare(place, folder, precision, compiled=compiled)
    trainee.module.train()
    batches = [trainee.batch(rows) for rows in trainee.descriptions(0)[: STEPS if place.is_full else TINY_STEPS]]
    stepper, generator = Stepper(trainee, config.training, place.device), torch.Generator()
    losses: list[float] = []

    def run() -> None:
        known = []
        for number, batch in enumerate(batches, start=len(losses)):
            known += stepper(
                [(LocalBatch(range(len(batch["source"]))), batch)],
                step=number,
                learning_rate=config.training.learning_rate,
                generator=generator,
            )
        losses.extend(figures.loss / figures.count for figures in known + stepper.read())

    return run, float(sum(int(batch["mask"].sum()) for batch in batches)), losses


def training(place: Place, *, precisions: Sequence[str] = PRECISIONS, compiled: bool = False) -> Result:
    """Target symbols a second of training; the loss has to fall."""
    result, rows = Result(), []
    with tempfile.TemporaryDirectory() as name:
        sides, symbols, losses = {}, {}, {}
        for precision in precisions:
            sides[precision], symbols[precision], losses[precision] = steps(
                place, Path(name), precision, compiled=compiled
            )
        seconds = turns(sides, rounds=place.rounds, turn=place.turn, clock=place.clock)
    for precision, times in seconds.items():
        spent = Quartiles.of([symbols[precision] / time for time in times])
        first, last = losses[precision][0], losses[precision][-1]
        faster = ratio(seconds[precisions[0]], times)
        rate = f"{spent.median:,.0f}", f"{spent.low:,.0f} to {spent.high:,.0f}"
        rows.append(
            [
                precision,
                "compiled" if compiled else "eager",
                *rate,
                f"{faster.median:.2f} ×",
                f"{first:.3f}, {last:.3f}",
            ]
        )
        if not last < first:
            result.failures.append(f"{precision}: the loss went from {first:.3f} to {last:.3f}")
    head = [
        "precision",
        "loss",
        "target symbols a second",
        "quartiles",
        f"as fast as {precisions[0]}",
        "loss a symbol, first and last step",
    ]
    result.parts.append(table(head, rows))
    result.figures = ", ".join(f"{row[0]} {row[2]} symbols/s" for row in rows)
    return result


def compiled(place: Place) -> Result:
    """`training` with `training.compile`, in float32 only: compiling takes longer than all steps."""
    return training(place, precisions=PRECISIONS[:1], compiled=True)


def compiled_bfloat16(place: Place) -> Result:
    """`training` with `training.compile` in bfloat16."""
    return training(place, precisions=PRECISIONS[1:], compiled=True)


def decoding(place: Place) -> Result:
    """Words a second, greedy and with a beam, each output as long as its source."""
    result, rows = Result(), []
    count = ROWS if place.is_full else TINY_ROWS
    with tempfile.TemporaryDirectory() as name:
        _, trainee = prepare(place, Path(name), "float32")
        module = trainee.module.eval()
        batches = []
        for start in range(0, 4 * count, count):
            source = trainee.batch(trainee.kept[start : start + count])["source"]
            batches.append((source.to(place.device), (source != PAD).sum(1)))
    outputs: dict[tuple[int, torch.dtype], list[Any]] = {}

    def side(beam: int, dtype: torch.dtype) -> Callable[[], Any]:
        model = module if dtype == torch.float32 else _copy(module, dtype)
        results = outputs[beam, dtype] = []

        def run() -> None:
            results.clear()
            for source, lengths in batches:
                with torch.inference_mode():
                    memory = model.prepare(source, source != PAD)
                options = Search(beam=beam, length_penalty="none", min_length=int(lengths.min()))
                results.extend(search(model.decoder, memory, options, bos=BOS, eos=EOS, max_length=lengths))

        return run

    sides = {(beam, dtype): side(beam, dtype) for beam in (1, BEAM) for dtype in (torch.float32, torch.bfloat16)}
    seconds = turns(
        {str(key): run for key, run in sides.items()}, rounds=min(place.rounds, 5), turn=place.turn, clock=place.clock
    )
    for beam, dtype in sides:
        spent = Quartiles.of([4 * count / time for time in seconds[str((beam, dtype))]])
        best = [hypotheses[0].log_probability for hypotheses in outputs[beam, dtype]]
        exact = [hypotheses[0].log_probability for hypotheses in outputs[beam, torch.float32]]
        if len(best) != 4 * count or not np.isfinite(best).all():
            result.failures.append(f"beam {beam}, {short(dtype)}: {len(best)} outputs, not all of them finite")
        off = float(np.abs(np.subtract(best, exact)).mean()) if len(best) == len(exact) else float("nan")
        rows.append(
            [beam, short(dtype), f"{spent.median:,.0f}", f"{spent.low:,.0f} to {spent.high:,.0f}", f"{off:.3f}"]
        )
    head = ["beam", "weights", "words a second", "quartiles", "mean difference of log-probabilities from float32"]
    result.parts.append(table(head, rows))
    result.figures = f"beam {BEAM}, float32: {rows[2][2]} words/s"
    return result


def _copy(module: Any, dtype: torch.dtype) -> Any:
    import copy

    return copy.deepcopy(module).to(dtype)
