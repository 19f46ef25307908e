"""Gradients averaged over several processes (DDP), and weights sharded among them (FSDP)."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm

from regard.training import processes
from regard.training.trainee import Loss, Trainee

Sharding = Literal["none", "fsdp"]


class LossModule(nn.Module):
    """The loss of a trainee as the `forward` of a module, which DDP and FSDP can wrap."""

    def __init__(self, trainee: Trainee) -> None:
        super().__init__()
        self.module = trainee.module
        self._trainee = (trainee,)  # in a tuple, so that a trainee that is a module is no submodule

    def forward(self, batch: Any, *, step: int, generator: Generator, losses: list[Loss]) -> Tensor:
        """The total; the whole `Loss` is appended to `losses`, because DDP and FSDP search only results for tensors."""
        losses.append(self._trainee[0].loss(batch, step=step, generator=generator))
        return losses[-1].total


class CopiedWeights(nn.Module):
    """Calls a module with copies of its weights.

    FSDP frees gathered weights after a pass, while compiled loops on the CPU may still use their memory.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any, **options: Any) -> Any:
        copies = {name: parameter.clone() for name, parameter in self.inner.named_parameters()}
        return torch.func.functional_call(self.inner, copies, inputs, options)


class Exchange:
    """The loss of this process, with gradients averaged over all processes.

    Args:
        sharding: "none" keeps the whole model in every process (DDP); "fsdp" shards weights, gradients and the
            optimiser's state, and gathers the weights for each pass (FSDP2, all weights as one group).
    """

    def __init__(self, trainee: Trainee, device: torch.device, sharding: Sharding) -> None:
        self.module = LossModule(trainee)
        self.is_sharded = sharding == "fsdp" and processes.size() > 1
        self._call: Any = self.module
        if self.is_sharded:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(device.type, (processes.size(),))
            self._call = fully_shard(CopiedWeights(self.module) if device.type == "cpu" else self.module, mesh=mesh)
        elif processes.size() > 1:
            options: dict[str, Any] = {_buffers(): False, "gradient_as_bucket_view": True}
            self._call = DistributedDataParallel(self.module, find_unused_parameters=True, **options)

    def loss(self, batch: Any, *, step: int, generator: Generator) -> Loss:
        """The loss of this process's part of a batch."""
        losses: list[Loss] = []
        total = self._call(batch, step=step, generator=generator, losses=losses)
        return Loss(total, losses[0].count, losses[0].metrics)

    def gradient_sync(self, *, is_last: bool) -> AbstractContextManager[Any]:
        """The context of the passes of a batch: gradients are exchanged only with the last batch of a step."""
        if self.is_sharded:
            self._call.set_requires_gradient_sync(is_last)
        elif processes.size() > 1 and not is_last:
            return self._call.no_sync()
        return nullcontext()

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """The norm of all gradients, over all shards."""
        return _full(get_total_norm(gradients))

    @contextmanager
    def whole(self, *, keep: bool = False) -> Iterator[None]:
        """Inside the context the module of every process has the whole weights.

        Args:
            keep: whether changes of weights inside the context are kept.
        """
        if not self.is_sharded:
            yield
            return
        owners = [(owner, name, p) for owner in self.module.modules() for name, p in owner._parameters.items()]
        places = [(owner, name, p) for owner, name, p in owners if p is not None]
        full: dict[int, nn.Parameter] = {}
        hooks = {owner: owner._load_state_dict_post_hooks for owner, _, _ in places}
        for owner in hooks:  # FSDP's hooks expect shards
            owner._load_state_dict_post_hooks = OrderedDict()
        for owner, name, parameter in places:
            if id(parameter) not in full:  # tied weights stay tied
                full[id(parameter)] = nn.Parameter(_full(parameter).detach(), parameter.requires_grad)
            setattr(owner, name, full[id(parameter)])
        try:
            yield
        finally:
            for owner, name, parameter in places:
                setattr(owner, name, parameter)
                if keep:
                    _local(parameter).copy_(_local(_sharded(full[id(parameter)].detach(), parameter)))
            for owner, hook in hooks.items():
                owner._load_state_dict_post_hooks = hook

    def gathered(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The optimiser's state without shards, as of a single process."""
        entries = state["state"].items()
        return {**state, "state": {key: {name: _full(v) for name, v in entry.items()} for key, entry in entries}}

    def sharded(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """This process's shards of the optimiser's state of a single process."""
        if not self.is_sharded:
            return dict(state)
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        states = {
            key: {
                name: _sharded(value, parameters[key]) if isinstance(value, Tensor) and value.dim() else value
                for name, value in entry.items()
            }
            for key, entry in state["state"].items()
        }
        return {**state, "state": states}


def _buffers() -> str:
    """The name of DDP's option to exchange buffers before every pass, which torch 2.13 renamed."""
    name = "forward_sync_buffers"
    return name if name in inspect.signature(DistributedDataParallel).parameters else "broadcast_buffers"


def _full(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _local(parameter: Any) -> Tensor:
    with torch.no_grad():
        local: Tensor = parameter.to_local()
    return local.detach()


def _sharded(full: Tensor, like: Any) -> Any:
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
