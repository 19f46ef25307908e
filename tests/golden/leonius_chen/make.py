"""Goldens of LeoniusChen's collection of Tacotron attentions.

Program: LeoniusChen/Attentions-in-Tacotron at commit 8215012, on torch 2.13.0 (CPU).

    git clone https://github.com/LeoniusChen/Attentions-in-Tacotron
    git -C Attentions-in-Tacotron checkout 8215012
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy scipy==1.17.1
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/leonius_chen/make.py Attentions-in-Tacotron

All run in `eval`, so there is no noise. It has no key projection, so the memory is `keys` and `memory` is what is read.
The mixtures mask with 1e-8 behind autograd's back, so they run without a mask, as does stepwise attention's long run,
where mass leaves the end; what they add to widths (1e-5) is set to 0. Dynamic convolution starts on a GPU; its start is
set here. Its prior is stored in float32 and computed again in float64.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from scipy.stats import betabinom

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, QUERY, SOURCE, decoder_inputs, draw, record

SIZE, MIXTURES = 4, 3


def run(attention, queries, memory, keys, lengths=None):
    attention.eval()
    hidden = None if lengths is None else torch.arange(memory.shape[1]) >= lengths[:, None]
    if hasattr(attention, "eps"):
        attention.eps = 0.0
    if hasattr(attention, "P"):
        attention.P = torch.tensor(betabinom.pmf(range(11), 10, 0.1, 0.9), dtype=memory.dtype).flip(0)
        attention.alignment_pre = torch.eye(1, memory.shape[1]).expand(len(memory), -1)
    else:
        attention.init_attention(keys)
    alignment = torch.stack([attention(query, keys, hidden) for query in queries.unbind(1)], 1)
    return {"context": alignment @ memory, "alignment": alignment[:, None]}


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    from attention_base import LocationSensitiveAttention
    from dca import DynamicConvolutionAttention
    from gmm import GMMAttention
    from sma import StepwiseMonotonicAttention

    inputs = decoder_inputs() | {"keys": draw(10, BATCH, SOURCE, SIZE)}
    whole = {name: value for name, value in inputs.items() if name != "lengths"}
    many = whole | {"queries": draw(15, BATCH, 12, QUERY)}
    record("leonius_chen/stepwise", lambda: StepwiseMonotonicAttention(QUERY, SIZE), run, inputs)
    record("leonius_chen/stepwise_long", lambda: StepwiseMonotonicAttention(QUERY, SIZE), run, many)
    record(
        "leonius_chen/location",
        lambda: LocationSensitiveAttention(QUERY, SIZE, filters=3, kernel_size=3),
        run,
        inputs,
    )
    for version in "012":
        record(
            f"leonius_chen/gmm_v{version}",
            lambda version=version: GMMAttention(QUERY, SIZE, MIXTURES, version),
            run,
            whole,
        )
    record(
        "leonius_chen/dynamic_convolution",
        lambda: DynamicConvolutionAttention(QUERY, SIZE, 3, 5, 2, 5),
        run,
        inputs,
    )


if __name__ == "__main__":
    main()
