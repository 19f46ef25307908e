"""BLEU and chrF, and parallel files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.cli import run
from regard.data.text import Field, ParallelText, open_pairs
from regard.data.text.references import parallel
from regard.decoding import Prediction
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.metrics import corpus_score
from regard.runs.fingerprints import fingerprint
from regard.runs.report import write_report
from regard.runs.store import save
from regard.runs.training import selected
from regard.tasks import TextToText
from regard.tasks import load as load_model
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig

sacrebleu = pytest.importorskip("sacrebleu")

OUTPUTS = ["The cat sat on the mat .", "There is a dog here .", "Nothing at all"]
FIRST = ["The cat sat on a mat .", "A dog is here .", "Nothing at all"]
SECOND = ["A cat sat on the mat .", "There is a dog !", "nothing whatever"]


def model(**data: Any) -> TextToText:
    torch.manual_seed(0)
    side = {"size": 6, "embedding_size": 4, "dropout": 0.0}
    words = {"units": "word"}
    config = TextToTextConfig(
        data={"train": "x.tsv", "target": words, **data}, model={"encoder": side, "decoder": side}
    )
    field = Field.build(config.data.target, [" ".join(FIRST)])
    return TextToText.build(config, Field.build(SideConfig(), ["abc"]), field)


def says(monkeypatch: pytest.MonkeyPatch, given: TextToText, outputs: list[str]) -> TextToText:
    """The model, which answers these texts whatever it is asked."""
    made = [Prediction([], given.target.split(text), text, 0.0, 0.0, "length") for text in outputs]
    monkeypatch.setattr(given, "predict", lambda inputs, **options: made[: len(inputs)])
    return given


def written(folder: Path, name: str, texts: list[str]) -> Path:
    (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("tokenize", ["13a", "none", "char"])
def test_bleu_is_that_of_sacrebleu_with_one_reference_or_several(tokenize: str) -> None:
    one = corpus_score("bleu", OUTPUTS, [[text] for text in FIRST], tokenize=tokenize)
    assert one.value == sacrebleu.corpus_bleu(OUTPUTS, [FIRST], tokenize=tokenize).score
    two = corpus_score("bleu", OUTPUTS, list(zip(FIRST, SECOND)), tokenize=tokenize)
    assert two.value == sacrebleu.corpus_bleu(OUTPUTS, [FIRST, SECOND], tokenize=tokenize).score
    assert f"nrefs:2|case:mixed|eff:no|tok:{tokenize}|" in two.signature
    assert sacrebleu.__version__ in two.signature


def test_chrf_and_letter_case_and_numbers_of_references_that_differ() -> None:
    chrf = corpus_score("chrf", OUTPUTS, [[text] for text in FIRST])
    assert chrf.value == sacrebleu.corpus_chrf(OUTPUTS, [FIRST]).score
    uneven = corpus_score("bleu", OUTPUTS, [[FIRST[0], SECOND[0]], [FIRST[1]], [FIRST[2], SECOND[2]]])
    assert uneven.value == sacrebleu.corpus_bleu(OUTPUTS, [FIRST, [SECOND[0], None, SECOND[2]]]).score
    lower = corpus_score("bleu", ["THE CAT SAT ON"], [["the cat sat on"]], lowercase=True)
    assert lower.value == pytest.approx(100)
    assert "case:lc" in lower.signature


@pytest.mark.parametrize("word", ["cat", "\N{LOWER ONE EIGHTH BLOCK}cat"])
def test_a_report_says_what_marks_the_beginning_of_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    given = says(monkeypatch, model(target={"units": "whitespace"}), [f"a {word}"])
    file = written(tmp_path, "test.tsv", ["ab\ta dog"])
    page = write_report(given, given.evaluate(file), tmp_path / "r.html").read_text(encoding="utf-8")
    assert ("begins a word." in page) == (word != "cat")


def test_what_cannot_be_computed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no tokenizer '13b'; it has 13a, char"):
        corpus_score("bleu", ["a"], [["a"]], tokenize="13b")
    with pytest.raises(ConfigError, match="no metric 'blue'"):
        corpus_score("blue", ["a"], [["a"]])  # type: ignore[arg-type]
    for outputs, references in (([], []), (["a"], []), (["a"], [[]])):
        with pytest.raises(RegardError, match=r"the same number of outputs and items|has no reference"):
            corpus_score("bleu", outputs, references)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'regard\[text\]'"):
        corpus_score("bleu", ["a"], [["a"]])


def test_line_n_belongs_to_line_n_of_every_file_of_references(tmp_path: Path) -> None:
    source = written(tmp_path, "a", ["x", "y", "x"])
    first, second = written(tmp_path, "b", ["1", "2 ", "3"]), written(tmp_path, "c", ["4", "2", "5"])
    items = parallel(source, [first, second], normalise_target=str.strip)
    assert [(one.source, one.references, one.place) for one in items] == [
        ("x", ("1", "4"), f"{source}:1"),
        ("y", ("2 ",), f"{source}:2"),
        ("x", ("3", "5"), f"{source}:3"),
    ]
    with pytest.raises(DataError, match=r"same number of lines.\n.*a: 3 lines\n.*d: 1 lines"):
        parallel(source, [first, written(tmp_path, "d", ["1"])])


@pytest.mark.parametrize("name", ["train", "train.1", "start_from.train.0"])
def test_parallel_files_that_a_model_or_its_start_was_trained_on_are_refused(tmp_path: Path, name: str) -> None:
    source, target = written(tmp_path, "a.en", ["a"]), written(tmp_path, "a.de", ["b"])
    trained = model()
    trained.fingerprints = {name: fingerprint(target)}
    with pytest.raises(DataError, match="was trained on this file"):
        trained.evaluate(source, references=[target])


def test_parallel_files_are_evaluated_with_bleu_of_whole_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path, "test.en", ["a", "b", "a"])
    targets = [written(tmp_path, "test.1", FIRST), written(tmp_path, "test.2", SECOND)]
    given = says(monkeypatch, model(), OUTPUTS)
    evaluation = given.evaluate(source, references=targets)
    assert evaluation.metrics["items"] == 3
    assert evaluation.metrics["bleu"] == sacrebleu.corpus_bleu(OUTPUTS, [FIRST, SECOND]).score
    assert evaluation.metrics["chrf"] == sacrebleu.corpus_chrf(OUTPUTS, [FIRST, SECOND]).score
    assert f"\nBLEU {evaluation.metrics['bleu']:.2f}  nrefs:2|" in str(evaluation)
    only = given.evaluate(source, references=targets[:1], metrics=["bleu"], tokenize="none")
    assert list(only.corpus) == ["bleu"]
    assert only.metrics["bleu"] == sacrebleu.corpus_bleu(OUTPUTS, [FIRST], tokenize="none").score
    characters = says(monkeypatch, model(target={"units": "whitespace"}), OUTPUTS)
    assert characters.evaluate(source, references=targets).corpus == {}
    lower = says(monkeypatch, model(target={"units": "word", "case": "lower"}), [text.lower() for text in OUTPUTS])
    assert "case:lc" in lower.evaluate(source, references=targets[:1]).corpus["bleu"].signature


def test_parallel_files_that_were_trained_on_are_refused(tmp_path: Path) -> None:
    source, target = written(tmp_path, "a", ["x"]), written(tmp_path, "b", ["y"])
    given = model()
    given.fingerprints = {"train.0": fingerprint(source), "train.1": fingerprint(target)}
    with pytest.raises(DataError, match="a: model was trained on this file"):
        given.evaluate(source, references=[target])
    with pytest.raises(DataError, match="b: model was trained on this file"):
        given.evaluate(written(tmp_path, "c", ["z"]), references=[target])
    with pytest.raises(DataError, match="no lines"):
        given.evaluate(written(tmp_path, "d", []), references=[written(tmp_path, "e", [])])


def test_the_command_evaluates_and_predicts_parallel_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save(model(), tmp_path / "model")
    written(tmp_path, "test.en", ["ab", "c"])
    written(tmp_path, "test.de", ["The mat", "a dog"])
    command = ["evaluate", "-m", "model", "--beam", "1"]
    assert run([*command, "--source", "test.en", "--target", "test.de", "--target", "test.de"]) == 0
    assert "2 items" in (said := capsys.readouterr().out)
    assert "BLEU 0.00  nrefs:1|case:mixed|eff:no|tok:13a|" in said
    arguments = ["--source", "test.en", "--target", "test.de", "--bleu-tokenize", "none", "--json"]
    assert run([*command, *arguments]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert "|tok:none|" in figures["signatures"]["bleu"]
    assert figures["items"] == 2
    assert isinstance(figures["items"], int)
    for wrong in ([], ["test.en", "--source", "test.en"], ["--source", "test.en"], ["--target", "test.de"]):
        assert run([*command, *wrong]) == 2
        assert "Give FILE, or of parallel texts --source FILE --target FILE." in capsys.readouterr().err
    assert run([*command, "--source", "test.en", "--target", "test.de", "--metric", "blue"]) == 2
    assert "There is no metric 'blue'" in capsys.readouterr().err
    assert run([*command, "test.en"]) == 2
    assert "use --source FILE --target FILE\n  of other commands." in capsys.readouterr().err
    assert run(["predict", "-m", "model", "-i", "test.en", "--format", "text", "-o", "out.de"]) == 0
    texts = [one.text for one in load_model("model", device="cpu").predict(["ab", "c"])]
    assert (tmp_path / "out.de").read_text(encoding="utf-8").splitlines() == texts


def test_bleu_chooses_the_best_validation_and_larger_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.config import from_preset
    from regard.runs import training as tasks_run
    from regard.training import Outcome

    written(tmp_path, "a", ["abc", "bca", "cab"] * 4)
    written(tmp_path, "b", ["one two", "two three", "three one"] * 4)
    written(tmp_path, "c", ["acb", "bac"])
    written(tmp_path, "d", ["one", "two three one two three one"])
    taken: dict[str, Any] = {}

    def loop(trainee: Any, config: Any, folder: Path, **options: Any) -> Any:
        taken.update(options, metrics=trainee.validate().metrics)
        return Outcome(0, 0, best=None, best_step=None, stop_reason="interrupted", seconds=0.0)

    monkeypatch.setattr(tasks_run, "run_loop", loop)
    pairs = f"data.train={{source: {tmp_path / 'a'}, target: {tmp_path / 'b'}}}"
    held = f"data.dev={{source: {tmp_path / 'c'}, target: {tmp_path / 'd'}}}"
    settings = [pairs, held, "data.target.units=word", "select=bleu", "training.samples=0"]
    tasks_run.train(from_preset("text-to-text", settings), tmp_path / "run")
    assert (taken["select"], taken["larger_is_better"]) == ("bleu", True)
    assert 0 <= taken["metrics"]["bleu"] <= 100
    assert "chrf" not in taken["metrics"]
    monkeypatch.setattr(tasks_run, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="bleu needs the sacrebleu package"):
        selected(from_preset("text-to-text", settings).config)


def test_sacrebleu_is_not_imported_before_it_is_needed() -> None:
    import subprocess

    code = "import sys, regard.tasks, regard.data; print('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_pairs_of_a_parallel_reader_and_items_have_the_same_lines(tmp_path: Path) -> None:
    source, target = written(tmp_path, "a", ["x", "y"]), written(tmp_path, "b", ["1", "2"])
    pairs = open_pairs(ParallelText(source, target))
    assert [(p.source, (p.target,)) for p in pairs] == [(i.source, i.references) for i in parallel(source, [target])]
