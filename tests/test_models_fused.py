"""The fused training pass is the loop of steps: outputs, features and every gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard import attention as a
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, DeepReadout, RecurrentDecoder, fused
from regard.testing import tiny
from regard.testing.source import encode

SIZES = {"query_size": 4, "memory_size": 6}
MECHANISMS = {
    "additive": lambda: a.bahdanau(**SIZES, size=4),
    "additive, 2 heads, normalised, sharp": lambda: a.bahdanau(
        **SIZES, size=4, num_heads=2, normalised=True, sharpening=1.5
    ),
    "general": lambda: a.luong(**SIZES),
    "general, 2 heads, learned scale": lambda: a.luong(**SIZES, num_heads=2, learned_scale=True),
    "scaled dot, 2 heads, slices": lambda: a.Mechanism(
        a.ScaledDotScore(4, 6, 4, num_heads=2, bias=True),
        a.SoftmaxAlignment(),
        a.WeightedSum(6, num_heads=2, split_heads=True),
    ),
    "scaled dot, heads share keys": lambda: a.Mechanism(
        a.ScaledDotScore(4, 6, 4, num_heads=4, num_key_value_heads=2),
        a.SoftmaxAlignment(),
        a.WeightedSum(6, num_heads=4),
    ),
}
LOCATION = {**SIZES, "size": 4, "num_filters": 3, "kernel_size": 3}
LOCATED = {
    "location, the sum": lambda: a.location_sensitive(**LOCATION),
    "location, both, three previous, a uniform start, 2 heads": lambda: a.location_sensitive(
        **LOCATION, num_heads=2, location="both", num_previous=3, first_alignment="uniform", accumulate_first=True
    ),
    "location, detached": lambda: a.location_sensitive(**LOCATION, like="speechbrain"),
    "coverage, a uniform start, 2 heads": lambda: a.coverage(**SIZES, size=4, num_heads=2, first_alignment="uniform"),
    "coverage of a plane": lambda: a.plane_coverage(**LOCATION),
    "coverage of a plane, 2 heads, sharp": lambda: a.plane_coverage(**LOCATION, num_heads=2, sharpening=1.5),
}
"""Energies that depend on earlier weights."""
GATED = {
    "a gate": lambda: a.show_attend_tell(**SIZES, size=4),
    "gates of two heads": lambda: a.show_attend_tell(**SIZES, size=4, num_heads=2),
    "a gate of each feature": lambda: a.show_attend_tell(**SIZES, size=4, gate="vector", like="sgrvinod"),
    "rectified, 2 heads": lambda: a.show_attend_tell(**SIZES, size=4, gate=None, num_heads=2, like="sgrvinod"),
    "a gate and coverage of a plane": lambda: a.plane_coverage(**LOCATION, gate="vector"),
}
ORDERS = ("recur_then_attend", "attend_then_recur")


def build(mechanism, cell="lstm", order=ORDERS[0], readout="tanh", **options):
    torch.manual_seed(0)
    if readout == "deep":
        readout = DeepReadout(4, embedding_size=3, context_size=mechanism.context_size)
    width = 3 if isinstance(readout, DeepReadout) else 4
    fed = RecurrentDecoder.input_size(3, 4, attention=mechanism, order=order)
    stack = RecurrentStack(fed, 4, cell=cell, **options)
    encoder = RecurrentStack(1, 3, cell=cell, bidirectional=True)
    embedding = TokenEmbedding(4, 3, padding=None)
    decoder = RecurrentDecoder(
        embedding,
        stack,
        TokenHead(width, 4),
        Bridge(encoder, stack, "dense"),
        attention=mechanism,
        order=order,
        readout=readout,
    ).double()
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return decoder


def passes(decoder, monkeypatch, grid=None):
    """Features of the fused pass and of the loop, and what they are differentiated by."""
    encoded = replace(encode(tiny.sources(cell=decoder.stack.cell), padding=2 if grid is None else 1), grid=grid)
    values = encoded.memory.clone().requires_grad_()
    ids = torch.tensor([[0, 2, 3, 1, 1], [3, 0, 2, 2, 1]])
    memory = decoder.prepare(replace(encoded, memory=values))
    torch.manual_seed(7)
    together = decoder.run(ids, memory, alignment=True)
    with monkeypatch.context() as patch:
        patch.setattr(fused, "refuse", lambda *_: "the loop was asked for")
        torch.manual_seed(7)
        loop = decoder.run(ids, memory, alignment=True)
    wanted = {**dict(decoder.named_parameters()), "memory": values}
    return [(x.output, x.cell, x.context, x.alignment) for x in (together, loop)], wanted


def assert_same(decoder, monkeypatch, grid=None):
    assert decoder.explain().startswith("a training pass takes the steps in one fused node")
    (ours, plain), wanted = passes(decoder, monkeypatch, grid)
    assert ours[0].grad_fn is not None
    for x, y in zip(ours, plain, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-13)
    probe = [torch.randn_like(x) for x in plain]
    found, expected = (
        torch.autograd.grad(x, list(wanted.values()), probe, retain_graph=True, allow_unused=True)
        for x in (ours, plain)
    )
    for name, x, y in zip(wanted, found, expected, strict=True):
        assert (x is None) == (y is None), name
        if y is not None:
            torch.testing.assert_close(x, y, rtol=0, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_fused_pass_is_the_loop_of_steps(mechanism, cell, order, monkeypatch):
    assert_same(build(MECHANISMS[mechanism](), cell, order), monkeypatch)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mechanism", LOCATED)
def test_energies_that_depend_on_earlier_weights_are_fused(mechanism, order, monkeypatch):
    for cell in ("lstm", "gru"):
        assert_same(build(LOCATED[mechanism](), cell, order), monkeypatch)


@pytest.mark.parametrize("readout", ["tanh", "state", "deep"])
@pytest.mark.parametrize("mechanism", ["additive", "general, 2 heads, learned scale", *GATED])
def test_gates_and_readouts_are_fused_where_attention_comes_first(mechanism, readout, monkeypatch):
    for cell in ("lstm", "gru"):
        assert_same(build({**MECHANISMS, **GATED}[mechanism](), cell, ORDERS[1], readout), monkeypatch)


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (6, 1)])
def test_the_cells_of_an_image_are_covered_in_the_fused_pass(grid, monkeypatch):
    for mechanism in ("coverage of a plane, 2 heads, sharp", "a gate and coverage of a plane"):
        assert_same(build({**LOCATED, **GATED}[mechanism](), "gru", ORDERS[1], "deep"), monkeypatch, grid)


@pytest.mark.parametrize("mechanism", ["a gate and coverage of a plane", "a gate of each feature"])
def test_captioners_have_second_derivatives(mechanism):
    decoder = build(GATED[mechanism](), "gru", ORDERS[1], "deep")
    encoded = replace(encode(tiny.sources(cell="gru"), padding=1), grid=(2, 3))
    wanted = list(decoder.attention.parameters())

    def slope(*values):
        with torch.no_grad():
            for parameter, value in zip(wanted, values, strict=True):
                parameter.copy_(value)
        features = decoder.run(torch.tensor([[0, 2, 3], [3, 0, 2]]), decoder.prepare(encoded))
        grads = torch.autograd.grad(features.output.square().sum(), wanted, create_graph=True)
        return sum((grad * probe).sum() for grad, probe in zip(grads, probes, strict=True))

    probes = [torch.randn_like(parameter) for parameter in wanted]
    start = [parameter.detach().clone() for parameter in wanted]
    found = torch.autograd.grad(slope(*start), wanted)
    directions, width = [torch.randn_like(parameter) for parameter in wanted], 1e-5
    ahead, behind = (
        float(slope(*(x + sign * width * d for x, d in zip(start, directions, strict=True))).detach())
        for sign in (1, -1)
    )
    expected = sum(float((grad * d).sum()) for grad, d in zip(found, directions, strict=True))
    assert (ahead - behind) / (2 * width) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [{"num_layers": 2}, {"num_layers": 3, "residual": True}])
def test_stacks_of_layers_are_fused_too(options, order, monkeypatch):
    for cell in ("lstm", "gru"):
        assert_same(build(MECHANISMS["additive"](), cell, order, **options), monkeypatch)


def test_dropout_between_layers_drops_in_training_alone(monkeypatch):
    decoder = build(MECHANISMS["additive"](), num_layers=2, dropout=0.5)
    dropped = [passes(decoder.train(), monkeypatch)[0][0][1] for _ in range(2)]
    kept = passes(decoder.eval(), monkeypatch)[0][0][1]
    assert torch.equal(*dropped)  # the seed is the same
    assert not torch.allclose(dropped[0], kept)


def test_gradients_are_those_of_finite_differences():
    decoder = build(MECHANISMS["additive"](), "gru", num_layers=2)
    encoded = encode(tiny.sources(cell="gru"))
    ids = torch.randint(0, 4, (2, 3))

    def run(values):
        found = decoder.run(ids, decoder.prepare(replace(encoded, memory=values)), alignment=True)
        return found.output, found.alignment

    assert torch.autograd.gradcheck(run, (encoded.memory.clone().requires_grad_(),))


def test_a_sentence_that_may_look_at_nothing_reads_zeros():
    decoder = build(MECHANISMS["additive"]())
    encoded = encode(tiny.sources(cell="lstm"))
    mask = encoded.mask.clone()
    mask[1] = False
    values = encoded.memory.clone().requires_grad_()
    found = decoder.run(torch.randint(0, 4, (2, 4)), decoder.prepare(replace(encoded, memory=values, mask=mask)))
    assert not found.context[1].any()
    found.output.sum().backward()
    assert values.grad.isfinite().all()
    assert not values.grad[1].any()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: build(a.gmm(**SIZES, size=4)),
            "does not support MixtureScore",
        ),
        (lambda: build(a.bahdanau(**SIZES, size=4, alignment="sparsemax")), "does not support SparsemaxAlignment"),
        (lambda: build(a.luong(**SIZES, window=a.ArgmaxWindow(back=1, front=1))), "does not support ArgmaxWindow"),
        (lambda: build(a.bahdanau(**SIZES, size=4), "rnn"), "no rnn cells"),
        (lambda: build(a.Parallel([a.luong(**SIZES)])), "no Parallel"),
    ],
)
def test_what_is_not_fused_says_why(make, reason):
    assert reason in make().explain()


def test_half_types_take_the_loop():
    mechanism = a.bahdanau(**SIZES, size=4)
    parts = mechanism, RecurrentStack(7, 4), torch.nn.Linear(10, 4)
    assert fused.refuse(*parts, torch.zeros(1, 2, 3)) is None
    assert "float32 and float64" in fused.refuse(*parts, torch.zeros(1, 2, 3, dtype=torch.bfloat16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "half types" in fused.refuse(*parts, torch.zeros(1, 2, 3))
    assert "nothing to compute" in fused.refuse(*parts, torch.zeros(1, 0, 3))
