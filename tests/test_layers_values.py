"""Layers and losses of values."""

from __future__ import annotations

import pytest
import torch

from regard.errors import ShapeError, UnsupportedError
from regard.layers import QuantileHead, ValueEmbedding
from regard.losses import absolute_error, pinball_loss, squared_error
from regard.testing.mechanism import move_weights


def test_a_missing_value_is_a_zero_that_is_marked():
    embedding = ValueEmbedding(2, 3, marks_missing=True)
    values = torch.tensor([[1.0, torch.nan], [1.0, 0.0]], requires_grad=True)
    features = embedding(values)
    mark = embedding.projection.weight[:, 3]
    torch.testing.assert_close(features[0] - features[1], mark)
    features.sum().backward()
    assert values.grad[0, 1] == 0
    assert embedding.projection.weight.grad.isfinite().all()
    assert ValueEmbedding(2, 3)(values).isnan().tolist() == [[True] * 3, [False] * 3]


@pytest.mark.parametrize("levels", [(0.5,), (0.1, 0.5), (0.5, 0.9), (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)])
def test_quantiles_never_cross_and_the_values_are_the_medians(levels):
    head = QuantileHead(4, 3, levels=levels).double()
    move_weights(head)
    values, further = head(100 * torch.randn(7, 5, 4).double())
    quantiles = further["quantiles"]
    assert quantiles.shape == (7, 5, 3, len(levels))
    assert (quantiles.diff(dim=-1) >= 0).all()
    assert torch.equal(quantiles[..., levels.index(0.5)], values)


@pytest.mark.parametrize("levels", [(), (0.1, 0.9), (0.5, 0.1), (0.5, 0.5), (0.0, 0.5), (0.5, 1.0)])
def test_other_levels_are_refused(levels):
    with pytest.raises(UnsupportedError, match=r"levels=.* must increase"):
        QuantileHead(4, 2, levels=levels)


def test_quantiles_learn_the_quantiles():
    """Of a thousand numbers, a quantile of level τ is above the share τ."""
    torch.manual_seed(0)
    levels = (0.1, 0.5, 0.8)
    head = QuantileHead(1, 1, levels=levels)
    targets, features = torch.randn(1000, 1).exp(), torch.ones(1000, 1)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        total, count = pinball_loss(head(features)[1]["quantiles"], targets, levels)
        (total / count).backward()
        optimizer.step()
    quantiles = head(features)[1]["quantiles"]
    shares = (targets[..., None] <= quantiles).float().mean((0, 1))
    torch.testing.assert_close(shares, torch.tensor(levels), rtol=0, atol=0.02)


def test_losses_are_the_plain_sums_over_what_was_observed():
    torch.manual_seed(0)
    observed = torch.rand(3, 2, 2) > 0.3
    values, targets = torch.randn(3, 2, 2).double(), torch.randn(3, 2, 2).double()
    errors = [
        (float(y), float(x))
        for y, x, seen in zip(targets.flatten(), values.flatten(), observed.flatten(), strict=True)
        if seen
    ]
    missing = targets.masked_fill(~observed, torch.nan)
    assert 0 < len(errors) < 12
    total, count = squared_error(values, missing, ~missing.isnan())
    assert (float(total), int(count)) == (pytest.approx(sum((y - x) ** 2 for y, x in errors)), len(errors))
    total, count = absolute_error(values, missing, observed)
    assert (float(total), int(count)) == (pytest.approx(sum(abs(y - x) for y, x in errors)), len(errors))
    quantiles, levels = torch.stack([values - 1, values], -1), (0.2, 0.5)
    total, count = pinball_loss(quantiles, missing, levels, observed)
    expected = 0.0
    for y, x in errors:
        for level, quantile in zip(levels, (x - 1, x), strict=True):
            expected += level * (y - quantile) if y >= quantile else (1 - level) * (quantile - y)
    assert (float(total), int(count)) == (pytest.approx(expected), 2 * len(errors))
    half, _ = pinball_loss(values[..., None], missing, (0.5,), observed)
    torch.testing.assert_close(2 * half, absolute_error(values, missing, observed)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: squared_error(torch.zeros(2, 3, 1), torch.zeros(2, 3, 2)), "values and targets must have the same"),
        (lambda: absolute_error(torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3)), "mask must be bool"),
        (lambda: squared_error(torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(3).bool()), "mask must be bool"),
        (lambda: pinball_loss(torch.zeros(2, 3, 2), torch.zeros(2, 3), (0.1, 0.5, 0.9)), "a last axis of Q=3"),
    ],
)
def test_sizes_that_do_not_fit_are_shown(call, message):
    with pytest.raises((ShapeError, TypeError), match=message):
        call()
