"""Free runs of decoders of speech, with packed weights and without, alone and in a batch."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from regard import attention as a
from regard import tree
from regard.decoding import free_run, stop_at_logit
from regard.layers import CellStack, Prenet
from regard.models import Encoded
from regard.models.tacotron import FrameHead, StopHead, TacotronDecoder
from regard.ops import plain
from regard.ops.over_steps import Loop

SIZES = {"query_size": 7, "memory_size": 6}
LOCATION = {**SIZES, "size": 4, "num_filters": 3, "kernel_size": 3}
MECHANISMS = {
    "location": partial(a.location_sensitive, **LOCATION),
    "location, both": partial(a.location_sensitive, **LOCATION, num_heads=2, location="both", num_previous=2),
    "location, previous": partial(a.location_sensitive, **LOCATION, location="previous", first_alignment="first"),
    "location, accumulated": partial(
        a.location_sensitive, **LOCATION, first_alignment="uniform", accumulate_first=True, sharpening=1.5
    ),
    "additive": partial(a.bahdanau, **SIZES, size=4, normalised=True),
    "general": partial(a.luong, **SIZES, score="general"),
    "agent": partial(a.forward_attention, **LOCATION, input_size=3, transition_agent=True),
    "forward": partial(a.forward_attention, **LOCATION, num_heads=2),
    "agent without hidden": lambda: a.Mechanism(
        a.LocationScore(7, 6, 4, num_filters=3, kernel_size=3, location="both"),
        a.ForwardAlignment(agent=a.TransitionAgent(6, 7, hidden_size=None)),
        a.WeightedSum(6),
    ),
    "gmm": partial(a.gmm, **SIZES, num_components=3),
    "dca": partial(a.dynamic_convolution, **SIZES, size=4),
    "stepwise": partial(a.stepwise_monotonic, **SIZES, size=4),
}
CELLS = {
    "zoneout": {"query": {"zoneout": 0.3, "num_layers": 2}, "output": {"zoneout": 0.2, "zones_output": False}},
    "residual": {"query": {"cell": "gru"}, "output": {"cell": "gru", "residual": True, "num_layers": 2}},
    "no output cells": {"output": None},
    "no query cells": {"query": None, "output": {"num_layers": 2}},
}
HEADS = {
    "no stop": {"stop": False},
    "stop without context": {"stop_context": False},
    "no context": {"reads_context": False, "activation": "sigmoid"},
    "no bias": {"bias": False},
    "queue": {"num_fed_frames": 4},
}


def decoder(mechanism="location", *, query=(), output=(), num_fed_frames=1, **head):
    torch.manual_seed(0)
    attention = MECHANISMS[mechanism]()
    context = attention.context_size
    before = None if query is None else CellStack(5 + context, 7, **dict(query))
    after = None if output is None else CellStack((5 if query is None else 7) + context, 7, **dict(output))
    reads = context if head.pop("reads_context", True) else 0
    stop = StopHead(7, reads if head.pop("stop_context", True) else 0, 2) if head.pop("stop", True) else None
    made = FrameHead(7, reads, 3, 2, stop=stop, **head)
    prenet = Prenet(3 * num_fed_frames, (5, 5), drops="always")
    cells = {"query_cells": before, "output_cells": after, "num_fed_frames": num_fed_frames}
    return TacotronDecoder(prenet, attention, made, **cells).double().eval()


def run(model, rows=(0, 1, 2), *, r=2, dtype=torch.float64, steps=(9, 4, 7)):
    """Trajectories of these sentences."""
    torch.manual_seed(1)
    memory, mask = torch.randn(3, 6, 6, dtype=torch.float64), torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    rows, model = list(rows), model.to(dtype)
    with torch.no_grad():
        prepared = model.prepare(Encoded(memory[rows].to(dtype), mask[rows]), seeds=torch.tensor([3, 0, 5])[rows])
    stop = stop_at_logit(0.999) if model.head.stop is not None else None
    limits = torch.tensor(steps)[rows]
    return free_run(model, prepared, model.first_inputs(prepared, r), max_length=limits, stop=stop, alignment=True)


def same(found, expected, tolerance=1e-12):
    for one, other in zip(found, expected, strict=True):
        assert one.stop_reason == other.stop_reason
        assert one.alignments.keys() == other.alignments.keys()
        assert one.auxiliary.keys() == other.auxiliary.keys()
        leaves = (tree.leaves((t.values, dict(t.alignments), dict(t.auxiliary))) for t in (one, other))
        for actual, wanted in zip(*leaves, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=tolerance, atol=tolerance)


def compare(model, **options):
    """With packed weights and without, and each sentence alone."""
    found = run(model, **options)
    with plain():
        expected = run(model, **options)
    same(found, expected)
    for row in range(3):
        same(run(model, [row], **options), found[row : row + 1])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_free_runs_are_those_of_the_decoders_steps_and_a_batch_changes_nothing(mechanism):
    compare(decoder(mechanism))


@pytest.mark.parametrize("options", [*CELLS.values(), *HEADS.values()], ids=[*CELLS, *HEADS])
def test_all_cells_and_heads(options):
    compare(decoder(**options))


def test_fewer_frames_than_the_head_says():
    compare(decoder(), r=1)


@pytest.mark.parametrize("mechanism", ["location", "agent"])
def test_float32_is_near_float64(mechanism):
    exact = run(decoder(mechanism))
    for one, other in zip(run(decoder(mechanism), dtype=torch.float32), exact, strict=True):
        torch.testing.assert_close(one.values.double(), other.values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mechanism", ["location", "agent"])
def test_a_sentence_without_support_reads_zeros(mechanism):
    model = decoder(mechanism)
    with torch.no_grad():
        prepared = model.prepare(Encoded(torch.randn(2, 3, 6).double(), torch.tensor([[True] * 3, [False] * 3])))
    said = free_run(model, prepared, model.first_inputs(prepared), max_length=3, alignment=True)
    assert not said[1].alignments["attention"].any()
    assert said[1].values.isfinite().all()


class Doubled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 2 * self.inner(x)


@pytest.mark.parametrize("where", ["prenet", "head", "stop", "query", "filters"])
def test_modules_that_users_put_in_are_called(where):
    before, model = run(decoder()), decoder()
    if where == "prenet":
        model.prenet.layers[0] = Doubled(model.prenet.layers[0])
    elif where == "head":
        model.head.projection = Doubled(model.head.projection)
        model.head.projection.weight = model.head.projection.inner.weight
    elif where == "stop":
        model.head.stop.projection.register_forward_hook(lambda module, inputs, output: output + 100)
    elif where == "query":
        content = model.attention.score.content
        content.query_projection = Doubled(content.query_projection)
    else:
        model.attention.score.filters.register_forward_hook(lambda module, inputs, output: 3 * output)
    compare(model)
    changed = [not torch.equal(x.auxiliary["stop"][:3], y.auxiliary["stop"][:3]) for x, y in zip(run(model), before)]
    assert any(changed)


@pytest.mark.parametrize("mechanism", ["location, both", "agent"])
def test_steps_are_pure(mechanism):
    model = decoder(mechanism)
    with torch.inference_mode():
        prepared = model.prepare(Encoded(torch.randn(2, 4, 6, dtype=torch.float64)))
        with Loop():
            _, state = model.step(model.first_inputs(prepared), prepared, model.initial_state(prepared))
            kept = [leaf.clone() for leaf in tree.leaves(state)]
            inputs = torch.randn(2, 6, dtype=torch.float64)
            first, again = (model.step(inputs, prepared, state)[0].values for _ in range(2))
    assert torch.equal(first, again)
    assert all(torch.equal(one, other) for one, other in zip(tree.leaves(state), kept, strict=True))
