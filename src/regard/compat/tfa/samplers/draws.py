"""Random draws of samplers, from a stream of numbers that a seed begins."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.decoding.sampling import drawn, heated
from regard.decoding.truncation import truncated
from regard.shapes import Bool, Float, Int


class Draws:
    """Random numbers that go on from one decoding to the next.

    Args:
        seed: with which they begin; they are torch's global ones if None.
    """

    def __init__(self, seed: int | Tensor | None = None) -> None:
        self._seed = None if seed is None else int(seed)
        self._generators: dict[torch.device, torch.Generator] = {}

    def uniform(self, count: int, device: torch.device) -> Float[Tensor, " R"]:
        """Numbers from 0 to 1, 1 excluded."""
        generator = None
        if self._seed is not None:
            if device not in self._generators:
                self._generators[device] = torch.Generator(device).manual_seed(self._seed)
            generator = self._generators[device]
        dtype = torch.float32 if device.type == "mps" else torch.float64
        return torch.rand(count, generator=generator, device=device, dtype=dtype)

    def flips(self, probability: Tensor, count: int, device: torch.device) -> Bool[Tensor, " R"]:
        """True with a probability, one for all or one for each."""
        return self.uniform(count, device) < probability.to(device)

    def tokens(
        self, logits: Float[Tensor, "R N"], temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
    ) -> Int[Tensor, " R"]:
        """Tokens by their probabilities, softmax of logits / temperature, truncated as in the house's sampling."""
        with torch.no_grad():
            logits = truncated(heated(logits.detach(), temperature), top_k, top_p)
            return drawn(logits, self.uniform(len(logits), logits.device))
