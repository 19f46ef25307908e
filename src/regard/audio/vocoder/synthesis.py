"""Samples of long inputs in parts, without gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.audio.vocoder import packed
from regard.audio.vocoder.generator import Generator, Span, check
from regard.errors import ConfigError
from regard.shapes import Float, Int

CHUNK_CPU, CHUNK_GPU = 128, 2048
"""Frames of a part where none are given: few enough for a processor's caches, enough to keep a GPU busy."""


def synthesise(
    generator: Generator,
    mels: Float[Tensor, "B T M"],
    lengths: Int[Tensor, " B"] | None = None,
    *,
    chunk: int | None = None,
) -> Float[Tensor, "B samples"]:
    """The samples of mel spectrograms, in memory that does not grow with them, without gradients.

    They are equal to those of `generator(mels, lengths)` to rounding, whatever `chunk` is: a part of the frames is
    computed with all the frames that its samples depend on (`Generator.context` on either side), of which each layer
    computes only what the next ones read. Every sentence is computed by itself, so it has to the bit the samples that
    it has alone; frames that are padding cost nothing.

    Args:
        generator: it is called as if for evaluation; it has no layers that differ in training.
        mels: frames as the vocoder was trained on.
        lengths: the frames of each sentence; None: all T.
        chunk: the most frames that are computed at once; None: 128 on a CPU, 2,048 elsewhere.

    Returns:
        T · hop_length samples for each sentence, 0 after its end.

    Raises:
        ShapeError: for frames of another size or lengths that do not fit.
        ConfigError: for a `chunk` below 1.

    >>> from regard.audio.vocoder import GeneratorOptions
    >>> generator = Generator(GeneratorOptions(channels=16, upsample_rates=(4, 2), upsample_kernel_sizes=(8, 4)))
    >>> mels = torch.randn(1, 90, 80)
    >>> torch.allclose(synthesise(generator, mels, chunk=20), generator(mels), atol=1e-5)
    True
    """
    if chunk is not None and chunk < 1:
        raise ConfigError(f"chunk must be at least 1 frame; got {chunk}.", ("chunk",))
    check(generator.options, mels, lengths)
    hop, context = generator.options.hop_length, generator.context
    samples = mels.new_zeros(len(mels), mels.shape[1] * hop)
    if samples.numel() == 0:
        return samples
    most = chunk or (CHUNK_CPU if mels.device.type == "cpu" else CHUNK_GPU)
    with torch.no_grad():
        engine: Any = generator if packed.refuse(generator, mels) else packed.Packed(generator)
        for row, end in enumerate([mels.shape[1]] * len(mels) if lengths is None else lengths.tolist()):
            parts = -(-end // most)
            for part in range(parts):  # of equal size, up to a frame
                start, stop = end * part // parts, end * (part + 1) // parts
                first, last = max(0, start - context), min(end, stop + context)
                computed = engine.compute(Span(mels[row, None, first:last].transpose(1, 2), first, end))
                samples[row, start * hop : stop * hop] = computed.cut(start * hop, stop * hop).x[0, 0]
    return samples


def explain(generator: Generator, mels: Tensor) -> str:
    """By what `synthesise` computes such frames, and why not by oneDNN if it does not.

    >>> from regard.audio.vocoder import GeneratorOptions
    >>> explain(Generator(GeneratorOptions(channels=16)), torch.zeros(1, 9, 80, dtype=torch.float64))
    'the modules one by one, as it computes in float32, all inputs alike; one is float64'
    """
    reason = packed.refuse(generator, mels)
    return "oneDNN, weights laid out once" if reason is None else f"the modules one by one, as {reason}"
