"""regard: the trainer's own step, the search, and a mechanism."""

from __future__ import annotations

import torch
from layer import forward_backward

import regard
from regard.attention import bahdanau
from regard.bench import CASES


def jobs(size, layer, threads):
    torch.set_num_threads(threads)
    wanted = {name: size[name] for name in "BTSEDN"}
    training = CASES["training"].contest(torch.float32, wanted)
    beam = CASES["beam"].contest(torch.float32, {**wanted, "K": size["K"]})
    mechanism = bahdanau(query_size=layer["D"], memory_size=layer["D"], size=layer["D"])
    attend = lambda queries, memory: mechanism(queries, mechanism.prepare(memory))[0].context  # noqa: E731
    return regard.__version__, {
        "training": training.sides["regard"],
        "beam": beam.sides["regard"],
        "layer": forward_backward(attend, mechanism, layer),
    }
