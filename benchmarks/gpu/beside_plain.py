"""Every case of `bench.py`, and a Transformer's training, beside plain torch on the same device."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import transformer_training as peers
from place import Place, Result, milliseconds, peak, short
from preset_cases import Training, builder
from preset_data import constant
from speed import CASES, Case
from speed.case import OURS, PLAIN
from speed.cases import captions, encoders, refinement
from speed.cases import models as model_cases
from speed.clock import Quartiles, ratio, turns
from speed.gate import judge, worst

LARGE = (*model_cases.MODELS, *encoders.ENCODERS, *refinement.REFINEMENT, *captions.CAPTIONS)
DECODER = "decoder", torch.bfloat16
"""The case and the format that have an aim of their own."""


def models(place: Place, result: Result) -> None:
    """Cases of whole models."""
    cases(place, result, LARGE)


def operations(place: Place, result: Result) -> None:
    """Cases of operations."""
    cases(place, result, [case for case in CASES.values() if case not in LARGE])


def cases(place: Place, result: Result, chosen: Any) -> None:
    """The gate of each case, and its time, in float32 and bfloat16; ours must be as fast as the fastest plain way."""
    head = ("case", "format", "share of the error allowed", "ms", "plain ms", "faster", "quartiles", "wanted")
    add, slower = result.table(*head, "MB", "plain MB"), list[str]()
    for case in chosen:
        for dtype in (torch.float32, torch.bfloat16):
            name = f"{case.name}, {short(dtype)}"
            try:
                row, faster = measured(place, case, dtype, result)
            except NotImplementedError as error:  # an operation of torch that there is not in this format
                add(case.name, short(dtype), str(error).partition("\n")[0][:100])
                continue
            except (RuntimeError, ValueError, TypeError) as error:  # the other cases are measured
                result.failures.append(f"{name}: {type(error).__name__}: {error}"[:500])
                continue
            add(case.name, short(dtype), *row)
            if faster is None:
                continue
            result.least(f"the slowest case beside plain torch, {short(dtype)}", faster)
            if (case.name, dtype) == DECODER:
                result.least("decoder's pass in bfloat16 beside plain torch", faster)
            if faster < 1:
                slower.append(f"{name} {faster:.2f} ×")
            result.summary = "slower than plain torch: " + (", ".join(slower) or "none")


def measured(place: Place, case: Case, dtype: torch.dtype, result: Result) -> tuple[list[str], float | None]:
    """The cells of a row behind the format, and how many times faster ours is; None where nothing is compared."""
    case, sizes = place.case(case), case.sized(quick=not place.is_full)
    # the gate computes in float64, so a part of the batch is enough
    name, error = worst(judge(case, {**sizes, **({"B": min(8, sizes["B"])} if "B" in sizes else {})}, dtype))
    share = f"{error.share:.2f}"
    if not error.passes:
        result.failures.append(f"{case.name}, {short(dtype)}: {name} is {error.share:.2g} × as far off as allowed")
        return [share], None
    sides = case.contest(dtype, sizes).sides
    if not place.is_full:  # all of them fit into a GPU's memory
        sides = {name: side for name, side in sides.items() if name not in case.untimed}
    seconds = turns(sides, rounds=place.rounds, turn=place.turn, clock=place.clock)
    plains = [name for name in sides if name.startswith(PLAIN)]
    if not plains:
        return [share, milliseconds(seconds[OURS])], None
    plain = min(plains, key=lambda name: Quartiles.of(seconds[name]).median)
    faster = ratio(seconds[plain], seconds[OURS])
    least = 4 if (case.name, dtype) == DECODER else 1
    times = milliseconds(seconds[OURS]), milliseconds(seconds[plain])
    quartiles = f"{faster.low:.2f} to {faster.high:.2f}"
    memory = peak(place, sides[OURS]), peak(place, sides[plain])
    return [share, *times, f"{faster.median:.2f} ×", quartiles, f"≥ {least} ×", *memory], faster.median


def transformer(place: Place, result: Result) -> None:
    """The preset translation-transformer and `nn.Transformer` with torch.compile: the same sizes, texts of 20 words."""
    size, layers, rows, count = (256, 4, 128, 4) if place.is_full else (64, 1, 4, 1)
    overrides = {f"model.{side}.{key}": value for side in ("encoder", "decoder") for key, value in _sizes(size, layers)}
    overrides |= {"data.joint_vocabulary": False, "model.shared_embeddings": False, "model.decoder.tied_weights": False}
    overrides |= {f"data.{side}.units": "whitespace" for side in ("source", "target")}
    add = result.table(
        "precision", "rows", "ms a step", "nn.Transformer compiled, ms", "faster", "quartiles", "recorded"
    )
    with tempfile.TemporaryDirectory() as folder:
        data = constant(Path(folder), 2_000 if place.is_full else 20, peers.LENGTH - 1, peers.LENGTH - 1, 8_000)
        overrides |= {"training.batch_tokens": rows * peers.LENGTH, "training.device": place.device.type}
        build = builder("translation-transformer", data, **overrides)
    for precision in ("float32", "bfloat16"):
        training = Training(*build(precision=precision), count)
        training()
        rows = len(training.batches[0][1]["source"])
        with place.building():
            program = peers.torch_program(size, layers, 0.1, rows)
        program.module.compile(backend="inductor" if place.is_full else "eager")

        def plain(program: peers.Program = program, is_half: bool = precision == "bfloat16") -> None:
            with torch.autocast(place.device.type, torch.bfloat16, enabled=is_half):
                for _ in range(count):
                    program.step_with_update()

        sides = {OURS: training, PLAIN: plain}
        seconds = turns(sides, rounds=place.rounds, turn=place.turn, clock=place.clock)
        faster = ratio(seconds[PLAIN], seconds[OURS])
        each = [milliseconds([s / count for s in seconds[name]]) for name in (OURS, PLAIN)]
        quartiles = f"{faster.low:.2f} to {faster.high:.2f}"
        add(precision, rows, *each, f"{faster.median:.2f} ×", quartiles, training.stepper.unrecorded or "yes")
        result.least("translation-transformer beside nn.Transformer compiled", faster.median)
        result.summary = f"{faster.median:.2f} × in {precision}"


def _sizes(size: int, layers: int) -> list[tuple[str, int]]:
    return [("size", size), ("layers", layers), ("heads", size // peers.HEAD)]
