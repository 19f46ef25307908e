"""Runs the examples of README.md, CONTRIBUTING.md and docs/; tests short files first and names failures at once.

Every test and every example of a docstring begins with the same seed.

Each document is one session in a folder of its own. Of its fenced blocks

- `python` runs; where it has prompts, what it prints must be what stands there;
- `console` runs line by line what follows `$ ` in bash; output that stands there must be what the command prints;
  `regard` is a fork of a process that has imported everything;
- `yaml` whose first line is `# name.yaml` becomes that file;
- all others (`sh`, `text`, …) are for reading.

In expected output `...` stands for anything.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from doctest import ELLIPSIS, OutputChecker
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

LIMIT_SECONDS = 240

LONG = (
    "tests/test_task_laws.py",
    "tests/test_attention_laws.py",
    "docs/getting-started.md",
    "tests/test_seven_cases.py",
    "tests/test_tasks_text_to_speech.py",
    "tests/test_house.py",
    "tests/test_cli_predict_files.py",
    "tests/test_tasks.py",
    "tests/test_tasks_folder.py",
    "tests/test_cli_application.py",
    "tests/test_training_recording.py",
    "tests/test_tasks_transformers.py",
    "tests/test_training_resume.py",
    "tests/test_python.py",
    "tests/test_training_loop.py",
    "tests/test_safety.py",
    "tests/test_cli_startup.py",
    "tests/test_tasks_forecasting.py",
    "tests/test_systems.py",
    "tests/test_viz_picture.py",
    "tests/test_tasks_language_modelling.py",
    "tests/test_models_vision.py",
    "tests/test_cli_verbs.py",
    "tests/test_cli_align.py",
    "tests/test_viz_captions.py",
    "tests/test_tasks_image_to_text.py",
    "tests/test_compositions.py",
    "tests/test_tasks_documents.py",
    "tests/test_tasks_speech_texts.py",
    "tests/test_data_times.py",
    "tests/test_adaptation.py",
    "tests/test_config_search.py",
    "docs/migration.md",
    "tests/test_record_models.py",
    "tests/test_layers_laws.py",
    "tests/test_over_steps_without_gradients.py",
    "tests/test_models_speech_steps.py",
    "tests/test_tasks_directions.py",
    "tests/test_config_conditions.py",
    "tests/test_attention_oracles.py",
    "tests/test_ops_transforms.py",
    "tests/test_attention_narrow.py",
    "tests/test_models_pointer.py",
    "tests/test_tasks_constraints.py",
    "docs/searching.md",
    "tests/test_models_tacotron.py",
    "tests/test_over_steps.py",
    "tests/test_viz_speech.py",
)
"""Files that take more than five seconds, the longest first. `pytest --durations=0` says what a test takes."""

MANY = 8
"""Of tests with so many sets of parameters `make test` runs every third set,"""
WHOLE = re.compile("law|oracle|golden|mutation|equations|break_is|is_refused|failures")
"""except of these."""

# Kernels for GPUs cannot be imported, nor looked through for examples, where there is no triton.
collect_ignore_glob = [] if find_spec("triton") else ["src/regard/ops/kernels/*_triton.py"]
# who imports it has a stand-in for a GPU for good
collect_ignore_glob += ["tests/support/other_device.py", "benchmarks/gpu_steps.py"]
if find_spec("transformers") is None:  # examples with vocoders need the extra `vocoder`
    collect_ignore_glob += ["src/regard/audio/vocoder/*", "docs/vocoder.md"]
if find_spec("ray") is None:  # extra `ray`
    collect_ignore_glob += ["docs/ray.md"]

os.environ["RAY_ADDRESS"] = "local"  # a cluster of its own, and none that happens to run on this machine
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: more threads wait for each other


def slow_tests() -> tuple[tuple[str, ...], dict[str, int]]:
    """How the names of slow tests begin, and of other tests n, where every nth set of their parameters is quick."""
    lines = (Path(__file__).parent / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()
    matches = [re.fullmatch(r"(?:all but one in (\d+): )?([^#].*)", line) for line in lines]
    pairs = [(match[2], match[1]) for match in matches if match]
    return tuple(name for name, n in pairs if n is None), {name: int(n) for name, n in pairs if n is not None}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow. First what is short, as most mistakes show there; then the longest, so that no core idles."""
    whole, thinned = slow_tests()
    counts = Counter(item.nodeid.partition("[")[0] for item in items)
    thinned = {test: 3 for test, count in counts.items() if count >= MANY and not WHOLE.search(test)} | thinned
    sets: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if item.nodeid.startswith(whole) or (test in thinned and sets[test] % thinned[test]):
            item.add_marker(pytest.mark.slow)
        sets[test] += 1
    places = {name: place for place, name in enumerate(LONG, start=1)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], 0))


def pytest_collection_finish() -> None:
    """What is imported and collected stays: garbage is not looked for in it."""
    gc.collect()
    gc.freeze()


class Failures:
    """Names every failure when it happens; what is behind it stands at the end of the run, as ever."""

    def __init__(self, terminal: Any) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = "" if crash is None else f": {crash.message.partition(chr(10))[0]}"
            self.terminal.ensure_newline()
            self.terminal.write_line(f"FAILED {report.nodeid}{reason}", red=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Failures are named where a terminal is written to, so not in xdist's workers."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        session.config.pluginmanager.register(Failures(terminal))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import torch  # here, because the number of threads is read when it is imported

    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:  # a millisecond less, in which torch would note where absent devices were seeded
        torch.default_generator.manual_seed(0)


def enter(namespace: dict[str, Any]) -> None:
    """A document begins: a new folder."""
    namespace["_folder"], namespace["_before"] = tempfile.mkdtemp(prefix="regard-docs-"), os.getcwd()
    os.chdir(namespace["_folder"])


def leave(namespace: dict[str, Any]) -> None:
    """A document ends."""
    os.chdir(namespace["_before"])
    shutil.rmtree(namespace["_folder"])


ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONUTF8": "1"}


@cache
def served() -> dict[str, str]:
    """An environment whose `regard` runs in forks of a process that this session has started.

    Only on Linux, as other systems have libraries that do not bear forks, or no forks.
    """
    if not sys.platform.startswith("linux"):
        return ENVIRONMENT
    folder = tempfile.mkdtemp(prefix="regard-command-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [sys.executable, str(Path(__file__).parent / "tests" / "support" / "command_server.py"), folder]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert server.stdin is not None
    assert server.stdout is not None
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    assert server.stdout.readline(), "no command is served"
    return {**ENVIRONMENT, "PATH": f"{folder}:{ENVIRONMENT['PATH']}"}


def run_console(example: Example) -> str | None:
    """Runs a `console` block and says where its output differs."""
    for entry in ("\n" + str(example.parsed)).split("\n$ ")[1:]:
        command, _, expected = entry.partition("\n")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=example.namespace["_folder"],
            env=served(),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        if done.returncode:
            return f"{command}\nended with status {done.returncode}\n{done.stdout}{done.stderr}"
        if expected.strip() and not OutputChecker().check_output(expected.rstrip() + "\n", done.stdout, ELLIPSIS):
            return f"{command}\nshould print\n{expected}\nand prints\n{done.stdout}"
    return None


def write_file(example: Example) -> None:
    """Writes a `yaml` block that names its file."""
    first = str(example.parsed).partition("\n")[0]
    if first.startswith("# ") and first.endswith(".yaml"):
        Path(example.namespace["_folder"], first.removeprefix("# ")).write_text(str(example.parsed), encoding="utf-8")


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS),
        CodeBlockParser("console", run_console),
        CodeBlockParser("yaml", write_file),
    ],
    patterns=["*.md"],
    excludes=["src/**", "benchmarks/**", "CHANGELOG.md"],
    setup=enter,
    teardown=leave,
).pytest()
