"""The optimisers of trainings."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from regard.config.schema import TrainingConfig


def optimizer_of(module: nn.Module, config: TrainingConfig, *, capturable: bool = False) -> Optimizer:
    """The optimiser of a configuration, for all parameters that are trained.

    Args:
        capturable: whether steps may be recorded on a GPU.
    """
    options: dict[str, Any] = {"lr": config.learning_rate, "betas": config.betas, "weight_decay": config.weight_decay}
    if config.optimizer == "muon":
        return Muon(module, **options)
    kind = {"adam": Adam, "adamw": AdamW}[config.optimizer]
    parameters = [p for p in module.parameters() if p.requires_grad]
    return kind(parameters, fused=True, capturable=capturable, **options)


class Muon(Optimizer):
    """Muon for the matrices of hidden layers, AdamW for all other parameters.

    Muon replaces the momentum of a matrix by the nearest matrix with orthogonal rows or columns (`torch.optim.Muon`),
    here scaled so that its elements are as large as those of an update by AdamW (Liu et al. 2025, arXiv 2502.16982): a
    learning rate for AdamW suits both. Embeddings, output layers, biases and other vectors and kernels of convolutions
    are left to AdamW.

    Args:
        module: whose parameters are trained.
        lr, betas, weight_decay: of both, except that Muon's momentum is 0.95.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon.
    """

    def __init__(self, module: nn.Module, *, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        hidden, others = divided_parameters(module)
        self._inner: list[Optimizer] = []
        if hidden:
            self._inner.append(
                torch.optim.Muon(hidden, lr=lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
            )
        if others:
            self._inner.append(AdamW(others, lr=lr, betas=betas, weight_decay=weight_decay, fused=True))
        super().__init__([group for inner in self._inner for group in inner.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Makes a step of both; a closure is not supported."""
        assert closure is None
        for inner, group in zip(self._inner, self.param_groups, strict=True):
            inner.param_groups, inner.state = [group], self.state  # `load_state_dict` may have replaced them
            inner.step()


def divided_parameters(module: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices of hidden layers, and all other parameters that are trained.

    An output layer is a module with the name `head`; the matrices of layers have names with `weight`.

    >>> layers = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "layer": nn.Linear(4, 4), "head": nn.Linear(4, 5)})
    >>> hidden, others = divided_parameters(layers)
    >>> len(hidden), len(others)
    (1, 4)
    """
    ends = {
        id(parameter)
        for name, inner in module.named_modules()
        if isinstance(inner, nn.Embedding) or name.rpartition(".")[2] == "head"
        for parameter in inner.parameters()
    }
    hidden: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            is_matrix = parameter.ndim == 2 and min(parameter.shape) > 1 and "weight" in name.rpartition(".")[2]
            (hidden if is_matrix and id(parameter) not in ends else others).append(parameter)
    return hidden, others
