"""What each verb asks of the tasks and what it prints; the tasks are played by a stand-in."""

from __future__ import annotations

import io
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import regard
from regard.cli import inputs, run
from regard.data.text.references import Item
from regard.decoding import Prediction
from regard.errors import RegardError
from regard.runs.contract import TASKS
from regard.runs.training import default_folder
from regard.tasks.text_generation.evaluation import Evaluation, Scored
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.model import TextToText


class Model(TextToText):
    """Says every text backwards; a text with a digit gets a warning, the empty text nothing at all."""

    card = "It says things backwards."
    device = SimpleNamespace(type="nowhere")

    def __init__(self) -> None:
        self.config = TextToTextConfig(data={"train": "/a.tsv"})
        self.calls: list[tuple[list[str], dict[str, object]]] = []

    def predict(self, inputs, *, alignment=True, **given):
        decoding = self.config.decoding
        self.calls.append((list(inputs), {"alignment": alignment, **decoding.model_dump(exclude_defaults=True)}))
        return [self._one(text, decoding.num_best, alignment) for text in inputs]

    def _one(self, text, num_best, alignment):
        warnings = ("the input is empty",) if not text else ("a digit",) if any(map(str.isdigit, text)) else ()
        weights = np.eye(len(text)) if alignment and text else None
        best = Prediction(list(text), list(text[::-1]), text[::-1], -0.5, -0.25, "eos", weights, {}, warnings)
        if not text:
            return replace(best, score=float("-inf"))
        others = [replace(best, text=f"{best.text}{n}", score=-1.0 - n) for n in range(1, num_best)]
        return replace(best, alternatives=tuple(others))

    def evaluate(self, path, *, metrics=None, **given):
        self.calls.append(([str(path)], given | self.config.decoding.model_dump(exclude_defaults=True)))
        item = Item("ab", ("ba", "xx"), (1, 2), Path(path))
        wrong = Item("c1", ("x",), (3,), Path(path))
        return Evaluation(
            [Scored(item, self._one("ab", 1, False), 0, 2), Scored(wrong, self._one("c1", 1, False), 2, 1)]
        )

    def information(self):
        return {"name": "backwards", "parameters": 1234567, "model": {"attention": None, "layers": 1}}


@pytest.fixture
def tasks(monkeypatch, tmp_path):
    """A stand-in for `regard.tasks` that notes how it was called; the working directory is empty."""
    stand_in = SimpleNamespace(model=Model(), trained=[], loaded=[], signal=None, refusal=None)

    def load(name, *, device="auto"):
        stand_in.loaded.append((name, device))
        if stand_in.refusal:
            raise stand_in.refusal
        stand_in.model.config = Model().config
        return stand_in.model

    def train(configuration, folder, *, overwrite=False):
        stand_in.trained.append((configuration, folder or default_folder(configuration), overwrite))
        return SimpleNamespace(signal=stand_in.signal)

    stand_in.load, stand_in.train = load, train
    stand_in.catalogue = lambda: [
        ("recipe", "bahdanau", "Additive."),
        ("preset", "g2p", "Spelling."),
        ("recipe", "dot", ""),
    ]
    stand_in.describe = lambda name: f"about {name}" if name in ("bahdanau", "g2p") else None
    stand_in.explain = lambda model=None: "plain" if model is None else f"plain, {model.information()['name']}"
    assert all(TASKS[name] for name in TASKS)  # imported from the package, before the stand-in takes its place
    monkeypatch.setitem(sys.modules, "regard.tasks", stand_in)
    monkeypatch.setattr(regard, "tasks", stand_in, raising=False)
    monkeypatch.chdir(tmp_path)
    return stand_in


@pytest.fixture
def stdin(monkeypatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "--model", "m", "a\x1b[31m\x9b1", "--format", "tsv"],
        ["predict", "--model", "m", "a\x1b[31m\x9b1", "--format", "jsonl"],
        ["predict", "--model", "m", "a\x1b[31m\x9b1", "--format", "text"],
        ["evaluate", "--model", "m", "x\x1b[31m\x9b.tsv", "--worst", "2"],
        ["info", "m"],
    ],
)
def test_a_terminal_obeys_nothing_that_data_or_models_say(tasks, monkeypatch, arguments, kind):
    monkeypatch.setattr(Model, "card", "A card \x1b]0;title\x07\x9b of one's own")
    printed, messages = kind(), Terminal()
    monkeypatch.setattr(sys, "stdout", printed)
    monkeypatch.setattr(sys, "stderr", messages)
    assert run(arguments) == 0
    assert not {"\x1b", "\x9b", "\x07"} & set(messages.getvalue())
    assert ("\x9b" in printed.getvalue()) == (kind is io.StringIO)
    assert ("x9b" in printed.getvalue()) == (kind is Terminal)


def test_train_reads_the_file_and_names_the_run_after_it(tasks):
    Path("small.yaml").write_text("data: {train: a.tsv}\n")
    assert run(["train", "small.yaml", "--set", "training.epochs=3", "--seed", "5", "--device", "cpu"]) == 0
    ((configuration, folder, overwrite),) = tasks.trained
    assert (folder, overwrite) == (Path("runs/small"), False)
    config = configuration.config
    assert (config.training.epochs, config.seed, config.training.device) == (3, 5, "cpu")
    assert config.data.train == Path("a.tsv").absolute()


def test_train_takes_a_preset_a_folder_and_overwrite(tasks):
    command = ["train", "--preset", "g2p", "--set", "data.train=a.tsv", "--precision", "bfloat16"]
    assert run(command) == 0
    assert run([*command, "-o", "elsewhere/x", "--overwrite"]) == 0
    (first, folder, _), (_, other, overwrite) = tasks.trained
    assert (folder, other, overwrite) == (Path("runs/g2p"), Path("elsewhere/x"), True)
    assert first.config.training.precision == "bfloat16"


def test_train_with_the_configuration_of_a_run_goes_to_a_folder_of_that_run_s_name(tasks):
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/config.yaml").write_text("data: {train: /a.tsv}\n")
    assert run(["train", "runs/mine/config.yaml"]) == 0
    assert tasks.trained[0][1] == Path("runs/mine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "Give a configuration file, or --preset with one of autoencoder"),
        (["train", "a.yaml", "--preset", "g2p"], "not both"),
        (["train", "--preset", "g2p", "my words.tsv"], "is a key: --preset g2p --set 'data.train=my words.tsv'"),
        (["train", "words.txt"], "words.txt is no configuration (.yaml)."),
        (["train", "--preset", "g2"], "There is no preset 'g2'; did you mean 'g2p'?"),
        (["train", "--preset", "g2p"], "preset g2p: data.train: missing"),
        (["train", "typo.yaml"], "typo.yaml:2:1: sede: unknown key; did you mean 'seed'?\ntypo.yaml:3:9: select: exp"),
        (["train", "typo.yml"], "typo.yml: no such file; did you mean 'typo.yaml'?"),
        (["train", "--preset", "g2p", "--set", "data.trian=x"], "--set data.trian=x: unknown key; did you mean 'data"),
        (["train", "--preset", "g2p", "--seed", "x"], "Invalid value for '--seed'"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_one_message_and_status_2(tasks, capsys, arguments, message):
    Path("typo.yaml").write_text("data: {train: a.tsv}\nsede: 3\nselect: 3\n")
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert (printed.out, tasks.trained) == ("", [])


def test_an_error_found_by_the_task_is_placed_in_the_file(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("data: {train: a.tsv}\nmodel:\n  attention: {recipe: bahdanau, siez: 3}\n")
    assert run(["train", "a.yaml"]) == 2
    assert capsys.readouterr().err.startswith("a.yaml:3:33: model.attention.siez: bahdanau has no option 'siez'; ")


@pytest.mark.parametrize(("number", "status"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_train_ends_with_the_status_of_its_signal(tasks, number, status):
    tasks.signal = number
    assert run(["train", "--preset", "g2p", "--set", "data.train=a"]) == status


def test_predict_prints_input_tab_output(tasks, capsys):
    assert run(["predict", "--model", "m", "ab", "cd", "--device", "cpu"]) == 0
    assert capsys.readouterr() == ("ab\tba\ncd\tdc\n", "")
    assert tasks.loaded == [("m", "cpu")]
    assert tasks.model.calls == [(["ab", "cd"], {"alignment": False})]


def test_predict_passes_on_the_search_options_that_were_given(tasks):
    options = ["--beam", "3", "--alpha", "0", "--max-length", "9", "--batch-tokens", "99"]
    assert run(["predict", "-m", "m", *options, "--num-best", "2", "ab"]) == 0
    assert tasks.model.calls[0][1] == {
        "alignment": False, "num_best": 2, "beam": 3, "alpha": 0.0, "max_length": 9,
        "batch_tokens": 99,
    }  # fmt: skip


def test_the_text_of_a_flag_is_no_yaml_unless_it_is_a_list_or_quoted(tasks):
    flags = ["--beam", "2", "--prefix", "12: no # x", "--exclude", "NO", "--include", "[a, '1']"]
    assert run(["predict", "-m", "m", *flags, "ab"]) == 0
    assert run(["predict", "-m", "m", "--prefix", "'12'", "ab"]) == 0
    first, second = (options for _, options in tasks.model.calls)
    assert (first["prefix"], first["exclude"], first["include"]) == ("12: no # x", "NO", ("a", "1"))
    assert second["prefix"] == "12"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("predict -m m --exclude SH --exclude=CH ab",
         "--exclude is given 2 times; give it once, with a list: --exclude '[a, b]'"),
        ("predict -m m --beam 3 --beam 4 ab", "--beam is given 2 times; leave out all but one"),
        ("predict --model m -m m ab", "--model is given 2 times"),
        ("evaluate --model=m ab.tsv --model=n", "--model is given 2 times"),
        ("plot -ma ab -o x.html -mb", "-m is given 2 times"),
        ("predict -m m --joint --no-joint ab", "--joint is given 2 times"),
        ("train --preset g2p --overwrite --overwrite", "--overwrite is given 2 times"),
        ("data check a.yaml --preset g2p --preset g2p", "--preset is given 2 times"),
        ("train --preset g2p --seed 1 --set seed=2", "--seed 1 and --set seed=… set the same key"),
        ("align a b --threshold 1 --threshold 2", "--threshold is given 2 times"),
    ],
)  # fmt: skip
def test_an_option_of_which_only_one_would_count_is_refused_in_every_verb(tasks, capsys, words, message):
    assert run(words.split()) == 2
    assert message in capsys.readouterr().err
    assert not tasks.model.calls


def test_words_that_are_values_or_follow_two_dashes_are_no_options(tasks):
    assert run(["predict", "-m", "m", "--prefix", "--prefix", "ab", "--", "--beam", "--beam"]) == 0
    texts, options = tasks.model.calls[0]
    assert (list(texts), options["prefix"]) == (["ab", "--beam", "--beam"], "--prefix")


def test_a_flag_of_another_task_or_method_is_refused_by_name(tasks, capsys, monkeypatch):
    monkeypatch.setattr(TextToText, "plot", lambda self, predictions, path, *, title="": [path])
    assert run(["plot", "-m", "m", "ab", "-o", "x.html", "--heads"]) == 2
    assert "--heads is not for models of text_to_text" in capsys.readouterr().err
    assert run(["predict", "-m", "m", "ab", "--format", "wav"]) == 2
    assert (
        "--format wav: models of text_to_text print one of tsv, text, jsonl, csv, parquet." in capsys.readouterr().err
    )


def test_predict_gives_as_many_lines_as_outputs_with_their_scores(tasks, capsys):
    assert run(["predict", "-m", "m", "ab", "--num-best", "3"]) == 0
    assert capsys.readouterr().out == "ab\tba\t-0.5000\nab\tba1\t-2.0000\nab\tba2\t-3.0000\n"
    assert run(["predict", "-m", "m", "ab", "--scores"]) == 0
    assert capsys.readouterr().out == "ab\tba\t-0.5000\n"


@pytest.mark.parametrize("arguments", [[], ["--input", "-"], ["--input", "words.txt"]])
def test_predict_reads_lines_of_stdin_or_a_file(tasks, stdin, capsys, arguments):
    content = "\ufeffab\r\né d\n\nlast".encode()
    stdin(content)
    Path("words.txt").write_bytes(content)
    assert run(["predict", "-m", "m", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out == "ab\tba\né d\td é\n\t\nlast\ttsal\n"
    assert printed.err == f"{arguments[1] if arguments[1:] == ['words.txt'] else 'stdin'}:3: '': the input is empty\n"


def test_predict_streams_a_big_input_in_chunks_and_numbers_its_lines(tasks, stdin, capsys, monkeypatch):
    monkeypatch.setattr(inputs, "CHUNK_ROWS", 3)
    stdin(b"".join(b"x%d\n" % n if n == 7 else b"ab\n" for n in range(1, 9)))
    assert run(["predict", "-m", "m"]) == 0
    assert [len(given) for given, _ in tasks.model.calls] == [3, 3, 2]
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["ab\tba"] * 6 + ["x7\t7x", "ab\tba"]
    assert printed.err == "stdin:7: 'x7': a digit\n"


def test_a_strict_predict_stops_at_the_first_warning(tasks, capsys):
    assert run(["predict", "-m", "m", "ab", "c1", "d2", "--strict"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "ab\tba\n"
    assert printed.err.startswith("argument 2: 'c1': a digit\n")


def test_tabs_never_make_further_columns(tasks, capsys):
    assert run(["predict", "-m", "m", "a\tb\nc"]) == 0
    assert capsys.readouterr().out == "a b c\tc b a\n"


def test_jsonl_has_everything_and_only_valid_json(tasks, capsys):
    assert run(["predict", "-m", "m", "a\tb", "", "--format", "jsonl", "--alignments", "--num-best", "2"]) == 0
    first, empty = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["input"] == "a\tb"
    assert (first["text"], first["tokens"], first["stop_reason"]) == ("b\ta", ["b", "\t", "a"], "eos")
    assert (first["score"], first["log_probability"], first["warnings"]) == (-0.5, -0.25, [])
    assert first["alignment"] == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert first["source_tokens"] == ["a", "\t", "b"]
    assert [other["text"] for other in first["alternatives"]] == ["b\ta1"]
    assert (empty["score"], empty["warnings"]) == (None, ["the input is empty"])
    assert "alignment" not in empty


def test_predict_writes_a_file_with_output(tasks, capsys):
    assert run(["predict", "-m", "m", "ab", "-o", "new/out.tsv"]) == 0
    assert Path("new/out.tsv").read_text() == "ab\tba\n"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ab", "--input", "x"], "Give inputs or --input, not both."),
        (["ab", "--alignments"], "--format jsonl"),
        (["--input", "nowhere"], "nowhere: no such file"),
        (["--input", "latin.txt"], "latin.txt:2: not UTF-8: byte 0xE9 at byte 3 of the line."),
        (["--input", "latin.txt", "--output", "latin.txt"], "would overwrite latin.txt, which is read"),
        (["ab", "--beam", "x"], "beam='x': expected a whole number from 1 to 1000000"),
        (["ab", "--length-penalty", "gmnt"], "length_penalty='gmnt': expected one of none, average, gnmt"),
    ],
)
def test_what_predict_cannot_do_is_refused(tasks, capsys, arguments, message):
    Path("latin.txt").write_bytes(b"ab\nc\xc3\xe9\n"[:3] + b"caf\xe9\n".replace(b"f", b""))
    assert run(["predict", "-m", "m", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_evaluate_prints_figures_and_the_worst_items(tasks, capsys):
    assert run(["evaluate", "-m", "m", "test.tsv", "--worst", "5", "--beam", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        "2 items: sequence error rate 50.00%, symbol error rate 66.67%\n"
        "\ntest.tsv:3  c1  (2 errors in 1 symbol)\n  output     1c\n  reference  x\n"
    )
    assert printed.err == "warning: test.tsv:3: a digit\n"
    assert tasks.model.calls == [(["test.tsv"], {"beam": 1})]


def test_evaluate_gives_figures_as_json(tasks, capsys):
    assert run(["evaluate", "-m", "m", "test.tsv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sequence_error_rate"] == 0.5
    assert run(["evaluate", "-m", "m", "test.tsv", "--json", "--worst", "1"]) == 0
    (worst,) = json.loads(capsys.readouterr().out)["worst"]
    del worst["score"], worst["confidence"]
    assert worst == {
        "place": "test.tsv:3", "input": "c1", "references": ["x"], "output": "1c", "errors": 2, "length": 1
    }  # fmt: skip


def test_plot_draws_all_texts_in_one_file_or_one_file_each(tasks, capsys):
    assert run(["plot", "-m", "m", "ab", "cd", "-o", "pages/x.html"]) == 0
    assert capsys.readouterr().out == "pages/x.html\n"
    page = Path("pages/x.html").read_text()
    assert "ba" in page
    assert "dc" in page
    assert run(["plot", "-m", "m", "ab", "", "cd", "-o", "x.html", "--separate", "--data", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["x-1.html", "x-1.json", "x-3.html", "x-3.json"]
    assert printed.err == "argument 2: '': the input is empty\n"
    assert json.loads(Path("x-3.json").read_text())["items"][0]["alignment"] == [[1.0, 0.0], [0.0, 1.0]]


def test_plot_refuses_an_unknown_suffix_before_anything_is_loaded(tasks, capsys):
    assert run(["plot", "-m", "m", "ab", "-o", "x.gif"]) == 2
    assert ".gif" in capsys.readouterr().err
    assert tasks.loaded == []


@pytest.mark.parametrize("existing", ["x-2.html", "x-1.json"])
def test_plot_replaces_neither_a_picture_nor_data_unless_it_is_told_to(tasks, capsys, existing):
    Path(existing).write_text("mine")
    arguments = ["plot", "-m", "m", "ab", "cd", "-o", "x.html", "--separate", "--data", "json"]
    assert run(arguments) == 2
    assert f"{existing}: the file exists; choose another name or add --overwrite." in capsys.readouterr().err
    assert Path(existing).read_text() == "mine"
    assert tasks.loaded == []
    assert run([*arguments, "--overwrite"]) == 0
    assert Path(existing).read_text() != "mine"


def test_plot_says_when_there_is_nothing_to_draw(tasks, capsys):
    assert run(["plot", "-m", "m", "", "-o", "x.html"]) == 2
    said = capsys.readouterr().err
    assert "the input is empty" in said
    assert "trained without attention" not in said
    tasks.model._one = lambda text, *rest: replace(Model()._one(text, *rest), alignment=None, warnings=())
    assert run(["plot", "-m", "m", "ab", "-o", "x.html"]) == 2
    assert "has no alignment to draw" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--highest"]])
def test_plot_scales_its_colours_when_asked(tasks, options):
    assert run(["plot", "-m", "m", "ab", "-o", "x.html", *options]) == 0
    assert f'"largest":{"true" if options else "false"}' in Path("x.html").read_text(encoding="utf-8")


def test_info_says_what_the_model_is(tasks, capsys):
    assert run(["info", "m"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "name        backwards",
        "parameters  1,234,567",
        "model",
        "  attention  none",
        "  layers     1",
        "",
        "It says things backwards.",
    ]
    assert run(["info", "m", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["card"] == "It says things backwards."


def test_explain_takes_a_model_or_none(tasks, capsys):
    assert run(["explain"]) == 0
    assert run(["explain", "m"]) == 0
    assert capsys.readouterr().out == "plain\nplain, backwards\n"
    assert tasks.loaded == [("m", "auto")]


def test_list_shows_everything_or_one_kind(tasks, capsys):
    assert run(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "recipes", "  bahdanau  Additive.", "  dot", "presets", "  g2p       Spelling.",
    ]  # fmt: skip
    for kind in ("recipes", "recipe"):
        assert run(["list", kind]) == 0
        assert capsys.readouterr().out == "bahdanau  Additive.\ndot\n"
    assert run(["list", "recips"]) == 2
    assert "did you mean 'recipes'?" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_one_message(tasks, capsys):
    tasks.refusal = RegardError("There is no model 'x'.")
    for arguments in (["predict", "-m", "x", "a"], ["info", "x"], ["plot", "-m", "x", "a", "-o", "a.html"]):
        assert run(arguments) == 2
        hint = " `regard list` lists recipes, parts and presets." if arguments[0] == "info" else ""
        assert capsys.readouterr().err == f"There is no model 'x'.{hint}\n"


@pytest.mark.parametrize("verb", ["list", "info", "explain"])
def test_a_recipe_or_preset_is_described_by_its_name(tasks, capsys, verb):
    assert run([verb, "bahdanau"]) == 0
    assert capsys.readouterr().out == "about bahdanau\n"
    assert tasks.loaded == []
    Path("g2p").mkdir()
    assert run([verb, "g2p"]) == 0
    assert tasks.loaded == ([] if verb == "list" else [("g2p", "cpu" if verb == "info" else "auto")])


def test_list_prints_the_keys_of_a_configuration(tasks, capsys):
    assert run(["list", "keys"]) == 0
    everything = capsys.readouterr().out
    for key in ("seed: a whole number", "data.train (documents): a file name", "training.epochs: a whole number"):
        assert f"\n{key}" in f"\n{everything}"
    assert run(["list", "keys", "decoding", "--task", "text_to_text"]) == 0
    section = capsys.readouterr().out
    described = "decoding.beam: a whole number from 1 to 1000000; default 5\n    hypotheses kept at each step"
    assert described in section
    assert "training." not in section.replace("training;", "")
    assert run(["list", "keys", "--task", "documentss"]) == 2
    assert "There is no task 'documentss'; did you mean 'documents'?" in capsys.readouterr().err
    assert run(["list", "recipes", "--task", "documents"]) == 2
    assert "Only keys belong to a task" in capsys.readouterr().err
    assert run(["list", "keys", "decodin"]) == 2
    assert "did you mean 'decoding'?" in capsys.readouterr().err
    assert run(["list", "recipes", "x"]) == 2
