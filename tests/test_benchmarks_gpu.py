"""`make gpu` without a GPU: what it says, and its sections rehearsed on the CPU."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from speed.machine import Rates

import regard
from regard import ops

FOLDER = Path(__file__).parents[1] / "benchmarks" / "gpu"
MODULES = ("chip", "kernels", "place", "recipe", "run", "suite")


@pytest.fixture
def bench(monkeypatch):
    """The modules, under names that last for one test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    yield Namespace(**{name: __import__(name) for name in MODULES})
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def place(bench):
    return bench.place.rehearsal()


def script(*given, **environment):
    paths = os.pathsep.join([str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), *map(str, given)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_without_a_gpu_it_says_so_in_a_line_and_fails(tmp_path):
    done = script("--output", tmp_path / "gpu.md", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stderr.startswith("There is no GPU that torch")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "gpu.md").exists()


def test_packages_that_are_missing_are_named_before_anything_is_tried(bench, monkeypatch):
    real = find_spec
    monkeypatch.setattr(bench.run, "find_spec", lambda name: None if name in ("yaml", "jaxtyping") else real(name))
    assert "missing: pyyaml, jaxtyping" in bench.run.refuse(rehearse=True)
    monkeypatch.setattr(bench.run, "find_spec", lambda name: None if name == "regard" else real(name))
    assert "PYTHONPATH=src" in bench.run.refuse(rehearse=True)


def sections(bench, monkeypatch, **bodies):
    """Sections of one module each, written for a test."""
    made = {name: bench.run.Section(name.title(), f"{name}.section", seconds) for name, (_, seconds) in bodies.items()}
    monkeypatch.setattr(bench.run, "SECTIONS", made)
    return made


def test_a_section_that_fails_or_hangs_does_not_lose_the_others(bench, monkeypatch, tmp_path):
    found = {
        "chip": {"parts": ["| a |"], "figures": "fine", "place": "a chip", "failures": [], "seconds": 1},
        "kernels": {
            "parts": ["    Traceback"],
            "figures": "",
            "place": "",
            "failures": ["ended with status 1"],
            "seconds": 2,
        },
        "tests": {"parts": ["| b |"], "figures": "7 passed", "place": "a chip", "failures": [], "seconds": 1},
    }
    asked = []
    monkeypatch.setattr(bench.run, "refuse", lambda *, rehearse: None)
    monkeypatch.setattr(bench.run, "outcome", lambda name, seconds, *, rehearse: asked.append(name) or found[name])
    output = tmp_path / "deep" / "gpu.md"
    assert bench.run.main(["--sections", ",".join(found), "--output", str(output)]) == 1
    text = output.read_text()
    assert asked == list(found)
    assert "| Triton kernels | failed | 2 |  |" in text
    assert "**Failed**: ended with status 1" in text
    assert "| Tests that need a GPU | held | 1 | 7 passed |" in text
    assert "a chip" in text
    del found["kernels"]
    assert bench.run.main(["--sections", ",".join(found), "--output", str(output)]) == 0


def test_what_runs_too_long_is_ended_with_all_its_processes(bench, tmp_path, monkeypatch):
    """The process of a section that sleeps, and the one that it started."""
    (tmp_path / "run.py").write_text(
        "import subprocess, sys, time\n"
        "print('began', flush=True)\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"print(child.pid, file=open({str(tmp_path / 'pid')!r}, 'w'), flush=True)\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(bench.run, "HERE", tmp_path)
    for seconds in (1, 5, 60):  # until the section had the time to begin
        found = bench.run.outcome("chip", seconds, rehearse=False)
        if (tmp_path / "pid").exists():
            break
    assert found["failures"] == [f"ended after {seconds} seconds"]
    assert "began" in found["parts"][0]
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    pytest.fail("the section's child is still there")


def test_time_that_is_spent_is_told_and_nothing_is_begun(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench.run, "refuse", lambda *, rehearse: None)
    monkeypatch.setattr(bench.run, "outcome", lambda *given, **options: pytest.fail("began"))
    output = tmp_path / "gpu.md"
    assert bench.run.main(["--seconds", "0", "--sections", "chip", "--output", str(output)]) == 1
    assert "no time was left" in output.read_text()


def test_all_sections_together_have_ten_minutes(bench):
    assert bench.run.TOTAL <= 600
    assert sum(one.seconds for name, one in bench.run.SECTIONS.items() if "compiled" not in name) <= 600


def test_rates_are_measured_by_the_clock_of_the_place(bench, place):
    ticks = iter(range(10**9))
    counted = dataclasses.replace(place, clock=lambda: float(next(ticks)))
    result = bench.chip.section(counted)
    assert result.failures == []
    assert "| bfloat16 | 0.0 | 0 |" in result.parts[0], "a call takes a second of such a clock"


def test_kernels_that_are_off_fail_and_have_no_time(bench, place):
    """The reference stands in for Triton's kernels: right, then off by a thousandth."""
    reference = ops.IMPLEMENTATIONS["additive_energies"][-1].function
    limit = Rates(1e9, 1e9)
    for factor, holds in ((1.0, True), (1.001, False)):
        result = bench.place.Result()
        for case in bench.kernels.cases(
            place, lambda *given, factor=factor, **form: factor * reference(*given, **form)
        ):
            row = bench.kernels.measured(place, case, torch.float32, limit, result)
            assert (row[8] != "") == holds, row
            assert len(row) == 16
        assert (result.failures == []) == holds


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_are_rehearsed_in_tritons_interpreter(tmp_path):
    done = script("--rehearse", "--section", "kernels", "--output", tmp_path / "result.json", TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["failures"] == []
    assert result["figures"] == "18 of 18 rows within the gate"


def test_times_of_kernels_are_those_of_the_profilers_events(bench):
    events = [
        SimpleNamespace(key="energies_kernel", count=10, device_time_total=1000.0),
        SimpleNamespace(key="rows_kernel_0d1d", count=10, device_time_total=600.0),
        SimpleNamespace(key="rows_kernel_0d2d", count=10, device_time_total=400.0),
        SimpleNamespace(key="void at::native::add", count=3, device_time_total=5.0),
    ]
    needed = bench.kernels.work_of(B=2, T=3, S=4, D=5)
    assert bench.kernels.seconds_of(events, needed) == {"energies_kernel": (10, 1e-3), "rows_kernel": (20, 1e-3)}
    assert needed["energies_kernel"].operations == 2 * 3 * 4 * 5 * 6
    assert bench.kernels.against(needed["energies_kernel"], 1e-6, Rates(7.2e8, 7.52e8)) == [
        "0.376",
        "50%",
        "0.72",
        "100%",
    ]


def test_the_recipe_is_rehearsed_in_training_and_decoding(bench, place):
    trained, decoded = bench.recipe.training(place), bench.recipe.decoding(place)
    assert trained.failures == []
    assert decoded.failures == []
    assert [row.split(" | ")[0] for row in trained.parts[0].splitlines()[2:]] == ["| float32", "| bfloat16"]
    assert len(decoded.parts[0].splitlines()) == 2 + 4


@pytest.mark.slow
def test_the_recipe_is_rehearsed_with_its_loss_compiled():
    """In a process of its own, as it changes how loops are compiled; traced only, as there may be no C++ compiler."""
    code = (
        f"import sys; sys.path[:0] = [{str(FOLDER)!r}, {str(FOLDER.parent)!r}]\n"
        "import place, recipe\n"
        "from regard.tasks import compilation\n"
        "compilation.BACKEND = 'eager'\n"
        "result = recipe.compiled_bfloat16(place.rehearsal())\n"
        "print(result.failures, result.parts[0])\n"
    )
    paths = os.pathsep.join([str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=280)
    assert done.stdout.startswith("[] "), done.stdout + done.stderr[-2000:]
    assert "| bfloat16 | compiled |" in done.stdout


def test_synthetic_words_are_the_same_each_time_and_as_long_as_english_ones(bench):
    lines = bench.recipe.words(50, 1).splitlines()
    assert lines == bench.recipe.words(50, 1).splitlines() != bench.recipe.words(50, 2).splitlines()
    assert all(
        3 <= len(word) <= 14 and len(word) == len(phones.split()) for word, phones in (x.split("\t") for x in lines)
    )


def test_the_files_with_tests_for_a_gpu_are_found(bench):
    assert {path.name for path in bench.suite.FILES} >= {"test_ops_additive_triton.py"}


@pytest.mark.parametrize(
    ("printed", "status", "failure"),
    [
        ("PASSED tests/a.py::x\nPASSED tests/a.py::y\n", 0, None),
        ("PASSED tests/a.py::x\nFAILED tests/a.py::y - wrong\n", 1, "FAILED tests/a.py::y - wrong"),
        ("PASSED tests/a.py::x\nSKIPPED [1] tests/a.py: no triton\n", 0, "SKIPPED [1] tests/a.py: no triton"),
        ("", 0, "no test ran"),
        ("usage: broken", 4, "pytest ended with status 4: usage: broken"),
    ],
)
def test_a_test_that_fails_or_is_skipped_on_a_gpu_is_a_failure(bench, place, monkeypatch, printed, status, failure):
    monkeypatch.setattr(
        bench.suite.subprocess,
        "run",
        lambda *given, **options: SimpleNamespace(stdout=printed, stderr="", returncode=status),
    )
    result = bench.suite.section(dataclasses.replace(place, is_full=True))
    assert result.failures == ([] if failure is None else [failure])


def test_tests_run_without_the_packages_of_conftest(bench, place, monkeypatch):
    real, commands = bench.suite.find_spec, []
    monkeypatch.setattr(bench.suite, "find_spec", lambda name: None if name == "sybil" else real(name))

    def run(command, **options):
        commands.append(command)
        return SimpleNamespace(stdout="PASSED a\n", stderr="", returncode=0)

    monkeypatch.setattr(bench.suite.subprocess, "run", run)
    result = bench.suite.section(place)
    assert "--noconftest" in commands[0]
    assert "without sybil" in result.parts[0]
