"""Laws of steps: forward and the loop, hypotheses, and states that are reordered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard import tree
from regard.testing.assertion import require, require_close, require_close_trees, require_rows
from regard.testing.subject import StepResults, Subject, require_close_results

LENGTHS = (4, 2)
STEPS = 4


def forward_is_the_loop_of_step(subject: Subject) -> None:
    """Contexts, alignments, auxiliaries and the final state agree, for one hypothesis and for three, also in pieces."""
    memory = subject.prepare(subject.sources(LENGTHS))
    for hypotheses in (1, 3):
        queries = subject.queries(hypotheses * len(LENGTHS), STEPS)
        loop = subject.loop(memory, queries, num_hypotheses=hypotheses)
        _agree(subject.at_once(memory, queries), loop, subject, f"forward (K={hypotheses})")
        first = subject.at_once(memory, queries[:, :1])
        second = subject.at_once(memory, queries[:, 1:], state=first.state)
        require_close(
            torch.cat([first.contexts, second.contexts], 1), loop.contexts, "forward in two pieces", subject.tolerance
        )
        require_close_trees(second.state, loop.state, "the state after forward in two pieces", subject.tolerance)


def no_steps_give_no_contexts(subject: Subject) -> None:
    """T = 0 is legal: contexts (R, 0, V), and the state stays as it was."""
    memory = subject.prepare(subject.sources(LENGTHS))
    outputs = subject.at_once(memory, subject.queries(len(LENGTHS), 0))
    shape = (len(LENGTHS), 0, subject.mechanism.context_size)
    require(
        outputs.contexts.shape == shape,
        f"the context of no steps has shape {tuple(outputs.contexts.shape)}, not {shape}.",
    )
    for weights in outputs.alignments:
        require(
            weights.dim() == 4 and weights.shape[2] == 0, f"the alignment of no steps has shape {tuple(weights.shape)}."
        )
    require_close_trees(outputs.state, subject.mechanism.initial_state(memory), "the state after no steps", 0.0)


def hypotheses_are_independent(subject: Subject) -> None:
    """Each of three hypotheses has the results that it has alone, and no gradient for another query."""
    memory = subject.prepare(subject.sources(LENGTHS))
    queries = subject.queries(3 * len(LENGTHS), STEPS).requires_grad_()
    together = subject.loop(memory, queries, num_hypotheses=3)
    for hypothesis in range(3):
        rows = torch.arange(len(LENGTHS)) * 3 + hypothesis
        _agree(_rows(together, rows), subject.loop(memory, queries[rows]), subject, f"hypothesis {hypothesis} of three")
    gradient = subject.gradients(together.contexts[0].sum(), queries)[0]
    require(bool((gradient[1:] == 0).all()), "a hypothesis depends on the query of another row.")


def reordering_the_state_commutes_with_step(subject: Subject) -> None:
    """Steps from a reordered state are the reordered steps; sentences and their rows can be dropped."""
    memory = subject.prepare(subject.sources(LENGTHS))
    queries = subject.queries(3 * len(LENGTHS), STEPS)
    state = subject.loop(memory, queries[:, :2], num_hypotheses=3).state
    expected = subject.loop(memory, queries[:, 2:], state=state)
    for name, index in {"permuted": [2, 0, 1, 4, 5, 3], "copied": [1, 1, 0, 5, 3, 3]}.items():
        rows = torch.tensor(index)
        outputs = subject.loop(memory, queries[rows, 2:], state=tree.reorder(state, rows))
        _agree(outputs, _rows(expected, rows), subject, f"a step from a {name} state")
    rows, sentence = torch.tensor([4, 3, 5]), torch.tensor([1])
    outputs = subject.loop(tree.reorder(memory, sentence), queries[rows, 2:], state=tree.reorder(state, rows))
    _agree(outputs, _rows(expected, rows), subject, "a step after a sentence left")


def trees_hold_rows_of_tensors(subject: Subject) -> None:
    """Leaves of a memory have B rows, those of a state R; nothing but tensors, None, tuples, dicts, dataclasses."""
    memory = subject.prepare(subject.sources(LENGTHS))
    state = subject.mechanism.initial_state(memory, 3)
    after = subject.loop(memory, subject.queries(3 * len(LENGTHS), 1), state=state).state
    for name, value, rows in (
        ("memory", memory, len(LENGTHS)),
        ("first state", state, 3 * len(LENGTHS)),
        ("state after a step", after, 3 * len(LENGTHS)),
    ):
        require_rows(value, rows, name)


def alignment_changes_no_other_output(subject: Subject) -> None:
    """With `alignment=True` there is an alignment, without it there is none; context and state are the same."""
    memory, queries = subject.prepare(subject.sources(LENGTHS)), subject.queries(len(LENGTHS), 2)
    inputs = subject.inputs(queries)
    run: Callable[[bool], tuple[Any, Any]] = lambda alignment: subject.mechanism.step(  # noqa: E731
        queries[:, 0],
        memory,
        subject.mechanism.initial_state(memory),
        inputs=None if inputs is None else inputs[:, 0],
        alignment=alignment,
    )
    (shown, state_shown), (hidden, state_hidden) = run(True), run(False)
    require(
        hidden.alignment is None and shown.alignment is not None, "the alignment is not that of the argument alignment."
    )
    require_close(shown.context, hidden.context, "the context with alignment=True", subject.tolerance)
    require_close_trees(state_shown, state_hidden, "the state with alignment=True", subject.tolerance)
    at_once = [subject.at_once(memory, queries, alignment=alignment) for alignment in (True, False)]
    require(at_once[1].alignments == (), "forward gives an alignment that was not asked for.")
    require_close(at_once[0].contexts, at_once[1].contexts, "forward's context with the alignment", subject.tolerance)


def _rows(outputs: StepResults, rows: torch.Tensor) -> StepResults:
    return tree.map(lambda leaf: leaf[rows], outputs)


def _agree(actual: StepResults, expected: StepResults, subject: Subject, what: str) -> None:
    require_close_results(actual, expected, what, subject.tolerance)
    require_close_trees(actual.auxiliary, expected.auxiliary, f"the auxiliary of {what}", subject.tolerance)
    require_close_trees(actual.state, expected.state, f"the state after {what}", subject.tolerance)
