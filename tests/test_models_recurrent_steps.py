"""A training pass of a recurrent decoder by kernels is the plain one: outputs, features and every gradient."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from regard import attention as a
from regard import tree
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, DeepReadout, FixedContext, RecurrentDecoder
from regard.ops import plain
from regard.testing.source import encode
from support import tiny

SIZES = {"query_size": 4, "memory_size": 6}


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    monkeypatch.setattr(sys.modules["regard.ops.linear"], "MIN_WORK", 0)


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
OTHERS = {
    "a mixture": lambda: a.gmm(**SIZES, size=4),
    "sparsemax": lambda: a.bahdanau(**SIZES, size=4, alignment="sparsemax"),
    "a window": lambda: a.luong(**SIZES, window=a.ArgmaxWindow(back=1, front=1)),
    "forward": lambda: a.forward_attention(**SIZES, size=4, num_filters=2, kernel_size=3),
}
"""Steps of more than one operation."""
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


def passes(decoder, grid=None):
    """Features by kernels and by the plain formulas, and what they are differentiated by."""
    encoded = replace(encode(tiny.sources(cell=decoder.stack.cell), padding=2 if grid is None else 1), grid=grid)
    values = encoded.memory.clone().requires_grad_()
    ids = torch.tensor([[0, 2, 3, 1, 1], [3, 0, 2, 2, 1]])
    found = []
    for context in (nullcontext, plain):
        with context():
            torch.manual_seed(7)
            features = decoder.run(ids, decoder.prepare(replace(encoded, memory=values)), alignment=True)
        parts = features.output, features.cell, features.context, features.alignment
        found.append([x for x in parts if x is not None and x.requires_grad])
    return found, {**dict(decoder.named_parameters()), "memory": values}


def assert_same(decoder, grid=None):
    (ours, plainly), wanted = passes(decoder, grid)
    for x, y in zip(ours, plainly, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-13)
    probe = [torch.randn_like(x) for x in plainly]
    found, expected = (
        torch.autograd.grad(x, list(wanted.values()), probe, retain_graph=True, allow_unused=True)
        for x in (ours, plainly)
    )
    for name, x, y in zip(wanted, found, expected, strict=True):
        assert (x is None) == (y is None), name
        if y is not None:
            torch.testing.assert_close(x, y, rtol=0, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_pass_by_kernels_is_the_plain_one(mechanism, cell, order):
    assert_same(build(MECHANISMS[mechanism](), cell, order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mechanism", LOCATED)
def test_energies_that_depend_on_earlier_weights(mechanism, order):
    for cell in ("lstm", "gru"):
        assert_same(build(LOCATED[mechanism](), cell, order))


@pytest.mark.parametrize("readout", ["tanh", "state", "deep"])
@pytest.mark.parametrize("mechanism", ["additive", "general, 2 heads, learned scale", *GATED])
def test_gates_and_readouts_where_attention_comes_first(mechanism, readout):
    for cell in ("lstm", "gru"):
        assert_same(build({**MECHANISMS, **GATED}[mechanism](), cell, ORDERS[1], readout))


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (6, 1)])
def test_the_cells_of_an_image_are_covered(grid):
    for mechanism in ("coverage of a plane, 2 heads, sharp", "a gate and coverage of a plane"):
        assert_same(build({**LOCATED, **GATED}[mechanism](), "gru", ORDERS[1], "deep"), grid)


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
def test_stacks_of_layers(options, order):
    for cell in ("lstm", "gru"):
        assert_same(build(MECHANISMS["additive"](), cell, order, **options))


def test_dropout_between_layers_drops_in_training_alone():
    decoder = build(MECHANISMS["additive"](), num_layers=2, dropout=0.5)
    dropped = [passes(decoder.train())[0][0][1] for _ in range(2)]
    kept = passes(decoder.eval())[0][0][1]
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


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mechanism", OTHERS)
def test_other_mechanisms_share_what_their_operations_share(mechanism, order):
    for cell in ("gru", "rnn"):
        assert_same(build(OTHERS[mechanism](), cell, order))


def test_a_decoder_without_attention():
    torch.manual_seed(0)
    encoder, context = RecurrentStack(1, 3, bidirectional=True), FixedContext("mean", 6)
    stack = RecurrentStack(9, 4)
    embedding = TokenEmbedding(4, 3, padding=None)
    options = {"context": context, "every_step": True}
    bridge = Bridge(encoder, stack, "dense", context_size=6)
    assert_same(RecurrentDecoder(embedding, stack, TokenHead(4, 4), bridge, **options).double())


@pytest.mark.parametrize("order", ORDERS)
def test_half_types_and_autocast_train(order):
    for dtype, cast in ((torch.bfloat16, False), (torch.float32, True)):
        exact = build(MECHANISMS["additive"](), "gru", order)
        decoder = copy.deepcopy(exact).to(dtype)
        encoded = encode(tiny.sources(cell="gru"), padding=1)
        encoded = tree.map(lambda x, dtype=dtype: x.to(dtype) if x.is_floating_point() else x, encoded)
        ids = torch.tensor([[0, 2, 3], [3, 0, 2]])
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            found = decoder.run(ids, decoder.prepare(encoded))
        found.output.float().sum().backward()
        expected = exact.run(ids, exact.prepare(encode(tiny.sources(cell="gru"), padding=1)))
        torch.testing.assert_close(found.output.double(), expected.output, rtol=0.05, atol=0.05)
        assert all(x.grad.isfinite().all() for x in decoder.stack.parameters())


def test_the_graph_of_a_pass_is_freed_at_once():
    decoder = build(a.location_sensitive(**LOCATION))
    gc.collect()
    gc.disable()
    try:
        (features, _), _ = passes(decoder)
        dead = [weakref.ref(x) for x in features]
        torch.stack([x.sum() for x in features]).sum().backward()
        del features, _
        assert [one() for one in dead] == [None] * len(dead)
    finally:
        gc.enable()
