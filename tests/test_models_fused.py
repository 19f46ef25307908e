"""The fused training pass is the loop of steps: outputs, features and every gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard import attention as a
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, RecurrentDecoder, fused
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
ORDERS = ("recur_then_attend", "attend_then_recur")


def build(mechanism, cell="lstm", order=ORDERS[0], **options):
    torch.manual_seed(0)
    fed = RecurrentDecoder.input_size(3, 4, attention=mechanism, order=order)
    stack = RecurrentStack(fed, 4, cell=cell, **options)
    encoder = RecurrentStack(1, 3, cell=cell, bidirectional=True)
    embedding = TokenEmbedding(4, 3, padding=None)
    decoder = RecurrentDecoder(
        embedding, stack, TokenHead(4, 4), Bridge(encoder, stack, "dense"), attention=mechanism, order=order
    ).double()
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return decoder


def passes(decoder, monkeypatch):
    """Features of the fused pass and of the loop, and what they are differentiated by."""
    encoded = encode(tiny.sources(cell=decoder.stack.cell), padding=2)
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


def assert_same(decoder, monkeypatch):
    assert decoder.explain().startswith("a training pass takes the steps in one fused node")
    (ours, plain), wanted = passes(decoder, monkeypatch)
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
            lambda: build(a.location_sensitive(**SIZES, size=4, num_filters=2, kernel_size=3)),
            "LocationScore declares nothing",
        ),
        (lambda: build(a.bahdanau(**SIZES, size=4, alignment="sparsemax")), "SparsemaxAlignment declares nothing"),
        (lambda: build(a.luong(**SIZES, window=a.ArgmaxWindow(back=1, front=1))), "ArgmaxWindow declares nothing"),
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
