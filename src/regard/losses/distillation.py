"""Knowledge distillation: the loss towards the probabilities of a teacher."""

from __future__ import annotations

from torch import Tensor

from regard.shapes import Bool, Float, Int


def distillation(
    log_probabilities: Float[Tensor, "*rows N"],
    symbols: Int[Tensor, "*rows K"],
    probabilities: Float[Tensor, "*rows K"],
    mask: Bool[Tensor, "*rows"],
) -> Float[Tensor, ""]:
    """-Σ_k p_k log q(y_k) over real positions, in nats: the cross-entropy with a teacher's most probable symbols.

    Args:
        log_probabilities: log q of the student.
        symbols, probabilities: K symbols of each position and p of the teacher, with the sum 1.
        mask: True at real positions.

    Returns:
        The sum; divide it by the number of real positions.

    Source: Hinton et al. 2015 (arXiv 1503.02531); of sequences: Kim & Rush 2016 (arXiv 1606.07947), equation 7.

    >>> import torch
    >>> logq = torch.tensor([[[0.25, 0.75]]]).log()
    >>> distillation(logq, torch.tensor([[[1, 0]]]), torch.tensor([[[1.0, 0.0]]]), torch.tensor([[True]]))
    tensor(0.2877)
    """
    real = mask[..., None] & (probabilities > 0)  # log q of a symbol that is impossible is infinite
    chosen = log_probabilities.gather(-1, symbols.masked_fill(~real, 0)).masked_fill(~real, 0)
    return -(probabilities.masked_fill(~real, 0) * chosen).sum()
