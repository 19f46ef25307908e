"""Parity with whole Tacotrons: NVIDIA, ESPnet, SpeechBrain, Coqui; forced and free-running, over 20 steps."""

from __future__ import annotations

import re
from functools import partial

import pytest
import torch

from golden.archive import load
from golden.parity import TOLERANCE
from regard import attention as a
from regard.decoding import free_run
from regard.errors import DataError, UnsupportedError
from regard.interop.tacotron import load_tacotron
from regard.interop.variants import RECIPE_VARIANTS
from regard.models.tacotron import tacotron1, tacotron2

LOCATION = {"size": 4, "num_filters": 3, "kernel_size": 3}
SMALL = {"embedding_size": 6, "size": 7, "prenet_size": 5, "postnet_size": 5, "num_features": 4}
ESPNET = {"embedding_size": 5, "encoder_size": 6, "convolution_size": 6}
CASES = {
    "nvidia_tacotron2/tacotron2": ("tacotron2", "nvidia", SMALL, 1),
    "speechbrain/tacotron2": ("tacotron2", "speechbrain", SMALL, 1),
    "espnet/tacotron2": (
        "tacotron2",
        "espnet",
        SMALL | ESPNET,
        1,
    ),
    "espnet/tacotron2_two_frames": (
        "tacotron2",
        "espnet",
        SMALL | ESPNET | {"num_frames": 2},
        2,
    ),
    "coqui/tacotron2": ("tacotron2", "coqui", SMALL | {"num_frames": 3}, 2),
    "coqui/tacotron1": (
        "tacotron1",
        "coqui",
        {
            "num_features": 4,
            "num_frames": 3,
            "num_linear": 9,
            "embedding_size": 6,
            "encoder_prenet_sizes": (5, 4),
            "num_filters": 4,
            "bank_size": 3,
            "recurrent_size": 5,
            "prenet_sizes": (5, 4),
            "size": 8,
            "postnet_filters": 3,
            "postnet_projection": 5,
        },
        2,
    ),
}
"""Of each golden the model, its `like`, its sizes and r."""


def attend(like):
    """The peer's location-sensitive attention, small."""
    like = "nvidia" if like == "speechbrain" else like  # the attention of its Tacotron is not that of its recognisers
    return partial(a.location_sensitive, like=like, **LOCATION)


def loaded(name, dtype):
    """Our model with their weights, and the golden."""
    kind, like, sizes, _ = CASES[name]
    golden = load(*name.split("/"), dtype)
    build = {"tacotron1": tacotron1, "tacotron2": tacotron2}[kind]
    model = build(7, like=like, attention=attend(like), **sizes).to(dtype).eval()
    weights = dict(golden.weights)
    for key, value in golden.inputs.items():
        if key.startswith("buffer."):
            weights[key.removeprefix("buffer.")] = value
    for key in list(weights):
        if key.endswith("running_mean"):
            weights[key.replace("running_mean", "num_batches_tracked")] = torch.zeros((), dtype=torch.long)
    load_tacotron(model, weights, kind=kind, like=like)
    model.decoder.prenet.dropout.p = 0.0  # the goldens were made without dropout
    return model, golden


def close(ours, theirs, dtype):
    tolerance = TOLERANCE[dtype] * max(float(theirs.abs().max()), 1.0)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_a_forced_pass_is_theirs(name, dtype):
    model, golden = loaded(name, dtype)
    output = model(golden.inputs["ids"], golden.inputs["frames"], num_frames=CASES[name][3])
    (refined,) = output.refined.values()
    ours = {
        "frames": output.frames,
        "refined": refined,
        "stop": output.stop,
        "alignment": output.alignments["attention"],
    }
    for key, value in ours.items():
        close(value, golden.outputs[key], dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_a_free_run_of_a_batch_is_theirs_of_each_sentence(name, dtype):
    model, golden = loaded(name, dtype)
    memory = model.decoder.prepare(model.encoder.encode(golden.inputs["ids"]))
    first = model.decoder.first_inputs(memory, CASES[name][3])
    said = free_run(model.decoder, memory, first, max_length=20, alignment=True)
    frames = torch.stack([one.values for one in said]).view(2, -1, 4)
    (refined,) = model.refine(frames).values()
    ours = {
        "free_frames": frames,
        "free_refined": refined,
        "free_stop": torch.stack([one.auxiliary["stop"] for one in said]),
        "free_alignment": torch.stack([one.alignments["attention"] for one in said]),
    }
    for key, value in ours.items():
        if key in golden.outputs:
            close(value, golden.outputs[key], dtype)


def test_weights_that_are_missing_or_left_over_are_named():
    model, golden = loaded("nvidia_tacotron2/tacotron2", torch.float32)
    weights = dict(golden.weights)
    with pytest.raises(DataError, match=re.escape("running_mean")):
        load_tacotron(model, weights, kind="tacotron2", like="nvidia")
    with pytest.raises(UnsupportedError, match="no table of names for tacotron1 of keithito"):
        load_tacotron(model, weights, kind="tacotron1", like="keithito")


def test_peers_of_attention_are_those_of_the_models():
    for like in ("nvidia", "speechbrain", "espnet", "coqui"):
        assert like in RECIPE_VARIANTS["location_sensitive"]
