"""regard: the trainer's own step, the search, and a mechanism; freed memory is kept, as `train` and `predict` do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import torch
from layer import forward_backward
from sizes import NATURAL, natural
from speed import CASES
from speed.cases.models import build

import regard
from regard.attention import bahdanau
from regard.data.text import BOS, EOS, PAD
from regard.decoding import Search, search
from regard.training.allocator import keep_memory


def jobs(size, layer, threads):
    torch.set_num_threads(threads)
    keep_memory()
    wanted = {name: size[name] for name in "BTSEDN"}
    training = CASES["training"].contest(torch.float32, wanted)
    beam = CASES["beam"].contest(torch.float32, {**wanted, "K": size["K"]})
    mechanism = bahdanau(query_size=layer["D"], memory_size=layer["D"], size=layer["D"])
    attend = lambda queries, memory: mechanism(queries, mechanism.prepare(memory))[0].context  # noqa: E731
    return regard.__version__, {
        "training": training.sides["regard"],
        "beam": beam.sides["regard"],
        "layer": forward_backward(attend, mechanism, layer),
        **{kind: natural_beam(kind, size) for kind in NATURAL},
    }


def natural_beam(kind, size):
    model = build(torch.float32, size["E"], size["D"], NATURAL[kind]["N"]).eval()
    batches = [tuple(map(torch.from_numpy, batch)) for batch in natural(kind, size, PAD)]

    def beam():
        for source, lengths in batches:
            with torch.inference_mode():
                memory = model.prepare(source, source != PAD)
            options = Search(beam=size["K"], length_penalty="none", min_length=source.shape[1])
            search(model.decoder, memory, options, bos=BOS, eos=EOS, max_length=lengths)

    return beam
