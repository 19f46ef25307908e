from __future__ import annotations

import itertools
import math
from contextlib import nullcontext

import pytest
import torch

from regard.attention import show_attend_tell
from regard.errors import ShapeError
from regard.losses import (
    MovingBaseline,
    alignment_supervision,
    attention_entropy,
    coverage_loss,
    cross_entropy,
    doubly_stochastic,
    forward_sum,
    guided_attention,
    reinforce,
)
from regard.shapes import trusted
from support.cases import LOSSES
from support.cases.losses import SOURCE_MASK, TARGET_MASK

ALL = pytest.mark.parametrize("case", LOSSES, ids=lambda case: case.name)


def evaluate(case, inputs):
    """The loss, and the gradient of its first input."""
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for _, x in inputs]
    loss = case.call(*given)
    assert loss.shape == ()
    (gradient,) = torch.autograd.grad(loss, given[0])
    return loss.detach(), gradient


def pad(letters, x, number):
    """Three more columns of T and S."""
    for axis, letter in enumerate(letters.split()):
        if letter in "TS":
            shape = list(x.shape)
            shape[axis] = 3
            filler = number if x.is_floating_point() else 0
            x = torch.cat([x, torch.full(shape, filler, dtype=x.dtype)], axis)
    return x


@ALL
@pytest.mark.parametrize("number", [77.0, math.nan])
def test_further_padding_changes_no_loss_whatever_it_holds(case, number):
    loss, gradient = evaluate(case, case.inputs())
    padded, padded_gradient = evaluate(case, [(letters, pad(letters, x, number)) for letters, x in case.inputs()])
    torch.testing.assert_close(padded, loss)
    inner = tuple(slice(size) for size in gradient.shape)
    torch.testing.assert_close(padded_gradient[inner], gradient)
    padded_gradient[inner] = 0
    assert not padded_gradient.any()


@ALL
def test_what_stands_at_masked_places_changes_no_loss(case):
    inputs = case.inputs()
    masks = {letters: x for letters, x in inputs if x.dtype == torch.bool}
    loss, gradient = evaluate(case, inputs)
    spoiled = []
    for letters, x in inputs:
        real = torch.ones_like(x, dtype=torch.bool)
        for axes, mask in masks.items():
            if set(axes.split()) <= set(letters.split()):
                real = real & mask.view([size if axis in axes else 1 for axis, size in zip(letters.split(), x.shape)])
        spoiled.append((letters, x.masked_fill(~real, math.nan) if x.is_floating_point() else x))
    other, other_gradient = evaluate(case, spoiled)
    torch.testing.assert_close(other, loss)
    torch.testing.assert_close(other_gradient, gradient)


@ALL
def test_order_of_the_batch_changes_no_loss(case):
    order = torch.tensor([2, 0, 1])
    loss, gradient = evaluate(case, case.inputs())
    permuted, permuted_gradient = evaluate(case, [(letters, x[order]) for letters, x in case.inputs()])
    torch.testing.assert_close(permuted, loss)
    torch.testing.assert_close(permuted_gradient, gradient[order])


@ALL
def test_a_loss_without_any_real_cell_is_zero_and_has_no_gradient(case):
    masked = [index for index, (_, x) in enumerate(case.inputs()) if x.dtype == torch.bool]
    for chosen in (masked, *([index] for index in masked)):
        inputs = [(letters, torch.zeros_like(x) if i in chosen else x) for i, (letters, x) in enumerate(case.inputs())]
        loss, gradient = evaluate(case, inputs)
        assert loss == 0
        assert not gradient.any()


@ALL
@pytest.mark.parametrize("empty", ["B", "T", "S"])
def test_a_loss_of_nothing_is_zero(case, empty):
    def cut(letters, x):
        return x[tuple(slice(0 if letter == empty else None) for letter in letters.split())]

    if any(empty in letters.split() for letters, _ in case.inputs()):
        assert case.call(*(cut(letters, x) for letters, x in case.inputs())) == 0


@ALL
def test_gradients_of_losses_are_those_of_finite_differences(case):
    inputs = [x.requires_grad_(x.is_floating_point()) for _, x in case.inputs()]
    first, *others = inputs
    assert torch.autograd.gradcheck(lambda x: case.call(x, *others), (first,))


@ALL
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_of_half_types_are_close_to_float64(case, dtype):
    rounded = [(letters, x.to(dtype) if x.is_floating_point() else x) for letters, x in case.inputs()]
    expected, _ = evaluate(case, [(letters, x.double() if x.is_floating_point() else x) for letters, x in rounded])
    loss, gradient = evaluate(case, rounded)
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(loss.double(), expected, rtol=0.02, atol=1e-3)


def alignments():
    weights = torch.randn(3, 2, 5, 4, dtype=torch.float64).softmax(-1)
    return weights, SOURCE_MASK, TARGET_MASK, weights.tolist()


def real(b):
    """The real steps and positions of a sentence."""
    return (
        [t for t in range(5) if TARGET_MASK[b, t]],
        [j for j in range(4) if SOURCE_MASK[b, j]],
    )


def mean(numbers):
    return math.fsum(numbers) / len(numbers)


def test_guided_attention_is_its_equation_as_a_loop():
    weights, source, target, a = alignments()
    expected = []
    for b, h in itertools.product(range(3), range(2)):
        steps, positions = real(b)
        for t, j in itertools.product(steps, positions):
            off = j / len(positions) - t / len(steps)
            expected.append(a[b][h][t][j] * (1 - math.exp(-(off**2) / (2 * 0.3**2))))
    assert guided_attention(weights, source, target, width=0.3).item() == pytest.approx(mean(expected), abs=1e-12)


def test_attending_to_nothing_may_count_as_farther_than_any_position():
    weights, source, target, _ = alignments()
    weights = weights * torch.linspace(0.2, 1.0, 5, dtype=torch.float64)[:, None]
    published = guided_attention(weights, source, target)
    lacking, cells = [], 0
    for b, h in itertools.product(range(3), range(2)):
        steps, positions = real(b)
        cells += len(steps) * len(positions)
        lacking += [1 - math.fsum(weights[b, h, t, j].item() for j in positions) for t in steps]
    expected = published.item() + 0.5 * math.fsum(lacking) / cells
    assert guided_attention(weights, source, target, missing=0.5).item() == pytest.approx(expected, abs=1e-12)
    nowhere, farthest = torch.zeros(1, 1, 1, 9), torch.zeros(1, 1, 1, 9)
    farthest[..., -1] = 1.0
    assert guided_attention(nowhere) < guided_attention(farthest)
    assert guided_attention(nowhere, missing=1.0) > guided_attention(farthest, missing=1.0)


def test_guided_attention_has_espnets_table():
    penalties = []
    for j in range(5):
        cell = torch.zeros(1, 1, 5, 5)
        cell[0, 0, 0, j] = 25.0
        penalties.append(round(guided_attention(cell, width=0.4).item(), 4))
    assert penalties == [0.0, 0.1175, 0.3935, 0.6753, 0.8647]


def test_a_masked_sentence_is_guided_as_if_it_stood_alone():
    weights, source, target, _ = alignments()
    alone = guided_attention(weights[1:2, :, :, :2], None, target[1:2])
    torch.testing.assert_close(guided_attention(weights[1:2], source[1:2], target[1:2]), alone)


def test_real_ones_may_stand_anywhere_for_guided_attention():
    weights, source, target, _ = alignments()
    expected = guided_attention(weights, source, target)
    left = torch.nn.functional.pad
    torch.testing.assert_close(guided_attention(left(weights, (2, 0)), left(source, (2, 0)), target), expected)


def test_coverage_loss_is_its_equation_as_a_loop():
    weights, source, target, a = alignments()
    costs = []
    for b, h in itertools.product(range(3), range(2)):
        steps, positions = real(b)
        for t in steps:
            before = {j: math.fsum(a[b][h][s][j] for s in steps if s < t) for j in positions}
            costs.append(math.fsum(min(a[b][h][t][j], before[j]) for j in positions))
    assert coverage_loss(weights, source, target).item() == pytest.approx(mean(costs), abs=1e-12)


@pytest.mark.parametrize("rate", [1.0, 0.4, None])
def test_doubly_stochastic_is_its_equation_as_a_loop(rate):
    weights, source, target, a = alignments()
    sentences = []
    for b, h in itertools.product(range(3), range(2)):
        steps, positions = real(b)
        wanted = len(steps) / len(positions) if rate is None else rate
        sentences.append(math.fsum((wanted - math.fsum(a[b][h][t][j] for t in steps)) ** 2 for j in positions))
    loss = doubly_stochastic(weights, source, target, rate=rate)
    assert loss.item() == pytest.approx(mean(sentences), abs=1e-12)


def test_equal_shares_cost_nothing():
    assert doubly_stochastic(torch.full((1, 1, 6, 4), 0.25), rate=None) == 0


@pytest.mark.parametrize("form", ["weights", "bool", "positions"])
def test_alignment_supervision_is_its_equation_as_a_loop(form):
    weights, source, target, a = alignments()
    positions = torch.tensor([[0, 3, -1, 2, 0], [1, -1, 0, 3, 1], [2, 2, 0, 3, 1]])
    links = torch.zeros(3, 5, 4)
    known = positions
    if form != "positions":
        links.scatter_(2, positions.clamp(min=0)[..., None], 2.0)
        links = links.masked_fill((positions < 0)[..., None], 0)
        links[2, 0, 0] = 2.0
        known = links.bool() if form == "bool" else links
    costs = []
    for b, h in itertools.product(range(3), range(2)):
        steps, real_positions = real(b)
        for t in steps:
            if form == "positions":
                linked = [j for j in real_positions if j == positions[b, t]]
            else:
                linked = [j for j in real_positions if links[b, t, j] > 0]
            if linked:
                costs.append(mean([-math.log(a[b][h][t][j]) for j in linked]))
    loss = alignment_supervision(weights, known, source, target)
    assert loss.item() == pytest.approx(mean(costs), abs=1e-12)


def test_supervision_of_a_weight_of_zero_is_finite_and_has_no_gradient():
    weights = torch.tensor([[[[1.0, 0.0]]]], requires_grad=True)
    loss = alignment_supervision(weights, torch.tensor([[1]]))
    assert loss.item() == pytest.approx(87.3, abs=0.1)
    assert not torch.autograd.grad(loss, weights)[0].any()


def test_attention_entropy_is_its_equation_as_a_loop_and_knows_zeros():
    weights, source, target, a = alignments()
    entropies = []
    for b, h in itertools.product(range(3), range(2)):
        steps, positions = real(b)
        entropies += [-math.fsum(a[b][h][t][j] * math.log(a[b][h][t][j]) for j in positions) for t in steps]
    assert attention_entropy(weights, source, target).item() == pytest.approx(mean(entropies), abs=1e-12)
    hard = torch.tensor([[[[1.0, 0.0]]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(attention_entropy(hard), hard)
    assert gradient.tolist() == [[[[-1.0, 0.0]]]]


@pytest.mark.parametrize("context", [nullcontext, trusted], ids=["lengths are read", "lengths are not read"])
def test_forward_sum_adds_up_every_monotonic_way(context):
    energies = torch.randn(3, 2, 5, 4, dtype=torch.float64)
    expected = []
    for b, h in itertools.product(range(3), range(2)):
        steps, positions = real(b)
        if len(positions) > len(steps):
            continue
        said = []
        for t in steps:
            raw = [math.exp(-1.0), *(math.exp(energies[b, h, t, j].item()) for j in positions)]
            said.append([x / math.fsum(raw) for x in raw])
        total = 0.0
        for way in itertools.product(range(len(positions) + 1), repeat=len(steps)):
            read = [label for label, _ in itertools.groupby(way) if label]
            if read == list(range(1, len(positions) + 1)):
                total += math.prod(said[t][label] for t, label in enumerate(way))
        expected.append(-math.log(total) / len(positions))
    assert len(expected) == 4  # the first sentence has more positions than steps
    with context():
        loss = forward_sum(energies, SOURCE_MASK, TARGET_MASK)
    assert loss.item() == pytest.approx(mean(expected), abs=1e-12)


def test_forward_sum_has_the_gradient_of_ctc_where_no_length_is_read():
    energies = torch.randn(5, 2, 6, 4, dtype=torch.float64)
    energies[0, :, :, 1] = -80.0
    energies.requires_grad_()
    # of all steps and positions, of fewer, one too long for its steps, and one without any
    sources, steps = torch.tensor([4, 2, 3, 3, 0]), torch.tensor([6, 6, 3, 2, 0])
    masks = torch.arange(4) < sources[:, None], torch.arange(6) < steps[:, None]
    expected = forward_sum(energies, *masks)
    with trusted():
        loss = forward_sum(energies, *masks)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(each, energies)[0] for each in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-13)


def test_forward_sum_is_smallest_for_a_diagonal():
    diagonal = 10 * torch.eye(6)[None, None]
    assert forward_sum(diagonal) < 0.01
    assert forward_sum(diagonal.flip(-1)) > 1


def test_reinforce_is_its_equation_as_a_loop():
    logs, reward = torch.randn(3, 5, 2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    entropy, baseline = torch.rand(3, 5, 2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    sentences = []
    for b in range(3):
        steps, _ = real(b)
        sentences.append(
            -math.fsum(
                ((reward[b] - baseline[b]) * logs[b, t, h] + 0.3 * entropy[b, t, h]).item()
                for t, h in itertools.product(steps, range(2))
            )
        )
    loss = reinforce(logs, reward, baseline, TARGET_MASK, entropy=entropy, entropy_weight=0.3)
    assert loss.item() == pytest.approx(mean(sentences), abs=1e-12)
    every_step = reward[:, None].expand(3, 5)
    torch.testing.assert_close(reinforce(logs, every_step, 0.0, TARGET_MASK), reinforce(logs, reward, 0.0, TARGET_MASK))


def test_rewards_and_baselines_are_constants():
    logs, reward, baseline = (torch.randn(*shape, requires_grad=True) for shape in ((2, 1, 1), (2,), (1,)))
    found = torch.autograd.grad(reinforce(logs, reward, baseline), [logs, reward, baseline], allow_unused=True)
    assert found[0] is not None
    assert found[1:] == (None, None)


def test_the_gradient_of_reinforce_is_that_of_the_expected_reward():
    """Exact: the sum over all draws, each with its probability."""
    energies = torch.randn(4, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    (expected,) = torch.autograd.grad(-(energies.softmax(0) * rewards).sum(), energies)
    total = torch.zeros_like(expected)
    for drawn, reward in enumerate(rewards):
        loss = reinforce(energies.log_softmax(0)[drawn].view(1, 1, 1), reward.view(1), baseline=0.7)
        total += energies.softmax(0)[drawn].item() * torch.autograd.grad(loss, energies)[0]
    torch.testing.assert_close(total, expected)


def test_a_moving_baseline_moves_in_update_alone_and_is_continued_from_its_state():
    baseline = MovingBaseline()
    assert [baseline.update(torch.full((3,), reward)).item() for reward in (10.0, 10.0)] == [0.0, 1.0]
    assert baseline.value.item() == pytest.approx(1.9)
    again = MovingBaseline()
    again.load_state_dict(baseline.state_dict())
    rewards = torch.tensor([4.0, 77.0])
    mask = torch.tensor([True, False])
    assert torch.equal(again.update(rewards, mask), baseline.update(rewards, mask))
    assert torch.equal(again.value, baseline.value)
    assert baseline.value.item() == pytest.approx(0.9 * 1.9 + 0.1 * 4)


@pytest.mark.parametrize("reward", [torch.tensor([math.nan]), torch.tensor([math.inf, 1.0]), torch.zeros(0)])
def test_rewards_without_a_finite_mean_leave_the_baseline(reward):
    baseline = MovingBaseline()
    baseline.update(torch.tensor([5.0]))
    baseline.update(reward)
    assert baseline.value.item() == pytest.approx(0.5)


@pytest.mark.parametrize("mix", [0.0, 0.5])
def test_hard_attention_learns_where_to_look_by_reinforce_with_a_baseline(mix):
    """The query says which of five positions holds the answer; only the draw's reward says so to the score."""
    torch.manual_seed(1)
    mechanism = show_attend_tell(query_size=5, memory_size=8, size=16, hard=True, mix=mix, gate=None)
    head, baseline = torch.nn.Linear(8, 3), MovingBaseline()
    optimiser = torch.optim.Adam([*mechanism.parameters(), *head.parameters()], lr=0.02)
    draw = torch.Generator().manual_seed(2)

    def batch(size):
        marks = torch.randint(0, 3, (size, 5), generator=draw)
        places = torch.rand(size, 5, generator=draw).argsort(1)
        asked = torch.randint(0, 5, (size,), generator=draw)
        one_hot = torch.nn.functional.one_hot
        values = torch.cat([one_hot(marks, 3), one_hot(places, 5)], -1).float()
        answer = marks[places == asked[:, None]]
        return values, one_hot(asked, 5).float(), answer

    def look(values, query):
        attended, _ = mechanism(query[:, None], mechanism.prepare(values), generator=draw)
        return head(attended.context).log_softmax(-1), attended.auxiliary

    for _ in range(300):
        values, query, answer = batch(64)
        said, choice = look(values, query)
        loss, _ = cross_entropy(said, answer[:, None])
        reward = said[:, 0].gather(1, answer[:, None])[:, 0].detach()
        learned = reinforce(
            choice.log_probability, reward, baseline.update(reward), entropy=choice.entropy, entropy_weight=0.01
        )
        optimiser.zero_grad()
        (loss / 64 + learned).backward()
        optimiser.step()
    mechanism.eval()
    values, query, answer = batch(500)
    said, choice = look(values, query)
    assert (said[:, 0].argmax(-1) == answer).float().mean() > 0.95
    found = values[torch.arange(500), choice.index[:, 0, 0], 3:].argmax(-1)
    assert (found == query.argmax(-1)).float().mean() > 0.95


ONE = torch.zeros(2, 1, 3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: guided_attention(ONE[:, 0]), "alignments must be (B, H, T, S)"),
        (lambda: coverage_loss(ONE.long()), "alignments  (B=2, H=1, T=3, S=4) int64"),
        (lambda: coverage_loss(ONE, torch.ones(2, 3).bool()), "source_mask must be (B, S) bool"),
        (lambda: attention_entropy(ONE, None, torch.ones(2, 3)), "target_mask must be (B, T) bool"),
        (
            lambda: alignment_supervision(ONE, torch.zeros(2, 3)),
            "reference must be (B, T, S) weights, or (B, T)",
        ),
        (lambda: forward_sum(ONE, torch.tensor([[1, 0, 1, 0]] * 2).bool()), "on the left, without a gap"),
        (lambda: reinforce(ONE[:, 0], torch.zeros(4)), "reward           (B=4)"),
        (lambda: reinforce(ONE[:, 0], torch.zeros(2), 0.0, torch.ones(2, 4).bool()), "target_mask must be (B, T)"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_their_sizes(call, message):
    with pytest.raises(ShapeError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: guided_attention(ONE, width=0.0),
        lambda: guided_attention(ONE, missing=-1.0),
        lambda: MovingBaseline(1.0),
    ],
)
def test_numbers_out_of_range_are_refused(call):
    with pytest.raises(
        ValueError, match=r"width=0\.0 must be above 0|missing=-1\.0 must be|decay=1\.0 must be 0 or more and below 1"
    ):
        call()


def test_doubly_stochastic_attention_may_count_the_mean_over_positions():
    """As sgrvinod's tutorial has it: the mean over a batch of images of equally many cells."""
    weights = torch.rand(3, 1, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)
    expected = ((1 - weights[:, 0].sum(1)) ** 2).mean()
    torch.testing.assert_close(doubly_stochastic(weights, positions="mean"), expected)
    real = torch.arange(6) < torch.tensor([6, 2, 3])[:, None]
    weights = weights * real[:, None, None]
    each = [((1 - weights[b, 0, :, :n].sum(0)) ** 2).mean() for b, n in enumerate((6, 2, 3))]
    torch.testing.assert_close(doubly_stochastic(weights, real, positions="mean"), sum(each) / 3)
