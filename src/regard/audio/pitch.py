"""The pitch of a voice by autocorrelation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ConfigError, ShapeError
from regard.shapes import Float, Int, describe

PERIODS = 3
"""Periods of the lowest pitch in a window."""
CHUNK = 2048
"""Frames that are transformed together."""
NUM_CANDIDATES = 10
"""The most candidates of a frame, its strongest peaks."""


@dataclass(frozen=True, eq=False, slots=True)
class Pitch:
    """The pitch of each frame.

    Args:
        frequency: (B, T) in Hz; 0 for unvoiced frames.
        strength: (B, T) the periodicity: near 1 for a vowel, 0 for noise or silence.
    """

    frequency: Tensor
    strength: Tensor

    @property
    def is_voiced(self) -> Tensor:
        """(B, T) bool."""
        return self.frequency > 0


def find_pitch(
    samples: Float[Tensor, "B N"],
    lengths: Int[Tensor, " B"] | None = None,
    *,
    sample_rate: int,
    hop_length: int,
    f_min: float = 60.0,
    f_max: float = 400.0,
    voicing_threshold: float = 0.45,
    silence_threshold: float = 0.03,
    octave_cost: float = 0.01,
    octave_jump_cost: float = 0.35,
    voicing_cost: float = 0.14,
) -> Pitch:
    """The fundamental frequency of each frame by the normalised autocorrelation of a window around its centre.

    Frame i is centred on sample i·hop; there are 1 + ⌊N/hop⌋. With the samples x of a window minus their mean, and a
    Hann window w of three periods of the lowest pitch, the autocorrelation is divided by that of the window,

        r(τ) = [Σ_j x_j w_j x_{j+τ} w_{j+τ} / Σ_j x_j² w_j²] / [Σ_j w_j w_{j+τ} / Σ_j w_j²],

    so that r of a periodic sound is 1 at its period for every pitch. Candidates are the peaks of r between the periods
    of `f_max` and `f_min`, interpolated by a parabola, with the strength r(τ) - octave_cost · log₂(f_min τ); and
    "unvoiced", with the strength

        voicing_threshold + max(0, 2 - (1 + voicing_threshold) · level / silence_threshold),

    where the level of a frame is the largest sample near its centre divided by that of the sentence.

    The path through the candidates maximises the sum of strengths minus the costs of changes: `octave_jump_cost` per
    octave, and `voicing_cost` between voiced and unvoiced, both for frames 10 ms apart and scaled to the hop.

    Args:
        samples: (B, N) sound of any scale.
        lengths: real samples of each sentence; N if None. Later samples have no effect.
        sample_rate, hop_length: samples per second and per frame.
        f_min, f_max: the range of pitch in Hz.
        voicing_threshold, silence_threshold: smaller values make more frames voiced.
        octave_cost: the preference for higher pitch, per octave.
        octave_jump_cost, voicing_cost: the costs of changes.

    Returns:
        1 + ⌊N/hop⌋ frames; those after a sentence's 1 + ⌊length/hop⌋ are 0.

    Raises:
        ConfigError: for a range that is empty, or too high for the sample rate.
        ShapeError: for other shapes.

    Numerics: in float64; a steady tone is accurate to a cent or two.

    Source: Boersma 1993, Accurate short-term analysis of the fundamental frequency and the harmonics-to-noise ratio
        of a sampled sound (IFA Proceedings 17), with his thresholds and costs, for a Hann window, with a parabola in
        place of the interpolation of its section 3.3.

    >>> time = torch.arange(8000) / 16000
    >>> pitch = find_pitch(torch.sin(2 * math.pi * 150 * time)[None], sample_rate=16000, hop_length=200)
    >>> pitch.frequency.shape, round(float(pitch.frequency[0, 20]), 1)
    (torch.Size([1, 41]), 150.0)
    """
    if samples.dim() != 2:
        raise ShapeError(f"samples must be (B, N).\n{describe({'samples': ('B N', samples)})}")
    if not 0 < f_min < f_max or f_max > sample_rate / 4 or hop_length < 1:
        raise ConfigError(
            "Pitch needs 0 < f_min < f_max, at most a quarter of the sample rate, and a hop of at least 1; got "
            f"f_min={f_min:g}, f_max={f_max:g}, sample_rate={sample_rate}, hop_length={hop_length}.",
            ("f_max",),
        )
    batch, num_samples = samples.shape
    if lengths is None:
        lengths = torch.full((batch,), num_samples, device=samples.device)
    if lengths.shape != (batch,) or (batch and not 0 <= int(lengths.min()) <= int(lengths.max()) <= num_samples):
        raise ShapeError(
            f"lengths must be (B,) = ({batch},) integers between 0 and N={num_samples}; got {lengths.tolist()}."
        )
    lengths = lengths.to(samples.device)
    sound = torch.where(
        torch.arange(num_samples, device=samples.device) < lengths[:, None], samples.detach().double(), 0.0
    )
    num_frames = 1 + num_samples // hop_length
    real = torch.arange(num_frames, device=samples.device) <= (lengths // hop_length)[:, None]
    period, strength, level = _candidates(sound, real, sample_rate, hop_length, f_min, f_max, octave_cost)
    loudest = level.amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    quiet = 2 - (1 + voicing_threshold) * (level / loudest) / silence_threshold
    unvoiced = voicing_threshold + quiet.clamp(min=0)
    scale = 0.01 * sample_rate / hop_length
    chosen = _path(period, strength, unvoiced, real, octave_jump_cost * scale, voicing_cost * scale)
    voiced = (chosen >= 0) & real
    at = chosen.clamp(min=0)[..., None]
    # the strength of a candidate without the preference for its pitch
    periodic = strength + octave_cost * torch.log2(f_min * period)
    frequency = torch.where(voiced, 1 / period.gather(2, at)[..., 0], 0.0)
    best = periodic.masked_fill(~strength.isfinite(), 0.0)
    shown = torch.where(voiced, best.gather(2, at)[..., 0], best.amax(2)).clamp(0, 1)
    return Pitch(frequency, torch.where(real, shown, 0.0))


def _candidates(
    sound: Tensor, real: Tensor, sample_rate: int, hop_length: int, f_min: float, f_max: float, octave_cost: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Periods in seconds and strengths (B, T, C), -inf for missing peaks, and the level (B, T) of frames."""
    batch, num_frames = real.shape
    width = 2 * math.ceil(PERIODS * sample_rate / f_min / 2) + 1
    shortest, longest = math.floor(sample_rate / f_max), math.ceil(sample_rate / f_min)
    padded = torch.nn.functional.pad(sound, (width // 2, width // 2 + hop_length))
    frames = padded.unfold(1, width, hop_length)[:, :num_frames]
    window = torch.hann_window(width + 2, periodic=False, dtype=torch.float64, device=sound.device)[1:-1]
    size = 1 << (width + longest + 1).bit_length()
    # one lag more at both ends, as a peak is larger than both its neighbours
    lags = torch.arange(shortest - 1, longest + 2, device=sound.device)
    of_window = _autocorrelation(window, size)
    of_window = (of_window / of_window[0])[lags]
    number = min(NUM_CANDIDATES, len(lags) - 2)
    periods = sound.new_ones(batch, num_frames, number)
    strengths = sound.new_full((batch, num_frames, number), -math.inf)
    levels = sound.new_zeros(batch, num_frames)
    for row, start in ((row, start) for row in range(batch) for start in range(0, num_frames, CHUNK)):
        some = slice(start, start + CHUNK)
        part = frames[row, some]
        part = part - part.mean(1, keepdim=True)
        # the level of the middle period, as the whole window overlaps with other frames
        middle = part[:, width // 2 - longest // 2 : width // 2 + longest // 2 + 1]
        levels[row, some] = middle.abs().amax(1)
        correlation = _autocorrelation(part * window, size)
        power = correlation[:, :1]
        r = correlation[:, lags] / torch.where(power > 0, power, 1.0) / of_window
        low, here, high = r[:, :-2], r[:, 1:-1], r[:, 2:]
        peak = (here > low) & (here >= high) & (here > 0)
        # the vertex of the parabola through a peak and its neighbours
        bend = torch.where(peak, 2 * here - low - high, 1.0)
        shift = (high - low) / (2 * bend)
        height = here + (high - low) ** 2 / (8 * bend)
        period = (lags[1:-1] + shift) / sample_rate
        inside = peak & (period * f_max >= 1) & (period * f_min <= 1)
        # values above 1 are artefacts of the parabola or the window, reflected as by Boersma
        height = torch.where(height > 1, 1 / height.clamp(min=1), height)
        strength = (height - octave_cost * torch.log2(f_min * period)).masked_fill(~inside, -math.inf)
        strengths[row, some], index = strength.topk(number, 1)
        periods[row, some] = period.gather(1, index)
    return periods, strengths, levels


def _autocorrelation(frames: Tensor, size: int) -> Tensor:
    """(..., size); exact for lags below `size` minus the length of a frame."""
    return torch.fft.irfft(torch.fft.rfft(frames, size).abs().square(), size)


def _path(
    period: Tensor, strength: Tensor, unvoiced: Tensor, real: Tensor, jump_cost: float, voicing_cost: float
) -> Tensor:
    """(B, T) the candidate of each frame on the best path, -1 for unvoiced.

    s_t(c) = strength_t(c) + max_{c'} [s_{t-1}(c') - cost(c', c)]; at padding s_t = s_{t-1}.
    """
    batch, num_frames, number = period.shape
    strength = torch.cat([unvoiced[..., None], strength], 2)
    octave = torch.cat([torch.zeros_like(unvoiced)[..., None], torch.log2(period)], 2)
    voiced = torch.arange(number + 1, device=period.device) > 0
    changes = voiced[:, None] != voiced
    jumps = voiced[:, None] & voiced
    scores = strength[:, 0]
    stay = torch.arange(number + 1, device=period.device)
    moves = stay.repeat(batch, num_frames, 1)
    for t in range(1, num_frames):
        apart = (octave[:, t - 1, :, None] - octave[:, t, None]).abs()
        cost = voicing_cost * changes + jump_cost * apart * jumps
        before, move = (scores[:, :, None] - cost).max(1)
        here = real[:, t, None]
        moves[:, t] = torch.where(here, move, stay)
        scores = torch.where(here, strength[:, t] + before, scores)
    at = scores.argmax(1)
    chosen = torch.empty(batch, num_frames, dtype=torch.long, device=period.device)
    for t in range(num_frames - 1, -1, -1):
        chosen[:, t] = at - 1
        at = moves[:, t].gather(1, at[:, None])[:, 0]
    return chosen
