"""Warnings about many inputs are a few lines."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from regard.cli import run
from regard.data.tally import Caution, SymbolTally, summary, unknown_symbols
from test_cli_predict_files import saved


def test_warnings_that_are_alike_are_one_line() -> None:
    items = [
        (f"t:{i}", [unknown_symbols("éß" if i % 2 else "é", "read as <unk>"), "empty"][: 1 + (i == 7)])
        for i in range(9)
    ]
    assert summary(items) == [
        "9 items: read as <unk>: 'é' (9), 'ß' (4) (t:0, t:1, t:2, …)",
        "t:7: empty",
    ]
    assert summary([("t:1", [unknown_symbols("éé", "read as <unk>")])]) == ["t:1: read as <unk>: 'é'"]


def test_a_caution_keeps_its_symbols_when_it_is_sent_to_another_process() -> None:
    caution = pickle.loads(pickle.dumps(unknown_symbols("éß", "read as <unk>")))
    assert isinstance(caution, Caution)
    assert (str(caution), caution.subject, caution.names) == ("read as <unk>: 'é', 'ß'", "read as <unk>", ("é", "ß"))


def test_many_symbols_are_counted_and_not_all_named() -> None:
    tally = SymbolTally()
    tally.add("t:1", map(str, range(30)))
    tally.add("t:2", [])
    (line,) = tally.lines("item|items has|have symbols")
    assert line.startswith("1 item has symbols: '0' (1), '1' (1)")
    assert line.endswith("'19' (1) and 10 others (t:1)")
    assert SymbolTally().lines("item|items") == []


def test_an_evaluation_says_in_a_line_which_symbols_of_many_items_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = saved(tmp_path / "model"), tmp_path / "test.tsv"
    file.write_text(
        "".join(f"a{'é' * (i % 3)}{chr(0x4E00 + i)}\tx{'ˈ' * (i % 2)}\n" for i in range(40)), encoding="utf-8"
    )
    assert run(["evaluate", "--model", model, str(file)]) == 0
    lines = capsys.readouterr().err.splitlines()
    (unknown,) = (line for line in lines if "read as <unk>" in line)
    assert unknown.startswith("warning: 40 items: not in the training data, read as <unk>: 'é' (39), ")
    assert unknown.endswith(f"and 21 others ({file}:1, {file}:2, {file}:3, …)")
    (cannot,) = (line for line in lines if "cannot write" in line)
    assert cannot.startswith("warning: 20 items cannot be right, as the model cannot write symbols of the reference")
    assert cannot.endswith(f": 'ˈ' (20) ({file}:2, {file}:4, {file}:6, …)")
