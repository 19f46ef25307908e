"""Encoders: from a source to what decoders look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers import RecurrentStack, recurrence
from regard.layers.eligibility import overridden
from regard.layers.packing import Packing
from regard.models.contract import Encoded
from regard.models.searches import MANY
from regard.ops.eligibility import StandIn
from regard.shapes import Bool, keep_mask


class RecurrentEncoder(nn.Module):
    """A recurrent stack over embedded inputs: h_1 … h_S, and every layer's last state.

    Right on padded and unsorted batches: padded positions are zero in the memory, and the final state is that of each
    row's own last (backward: first) real position. A row without any position has a state of zeros.

    Args:
        embedding: from inputs (B, S) ids or (B, S, F) values to (B, S, E).
        stack: over E features; mostly bidirectional.
    """

    def __init__(self, embedding: nn.Module, stack: RecurrentStack) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack

    @property
    def output_size(self) -> int:
        """M, the width of the memory."""
        return self.stack.output_size

    def encode(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """Encodes a batch of sources, right-padded where the mask (True at real positions) says so.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_mask(inputs, mask, name="inputs")
        memory, final = self.stack(self.embedding(inputs), mask=mask)
        return Encoded(memory, mask, final)

    def explain(self, *, rows: int = MANY, device: str | None = None) -> str:
        """Which path a batch takes in training and before a search, and why.

        Args:
            rows: sentences of the batch.
            device: the type of device, cpu or cuda; the weights' if None.
        """
        paths = self.paths(rows=rows, device=device)
        if paths["training"] == paths["search"]:
            return paths["training"]
        return f"in training {paths['training']}; before searches {paths['search']}"

    def paths(self, *, rows: int = MANY, device: str | None = None) -> dict[str, str]:
        """What `explain` says, of the `training` and of the `search`."""
        device = device or next(self.stack.parameters()).device.type
        with torch.enable_grad():
            training = self._explain(rows, device, asks=True)
        with torch.no_grad():
            return {"training": training, "search": self._explain(rows, device, asks=False)}

    def _explain(self, rows: int, device: str, *, asks: bool) -> str:
        stack = self.stack
        if not stack.bidirectional and (name := overridden(stack, RecurrentStack, "step", "_step")) is not None:
            return f"sequences are taken step by step: {type(stack).__name__} has a {name} of its own"
        weight = next(stack.parameters())
        shape = (rows, 1, stack.layers[0].input_size)
        x: Any = StandIn(torch.device(device), shape, weight.dtype, requires_grad=asks)
        if (reason := _first(recurrence.refuse(layer, x) for layer in stack.layers)) is not None:
            return f"sequences run through torch's own loop: {reason}"
        reason = _first(recurrence.slower(layer, x, Packing.of(rows, 1)) for layer in stack.layers)
        if reason is not None and rows == 1:
            return f"sequences run through torch's own loop: {reason}"
        equal = "" if reason is None else f"; those of one length through torch's own loop: {reason}"
        return f"sequences run through compiled loops, padding left out{equal}"

    def forward(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Any:
        """As `encode`."""
        return self.encode(inputs, mask)


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)
