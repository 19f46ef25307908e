"""The pass of a whole attention layer in torch: projections, energies, softmax and reads, forward and backward."""

from __future__ import annotations

import torch
from sizes import numbers


def forward_backward(attend, module, size):
    """A job: `attend(queries, memory)` gives contexts, gradients go to both and to the module's weights."""
    shapes = ((size["B"], size["T"], size["D"]), (size["B"], size["S"], size["D"]))
    queries, memory = (torch.from_numpy(numbers(*shape, seed=i)).requires_grad_() for i, shape in enumerate(shapes))
    weights = [p for p in module.parameters() if p.requires_grad]

    def job():
        contexts = attend(queries, memory)
        torch.autograd.grad(contexts.sum(), [queries, memory, *weights], allow_unused=True)

    return job
