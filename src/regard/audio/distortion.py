"""Mel cepstral distortion: the distance between the mel spectrograms of a synthesised and a recorded sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.ops import warping_path
from regard.shapes import Float, Int, describe

NUM_COEFFICIENTS = 13
DECIBELS = 10 * math.sqrt(2) / math.log(10)
"""Decibels for a distance of 1 between mel cepstra."""


@dataclass(frozen=True, eq=False, slots=True)
class Distortion:
    """Mel cepstral distortion of sentences, and the path of the compared frames.

    Args:
        decibels: (B,) float64.
        path: (B, P, 2) pairs of frames of the spectrogram and of its reference; -1 at padding.
        path_length: (B,) the number of pairs.
    """

    decibels: Tensor
    path: Tensor
    path_length: Tensor


def mel_cepstrum(
    log_mel: Float[Tensor, "*batch T M"], num_coefficients: int = NUM_COEFFICIENTS
) -> Float[Tensor, "*batch T C"]:
    """The mel cepstrum of frames: an orthonormal discrete cosine transform (DCT-II) of the logarithm of M mel bands,

        c_k = √(2/M) Σ_m cos(π k (m + ½) / M) ln M_m,        k = 1 … C.

    c_0, the loudness, is left out.

    Args:
        log_mel: natural logarithms of mel magnitudes.
        num_coefficients: C, from 1 to M - 1.

    Raises:
        RegardError: for another number of coefficients.

    >>> mel_cepstrum(torch.tensor([[1.0, 0.0, 0.0, -1.0]]), 2)
    tensor([[1.3066, 0.0000]])
    """
    bands = log_mel.shape[-1]
    if not 1 <= num_coefficients < bands:
        raise RegardError(f"num_coefficients must be from 1 to M-1={bands - 1}; got {num_coefficients}.")
    order = torch.arange(1, num_coefficients + 1, dtype=torch.float64)
    band = torch.arange(bands, dtype=torch.float64) + 0.5
    cosines = math.sqrt(2 / bands) * torch.cos(math.pi / bands * band[:, None] * order)
    return log_mel @ cosines.to(log_mel)


def mel_cepstral_distortion(
    log_mel: Float[Tensor, "B T M"],
    reference: Float[Tensor, "B U M"],
    lengths: Int[Tensor, " B"] | None = None,
    reference_lengths: Int[Tensor, " B"] | None = None,
    *,
    num_coefficients: int = NUM_COEFFICIENTS,
) -> Distortion:
    """The mel cepstral distortion (MCD) of spectrograms from those of recordings of the same sentences.

    With c and c' the mel cepstra (`mel_cepstrum`) and P the cheapest path through both (`regard.ops.warping_path`, with
    the distances as costs),

        MCD = (10 √2 / ln 10) · 1/|P| Σ_{(t,u) ∈ P} ‖c_t - c'_u‖    dB.

    Values are comparable only between spectrograms of the same front end, as they depend on the mel bands, their range
    and the number of coefficients.

    Args:
        log_mel, reference: natural logarithms of mel magnitudes, without standardisation or decibels.
        lengths, reference_lengths: real frames of both; all if None.
        num_coefficients: C.

    Raises:
        ShapeError: for other shapes, different numbers of bands or lengths of 0.
        RegardError: for a number that is not finite before the end of a sentence.

    Numerics: in float64.

    Cost: B·T·U distances of C numbers, and as many steps of the path.

    Source: Kubichek 1993, Mel-cepstral distance measure for objective speech quality assessment (PACRIM); Kominek,
        Schultz & Black 2008, Synthesizer voice quality of new languages calibrated with mean mel cepstral distortion
        (SLTU), for the path and the constant.

    >>> mel = torch.randn(1, 5, 80)
    >>> slow = mel.repeat_interleave(2, dim=1)
    >>> mel_cepstral_distortion(slow, mel).decibels.round(decimals=6)
    tensor([0.], dtype=torch.float64)
    """
    shown = {"log_mel": ("B T M", log_mel), "reference": ("B U M", reference)}
    if log_mel.dim() != 3 or reference.dim() != 3 or log_mel.shape[::2] != reference.shape[::2]:
        raise ShapeError(f"log_mel and reference must be (B, T, M) and (B, U, M), of as many bands.\n{describe(shown)}")
    cepstra = []
    for (name, (_, mel)), counts in zip(shown.items(), (lengths, reference_lengths), strict=True):
        frames = torch.arange(mel.shape[1], device=mel.device)
        real = frames < (mel.shape[1] if counts is None else counts.to(mel.device)[:, None])
        if not bool((mel.isfinite().all(-1) | ~real).all()):
            raise RegardError(f"{name} must be finite in every frame of a sentence; the logarithm of 0 is not.")
        mel = torch.where(real.expand(mel.shape[:2])[..., None], mel.detach().double(), 0.0)
        cepstra.append(mel_cepstrum(mel, num_coefficients))
    first, second = cepstra
    # not by a matrix product, which loses the digits of small distances
    costs = torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    path, path_length = warping_path(costs, lengths, reference_lengths)
    pairs = path.clamp(min=0)
    along = costs.flatten(1).gather(1, pairs[..., 0] * costs.shape[2] + pairs[..., 1])
    total = torch.where(path[..., 0] >= 0, along, 0.0).sum(1)
    return Distortion(DECIBELS * total / path_length, path, path_length)
