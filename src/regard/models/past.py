"""The use of past outputs in recurrent language models."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention import key_value_predict
from regard.attention.contract import Memory, Tree
from regard.errors import ShapeError
from regard.layers import recorders
from regard.layers.linear import Linear
from regard.models.language_model import last_positions
from regard.shapes import Bool, Float


class AbstractPast(nn.Module):
    """Computes the features of a prediction from the present output h_t and a fixed number of outputs before it."""

    output_size: int

    def begin(self, num_rows: int, like: Tensor) -> Tree:
        """The cache before the first step; R rows."""
        raise NotImplementedError

    def forward(
        self,
        h: Float[Tensor, "R T D"],
        cache: Tree,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
    ) -> tuple[Float[Tensor, "R T V"], Float[Tensor, "R H T S"] | None, Tree]:
        """The features of T steps, weights over cached and present outputs (if there are weights), and the new cache.

        Args:
            h: outputs of the recurrent stack, 0 at padding.
            mask: right-padded.
        """
        raise NotImplementedError


class LookBack(AbstractPast):
    """Attention over the last L outputs: h*_t = tanh(W_r r_t + W_x p_t), r_t = Σ_j α_j v_j over j = t - L … t - 1.

    h_j = [k_j; v_j; p_j] is divided into a key, a value and a predictive part; α = softmax(wᵀ tanh(W_Y k_j + W_h k_t))
    (`key_value_predict`). At the first step r is 0.

    Args:
        size: D, of h.
        num_parts: 3 for key-value-predict, 2 for key-value (p is v), 1 for attention (k, v and p are h).
        reach: L.
        num_heads: the number of vectors w, each over its own slice.

    Cost: a sequence is divided into blocks of L steps, each of which attends to 2L positions, so that time and memory
    grow with T·L and not with T². If weights are requested, all T·(L + T) are computed.

    Source: Daniluk et al. 2017 (arXiv 1702.04521), sections 2.1 to 2.3, equations 1 to 9 (their Y_t are our keys).

    >>> past = LookBack(6, num_parts=3, reach=2)
    >>> h = torch.randn(1, 4, 6)
    >>> features, weights, _ = past(h, past.begin(1, h), alignment=True)
    >>> features.shape
    torch.Size([1, 4, 2])
    >>> (weights[0, 0, :, 2:] > 0).int()  # without the two cached outputs, which are masked
    tensor([[0, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0]], dtype=torch.int32)
    """

    def __init__(self, size: int, *, num_parts: Literal[1, 2, 3] = 3, reach: int = 5, num_heads: int = 1) -> None:
        super().__init__()
        if reach < 1:
            raise ShapeError(f"reach={reach}: attention must reach back at least 1 step.")
        self.attention = key_value_predict(size=size, num_parts=num_parts, reach=reach, num_heads=num_heads)
        self.size = size
        self.reach = reach
        self.output_size = self.attention.sizes[-1]
        self.from_context = Linear(self.attention.context_size, self.output_size, bias=False)
        self.from_output = Linear(self.output_size, self.output_size, bias=False)
        for layer in (self.from_context, self.from_output):
            nn.init.xavier_uniform_(layer.weight)

    def begin(self, num_rows: int, like: Tensor) -> Memory:
        """A memory of L positions, all of them masked."""
        nothing = like.new_zeros(num_rows, self.reach, self.size)
        return self.attention.prepare(nothing, mask=torch.zeros_like(nothing[..., 0], dtype=torch.bool))

    def forward(
        self,
        h: Float[Tensor, "R T D"],
        cache: Memory,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
    ) -> tuple[Float[Tensor, "R T V"], Float[Tensor, "R H T S"] | None, Memory]:
        """As `AbstractPast.forward`; the weights are over the L cached outputs and the T present ones."""
        steps, reach = h.shape[1], self.reach
        memory = self.attention.extend(cache, h, mask=mask)
        if alignment or not isinstance(steps, int) or steps <= reach:
            context, weights = self._attend(h, memory, alignment)
        else:
            context, weights = self._attend_in_blocks(h, memory), None
        features = torch.tanh(self.from_context(context) + self.from_output(self.attention.divide(h)[2]))
        return features, weights, tree.map(lambda leaf: last_positions(leaf, reach, mask), memory)

    def _attend(self, h: Tensor, memory: Memory, alignment: bool) -> tuple[Tensor, Tensor | None]:
        """Contexts (R, T, V) and weights (R, H, T, S); the first step follows L positions of the memory."""
        state = self.attention.initial_state(memory)
        state = replace(state, position=state.position + self.reach)
        attended, _ = self.attention(h, memory, state, alignment=alignment)
        return attended.context, attended.alignment

    def _attend_in_blocks(self, h: Tensor, memory: Memory) -> Tensor:
        """The contexts: steps iL … iL + L - 1 become a row, whose memory is the 2L positions up to its last step."""
        rows, steps, size = h.shape
        blocks = -(-steps // self.reach)
        missing = blocks * self.reach - steps

        def divided(leaf: Tensor) -> Tensor:
            """(R, L + T, …) as (R · blocks, 2L, …)."""
            padded = torch.cat([leaf, leaf.new_zeros(rows, missing, *leaf.shape[2:])], 1)
            return padded.unfold(1, 2 * self.reach, self.reach).movedim(-1, 2).flatten(0, 1)

        queries = torch.cat([h, h.new_zeros(rows, missing, size)], 1).view(rows * blocks, self.reach, size)

        def by_step(weights: Tensor) -> Tensor:
            """(R · blocks, H, L, 2L) as (R, H, T, L + T), each block in its columns."""
            heads, width = weights.shape[1], (blocks + 1) * self.reach
            first = torch.arange(blocks, device=h.device)[:, None] * self.reach
            columns = first + torch.arange(2 * self.reach, device=h.device)  # (blocks, 2L)
            divided_weights = weights.unflatten(0, (rows, blocks)).transpose(1, 2)  # (R, H, blocks, L, 2L)
            whole = weights.new_zeros(rows, heads, blocks, self.reach, width)
            whole = whole.scatter(-1, columns[:, None].expand_as(divided_weights), divided_weights)
            return whole.flatten(2, 3)[:, :, :steps, : self.reach + steps]

        with recorders.changed(by_step):
            context, _ = self._attend(queries, tree.map(divided, memory), False)
        return context.reshape(rows, blocks * self.reach, -1)[:, :steps]


class NgramOutput(AbstractPast):
    """The N-gram recurrent network: h*_t = tanh(W_N [h¹_t; h²_{t-1}; …; h^{N-1}_{t-N+2}]), without attention.

    h_t is divided into N - 1 parts, one for each distance; before the first step they are 0.

    Args:
        size: D, of h; a multiple of N - 1.
        order: N, 2 or more: a prediction depends on the outputs at N - 1 inputs.

    Source: Daniluk et al. 2017 (arXiv 1702.04521), section 2.4, equations 10 and 11.

    >>> past = NgramOutput(6, order=4)
    >>> h = torch.randn(1, 5, 6)
    >>> past(h, past.begin(1, h))[0].shape
    torch.Size([1, 5, 2])
    """

    def __init__(self, size: int, *, order: int = 4) -> None:
        super().__init__()
        if order < 2 or size % (order - 1):
            raise ShapeError(f"size={size} must be a multiple of order - 1 (order={order}, 2 or more).")
        self.size = size
        self.order = order
        self.output_size = size // (order - 1)
        self.projection = Linear(size, self.output_size, bias=False)
        nn.init.xavier_uniform_(self.projection.weight)

    def begin(self, num_rows: int, like: Tensor) -> Tensor:
        """The last N - 2 outputs, zeros."""
        return like.new_zeros(num_rows, self.order - 2, self.size)

    def forward(
        self,
        h: Float[Tensor, "R T D"],
        cache: Tensor,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
    ) -> tuple[Float[Tensor, "R T V"], None, Tensor]:
        """As `AbstractPast.forward`; there are no weights."""
        kept, steps = self.order - 2, h.shape[1]
        joined = torch.cat([cache, h], 1)
        parts = [
            part[:, kept - distance : kept - distance + steps]
            for distance, part in enumerate(joined.split(self.output_size, -1))
        ]
        return torch.tanh(self.projection(torch.cat(parts, -1))), None, last_positions(joined, kept, mask)
