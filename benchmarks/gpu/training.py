"""Optimiser steps as `regard train` makes them, recorded where they can be: symbols a second, and what the GPU does."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from place import Place, Result, activity
from preset_cases import Training, builder
from preset_data import path_of, write_lines
from speed.clock import Quartiles, turns

G2P_EN = Path(__file__).parents[1] / "g2p" / "g2p-en.yaml"
FACTORS = (1, 4, 16)
"""Of the default batch."""
PRECISIONS = "float32", "bfloat16"
HEAD = (
    "model",
    "precision",
    "batch",
    "symbols a second",
    "quartiles",
    "ms a step",
    "GPU busy",
    "launches a step",
    "kernels a step",
    "MB at the peak",
    "loss a symbol, first and last",
    "recorded",
)
Build = Callable[..., tuple[Any, Any]]


def g2p_en(place: Place, folder: Path) -> Build:
    """What makes the model of the recipe and its trainee, on drawn words."""
    data, small = path_of("g2p", folder), dict[str, object]()
    if not place.is_full:
        data = write_lines(folder / "few.tsv", data.read_text(encoding="utf-8").splitlines()[:200])
        small = {f"model.{part}.size": 16 for part in ("encoder", "decoder", "attention")}
    given = {"data.dev": data, "training.allow_trained_dev": True, "training.device": place.device.type}
    return builder(G2P_EN, data, **given, **small)


def recipe(place: Place, result: Result) -> None:
    """The recipe of g2p-en on drawn words, in float32 and bfloat16."""
    add = result.table(*HEAD)
    with tempfile.TemporaryDirectory() as folder:
        build = g2p_en(place, Path(folder))
        batch = default_batch(build)
        for factor in FACTORS if place.is_full else FACTORS[:1]:
            rates = [
                steps(place, result, add, build, "g2p-en", batch, precision, factor, count=20 // factor + 4)
                for precision in PRECISIONS
            ]
            if factor == 1:
                result.least("training of g2p-en at its default batch, float32", rates[0])
                result.summary = f"{rates[0]:,.0f} and {rates[1]:,.0f} symbols/s in float32 and bfloat16"
            result.least("training of g2p-en, bfloat16 beside float32", rates[1] / rates[0])


def presets(place: Place, result: Result, *names: str) -> None:
    """Presets on drawn data, in float32 and bfloat16."""
    add, shown = result.table(*HEAD), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            try:
                build = builder(name, path_of(name, Path(folder)), **{"training.device": place.device.type})
                batch = default_batch(build)
                for factor in FACTORS if place.is_full else FACTORS[:1]:
                    rates = [
                        steps(place, result, add, build, name, batch, precision, factor, count=6)
                        for precision in PRECISIONS
                    ]
                    if factor == 1:
                        shown.append(f"{name} {rates[0]:,.0f} and {rates[1]:,.0f}")
                        result.summary = f"symbols/s in float32 and bfloat16: {', '.join(shown)}"
            except (RuntimeError, ValueError, ImportError) as error:  # the other presets are measured
                result.failures.append(f"{name}: {type(error).__name__}: {error}"[:500])


def default_batch(build: Build) -> tuple[str, int]:
    """The key of a batch's size, and its default."""
    training = build()[0].config.training
    key = next(key for key in type(training).model_fields if key.startswith("batch_"))
    return key, getattr(training, key)


def steps(
    place: Place,
    result: Result,
    add: Callable[..., None],
    build: Build,
    name: str,
    batch: tuple[str, int],
    precision: str,
    factor: int,
    *,
    count: int,
) -> float:
    """A row: steps on `count` batches of `factor` times the default size. Returns symbols a second.

    Args:
        batch: as `default_batch` returns it.
    """
    gc.collect()  # the recordings of the row before keep memory, and its steps refer to themselves
    if place.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    key, default = batch
    size = factor * default if place.is_full else 2 if key in ("batch_size", "batch_windows") else default // 8
    training = Training(*build(**{key: size, "precision": precision}), count if place.is_full else 1)
    figures = training()  # as they are; the next ones are recorded, and then replayed
    number, symbols = len(figures), sum(each.count for each in figures)
    seconds = turns({name: training}, rounds=min(place.rounds, 5), turn=place.turn, clock=place.clock)[name]
    done = activity(place, training)
    last = training()
    losses = [sum(each.loss for each in step) / symbols for step in (figures, last)]
    if not losses[1] < losses[0]:
        result.failures.append(
            f"{name}, {precision}, {factor} ×: the loss went from {losses[0]:.3f} to {losses[1]:.3f}"
        )
    rate = Quartiles.of([symbols / each for each in seconds])
    spent = Quartiles.of(seconds).median
    megabytes = f"{torch.cuda.max_memory_reserved() / 2**20:,.0f}" if place.device.type == "cuda" else ""
    shown = [
        f"{factor} ×",
        f"{rate.median:,.0f}",
        f"{rate.low:,.0f} to {rate.high:,.0f}",
        f"{1e3 * spent / number:.3g}",
    ]
    per_step = [f"{done.launches / number:.0f}", f"{done.kernels / number:.0f}"]
    why = training.stepper.unrecorded or "yes"
    add(name, precision, *shown, done.share(spent), *per_step, megabytes, f"{losses[0]:.3f}, {losses[1]:.3f}", why)
    return rate.median
