"""Parity with HiFi-GAN's authors: a generator with random weights and weight norm, whole, in parts and in a batch."""

from __future__ import annotations

import pytest
import torch

from golden.archive import load
from golden.parity import TOLERANCE
from regard.audio.vocoder import GeneratorOptions, from_published, synthesise

pytest.importorskip("transformers", "4.57", reason="needs the extra vocoder")

SIZES = {"channels": 8, "upsample_rates": (4, 2), "upsample_kernel_sizes": (8, 6), "kernel_sizes": (3, 7)}
KINDS = {
    "generator_1": GeneratorOptions(**SIZES, dilations=((1, 3, 5), (1, 2, 4))),
    "generator_2": GeneratorOptions(**SIZES, dilations=((1, 2), (3, 6)), paired=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_generator_has_the_samples_of_the_original(kind):
    golden, exact = (load("hifi_gan", kind, dtype) for dtype in (torch.float32, torch.float64))
    generator = from_published(golden.weights, KINDS[kind])
    mels, expected = golden.inputs["mels"], exact.outputs["samples"]
    assert 0.1 < expected.abs().mean() < 0.9
    with torch.no_grad():
        results = {"whole": generator(mels), "in parts": synthesise(generator, mels, chunk=2)}
    for name, samples in results.items():
        difference = float((samples - expected).abs().max())
        assert difference < TOLERANCE[torch.float32], f"{name}: {difference:.1e}"


def test_a_slope_of_another_layer_is_found():
    golden = load("hifi_gan", "generator_1", torch.float32)
    generator = from_published(golden.weights, KINDS["generator_1"])
    generator.network.conv_post.register_forward_pre_hook(
        lambda _, inputs: (inputs[0].where(inputs[0] > 0, 10 * inputs[0]),)
    )
    with torch.no_grad():
        difference = (generator(golden.inputs["mels"]) - golden.outputs["samples"]).abs().max()
    assert difference > 100 * TOLERANCE[torch.float32]
