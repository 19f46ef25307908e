"""Checks that result that torch.export makes of cases are right for other lengths than that of the example.

Sizes are symbols in an export, and checks of annotations would fix them: use this in a process without such checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, export

from regard import tree
from regard.attention import Parallel
from regard.attention.alignments.monotonic import AbstractReader
from regard.testing.assertion import require_close
from regard.testing.source import encode
from support.cases import DECODERS, ENCODERS, MECHANISMS, DecoderCase, EncoderCase, MechanismCase

MAXIMUM, TOLERANCE = 300, 1e-9
FIXED = {"dynamic convolution": "torch asks for a relation between sizes that it cannot prove"}
"""Mechanisms whose step can be exported only for a fixed S, by the beginning of their names, and why."""


def names() -> list[str]:
    """All arguments of `check`: a kind of program and the name of a case."""
    result = [f"step: {case.name}" for case in MECHANISMS if _has_one_source(case) and not _is_fixed(case)]
    result += [
        f"sequence: {case.name}" for case in MECHANISMS if _has_one_source(case) and not case.make().is_recurrent
    ]
    result += [f"encoder: {case.name}" for case in ENCODERS]
    return result + [f"decoder: {case.name}" for case in DECODERS if not _feeds_back(case)]


def check(name: str) -> None:
    """Exports a case once, and compares the program with the module for several lengths.

    Args:
        name: one of `names`.

    Raises:
        AssertionError: for results that differ.
        Exception: of torch, if it cannot export the case.
    """
    kind, _, case_name = name.partition(": ")
    cases: dict[str, tuple[Any, Callable[[Any], None]]] = {
        "step": (MECHANISMS, _step),
        "sequence": (MECHANISMS, _sequence),
        "encoder": (ENCODERS, _encoder),
        "decoder": (DECODERS, _decoder),
    }
    candidates, function = cases[kind]
    torch.manual_seed(0)
    with torch.no_grad():
        function(next(case for case in candidates if case.name == case_name))


class _Steps(nn.Module):
    """Two steps of a mechanism, or a whole sequence."""

    def __init__(self, case: MechanismCase) -> None:
        super().__init__()
        self.mechanism = case.make().double().eval()
        self.case = case

    def forward(self, queries: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Contexts and alignments of queries (R, Q), for each of two steps, or (R, T, Q)."""
        keys = {} if self.case.key_size is None else {"keys": values[..., :1].expand(-1, -1, self.case.key_size)}
        memory = self.mechanism.prepare(values, mask=mask, **keys)
        inputs = None if self.case.input_size is None else queries[..., :1].expand(*queries.shape[:-1], -1)
        if inputs is not None:
            inputs = inputs.repeat_interleave(self.case.input_size or 1, -1)
        if queries.dim() == 3:
            attended, _ = self.mechanism(queries, memory, inputs=inputs, alignment=True)
            return attended.context, attended.alignment
        outputs, state = [], self.mechanism.initial_state(memory)
        for _ in range(2):
            attended, state = self.mechanism.step(queries, memory, state, inputs=inputs, alignment=True)
            outputs += [attended.context, attended.alignment]
        return tuple(outputs)


def _step(case: MechanismCase) -> None:
    """A step for any S."""
    module = _Steps(case)
    least = _least(module)
    sizes = {1: Dim("S", min=least, max=MAXIMUM)}
    _compare(module, lambda length: (_query(case, 2), *_source(case, length)), ({}, sizes, sizes), least)


def _sequence(case: MechanismCase) -> None:
    """All steps for any T and any S."""
    module = _Steps(case)
    least = _least(module)
    steps, sizes = {1: Dim("T", min=2, max=MAXIMUM)}, {1: Dim("S", min=least, max=MAXIMUM)}

    def inputs(length: int) -> tuple[Tensor, ...]:
        return _query(case, 2, length + 1), *_source(case, length)

    _compare(module, inputs, (steps, sizes, sizes), least)


def _least(module: _Steps) -> int:
    """The least S: 2; 3 for readers, whose recurrence has S - 1 steps; and the width of a narrow window."""
    least = 3 if any(isinstance(part, AbstractReader) for part in module.modules()) else 2
    return max(least, module.mechanism.window.width or 0) if module.mechanism.narrow else least


def _encoder(case: EncoderCase) -> None:
    """A source with a mask, for any S."""

    class Encodes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = case.make().double().eval()

        def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
            encoded = self.encoder.encode(ids, mask)
            return encoded.memory, *tree.leaves(encoded.final_state)

    def inputs(length: int) -> tuple[Tensor, ...]:
        return torch.randint(7, (3, length)), torch.arange(length) < torch.tensor([length, 2, 1])[:, None]

    sizes = {1: Dim("S", min=2, max=MAXIMUM)}
    _compare(Encodes(), inputs, (sizes, sizes), 2)


def _decoder(case: DecoderCase) -> None:
    """A teacher-forced pass for any T."""
    decoder = case.make().eval()
    memory = decoder.prepare(encode(case.sources(), 0))

    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = decoder

        def forward(self, inputs: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            rest = iter(leaves)
            return tuple(tree.leaves(self.decoder(inputs, tree.map(lambda _: next(rest), memory))))

    leaves = tuple(tree.leaves(memory))

    def inputs(length: int) -> tuple[Any, ...]:
        if case.num_features is not None:
            return torch.randn(tree.rows(memory), length, case.num_features, dtype=torch.float64), leaves
        return torch.randint(1, case.num_tokens or 2, (tree.rows(memory), length)), leaves

    _compare(Forces(), inputs, ({1: Dim("T", min=2, max=MAXIMUM)}, tuple(None for _ in leaves)), 2)


def _compare(module: nn.Module, inputs: Callable[[int], tuple[Any, ...]], shapes: Any, least: int) -> None:
    """Compares the program of one example with the module, for the least length and two others."""
    program = export(module, inputs(max(6, least + 1)), dynamic_shapes=shapes).module()
    for length in (least, least + 7, 40):
        example = inputs(length)
        for number, (ours, theirs) in enumerate(zip(program(*example), module(*example), strict=True)):
            require_close(ours, theirs, f"output {number} of the program for length {length}", TOLERANCE)


def _query(case: MechanismCase, *shape: int) -> Tensor:
    return torch.randn(*shape, case.query_size, dtype=torch.float64)


def _source(case: MechanismCase, length: int) -> tuple[Tensor, Tensor]:
    values = torch.randn(2, length, int(str(case.memory_size)), dtype=torch.float64)
    return values, torch.arange(length) < torch.tensor([length, 2])[:, None]


def _has_one_source(case: MechanismCase) -> bool:
    mechanism = case.make()
    return isinstance(case.memory_size, int) and not isinstance(mechanism, Parallel) and bool(mechanism.uses_query)


def _is_fixed(case: MechanismCase) -> bool:
    return case.name.startswith(tuple(FIXED))


def _feeds_back(case: DecoderCase) -> bool:
    """Whether T must be fixed."""
    return any(getattr(part, "feeds_back", None) for part in case.make().modules())
