"""Golden of NVIDIA's Tacotron 2 attention.

Program: NVIDIA/tacotron2 at commit 185cd24, `model.Attention`, on torch 2.13.0 (CPU).

    git clone https://github.com/NVIDIA/tacotron2 && git -C tacotron2 checkout 185cd24
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/nvidia_tacotron2/make.py tacotron2

Its modules of audio and text are not needed and stand empty. The loop is its decoder's: the last weights and their sum
are two channels, zeros at first.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import MEMORY, QUERY, decoder_inputs, record

SIZE, FILTERS, KERNEL = 4, 3, 3


class Empty(types.ModuleType):
    """A module in which every name is None."""

    def __getattr__(self, name: str) -> None:
        return None


def run(attention, queries, memory, lengths):
    keys = attention.memory_layer(memory)
    hidden = torch.arange(memory.shape[1]) >= lengths[:, None]
    last = total = memory.new_zeros(memory.shape[:2])
    contexts, alignments = [], []
    for query in queries.unbind(1):
        context, last = attention(query, memory, keys, torch.stack([last, total], 1), hidden)
        total = total + last
        contexts.append(context)
        alignments.append(last)
    return {"context": torch.stack(contexts, 1), "alignment": torch.stack(alignments, 1)[:, None]}


def main() -> None:
    for name in ("librosa", "librosa.filters", "audio_processing", "stft", "utils"):
        sys.modules[name] = Empty(name)
    sys.path.insert(0, sys.argv[1])
    from model import Attention

    record("nvidia_tacotron2/attention", lambda: Attention(QUERY, MEMORY, SIZE, FILTERS, KERNEL), run, decoder_inputs())


if __name__ == "__main__":
    main()
