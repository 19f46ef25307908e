"""`make gpu` without a GPU: what it reports, whatever its sections do, and the sections rehearsed on the CPU."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
import zipfile
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from speed import CASES
from speed.machine import Rates
from torch.utils import backend_registration

from regard import ops

FOLDER = Path(__file__).parents[1] / "benchmarks" / "gpu"
MODULES = tuple(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("conftest", "powers"))
PATHS = os.pathsep.join(str(path) for path in (FOLDER.parents[1] / "src", FOLDER.parent, FOLDER.parents[1] / "tests"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([PATHS, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def bench(monkeypatch):
    """The modules, under names that last for one test."""
    for folder in (FOLDER.parent / "peers", FOLDER):
        monkeypatch.syspath_prepend(str(folder))
    before = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    yield Namespace(**{name: __import__(name) for name in MODULES})
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def place(bench):
    return bench.place.rehearsal()


@pytest.fixture
def result(bench):
    return bench.place.Result()


def script(*arguments, **environment):
    return subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), *map(str, arguments)],
        env={**ENVIRONMENT, **environment},
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


def test_packages_that_are_missing_or_do_not_fit_are_named_with_the_command_that_downloads_them(bench, monkeypatch):
    requirement = bench.packages.Requirement
    asked = [requirement("typer>=99"), requirement("regard-of-nobody>=2"), requirement("numpy>=1")]
    monkeypatch.setattr(bench.packages, "needed", lambda: asked)
    reason = bench.run.unsupported_reason(rehearse=True)
    assert "\n  regard-of-nobody>=2 (missing)\n" in reason
    assert "typer>=99 (" in reason
    assert "numpy" not in reason
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"pip download --python-version {version} --platform manylinux2014_x86_64" in reason
    assert "'typer>=99' 'regard-of-nobody>=2'\nand here: make gpu WHEELS=wheels" in reason


def test_all_that_is_needed_is_there_and_is_what_pyproject_says(bench):
    assert {"torch", "pydantic", "typer"} <= {each.name for each in bench.packages.needed()}
    assert bench.packages.unsupported_reason() is None


def test_packages_that_only_some_sections_need_are_named_and_nothing_else_waits_for_them(bench, monkeypatch):
    project = {"dependencies": ["numpy>=1"], "optional-dependencies": {"text": ["nobody-has>=2", "numpy>=99"]}}
    monkeypatch.setattr(bench.packages, "_project", lambda: project)
    monkeypatch.setattr(bench.packages, "OPTIONAL", {"nobody-has": "presets of nobody"})
    assert bench.packages.unsupported_reason() is None
    assert "\n  nobody-has>=2 (missing; for presets of nobody)\n" in bench.packages.named(bench.packages.optional())
    project["dependencies"].append("regard-of-nobody>=2")
    assert bench.packages.unsupported_reason().endswith(
        "'regard-of-nobody>=2' 'nobody-has>=2'\nand here: make gpu WHEELS=wheels"
    )


def test_wheels_come_before_all_installed_packages(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")
    with zipfile.ZipFile(tmp_path / "typer-99.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("typer-99.0.dist-info/METADATA", "Name: typer\nVersion: 99.0\nRequires-Dist: nobody-has>=1\n")
    asked = [bench.packages.Requirement("typer>=99")]
    bench.packages.unpack(tmp_path, tmp_path / "unpacked")
    lacking = [(str(requirement), reason) for requirement, reason in bench.packages.unfit(asked)]
    assert lacking == [("nobody-has>=1", "missing")]
    assert os.environ["PYTHONPATH"] == f"{tmp_path / 'unpacked'}{os.pathsep}before"


CHILD = """
import json, subprocess, sys, time
name, output = (sys.argv[sys.argv.index(flag) + 1] for flag in ("--work", "--output"))
rows = [{"head": ["a"], "rows": [["row of " + name]]}]
figures = {"beam of 5 over 512 words": 70_000.0} if name == "searches" else {}
result = {"parts": rows, "failures": [], "figures": figures, "summary": "sum of " + name, "place": "a chip"}
if name != "tests":
    open(output, "w").write(json.dumps(result))
if name == "searches":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, file=open(FOLDER + "/pid", "w"), flush=True)
    time.sleep(600)
sys.exit(3 if name in ("kernels", "tests") else 0)
"""


@pytest.fixture
def children(bench, monkeypatch, tmp_path):
    """Sections that are processes of a few lines: one holds, one hangs, one fails, one has no result."""
    (tmp_path / "run.py").write_text(f"FOLDER = {str(tmp_path)!r}\n{CHILD}")
    monkeypatch.setattr(bench.run, "HERE", tmp_path)
    short = dataclasses.replace(bench.run.SECTIONS["searches"], seconds=5)
    monkeypatch.setitem(bench.run.SECTIONS, "searches", short)
    return bench.run


def test_the_report_is_whole_after_each_section_whatever_becomes_of_it(children, monkeypatch, tmp_path):
    names, output, made = ("training", "searches", "kernels", "tests"), tmp_path / "deep" / "gpu.md", children.outcome

    def outcome(name, seconds, *, rehearse):
        for before in names[: names.index(name)]:
            assert f"| {before} | " in output.read_text()
        return made(name, seconds, rehearse=rehearse)

    monkeypatch.setattr(children, "outcome", outcome)
    assert children.run(names, output, total=300, rehearse=False) == 1
    text = output.read_text()
    for name in names[:3]:
        assert f"row of {name}" in text
    assert "| training | held | 0 |" in text
    assert "| sum of searches |" in text
    assert "**Failed**: ended after 5 seconds; what there was by then follows" in text
    assert text.count("**Failed**: ended with status 3") == 2
    assert "training, searches, kernels: a chip." in text
    assert "| beam of 5 over 512 words | ≥ 60,000 words/s | 70,000 | 15,000 | yes |" in text
    assert "Not run yet: cases-models," in text
    pid = (tmp_path / "pid").read_text().strip()
    for _ in range(100):  # what the section had started ends with it
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    pytest.fail("the section's child is still there")


def test_sections_that_are_run_one_by_one_are_in_one_report(children, tmp_path):
    output = tmp_path / "gpu.md"
    assert children.run(["kernels"], output, total=300, rehearse=False) == 1
    assert children.run(["training"], output, total=300, rehearse=False) == 0
    text = output.read_text()
    assert text.index("row of training") < text.index("row of kernels")
    assert set(json.loads(output.with_suffix(".json").read_text())) == {"training", "kernels"}


def test_nothing_begins_when_the_time_of_all_together_is_spent(bench, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench.run, "unsupported_reason", lambda *, rehearse: None)
    monkeypatch.setattr(bench.run, "outcome", lambda *arguments, **options: pytest.fail("began"))
    assert bench.run.main(["training", "--total", "0", "--output", str(tmp_path / "gpu.md")]) == 1
    assert "no time is left for training" in capsys.readouterr().err


def test_a_section_that_there_is_not_is_refused_with_all_names(bench, capsys):
    with pytest.raises(SystemExit):
        bench.run.main(["trainings"])
    assert "there is no section trainings; there are training, searches," in capsys.readouterr().err


def test_every_section_takes_two_minutes_at_most_and_every_preset_is_in_one(bench):
    from preset_data import DATA

    assert all(section.seconds <= 120 for section in bench.run.SECTIONS.values())
    presets = [name for key, one in bench.run.SECTIONS.items() if key.startswith("presets") for name in one.arguments]
    assert sorted(presets) == sorted(DATA)
    tasks = [name for key, one in bench.run.SECTIONS.items() if key.startswith("tasks") for name in one.arguments]
    assert sorted(tasks) == sorted(bench.tasks.TASK_CASES)
    for section in bench.run.SECTIONS.values():
        module, _, function = section.function.partition(".")
        assert callable(getattr(getattr(bench, module), function))


def test_of_several_figures_of_a_target_the_least_counts(bench):
    target = bench.run.TARGETS[-2].figure
    empty = {"parts": [], "failures": [], "summary": "", "place": "a chip", "seconds": 1, "date": "today"}
    results = {name: {**empty, "figures": {target: 3.0 / n}} for n, name in enumerate(("training", "kernels"), start=1)}
    assert f"| {target} | ≥ 1 × | 1.5 | 0.22 | yes |" in bench.run.report(results)
    results["kernels"]["figures"][target] = 0.9
    assert f"| {target} | ≥ 1 × | 0.9 | 0.22 | **no** |" in bench.run.report(results)
    assert "| greedy beside a beam of 5 | ≥ 1 × | not measured | 0.65 |  |" in bench.run.report(results)


def test_rates_are_measured_by_the_clock_of_the_place(bench, place):
    ticks = iter(range(10**9))
    counted = dataclasses.replace(place, clock=lambda: float(next(ticks)))
    assert bench.place.rates(counted, torch.bfloat16).operations == 2 * place.width**3, "a call takes a second"


def test_kernels_that_are_off_fail_and_have_no_time(bench, place):
    """The reference stands in for Triton's kernels: right, then twice as large."""
    reference = ops.IMPLEMENTATIONS["additive_energies"][-1].function
    for factor, holds in ((1.0, True), (2.0, False)):
        result = bench.place.Result()
        for case in bench.kernels.cases(
            place, lambda *inputs, factor=factor, **form: factor * reference(*inputs, **form)
        ):
            row = bench.kernels.measured(place, case, torch.bfloat16, Rates(1e9, 1e9), result, 1e9)
            assert (row[8] != "") == holds, row
            assert len(row) == 17
        assert (result.failures == []) == holds
        assert len(result.figures) == holds


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_are_rehearsed_in_tritons_interpreter(tmp_path):
    output = tmp_path / "result.json"
    done = script("--rehearse", "--work", "kernels", "--output", output, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(output.read_text())
    assert result["failures"] == []
    assert result["summary"] == "18 of 18 rows within the gate"


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


def rows(result):
    """The rows of the first table."""
    return next(part["rows"] for part in result.parts if isinstance(part, dict))


def test_training_and_searches_of_the_recipe_are_rehearsed(bench, place):
    trained, searched = bench.place.Result(), bench.place.Result()
    bench.training.recipe(place, trained)
    bench.searches.recipe(place, searched)
    assert trained.failures == searched.failures == []
    assert [row[:3] for row in rows(trained)] == [["g2p-en", "float32", "1 ×"], ["g2p-en", "bfloat16", "1 ×"]]
    assert rows(trained)[0][-1] == "steps are recorded on a GPU"
    assert [row[0] for row in rows(searched)] == [f"beam {n}, {t}" for n in (5, 1) for t in ("float32", "bfloat16")]
    targets = {target.figure for target in bench.run.TARGETS}
    assert len(targets & {*trained.figures, *searched.figures}) == 4


def test_a_preset_that_fails_loses_no_other_one(bench, place, result, monkeypatch):
    real = bench.training.builder

    def builder(name, *arguments, **settings):
        if name == "speech":
            raise RuntimeError("out of memory")
        return real(name, *arguments, **settings)

    monkeypatch.setattr(bench.training, "builder", builder)
    bench.training.presets(place, result, "speech", "forecasting")
    assert result.failures == ["speech: RuntimeError: out of memory"]
    assert [row[:2] for row in rows(result)] == [["forecasting", kind] for kind in ("float32", "bfloat16")]


def test_outputs_of_presets_are_rehearsed(bench, place, result):
    bench.searches.presets(place, result)
    assert result.failures == []
    assert len(rows(result)) == 4
    assert "synthesis of speech, sentences" in result.figures


def test_cases_are_rehearsed_beside_plain_torch(bench, place, result):
    bench.beside_plain.cases(place, result, [CASES["decoder"], CASES["masked-softmax"]])
    assert result.failures == []
    assert [row[:2] for row in rows(result)] == [
        [name, kind] for name in ("decoder", "masked-softmax") for kind in ("float32", "bfloat16")
    ]
    assert [row[7] for row in rows(result)] == ["≥ 1 ×", "≥ 4 ×", "≥ 1 ×", "≥ 1 ×"]
    assert len(result.figures) == 3


def test_a_case_that_is_off_or_cannot_run_loses_no_other_one(bench, place, result):
    def off(dtype, **sizes):
        contest = CASES["masked-softmax"].contest(dtype, sizes)
        plain = contest.sides["plain"]
        return dataclasses.replace(
            contest, sides={**contest.sides, "regard": lambda: {k: 1.1 * x for k, x in plain().items()}}
        )

    def broken(dtype, **sizes):
        raise RuntimeError("no kernel image")

    right = CASES["masked-softmax"]
    bench.beside_plain.cases(place, result, [*(dataclasses.replace(right, make=make) for make in (off, broken)), right])
    assert len(result.failures) == 4
    assert result.failures[2] == "masked-softmax, float32: RuntimeError: no kernel image"
    assert len(rows(result)[-1]) == 10


def test_a_transformers_training_is_rehearsed_beside_torchs(bench, place, result):
    bench.beside_plain.transformer(place, result)
    assert [row[0] for row in rows(result)] == ["float32", "bfloat16"]
    assert list(result.figures) == ["translation-transformer beside nn.Transformer compiled"]


def test_a_task_is_trained_in_its_formats_and_predicts_as_on_the_cpu(bench, place, result):
    bench.tasks.section(place, result, "labelling")
    assert result.failures == []
    assert [row[:3] for row in rows(result)] == [["labelling", kind, "held"] for kind in ("float32", "bfloat16")]


def test_every_list_is_compared(bench, place, monkeypatch):
    """The last case of each."""
    last = {name: getattr(bench.parity.lists, name)[-1:] for name in bench.parity.lists.__all__ if name.isupper()}
    monkeypatch.setattr(bench.parity, "lists", Namespace(**{**vars(bench.parity.lists), **last}))
    made = []
    for section in (bench.parity.mechanisms, bench.parity.decoders, bench.parity.searches, bench.parity.parts):
        result = bench.place.Result()
        section(place, result)
        assert result.failures == []
        made += rows(result)
    assert len(made) == 2 * 9
    assert all(row[2:4] == ["1 of 1", "0.0e+00"] for row in made)


def test_what_differs_from_the_cpu_or_fails_is_named(bench, place, result):
    calls = []

    def job(case, device, dtype):
        calls.append(device)
        if case.name == "failing":
            raise RuntimeError("an illegal memory access")
        x = torch.tensor([1.0, float("-inf"), 1.0 + (len(calls) % 2) * case.off])
        return {"context": x}

    cases = [SimpleNamespace(name=f"off by {off}", off=off) for off in (0.0, 1e-5)] + [SimpleNamespace(name="failing")]
    bench.parity.compare(place, result, {"all": (cases, job)})
    assert result.failures == [
        "off by 1e-05, float64: context differs by 1.0e-05",
        "failing, float64: RuntimeError: an illegal memory access",
        "failing, float32: RuntimeError: an illegal memory access",
    ]
    assert [row[2] for row in rows(result)] == ["1 of 3", "2 of 3"]
    nan = {"x": torch.tensor([float("nan")])}
    assert bench.parity.difference({"x": torch.ones(1)}, nan) == (float("inf"), "x")
    assert bench.parity.difference({"x": torch.ones(1)}, {"y": torch.ones(1)}) == (float("inf"), "x, y")


ELSEWHERE = """
import dataclasses, sys
import torch
torch.set_num_threads(1)
torch.inference_mode = torch.no_grad  # a stand-in for a device has no tensors of inference
from support.other_device import DEVICE, OtherDevice
import parity, place
for name in filter(str.isupper, parity.lists.__all__):
    setattr(parity.lists, name, getattr(parity.lists, name)[::12])
parity.SEARCHES = parity.SEARCHES[:3]  # a stand-in for a device has no generators, which samples have
there, result = dataclasses.replace(place.rehearsal(), device=DEVICE), place.Result()
with OtherDevice():
    parity.parts(there, result)
    parity.mechanisms(there, result)
    parity.decoders(there, result)
    parity.searches(there, result)
print(*result.failures, result.summary, sep="\\n")
"""


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends in Python",
)
def test_cases_run_on_another_device():
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{FOLDER}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n") == 1, done.stdout


COUNTED = """
import torch
from torch import nn
from gpu_steps import FakeTensorMode, Launches, gpu, moved, on_gpu
network, lengths = nn.ModuleList([nn.LSTM(4, 5, batch_first=True), nn.LayerNorm(5)]), torch.tensor([3, 1])
for half in (None, torch.bfloat16):
    mode, launches = FakeTensorMode(allow_non_fake_inputs=True), Launches()
    with mode:
        moved(network)
        there = on_gpu(lengths)
    with mode, launches, gpu(network, half):
        mask = torch.arange(3, device=there.device) < there[:, None]
        x = torch.zeros(2, 3, 4, device=mask.device)
        assert x.is_cuda and x.device.type == "cuda"
        assert len(x[mask]) == 4 and int(there.max()) == 3
        outputs, _ = network[0](x)
        assert outputs.dtype == (half or torch.float32)
        network[1](outputs).sum().backward()
    names = ("new_zeros", "zeros_like", "native_layer_norm", "_to_copy")
    print(launches.waits, *(launches.counts[f"aten.{name}.default"] for name in names))
"""


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends in Python",
)
def test_operators_are_counted_as_a_gpu_takes_them():
    """Numbers that are read are those of the batch; a layer is one operator in each direction; half types convert."""
    done = subprocess.run([sys.executable, "-c", COUNTED], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    # inputs and four weights to bfloat16, outputs to float32, and the gradients of outputs and weights back
    assert done.stdout.splitlines() == ["2 1 1 1 0", "2 1 1 1 11"]


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
    result = bench.place.Result()
    bench.suite.section(dataclasses.replace(place, is_full=True), result)
    assert result.failures == ([] if failure is None else [failure])


def test_tests_run_without_the_packages_of_conftest(bench, place, result, monkeypatch):
    real, commands = bench.suite.find_spec, []
    monkeypatch.setattr(bench.suite, "find_spec", lambda name: None if name == "sybil" else real(name))

    def run(command, **options):
        commands.append(command)
        return SimpleNamespace(stdout="PASSED a\n", stderr="", returncode=0)

    monkeypatch.setattr(bench.suite.subprocess, "run", run)
    bench.suite.section(place, result)
    assert "--noconftest" in commands[0]
    assert "without sybil" in result.parts[0]
