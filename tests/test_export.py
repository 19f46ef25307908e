"""What torch.export makes of encoders and mechanisms serves other batches and other lengths."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.exc import UserError
from torch.export import Dim, export

from regard import ops, tree
from regard.errors import UnsupportedError
from regard.testing.source import encode
from support import exports, tiny
from support.cases import DECODERS

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "exports.py"

ENCODERS = """
import sys, torch
from torch.export import Dim, export
from regard import layers, models, tree

class Encodes(torch.nn.Module):
    def __init__(self, stack):
        super().__init__()
        self.encoder = models.RecurrentEncoder(layers.TokenEmbedding(7, 3), stack)

    def forward(self, ids, mask):
        encoded = self.encoder.encode(ids, mask)
        return encoded.memory, *tree.leaves(encoded.final_state)

for cell, bidirectional in (("lstm", True), ("gru", False), ("rnn", False), ("gru_reset_before", True)):
    torch.manual_seed(0)
    module = Encodes(layers.RecurrentStack(3, 2, cell=cell, bidirectional=bidirectional)).eval()
    ids, mask = torch.randint(7, (3, 5)), torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    sizes = {0: Dim("B", min=2), 1: Dim("S", min=2)}
    with torch.no_grad():
        program = export(module, (ids, mask), dynamic_shapes=(sizes, sizes)).module()
        others = torch.randint(7, (4, 8)), torch.arange(8) < torch.tensor([2, 8, 0, 3])[:, None]
        for ours, theirs in zip(program(*others), module(*others), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
"""


DRAWN = (
    "step: mocha",
    "step: milk, 2 heads",
    "sequence: bahdanau",
    "encoder: transformer encoder, rotary",
    "decoder: luong",
    "decoder: transformer, rotary",
    "decoder: changes of quantiles of a transformer",
)
"""A few of every family; `benchmarks/exports.py` has them all."""


ONE_BY_ONE = """
import contextlib, io, json, runpy, sys, traceback, warnings, torch

ends = {}
for name, (code, arguments) in json.load(sys.stdin).items():
    torch.compiler.reset()
    text, error = io.StringIO(), ""
    with contextlib.redirect_stdout(text), warnings.catch_warnings(), torch.enable_grad():
        try:
            if arguments is None:
                exec(code, {"__name__": "__main__"})
            else:
                sys.argv = [code, *arguments]
                runpy.run_path(code, run_name="__main__")
        except SystemExit as end:
            error = f"ended with {end.code}" if end.code else ""
        except Exception:
            error = traceback.format_exc()
    ends[name] = [text.getvalue(), error]
print(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def ends():
    """What programs print, and how they fail, in one process without the checks of types."""
    programs = {
        "encoders": (ENCODERS, None),
        "list": (str(PROGRAM), DRAWN),
        "compiled": (COMPILED, None),
        "traced": (TRACED, None),
    }
    command = [sys.executable, "-c", ONE_BY_ONE]
    done = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_recurrent_encoder_with_a_mask_is_exported_for_any_batch_and_length(ends):
    """Without the checks of types, which torch's scan cannot look into."""
    assert ends["encoders"][1] == ""


def test_what_is_exported_once_serves_other_lengths(ends):
    """Without the checks of types, which would fix the sizes."""
    printed, error = ends["list"]
    assert error == "", printed[-2000:]
    assert printed.splitlines() == [*(f"passed {name}" for name in DRAWN), f"{len(DRAWN)} of {len(DRAWN)} passed"]


def test_all_that_may_be_exported_is_on_the_list_of_exports():
    names = exports.names()
    assert set(DRAWN) <= set(names)
    assert {name.partition(":")[0] for name in names} == {"step", "sequence", "encoder", "decoder"}
    assert not [name for name in names if name.startswith(tuple(f"step: {fixed}" for fixed in exports.FIXED))]


def test_a_reader_is_not_exported_for_more_positions_than_its_passes_reach():
    class Reads(nn.Module):
        def forward(self, choose, previous):
            return ops.expected_monotonic_alignment(choose, previous)

    sizes = {1: Dim("S", min=3, max=20_000)}
    with pytest.raises(UserError, match=r"S = Dim\('S', min=3, max=16383\)"):
        export(Reads(), (torch.rand(2, 6), torch.rand(2, 6)), dynamic_shapes=(sizes, sizes))


def test_steps_that_feed_back_are_not_exported_for_any_number_and_the_step_is_named():
    decoder = DECODERS[0].make()
    memory = decoder.prepare(encode(DECODERS[0].sources(), 0))

    class Forces(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = decoder

        def forward(self, inputs):
            return self.decoder(inputs, memory).log_probabilities

    inputs = torch.randint(tiny.NUM_TOKENS, (tree.rows(memory), 5))
    with pytest.raises(UnsupportedError, match=r"context is an input of the cell\. Export `step` and loop over it"):
        export(Forces(), (inputs,), dynamic_shapes=({1: Dim("T", min=2, max=50)},))


COMPILED = """
import torch
from regard import attention

class Steps(torch.nn.Module):
    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(self, query, values, mask):
        memory = self.mechanism.prepare(values, mask=mask)
        state = self.mechanism.initial_state(memory)
        for _ in range(2):
            attended, state = self.mechanism.step(query, memory, state, alignment=True)
        return attended.context, attended.alignment

graphs = []

def backend(graph, examples):
    graphs.append(graph)
    return graph

for recipe in (attention.location_sensitive, attention.coverage):
    torch.manual_seed(0)
    graphs.clear()
    module = Steps(recipe(query_size=5, memory_size=6, size=4))
    compiled = torch.compile(module, backend=backend, fullgraph=True)
    for source in (6, 7, 12, 3):
        query, values = torch.randn(2, 5, requires_grad=True), torch.randn(2, source, 6)
        mask = torch.arange(source) < torch.tensor([source, 2])[:, None]
        results = []
        for function in (compiled, module):
            context, weights = function(query, values, mask)
            results.append((context, weights, *torch.autograd.grad(context.sum() + weights.square().sum(), query)))
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert len(graphs) <= 2, (recipe, len(graphs))
"""


def test_mechanisms_with_filters_are_compiled_once_for_a_first_source_and_once_for_all_others(ends):
    """Without the checks of types, which would be compiled as well."""
    assert ends["compiled"][1] == ""


TRACED = """
import io, warnings, torch
from regard import attention as a, layers, models, tree

class Looks(torch.nn.Module):
    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(self, query, values, mask):
        memory = self.mechanism.prepare(values, mask=mask)
        attended, _ = self.mechanism.step(query, memory, self.mechanism.initial_state(memory), alignment=True)
        return attended.context, attended.alignment

class Encodes(torch.nn.Module):
    def __init__(self, stack):
        super().__init__()
        self.encoder = models.RecurrentEncoder(layers.TokenEmbedding(7, 3), stack)

    def forward(self, ids, mask):
        encoded = self.encoder.encode(ids, mask)
        return encoded.memory, *tree.leaves(encoded.final_state)

def traced(module, example, other):
    program = torch.jit.trace(module.eval(), example, check_trace=False)
    for ours, theirs in zip(program(*other), module(*other), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    return program

warnings.simplefilter("ignore")
torch.set_grad_enabled(False)
for recipe in (a.bahdanau, a.luong, a.location_sensitive, a.coverage, a.monotonic):
    sizes = {} if recipe is a.luong else {"size": 4}
    program = traced(Looks(recipe(query_size=5, memory_size=6, **sizes)), *(
        (torch.randn(2, 5), torch.randn(2, 12, 6), torch.arange(12) < torch.tensor([12, short])[:, None])
        for short in (3, 9)
    ))
    try:
        torch.jit.save(program, io.BytesIO())
    except RuntimeError as error:
        assert recipe is a.monotonic and "Could not export Python function call" in str(error), (recipe, str(error))
    else:
        assert recipe is not a.monotonic
for cell in ("lstm", "gru", "rnn"):
    program = traced(Encodes(layers.RecurrentStack(3, 2, cell=cell, bidirectional=True)), *(
        (torch.randint(7, (3, 5)), torch.arange(5) < torch.tensor(lengths)[:, None])
        for lengths in ([5, 3, 1], [2, 5, 4])
    ))
    torch.jit.save(program, io.BytesIO())
"""


def test_steps_and_encoders_are_traced_and_what_has_a_gradient_of_its_own_cannot_be_saved(ends):
    """Without the checks of types, to which sizes are tensors in a trace."""
    assert ends["traced"][1] == ""
