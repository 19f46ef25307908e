"""Golden of Benjamin van Niekerk's dynamic convolution attention.

Program: bshall/Tacotron at commit 6fee34a, `tacotron.model.DynamicConvolutionAttention`, on torch 2.13.0 (CPU).

    git clone https://github.com/bshall/Tacotron && git -C Tacotron checkout 6fee34a
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy scipy==1.17.1
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/bshall_tacotron/make.py Tacotron

It has no mask, so every sentence is as long as the memory. The prior is stored in float32; for float64 it is computed
again in float64.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import torch
from scipy.stats import betabinom

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import QUERY, decoder_inputs, record


def run(attention, queries, memory):
    attention.P = torch.tensor(betabinom.pmf(range(11), 10, 0.1, 0.9), dtype=memory.dtype).flip(0)
    weights = torch.nn.functional.one_hot(torch.zeros(len(memory), dtype=torch.long), memory.shape[1]).to(memory.dtype)
    alignments = []
    for query in queries.unbind(1):
        weights = attention(query, weights)
        alignments.append(weights)
    alignment = torch.stack(alignments, 1)
    return {"context": alignment @ memory, "alignment": alignment[:, None]}


def main() -> None:
    for name in ("importlib_resources", "toml"):
        sys.modules[name] = types.ModuleType(name)
    spec = importlib.util.spec_from_file_location("model", Path(sys.argv[1], "tacotron/model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = {name: value for name, value in decoder_inputs().items() if name != "lengths"}
    record(
        "bshall_tacotron/dynamic_convolution",
        lambda: module.DynamicConvolutionAttention(QUERY, 4, 3, 5, 2, 5, 11, 0.1, 0.9),
        run,
        inputs,
    )


if __name__ == "__main__":
    main()
