"""Laws of modules: calls leave them unchanged, weights can be saved, memories extended, steps exported."""

from __future__ import annotations

import copy
import io
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.errors import UnsupportedError
from regard.testing.assertion import require, require_close, require_close_trees, require_same_in_threads
from regard.testing.subject import StepResults, Subject, SubjectSources, require_close_results

LENGTHS = (4, 2)
STEPS = 3


def calls_leave_the_module_unchanged(subject: Subject) -> None:
    """No attribute, buffer or weight differs after the calls."""
    before = snapshot(subject.mechanism)
    _run(subject)
    require_unchanged(subject.mechanism, before)


def threads_may_share_a_mechanism(subject: Subject) -> None:
    """Two threads with different sources have the same results as a single one."""
    require_same_in_threads(lambda b: _run(subject, sentences=(b, b + 7)), 4)


def saved_weights_give_the_same(subject: Subject) -> None:
    """A mechanism that loads the saved weights has the same results: the state dict is complete."""
    other = reloaded(subject.mechanism)
    require_close(_run(subject, other).contexts, _run(subject).contexts, "the context after saving and loading", 0.0)


def training_is_evaluation_without_dropout(subject: Subject) -> None:
    """`train()` and `eval()` have the same results, except for dropout and parts that differ by design."""
    drops = any(isinstance(m, nn.Dropout) and m.p > 0 for m in subject.mechanism.modules())
    differs = getattr(subject.mechanism, "trains_differently", subject.mechanism.is_random)
    if drops or differs:
        return
    training = copy.deepcopy(subject.mechanism).train()
    evaluating = copy.deepcopy(subject.mechanism).eval()
    require_close(
        _run(subject, training).contexts, _run(subject, evaluating).contexts, "the context in training mode", 0.0
    )


def memory_may_grow(subject: Subject) -> None:
    """A memory that is extended piece by piece equals the memory prepared at once; recurrent mechanisms refuse."""
    whole = subject.sources(LENGTHS)
    memory, queries = subject.prepare(whole), subject.queries(len(LENGTHS), STEPS)
    cuts = [(0, 0), (0, 1), (1, 3), (3, None)]
    grown: Any = None
    for start, stop in cuts:
        piece = SubjectSources(*(tuple(x[:, start:stop] for x in tensors) for tensors in (whole.values, whole.masks)))
        if grown is None:
            grown = subject.prepare(piece, masked=False)
            continue
        mask = subject.argument(piece.masks) if stop != 1 else None
        try:
            keys = subject.key_options(piece)
            grown = subject.mechanism.extend(grown, subject.argument(piece.values), mask=mask, **keys)
        except UnsupportedError as refusal:
            require(subject.mechanism.is_recurrent, f"extend refused though nothing is recurrent: {refusal}")
            require(len(str(refusal)) > 40, "extend refused without a reason.")
            return
    require(tree.rows(grown) == len(LENGTHS), "a grown memory has another number of rows.")
    ours, theirs = subject.loop(grown, queries), subject.loop(memory, queries)
    require_close_results(ours, theirs, "a grown memory", subject.tolerance)


def step_can_be_exported(subject: Subject) -> None:
    """`torch.export` exports a step, and the program has the same results."""
    memory = subject.prepare(subject.sources(LENGTHS))
    queries = subject.queries(len(LENGTHS), 1)
    state = subject.mechanism.initial_state(memory)
    arguments = (queries[:, 0], tuple(tree.leaves(memory)), tuple(tree.leaves(state)))
    with torch.no_grad():
        exported = torch.export.export(_Step(subject, queries, memory, state), arguments).module()
        expected = subject.loop(memory, queries)
        context, weights, after = exported(*arguments)
    require_close(context, expected.contexts[:, 0], "the context of an exported step", subject.tolerance)
    for a, b in zip(weights, expected.alignments, strict=True):
        require_close(a, b[:, :, 0], "the alignment of an exported step", subject.tolerance)
    require_close_trees(tuple(after), tuple(tree.leaves(expected.state)), "the exported state", subject.tolerance)


class _Step(nn.Module):
    """A step between tuples of tensors; the structure of memory and state is part of the program."""

    def __init__(self, subject: Subject, queries: Tensor, memory: Any, state: Any) -> None:
        super().__init__()
        self.mechanism = subject.mechanism
        inputs = subject.inputs(queries)
        self.inputs = None if inputs is None else inputs[:, 0]
        self.memory, self.state = memory, state

    def forward(self, query: Tensor, memory: tuple[Tensor, ...], state: tuple[Tensor, ...]) -> Any:
        """Contexts, alignments and the leaves of the new state."""
        attended, after = self.mechanism.step(
            query, _fill(self.memory, memory), _fill(self.state, state), inputs=self.inputs, alignment=True
        )
        weights = attended.alignment if isinstance(attended.alignment, tuple) else (attended.alignment,)
        return attended.context, weights, tuple(tree.leaves(after))


def _fill(structure: Any, tensors: tuple[Tensor, ...]) -> Any:
    """A tree of the same structure with other tensors."""
    rest = iter(tensors)
    return tree.map(lambda _: next(rest), structure)


def _run(subject: Subject, mechanism: Any = None, sentences: tuple[int, ...] = (0, 1)) -> StepResults:
    """The results of the loop, after a call of every method."""
    if mechanism is not None:
        subject = replace(subject, mechanism=mechanism)
    with torch.no_grad():
        memory = subject.prepare(subject.sources(LENGTHS, sentences=sentences))
        queries = subject.queries(sentences, STEPS)
        subject.at_once(memory, queries)
        return subject.loop(memory, queries)


def reloaded(module: nn.Module) -> nn.Module:
    """A copy of a module with other weights, into which the saved ones are loaded."""
    other = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


def snapshot(module: nn.Module) -> dict[str, Any]:
    """All attributes of a module and of the modules in it, and copies of its weights and buffers."""
    attributes = {}
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            attributes[f"{name}.{key}"] = copy.copy(value) if isinstance(value, (dict, list, set)) else value
    weights = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    return {"attributes": attributes, "weights": weights}


def require_unchanged(module: nn.Module, before: dict[str, Any]) -> None:
    """Requires that the module is unchanged since the snapshot."""
    after = snapshot(module)
    for name in before["attributes"].keys() | after["attributes"].keys():
        require(name in before["attributes"], f"a call set the attribute {name.lstrip('.')} on the module.")
        old, current = before["attributes"][name], after["attributes"].get(name)
        same = old is current or (isinstance(old, (dict, list, set, int, float, str, tuple)) and _equal(old, current))
        require(same, f"a call changed the attribute {name.lstrip('.')} of the module.")
    for name, tensor in before["weights"].items():
        require(torch.equal(tensor, after["weights"][name]), f"a call changed the weights or the buffer {name}.")


def _equal(old: Any, current: Any) -> bool:
    """Whether containers have the same objects, by identity, and numbers and strings the same value."""
    if isinstance(old, dict):
        return old.keys() == current.keys() and all(old[key] is current[key] for key in old)
    if isinstance(old, (list, tuple)):
        return len(old) == len(current) and all(a is b for a, b in zip(old, current))
    return bool(old == current)
