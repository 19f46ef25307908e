"""Decoders of speech by kernels: outputs and every gradient are those of the plain steps."""

from __future__ import annotations

import copy
import sys
from contextlib import nullcontext

import pytest
import torch

from regard import attention as a
from regard import tree
from regard.errors import ShapeError
from regard.layers import CellStack, Prenet
from regard.layers.items import ItemDraws, drawing, sites
from regard.models import Encoded
from regard.models.tacotron import FrameHead, StopHead, TacotronDecoder
from regard.ops import plain as plain_operations
from support import tiny
from support.cases import MECHANISMS as CASES_OF_MECHANISMS

SIZES = {"query_size": 7, "memory_size": 6}


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    monkeypatch.setattr(sys.modules["regard.ops.linear"], "MIN_WORK", 0)


MECHANISMS = {
    "location": lambda: a.location_sensitive(**SIZES, size=4, num_filters=3, kernel_size=3),
    "additive": lambda: a.bahdanau(**SIZES, size=4),
    "forward with agent": lambda: a.forward_attention(
        **SIZES, input_size=3, size=4, num_filters=3, kernel_size=3, transition_agent=True
    ),
    "forward": lambda: a.forward_attention(**SIZES, size=4, num_filters=3, kernel_size=3, num_heads=2),
    "forward, agent without hidden": lambda: a.Mechanism(
        a.LocationScore(7, 6, 4, num_filters=3, kernel_size=3, location="both", num_heads=2),
        a.ForwardAlignment(num_heads=2, agent=a.TransitionAgent(12, 7, hidden_size=None, num_heads=2)),
        a.WeightedSum(6, num_heads=2),
    ),
    "forward, additive": lambda: a.forward_attention(**SIZES, size=4, score="additive"),
    "gmm": lambda: a.gmm(**SIZES, num_components=3),
    "dca": lambda: a.dynamic_convolution(**SIZES, size=4),
    "dca, 2 heads": lambda: a.dynamic_convolution(
        **SIZES, size=4, num_heads=2, static_filters=2, static_kernel=3, dynamic_kernel=3, reach=2
    ),
    "dca, two widths": lambda: a.dynamic_convolution(**SIZES, size=4, static_kernel=3, dynamic_kernel=5),
    "stepwise": lambda: a.stepwise_monotonic(**SIZES, size=4),
    "location, both": lambda: a.location_sensitive(
        **SIZES, size=4, num_heads=2, num_filters=3, kernel_size=3, location="both", num_previous=2, sharpening=1.5
    ),
    "location, previous": lambda: a.location_sensitive(
        **SIZES, size=4, num_filters=3, kernel_size=5, location="previous", first_alignment="first", bias=False
    ),
    "location, accumulated": lambda: a.location_sensitive(
        **SIZES, size=4, num_filters=2, kernel_size=3, first_alignment="uniform", accumulate_first=True
    ),
    "location, detached": lambda: a.location_sensitive(
        **SIZES, size=4, num_filters=3, kernel_size=3, location="both", detached=True
    ),
    "general": lambda: a.luong(**SIZES, score="general"),
    "normalised": lambda: a.bahdanau(**SIZES, size=4, normalised=True),
    "monotonic location": lambda: a.Mechanism(
        a.LocationScore(7, 6, 4, num_filters=3, kernel_size=3), a.StepwiseAlignment(), a.WeightedSum(6)
    ),
    "two at once": lambda: a.Parallel([MECHANISMS["location"](), MECHANISMS["gmm"]()]),
}


def decoder(mechanism="location", *, query=None, output=None):
    torch.manual_seed(0)
    attention = MECHANISMS[mechanism]()
    context = attention.context_size
    query = {} if query is None else query
    query_cells = None if query is False else CellStack(5 + context, 7, **query)
    output_cells = None
    if output is not False:
        output_cells = CellStack((5 if query is False else 7) + context, 7, **(output or {}))
    head = FrameHead(7, context, 3, 3, stop=StopHead(7, context, 3))
    made = TacotronDecoder(Prenet(3, (5, 5)), attention, head, query_cells=query_cells, output_cells=output_cells)
    return made.double()


def passes(model, *, plain, r=2, masked=True, second=False, dtype=torch.float64):
    """Outputs and all gradients."""
    torch.manual_seed(1)
    width, model = model.num_features, copy.deepcopy(model).to(dtype)
    size = model.attention.read.memory_size if isinstance(model.attention, a.Mechanism) else 6
    memory = torch.randn(3, 6, size, dtype=torch.float64).to(dtype).requires_grad_()
    inputs = torch.randn(3, 5, width * r, dtype=torch.float64).to(dtype).requires_grad_()
    mask = torch.arange(6) < torch.tensor([6, 1, 4])[:, None] if masked else None
    draws = ItemDraws(sites(model), torch.tensor([4, 0, 2]), seed=1, step=2)
    with plain_operations() if plain else nullcontext(), drawing(draws):
        is_double = isinstance(model.attention, a.Parallel)
        encoded = Encoded((memory, memory), (mask, mask)) if is_double else Encoded(memory, mask)
        prepared = model.prepare(encoded)
        result = model(inputs, prepared, alignment=True, generator=torch.Generator().manual_seed(3))
    outputs = [result.values, *result.auxiliary.values(), *tree.leaves(tuple(result.alignments.values()))]
    torch.manual_seed(2)
    weights = [torch.randn(x.shape, dtype=torch.float64).to(dtype) for x in outputs]
    loss = sum((x * w).sum() for x, w in zip(outputs, weights, strict=True) if x.is_floating_point())
    wanted = [memory, inputs, *model.parameters()]
    grads = torch.autograd.grad(loss, wanted, allow_unused=True, create_graph=second)
    if second:
        total = sum((g * g).sum() for g in grads if g is not None)
        grads = [*grads, *torch.autograd.grad(total, wanted, allow_unused=True)]
    return [*outputs, *grads]


def compare(model, **options):
    model_passes = [passes(model, plain=plain, **options) for plain in (True, False)]
    for expected, actual in zip(*model_passes, strict=True):
        if expected is None or actual is None:
            assert all(x is None or not x.any() for x in (expected, actual))
        else:
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_outputs_and_every_gradient_are_those_of_plain_steps(mechanism, r, masked):
    compare(decoder(mechanism).eval(), r=r, masked=masked)


def asked(case):
    return (
        isinstance(case.memory_size, int) and case.key_size is None and case.query_size > 0 and case.make().uses_query
    )


@pytest.mark.parametrize("case", [case for case in CASES_OF_MECHANISMS if asked(case)], ids=lambda case: case.name)
def test_any_mechanism_that_a_decoder_can_ask_has_its_gradients(case):
    options = {"size": case.query_size, "num_frames": 2, "num_features": case.input_size or 2}
    compare(tiny.speech(case.make(), **options).train())


@pytest.mark.parametrize("mechanism", ["location, both", "normalised", "gmm"])
def test_float32_is_near_float64(mechanism):
    model = decoder(mechanism).eval()
    exact = passes(model, plain=True)
    rounded = passes(model, plain=False, dtype=torch.float32)
    for expected, actual in zip(exact, rounded, strict=True):
        if actual is not None:
            assert (actual - expected).abs().max() < 1e-5 * expected.abs().max().clamp(min=1)


def test_blocks_of_sentences_are_those_of_one(monkeypatch):
    from regard.ops.kernels import location as kernels

    model = decoder("location, both").eval()
    whole = passes(model, plain=False)
    monkeypatch.setattr(kernels, "BLOCK_ELEMENTS", 60)  # two sentences of 6 positions and 4 features, then one
    for expected, actual in zip(whole, passes(model, plain=False), strict=True):
        assert (expected is None and actual is None) or torch.allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mechanism", ["stepwise", "monotonic location", "location"])
def test_training_draws_what_plain_steps_draw(mechanism):
    compare(decoder(mechanism).train())


def test_alignments_that_are_not_asked_for_are_not_there():
    model = decoder().eval()
    prepared = model.prepare(Encoded(memory=torch.randn(2, 4, 6, dtype=torch.float64)))
    with torch.no_grad():
        assert not model(torch.randn(2, 3, 6, dtype=torch.float64), prepared).alignments


CELLS = {
    "dropout of h": {"query": {"dropout": 0.3}, "output": {"dropout": 0.3, "num_layers": 2}},
    "dropout of the state": {"query": {"dropout": 0.3, "dropped": "state"}, "output": {"cell": "gru", "dropout": 0.2}},
    "zoneout": {"query": {"zoneout": 0.3, "num_layers": 2}, "output": {"zoneout": 0.2, "zones_output": False}},
    "residual": {"query": {"cell": "gru"}, "output": {"cell": "gru", "residual": True, "num_layers": 2}},
    "residual zoneout": {"output": {"residual": True, "zoneout": 0.2, "zones_output": False, "num_layers": 2}},
    "no output cells": {"query": {"num_layers": 2}, "output": False},
    "no query cells": {"query": False, "output": {"num_layers": 2, "zoneout": 0.2}},
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cells", CELLS)
def test_all_cells_and_their_masks_by_item(cells, training):
    compare(decoder(**CELLS[cells]).train(training))


@pytest.mark.parametrize("cells", ["zoneout", "no query cells"])
def test_second_derivatives(cells):
    compare(decoder(**CELLS[cells]).train(), second=True)


@pytest.mark.parametrize(
    "mechanism",
    [
        "location, both",
        "location, detached",
        "forward",
        "forward with agent",
        "forward, agent without hidden",
        "general",
        "additive",
        "gmm",
        "dca",
        "stepwise",
    ],
)
def test_second_derivatives_through_attention(mechanism):
    compare(decoder(mechanism).eval(), second=True)


def test_an_agent_that_reads_another_number_of_features_says_so():
    attention = a.forward_attention(**SIZES, input_size=4, size=4, num_filters=3, kernel_size=3, transition_agent=True)
    head = FrameHead(7, 6, 3, 1)
    model = TacotronDecoder(Prenet(3, (5, 5)), attention, head, query_cells=CellStack(11, 7))
    with pytest.raises(ShapeError, match="F=4"):
        model(torch.zeros(2, 3, 3), model.prepare(Encoded(torch.zeros(2, 4, 6))))


@pytest.mark.parametrize("mechanism", ["location", "gmm"])
def test_nothing_is_recorded_without_gradients(mechanism):
    model = decoder(mechanism).eval()
    with torch.inference_mode():
        prepared = model.prepare(Encoded(torch.randn(2, 4, 6, dtype=torch.float64)))
        values = model(torch.randn(2, 3, 6, dtype=torch.float64), prepared).values
    assert not values.requires_grad


def test_a_change_in_place_between_both_passes_is_refused():
    model = decoder().eval()
    values = model(
        torch.randn(2, 3, 6, dtype=torch.float64), model.prepare(Encoded(torch.randn(2, 4, 6).double()))
    ).values
    with torch.no_grad():
        model.attention.score.location_projection.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


@pytest.mark.parametrize("mechanism", ["location", "gmm"])
def test_a_pass_runs_backward_twice(mechanism):
    model = decoder(mechanism).eval()
    prepared = model.prepare(Encoded(memory=torch.randn(2, 4, 6, dtype=torch.float64), mask=None))
    loss = model(torch.randn(2, 3, 6, dtype=torch.float64), prepared).values.square().sum()
    first, again = (
        torch.autograd.grad(loss, [*model.parameters()], retain_graph=True, allow_unused=True) for _ in "12"
    )
    for one, other in zip(first, again, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def doubled(module, inputs, output):
    return 2 * output


@pytest.mark.parametrize("change", [
    lambda model: model.query_cells.register_forward_hook(lambda module, given, found: (2 * found[0], *found[1:])),
    lambda model: torch.nn.utils.parametrizations.weight_norm(model.attention.score.content.query_projection),
    lambda model: next(model.attention.parameters()).register_hook(lambda grad: 2 * grad),
    lambda model: model.attention.score.filters.register_forward_hook(doubled),
])  # fmt: skip
def test_whatever_is_done_to_a_layer_inside_counts(change):
    model = decoder("location").eval()
    change(model)
    compare(model)
