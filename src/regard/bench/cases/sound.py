"""Sound from magnitudes: our loops between transforms against torch's operations."""

from __future__ import annotations

from functools import partial

import torch

from regard import ops
from regard.bench.case import OURS, PLAIN, Answer, Case, Contest
from regard.testing.cases.draws import draw

N_FFT, HOP = 1024, 200


def griffin_lim(dtype: torch.dtype, *, T: int, iterations: int) -> Contest:
    """One sound of noise; its samples are sums over all frequencies of a frame."""
    window = torch.hann_window(N_FFT, dtype=torch.float64)
    frames = draw((T - 1) * HOP + N_FFT).double().unfold(0, N_FFT, HOP)
    magnitudes = torch.fft.rfft(frames * window).abs()
    phases = 6 * draw(*magnitudes.shape, seed=1)
    inputs = (magnitudes.to(dtype), torch.tensor([T]), phases.float().to(dtype), window.to(dtype))
    *_, reference = ops.IMPLEMENTATIONS["griffin_lim"]

    def job(function: object) -> Answer:
        assert callable(function)
        options = {"hop_length": HOP, "margin": N_FFT // 2, "reflect": True}
        return {"sound": function(*inputs, **options, iterations=iterations, momentum=0.99)}

    sides = {OURS: partial(job, ops.griffin_lim), PLAIN: partial(job, reference.function)}
    return Contest(sides, terms={"sound": float(2 * magnitudes.sum(1).max() / N_FFT)})


def warping_path(dtype: torch.dtype, *, B: int, T: int) -> Contest:
    """Pairs of sequences of equal length; their costs along the cheapest way."""
    costs = draw(B, T, T).abs().to(dtype)
    lengths = torch.full((B,), T)
    *_, reference = ops.IMPLEMENTATIONS["warping_path"]

    def job(function: object) -> Answer:
        assert callable(function)
        pairs, counts = function(costs, lengths, lengths)
        real = torch.arange(pairs.shape[1]) < counts[:, None]
        rows = torch.arange(B)[:, None].expand_as(real)[real]
        taken = pairs[real]
        return {"cost": torch.zeros(B, dtype=dtype).index_add(0, rows, costs[rows, taken[:, 0], taken[:, 1]])}

    sides = {OURS: partial(job, ops.warping_path), PLAIN: partial(job, reference.function)}
    return Contest(sides, terms={"cost": float(2 * T * costs.max())})


SOUND = (
    Case(
        "griffin-lim",
        "phases of three seconds of sound by Griffin-Lim",
        griffin_lim,
        {"T": 240, "iterations": 30},
        {"T": 8, "iterations": 2},
        gate={"T": 60, "iterations": 2},
    ),
    Case(
        "warping-path",
        "dynamic time warping of pairs of sounds of two seconds",
        warping_path,
        {"B": 8, "T": 160},
        {"B": 2, "T": 6},
        gate={"B": 2, "T": 20},
    ),
)
