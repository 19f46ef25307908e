"""Weights from energies, straight from the equations: one head, one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.attention import (
    ChunkwiseAlignment,
    EntmaxAlignment,
    ExponentialAlignment,
    ForwardAlignment,
    HardmaxAlignment,
    MonotonicAlignment,
    SigmoidAlignment,
    SoftmaxAlignment,
    SparsemaxAlignment,
    StepwiseAlignment,
    StochasticAlignment,
)
from regard.interop.coqui import RestartingForwardAlignment, UnmaskedAlignment
from regard.interop.tfa.mechanisms.monotonic import ClippedMonotonicAlignment
from support.oracles.arithmetic import linear, masked_softmax, number, sigmoid
from support.oracles.story import Story, Vector, ask, oracle


@oracle(SoftmaxAlignment)
def softmax(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Softmax of β e."""
    return masked_softmax([alignment.sharpening * e for e in energies[-1]], supports[-1])


@oracle(ExponentialAlignment)
def exponential(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """exp(e) inside the support."""
    return [math.exp(e) if inside else 0.0 for e, inside in zip(energies[-1], supports[-1], strict=True)]


def entmax(energies: Vector, support: list[bool], alpha: float) -> Vector:
    """w_j = max((α - 1) e_j - τ, 0)^{1/(α - 1)} over the support, τ from 200 halvings; zeros without support.

    >>> [round(w, 6) for w in entmax([1.0, 0.5, -1.0], [True, True, True], 2.0)]
    [0.75, 0.25, 0.0]
    """
    allowed = [(alpha - 1) * e for e, inside in zip(energies, support, strict=True) if inside]
    if not allowed:
        return [0.0] * len(energies)
    low, high = max(allowed) - 1, max(allowed)

    def weight(x: float, threshold: float) -> float:
        return max(x - threshold, 0.0) ** (1 / (alpha - 1))

    for _ in range(200):
        middle = (low + high) / 2
        if math.fsum(weight(x, middle) for x in allowed) > 1:
            low = middle
        else:
            high = middle
    return [weight((alpha - 1) * e, high) if inside else 0.0 for e, inside in zip(energies, support, strict=True)]


def hardmax(energies: Vector, support: list[bool]) -> Vector:
    """1 at the first of the largest energies in the support.

    >>> hardmax([1.0, 2.0, 2.0, 3.0], [True, True, True, False])
    [0.0, 1.0, 0.0, 0.0]
    """
    best: int | None = None
    for j, e in enumerate(energies):
        if support[j] and (best is None or e > energies[best]):
            best = j
    return [1.0 if j == best else 0.0 for j in range(len(energies))]


@oracle(SparsemaxAlignment)
def sparsemax_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Entmax at α = 2."""
    return entmax([part.sharpening * e for e in energies[-1]], supports[-1], 2.0)


@oracle(EntmaxAlignment)
def entmax_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Entmax with the head's own α, 1 + σ(a)."""
    alpha = part.fixed_alpha
    if part.alpha_logits is not None:
        alpha = 1 + sigmoid(number(part.alpha_logits[story.head]))
    return entmax([part.sharpening * e for e in energies[-1]], supports[-1], alpha)


@oracle(HardmaxAlignment)
def hardmax_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Hardmax of e."""
    return hardmax(energies[-1], supports[-1])


@oracle(SigmoidAlignment)
def sigmoid_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """σ(β e + r) in the support, divided by their sum if the part is normalised."""
    bias = 0.0 if part.bias is None else number(part.bias)
    weights = [
        sigmoid(part.sharpening * e + bias) if inside else 0.0
        for e, inside in zip(energies[-1], supports[-1], strict=True)
    ]
    total = math.fsum(weights)
    return [w / total for w in weights] if part.is_normalised and total > 0 else weights


@oracle(StochasticAlignment)
def stochastic_alignment(part: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """The weights of evaluation: the most probable position, or softmax(e / temperature)."""
    if part.evaluation == "argmax":
        return hardmax(energies[-1], supports[-1])
    return masked_softmax([e / part.temperature for e in energies[-1]], supports[-1])


def monotonic(choose: Vector, previous: Vector) -> Vector:
    """α_j = p_j Σ_{k ≤ j} α'_k Π_{l = k}^{j-1} (1 - p_l): the reader passes all positions from k on and stops at j.

    >>> monotonic([0.5, 0.5], [1.0, 0.0])
    [0.5, 0.25]
    """
    result = []
    for j, p in enumerate(choose):
        total = 0.0
        for k in range(j + 1):
            total += previous[k] * math.prod(1 - choose[passed] for passed in range(k, j))
        result.append(p * total)
    return result


def clipped(choose: Vector, previous: Vector) -> Vector:
    """α_j = p_j c_j Σ_{k ≤ j} α'_k / max(c_k, 1e-10) with c_j = Π_{l < j} (1 - p_l): where c is smaller, mass is lost.

    >>> clipped([0.5, 0.5], [1.0, 0.0])
    [0.5, 0.25]
    >>> clipped([1.0, 1.0], [0.0, 1.0])  # c_1 is 0
    [0.0, 0.0]
    """
    passed = [math.prod(1 - p for p in choose[:j]) for j in range(len(choose))]
    found = [previous[k] / max(c, 1e-10) for k, c in enumerate(passed)]
    return [p * c * sum(found[: j + 1]) for j, (p, c) in enumerate(zip(choose, passed, strict=True))]


def chunk(stops: Vector, energies: Vector, support: list[bool], width: int) -> Vector:
    """β_j = Σ_k α_k exp(u_j) / Σ_l exp(u_l): a softmax over the `width` positions that end at each stop k."""
    result = [0.0] * len(stops)
    for k, mass in enumerate(stops):
        inside = [support[j] and k - width < j <= k for j in range(len(stops))]
        for j, weight in enumerate(masked_softmax(energies, inside)):
            result[j] += mass * weight
    return result


@oracle(MonotonicAlignment, ClippedMonotonicAlignment)
def reader(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """α of the last step, computed through all steps from the first position; as in evaluation, without noise."""
    expected = clipped if isinstance(alignment, ClippedMonotonicAlignment) else monotonic
    stops = [1.0] + [0.0] * (story.num_positions - 1)
    for step, support in zip(energies, supports, strict=True):
        choose = [sigmoid(e + number(alignment.bias)) for e in step]
        if alignment.hard != "never":
            choose = [1.0 if p > 0.5 else 0.0 for p in choose]
        stops = expected([p if inside else 0.0 for p, inside in zip(choose, support, strict=True)], stops)
        if alignment.remaining == "last" and any(support):
            last = max(j for j, inside in enumerate(support) if inside)
            stops[last] += 1 - sum(stops)
    return stops


@oracle(ChunkwiseAlignment)
def chunkwise(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """β of the last step from the reader's α; without a chunk size the chunk begins at the first position."""
    stops = ask(alignment.reader, story, energies, supports)
    width = alignment.chunk_size or story.num_positions
    return chunk(stops, ask(alignment.chunk_score, story), supports[-1], width)


@oracle(StepwiseAlignment)
def stepwise(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """α of the last step: at each position the mass that stays plus the mass that comes from the left."""
    weights = [1.0] + [0.0] * (story.num_positions - 1)
    for step, support in zip(energies, supports, strict=True):
        stay = [sigmoid(e + number(alignment.bias)) for e in step]
        moved = [0.0] * len(weights)
        for j in range(len(weights)):
            moved[j] = stay[j] * weights[j]
            if j > 0:
                moved[j] += (1 - stay[j - 1]) * weights[j - 1]
        weights = [w if inside else 0.0 for w, inside in zip(moved, support, strict=True)]
        if alignment.remaining == "last" and any(support):
            weights[max(j for j, inside in enumerate(support) if inside)] += 1 - sum(weights)
    return weights


@oracle(ForwardAlignment, RestartingForwardAlignment)
def forward(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """α̂_t(n) = ((1-u_{t-1}) α̂_{t-1}(n) + u_{t-1} α̂_{t-1}(n-1) + ε) y_t(n) / Σ, from the first position, u_0 = 1/2."""
    floor, elsewhere = (1e-8, 1e-7) if isinstance(alignment, RestartingForwardAlignment) else (0.0, 0.0)
    place = [1.0] + [elsewhere] * (story.num_positions - 1)
    weights = place
    for step, (energy, support) in enumerate(zip(energies, supports, strict=True)):
        u = 0.5 if step == 0 else moving(alignment.agent, story, step - 1)
        y = masked_softmax(energy, support)
        reached = []
        for n in range(story.num_positions):
            before = place[n - 1] if n > 0 else 0.0
            reached.append(((1 - u) * place[n] + u * before + floor) * y[n])
        total = sum(reached)
        weights = [r / total for r in reached] if total > 0 else y
        place = weights if any(weights) else place
    return weights


def moving(agent: Any, story: Story, step: int) -> float:
    """u of a step from its context, input and query; 1/2 without an agent."""
    if agent is None:
        return 0.5
    features = story.contexts[step] + (story.inputs[step] if agent.input_size and story.inputs else [])
    features = features + story.queries[step]
    if agent.hidden is not None:
        features = [math.tanh(x) for x in linear(agent.hidden, features)]
    return sigmoid(linear(agent.output, features)[story.head])


@oracle(UnmaskedAlignment)
def unmasked(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """The other alignment's weights over everything, and a small weight outside the support."""
    everywhere = [[True] * len(support) for support in supports]
    weights = ask(alignment.alignment, story, energies, everywhere)
    return [w if inside else alignment.outside for w, inside in zip(weights, supports[-1], strict=True)]
