from __future__ import annotations

import copy
import inspect
import sys
from dataclasses import replace
from functools import partial
from typing import ClassVar

import pytest
import torch

from regard import ops
from regard.attention import (
    AdditiveScore,
    BilinearScore,
    CausalWindow,
    DotScore,
    LocationScore,
    Mechanism,
    ProjectedSum,
    ScaledDotScore,
    SlidingWindow,
    SoftmaxAlignment,
    WeightedSum,
    multi_head,
    whole_sequence,
)
from regard.errors import ShapeError

additive, dots = (sys.modules[f"regard.ops.{name}"] for name in ("additive_attention", "dot_attention"))

D = 8
LIMITS = {torch.float64: 1e-12, torch.float32: 1e-6}


def answers(function, inputs):
    own = [x.detach().requires_grad_() for x in inputs]
    found = function(*own)
    probe = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return [found.detach(), *torch.autograd.grad(found, own, probe.to(found.dtype))]


def assert_same(function, reference, inputs):
    dtype = inputs[0].dtype
    expected = answers(reference, [x.double() for x in inputs])
    for a, b in zip(answers(function, inputs), expected, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b, rtol=0, atol=4 * LIMITS[dtype] * max(1.0, float(b.abs().max())))


def additive_inputs(B=3, T=4, S=5, H=1, G=1, D=6, V=7, dtype=torch.float64):
    shapes = (B, T, H, D), (B, S, H, D), (H, D), (B, S, G, V)
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


MASK = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "mask"])
@pytest.mark.parametrize("heads", [(1, 1), (4, 1), (4, 2), (4, 4)], ids=str)
@pytest.mark.parametrize("limits", [(1 << 20, 1 << 22), (1 << 20, 0), (44, 0), (44, 1 << 22), (1, 0)], ids=str)
def test_additive_attention_in_blocks_is_the_plain_formula(monkeypatch, limits, heads, mask, dtype):
    monkeypatch.setattr(additive, "BLOCK_ELEMENTS", limits[0])
    monkeypatch.setattr(additive, "SAVED_ELEMENTS", limits[1])
    options = {"mask": mask, "sharpening": 1.5}
    inputs = additive_inputs(H=heads[0], G=heads[1], dtype=dtype)
    assert additive.unsupported_reason(*inputs, mask) is None
    assert_same(partial(ops.additive_attention, **options), partial(additive.reference, **options), inputs)


def dot_inputs(B=3, T=4, S=5, H=1, G=1, J=1, D=6, dtype=torch.float64):
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in ((B, T, H, D), (B, S, G, D), (B, S, J, D))]


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "support", [None, MASK[:, None], torch.ones(4, 5).tril(-1).bool()[None]], ids=["everywhere", "mask", "past"]
)
@pytest.mark.parametrize("heads", [(1, 1, 1), (4, 4, 4), (4, 2, 2), (4, 2, 1), (4, 1, 4)], ids=str)
def test_fused_attention_is_the_plain_formula(heads, support, causal, dtype):
    options = {"support": support, "scale": 0.4, "causal": causal}
    inputs = dot_inputs(H=heads[0], G=heads[1], J=heads[2], dtype=dtype)
    assert dots.unsupported_reason(*inputs) is None
    assert_same(partial(ops.dot_attention, **options), partial(dots.reference, **options), inputs)


def test_second_derivatives_are_right():
    mask = MASK[:2, :3]
    inputs = [x.requires_grad_() for x in additive_inputs(B=2, T=2, S=3, D=2, V=2)]
    assert torch.autograd.gradgradcheck(partial(ops.additive_attention, mask=mask), tuple(inputs))
    inputs = [x.requires_grad_() for x in dot_inputs(B=2, T=2, S=3, D=2)]
    assert torch.autograd.gradgradcheck(partial(ops.dot_attention, support=mask[:, None]), tuple(inputs))


def test_only_what_is_asked_for_is_differentiated():
    query, keys, values = dot_inputs()
    values.requires_grad_()
    (found,) = torch.autograd.grad(ops.dot_attention(query, keys, values).sum(), values)
    (expected,) = torch.autograd.grad(dots.reference(query, keys, values).sum(), values)
    torch.testing.assert_close(found, expected)


def test_a_graph_that_is_kept_can_be_walked_twice():
    for function, inputs in ((ops.dot_attention, dot_inputs()), (ops.additive_attention, additive_inputs())):
        own = [x.requires_grad_() for x in inputs]
        total = function(*own).sum()
        first = torch.autograd.grad(total, own, retain_graph=True)
        for a, b in zip(first, torch.autograd.grad(total, own), strict=True):
            assert torch.equal(a, b)


def test_torch_func_and_the_reasons():
    inputs = dot_inputs()
    each = torch.vmap(lambda q, k, v: ops.dot_attention(q[None], k[None], v[None])[0])(*inputs)
    torch.testing.assert_close(each, ops.dot_attention(*inputs))
    inputs = additive_inputs()
    each = torch.vmap(lambda q, k, v: ops.additive_attention(q[None], k[None], inputs[2], v[None])[0], (0, 0, 0))
    torch.testing.assert_close(each(inputs[0], inputs[1], inputs[3]), ops.additive_attention(*inputs))
    assert "fused: taken" in ops.explain("dot_attention", *dot_inputs())
    query, keys, values = dot_inputs()
    assert "as wide as values" in ops.explain("dot_attention", query, keys, values[..., :3])
    assert "blocks: taken" in ops.explain("additive_attention", *additive_inputs())
    assert "float32 and float64" in ops.explain("additive_attention", *additive_inputs(dtype=torch.float16))


def test_sizes_that_do_not_fit_are_refused():
    query, keys, values = dot_inputs()
    with pytest.raises(ShapeError, match="must divide"):
        inspect.unwrap(ops.dot_attention)(query, keys[..., :2], values)
    query, keys, v, values = additive_inputs()
    with pytest.raises(ShapeError, match="must divide"):
        inspect.unwrap(ops.additive_attention)(query, keys, v[:, :2], values)


def scored(kind, heads=1, **options):
    return {
        "additive": lambda: AdditiveScore(D, D, D, num_heads=heads, **options),
        "bilinear": lambda: BilinearScore(D, D, num_heads=heads, **options),
        "dot": lambda: DotScore(D, D, num_heads=heads, **options),
        "scaled": lambda: ScaledDotScore(D, D, D, num_heads=heads, **options),
    }[kind]()


MECHANISMS = {
    "additive": lambda: Mechanism(scored("additive"), SoftmaxAlignment(), WeightedSum(D)),
    "additive, normalised": lambda: Mechanism(
        scored("additive", normalised=True), SoftmaxAlignment(sharpening=2.0), WeightedSum(D)
    ),
    "additive, heads": lambda: Mechanism(
        scored("additive", 2), SoftmaxAlignment(), ProjectedSum(D, D, num_heads=2, bias=True)
    ),
    "additive, each head reads all": lambda: Mechanism(
        scored("additive", 2), SoftmaxAlignment(), WeightedSum(D, num_heads=2)
    ),
    "bilinear": lambda: Mechanism(scored("bilinear"), SoftmaxAlignment(), WeightedSum(D)),
    "dot, learned scale": lambda: Mechanism(
        scored("dot", scale=None), SoftmaxAlignment(sharpening=0.5), WeightedSum(D)
    ),
    "dot, causal": lambda: Mechanism(scored("dot"), SoftmaxAlignment(), WeightedSum(D), CausalWindow()),
    "scaled": lambda: Mechanism(scored("scaled", 2), SoftmaxAlignment(), ProjectedSum(D, D, num_heads=2, bias=True)),
    "scaled, shared": lambda: Mechanism(
        scored("scaled", 4, num_key_value_heads=2),
        SoftmaxAlignment(),
        ProjectedSum(D, D, num_heads=4, num_key_value_heads=2),
    ),
    "scaled, causal": lambda: Mechanism(
        scored("scaled", 2), SoftmaxAlignment(), ProjectedSum(D, D, num_heads=2, bias=True), CausalWindow()
    ),
}


@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "mask"])
@pytest.mark.parametrize("hypotheses", [1, 2])
@pytest.mark.parametrize("name", MECHANISMS)
def test_contexts_gradients_and_the_state_are_those_of_the_steps(name, hypotheses, mask):
    mechanism = MECHANISMS[name]().double()
    for parameter in mechanism.parameters():
        torch.nn.init.normal_(parameter)
    queries, values = torch.randn(3 * hypotheses, 4, D).double(), torch.randn(3, 5, D).double()
    fits = hypotheses == 1 or "causal" not in name
    memory = mechanism.prepare(values, mask=mask)
    assert (whole_sequence.unsupported_now(mechanism.parts, memory, len(queries), from_start=True) is None) == fits

    def run(alignment):
        own = [x.detach().requires_grad_() for x in (queries, values)]
        attended, state = mechanism(own[0], mechanism.prepare(own[1], mask=mask), alignment=alignment)
        by = [*own, *mechanism.parameters()]
        probe = torch.randn(attended.context.shape, generator=torch.Generator().manual_seed(1)).double()
        return [attended.context, *torch.autograd.grad(attended.context, by, probe)], state, attended.alignment

    found, state, weights = run(False)
    expected, other, made = run(True)
    assert weights is None
    assert made is not None
    assert torch.equal(state.position, other.position)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_a_sequence_that_goes_on_is_the_same():
    for name in ("scaled", "scaled, causal", "additive"):
        mechanism = MECHANISMS[name]()
        queries, memory = torch.randn(2, 4, D), mechanism.prepare(torch.randn(2, 4, D))
        whole, _ = mechanism(queries, memory)
        first, state = mechanism(queries[:, :2], memory)
        second, state = mechanism(queries[:, 2:], memory, state)
        torch.testing.assert_close(torch.cat([first.context, second.context], 1), whole.context)
        assert state.position.tolist() == [4, 4]


def test_an_empty_memory_or_batch_reads_nothing():
    for make in MECHANISMS.values():
        mechanism = make()
        memory = mechanism.prepare(torch.zeros(2, 0, D))
        assert not mechanism(torch.randn(2, 3, D), memory)[0].context.any()
        assert mechanism(torch.zeros(0, 3, D), mechanism.prepare(torch.zeros(0, 4, D)))[0].context.shape[:2] == (0, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MECHANISMS)
def test_half_types_agree_with_the_steps(name, dtype):
    mechanism = MECHANISMS[name]().to(dtype)
    queries, values = torch.randn(3, 4, D).to(dtype), torch.randn(3, 5, D).to(dtype)
    memory = mechanism.prepare(values, mask=MASK)
    found, expected = (mechanism(queries, memory, alignment=told)[0].context for told in (False, True))
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("automatic", [False, True])
def test_gradients_of_short_sequences_of_half_types_are_those_in_float32_rounded_once(dtype, automatic):
    halves = [x.to(dtype).requires_grad_() for x in dot_inputs()]
    floats = [x.detach().float().requires_grad_() for x in halves]
    with torch.autocast("cpu", torch.bfloat16, enabled=automatic):
        found = ops.dot_attention(*halves, causal=True)
    expected = ops.dot_attention(*floats, causal=True)
    probe = torch.randn_like(found)
    assert found.dtype == dtype
    assert torch.equal(found, expected.to(dtype))
    for a, b in zip(
        torch.autograd.grad(found, halves, probe), torch.autograd.grad(expected, floats, probe.float()), strict=True
    ):
        assert torch.equal(a, b.to(dtype))


@pytest.mark.parametrize("name", MECHANISMS)
def test_automatic_half_types_work(name):
    mechanism = MECHANISMS[name]()
    queries, values = torch.randn(3, 4, D), torch.randn(3, 5, D)
    with torch.autocast("cpu", torch.bfloat16):
        found = mechanism(queries, mechanism.prepare(values, mask=MASK))[0].context
    expected = mechanism(queries, mechanism.prepare(values, mask=MASK))[0].context
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)


def test_what_is_done_is_explained():
    memory = MECHANISMS["scaled"]().prepare(torch.randn(1, 4, D))
    assert "sequences: one operation for all steps" in MECHANISMS["scaled"]().explain(memory)
    narrow = Mechanism(scored("dot"), SoftmaxAlignment(), WeightedSum(D), SlidingWindow(back=1, front=1))
    assert "this path does not support SlidingWindow" in narrow.explain(narrow.prepare(torch.randn(1, 4, D)))
    wide = Mechanism(ScaledDotScore(D, D, 4), SoftmaxAlignment(), WeightedSum(D))
    assert "as wide as values" in wide.explain(wide.prepare(torch.randn(1, 4, D)))


def test_hooks_of_parts_are_called():
    mechanism = copy.deepcopy(MECHANISMS["scaled"]())
    called = []
    mechanism.alignment.register_forward_hook(lambda *given: called.append(given))
    mechanism(torch.randn(2, 3, D), mechanism.prepare(torch.randn(2, 4, D)))
    assert called


class NamedSoftmax(SoftmaxAlignment):
    """A user's own, which computes what its parent does."""


class OtherSoftmax(SoftmaxAlignment):
    """A user's own, which may compute anything."""

    def forward(self, energies, support, look, leaf):
        return super().forward(2 * energies, support, look, leaf)


class SharperSoftmax(OtherSoftmax):
    """Says itself what it computes."""

    @property
    def softmax_factor(self):
        return 2 * self.sharpening


def test_a_declaration_holds_until_a_subclass_computes_something_else():
    queries, values = torch.randn(2, 3, D), torch.randn(2, 4, D)
    for kind, reason in (
        (NamedSoftmax, None),
        (OtherSoftmax, "this path does not support OtherSoftmax"),
        (SharperSoftmax, None),
    ):
        mechanism = Mechanism(scored("dot"), kind(), WeightedSum(D))
        assert whole_sequence.unsupported_reason(mechanism.parts, mechanism.score.comparison()) == reason
        memory = mechanism.prepare(values)
        looks = mechanism(queries, memory)[0].context
        torch.testing.assert_close(looks, mechanism(queries, memory, alignment=True)[0].context)


@pytest.mark.parametrize("back", [None, 5, 4], ids=lambda back: f"back={back}")
@pytest.mark.parametrize("hypotheses", [1, 2])
def test_rotated_queries_of_a_short_window_attend_at_once(back, hypotheses):
    window = None if back is None else SlidingWindow(back=back, front=0)
    options = {"query_size": D, "memory_size": D, "size": D, "num_heads": 2, "positions": "rotary"}
    mechanism = multi_head(**options, causal=True, window=window).double()
    values, queries = torch.randn(2, 6, D).double(), torch.randn(2 * hypotheses, 6, D).double()
    memory = mechanism.prepare(values)
    reason = whole_sequence.unsupported_now(mechanism.parts, memory, 2 * hypotheses, from_start=True)
    assert (reason is None) == (back != 4 and hypotheses == 1)  # of 6 positions the last attends to 5 only
    looks = mechanism(queries, memory)[0].context
    torch.testing.assert_close(looks, mechanism(queries, memory, alignment=True)[0].context)


def test_rotated_queries_of_several_hypotheses_have_their_own_steps():
    mechanism = multi_head(query_size=D, memory_size=D, size=D, num_heads=2, positions="rotary").double()
    memory = mechanism.prepare(torch.randn(2, 6, D).double())
    queries = torch.randn(6, 4, D).double()
    assert whole_sequence.unsupported_now(mechanism.parts, memory, 6, from_start=True) is None
    looks = mechanism(queries, memory)[0].context
    torch.testing.assert_close(looks, mechanism(queries, memory, alignment=True)[0].context)
    later = replace(mechanism.initial_state(memory, 3), position=torch.full((6,), 2))
    assert "do not begin at 0" in whole_sequence.unsupported_now(mechanism.parts, memory, 6, from_start=False)
    looks = mechanism(queries, memory, later)[0].context
    torch.testing.assert_close(looks, mechanism(queries, memory, later, alignment=True)[0].context)


class Reaching(SlidingWindow):
    """A user's own, whose centre is not the step."""

    def centre(self, leaf, position):
        return position[:, None] - 1


def test_a_sliding_window_is_the_past_only_while_it_reaches_all_of_it():
    assert [SlidingWindow(back=3, front=0).extent_of(count) for count in (1, 4, 5)] == ["past", "past", None]
    assert SlidingWindow(back=3, front=1).extent_of(2) is None
    assert Reaching(back=3, front=0).extent_of(2) is None
    assert CausalWindow().extent_of(9) == "past"


class Reading(LocationScore):
    """Remembers how wide what was read is."""

    widths: ClassVar[list[int]] = []

    def observe(self, attended, look, leaf):
        self.widths.append(attended.context.shape[1])
        return super().observe(attended, look, leaf)


@pytest.mark.parametrize("kind", [LocationScore, Reading])
def test_steps_are_read_together_unless_a_part_looks_at_what_was_read(kind):
    mechanism = Mechanism(kind(D, D, D, num_filters=2, kernel_size=3), SoftmaxAlignment(), WeightedSum(D))
    queries, memory = torch.randn(2, 3, D), mechanism.prepare(torch.randn(2, 4, D), mask=MASK[::2, :4])
    called = []
    mechanism.read.register_forward_hook(lambda *given: called.append(given))
    attended, state = mechanism(queries, memory, alignment=True)
    assert len(called) == (1 if kind is LocationScore else 3)
    assert set(Reading.widths) <= {D}
    step = mechanism.initial_state(memory)
    for t in range(3):
        look, step = mechanism.step(queries[:, t], memory, step, alignment=True)
        torch.testing.assert_close(look.context, attended.context[:, t])
        torch.testing.assert_close(look.alignment, attended.alignment[:, :, t])
    assert torch.equal(step.position, state.position)
