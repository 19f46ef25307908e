"""`regard predict --profile`: the table adds up, names what ran, and nothing of it stays."""

from __future__ import annotations

import re
import sys
from itertools import count

import pytest

from regard.cli import run
from regard.cli.profile import NEEDED, ROOMS, STAGES, Stopwatch, process_age, report


def shown(error: str) -> tuple[dict[str, float], float, str]:
    """The seconds by stage, their total, and what computed each operation."""
    table, _, paths = error.partition("paths taken\n")
    seconds = {row[0].strip(): float(row[1]) for row in re.findall(r"^(.+?)\s{2,}(\d+\.\d+)(?:\s|$)", table, re.M)}
    return seconds, seconds.pop("total"), paths


@pytest.mark.parametrize("words", [["attention"], ["attention"] * 40 + ["regard", "a", "mechanism"] * 30])
def test_the_table_adds_up_to_the_time_that_passed_and_names_what_ran(words, capsys, tmp_path):
    (tmp_path / "words.txt").write_text("\n".join(words))
    arguments = ["predict", "-m", "g2p-en", "-i", str(tmp_path / "words.txt")]
    assert run(arguments) == 0
    plainly = capsys.readouterr().out
    before = process_age()
    assert run([*arguments, "--profile"]) == 0
    after = process_age()
    captured = capsys.readouterr()
    assert captured.out == plainly
    seconds, total, paths = shown(captured.err)
    assert set(seconds) <= set(ROOMS)
    assert total == pytest.approx(sum(seconds.values()), abs=1e-3 * len(ROOMS))
    assert before - 0.05 <= total <= after + 0.05 or not after  # the system does not tell everywhere
    assert {"encoder", "search", "steps: attention", "steps: recurrent cells", "steps: output layer"} <= set(seconds)
    assert re.search(r"^  cells, \d+ ×: ", paths, re.M)
    assert re.search(r"^  largest, \d+ ×: ", paths, re.M)


def test_every_stage_names_functions_that_are_there_and_stay_as_they_were(capsys):
    def found():
        for _, *targets in STAGES.values():
            for target in targets:
                module, _, path = target.partition(":")
                owner = sys.modules[module]
                for name in path.split("."):
                    owner = vars(owner)[name]
                yield owner

    assert run(["predict", "-m", "g2p-en", "word", "--profile"]) == 0
    before = list(found())
    assert run(["predict", "-m", "g2p-en", "word", "--profile"]) == 0
    assert list(found()) == before
    assert not any(hasattr(function, "__wrapped__") for function in before if function.__module__ in NEEDED)


def test_an_error_has_its_table_too(capsys):
    assert run(["predict", "-m", "no-such-model", "word", "--profile"]) == 2
    captured = capsys.readouterr()
    assert "where the time went" in captured.err
    assert "no-such-model" in captured.err


def test_a_stage_has_its_time_without_that_of_stages_inside():
    ticks = count()
    watch = Stopwatch("all", 0, lambda: float(next(ticks)) + 1)
    with watch.stage("outer"), watch.stage("inner"):
        pass
    assert list(watch.around("each", iter)([5, 6])) == [5, 6]
    watch._turn()
    assert sum(watch.seconds.values()) == float(next(ticks))
    assert watch.seconds["outer"] == 2
    assert watch.seconds["inner"] == 1


def test_the_table_has_shares_and_rooms():
    text = report({"encoder": 3.0, "search": 1.0}, ["encoder: a path"])
    assert re.search(r"^encoder +3\.000 +75%  models$", text, re.M)
    assert re.search(r"^total +4\.000$", text, re.M)
    assert text.endswith("paths taken\n  encoder: a path")
