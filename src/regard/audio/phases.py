"""Sound from magnitudes: phases by Griffin and Lim's algorithm with momentum."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard import ops
from regard.audio.emphasis import de_emphasis
from regard.audio.front_end import FrontEnd
from regard.errors import ConfigError, ShapeError
from regard.shapes import Float, Int, describe


def griffin_lim(
    magnitudes: Float[Tensor, "... T bins"],
    front_end: FrontEnd,
    *,
    lengths: Int[Tensor, "*batch"] | None = None,
    iterations: int = 30,
    momentum: float = 0.99,
    seed: int = 0,
) -> Float[Tensor, "... samples"]:
    """Sounds that have given magnitudes, nearly.

    The equations are those of `regard.ops.griffin_lim`; then pre-emphasis is undone. The first phases are uniform draws
    by seed, frame and frequency, the same for each sound, so a sound does not depend on the others of a batch.

    Args:
        magnitudes: of one sound or of a batch, float32 or float64, not negative.
        lengths: frames of each sound of a padded batch; None: all are as long as the tensor.
        iterations: with momentum 30 do what 100 do without.
        momentum: 0 is the algorithm of Griffin and Lim; from 1 on it need not converge.
        seed: of the first phases.

    Returns:
        `front_end.num_samples(T)` samples of each sound, and 0 beyond them.

    Raises:
        ShapeError: for another number of frequencies, or lengths that do not fit.
        ConfigError: for fewer than 0 iterations or a negative momentum.

    >>> front_end = FrontEnd()
    >>> sound = torch.sin(torch.arange(8000) * 0.1)
    >>> griffin_lim(front_end.magnitudes(sound), front_end).shape
    torch.Size([8000])
    """
    if iterations < 0:
        raise ConfigError(f"iterations must be at least 0; got {iterations}.", ("iterations",))
    if not 0 <= momentum < math.inf:
        raise ConfigError(f"momentum must be at least 0; got {momentum}.", ("momentum",))
    if magnitudes.dim() < 2 or magnitudes.shape[-1] != front_end.num_bins or not magnitudes.is_floating_point():
        shown = describe({"magnitudes": ("T F" if magnitudes.dim() == 2 else "B T F", magnitudes)})
        raise ShapeError(
            f"magnitudes must be (…, T, {front_end.num_bins}), n_fft / 2 + 1 real numbers a frame.\n{shown}"
        )
    *leading, frames, bins = magnitudes.shape
    rows = magnitudes.reshape(-1, frames, bins)
    if lengths is None:
        counts = torch.full((len(rows),), frames)
    else:
        counts = lengths.reshape(-1).long().cpu()
        if list(lengths.shape) != leading or (len(counts) and not 0 < int(counts.min()) <= int(counts.max()) <= frames):
            shown = describe({"magnitudes": ("B T F", magnitudes), "lengths": ("B", lengths)})
            raise ShapeError(f"lengths has the number of frames of each sound, (B,) from 1 to T.\n{shown}")
    if not len(rows) or not frames:
        return magnitudes.new_zeros(*leading, max(0, front_end.num_samples(frames)))
    window = front_end.window.to(magnitudes)
    # frame by frame, so that the draws of a short sound are those of a long one's beginning
    generator = torch.Generator().manual_seed(seed)
    phases = torch.rand(frames, bins, generator=generator, dtype=torch.float32).to(magnitudes) * (2 * math.pi)
    inside = torch.arange(frames) < counts[:, None]
    sounds = ops.griffin_lim(
        rows[inside.to(rows.device)],
        counts,
        phases.expand(len(rows), -1, -1)[inside.to(rows.device)],
        window,
        hop_length=front_end.hop_length,
        margin=front_end.margin,
        reflect=front_end.padding == "reflect",
        iterations=iterations,
        momentum=momentum,
    )
    if front_end.pre_emphasis:
        own = front_end.num_samples(counts.to(sounds.device))
        inside = torch.arange(sounds.shape[1], device=sounds.device) < own[:, None]
        sounds = de_emphasis(sounds, front_end.pre_emphasis).where(inside, 0)
    missing = front_end.num_samples(frames) - sounds.shape[1]
    return torch.nn.functional.pad(sounds, (0, missing)).reshape(*leading, -1)
