"""Samples of long inputs in parts, without gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.audio.vocoder.generator import Generator, check
from regard.errors import ConfigError
from regard.shapes import Float, Int, keep_mask

CHUNK_CPU, CHUNK_GPU = 256, 2048
"""Frames of a part where none are given: few enough for a processor's caches, enough to keep a GPU busy."""


def synthesise(
    generator: Generator,
    mels: Float[Tensor, "B T M"],
    lengths: Int[Tensor, " B"] | None = None,
    *,
    chunk: int | None = None,
) -> Float[Tensor, "B samples"]:
    """The samples of mel spectrograms, in memory that does not grow with them, without gradients.

    They are equal to those of `generator` on each sentence alone to rounding, whatever `chunk` is: a part of the frames
    is computed with all the frames that its samples depend on (`Generator.context` on either side). Every sentence is
    computed by itself, so it has to the bit the samples that it has alone; frames that are padding cost nothing.

    Args:
        generator: it is called as if for evaluation; it has no layers that differ in training.
        mels: frames as the vocoder was trained on.
        lengths: the frames of each sentence; None: all T.
        chunk: the most frames that are computed at once; None: 256 on a CPU, 2,048 elsewhere.

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
    check(generator.options, mels)
    keep_mask(mels, lengths=lengths, name="mels")
    hop, context = generator.options.hop_length, generator.context
    samples = mels.new_zeros(len(mels), mels.shape[1] * hop)
    most = chunk or (CHUNK_CPU if mels.device.type == "cpu" else CHUNK_GPU)
    with torch.no_grad():
        for row, end in enumerate([mels.shape[1]] * len(mels) if lengths is None else lengths.tolist()):
            parts = -(-end // most)
            for part in range(parts):  # of equal size, up to a frame
                start, stop = end * part // parts, end * (part + 1) // parts
                first = max(0, start - context)
                computed = generator(mels[row, None, first : min(end, stop + context)])
                samples[row, start * hop : stop * hop] = computed[0, (start - first) * hop : (stop - first) * hop]
    return samples
