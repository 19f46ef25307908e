"""A loop within a `Loop` is the loop outside of it: results, gradients of every order, what torch asks of both."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Thread

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from regard import ops
from regard.layers.cells.cell import CELLS
from regard.ops import cells
from regard.ops import over_steps as helper
from regard.ops.over_steps import Loop

T, B, S, D = 4, 3, 5, 4
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    monkeypatch.setattr(sys.modules["regard.ops.linear"], "MIN_WORK", 0)


@dataclass(frozen=True)
class Case:
    """A loop of steps.

    Args:
        shapes: of what is differentiated; the first is the first state.
        step: from the state and the others to the next state and to what is returned.
    """

    shapes: dict[str, tuple[int, ...]]
    step: Callable[..., tuple[Tensor, tuple[Tensor, ...]]]

    def leaves(self, dtype=torch.float64, scale=0.7):
        generator = torch.Generator().manual_seed(3)
        drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in self.shapes.values()]
        return [(scale * x).to(dtype).requires_grad_() for x in drawn]

    def loop(self, state, *leaves, context=Loop, steps=T):
        found = []
        with context():
            for _ in range(steps):
                state, outputs = self.step(state, *leaves)
                found.append(outputs)
        return [torch.stack(parts) for parts in zip(*found, strict=True)]


def next_state(state, context):
    return torch.tanh(state + context.view(state.shape))


def linear(state, weight, bias):
    state = ops.linear(state, weight, bias).tanh()
    return state, (state,)


def linear_without_bias(state, weight):
    state = ops.linear(state, weight).tanh()
    return state, (state,)


def cell_of(name):
    def step(state, inputs, *weights):
        parts = state.chunk(2, 1) if name == "lstm" else (state,)
        x = inputs + state[:, :2]
        after = cells.step(name, x, parts, weights)
        if after is None:
            after = CELLS[name].step(x, parts, weights)
        return torch.cat(after, 1), after

    return step


def attention(v=False, hypotheses=1, masked=True, sharpening=1.5):
    def step(query, keys, values, *others):
        mask = MASK if masked else None
        context, weights = ops.attend(query, keys, values, mask, *others, sharpening=sharpening)
        return next_state(query, context), (context, weights)

    return step


def summed(state, values):
    weights = state.softmax(2)
    context = ops.weighted_sum(weights, values)
    return state + context.view(*state.shape[:2], values.shape[3]).sum(2, keepdim=True) * state, (context,)


def located(state, keys, filters, projection, v):
    past = state.softmax(-1)[:, :, :, None]
    query = state[..., :D] + 1
    if filters.dim() == 5:
        past = past.unflatten(-1, (1, S))
    energies = ops.location_energies(query, keys, past, filters, projection, v)
    return torch.tanh(state + energies), (energies,)


def forward(state, energies, move):
    weights = ops.forward_alignment(energies, state.softmax(2), move.sigmoid(), MASK[:, None], 1e-3)
    return state + weights, (weights,)


CELL = {
    "lstm": {"state": (B, 2 * D), "inputs": (B, 2), "w_ih": (4 * D, 2), "w_hh": (4 * D, D), "b_ih": (4 * D,)},
    "gru": {"state": (B, D), "inputs": (B, 2), "w_ih": (3 * D, 2), "w_hh": (3 * D, D), "b_ih": (3 * D,)},
}
CASES = {
    "linear": Case({"state": (B, D), "weight": (D, D), "bias": (D,)}, linear),
    "linear of planes, no bias": Case({"state": (B, 2, D), "weight": (D, D)}, linear_without_bias),
    "lstm": Case({**CELL["lstm"], "b_hh": (4 * D,)}, cell_of("lstm")),
    "gru": Case({**CELL["gru"], "b_hh": (3 * D,)}, cell_of("gru")),
    "dot": Case({"query": (B, 1, D), "keys": (B, S, 1, D), "values": (B, S, 1, D)}, attention()),
    "dot, shared keys and values, 2 hypotheses": Case(
        {"query": (2 * B, 4, D), "keys": (B, S, 2, D), "values": (B, S, 1, D)}, attention()
    ),
    "dot, no mask": Case(
        {"query": (B, 2, D), "keys": (B, S, 2, D), "values": (B, S, 2, D)}, attention(masked=False, sharpening=1.0)
    ),
    "additive": Case(
        {"query": (B, 1, D), "keys": (B, S, 1, D), "values": (B, S, 1, D), "v": (1, D)}, attention()
    ),
    "additive, 2 heads, 3 hypotheses": Case(
        {"query": (3 * B, 2, D), "keys": (B, S, 2, D), "values": (B, S, 1, D), "v": (2, D)}, attention()
    ),
    "additive, no mask": Case(
        {"query": (B, 2, D), "keys": (B, S, 2, D), "values": (B, S, 2, D), "v": (2, D)}, attention(masked=False)
    ),
    "a sum": Case({"state": (2 * B, 2, S), "values": (B, S, 1, D)}, summed),
    "location": Case(
        {"state": (B, 1, 1, S), "keys": (B, S, 1, D), "filters": (1, 2, 1, 3), "projection": (1, 2, D), "v": (1, D)},
        located,
    ),
    "location, 2 heads, 3 hypotheses": Case(
        {"state": (B, 3, 2, S), "keys": (B, S, 2, D), "filters": (2, 2, 1, 3), "projection": (2, 2, D), "v": (2, D)},
        located,
    ),
    "location in a plane": Case(
        {"state": (B, 2, 1, S), "keys": (B, S, 1, D), "filters": (1, 2, 1, 1, 3), "projection": (1, 2, D), "v": (1, D)},
        located,
    ),
    "forward": Case({"state": (B, 2, S), "energies": (B, 2, S), "move": (B, 2)}, forward),
}  # fmt: skip
ALL = pytest.mark.parametrize("name", CASES)
COLLECTED = [name for name in CASES if name != "forward"]


def probed(outputs):
    waves = [torch.arange(x.numel(), dtype=x.dtype).mul(1.7).add(i).cos().view(x.shape) for i, x in enumerate(outputs)]
    return sum((x * wave).sum() for x, wave in zip(outputs, waves, strict=True))


def assert_same(found, expected, **tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **(tolerance or {"rtol": 1e-10, "atol": 1e-10}))


def gradients(outputs, leaves, **options):
    return torch.autograd.grad(probed(outputs), leaves, **options)


def nodes(tensors):
    found, todo = set(), [x.grad_fn for x in tensors]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [one for one, _ in node.next_functions]
    return [node.name() for node in found]


@ALL
@pytest.mark.parametrize("other", [nullcontext, ops.plain], ids=["outside", "plain"])
def test_results_and_every_gradient_are_those_of_the_plain_loop(name, other):
    case = CASES[name]
    ours, plain = case.leaves(), case.leaves()
    found, expected = case.loop(*ours), case.loop(*plain, context=other)
    assert_same(found, expected)
    assert (nodes(found).count("_CollectBackward") > 0) == (name in COLLECTED)
    assert "_CollectBackward" not in nodes(expected)
    assert_same(gradients(found, ours), gradients(expected, plain))


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_types_are_as_near_to_float64_as_in_the_plain_loop(name, dtype):
    case = CASES[name]
    rounded = case.leaves(dtype)
    found = []
    for context, kind in ((Loop, dtype), (nullcontext, dtype), (nullcontext, torch.float64)):
        leaves = [x.detach().to(kind).requires_grad_() for x in rounded]
        outputs = case.loop(*leaves, context=context)
        assert all(x.dtype == kind for x in outputs)
        found.append([x.double() for x in (*outputs, *gradients(outputs, leaves))])
    for ours, plain, exact in zip(*found, strict=True):
        allowed = 4 * (plain - exact).abs().max() + 8 * torch.finfo(dtype).eps * exact.abs().max().clamp(min=1)
        assert (ours - exact).abs().max() <= allowed


@ALL
def test_nothing_is_counted_twice(name):
    case = CASES[name]
    ours, plain = case.leaves(), case.leaves()
    expected = gradients(case.loop(*plain, context=nullcontext), plain)
    outputs = case.loop(*ours)
    for i in range(len(ours)):  # one alone, while nobody collects what the others' gradients are made of
        assert_same(gradients(outputs, ours[i : i + 1], retain_graph=True), expected[i : i + 1])
    assert_same(gradients(outputs, ours, retain_graph=True), expected)
    probed(outputs).backward(retain_graph=True)
    assert_same([x.grad for x in ours], expected)
    probed(outputs).backward()
    assert_same([x.grad for x in ours], [2 * x for x in expected])


@ALL
def test_gradients_of_a_part_of_the_steps(name):
    """Of the first outputs, the last, and every other one."""
    case = CASES[name]
    for part in (slice(1), slice(T - 1, T), slice(0, T, 2)):
        ours, plain = case.leaves(), case.leaves()
        found, expected = case.loop(*ours), case.loop(*plain, context=nullcontext)
        pairs = [[x[part] for x in outputs] for outputs in (found, expected)]
        options = {"materialize_grads": True}
        assert_same(gradients(pairs[0], ours, **options), gradients(pairs[1], plain, **options))


@ALL
def test_frozen_tensors_have_no_gradient_and_change_no_other(name):
    case = CASES[name]
    for frozen in range(len(case.shapes)):
        ours, plain = case.leaves(), case.leaves()
        for leaves in (ours, plain):
            leaves[frozen].requires_grad_(False)
        wanted = [[x for x in leaves if x.requires_grad] for leaves in (ours, plain)]
        found, expected = case.loop(*ours), case.loop(*plain, context=nullcontext)
        assert_same(gradients(found, wanted[0]), gradients(expected, wanted[1]))


@ALL
def test_frozen_memory_keeps_nothing(name, monkeypatch):
    """What is made for gradients that nobody wants is not held until the pass ends."""
    case, held = CASES[name], []
    make = helper.Uses.__init__

    def watch(self, gradients):
        make(self, gradients)
        held.append(self)

    monkeypatch.setattr(helper.Uses, "__init__", watch)
    ours = case.leaves()
    for x in ours[1:]:
        x.requires_grad_(False)
    outputs = case.loop(*ours)
    gradients(outputs, ours[:1], retain_graph=True)
    assert not any(uses._factors for uses in held)
    for x in ours[1:]:
        x.requires_grad_()
    outputs = case.loop(*ours)
    gradients(outputs, ours[:1], retain_graph=True)
    assert not any(uses._factors for uses in held)


@ALL
def test_derivatives_of_every_order_are_those_of_finite_differences(name):
    case = CASES[name]
    leaves = case.leaves(scale=0.4)

    def loop(*given):
        return tuple(case.loop(*given, steps=2))

    assert torch.autograd.gradcheck(loop, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(loop, leaves, atol=1e-4, fast_mode=True)


@ALL
def test_second_derivatives_are_those_of_the_plain_loop(name):
    case, found = CASES[name], []
    for context in (Loop, nullcontext):
        leaves = case.leaves()
        first = gradients(case.loop(*leaves, context=context), leaves, create_graph=True)
        found.append([*first, *torch.autograd.grad(sum(x.square().sum() for x in first), leaves)])
    assert_same(*found)


@pytest.mark.parametrize("name", COLLECTED)
def test_a_change_in_place_between_both_passes_is_refused(name):
    case = CASES[name]
    for changed in range(1, len(case.shapes)):
        leaves = case.leaves()
        outputs = case.loop(*leaves)
        if list(case.shapes)[changed] in ("bias", "inputs"):
            continue  # no gradient is made of them
        with torch.no_grad():
            leaves[changed].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            probed(outputs).backward()


@ALL
@pytest.mark.parametrize("passes", ["none", "some", "all"])
def test_the_graph_is_freed_without_the_garbage_collector(name, passes):
    case = CASES[name]
    leaves = case.leaves()
    gc.collect()
    gc.disable()
    try:
        inner = [2 * x for x in leaves]
        dead = [weakref.ref(x) for x in inner]
        outputs = case.loop(*inner)
        dead += [weakref.ref(x) for x in outputs]
        if passes == "some":
            gradients(outputs, leaves[:1], retain_graph=True)
        elif passes == "all":
            gradients(outputs, leaves)
        del inner, outputs
        assert [one for one in dead if one() is not None] == []
    finally:
        gc.enable()


@ALL
def test_hooks_of_shared_tensors_run_once(name):
    case, calls = CASES[name], []
    leaves = case.leaves()
    for i, x in enumerate(leaves):
        x.register_hook(lambda grad, i=i: calls.append(i))
        x.register_post_accumulate_grad_hook(lambda x, i=i: calls.append(-1 - i))
    probed(case.loop(*leaves)).backward()
    assert sorted(calls) == sorted([*range(len(leaves)), *(-1 - i for i in range(len(leaves)))])


@ALL
def test_loops_have_what_they_share_for_themselves(name):
    """One within another, one after another, and one that another reads."""
    case, found = CASES[name], []
    for context in (Loop, nullcontext):
        leaves = case.leaves()
        with context():
            state, first = case.step(*leaves)
            outputs = case.loop(state, *leaves[1:], context=context)
            state, last = case.step(state, *leaves[1:])
        again = case.loop(state, *leaves[1:], context=context)
        found.append([*first, *outputs, *last, *again, *gradients([*first, *outputs, *last, *again], leaves)])
    assert_same(*found)


@pytest.mark.parametrize("name", [name for name in CASES if "2 hyp" in name or "3 hyp" in name or "sum" in name])
def test_steps_may_have_other_numbers_of_hypotheses(name):
    case, found = CASES[name], []
    for context in (Loop, nullcontext):
        leaves = case.leaves()
        state, outputs = leaves[0], []
        with context():
            for step in range(4):
                state, one = case.step(state, *leaves[1:])
                outputs += one
                per_sentence = state if state.dim() == 4 else state.unflatten(0, (B, -1))
                kept = torch.cat([per_sentence, per_sentence], 1) if step == 1 else per_sentence[:, :1]
                state = kept if state.dim() == 4 else kept.flatten(0, 1)
        found.append([*outputs, *gradients(outputs, leaves)])
    assert_same(*found)


@pytest.mark.parametrize("name", ["linear", "linear of planes, no bias", "lstm", "gru"])
def test_steps_may_have_other_numbers_of_rows(name):
    case, found = CASES[name], []
    for context in (Loop, nullcontext):
        state, *others = leaves = case.leaves()
        inputs = others.pop(0) if "inputs" in case.shapes else None
        outputs = []
        with context():
            for step in range(3):
                rows = B - step
                given = others if inputs is None else [inputs[:rows], *others]
                state, one = case.step(state[:rows], *given)
                outputs += one
        found.append([*outputs, *gradients(outputs, leaves)])
    assert_same(*found)


@ALL
def test_without_gradients_it_is_the_loop_outside(name):
    case = CASES[name]
    leaves = case.leaves()
    expected = case.loop(*leaves, context=nullcontext)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            found = case.loop(*leaves)
        assert not any(x.requires_grad for x in found)
        assert_same(found, expected)
    with Loop(), torch.no_grad():
        _, found = case.step(*leaves)
    assert not any(x.requires_grad for x in found)
    assert_same(found, [x[0] for x in expected])
    with Loop(), ops.plain():  # the switch holds within the loop too
        _, found = case.step(*leaves)
    assert "_CollectBackward" not in nodes(found)


def test_an_error_ends_the_loop():
    assert helper.current() is None
    with Loop():
        outer = helper.current()
        assert outer is not None
        with pytest.raises(ZeroDivisionError), Loop():
            raise ZeroDivisionError
        assert helper.current() is outer
    assert helper.current() is None


def test_a_loop_is_of_its_thread():
    seen, found = [], {}
    with Loop():
        thread = Thread(target=lambda: seen.append(helper.current()))
        thread.start()
        thread.join()
    assert seen == [None]
    case = CASES["additive"]
    plain = case.leaves()
    expected = gradients(case.loop(*plain, context=nullcontext), plain)
    shared = case.leaves()

    def work(number):
        found[number] = [gradients(case.loop(*shared), shared) for _ in range(5)]

    threads = [Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results in found.values():
        for result in results:
            assert_same(result, expected)


@ALL
def test_loops_and_steps_can_be_checkpointed(name):
    case = CASES[name]
    plain = case.leaves()
    expected = gradients(case.loop(*plain, context=nullcontext), plain)
    for reentrant in (False, True):
        leaves = case.leaves()
        outputs = checkpoint(lambda *given: tuple(case.loop(*given)), *leaves, use_reentrant=reentrant)
        probed(outputs).backward()
        assert_same([x.grad for x in leaves], expected)

        def step(*given):
            state, outputs = case.step(*given)
            return state, *outputs

        leaves = case.leaves()
        state, outputs = leaves[0], []
        with Loop():  # and steps within a loop, which are computed again outside of it
            for _ in range(T):
                state, *one = checkpoint(step, state, *leaves[1:], use_reentrant=reentrant)
                outputs.append(one)
        probed([torch.stack(parts) for parts in zip(*outputs, strict=True)]).backward()
        assert_same([x.grad for x in leaves], expected)


@ALL
def test_what_is_kept_may_be_packed(name):
    case = CASES[name]
    plain = case.leaves()
    expected = gradients(case.loop(*plain, context=nullcontext), plain)
    for hooks in (saved_tensors_hooks(torch.clone, torch.clone), save_on_cpu()):
        leaves = case.leaves()
        with hooks:
            outputs = case.loop(*leaves)
        assert_same(gradients(outputs, leaves, retain_graph=True), expected)
        assert_same(gradients(outputs, leaves), expected)


@ALL
def test_transforms_of_functions_go_through_the_loop(name):
    case = CASES[name]
    leaves = case.leaves()
    total = lambda *given: probed(case.loop(*given))  # noqa: E731
    expected = torch.autograd.grad(total(*leaves), leaves)
    positions = tuple(range(len(leaves)))
    assert_same(torch.func.grad(total, positions)(*leaves), expected)
    batched = torch.func.vmap(torch.func.grad(total, positions))(*(torch.stack([x, 0.5 * x]) for x in leaves))
    assert_same([x[0] for x in batched], expected)
    tangents = [torch.ones_like(x) for x in leaves]
    slope = torch.func.jvp(total, tuple(x.detach() for x in leaves), tuple(tangents))[1]
    torch.testing.assert_close(slope, sum(x.sum() for x in expected), rtol=1e-8, atol=1e-8)
    with Loop():  # a transform within a step
        within = torch.func.grad(lambda *given: probed(case.step(*given)[1]), positions)(*leaves)
    plain = probed(case.step(*leaves)[1])
    assert_same(within, torch.autograd.grad(plain, leaves, materialize_grads=True))


@ALL
def test_autocast_within_and_around(name):
    case = CASES[name]
    expected = case.loop(*case.leaves(torch.float32), context=nullcontext)
    for around in (True, False):
        leaves = case.leaves(torch.float32)
        with torch.autocast("cpu", torch.bfloat16, enabled=around), Loop():
            state, found = leaves[0], []
            for _ in range(T):
                with torch.autocast("cpu", torch.bfloat16):
                    state, outputs = case.step(state, *leaves[1:])
                state = state.float()
                found.append(outputs)
        found = [torch.stack(parts).float() for parts in zip(*found, strict=True)]
        assert_same(found, expected, rtol=0.1, atol=0.1)
        assert all(x.isfinite().all() for x in gradients(found, leaves))
    leaves, plain = case.leaves(torch.float32), case.leaves(torch.float32)
    outputs = case.loop(*leaves)
    with torch.autocast("cpu", torch.bfloat16):  # which asks nothing of the way back
        found = gradients(outputs, leaves)
    assert_same(found, gradients(case.loop(*plain, context=nullcontext), plain), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", COLLECTED)
def test_a_compiled_loop_and_a_compiled_step_of_a_loop(name):
    case = CASES[name]
    plain = case.leaves()
    expected = case.loop(*plain, context=nullcontext)
    expected += gradients(expected, plain)
    torch.compiler.reset()
    leaves = case.leaves()
    outputs = torch.compile(lambda *given: tuple(case.loop(*given, steps=T)), backend="aot_eager")(*leaves)
    assert_same([*outputs, *gradients(outputs, leaves)], expected)
    step = torch.compile(case.step, backend="aot_eager", fullgraph=True)
    leaves = case.leaves()
    state, found = leaves[0], []
    with Loop():
        for _ in range(T):
            state, outputs = step(state, *leaves[1:])
            found.append(outputs)
    outputs = [torch.stack(parts) for parts in zip(*found, strict=True)]
    assert_same([*outputs, *gradients(outputs, leaves)], expected)


@ALL
def test_tensors_without_numbers_keep_their_shapes(name):
    from torch._subclasses.fake_tensor import FakeTensorMode

    case = CASES[name]
    shapes = [x.shape for x in case.loop(*case.leaves(), context=nullcontext)]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fake = [mode.from_tensor(x) for x in case.leaves()]
        outputs = case.loop(*fake)
        assert [x.shape for x in outputs] == shapes
    with Loop(), mode:
        assert all(x.shape == shape[1:] for x, shape in zip(case.step(*fake)[1], shapes, strict=True))
    if "sum" in name or "linear" in name:  # a mask on the CPU cannot be applied to what is on meta
        outputs = case.loop(*(x.detach().to("meta").requires_grad_() for x in case.leaves()))
        assert [x.shape for x in outputs] == shapes


class Marked(Tensor):
    """A subclass that changes nothing."""


@ALL
def test_subclasses_of_tensors_are_computed_by_torch(name):
    case = CASES[name]
    plain = case.leaves()
    expected = case.loop(*plain, context=nullcontext)
    for marked in range(len(plain)):
        leaves = case.leaves()
        given = list(leaves)
        given[marked] = leaves[marked].as_subclass(Marked)
        outputs = case.loop(*given)
        assert_same([x.as_subclass(Tensor) for x in outputs], expected)
        found = [x.as_subclass(Tensor) for x in gradients(outputs, leaves)]
        assert_same(found, gradients(expected, plain, retain_graph=True))


EMPTY = {
    "linear, no rows": ("linear", {"state": (0, D)}),
    "lstm, no rows": ("lstm", {"state": (0, 2 * D), "inputs": (0, 2)}),
    "gru, no rows": ("gru", {"state": (0, D), "inputs": (0, 2)}),
    "dot, no rows": ("dot, no mask", {"query": (0, 2, D), "keys": (0, S, 2, D), "values": (0, S, 2, D)}),
    "dot, no positions": ("dot, no mask", {"keys": (B, 0, 2, D), "values": (B, 0, 2, D)}),
    "additive, no rows": ("additive, no mask", {"query": (0, 2, D), "keys": (0, S, 2, D), "values": (0, S, 2, D)}),
    "additive, no positions": ("additive, no mask", {"keys": (B, 0, 2, D), "values": (B, 0, 2, D)}),
    "a sum, no rows": ("a sum", {"state": (0, 2, S), "values": (0, S, 1, D)}),
    "a sum, no positions": ("a sum", {"state": (2 * B, 2, 0), "values": (B, 0, 1, D)}),
    "location, no rows": ("location", {"state": (0, 1, 1, S), "keys": (0, S, 1, D)}),
}


@pytest.mark.parametrize("empty", EMPTY)
def test_nothing_gives_nothing(empty):
    name, shapes = EMPTY[empty]
    case, found = Case({**CASES[name].shapes, **shapes}, CASES[name].step), []
    for context in (Loop, nullcontext):
        leaves = case.leaves()
        outputs = case.loop(*leaves, context=context)
        found.append([*outputs, *gradients(outputs, leaves, materialize_grads=True)])
    assert_same(*found)


def test_a_row_alone_has_no_rows():
    x, weight = torch.randn(D, dtype=torch.float64), torch.randn(3, D, dtype=torch.float64, requires_grad=True)
    with Loop():
        found = ops.linear(x, weight)
    assert_same(torch.autograd.grad(found.sum(), weight), [x.expand(3, D)])


def test_what_is_made_once_is_made_once_in_a_loop():
    calls = []

    def make(x, scale=1.0):
        calls.append(scale)
        return scale * x

    x = torch.ones(2, requires_grad=True)
    assert helper.once(make, x) is not helper.once(make, x)
    with Loop():
        assert helper.once(make, x) is helper.once(make, x)
        with torch.no_grad():  # which must not be found where gradients are wanted
            other = torch.ones(2, requires_grad=True)
            assert not helper.once(make, other).requires_grad
        assert helper.once(make, other).requires_grad
    assert len(calls) == 5
