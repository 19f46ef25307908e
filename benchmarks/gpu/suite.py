"""The tests that need a GPU: those with the marker `gpu`."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from place import Place, Result

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for path in (ROOT / "tests").glob("test_*.py") if "pytest.mark.gpu" in path.read_text(encoding="utf-8")
)
"""Only these are imported, as other tests need more packages."""
CONFTESTS = ("sybil", "beartype", "hypothesis")
"""Packages that the files conftest.py need beside pytest."""


def section(place: Place, result: Result) -> None:
    """Runs the tests; all have to pass, and on a GPU none may be skipped."""
    if find_spec("pytest") is None:
        result.failures.append("pytest is not installed")
        return
    if not FILES:
        result.failures.append(f"no test in {ROOT / 'tests'} has the marker gpu")
        return
    absent = [name for name in CONFTESTS if find_spec(name) is None]
    options = [
        "-m",
        "gpu",
        "-o",
        "addopts=-q",
        "-p",
        "no:cacheprovider",
        "-rA",
        "--tb=short",
        "-o",
        "markers=gpu\nslow",
    ]
    command = [sys.executable, "-m", "pytest", *options, *(["--noconftest"] if absent else []), *map(str, FILES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout, done.stderr, file=sys.stderr)
    outcomes = [line for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR", "SKIPPED"))]
    passed = sum(line.startswith("PASSED") for line in outcomes)
    result.failures += [line for line in outcomes if line.startswith(("FAILED", "ERROR"))]
    if place.is_full:
        result.failures += [line for line in outcomes if line.startswith("SKIPPED")]
    if done.returncode and not result.failures:
        result.failures.append(f"pytest ended with status {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    elif not passed and place.is_full:
        result.failures.append("no test ran")
    checks = f"without {', '.join(absent)}, so annotations of shapes were not checked" if absent else "with all checks"
    result.parts.append(f"{passed} passed, {checks}:\n\n" + "\n".join(f"    {line}" for line in outcomes))
    result.summary = f"{passed} passed"
