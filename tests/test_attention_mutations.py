"""Every law is broken on purpose once, and the check must notice."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

from regard import tree
from regard.attention import (
    AdditiveScore,
    Attended,
    ChunkwiseAlignment,
    LocationScore,
    Mechanism,
    SoftmaxAlignment,
    WeightedSum,
)
from regard.attention.scores import additive, location
from regard.testing import LAWS, check_mechanism
from support.cases import MECHANISMS
from support.oracles import require_agreement

SIZES = {"query_size": 5, "memory_size": 6}


class BrokenScore(AdditiveScore):
    """Adds what `fault` makes of the energies and the query."""

    def __init__(self, fault):
        super().__init__(5, 6, 4, num_heads=2)
        self.fault = fault

    def forward(self, inputs, state):
        energies, state = super().forward(inputs, state)
        return self.fault(energies, inputs.query), state


class BrokenRead(WeightedSum):
    """Reads what `fault` makes of the context, the weights and the memory."""

    def __init__(self, fault):
        super().__init__(6, num_heads=2)
        self.fault = fault

    def forward(self, weights, inputs):
        return self.fault(super().forward(weights, inputs), weights, inputs.memory)


class BrokenAlignment(SoftmaxAlignment):
    """Gives what `fault` makes of energies and support."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, energies, support, inputs, state):
        weights, state, auxiliary = super().forward(energies, support, inputs, state)
        return self.fault(weights, energies, support), state, auxiliary


def built(score=None, alignment=None, read=None, kind=Mechanism):
    return kind(
        score or AdditiveScore(5, 6, 4, num_heads=2),
        alignment or SoftmaxAlignment(),
        read or WeightedSum(6, num_heads=2),
    )


def reading(fault):
    return built(read=BrokenRead(fault))


def naive_softmax(weights, energies, support):
    exponentials = energies.exp() if support is None else energies.exp() * support
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / torch.where(total == 0, 1, total)


def nan_for_dead_rows(weights, energies, support):
    return (energies if support is None else energies.masked_fill(~support, float("-inf"))).softmax(-1)


def widest(context):
    assert not torch.is_autocast_enabled("cpu")
    return context


class DeafToLengths(Mechanism):
    def prepare(self, values, *, keys=None, mask=None, lengths=None):
        return super().prepare(values, keys=keys, mask=mask)


class DeafToMasks(Mechanism):
    def _allowed(self, inputs, state, positions):
        return self.window(inputs, state)


class ForwardOfItsOwn(Mechanism):
    def forward(self, queries, memory, state=None, **options):
        attended, state = super().forward(queries, memory, state, **options)
        return Attended(attended.context * 1.001, attended.alignment), state


class NeedsSteps(Mechanism):
    def forward(self, queries, memory, state=None, **options):
        assert queries.shape[1]
        return super().forward(queries, memory, state, **options)


class Counting(Mechanism):
    def initial_state(self, memory, num_hypotheses=1):
        return (super().initial_state(memory, num_hypotheses), 0)

    def step(self, query, memory, state, **options):
        attended, new = super().step(query, memory, state[0], **options)
        return attended, (new, state[1] + 1)


class ShownOtherwise(Mechanism):
    def step(self, query, memory, state, **options):
        attended, state = super().step(query, memory, state, **options)
        shift = 0.1 if options.get("alignment") else 0.0
        return Attended(attended.context + shift, attended.alignment), state


class Remembering(Mechanism):
    def step(self, query, memory, state, **options):
        attended, state = super().step(query, memory, state, **options)
        self.last = attended
        return attended, state


class Careless(Mechanism):
    """Passes the query through an attribute, which another thread may have written in between."""

    def step(self, query, memory, state, **options):
        self.query = query
        time.sleep(0.001)
        return super().step(self.query, memory, state, **options)


class Forgetful(AdditiveScore):
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}v"] = destination[f"{prefix}v"] * 2


class Dropping(WeightedSum):
    def forward(self, weights, inputs):
        return torch.nn.functional.dropout(super().forward(weights, inputs), training=self.training)


class GrowsBackwards(Mechanism):
    def extend(self, memory, values, *, keys=None, mask=None):
        def everywhere(values):
            return values.new_ones(values.shape[:2], dtype=torch.bool)

        new = self.prepare(values, mask=everywhere(values) if mask is None else mask)
        old = memory if memory.mask is not None else replace(memory, mask=everywhere(memory.read))
        return tree.map(lambda a, b: torch.cat([b, a], 1), old, new)


class Asks(WeightedSum):
    def forward(self, weights, inputs):
        context = super().forward(weights, inputs)
        return context * 2 if float(weights.sum()) < -1 else context


class RollsItsTrace(LocationScore):
    def forward(self, inputs, state):
        moved = tree.map(lambda x: x.roll(1, 0), state)
        return super().forward(inputs, moved)[0], state


BROKEN = {
    "mask_and_lengths_mean_the_same": lambda: built(kind=DeafToLengths),
    "padding_gets_exactly_zero": lambda: built(kind=DeafToMasks),
    "row_without_support_is_zero": lambda: built(alignment=BrokenAlignment(nan_for_dead_rows)),
    "source_without_positions_gives_zeros": lambda: reading(lambda context, weights, memory: context + 1),
    "weights_are_a_distribution": lambda: built(alignment=BrokenAlignment(lambda weights, *_: weights * 0.99)),
    "sentence_is_independent_of_its_batch": lambda: reading(lambda context, *_: context - context.mean(0)),
    "order_of_sentences_changes_nothing": lambda: reading(
        lambda context, *_: context * torch.arange(len(context))[:, None]
    ),
    "further_padding_changes_nothing": lambda: reading(lambda context, weights, _: context / weights.shape[-1]),
    "forward_is_the_loop_of_step": lambda: built(kind=ForwardOfItsOwn),
    "no_steps_give_no_contexts": lambda: built(kind=NeedsSteps),
    "hypotheses_are_independent": lambda: reading(lambda context, *_: context + context.sum(0)),
    "reordering_the_state_commutes_with_step": lambda: built(score=RollsItsTrace(5, 6, 4, num_heads=2, kernel_size=3)),
    "trees_hold_rows_of_tensors": lambda: built(kind=Counting),
    "alignment_changes_no_other_output": lambda: built(kind=ShownOtherwise),
    "gradients_are_those_of_finite_differences": lambda: reading(lambda context, *_: context * context.detach()),
    "half_types_are_close_to_float32": lambda: reading(
        lambda context, *_: context * (1.0 if context.element_size() > 2 else 1.2)
    ),
    "half_types_stay_finite_with_thousandfold_energies": lambda: built(alignment=BrokenAlignment(naive_softmax)),
    "autocast_changes_no_more_than_rounding": lambda: reading(lambda context, weights, _: widest(context)),
    "extreme_energies_stay_finite": lambda: built(
        score=BrokenScore(lambda energies, _: energies * 10), alignment=BrokenAlignment(naive_softmax)
    ),
    "calls_leave_the_module_unchanged": lambda: built(kind=Remembering),
    "threads_may_share_a_mechanism": lambda: built(kind=Careless),
    "saved_weights_give_the_same": lambda: built(score=Forgetful(5, 6, 4, num_heads=2)),
    "training_is_evaluation_without_dropout": lambda: built(read=Dropping(6, num_heads=2)),
    "memory_may_grow": lambda: built(kind=GrowsBackwards),
    "step_can_be_exported": lambda: built(read=Asks(6, num_heads=2)),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_mechanism_that_breaks_a_law_is_caught_by_it(law):
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match=f"breaks the law {law}"):
        check_mechanism(BROKEN[law](), **SIZES, only=[law])


def test_the_unbroken_mechanism_keeps_all_of_them():
    check_mechanism(built(), **SIZES)


def test_a_wrong_sentence_is_noticed(monkeypatch):
    def hypotheses_first(query, keys):
        return query.view(-1, keys.shape[0], *query.shape[1:]).transpose(0, 1)

    monkeypatch.setattr(additive, "share", hypotheses_first)
    with pytest.raises(AssertionError, match="hypothesis 0 of three differs"):
        check_mechanism(built(), **SIZES, only=["hypotheses_are_independent"])


def test_a_memory_tiled_in_the_wrong_order_is_noticed(monkeypatch):
    score = LocationScore(5, 6, 4, num_heads=2, kernel_size=3)
    plain = location.LocationScore.forward

    def tiled(self, inputs, state):
        keys = inputs.memory.score
        wrong = inputs.with_memory(score=keys.repeat(len(inputs.query) // len(keys), 1, 1, 1))
        return plain(self, wrong, state)

    monkeypatch.setattr(location.LocationScore, "forward", tiled)
    with pytest.raises(AssertionError, match="breaks the law hypotheses_are_independent"):
        check_mechanism(built(score=score), **SIZES, only=["hypotheses_are_independent"])


def test_carrying_the_read_weights_in_mocha_passes_every_law_and_fails_the_oracle(monkeypatch):
    plain = ChunkwiseAlignment.forward

    def carries_what_it_read(self, *arguments):
        weights, _, auxiliary = plain(self, *arguments)
        return weights, weights, auxiliary

    case = next(case for case in MECHANISMS if case.name == "mocha, 2 heads")
    require_agreement(case)
    monkeypatch.setattr(ChunkwiseAlignment, "forward", carries_what_it_read)
    check_mechanism(case.make(), **SIZES)
    with pytest.raises(AssertionError):
        require_agreement(case)
