"""A generator's convolutions by oneDNN, for synthesis on a CPU.

It computes what `Generator.compute` does, of one sentence and without gradients. What makes it faster:

- positions follow each other in memory, each with all its channels, so that a part of the positions is no copy and
  each convolution is a product of matrices;
- weights are laid out once for oneDNN;
- the activation between the two convolutions of a pair, and the sum of a residual connection, are made of results
  while these are still in registers;
- where a sentence goes on, convolutions get no zeros around their input and compute nothing that would be cut off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu_, pad
from torch.nn.modules.module import _has_any_global_hook

from regard.audio.vocoder.generator import LAST_SLOPE, REACH, SLOPE, Generator, ResidualBlock, Span, Stage
from regard.ops.eligibility import refuse_autocast, refuse_device, refuse_kernels, refuse_types

_convolve: Any = getattr(torch.ops.mkldnn, "_convolution_pointwise", None)
_accumulate: Any = getattr(torch.ops.mkldnn, "_convolution_pointwise_", None)
_reorder: Any = getattr(torch.ops.mkldnn, "_reorder_convolution_weight", None)
EXAMPLE = 512
"""Positions of the input that weights are laid out for; others are computed just as well."""


def refuse(generator: nn.Module, mels: Tensor) -> str | None:
    """Why a generator is not computed by oneDNN here, or None."""
    if _convolve is None or _accumulate is None or _reorder is None or not torch.backends.mkldnn.is_available():
        return "torch was built without oneDNN"
    if not torch._C._get_mkldnn_enabled():
        return "torch.backends.mkldnn is switched off"
    weights = list(generator.parameters())
    return (
        refuse_kernels(mels, *weights)
        or refuse_device("cpu", mels)
        or refuse_types(mels, *weights, types=(torch.float32,))
        or refuse_autocast(mels)
        or next((reason for name, part in generator.named_modules() if (reason := _changed(name, part))), None)
    )


def _changed(name: str, module: nn.Module) -> str | None:
    """Why a module has to be called, or None where its weights say all that it does."""
    kinds = (Generator, Stage, ResidualBlock, nn.ModuleList, nn.Conv1d, nn.ConvTranspose1d)
    name = name or "the generator"
    if type(module) not in kinds:
        return f"{name} is a {type(module).__name__}"
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    if any(hooks) or _has_any_global_hook():
        return f"hooks of {name} want to be called"
    if "forward" in module.__dict__ or "compute" in module.__dict__:
        return f"{name} has a method of its own"
    if isinstance(module, nn.Conv1d | nn.ConvTranspose1d) and {"weight", "bias"} - module._parameters.keys():
        return f"the weight of {name} is no parameter"
    return None


class Packed:
    """A generator with its weights laid out for oneDNN; later changes of the weights do not change it.

    Args:
        generator: one that `refuse` has no reason against.
    """

    def __init__(self, generator: Any) -> None:
        self.first, self.last = _Convolution(generator.first), _Convolution(generator.last)
        self.stages = [_Stage(stage) for stage in generator.stages]

    def compute(self, frames: Span) -> Span:
        """As `Generator.compute`, of frames (1, num_mels, T) of one sentence; lengths are not used."""
        span = replace(frames, x=frames.x.unsqueeze(2).contiguous(memory_format=torch.channels_last))
        span = self.first(span, REACH)
        for stage in self.stages:
            span = stage(replace(span, x=leaky_relu_(span.x, SLOPE)))
        span = self.last(replace(span, x=leaky_relu_(span.x, LAST_SLOPE)), REACH)
        return replace(span, x=span.x.squeeze(2).tanh_())


class _Convolution:
    """A convolution of (1, channels, 1, positions), channels last."""

    def __init__(self, layer: nn.Conv1d) -> None:
        self.dilation = [1, layer.dilation[0]]
        self.bias = None if layer.bias is None else layer.bias.detach()
        shape = [1, layer.in_channels, 1, EXAMPLE]
        with torch.no_grad():
            weight = layer.weight.unsqueeze(2)
            self.weight = _reorder(weight, [0, int(layer.padding[0])], [1, 1], self.dilation, 1, shape)

    def __call__(self, span: Span, margin: int, function: str = "none") -> Span:
        """The convolution, and then a function of its results: none or leaky_relu."""
        x, padding, start = _surrounded(span, margin)
        slopes = [SLOPE] if function == "leaky_relu" else []
        result = _convolve(x, self.weight, self.bias, [0, padding], [1, 1], self.dilation, 1, function, slopes, "")
        return replace(span, x=result, start=start)

    def added(self, span: Span, margin: int, residual: Span, *, into: bool) -> Span:
        """The convolution plus the residual.

        Args:
            into: write the sum over the residual.
        """
        x, padding, start = _surrounded(span, margin)
        stop = start + x.shape[-1] + 2 * padding - 2 * margin
        other = residual.cut(start, stop).x
        options: tuple[Any, ...] = ([0, padding], [1, 1], self.dilation, 1, "add", None, None, [], None)
        if into:
            result = _accumulate.binary(other, x, self.weight, self.bias, *options)
        else:
            result = _convolve.binary(x, other, self.weight, self.bias, *options)
        return replace(span, x=result, start=start)


def _surrounded(span: Span, margin: int) -> tuple[Tensor, int, int]:
    """A span with zeros only where sentences begin or end: the tensor, zeros still to be added at both ends, and the
    first position of what a convolution makes of it."""
    left, right = (margin if span.start == 0 else 0), (margin if span.stop == span.end else 0)
    if left == right:
        return span.x, left, span.start + margin - left
    return pad(span.x, (left, right)), 0, span.start + margin - left


class _Block:
    """A residual block."""

    def __init__(self, block: ResidualBlock) -> None:
        self.margin, self.dilations = block.margin, block.dilations
        self.dilated = [_Convolution(layer) for layer in block.dilated]  # type: ignore[arg-type]
        self.plain = [_Convolution(layer) for layer in block.plain]  # type: ignore[arg-type]

    def __call__(self, span: Span, activated: Span) -> Span:
        """The block's output in memory of its own.

        Args:
            activated: λ of the input.
        """
        for number, dilation in enumerate(self.dilations):
            if number:
                activated = span.activated()
            if self.plain:
                inner = self.dilated[number](activated, self.margin * dilation, "leaky_relu")
                span = self.plain[number].added(inner, self.margin, span, into=number > 0)
            else:
                span = self.dilated[number].added(activated, self.margin * dilation, span, into=number > 0)
        return span


class _Stage:
    """A transposed convolution and residual blocks side by side."""

    def __init__(self, stage: Stage) -> None:
        layer, self.rate, self.margin = stage.upsample, stage.rate, stage.margin
        self.weight = layer.weight.detach().unsqueeze(2).contiguous(memory_format=torch.channels_last)
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.blocks = [_Block(block) for block in stage.blocks]  # type: ignore[arg-type]

    def __call__(self, activated: Span) -> Span:
        """The mean of the blocks' outputs, of an input that the activation has been applied to."""
        span = activated.scaled(self._upsample, self.rate).trusted(self.margin)
        again = span.activated()
        spans = [block(span, again) for block in self.blocks]
        start, stop = max(each.start for each in spans), min(each.stop for each in spans)
        total = spans[0].cut(start, stop).x
        for each in spans[1:]:
            total.add_(each.cut(start, stop).x)
        return replace(span, x=total.div_(len(spans)), start=start)

    def _upsample(self, x: Tensor) -> Tensor:
        return torch.conv_transpose2d(x, self.weight, self.bias, (1, self.rate), (0, self.margin))
