"""Griffin and Lim's algorithm with momentum, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import refuse_gradients, refuse_kernels, refuse_numba, refuse_types
from regard.ops.griffin_lim import reference
from regard.shapes import Float, Int

MODULE = "regard.ops.griffin_lim.numba"


def _refuse(magnitudes: Any = None, *inputs: Any, **options: Any) -> str | None:
    return (
        refuse_kernels(magnitudes)
        or refuse_numba(MODULE, magnitudes)
        or refuse_types(magnitudes)
        or refuse_gradients(magnitudes)
    )


GRIFFIN_LIM = (
    Implementation("numba", loaded(MODULE, "griffin_lim"), _refuse),
    Implementation("reference", reference.griffin_lim),
)


def griffin_lim(
    magnitudes: Float[Tensor, "R bins"],
    lengths: Int[Tensor, " B"],
    phases: Float[Tensor, "R bins"],
    window: Float[Tensor, " n_fft"],
    *,
    hop_length: int,
    margin: int,
    reflect: bool,
    iterations: int,
    momentum: float,
) -> Float[Tensor, "B samples"]:
    """Sounds whose magnitudes of short-time Fourier transforms are near the given ones S.

    With P the transform of the inverse transform, and c_0 = 0, each iteration is c_n = P(S exp(i arg t_{n-1})) and
    t_n = c_n + α (c_n - c_{n-1}). The sound is the inverse transform of S exp(i arg t_n).

    Args:
        magnitudes: S of all frames of all sounds, one sound after the other, R = Σ lengths.
        lengths: frames of each sound, at least 1.
        phases: of t_0, in radians.
        window: of as many samples as a transform.
        hop_length: samples from one frame to the next.
        margin: samples at each end of a sound that are not its own, but its reflection or zeros.
        reflect: which of both.
        iterations: their number.
        momentum: α; 0 is the algorithm of Griffin and Lim.

    Returns:
        (T - 1) · hop_length + n_fft - 2 · margin samples of each sound of T frames, and 0 beyond them.

    Source: Griffin and Lim, Signal estimation from modified short-time Fourier transform (1984); Perraudin, Balazs and
    Søndergaard, A fast Griffin-Lim algorithm (2013).
    """
    options = {
        "hop_length": hop_length,
        "margin": margin,
        "reflect": reflect,
        "iterations": iterations,
        "momentum": momentum,
    }
    return choose(GRIFFIN_LIM, magnitudes).function(magnitudes, lengths, phases, window, **options)
