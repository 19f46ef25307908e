"""Attending only to the positions of the window gives what attending to all of them gives."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch.export import Dim

from regard import tree
from regard.attention import (
    AbstractWindow,
    AdditiveScore,
    ArgmaxWindow,
    CausalWindow,
    DotScore,
    InEvaluation,
    Intersection,
    LocationScore,
    Mechanism,
    PredictiveWindow,
    SlidingWindow,
    SoftmaxAlignment,
    Support,
    WeightedSum,
    bahdanau,
    gmm,
    local_steps,
    luong,
    multi_head,
)
from regard.errors import UnsupportedError
from regard.testing.mechanism import move_weights
from support.compositions import HEADS, KINDS, Composition, parts_of

LENGTHS = (11, 4, 0)
STEPS = 4


def fitting():
    """Every combination of parts of which each may be given few positions, also those that refuse each other."""
    parts = {kind: [p for p in parts_of(kind) if kind == "window" or p.make(1).is_positionwise] for kind in KINDS}
    parts["window"] = [p for p in parts["window"] if p.make(1).eval().width is not None]
    return [Composition(chosen, heads) for chosen in itertools.product(*parts.values()) for heads in HEADS]


def is_composed(one):
    try:
        one.make()
    except UnsupportedError:
        return False
    return True


FITTING = fitting()
DRAWN = [one for one in FITTING[::19] if is_composed(one)]


def both_forms(mechanism):
    """The mechanism that attends to few positions, and to all; the same weights."""
    few, every = copy.copy(mechanism), copy.copy(mechanism)
    few.narrow, every.narrow = True, False
    return few, every


def everything(mechanism, *, hypotheses=1, lengths=LENGTHS, steps=STEPS, size=6, at_once=True, masked=True):
    """Contexts, alignments, the state afterwards, and gradients of values, queries and parameters."""
    draw = torch.Generator().manual_seed(3)
    values = torch.randn(len(lengths), max(lengths), size, generator=draw, dtype=torch.float64).requires_grad_()
    rows = hypotheses * len(lengths)
    width = size if mechanism.uses_query else 0
    queries = torch.randn(rows, steps, width, generator=draw, dtype=torch.float64).requires_grad_()
    memory = mechanism.prepare(values, lengths=torch.tensor(lengths) if masked else None)
    state = mechanism.initial_state(memory, hypotheses)
    if at_once:
        seen, state = mechanism(queries, memory, state, alignment=True)
        contexts, alignments = seen.context, seen.alignment
    else:
        looks = []
        for query in queries.unbind(1):
            seen, state = mechanism.step(query, memory, state, alignment=True)
            looks.append(seen)
        contexts, alignments = (torch.stack([getattr(x, n) for x in looks], 1) for n in ("context", "alignment"))
    wanted = [values, queries, *mechanism.parameters()]
    loss = contexts.sin().sum() + (alignments * torch.arange(alignments.shape[-1])).cos().sum()
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    zeros = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, gradients, strict=True)]
    return [contexts, alignments, *zeros, *tree.leaves(state)]


def assert_same(mechanism, **options):
    for few, every in zip(*(everything(form, **options) for form in both_forms(mechanism)), strict=True):
        torch.testing.assert_close(few, every, rtol=0, atol=1e-10)


@pytest.mark.parametrize("one", DRAWN, ids=lambda one: one.name)
def test_few_positions_give_what_all_positions_give(one):
    mechanism = one.make().double().eval()
    move_weights(mechanism)
    assert_same(mechanism)
    assert_same(mechanism, hypotheses=2, at_once=False)


def test_every_part_that_may_look_at_few_positions_is_among_those_compared():
    drawn = {(part.kind, part.name) for one in DRAWN for part in one.parts}
    others = [one for one in FITTING if not drawn.issuperset((part.kind, part.name) for part in one.parts)]
    assert {one.num_heads for one in DRAWN} == set(HEADS)
    assert not [one.name for one in others if is_composed(one)]


@pytest.mark.parametrize("window", [ArgmaxWindow(back=1, front=2, num_heads=2), SlidingWindow(back=1, front=2)])
@pytest.mark.parametrize("lengths", [(3, 2), (1, 0), (0, 0), (4, 4), (5, 1)])
@pytest.mark.parametrize("masked", [True, False])
def test_sources_shorter_than_the_window_and_none_at_all_are_looked_at_alike(window, lengths, masked):
    mechanism = multi_head(query_size=6, memory_size=6, size=4, num_heads=2, window=window).double().eval()
    assert_same(mechanism, lengths=lengths, masked=masked, hypotheses=2)


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_heads_that_share_keys_and_values_may_have_windows_of_their_own(shared):
    window = ArgmaxWindow(back=1, front=1, num_heads=4)
    mechanism = multi_head(
        query_size=6, memory_size=6, size=8, num_heads=4, num_key_value_heads=shared, window=window
    ).double()
    assert_same(mechanism, hypotheses=3)


def test_a_memory_that_lies_time_first_is_looked_at_alike():
    mechanism = luong(query_size=6, memory_size=6, window=SlidingWindow(back=2, front=1)).double()
    values, queries = torch.randn(3, 11, 6, dtype=torch.float64), torch.randn(6, 5, 6, dtype=torch.float64)
    few, every = both_forms(mechanism)
    turned = values.transpose(0, 1).contiguous().transpose(0, 1)
    assert turned.stride(0) < turned.stride(1)
    torch.testing.assert_close(
        few(queries, few.prepare(turned))[0].context, every(queries, every.prepare(values))[0].context
    )


def test_the_gradient_is_that_of_finite_differences():
    window = Intersection([PredictiveWindow(6, 4, reach=2, num_heads=2), ArgmaxWindow(back=2, front=2, num_heads=2)])
    mechanism = bahdanau(query_size=6, memory_size=6, size=4, num_heads=2, window=window).double()
    mechanism.narrow = True
    values, queries = (torch.randn(2, n, 6, dtype=torch.float64, requires_grad=True) for n in (7, 3))
    torch.autograd.gradcheck(
        lambda v, q: mechanism(q, mechanism.prepare(v))[0].context, (values, queries), fast_mode=True
    )


class Counted(AdditiveScore):
    """Notes how many positions it is given."""

    def __init__(self, **options):
        super().__init__(6, 6, 4, **options)
        self.given = []

    def forward(self, inputs, state):
        self.given.append(inputs.memory.score.shape[1])
        return super().forward(inputs, state)


def counted(window, **options):
    return Mechanism(Counted(), SoftmaxAlignment(), WeightedSum(6), window, **options)


def test_a_long_source_is_looked_at_through_the_window_and_a_short_one_as_a_whole():
    mechanism = counted(ArgmaxWindow(back=3, front=4))
    queries = torch.randn(2, 3, 6)
    for length in (2000, 160, 159, 20):
        mechanism(queries, mechanism.prepare(torch.randn(2, length, 6)))
    assert mechanism.score.given == [8] * 6 + [159] * 3 + [20] * 3


def test_rows_that_share_a_sentence_make_all_of_it_worth_looking_at():
    mechanism = counted(SlidingWindow(back=3, front=4))
    for steps, length in ((1, 200), (5, 200), (5, 288), (50, 288), (50, 384)):
        mechanism(torch.randn(1, steps, 6), mechanism.prepare(torch.randn(1, length, 6)))
    assert mechanism.score.given == [8, 200, 8, 288, 8]


def test_weights_are_put_into_their_places_only_when_somebody_looks(monkeypatch):
    calls = []
    plain = local_steps.scatter
    monkeypatch.setattr(local_steps, "scatter", lambda *said: calls.append(1) or plain(*said))
    mechanism = counted(InEvaluation(ArgmaxWindow(back=0, front=2)), narrow=True).eval()
    memory = mechanism.prepare(torch.randn(2, 9, 6))
    mechanism(torch.randn(2, 4, 6), memory)
    assert calls == []
    mechanism(torch.randn(2, 4, 6), memory, alignment=True)
    assert len(calls) == 4


class Watching(AdditiveScore):
    """Remembers in which places the last weights were; needs all of them."""

    is_recurrent = True

    def initial(self, memory, num_rows):
        return memory.read.new_zeros(num_rows, 1, memory.num_positions)

    def observe(self, attended, inputs, state):
        return attended.alignment


def test_a_part_that_watches_all_weights_is_shown_all_of_them():
    mechanism = Mechanism(Watching(6, 6, 4), SoftmaxAlignment(), WeightedSum(6), ArgmaxWindow(back=1, front=1)).double()
    assert mechanism.score.observes_all
    assert_same(mechanism)


class Every(AbstractWindow):
    """A user's own window, which knows its width and leaves the rest to the library."""

    @property
    def width(self):
        return 3

    def start(self, inputs, state):
        return 2 * inputs.position[:, None]

    def forward(self, inputs, state):
        offset = torch.arange(inputs.memory.num_positions) - 2 * inputs.position[:, None, None]
        return Support(
            (offset >= 0) & (offset < 3), log_prior=-0.3 * offset.double(), gain=0.5 + 0 * offset.double()
        ), state


def test_a_window_of_ones_own_needs_no_more_than_a_width_and_a_start():
    assert_same(luong(query_size=6, memory_size=6, window=Every()).double())
    both = Intersection([Every(), ArgmaxWindow(back=4, front=4, num_heads=2)])
    assert_same(luong(query_size=6, memory_size=6, num_heads=2, window=both).double())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: counted(SlidingWindow(back=3, front=4)), "narrow: a step attends to 8 of 500 positions"),
        (lambda: counted(SlidingWindow(back=3, front=4), narrow=False), "all 500 positions; narrow=False"),
        (lambda: counted(None), "FullWindow has no width"),
        (lambda: counted(CausalWindow()), "CausalWindow has no width"),
        (lambda: counted(InEvaluation(ArgmaxWindow(back=1, front=1))), "InEvaluation does not hold in training"),
        (lambda: gmm(query_size=6, memory_size=6, size=4), "MixtureScore is not positionwise and needs all of them"),
        (lambda: counted(SlidingWindow(back=50, front=49)), "gathering 100 would cost as much as attending to 528"),
    ],
)
def test_a_mechanism_explains_how_it_looks(make, said):
    mechanism = make()
    assert said in mechanism.explain(mechanism.prepare(torch.zeros(1, 500, 6)))


def test_what_looks_at_few_positions_when_asked_is_explained_by_how_many_rows_look():
    mechanism = counted(SlidingWindow(back=3, front=4))
    memory = mechanism.prepare(torch.zeros(1, 300, 6))
    assert mechanism.explain(memory, rows_per_sentence=5).startswith("narrow")
    assert mechanism.explain(memory, rows_per_sentence=50).startswith("full")


@pytest.mark.parametrize(
    ("score", "window", "named"),
    [
        (LocationScore(6, 6, 4), SlidingWindow(back=1, front=1), "LocationScore is not positionwise"),
        (DotScore(6, 6), CausalWindow(), "CausalWindow has no width"),
    ],
)
def test_narrow_is_refused_where_it_cannot_be(score, window, named):
    with pytest.raises(UnsupportedError, match=f"narrow=True is impossible: {named}"):
        Mechanism(score, SoftmaxAlignment(), WeightedSum(6), window, narrow=True)


class StepInputs(torch.nn.Module):
    """A first step over values and queries."""

    def __init__(self, narrow):
        super().__init__()
        self.mechanism = luong(query_size=6, memory_size=6, window=ArgmaxWindow(back=1, front=2)).eval()
        self.mechanism.narrow = narrow

    def forward(self, query, values):
        memory = self.mechanism.prepare(values)
        seen, _ = self.mechanism.step(query, memory, self.mechanism.initial_state(memory), alignment=True)
        return seen.context, seen.alignment


@pytest.mark.parametrize("narrow", [None, True])
def test_a_step_is_exported_for_any_number_of_positions(narrow):
    inputs = StepInputs(narrow)
    given = (torch.randn(2, 6), torch.randn(2, 300, 6))
    with torch.no_grad():
        program = torch.export.export(inputs, given, dynamic_shapes=({}, {1: Dim("S", min=8, max=5000)})).module()
        for length in (8, 150, 900):
            query, values = torch.randn(2, 6), torch.randn(2, length, 6)
            for ours, theirs in zip(program(query, values), inputs(query, values), strict=True):
                torch.testing.assert_close(ours, theirs)
