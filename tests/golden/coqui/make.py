"""Goldens of Coqui TTS's Tacotron attentions.

Program: coqui-tts 0.28.0, `TTS/tts/layers/tacotron/attentions.py`, on torch 2.13.0 (CPU). The package wants an audio
stack at import, so the two files that matter are loaded by themselves.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy scipy==1.17.1
    peers/bin/pip install --no-deps coqui-tts==0.28.0
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/coqui/make.py

All run in `eval`, so that the mixture has no dropout and the windows are on.

Graves and dynamic convolution replace weights of padding by 1e-8 behind autograd's back, so their gradients are those
of something else where there is padding: `…_padded` has none, and memory whose padding is zero. The window writes into
what autograd needs, so `original_windowed` has none either; it is kept from the second step on, because in the first
the original raises the energy of position 0 to the highest there is. The prior of dynamic convolution is stored in
float32; for float64 it is computed again in float64.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import scipy.stats
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import MEMORY, QUERY, SOURCE, decoder_inputs, draw, record

SIZE, FILTERS, KERNEL = 4, 3, 3


def tacotron():
    """`TTS.tts.layers.tacotron.attentions`, without running any package's __init__."""
    (root,) = importlib.util.find_spec("TTS").submodule_search_locations
    for name in ("TTS", "TTS.tts", "TTS.tts.layers", "TTS.tts.layers.tacotron"):
        package = types.ModuleType(name)
        package.__path__ = [str(Path(root, *name.split(".")[1:]))]
        sys.modules[name] = package
    return importlib.import_module("TTS.tts.layers.tacotron.attentions")


def run(attention, queries, memory, lengths=None):
    """Contexts, alignments and whatever is carried, step by step."""
    attention.eval()
    if hasattr(attention, "prior"):
        prior = scipy.stats.betabinom.pmf(range(11), 10, 0.1, 0.9)
        attention.prior = torch.tensor(prior, dtype=torch.get_default_dtype()).flip(0)
    attention.J = None
    attention.init_states(memory)
    keys = attention.preprocess_inputs(memory)
    mask = None if lengths is None else torch.arange(memory.shape[1]) < lengths[:, None]
    kept: dict[str, list[torch.Tensor]] = {"context": [], "alignment": []}
    for query in queries.unbind(1):
        kept["context"].append(attention(query, memory, keys, mask))
        kept["alignment"].append(attention.attention_weights)
        for name in ("mu_prev", "u"):
            if hasattr(attention, name):
                kept.setdefault(name, []).append(getattr(attention, name))
        if getattr(attention, "location_attention", False):
            kept.setdefault("cumulative", []).append(attention.attention_weights_cum.clone())
            attention.attention_weights_cum = attention.attention_weights_cum.clone()
    stacked = {name: torch.stack(values, 1) for name, values in kept.items()}
    stacked["alignment"] = stacked["alignment"][:, None]
    return stacked


def one_at_a_time(attention, queries, memory, lengths):
    """The original's window follows the first sentence of a batch, so each sentence is alone."""
    contexts, alignments = [], []
    for i, length in enumerate(lengths.tolist()):
        got = run(attention, queries[i : i + 1], memory[i : i + 1, :length], lengths[i : i + 1])
        contexts.append(got["context"][:, 1:])
        alignments.append(torch.nn.functional.pad(got["alignment"][:, :, 1:], (0, memory.shape[1] - length)))
    return {"context": torch.cat(contexts), "alignment": torch.cat(alignments)}


def main() -> None:
    attentions = tacotron()

    def original(**flags):
        chosen = {
            "location_attention": False,
            "windowing": False,
            "norm": "softmax",
            "forward_attn": False,
            "trans_agent": False,
            "forward_attn_mask": False,
        }
        return lambda: attentions.OriginalAttention(
            QUERY,
            MEMORY,
            SIZE,
            attention_location_n_filters=FILTERS,
            attention_location_kernel_size=KERNEL,
            **(chosen | flags),
        )

    inputs = decoder_inputs()
    record("coqui/original", original(), run, inputs)
    record("coqui/original_sigmoid", original(norm="sigmoid"), run, inputs)
    record("coqui/location", original(location_attention=True), run, inputs)
    record("coqui/location_sigmoid", original(location_attention=True, norm="sigmoid"), run, inputs)
    windowed = {"queries": draw(5, 3, 6, QUERY), "memory": draw(6, 3, 12, MEMORY), "lengths": np.array([12, 11, 9])}
    record(
        "coqui/original_windowed",
        original(windowing=True),
        one_at_a_time,
        windowed,
        differentiable=False,
    )
    record("coqui/forward", original(forward_attn=True), run, inputs)
    record("coqui/forward_location", original(forward_attn=True, location_attention=True), run, inputs)
    record("coqui/forward_agent", original(forward_attn=True, trans_agent=True), run, inputs)
    record("coqui/forward_masked", original(forward_attn=True, forward_attn_mask=True), run, inputs)
    padding = np.arange(SOURCE) >= inputs["lengths"][:, None]
    padded = inputs | {"memory": np.where(padding[..., None], np.float32(0), inputs["memory"])}
    whole = {name: value for name, value in inputs.items() if name != "lengths"}
    for name, build in {
        "graves": lambda: attentions.GravesAttention(QUERY, 3),
        "dynamic_convolution": lambda: attentions.MonotonicDynamicConvolutionAttention(QUERY, MEMORY, SIZE, 3, 5, 2, 5),
    }.items():
        record(f"coqui/{name}", build, run, whole)
        record(f"coqui/{name}_padded", build, run, padded, differentiable=False)


if __name__ == "__main__":
    main()
