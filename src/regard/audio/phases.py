"""Sound from magnitudes by Griffin and Lim's algorithm with momentum.

With magnitudes S, the inverse transform followed by the transform P, and c_0 = 0, each iteration is
c_n = P(S exp(i arg t_{n-1})) and t_n = c_n + α (c_n - c_{n-1}). The sound is the inverse transform of
S exp(i arg t_n).

Source: Griffin and Lim, Signal estimation from modified short-time Fourier transform (1984); Perraudin, Balazs and
Søndergaard, A fast Griffin-Lim algorithm (2013).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from regard.audio.filters import de_emphasis
from regard.audio.front_end import FrontEnd, reflected
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
    """Sounds that approximate given magnitudes.

    Pre-emphasis is undone at the end. The initial phases are uniform draws by seed, frame and frequency, the same for
    each sound, so that a sound does not depend on the others of a batch.

    Args:
        magnitudes: of one sound or of a batch, float32 or float64, not negative.
        lengths: frames of each sound of a padded batch; None: all of the tensor.
        iterations: 30 with momentum are as good as 100 without.
        momentum: 0 is the algorithm of Griffin and Lim; from 1 on it may diverge.
        seed: of the initial phases.

    Returns:
        `front_end.num_samples(T)` samples of each sound, and 0 after its end.

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
            raise ShapeError(f"lengths must be (B,) numbers of frames from 1 to T.\n{shown}")
    if not len(rows) or not frames:
        return magnitudes.new_zeros(*leading, max(0, front_end.num_samples(frames)))
    window = front_end.window.to(magnitudes)
    # drawn frame by frame, so that a short sound has the draws of the beginning of a long one
    generator = torch.Generator().manual_seed(seed)
    phases = torch.rand(frames, bins, generator=generator, dtype=torch.float32).to(magnitudes) * (2 * math.pi)
    sounds = torch.nn.utils.rnn.pad_sequence(
        [
            _sound(row[:count], phases[:count], _Transform(front_end, window, count), iterations, momentum)
            for row, count in zip(rows, counts.tolist(), strict=True)
        ],
        batch_first=True,
    )
    if front_end.pre_emphasis:
        sizes = front_end.num_samples(counts.to(sounds.device))
        inside = torch.arange(sounds.shape[1], device=sounds.device) < sizes[:, None]
        sounds = de_emphasis(sounds, front_end.pre_emphasis).where(inside, 0)
    missing = front_end.num_samples(frames) - sounds.shape[1]
    return torch.nn.functional.pad(sounds, (0, missing)).reshape(*leading, -1)


def _sound(magnitudes: Tensor, phases: Tensor, transform: _Transform, iterations: int, momentum: float) -> Tensor:
    """One sound from magnitudes (T, bins)."""
    estimate, before = torch.polar(magnitudes, phases), None
    for _ in range(iterations):
        consistent = transform.forward(transform.inverse(estimate))
        # t / (1 + α), which has the same phases
        moved = consistent if before is None else consistent.sub(before, alpha=momentum / (1 + momentum))
        parts, before = torch.view_as_real(moved), consistent
        sizes = (parts[..., 0].square() + parts[..., 1].square()).clamp(min=1e-30).rsqrt()
        estimate = torch.view_as_complex(parts * (magnitudes * sizes)[..., None])
    return transform.inverse(estimate)


class _Transform:
    """The short-time Fourier transform of a sound of T = `count` frames, and its least-squares inverse."""

    def __init__(self, front_end: FrontEnd, window: Tensor, count: int) -> None:
        self.window, self.hop, self.margin = window, front_end.hop_length, front_end.margin
        samples = max((count - 1) * self.hop + len(window) - 2 * self.margin, 0)
        self.places = None
        if front_end.padding == "reflect" and samples:
            places = torch.arange(-self.margin, samples + self.margin, device=window.device)
            self.places = reflected(places, torch.tensor(samples, device=window.device))
        self.weights = self._added(window.square().expand(count, -1)).clamp(min=1e-8)

    def forward(self, sound: Tensor) -> Tensor:
        """(T, bins) of a sound (samples,)."""
        if self.places is None:
            sound = functional.pad(sound, (self.margin, self.margin))
        else:
            sound = sound[self.places]
        return torch.fft.rfft(sound.unfold(0, len(self.window), self.hop) * self.window)

    def inverse(self, spectrum: Tensor) -> Tensor:
        """(samples,): the sum of windowed frames divided by the sum of squared windows."""
        size = (len(spectrum) - 1) * self.hop + len(self.window)
        total = self._added(torch.fft.irfft(spectrum, len(self.window)) * self.window)
        return (total / self.weights)[self.margin : size - self.margin]

    def _added(self, frames: Tensor) -> Tensor:
        """The sum of frames (T, n_fft) that begin a hop apart, computed hop by hop of all frames."""
        count = -(-len(self.window) // self.hop)
        total = frames.new_zeros(len(frames) + count - 1, self.hop)
        for i in range(count):
            part = frames[:, i * self.hop : (i + 1) * self.hop]
            total[i : i + len(frames), : part.shape[1]] += part
        return total.flatten()
