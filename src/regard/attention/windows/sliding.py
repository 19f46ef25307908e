"""Windows of all positions, or around a centre: the step number, the last peak, or a predicted position."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractWindow, Attended, Memory, Parts, Source, StepInputs, Support, Tree
from regard.attention.sizes import head_size, heads_reason, split
from regard.layers.linear import Linear
from regard.shapes import Float, Int, num_hypotheses


class FullWindow(AbstractWindow):
    """Every position may be attended to."""

    extent = "all"

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return Support(), state

    def at(self, positions: Int[Tensor, "#R #G W"], inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return Support(), state


def everywhere(memory: Memory) -> Int[Tensor, "1 1 S"]:
    """All positions of a memory."""
    return torch.arange(memory.num_positions, device=memory.read.device)[None, None]


class AbstractReach(AbstractWindow):
    """The positions c - back … c + front around a `centre` c that does not depend on the energies.

    Args:
        back, front: the reach of the window, both ends included; None means without limit. A number below 0 puts the
            end on the other side: `back=3, front=-1` are the three positions before c.
    """

    def __init__(self, *, back: int | None, front: int | None) -> None:
        super().__init__()
        if back is not None and front is not None and back + front < 0:
            raise ValueError(f"back={back} and front={front} leave no position: back + front must be 0 or more.")
        self.back = back
        self.front = front

    def centre(self, state: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """c, (R, 1 or H) long."""
        raise NotImplementedError

    @property
    def width(self) -> int | None:
        """back + 1 + front."""
        return None if self.back is None or self.front is None else self.back + 1 + self.front

    def start(self, inputs: StepInputs, state: Tree) -> Int[Tensor, "R G"]:
        """c - back."""
        return self.centre(state, inputs.position) - (self.back or 0)

    def at(self, positions: Int[Tensor, "#R #G W"], inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        offset = positions - self.centre(state, inputs.position)[..., None]
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.back is not None:
            allowed = allowed & (offset >= -self.back)
        if self.front is not None:
            allowed = allowed & (offset <= self.front)
        return Support(allowed), state

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return self.at(everywhere(inputs.memory), inputs, state)


class SlidingWindow(AbstractReach):
    """At step t the positions t - back … t + front may be attended to; None means without limit.

    With back = front = D it is Luong's local-m, which assumes that target and source advance together.

    >>> import torch
    >>> from regard.attention import StepInputs, Memory
    >>> inputs = StepInputs(torch.zeros(2, 1), Memory(read=torch.zeros(1, 4, 1, 1)), position=torch.tensor([0, 2]))
    >>> SlidingWindow(back=1, front=0)(inputs, None)[0].support.int()
    tensor([[[1, 0, 0, 0]],
    <BLANKLINE>
            [[0, 1, 1, 0]]], dtype=torch.int32)

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2, `local-m`.
    """

    def centre(self, state: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """t, (R, 1)."""
        return position[:, None]

    def extent_of(self, num_positions: int) -> Literal["all", "past"] | None:
        """`past` if no position is too far back."""
        is_past = type(self) is SlidingWindow and self.front == 0
        return "past" if is_past and (self.back is None or self.back >= num_positions - 1) else self.extent


class CausalWindow(SlidingWindow):
    """At step t the positions 0 … t may be attended to: causal self-attention."""

    extent = "past"

    def __init__(self) -> None:
        super().__init__(back=None, front=0)


class ArgmaxWindow(AbstractReach):
    """The positions p - back … p + front may be attended to, where p is the centre of the last step's weights.

    Each row and head has its own p: the argmax of the weights (the first one of equal weights), or their median, the
    first position at which the cumulative weight is at least half. `back=0` makes the maxima monotonic.

    Before the first step p is the first position (`first=0`) or the index before it (`first=-1`); with `first=-1` the
    first step moves p to the first position, whatever its weights are. A row whose weights are all 0 keeps p.

    The weight of padding is exactly 0, so p is a real position and the window is never empty: once p + front passes the
    end, the positions up to the end remain, and attention can stay on the last one for any number of steps.

    Args:
        back, front: the reach of the window, both ends included.
        centre: p, the `argmax` or the `median`.
        first: 0 or -1, p before the first step, counted from the first real position.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2.3, where p is the median.
    """

    sources = ("chorowski2015",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        *,
        back: int,
        front: int,
        centre: Literal["argmax", "median"] = "argmax",
        first: Literal[0, -1] = 0,
        num_heads: int = 1,
    ) -> None:
        super().__init__(back=back, front=front)
        for name, reach in (("back", back), ("front", front)):
            if reach < 0:
                raise ValueError(f"{name}={reach} must be 0 or more: a window contains its centre.")
        if centre not in ("argmax", "median"):
            raise ValueError(f"centre={centre!r} must be 'argmax' or 'median'.")
        if first not in (0, -1):
            raise ValueError(f"first={first} must be 0, the first position, or -1, the index before it.")
        if first + front < 0:
            raise ValueError(f"front={front} with first={first}: the first step could attend to nothing.")
        self.statistic = centre
        self.first = first
        self.num_heads = num_heads

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(parts, self.num_heads, "ArgmaxWindow follows the weights of")

    def initial(self, memory: Memory, num_rows: int) -> Int[Tensor, "R H"]:
        """p: the first real position f, or ~f (below 0), which stands for the index before it."""
        start = torch.zeros(num_rows, dtype=torch.long, device=memory.read.device)
        if memory.mask is not None and memory.mask.numel():
            first = memory.mask.int().argmax(1)
            start = first.repeat_interleave(num_hypotheses(num_rows, first.shape[0]))
        return (start if self.first == 0 else ~start)[:, None].repeat(1, self.num_heads)

    def centre(self, state: Tree, position: Int[Tensor, " R"]) -> Int[Tensor, "R G"]:
        """p."""
        return torch.where(state < 0, ~state - 1, state)

    def observe(self, attended: Attended, inputs: StepInputs, state: Tree) -> Tree:
        """p after the step."""
        positions = torch.arange(attended.alignment.shape[-1], device=state.device)[None, None]
        return self.observe_at(positions, attended, inputs, state)

    def observe_at(
        self, positions: Int[Tensor, "#R #G W"], attended: Attended, inputs: StepInputs, state: Tree
    ) -> Tree:
        weights = attended.alignment
        if weights.shape[-1] == 0:
            return state
        if self.statistic == "argmax":
            highest, index = weights.max(-1, keepdim=True)
        else:
            cumulative = (weights.float() if weights.element_size() < 4 else weights).cumsum(-1)
            highest = cumulative[..., -1:]
            index = (cumulative < highest / 2).sum(-1, keepdim=True)
        centre = positions.expand_as(weights).gather(-1, index)[..., 0]
        return torch.where(highest[..., 0] > 0, torch.where(state < 0, ~state, centre), state)


class PredictiveWindow(AbstractWindow):
    """The positions j with |j - p| ≤ D around a predicted p may be attended to; weights fall with the distance from p.

    p = S · σ(vᵀ tanh(W q));  α_j = align(q, h_j) · exp(-(j - p)² / 2σ²),  σ = D / 2.

    Weights are normalised over the window, then multiplied by the Gaussian and not normalised again: a row sums to less
    than 1. W and v learn through the Gaussian. S is the length of the item up to its last real position, also after its
    memory was extended; positions j count from 0. With half types p is computed in float32, since bfloat16 has no odd
    integers above 256.

    Args:
        query_size: Q.
        size: width of the hidden layer, all heads together; each head has its own v over its own slice.
        reach: D.
        num_heads: as many as the score has, or 1 for a p that all heads share.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2, `local-p` (equations 9 and 10; our
    q, W, v are h_t, W_p, v_p there). OpenNMT's Lua code mirrors the Gaussian and redistributes weight from beyond the
    ends.
    """

    sources = ("luong2015",)
    uses_query = True
    has_gain = True

    def __init__(self, query_size: int, size: int, *, reach: int = 10, num_heads: int = 1) -> None:
        super().__init__()
        self.query_size = query_size
        if reach < 1:
            raise ValueError(f"reach={reach} must be 1 or more: the Gaussian is reach / 2 wide.")
        self.reach = reach
        self.num_heads = num_heads
        width = head_size(size, num_heads)
        self.query_projection = Linear(query_size, size, bias=False)
        self.v = nn.Parameter(torch.empty(num_heads, width))
        nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)

    def unsupported_reason(self, parts: Parts) -> str | None:
        return heads_reason(
            parts, self.num_heads, "PredictiveWindow predicts a position for each of", shared="a position"
        )

    def prepare(self, source: Source) -> Tree:
        """j + 1 at real positions and 0 at padding, (B, S) long; its maximum is the length."""
        ends = (source.positions + 1).expand(source.values.shape[:2])
        return ends.clone() if source.mask is None else ends * source.mask

    def predict(self, inputs: StepInputs) -> Float[Tensor, "R G"]:
        """p, (R, 1 or H)."""
        query, ends = inputs.query, inputs.memory.window
        hidden = split(torch.tanh(self.query_projection(query)), self.num_heads)
        hidden, v = (hidden.float(), self.v.float()) if query.element_size() < 4 else (hidden, self.v)
        share = torch.sigmoid((hidden * v).sum(-1))
        if ends.shape[1] == 0:
            return share * 0
        return ends.amax(1).repeat_interleave(num_hypotheses(query.shape[0], ends.shape[0]))[:, None] * share

    @property
    def width(self) -> int:
        """2 D + 1."""
        return 2 * self.reach + 1

    def start(self, inputs: StepInputs, state: Tree) -> Int[Tensor, "R G"]:
        """The first integer from p - D on."""
        return (self.predict(inputs).detach() - self.reach).ceil().long()

    def at(self, positions: Int[Tensor, "#R #G W"], inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        distance = positions - self.predict(inputs)[..., None]
        gain = torch.exp(-2 * (distance / self.reach).square())
        return Support(distance.detach().abs() <= self.reach, gain=gain.to(inputs.query.dtype)), state

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        return self.at(everywhere(inputs.memory), inputs, state)
