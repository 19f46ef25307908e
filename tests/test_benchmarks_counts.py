"""The script that counts code: by plain rules, with steps that run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

MODULE = '''
import numba
from regard.ops.kernels.compiled import compiled

@compiled
def loop(x):
    return x

@numba.njit(cache=True)
def other(x):
    return x

class Part:
    def refuse_numba(self):
        """Text."""

        return None

    def slower(self):
        """Why it is slow."""

    def paths(self):
        return {}
'''


@pytest.fixture
def counts(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import counts

    return counts


def test_lines_functions_and_loops_are_counted(counts, tmp_path, capsys, monkeypatch):
    for folder in ("ops", "models", "viz"):
        (tmp_path / "src/regard" / folder).mkdir(parents=True)
        (tmp_path / "src/regard" / folder / "part.py").write_text(MODULE)
    lines = len(MODULE.splitlines())
    assert list(counts.read(tmp_path).values()) == [3 * lines, 2 * lines, 3, 3, 4, 14, 3, 6, 6]
    assert counts.places(tmp_path)[0] == ("models/part.py", 3, 8)
    monkeypatch.setattr(sys, "argv", ["counts.py", str(tmp_path), "--before", str(tmp_path), "--read-only"])
    counts.main()
    assert "| compiled loops | 6 | 6 |" in capsys.readouterr().out


def test_files_that_a_step_enters_are_counted(counts):
    name, call = next(counts.calls())
    assert name == "Mechanism.step (additive)"
    assert 2 <= counts.entered(call) < 40
    assert counts.entered(lambda: None) == 0
    assert sys.getprofile() is None
