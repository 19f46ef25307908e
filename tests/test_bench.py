from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bench import main, run
from speed import CASES, Case, Contest, arithmetic, gate, growth, judge, memory, report
from speed.case import OURS, PLAIN
from speed.clock import Quartiles, ratio, turns
from speed.machine import Rates
from speed.measurement import QUICK, measure
from torch.utils import backend_registration
from torch.utils.flop_counter import FlopCounterMode

from regard import ops
from regard.training.device import threads

TINY = {"B": 2, "T": 3, "S": 4, "D": 8}


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_every_case_passes_its_gate(case):
    name, error = gate.worst(judge(case, case.sized(quick=True)))
    assert error.passes, (name, error)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_every_way_comes_to_the_same_in_float64(case):
    contest = case.contest(torch.float64, case.sized(quick=True))
    truth = contest.sides[PLAIN]()
    for name in set(contest.sides) - {PLAIN}:
        answer = contest.sides[name]()
        assert answer.keys() == truth.keys()
        torch.testing.assert_close(dict(answer), dict(truth), rtol=1e-9, atol=1e-9)


ELSEWHERE = """
import sys
import torch
from torch import _VF, Tensor
torch.set_num_threads(1)
torch.inference_mode = torch.no_grad  # a stand-in for a device has no tensors of inference
from support.other_device import DEVICE, Elsewhere, OtherDevice
from speed import CASES

def as_cudnn(function):
    def call(*arguments):
        state = arguments[1] if isinstance(arguments[3], bool) else arguments[2]
        assert all(x.is_contiguous() for x in ([state] if isinstance(state, Tensor) else state)), "a state has gaps"
        return function(*arguments)
    return call

_VF.lstm, _VF.gru = map(as_cudnn, (_VF.lstm, _VF.gru))
for name, case in CASES.items():
    if name == "encoder-gru-unpadded":  # torch transposes its outputs in place, which a stand-in for a device cannot
        continue
    try:
        with OtherDevice():
            with torch.device(DEVICE):
                contest = case.contest(torch.float32, case.sized(quick=True))
            for side, job in {**contest.sides, **contest.yardsticks}.items():
                answer = job()
                if side in contest.sides:
                    assert all(isinstance(x, Elsewhere) for x in answer.values()), f"{side}: results on the CPU"
    except Exception as error:
        print(name, repr(error)[:300])
print("done")
"""


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends in Python",
)
def test_every_case_is_made_and_done_on_the_device_that_is_torchs_default():
    """As on a GPU, which refuses numbers and generators of the CPU; it is torch's default only when a case is made."""
    paths = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.stdout == "done\n", done.stdout + done.stderr[-3000:]


def test_every_operation_with_several_implementations_has_a_case():
    several = {name for name, found in ops.IMPLEMENTATIONS.items() if len(found) > 1}
    # cases of additive energies are named additive…; forward attention is a part of the step of speech
    assert several - {name.replace("-", "_") for name in CASES} == {"additive_energies", "forward_alignment"}


def wrong(case: Case, name: str, factor: float) -> Case:
    """The case with one result of ours off by a factor."""

    def make(dtype: torch.dtype, **sizes: int) -> Contest:
        contest = case.make(dtype, **sizes)
        answer = contest.sides[OURS]
        broken = {OURS: lambda: {**answer(), name: answer()[name] * factor}}
        return dataclasses.replace(contest, sides={**contest.sides, **broken})

    return dataclasses.replace(case, make=make)


@pytest.mark.parametrize("name", ["energies", "grad_query", "grad_keys", "grad_v"])
def test_a_result_or_gradient_that_is_slightly_off_fails_the_gate_and_gets_no_time(name):
    measured = measure(wrong(CASES["additive"], name, 1 + 1e-4), (1,), QUICK)
    assert not measured.passes
    assert {key for key, error in measured.errors.items() if not error.passes} == {name}
    said = report.times([measured])
    assert f"failed the gate**: {name} is" in said
    assert not re.search(r"\d ×", said.replace("× as far", ""))
    assert report.limits([measured], {1: Rates(1.0, 1.0)}).count("\n") == 1


def test_a_result_that_is_no_number_fails_the_gate():
    errors = judge(wrong(CASES["additive"], "grad_v", float("nan")), TINY)
    assert gate.worst(errors)[0] == "grad_v"
    assert not errors["grad_v"].passes


def test_sides_have_their_turns_and_the_first_changes():
    called = []
    sides = {name: lambda name=name: called.append(name) for name in "abc"}
    found = turns(sides, rounds=3, turn=0.0)
    assert {name: len(seconds) for name, seconds in found.items()} == {"a": 3, "b": 3, "c": 3}
    assert "".join(called) == "aabbcc" + "abc" + "bca" + "cab"


def test_ratios_are_taken_round_by_round():
    slow, fast = [2.0, 20.0, 6.0], [1.0, 10.0, 3.0]
    assert ratio(slow, fast) == Quartiles(2.0, 2.0, 2.0)


def test_counted_products_are_those_that_torch_counts():
    B, T, S, E, D, M = 3, 4, 5, 6, 8, 10
    contest = CASES["decoder"].contest(torch.float32, {"B": B, "T": T, "S": S, "E": E, "D": D, "M": M})
    with FlopCounterMode(display=False) as counter:
        contest.sides[PLAIN]()
    bridge = 2 * B * 4 * D * M  # forward, and for its weights; the encoder's state needs no gradient
    tangents = arithmetic.tangents(B * T, S, D, backward=True)
    assert counter.get_total_flops() - 2 * bridge == arithmetic.decoder_pass(B, T, S, E, D, M).operations - tangents


def test_threads_are_put_back():
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.skipif(not memory.available(), reason="the high-water mark is Linux's")
def test_memory_at_the_peak_is_what_the_way_needs():
    sizes = {"B": 4, "T": 40, "S": 50, "D": 512}
    tangents = 4 * sizes["B"] * sizes["T"] * sizes["S"] * sizes["D"]
    assert memory.extra("additive", PLAIN, sizes) > 1.5 * tangents
    assert memory.extra("additive", OURS, sizes) < 0.5 * tangents


def test_the_report_has_what_was_asked_for():
    text, passes = run(["additive-step", "errors"], quick=True)
    assert passes
    assert re.search(r"\| additive-step \| 1 \| regard \| [\d.]+ \|", text)
    assert "GFLOP/s" in text
    assert "| 0.01 | " in text
    assert "## Cost" not in text
    assert "≥" not in text  # aims are about full sizes


def test_sizes_that_grow_are_all_that_their_cases_have():
    for sweep in (*growth.SWEEPS, *growth.QUICK):
        assert {*sweep.others, sweep.letter} == set(CASES[sweep.case].sizes), (sweep.case, sweep.letter)


def test_growth_is_drawn(tmp_path):
    text, _ = run(["growth"], quick=True, pictures=tmp_path / "speed")
    assert "](speed_additive.svg)" in text
    assert (tmp_path / "speed_additive.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_command_writes_a_report(tmp_path, capsys):
    assert main(["entmax", "--quick", "--threads", "1", "--output", str(tmp_path / "speed.md")]) == 0
    assert "| entmax | 1 | plain |" in (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert "1.5-entmax" in capsys.readouterr().err


def test_the_command_fails_when_a_gate_does(monkeypatch, capsys):
    monkeypatch.setitem(CASES, "additive-step", wrong(CASES["additive-step"], "energies", 2.0))
    assert main(["additive-step", "--quick"]) == 1
    assert "failed the gate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["aditive"], "did you mean 'additive'"),
        (["--threads", "1,x"], "give numbers"),
        (["--threads", "0"], "numbers"),
        (["--threads", "1,1000000000"], "from 1 to 1024"),
    ],
)
def test_wrong_usage_is_said(arguments, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--quick", *arguments])
    assert said in capsys.readouterr().err
