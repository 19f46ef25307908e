"""Searches: of the recipe g2p-en over batches of 512 words, and of presets from inputs to outputs."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from place import Place, Result, activity, peak, short
from preset_cases import SEARCHED, job
from speed.clock import Quartiles, turns
from training import g2p_en

from regard.data.text import BOS, EOS, PAD
from regard.decoding import Search, search

BEAM, BATCHES = 5, 4


def recipe(place: Place, result: Result) -> None:
    """Words a second, greedy and with a beam, each output at most as long as its source."""
    rows = 512 if place.is_full else 6
    with tempfile.TemporaryDirectory() as folder:
        model, trainee = g2p_en(place, Path(folder))()
    module = model.module.to(place.device).eval()
    sources = [trainee.batch(trainee.used[i * rows : (i + 1) * rows])["source"] for i in range(BATCHES)]
    batches = [(source.to(place.device), (source != PAD).sum(1)) for source in sources]
    found: dict[tuple[int, torch.dtype], list[Any]] = {}

    def side(beam: int, dtype: torch.dtype) -> Callable[[], Any]:
        network = module if dtype == torch.float32 else copy.deepcopy(module).to(dtype)
        results = found[beam, dtype] = []

        def call() -> None:
            results.clear()
            for source, lengths in batches:
                with torch.inference_mode():
                    memory = network.prepare(source, source != PAD)
                options = Search(beam=beam, length_penalty="none", min_length=int(lengths.min()))
                results.extend(search(network.decoder, memory, options, bos=BOS, eos=EOS, max_length=lengths))

        return call

    sides = {(beam, dtype): side(beam, dtype) for beam in (BEAM, 1) for dtype in (torch.float32, torch.bfloat16)}
    named = {f"beam {beam}, {short(dtype)}": call for (beam, dtype), call in sides.items()}
    seconds = turns(named, rounds=min(place.rounds, 5), turn=place.turn, clock=place.clock)
    head = ("beam, weights", "words a second", "quartiles", "GPU busy", "launches a batch", "kernels a batch")
    add = result.table(*head, "MB at the peak", "mean difference of log-probabilities from float32")
    rates = []
    for (beam, dtype), (name, call) in zip(sides, named.items(), strict=True):
        rate = Quartiles.of([BATCHES * rows / each for each in seconds[name]])
        memory, done = peak(place, call), activity(place, call)
        best, exact = ([each[0].log_probability for each in found[beam, kind]] for kind in (dtype, torch.float32))
        if len(best) != BATCHES * rows or not np.isfinite(best).all():
            result.failures.append(f"{name}: {len(best)} outputs, not all of them finite")
        busy = done.share(BATCHES * rows / rate.median)
        counts = [f"{number / BATCHES:,.0f}" for number in (done.launches, done.kernels)]
        off = f"{np.abs(np.subtract(best, exact)).mean():.1e}"
        add(name, f"{rate.median:,.0f}", f"{rate.low:,.0f} to {rate.high:,.0f}", busy, *counts, memory, off)
        rates.append(rate.median)
    result.least("beam of 5 over 512 words", rates[0])
    result.least("greedy beside a beam of 5", rates[2] / rates[0])
    result.summary = f"beam {BEAM} {rates[0]:,.0f}, greedy {rates[2]:,.0f} words/s in float32"


def presets(place: Place, result: Result) -> None:
    """Outputs a second of presets, with reading the inputs and writing the outputs; they are 20 symbols long."""
    rows = 512 if place.is_full else 2
    names = [f"free-run/speech/rows-{min(rows, 16)}", f"free-run/language-model/rows-{min(rows, 64)}"]
    names += [f"search/{preset}/beam-{beam}/rows-{rows}" for preset in SEARCHED for beam in (BEAM, 1)]
    add = result.table("case", "outputs", "outputs a second", "quartiles", "GPU busy", "launches", "MB at the peak")
    with tempfile.TemporaryDirectory() as folder:
        for name in names if place.is_full else names[:4]:
            try:
                call, _ = job(name, Path(folder), place.device.type)
                count = len(call())  # type: ignore[arg-type]
                seconds = turns({name: call}, rounds=3, turn=place.turn, clock=place.clock)[name]
                memory, done = peak(place, call), activity(place, call)
            except (RuntimeError, ValueError, ImportError) as error:  # the other cases are measured
                result.failures.append(f"{name}: {type(error).__name__}: {error}"[:500])
                continue
            rate, spent = Quartiles.of([count / each for each in seconds]), Quartiles.of(seconds).median
            shown = f"{rate.median:,.0f}", f"{rate.low:,.0f} to {rate.high:,.0f}"
            add(name, count, *shown, done.share(spent), f"{done.launches:,}", memory)
            if name.startswith("free-run/speech"):
                result.least("synthesis of speech, sentences", rate.median)
    result.summary = "outputs a second of every preset with a search"
