"""Layers that models of speech are built from: what each option does, and that padding never counts."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
from torch import nn

from regard.errors import ConfigError, UnsupportedError
from regard.layers import (
    CBHG,
    CellStack,
    ConvolutionBlock,
    Highway,
    MaskedBatchNorm,
    MaskedConvolution,
    Prenet,
    RecurrentStack,
    ResetBeforeGRU,
    Zoneout,
)
from regard.layers.items import ItemDraws, drawing, sites

MASK = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]


def padded(size=3, filler=float("nan")):
    torch.manual_seed(0)
    x = torch.randn(3, 6, size, dtype=torch.float64)
    return x, x.masked_fill(~MASK[..., None], filler)


def same(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("training", [True, False])
def test_without_padding_masked_batch_norm_is_that_of_torch(training):
    ours, theirs = MaskedBatchNorm(3, momentum=0.3).double(), nn.BatchNorm1d(3, momentum=0.3).double()
    theirs.load_state_dict(ours.state_dict())
    x, _ = padded()
    for module in (ours, theirs):
        module.train()
        module(x if module is ours else x.transpose(1, 2))
        module.train(training)
    same(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    for name, value in theirs.state_dict().items():
        same(ours.state_dict()[name].double(), value.double())


def test_padding_is_in_no_statistic_and_comes_out_as_zero():
    ours, theirs = MaskedBatchNorm(3).double(), nn.BatchNorm1d(3).double()
    x, spoiled = padded()
    out = ours(spoiled, MASK)
    same(out[MASK], theirs(x[MASK]))
    same(ours.running_mean, theirs.running_mean)
    same(ours.running_var, theirs.running_var)
    assert not out[~MASK].any()
    assert not ours.eval()(spoiled, MASK)[~MASK].any()


def test_momentum_is_the_share_of_the_new_statistics_so_that_099_of_tensorflow_is_001():
    x = torch.full((1, 4, 1), 5.0)
    norms = {momentum: MaskedBatchNorm(1, momentum=momentum) for momentum in (0.01, 0.99)}
    for norm in norms.values():
        norm(x)
    assert norms[0.01].running_mean.item() == pytest.approx(0.05)
    assert norms[0.99].running_mean.item() == pytest.approx(4.95)
    with pytest.raises(ConfigError, match=r"momentum=1\.5"):
        MaskedBatchNorm(1, momentum=1.5)


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_of_one_real_position_or_none_is_finite(count):
    norm = MaskedBatchNorm(2)
    mask = torch.arange(3)[None] < count
    x = torch.randn(1, 3, 2, requires_grad=True)
    out = norm(x, mask)
    out.sum().backward()
    assert all(tensor.isfinite().all() for tensor in (out, x.grad, norm.running_var))


@pytest.mark.parametrize("kernel", [1, 2, 4, 5])
def test_a_filter_reaches_one_further_to_the_right_if_it_is_even(kernel):
    layer = MaskedConvolution(1, 1, kernel, bias=False).double()
    nn.init.ones_(layer.filters.weight)
    x = torch.arange(1.0, 8.0, dtype=torch.float64).view(1, 7, 1)
    left, right = (kernel - 1) // 2, kernel // 2
    expected = [sum(range(max(t - left, 0) + 1, min(t + right, 6) + 2)) for t in range(7)]
    assert layer(x).flatten().tolist() == expected


def test_padding_is_not_read_by_filters():
    for layer in (MaskedConvolution(3, 2, 4), ConvolutionBlock(3, 2, 5, norm="after"), ConvolutionBlock(3, 2, 5)):
        layer = layer.double().eval()
        x, spoiled = padded()
        out = layer(spoiled, MASK)
        same(out[1, :2], layer(x[1:2, :2])[0])
        assert not out[~MASK].any() or layer.norm is None


def test_normalisation_comes_before_or_after_the_activation():
    x, _ = padded()
    before, after = (ConvolutionBlock(3, 4, 3, norm=place).double() for place in ("before", "after"))
    after.load_state_dict(before.state_dict())
    assert (before(x) >= 0).all()
    assert (after(x) < 0).any()


def test_a_new_highway_layer_mostly_hands_on_its_input():
    torch.manual_seed(0)
    x = torch.randn(50, 8)
    moved = [(Highway(8, gate_bias=bias)(x) - x).abs().mean().item() for bias in (-1.0, 3.0)]
    assert moved[0] < moved[1] / 2
    assert (Highway(8).gate.bias == -1).all()


def test_the_maximum_of_cbhg_leaves_padding_out():
    cbhg = CBHG(3, num_filters=2, bank_size=2, projections=(4,), highway_size=3, size=2).double().eval()
    for block in cbhg.bank:
        nn.init.constant_(block.norm.bias, -5.0)  # what is normalised is below the zeros of padding
    x, spoiled = padded()
    outputs, _ = cbhg(spoiled.nan_to_num(nan=9.0), MASK)
    same(outputs[2, :4], cbhg(x[2:3, :4])[0][0])
    without = CBHG(3, num_filters=2, bank_size=2, projections=(4,), highway_size=3, size=2, pool=False).double().eval()
    without.load_state_dict(cbhg.state_dict())
    assert not torch.allclose(without(x)[0], cbhg(x)[0])


def gru_reset_before(x, h, w, u, b):
    """A step of TensorFlow 1's GRU for one row, from its equations."""
    size = len(h)
    gates = [slice(k * size, (k + 1) * size) for k in range(3)]
    r, z = (torch.sigmoid(w[gate] @ x + u[gate] @ h + b[gate]) for gate in gates[:2])
    n = torch.tanh(w[gates[2]] @ x + u[gates[2]] @ (r * h) + b[gates[2]])
    return (1 - z) * n + z * h


def test_a_gru_may_reset_before_the_product_on_every_row_of_a_padded_batch():
    torch.manual_seed(0)
    stack = RecurrentStack(3, 4, cell="gru_reset_before", bidirectional=True).double()
    layer = stack.layers[0]
    assert isinstance(layer, ResetBeforeGRU)
    assert layer.bias_l0.tolist() == [1.0] * 8 + [0.0] * 4
    x, spoiled = padded()
    outputs, (final,) = stack(spoiled, mask=MASK)
    for row, length in enumerate((6, 2, 4)):
        for suffix, steps, part in (("", range(length), slice(4)), ("_reverse", reversed(range(length)), slice(4, 8))):
            w, u, b = (getattr(layer, f"{kind}_l0{suffix}") for kind in ("weight_ih", "weight_hh", "bias"))
            h = torch.zeros(4, dtype=torch.float64)
            for t in steps:
                h = gru_reset_before(x[row, t], h, w, u, b)
                same(outputs[row, t, part], h)
            same(final[0][row, part], h)
    assert not outputs[~MASK].any()


def test_a_gru_that_resets_before_the_product_steps_as_it_runs():
    torch.manual_seed(0)
    stack = RecurrentStack(3, 3, 2, cell="gru_reset_before", residual=True).double()
    x, _ = padded()
    state, steps = stack.zero_state(3, x), []
    for t in range(6):
        step, state = stack.step(x[:, t], state)
        steps.append(step)
    outputs, final = stack(x)
    same(torch.stack(steps, 1), outputs)
    same(state[1][0], final[1][0])
    other = RecurrentStack(3, 3, 2, cell="gru", residual=True).double()
    assert other.state_dict().keys() != stack.state_dict().keys()


def test_zoneout_keeps_units_in_training_and_mixes_states_in_evaluation():
    torch.manual_seed(0)
    zoneout, new, old = Zoneout(0.3), torch.ones(200, 50), torch.zeros(200, 50)
    kept = (zoneout(new, old) == 0).float().mean().item()
    assert kept == pytest.approx(0.3, abs=0.02)
    same(zoneout.eval()(new, old), torch.full((200, 50), 0.7), 1e-6)
    for p in (1.0, -0.1):
        with pytest.raises(ConfigError, match="zoneout="):
            Zoneout(p)


def test_draws_of_zoneout_belong_to_the_item():
    zoneout = Zoneout(0.5)
    new, old = torch.ones(3, 8), torch.zeros(3, 8)

    def drawn(items, rows):
        with drawing(ItemDraws(sites(zoneout), torch.tensor(items), seed=1, step=2)):
            return zoneout(new[:rows], old[:rows])

    same(drawn([5, 6, 7], 3)[1], drawn([6], 1)[0])
    assert not torch.equal(drawn([5], 1), drawn([6], 1))


def test_dropout_on_the_state_is_carried_and_may_hold_for_c_too():
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    for dropped, count in (("output", 1), ("state", 2)):
        cells = CellStack(3, 16, dropout=0.5, dropped=dropped)
        output, ((h, c),) = cells.step(x, cells.zero_state(40, x))
        assert torch.equal(output, h)
        zeros = [(part == 0).float().mean().item() for part in (h, c)]
        assert [share > 0.4 for share in zeros] == [number < count for number in range(2)]


def test_zoneout_is_in_the_state_and_in_the_output_only_if_asked_for():
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    for zones in (True, False):
        cells = CellStack(3, 5, zoneout=0.2, zones_output=zones).eval()
        old = tuple(tuple(torch.randn(4, 5) for _ in range(2)) for _ in range(1))
        output, ((h, c),) = cells.step(x, old)
        raw = cells.cells[0].step(x, old)[1][0]
        same(h, 0.2 * old[0][0] + 0.8 * raw[0], 1e-6)
        same(c, 0.2 * old[0][1] + 0.8 * raw[1], 1e-6)
        same(output, h if zones else raw[0], 1e-6)


def test_residual_cells_map_their_input_first_and_add_it():
    torch.manual_seed(0)
    cells = CellStack(3, 5, 2, cell="gru", residual=True)
    x = torch.randn(2, 3)
    state = cells.zero_state(2, x)
    mapped = cells.projection(x)
    first = mapped + cells.cells[0].step(mapped, (state[0],))[0]
    second = first + cells.cells[1].step(first, (state[1],))[0]
    same(cells.step(x, state)[0], second, 1e-6)


def test_cells_leave_padding_out_and_refuse_what_does_not_go_together():
    torch.manual_seed(0)
    cells = CellStack(3, 4, 2, zoneout=0.1).double().eval()
    x, spoiled = padded()
    outputs, final = cells(spoiled, mask=MASK)
    alone, last = cells(x[1:2, :2])
    same(outputs[1, :2], alone[0])
    same(final[1][1][1], last[1][1][0])
    assert not outputs[~MASK].any()
    with pytest.raises(UnsupportedError, match="only one of them can be above 0"):
        CellStack(3, 4, dropout=0.1, zoneout=0.1)
    with pytest.raises(ConfigError, match=r"dropout=1\.5"):
        CellStack(3, 4, dropout=1.5)


def test_a_prenet_drops_in_training_only_or_always():
    torch.manual_seed(0)
    x = torch.ones(60, 3)
    for drops, shares in (("training", (0.5, 0.0)), ("always", (0.5, 0.5))):
        prenet = Prenet(3, (64,), drops=drops)
        nn.init.ones_(prenet.layers[0].weight)
        found = [(prenet.train(mode)(x, start=torch.arange(60)) == 0).float().mean().item() for mode in (True, False)]
        assert found == pytest.approx(shares, abs=0.05)


def test_draws_of_synthesis_follow_from_seed_and_step_and_nothing_else():
    torch.manual_seed(0)
    prenet = Prenet(3, (8, 8), drops="always").eval()
    x, seeds = torch.randn(2, 4, 3), torch.tensor([3, 9])
    whole = prenet(x, seeds=seeds)
    for row in range(2):
        for t in range(4):
            alone = prenet(x[row, t][None], seeds=seeds[row : row + 1], start=torch.tensor([t]))
            same(alone[0], whole[row, t], 1e-6)
    assert not torch.equal(prenet(x, seeds=seeds + 1), whole)
    torch.manual_seed(5)
    assert torch.equal(prenet(x, seeds=seeds), whole)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ConvolutionBlock(3, 4, 3, norm="both"), "norm='both'"),
        (lambda: ConvolutionBlock(3, 4, 3, activation="gelu"), "activation='gelu'"),
        (lambda: MaskedConvolution(3, 4, 0), "kernel_size=0"),
        (lambda: CellStack(3, 4, dropout=0.1, dropped="c"), "dropped='c'"),
        (lambda: Prenet(3, drops="never"), "drops='never'"),
        (lambda: Prenet(3, ()), "at least one layer"),
    ],
)
def test_an_option_that_is_none_of_the_known_ones_is_refused(make, says, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside tests, where types are not checked
    with pytest.raises(ConfigError, match=says):
        make()
