"""Recorded steps give what steps give that are launched one by one: outputs, features and every gradient."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import regard.ops.additive as operation
from regard.layers.cells import buffered
from regard.models import Encoded, fused
from regard.models.fused import autograd, graphs
from regard.models.fused import steps as passes
from regard.ops.additive import chunked
from regard.ops.attend import reference as attend
from regard.ops.cells import reference as steps
from test_models_fused import MECHANISMS, ORDERS, build

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "rand", "bernoulli", "dropout")
"""Parts of the names of operations that a graph cannot have: they ask the GPU, or draw."""


class Tape(graphs.AbstractRecorder):
    """Stands in for graphs on the CPU: operations of torch on the memory that they had, without their Python.

    Like a graph it gives no numbers before the first replay, and what is only allocated has none that could be read.
    """

    counts: Counter
    alive: weakref.WeakSet

    def __init__(self, device):
        self.device = device
        Tape.alive.add(self)

    @staticmethod
    def circumstances(device):
        return device.type

    def record(self, work):
        work()
        with Operations() as operations:
            found = work()
        Tape.counts["records"] += 1
        operations.spoil()
        return found, operations.replay


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.done = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        from_python = name == "lift_fresh" and args[0].dim() > 0  # a number alone goes with its operation
        impossible = from_python or any(part in name for part in WAITS)
        assert not impossible, f"a graph cannot have {name}"
        kwargs = kwargs or {}
        found = function(*args, **kwargs)
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        fresh = [(i, x) for i, x in enumerate(tree_leaves(found)) if x.untyped_storage()._cdata not in given]
        self.done.append((name, function, args, kwargs, fresh))
        return found

    def spoil(self):
        for _, x in (one for *_, fresh in self.done for one in fresh):
            x.fill_(torch.nan if x.is_floating_point() else 0)

    def replay(self):
        Tape.counts["replays"] += 1
        with torch.no_grad():
            for name, function, args, kwargs, fresh in self.done:
                found = tree_leaves(function(*args, **kwargs))
                for i, x in fresh:
                    x.fill_(torch.nan) if "empty" in name and x.is_floating_point() else x.copy_(found[i])


@pytest.fixture(autouse=True)
def counts(monkeypatch):
    """Passes on the CPU are recorded, and made of nothing but operations of torch. How many are, and replayed."""
    monkeypatch.setattr(graphs, "RECORDERS", {"cpu": Tape})
    monkeypatch.setattr(autograd, "RECORDERS", graphs.RECORDERS)
    monkeypatch.setattr(autograd, "RECORDINGS", graphs.Recordings())
    for module in (buffered, passes):
        monkeypatch.setattr(module, "steps_for", lambda name, _: {"cells": steps, "attend": attend}[name])
    monkeypatch.setattr(operation, "kernels_for", lambda _: chunked)
    Tape.counts, Tape.alive = Counter(), weakref.WeakSet()
    return Tape.counts


class Batch:
    """A pass over a batch that is drawn, and the gradients of what it gives."""

    def __init__(self, decoder, seed=0, *, steps=4, masked=True, asked=(0, 1, 2, 3)):
        draw = torch.Generator().manual_seed(seed)
        self.decoder, self.asked = decoder, asked

        def normal(*shape):
            return torch.randn(shape, generator=draw, dtype=torch.float64).to(decoder.readout.weight)

        place = decoder.readout.weight.device
        self.ids = torch.randint(0, 4, (2, steps), generator=draw).to(place)
        self.values = normal(2, 5, 6).requires_grad_()
        self.mask = torch.rand(2, 5, generator=draw).to(place) < 0.7 if masked else None
        self.state = normal(2, 6).requires_grad_()
        read, heads = decoder.attention.context_size, decoder.attention.score.num_heads
        self.probes = [normal(2, *shape) for shape in ((steps, 4), (steps, 4), (steps, read), (heads, steps, 5))]
        self.seed = seed

    def forward(self):
        torch.manual_seed(self.seed)
        stack = self.decoder.stack
        state = (self.state, self.state.tanh()) if stack.cell == "lstm" else (self.state,)
        encoded = Encoded(self.values, self.mask, (state,) * stack.num_layers)
        found = self.decoder.run(self.ids, self.decoder.prepare(encoded), alignment=True)
        return found.output, found.cell, found.context, found.alignment

    def back(self, results, *, keep=False):
        wanted = [self.values, self.state, *self.decoder.parameters()]
        return torch.autograd.grad(
            [results[i] for i in self.asked],
            [x for x in wanted if x.requires_grad],
            [self.probes[i] for i in self.asked],
            retain_graph=keep,
            allow_unused=True,
        )

    def expected(self):
        """Launched one by one."""
        recorders, autograd.RECORDERS = autograd.RECORDERS, {}
        try:
            results = self.forward()
            return results, self.back(results)
        finally:
            autograd.RECORDERS = recorders

    def check(self):
        results = self.forward()
        assert_same(self.expected(), (results, self.back(results)))


def assert_same(expected, found):
    for x, y in zip(tree_leaves(expected), tree_leaves(found), strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(y, x, rtol=0, atol=1e-12)


def change(decoder):
    """As an optimiser does: in the same place."""
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter += 0.1 * torch.randn_like(parameter)


def simple(cell="gru", mechanism="general", **options):
    return build(MECHANISMS[mechanism](), cell, **options)


def warm(decoder, **options):
    """After two batches of a shape it is recorded."""
    for seed in range(2):
        Batch(decoder, seed, **options).check()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_batch_of_a_shape_is_as_if_launched_one_by_one(mechanism, cell, order, masked, counts):
    decoder = build(MECHANISMS[mechanism](), cell, order)
    for seed in range(4):
        Batch(decoder, seed, masked=masked).check()
        change(decoder)
    assert counts == {"records": 2, "replays": 6}  # forward and backward, but for the first batch


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_layers_with_dropout_drop_anew_in_every_replay(cell, order, counts):
    decoder = build(MECHANISMS["additive"](), cell, order, num_layers=3, residual=True, dropout=0.5).train()
    for seed in range(4):
        Batch(decoder, seed).check()
    assert counts == {"records": 2, "replays": 6}


def test_shapes_masks_and_what_is_differentiated_have_recordings_of_their_own(counts):
    decoder = simple()
    for seed in range(3):
        for options in ({}, {"steps": 2}, {"masked": False}):
            Batch(decoder, seed, **options).check()
    assert counts == {"records": 6, "replays": 12}
    for asked in ((0,), (3,), (0,)):
        Batch(decoder, 5, asked=asked).check()
    assert counts == {"records": 8, "replays": 18}


def test_weights_that_moved_are_not_looked_for_where_they_were(counts):
    decoder = simple()
    warm(decoder)
    decoder.readout.weight.data = decoder.readout.weight.data.clone() + 0.1
    Batch(decoder, 3).check()
    assert counts["records"] == 2
    warm(decoder)
    assert counts["records"] == 4


def test_frozen_weights_get_nothing():
    decoder = simple()
    decoder.readout.weight.requires_grad_(False)
    warm(decoder)


@pytest.mark.parametrize("order", [1, -1])
def test_several_passes_may_wait_for_their_derivatives(order, counts):
    decoder = simple("lstm", "additive")
    for turn in range(4):
        batches = [Batch(decoder, 3 * turn + i) for i in range(3)]
        results = [batch.forward() for batch in batches]
        found = [batch.back(result) for batch, result in list(zip(batches, results))[::order]]
        for batch, result, gradients in zip(batches, results, found[::order]):
            assert_same(batch.expected(), (result, gradients))
        change(decoder)
    assert counts["records"] == 6  # three, forward and backward
    assert counts["replays"] > 12


def test_two_decoders_take_turns():
    pair = [simple(), simple()]
    for seed in range(4):
        batches = [Batch(decoder, seed) for decoder in pair]
        results = [batch.forward() for batch in batches]
        for batch, result in zip(batches, results):
            assert_same(batch.expected(), (result, batch.back(result)))


def test_gradients_add_up_over_batches(counts):
    decoder = simple()
    parameters = list(decoder.parameters())
    for seed in range(4):
        Batch(decoder, seed).forward()[0].sum().backward()
    found = [p.grad for p in parameters]
    autograd.RECORDERS = {}
    expected = [torch.zeros_like(p) for p in parameters]
    for seed in range(4):
        gradients = torch.autograd.grad(Batch(decoder, seed).forward()[0].sum(), parameters, materialize_grads=True)
        torch._foreach_add_(expected, gradients)
    assert_same(expected, [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found)])
    assert counts["replays"] == 6


def test_what_was_given_stays_as_it_is():
    decoder = simple()
    warm(decoder)
    batch = Batch(decoder, 2)
    results = batch.forward()
    found = (results, batch.back(results))
    before = [x if x is None else x.clone() for x in tree_leaves(found)]
    Batch(decoder, 3).check()
    assert_same(before, found)


def test_a_graph_that_is_kept_gives_the_same_again(counts):
    decoder = simple()
    warm(decoder)
    first = Batch(decoder, 2)
    results = first.forward()
    gradients = [first.back(results, keep=True)]
    for seed in range(3, 6):
        Batch(decoder, seed).check()  # takes another one
    gradients += [first.back(results, keep=True), first.back(results)]
    for one in gradients:
        assert_same(first.expected(), (results, one))
    with pytest.raises(RuntimeError, match="second time"):
        first.back(results)
    assert counts["records"] == 4


def test_a_recording_is_free_after_the_way_back_though_results_are_held(counts):
    decoder = simple()
    held = []
    for seed in range(5):
        batch = Batch(decoder, seed)
        held.append(batch.forward())
        batch.back(held[-1])
    assert counts == {"records": 2, "replays": 8}


def test_a_recording_is_free_once_results_are_dropped(counts):
    decoder = simple()
    for seed in range(5):
        Batch(decoder, seed).forward()
    assert counts == {"records": 1, "replays": 4}


def test_without_a_word_from_torch_a_recording_is_free_when_its_node_is_gone(counts, monkeypatch):
    monkeypatch.setattr(graphs, "_keeps_graph", lambda: True)
    decoder = simple()
    for seed in range(5):
        batch = Batch(decoder, seed)
        results = batch.forward()
        assert_same(batch.expected(), (results, batch.back(results)))
    assert counts["records"] == 4  # the results of the last batch are held while the next one comes
    assert counts["replays"] == 6


def test_weights_that_changed_before_the_way_back_are_refused():
    decoder = simple()
    warm(decoder)
    batch = Batch(decoder, 2)
    results = batch.forward()
    change(decoder)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        batch.back(results)
    Batch(decoder, 3).check()


def test_results_that_changed_before_the_way_back_are_refused_as_ever():
    decoder = simple()
    for seed in range(3):
        batch = Batch(decoder, seed)
        results = batch.forward()
        results[0].detach().zero_()
        with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
            batch.back(results)
        Batch(decoder, seed).check()


def test_checkpoints_run_the_steps_again():
    decoder = simple()
    for seed in range(4):
        batch = Batch(decoder, seed)
        results = checkpoint(batch.forward, use_reentrant=False)
        later = Batch(decoder, seed + 10)
        others = later.forward()
        assert_same(batch.expected(), (results, batch.back(results)))
        assert_same(later.expected(), (others, later.back(others)))


def test_what_was_not_used_for_longest_leaves(counts, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_RECORDINGS", 2)
    decoder = simple()
    for length in (1, 2, 3):
        warm(decoder, steps=length)
        assert len(Tape.alive) == min(length, 2)
    Batch(decoder, 5, steps=3).check()
    Batch(decoder, 5, steps=2).check()
    assert counts["records"] == 6
    Batch(decoder, 5, steps=1).check()  # for the first time again
    assert counts["records"] == 6
    assert len(Tape.alive) == 1


def test_what_was_used_last_stays(counts, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_RECORDINGS", 2)
    decoder = simple()
    for length in (1, 2, 1, 3, 1):
        warm(decoder, steps=length)
    assert counts["records"] == 6


def test_what_waits_does_not_leave(counts, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_RECORDINGS", 1)
    decoder = simple()
    warm(decoder)
    batch = Batch(decoder, 2)
    results = batch.forward()
    for length in (4, 4, 4, 2, 2):
        Batch(decoder, steps=length).check()
    assert counts["records"] == 2
    assert_same(batch.expected(), (results, batch.back(results)))
    del results
    warm(decoder, steps=2)
    assert len(Tape.alive) == 1


@pytest.mark.parametrize("most", [0, 3])
def test_shapes_that_come_too_rarely_are_not_recorded(most, counts, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_RECORDINGS", most)
    decoder = simple()
    for seed in range(8):
        Batch(decoder, seed, steps=1 + seed % 4).forward()
    assert not counts


def test_recordings_go_with_the_decoder():
    decoder = simple()
    warm(decoder)
    assert len(Tape.alive) == 1
    del decoder
    gc.collect()
    assert not Tape.alive


def test_without_derivatives_nothing_is_recorded(counts):
    decoder = simple().requires_grad_(False)
    batch = Batch(decoder)
    for _ in range(3):
        with torch.no_grad():
            batch.forward()
    batch.values.requires_grad_(False)
    batch.state.requires_grad_(False)
    for _ in range(3):
        batch.forward()
    assert not counts


def test_where_nothing_may_be_recorded_steps_are_launched(counts, monkeypatch):
    decoder = simple()
    warm(decoder)
    batch = Batch(decoder, 2)
    results = batch.forward()
    monkeypatch.setattr(Tape, "circumstances", staticmethod(lambda _: None))
    assert_same(batch.expected(), (results, batch.back(results)))
    assert counts == {"records": 2, "replays": 3}
    warm(decoder)
    assert counts == {"records": 2, "replays": 3}


def test_other_circumstances_are_recorded_anew(counts, monkeypatch):
    decoder = simple()
    warm(decoder)
    monkeypatch.setattr(Tape, "circumstances", staticmethod(lambda _: "another stream"))
    warm(decoder)
    assert counts["records"] == 4


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_a_recording_that_fails_is_told_once_and_not_tried_again(allowed, counts, monkeypatch):
    record = Tape.record

    def fail(self, work):
        if counts["records"] == allowed:
            raise RuntimeError("operation not permitted")
        return record(self, work)

    monkeypatch.setattr(Tape, "record", fail)
    decoder = simple()
    if allowed == 2:
        warm(decoder, steps=2)
    Batch(decoder).check()
    with pytest.warns(RuntimeWarning, match=r"recorded on cpu.*one by one: operation not permitted"):
        Batch(decoder, 1).check()
    Batch(decoder, 2).check()
    assert counts["records"] == allowed
    assert not Tape.alive


def test_the_stand_in_refuses_what_a_graph_cannot_do():
    with pytest.raises(AssertionError, match="_local_scalar_dense"):
        Tape(torch.device("cpu")).record(lambda: torch.ones(1).item())
    calls = []
    found, replay = Tape(torch.device("cpu")).record(lambda: (calls.append(1), torch.ones(1) + 1)[1])
    assert found.isnan()
    place = found.data_ptr()
    replay()
    assert (found.item(), found.data_ptr(), len(calls)) == (2.0, place, 2)


def test_the_cpu_has_no_recorder(monkeypatch):
    monkeypatch.undo()
    assert set(graphs.RECORDERS) <= {"cuda"}
    before = len(autograd.RECORDINGS._slots)
    Batch(simple()).forward()
    assert len(autograd.RECORDINGS._slots) == before


@pytest.mark.gpu
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("mechanism", ["additive", "general"])
def test_graphs_on_a_gpu_give_what_kernels_give(mechanism, cell, order, monkeypatch):
    monkeypatch.undo()
    decoder = build(MECHANISMS[mechanism](), cell, order, num_layers=2, dropout=0.5).train().cuda()
    for seed in range(5):
        Batch(decoder, seed).check()
        change(decoder)
    batches = [Batch(decoder, seed) for seed in range(3)]
    for _ in range(3):
        results = [batch.forward() for batch in batches]
        found = [batch.back(result, keep=True) for batch, result in zip(batches, results)]
        again = [batch.back(result) for batch, result in zip(batches, results)]
        for batch, *one in zip(batches, results, found, again):
            expected = batch.expected()
            assert_same((*expected, expected[1]), one)
    taken = [one for one in autograd.RECORDINGS._slots.values() if one is not None]
    assert len(taken) >= 3
    assert "cuda" in graphs.RECORDERS


def test_what_is_tested_here_is_the_fused_pass():
    decoder = simple()
    assert fused.refuse(decoder.attention, decoder.stack, decoder.readout, torch.zeros(1, 2, 3)) is None
