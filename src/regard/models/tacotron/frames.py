"""Frames grouped into decoder steps of r frames, with masks and stop targets."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.errors import ConfigError, ShapeError
from regard.shapes import Bool, Float, describe


def group_frames(
    frames: Float[Tensor, "B T F"], num_frames: int, *, silence: float | Float[Tensor, " F"] = 0.0
) -> Float[Tensor, "B N rF"]:
    """Frames (B, T, F) as N = ⌈T / r⌉ steps of r frames each, (B, N, r·F); silence fills the last step.

    Args:
        num_frames: r.
        silence: a silent frame, or one number for all its features.

    >>> group_frames(torch.arange(5.0).view(1, 5, 1), 2, silence=9.0).tolist()
    [[[0.0, 1.0], [2.0, 3.0], [4.0, 9.0]]]
    """
    if num_frames < 1:
        raise ConfigError(f"num_frames={num_frames}: a step has at least one frame.")
    if frames.dim() != 3:
        raise ShapeError("frames must be (B, T, F), a frame in each row.\n" + describe({"frames": ("B T F", frames)}))
    batch, length, size = frames.shape
    short = -length % num_frames
    if short:
        frames = torch.cat([frames, silent_frame(silence, frames).expand(batch, short, size)], 1)
    return frames.reshape(batch, (length + short) // num_frames, num_frames * size)


def silent_frame(silence: float | Float[Tensor, " F"], frames: Float[Tensor, "B T F"]) -> Float[Tensor, "*F"]:
    """Silence with the dtype and device of frames."""
    return silence.to(frames) if isinstance(silence, Tensor) else frames.new_full((), silence)


def ungroup_frames(values: Float[Tensor, "B N rF"], num_features: int) -> Float[Tensor, "B T F"]:
    """The frames (B, N·r, F) of steps (B, N, r·F).

    >>> ungroup_frames(torch.arange(4.0).view(1, 2, 2), 1).shape
    torch.Size([1, 4, 1])
    """
    if values.dim() != 3 or values.shape[2] % num_features:
        raise ShapeError(
            f"values must be (B, N, r·F) with F={num_features} features of a frame.\n"
            + describe({"values": ("B N rF", values)})
        )
    return values.reshape(len(values), -1, num_features)


def group_mask(mask: Bool[Tensor, "B T"], num_frames: int) -> Bool[Tensor, "B N r"]:
    """The mask of the frames of each step, (B, N, r), from that of frames (B, T).

    >>> group_mask(torch.tensor([[True, True, True]]), 2).tolist()
    [[[True, True], [True, False]]]
    """
    short = -mask.shape[1] % num_frames
    return pad(mask, (0, short)).view(len(mask), (mask.shape[1] + short) // num_frames, num_frames)


def step_mask(mask: Bool[Tensor, "B T"], num_frames: int) -> Bool[Tensor, "B N"]:
    """The mask of steps, (B, N): True for steps with a real frame."""
    return group_mask(mask, num_frames).any(2)


def stop_targets(mask: Bool[Tensor, "B T"], num_frames: int) -> Float[Tensor, "B N r"]:
    """1 for all r frames of each sentence's last step, else 0, (B, N, r).

    Synthesis stops after a step if any of its r logits is high, so all frames of the last step have the same target.

    >>> stop_targets(torch.tensor([[True, True, True, False, False]]), 2).tolist()
    [[[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]]
    """
    steps = step_mask(mask, num_frames)
    last = steps & ~pad(steps[:, 1:], (0, 1))
    return last[..., None].expand(-1, -1, num_frames).to(torch.get_default_dtype())


def decoder_inputs(grouped: Float[Tensor, "B N rF"]) -> Float[Tensor, "B N rF"]:
    """The decoder's inputs for teacher forcing: zeros, then the reference without its last step.

    >>> decoder_inputs(torch.ones(1, 3, 1)).flatten().tolist()
    [0.0, 1.0, 1.0]
    """
    return pad(grouped, (0, 0, 1, 0))[:, : grouped.shape[1]]
