"""How the gradients of several processes become one, and what each of them keeps of a model that they share."""

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


class Losses(nn.Module):
    """The loss of a trainee as the forward pass of a module, which is what DDP and FSDP wrap."""

    def __init__(self, trainee: Trainee) -> None:
        super().__init__()
        self.module = trainee.module
        self._trainee = (trainee,)  # in a tuple, for a trainee may be a module itself

    def forward(self, batch: Any, *, step: int, generator: Generator, losses: list[Loss]) -> Tensor:
        """The total; the whole loss goes into `losses`, where nobody looks for what needs a gradient."""
        losses.append(self._trainee[0].loss(batch, step=step, generator=generator))
        return losses[-1].total


class Copies(nn.Module):
    """A module called with copies of its weights.

    FSDP frees the memory of gathered weights after a pass; a loop on the CPU that numpy has shown a weight to keeps it.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """What the inner module makes of them."""
        copies = {name: parameter.clone() for name, parameter in self.inner.named_parameters()}
        return torch.func.functional_call(self.inner, copies, inputs, options)


class Exchange:
    """The loss of this process, with gradients that are the means over all processes; one alone has its own.

    Args:
        sharding: "none" keeps the whole model in every process (DDP), "fsdp" keeps weights, gradients and the
            optimiser's state in parts, and gathers the weights for a pass (FSDP2, all weights as one group).
    """

    def __init__(self, trainee: Trainee, device: torch.device, sharding: Sharding) -> None:
        self.losses = Losses(trainee)
        self.is_sharded = sharding == "fsdp" and processes.size() > 1
        self._call: Any = self.losses
        if self.is_sharded:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(device.type, (processes.size(),))
            self._call = fully_shard(Copies(self.losses) if device.type == "cpu" else self.losses, mesh=mesh)
        elif processes.size() > 1:
            options: dict[str, Any] = {_buffers(): False, "gradient_as_bucket_view": True}
            self._call = DistributedDataParallel(self.losses, find_unused_parameters=True, **options)

    def loss(self, batch: Any, *, step: int, generator: Generator) -> Loss:
        """The loss of this process's part of a batch."""
        losses: list[Loss] = []
        total = self._call(batch, step=step, generator=generator, losses=losses)
        return Loss(total, losses[0].count, losses[0].metrics)

    def pass_on(self, *, is_last: bool) -> AbstractContextManager[Any]:
        """Around forward and backward passes of a batch: gradients are exchanged with the last one of a step."""
        if self.is_sharded:
            self._call.set_requires_gradient_sync(is_last)
        elif processes.size() > 1 and not is_last:
            context: AbstractContextManager[Any] = self._call.no_sync()
            return context
        return nullcontext()

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Of all gradients of all processes."""
        norm: Tensor = _full(get_total_norm(gradients))
        return norm

    @contextmanager
    def whole(self, *, keep: bool = False) -> Iterator[None]:
        """Inside of the block every process has the whole weights in the module, to be read or evaluated.

        Args:
            keep: what is written into them inside of the block is kept.
        """
        if not self.is_sharded:
            yield
            return
        owners = [(owner, name, p) for owner in self.losses.modules() for name, p in owner._parameters.items()]
        places = [(owner, name, p) for owner, name, p in owners if p is not None]
        full: dict[int, nn.Parameter] = {}
        hooks = {owner: owner._load_state_dict_post_hooks for owner, _, _ in places}
        for owner in hooks:  # FSDP's, which look for parts
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
            for owner, kept in hooks.items():
                owner._load_state_dict_post_hooks = kept

    def gathered(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state of the optimiser as one process would have it."""
        states = {key: {name: _full(value) for name, value in one.items()} for key, one in state["state"].items()}
        return {**state, "state": states}

    def parted(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """What this process keeps of the state of an optimiser that one process would have."""
        if not self.is_sharded:
            return dict(state)
        parameters = [p for p in self.losses.parameters() if p.requires_grad]
        states = {
            key: {
                name: _sharded(value, parameters[key]) if isinstance(value, Tensor) and value.dim() else value
                for name, value in one.items()
            }
            for key, one in state["state"].items()
        }
        return {**state, "state": states}


def _buffers() -> str:
    """What DDP calls the exchange of buffers before every pass: another name from torch 2.13 on."""
    new = "forward_sync_buffers"
    return new if new in inspect.signature(DistributedDataParallel).parameters else "broadcast_buffers"


def _full(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _local(parameter: Any) -> Tensor:
    with torch.no_grad():
        local: Tensor = parameter.to_local()
    return local.detach()


def _sharded(full: Tensor, like: Any) -> Any:
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
