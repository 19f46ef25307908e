"""The runner of the benchmark of small data: nested subsets, a log to continue from, costs, and tables."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "small_data"

FAKE = """
import json, sys, time
from pathlib import Path
given = sys.argv[1:]
folder = Path(given[given.index("--output") + 1])
if given[0] in ("train", "distill"):
    if given[0] == "distill":
        assert all(Path(teacher, "outcome.json").exists() for teacher in given[1:3]) and "--no-relabel" in given
    if "training.epochs=0" in given:
        sys.exit("epochs: has to be more than 0")
    assert "training.threads=1" in given and "--seed" in given
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    folder.mkdir(parents=True)
    (folder / "outcome.json").write_text(json.dumps({"steps": 40, "best_step": 30, "stop_reason": "epochs"}))
else:
    beam = int(given[given.index("--beam") + 1])
    several = json.loads(given[given.index("--ensemble") + 1]) if "--ensemble" in given else []
    rate = 0.5 / beam / (1 + len(several))
    folder.write_text(json.dumps({"sequence_error_rate": rate, "symbol_error_rate": 0.1}))
"""


@pytest.fixture
def bench(monkeypatch):
    """The modules, under names that last for one test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("child", "data", "ledger", "ours", "peers", "plan", "run", "tables")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield Namespace(**{name: __import__(name) for name in names})
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def fake(tmp_path, bench, monkeypatch):
    """Stands in for `regard`, and counts its trainings."""
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    begun = []
    plainly = bench.ours.train

    def train(training, *given, **options):
        begun.append(training)
        return plainly(training, *given, command=(sys.executable, str(script)), **options)

    monkeypatch.setattr(bench.ours, "train", train)
    return begun


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "g2p"
    place.mkdir()
    for language in ("xx", "yy"):
        for part in ("train", "dev", "test"):
            lines = [f"{language}{part}{i}\tA B\n" for i in range(50)]
            (place / f"{language}_{part}.tsv").write_text("".join(lines))
    return place


def plan(tmp_path, **more):
    path = tmp_path / "plan.yaml"
    settings = {"default": [], "other": ["training.epochs=3"], **more}
    themes = {
        "languages": {"preset": "g2p", "languages": ["xx", "yy"], "seeds": [1]},
        "grid": {"preset": "g2p", "languages": ["xx", "yy"], "seeds": [1, 2], "settings": settings},
        "curves": {"preset": "g2p", "languages": ["xx"], "seeds": [1], "pairs": [None, 20]},
    }
    path.write_text(json.dumps(themes))
    return path


def call(bench, monkeypatch, *given):
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, given)])
    return bench.run.main()


def test_a_smaller_subset_is_in_every_larger_one_and_keeps_the_order_of_the_file(bench):
    lines = [f"word{i}\tA" for i in range(200)]
    small, large = bench.data.subset(lines, 30), bench.data.subset(lines, 120)
    assert len(small) == 30
    assert set(small) < set(large)
    assert large == [line for line in lines if line in set(large)]
    assert large != lines[:120]
    assert bench.data.subset(lines[::-1], 30) == small[::-1], "which words are in does not depend on their order"


def test_more_pairs_than_there_are_is_an_error(bench, folder, tmp_path):
    with pytest.raises(SystemExit, match="50 lines, and 51"):
        bench.data.cut(bench.data.spelling(folder, "xx"), 51, tmp_path)


def test_what_the_log_has_is_not_trained_again_in_no_theme(bench, fake, folder, tmp_path, monkeypatch):
    log = tmp_path / "runs" / "log.jsonl"
    given = ("--plan", plan(tmp_path), "--g2p", folder, "--log", log)
    assert call(bench, monkeypatch, "languages", *given) == 0
    assert [one.language for one in fake] == ["xx", "yy"]
    call(bench, monkeypatch, "languages", "grid", "curves", *given)
    assert len(fake) == 2 + 6 + 1, "the default with seed 1 and all pairs is done"
    call(bench, monkeypatch, "languages", "--set", "training.epochs=5", *given)
    assert len(fake) == 11
    assert fake[-1].overrides == ("training.epochs=5",)


def test_teachers_are_trained_before_their_student_and_only_once(bench, fake, folder, tmp_path, monkeypatch):
    log, path = tmp_path / "log.jsonl", plan(tmp_path)
    themes = json.loads(path.read_text())
    teachers = {"settings": {"default": [], "other": ["training.epochs=3"]}, "seeds": [1]}
    themes["students"] = themes["languages"] | {"seeds": [11], "teachers": teachers}
    path.write_text(json.dumps(themes))
    given = ("--plan", path, "--g2p", folder, "--log", log)
    call(bench, monkeypatch, "languages", *given)
    call(bench, monkeypatch, "students", *given)
    made = [(one.language, one.setting, one.seed) for one in fake[2:]]
    settings = ("other", 1), ("together", 11), ("student", 11)
    assert made == [(language, *one) for language in ("xx", "yy") for one in settings], "the defaults are done"
    entries = bench.ledger.Ledger(log).entries()
    assert [entry["dev"]["beam"]["words"] for entry in entries[2:5]] == [0.1, 0.05, 0.1]
    assert [bench.ledger.training_of(entry) for entry in entries] == fake
    call(bench, monkeypatch, "students", *given)
    assert len(fake) == 8
    assert "| **mean** | together | 2 | 25.00 | 5.00 |" in bench.tables.all_tables(themes, bench.ledger.Ledger(log))


def test_a_line_that_a_kill_broke_off_is_skipped_with_a_warning_and_trained_again(
    bench, fake, folder, tmp_path, monkeypatch, capsys
):
    log = tmp_path / "log.jsonl"
    given = ("languages", "--plan", plan(tmp_path), "--g2p", folder, "--log", log)
    call(bench, monkeypatch, *given)
    whole = log.read_bytes()
    log.write_bytes(whole[:-40])
    assert call(bench, monkeypatch, *given) == 0
    assert [one.language for one in fake] == ["xx", "yy", "yy"]
    assert "log.jsonl:2: no result, skipped" in capsys.readouterr().err
    assert [entry["language"] for entry in bench.ledger.Ledger(log).entries()] == ["xx", "yy"]


def test_cpu_seconds_are_those_of_the_training_alone_and_error_rates_those_of_both_searches(
    bench, fake, folder, tmp_path, monkeypatch
):
    log = tmp_path / "log.jsonl"
    call(bench, monkeypatch, "languages", "--plan", plan(tmp_path), "--g2p", folder, "--log", log, "--test")
    entry = bench.ledger.Ledger(log).entries()[0]
    assert 0.05 <= entry["cpu"] < 10
    assert entry["wall"] > 0
    assert (entry["steps"], entry["best_step"]) == (40, 30)
    assert entry["dev"]["greedy"]["words"] == 0.5
    assert entry["test"]["beam"]["words"] == 0.1


def test_a_failed_training_is_told_and_logged_and_tried_again_and_does_not_lose_the_others(
    bench, fake, folder, tmp_path, monkeypatch, capsys
):
    log = tmp_path / "log.jsonl"
    asked = plan(tmp_path, broken=["training.epochs=0"])
    given = ("grid", "--seeds", "1", "--languages", "xx", "--plan", asked, "--g2p", folder, "--log", log)
    assert call(bench, monkeypatch, *given) == 1
    assert "epochs: has to be more than 0" in capsys.readouterr().err
    assert len(fake) == 3
    assert "epochs" in bench.ledger.Ledger(log).entries()[-1]["error"]
    assert call(bench, monkeypatch, *given) == 1
    assert len(fake) == 4


def test_tables_have_means_over_languages_and_deviations_over_seeds(bench, tmp_path):
    log = bench.ledger.Ledger(tmp_path / "log.jsonl")
    themes = bench.plan.read(plan(tmp_path))
    for training in bench.plan.trainings(themes, "grid"):
        words = {"xx": 0.1, "yy": 0.3}[training.language] + 0.02 * training.seed + (training.setting == "other") * 0.1
        rates = {"greedy": {"words": words}, "beam": {"words": words / 2}}
        log.append(training, {"version": "1", "date": "today", "cpu": 7.0, "steps": 9, "best_step": 8, "dev": rates})
    text = bench.tables.all_tables(themes, log)
    assert "| default | 4 | 23.00 ± 1.41 | 11.50 ± 0.71 |  |  | 7 | 8 | 9 |" in text
    assert "| other | 4 | 33.00 ± 1.41 | 16.50 ± 0.71 |" in text
    assert "| xx | default | 2 | 13.00 ± 1.41 |" in text
    assert "regard 1, 8 trainings" in text


def test_curves_of_peers_stand_beside_ours(bench, tmp_path):
    log = bench.ledger.Ledger(tmp_path / "log.jsonl")
    themes = bench.plan.read(plan(tmp_path))
    themes["peers"] = {"programs": ["phonetisaurus"], "languages": ["xx"], "seeds": [1], "pairs": [None, 20]}
    for theme, search in (("curves", "beam"), ("peers", "best")):
        for training in bench.plan.trainings(themes, theme):
            words = 0.2 if training.pairs else 0.1
            log.append(training, {"version": "1", "date": "today", "cpu": 7.0, "dev": {search: {"words": words}}})
    text = bench.tables.all_tables(themes, log).partition("## Peers")[2]
    assert "| program | setting | language | 20 pairs | all pairs |" in text
    assert "| phonetisaurus | default | xx | 20.00 (7 s) | 10.00 (7 s) |" in text
    assert "| regard | default | xx | 20.00 (7 s) | 10.00 (7 s) |" in text


def test_a_child_that_fails_shows_its_last_line(bench, tmp_path):
    with pytest.raises(bench.child.Failed, match="status 3: what went wrong"):
        bench.child.run([sys.executable, "-c", "print('what went wrong'); exit(3)"], tmp_path / "log")


def test_a_child_has_one_thread(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    bench.child.run([sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"], tmp_path / "log")
    assert (tmp_path / "log").read_text() == f"1{os.linesep}"


def test_a_word_without_an_answer_is_wrong_and_any_pronunciation_is_right(bench, tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("ab\tA B\nab\tA P\nc\tK\n")
    references = bench.peers.read(path)
    assert bench.peers.rates(references, {"ab": "A P"}) == {"words": 0.5, "symbols": 1 / 3}
    assert bench.peers.rates(references, {"ab": "A P", "c": "K"}) == {"words": 0.0, "symbols": 0.0}


def test_the_plan_has_six_settings_three_seeds_and_three_languages_in_its_grid(bench):
    themes = bench.plan.read(FOLDER / "plan.yaml")
    assert len(list(bench.plan.trainings(themes, "grid"))) == 6 * 3 * 3
    from regard.config import from_preset

    for theme in ("languages", "students", "grid", "inflection", "curves"):
        for one in {(t.preset, t.overrides) for t in bench.plan.trainings(themes, theme)}:
            from_preset(one[0], ["data.train=train.tsv", "data.dev=dev.tsv", *one[1]])
