"""Hostile inputs of every kind end in a result or in a clear error: no traceback, no lost file, nothing ignored.

`benchmarks/fuzz` makes ten thousand of the same, in a process that may hang or crash.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile.kinds import KINDS, SHARES, kind_of
from hostile.trial import Refused, Trial, Verdict, judge

EXAMPLES = {"resumes": 12, "tasks": 20, "pictures": 20, "checkpoints": 30, "data files": 30}
"""Of the other kinds 40."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_input_works_or_is_a_clear_error(kind: str) -> None:
    @settings(
        max_examples=EXAMPLES.get(kind, 40),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            trial = KINDS[kind](Random(seed), folder)
            verdict = judge(trial, folder)
        assert verdict.is_good, f"{trial.about}\n\n{verdict.kind}: {verdict.detail}"

    check()


def act_of(error: BaseException | None, complaint: str | None = None, spoil: str = "") -> Trial:
    def act() -> str | None:
        if spoil:
            Path(spoil).write_text("spoilt", encoding="utf-8")
        if error is not None:
            raise error
        return complaint

    return Trial("", act, replaced={"theirs"}, survivors={"theirs/mine"})


@pytest.mark.parametrize(
    ("trial", "kind"),
    [
        (act_of(None), "worked"),
        (act_of(Refused("file.tsv: no such file")), "clear error"),
        (act_of(FileNotFoundError(2, "No such file or directory", "x.tsv")), "clear error"),
        (act_of(OSError("disk")), "raw exception"),
        (act_of(ValueError("could not convert")), "raw exception"),
        (act_of(SystemExit(3)), "raw exception"),
        (act_of(Refused(" ")), "raw exception"),
        (act_of(Refused("\x1b[2J")), "raw exception"),
        (act_of(Refused("x" * 10_000)), "raw exception"),
        (act_of(None, "beam=0 was accepted"), "ignored"),
        (act_of(None, spoil="mine"), "lost file"),
        (act_of(None, spoil="theirs"), "worked"),
        (act_of(Refused("no"), spoil="theirs"), "lost file"),
        (act_of(None, spoil="new"), "worked"),
        (act_of(None, spoil="canary"), "executed"),
    ],
)
def test_the_judgement_notices(trial: Trial, kind: str, tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).write_text("dear", encoding="utf-8")
    assert judge(trial, tmp_path).kind == kind
    assert Verdict(kind).is_good == (kind in ("worked", "clear error"))


def test_every_hundred_inputs_have_all_kinds_in_their_shares() -> None:
    drawn = [kind_of(number) for number in range(100)]
    assert {kind: drawn.count(kind) for kind in KINDS} == SHARES
