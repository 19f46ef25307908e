"""Encoders: recurrent layers over whole sequences of many lengths, and networks of images of many sizes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers import Cell, RecurrentStack
from regard.models.vision import ImageEncoder, ResidualBackbone, ResidualBlock
from speed.case import OURS, PLAIN, Aim, Answer, Case, Contest, draw, draw_integers, with_gradients


def contest(
    dtype: torch.dtype, *, cell: Cell, backward: bool = True, padded: bool = True, B: int, S: int, E: int, D: int
) -> Contest:
    """A layer in two directions over rows of S / 3 to S positions, or of S without padding."""
    torch.manual_seed(1)
    stack = RecurrentStack(E, D, cell=cell, bidirectional=True).to(dtype)
    layer = stack.layers[0]
    inputs = draw(B, S, E).float().to(dtype).requires_grad_()
    lengths = draw_integers(S // 3, S + 1, B)
    lengths[0] = S
    mask = torch.arange(S) < lengths[:, None] if padded else None
    lengths = lengths.cpu()  # where torch reads those of packed rows
    probe = draw(B, S, 2 * D, seed=1).float().to(dtype)
    leaves = {"inputs": inputs, **dict(layer.named_parameters())}

    def answer(outputs: Tensor) -> Answer:
        return with_gradients("outputs", outputs, leaves, probe) if backward else {"outputs": outputs}

    def ours() -> Answer:
        with torch.set_grad_enabled(backward):
            return answer(stack(inputs, mask=mask)[0])

    def plain() -> Answer:
        with torch.set_grad_enabled(backward):
            if mask is None:
                return answer(layer(inputs)[0])
            packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
            return answer(pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=S)[0])

    with torch.no_grad():  # the largest sums in between are those of the gates
        outputs = stack(inputs, mask=mask)[0][..., :D]
        factors, weight = torch.cat([inputs, outputs], -1), torch.cat([layer.weight_ih_l0, layer.weight_hh_l0], 1)
        terms = {"outputs": float((factors.abs() @ weight.abs().t()).max())}
    return Contest({OURS: ours, PLAIN: plain}, terms=terms, shares_terms=backward)


class PlainBlock(nn.Module):
    """A basic block of torch's modules, with the weights of ours."""

    def __init__(self, block: ResidualBlock) -> None:
        super().__init__()
        self.first, self.second = _with_norm(block.first), _with_norm(block.second)
        self.shortcut = nn.Identity() if block.shortcut is None else _with_norm(block.shortcut)

    def forward(self, x: Tensor) -> Tensor:
        """Without a mask."""
        return relu(self.second(relu(self.first(x))) + self.shortcut(x))


def _with_norm(convolution: Any) -> nn.Sequential:
    norm = nn.BatchNorm2d(convolution.size).to(convolution.norm.weight.dtype)
    norm.weight, norm.bias = convolution.norm.weight, convolution.norm.bias
    return nn.Sequential(convolution.filters, norm)


def of_images(dtype: torch.dtype, *, B: int, H: int, W: int, F: int) -> Contest:
    """A training step of a residual network, with a mask of images that fill the batch, beside torch's modules.

    These know no mask, so only of such images do both compute the same.
    """
    torch.manual_seed(1)
    backbone = ResidualBackbone(1, widths=(F, 2 * F, 4 * F), depths=(1, 1, 1))
    encoder = ImageEncoder(backbone, positions=None).to(dtype)
    backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    blocks = [PlainBlock(block) for block in backbone.blocks if isinstance(block, ResidualBlock)]
    network = nn.Sequential(_with_norm(backbone.stem), nn.ReLU(), *blocks)
    images = draw(B, 1, H, W).float().to(dtype)
    mask = torch.ones(B, H, W, dtype=torch.bool)
    leaves = dict(encoder.named_parameters())
    cells = [-(-side // backbone.stride) for side in (H, W)]
    probe = draw(B, cells[0] * cells[1], 4 * F, seed=1).float().to(dtype)

    def ours() -> Answer:
        return with_gradients("memory", encoder.encode(images, mask).memory, leaves, probe)

    def plain() -> Answer:
        features = network(images.contiguous(memory_format=torch.channels_last))
        return with_gradients("memory", features.flatten(2).transpose(1, 2), leaves, probe)

    return Contest({OURS: ours, PLAIN: plain}, terms={"memory": 100.0}, shares_terms=True)


_SIZES = {"B": 64, "S": 20, "E": 128, "D": 256}
_TINY = {"B": 16, "S": 10, "E": 16, "D": 32}


def _case(name: str, what: str, **options: Any) -> Case:
    return Case(name, what, partial(contest, **options), _SIZES, _TINY)


ENCODERS = (
    _case("encoder-gru", "GRU in two directions over rows of many lengths, forward and backward", cell="gru"),
    _case("encoder-gru-forward", "the same, forward", cell="gru", backward=False),
    _case("encoder-gru-unpadded", "GRU in two directions, forward and backward", cell="gru", padded=False),
    _case("encoder-lstm", "LSTM in two directions over rows of many lengths, forward and backward", cell="lstm"),
    _case("encoder-lstm-forward", "the same, forward", cell="lstm", backward=False),
    Case(
        "encoder-images",
        "residual network over images with a mask, forward and backward",
        of_images,
        {"B": 8, "H": 96, "W": 320, "F": 32},
        {"B": 2, "H": 24, "W": 40, "F": 8},
        aims=(Aim(PLAIN, 1.0),),
    ),
)
