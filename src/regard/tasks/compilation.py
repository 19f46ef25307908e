"""The loss of a training step, compiled by torch: one graph for batches of all lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention import Mechanism
from regard.config.schema import AlignmentTrainingConfig, FeedbackConfig, TrainingConfig
from regard.errors import ConfigError
from regard.layers import RecurrentStack
from regard.models import RecurrentDecoder
from regard.training.device import choose

BACKEND: Any = "inductor"
KEY_PATH = ("training", "compile")
LOOPS: tuple[tuple[Any, str], ...] = (
    (RecurrentStack, "forward"),
    (RecurrentDecoder, "_in_order"),
    (Mechanism, "_loop"),
)
"""Methods that loop over steps: a compiled graph of such a loop fits a single length."""
Batch = dict[str, Tensor]
Sums = tuple[Tensor, ...]


def check_compilable(config: TrainingConfig) -> None:
    """Refuses a configuration whose loss cannot be compiled, or a machine without a compiler."""
    if not config.compile:
        return
    if isinstance(config, FeedbackConfig) and config.feeds_back:
        raise ConfigError(
            "scheduled_sampling and sequence_teacher_forcing decode step by step, which torch.compile would compile "
            "anew for every length; leave out either compile or these two",
            KEY_PATH,
        )
    if isinstance(config, AlignmentTrainingConfig) and config.trains_alignments:
        raise ConfigError(
            "alignment_losses and reinforce are not compiled; leave out either compile or these two", KEY_PATH
        )
    if BACKEND == "inductor" and choose(config.device).type == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler

        try:
            get_cpp_compiler()
        except InvalidCxxCompiler:
            raise ConfigError(
                "torch.compile needs a C++ compiler, and there is none. Install g++ (Debian: apt install g++), set the "
                "environment variable CXX to your compiler, or leave compile out",
                KEY_PATH,
            ) from None


class CompiledLoss:
    """Calls `loss(batch)` through torch.compile, with one graph for any number of rows and lengths.

    Loops over steps (`LOOPS`) stay outside the graph. The last digits of the results depend on the batch with which the
    graph is compiled: it is always `first`, whichever batch a run begins or resumes with. A batch of one row, for which
    torch would compile another graph, is computed without compilation.

    Args:
        loss: a function from a batch of tensors (B, …) to the loss and further tensors.
        module: the module with the weights of the loss.
        first: makes the batch to compile with, of more than one row; called once.
    """

    @classmethod
    def of(
        cls, config: TrainingConfig, loss: Callable[[Batch], Sums], module: nn.Module, first: Callable[[], Batch]
    ) -> CompiledLoss | None:
        """The compiled loss if the configuration sets `compile`, else None."""
        check_compilable(config)
        return cls(loss, module, first) if config.compile else None

    def __init__(self, loss: Callable[[Batch], Sums], module: nn.Module, first: Callable[[], Batch]) -> None:
        self._uncompiled = loss
        self._compiled = torch.compile(loss, dynamic=True, backend=BACKEND)
        self._module = module
        self._first: Callable[[], Batch] | None = first
        for owner, name in LOOPS:
            if not getattr(loop := getattr(owner, name), "_torchdynamo_disable", False):
                setattr(owner, name, cast(Any, torch.compiler.disable)(loop))

    def __call__(self, batch: Batch) -> Sums:
        """The result of `loss` for a batch.

        Raises:
            ConfigError: if the compiler fails.
        """
        if any(len(tensor) == 1 for tensor in batch.values()):
            return self._uncompiled(batch)
        if self._first is not None:
            self._compile(self._first())
            self._first = None
        return self._run(batch)

    def _compile(self, batch: Batch) -> None:
        """Compiles the forward and the backward pass; gradients and random states do not change."""
        parameters = [p for p in self._module.parameters() if p.requires_grad]
        devices = [p.device for p in parameters[:1] if p.device.type == "cuda"]
        with torch.random.fork_rng(devices):
            torch.autograd.grad(self._run(batch)[0], parameters, allow_unused=True)

    def _run(self, batch: Batch) -> Sums:
        from torch._dynamo import maybe_mark_dynamic  # slow to import
        from torch._dynamo.exc import BackendCompilerFailed
        from torch.fx.experimental import _config

        shapes: Any = _config
        for tensor in batch.values():
            for axis in range(tensor.dim()):
                maybe_mark_dynamic(tensor, axis)
        try:
            with shapes.patch(use_duck_shape=False):
                return self._compiled(batch)
        except BackendCompilerFailed as error:
            reason = str(error.inner_exception).strip().partition("\n")[0]
            raise ConfigError(
                f"torch.compile failed: {reason}\nOn a CPU it needs g++ and Python's headers (Debian: apt install g++ "
                "python3-dev), on a GPU triton; or leave compile out",
                KEY_PATH,
            ) from error
