"""Griffin and Lim's algorithm: torch's transforms of all frames, and between them two compiled loops.

    y_k = |S|_k u_k / |u_k|,  u = c - α / (1 + α) c'     `_directed`, over all frequencies of all frames
    z_t = inverse transform of y                         torch
    x_s = Σ_t w_j z_tj / Σ_t w_j²,  j = s - t · hop      `_framed`, sound by sound: overlap-add,
    x beyond both ends                                   reflection or zeros,
    z_tj = w_j x_(t · hop + j)                           and the frames of the next transform
    c = transform of z                                   torch

Frames of all sounds stand one after the other, and so do the samples of all sounds with their margins, so that nothing
is computed for padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.ops.compiled import compiled
from regard.ops.threads import parallel_for


def griffin_lim(
    magnitudes: Tensor,
    lengths: Tensor,
    phases: Tensor,
    window: Tensor,
    *,
    hop_length: int,
    margin: int,
    reflect: bool,
    iterations: int,
    momentum: float,
) -> Tensor:
    """As the operation."""
    num_frames, num_bins = magnitudes.shape
    n_fft = len(window)
    sizes = (lengths - 1) * hop_length + n_fft
    firsts = _offsets(lengths), _offsets(sizes)
    spectrum = torch.polar(torch.ones_like(phases), phases)
    before = torch.zeros_like(spectrum)
    frames = magnitudes.new_empty(num_frames, n_fft)
    samples = magnitudes.new_zeros(int(sizes.sum()))
    weights = torch.zeros_like(samples)
    squares = window.square()
    inside = np.flatnonzero(window.numpy())
    shape = (inside[0], inside[-1] + 1, hop_length, margin, reflect)
    arguments = (frames.numpy(), samples.numpy(), weights.numpy(), window.numpy(), *firsts, *shape)
    parallel_for(_weighted, (weights.numpy(), squares.numpy(), *firsts, hop_length), len(lengths), 0)
    target = magnitudes.contiguous().numpy()
    for done in range(iterations + 1):
        # c_0 = 0, but what stands in its place is t_0
        ratio = target.dtype.type(momentum / (1 + momentum) if done > 1 else 0)
        # y takes the place of c', which is not needed any more
        pair = torch.view_as_real(spectrum).numpy(), torch.view_as_real(before).numpy()
        parallel_for(_directed, (*pair, target, ratio), num_frames, num_frames * num_bins)
        torch.fft.irfft(before, n_fft, out=frames)
        parallel_for(_framed, (*arguments, done < iterations), len(lengths), num_frames * n_fft)
        if done < iterations:
            torch.fft.rfft(frames, out=before)
            spectrum, before = before, spectrum
    own = sizes - 2 * margin
    sounds = [sound[margin : margin + n] for sound, n in zip(samples.split(sizes.tolist()), own.tolist(), strict=True)]
    return torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)


def _offsets(lengths: Tensor) -> NDArray[np.int64]:
    """Where each of several things that stand one after the other begins, and where the last ends."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).numpy()


@compiled
def _directed(spectrum: Any, before: Any, target: Any, ratio: Any, start: int, stop: int) -> None:
    """before ← |S| u / |u| (R, bins, 2) with u = spectrum - ratio · before."""
    tiny = spectrum.dtype.type(1e-30)
    for row in range(start, stop):
        c, p, size = spectrum[row], before[row], target[row]
        for k in range(len(size)):
            real, imaginary = c[k, 0] - ratio * p[k, 0], c[k, 1] - ratio * p[k, 1]
            scale = size[k] / np.sqrt(real * real + imaginary * imaginary + tiny)
            p[k, 0] = real * scale
            p[k, 1] = imaginary * scale


@compiled
def _weighted(weights: Any, squares: Any, frames_of: Any, samples_of: Any, hop: int, start: int, stop: int) -> None:
    """weights ← 1 / Σ_t w² at every sample of every sound."""
    for sound in range(start, stop):
        total = weights[samples_of[sound] : samples_of[sound + 1]]
        for t in range(frames_of[sound + 1] - frames_of[sound]):
            part = total[t * hop : t * hop + len(squares)]
            for j in range(len(squares)):
                part[j] += squares[j]
        least = weights.dtype.type(1e-8)
        for s in range(len(total)):
            total[s] = 1 / max(total[s], least)


@compiled
def _framed(
    frames: Any, samples: Any, weights: Any, window: Any, frames_of: Any, samples_of: Any,
    left: int, right: int, hop: int, margin: int, reflect: bool, again: bool, start: int, stop: int,
) -> None:  # fmt: skip
    """samples of frames (R, n_fft), and, if again, the frames of these; the window is not 0 in [left, right)."""
    w = window[left:right]
    for sound in range(start, stop):
        x = samples[samples_of[sound] : samples_of[sound + 1]]
        inverse = weights[samples_of[sound] : samples_of[sound + 1]]
        z = frames[frames_of[sound] : frames_of[sound + 1]]
        # overlap-add
        x[:] = 0
        for t in range(len(z)):
            part, frame = x[t * hop + left : t * hop + right], z[t, left:right]
            for j in range(len(w)):
                part[j] += w[j] * frame[j]
        for s in range(len(x)):
            x[s] *= inverse[s]
        if not again:
            continue
        # the margins: their own samples are the reflected ones, or 0
        size = len(x) - 2 * margin
        period = 2 * max(size - 1, 1)
        for s in range(margin):
            before, after = (s - margin) % period, (size + s) % period
            if reflect and size > 0:
                x[s] = x[margin + min(before, period - before, size - 1)]
                x[margin + size + s] = x[margin + min(after, period - after, size - 1)]
            else:
                x[s] = 0
                x[margin + size + s] = 0
        for t in range(len(z)):
            part, frame = x[t * hop : t * hop + len(window)], z[t]
            for j in range(len(window)):
                frame[j] = window[j] * part[j]
