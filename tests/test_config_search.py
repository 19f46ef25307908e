"""The settings of searches are said once: the class, the configuration and the flags have the same keys."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import regard
from regard.cli import run
from regard.config import from_preset, json_schema, load
from regard.config.combinations import METHODS, READ_BY
from regard.config.schema import SCHEMAS
from regard.config.search import Search
from regard.decoding import Search as SearchOfDecoding
from regard.errors import ConfigError
from regard.runs.store import save
from test_tasks_limits import untrained

TASKS = [task for task, schema in SCHEMAS.items() if issubclass(schema.model_fields["decoding"].annotation, Search)]


def test_there_is_one_class():
    assert regard.Search is SearchOfDecoding is Search
    assert set(READ_BY) <= set(Search.model_fields)
    assert set(Search.model_fields["method"].annotation.__args__) == set(METHODS)


@pytest.mark.parametrize("task", TASKS)
def test_the_search_of_a_task_is_that_class_and_limits(task):
    section = SCHEMAS[task].model_fields["decoding"].annotation
    for name, field in Search.model_fields.items():
        own = section.model_fields[name]
        assert (own.annotation, own.description) == (field.annotation, field.description)
    assert set(Search.model_fields) <= set(json_schema()["$defs"][section.__name__]["properties"])


def test_every_setting_is_a_flag_and_an_argument_of_python(capsys):
    assert run(["predict", "--help-all"]) == 0
    words = capsys.readouterr().out.split()
    for name in Search.model_fields:
        assert f"--{name.replace('_', '-')}" in words
        assert name in inspect.signature(Search).parameters


FLAGS = {
    "--method sampling --temperature 0.7 --num-best 3 --seed 1": {
        "method": "sampling", "temperature": 0.7, "num_best": 3, "seed": 1,
    },
    "--method sampling --top-k 2 --top-p 0.9 --seed 2": {"method": "sampling", "top_k": 2, "top_p": 0.9, "seed": 2},
    "--method sampling --min-p 0.2 --typical-p 0.8 --num-best 4 --seed 3": {
        "method": "sampling", "min_p": 0.2, "typical_p": 0.8, "num_best": 4, "seed": 3,
    },
    "--method mbr --num-samples 9 --utility edit_distance --temperature 0.9 --num-best 2 --seed 4": {
        "method": "mbr", "num_samples": 9, "utility": "edit_distance", "temperature": 0.9, "num_best": 2, "seed": 4,
    },
    "--beam 3 --num-best 2 --min-length 4 --no-repeat-ngram-size 2": {
        "beam": 3, "num_best": 2, "min_length": 4, "no_repeat_ngram_size": 2,
    },
    "--length-penalty gnmt --alpha 2.0": {"length_penalty": "gnmt", "alpha": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("flags", FLAGS)
def test_flags_mean_what_they_mean_in_python(tmp_path, capsys, flags):
    model = untrained(max_length=9, length_penalty="none", beam=4)
    save(model, tmp_path / "model")
    texts = ["abcd", "f", "aab"]
    assert run(["predict", "-m", str(tmp_path / "model"), *flags.split(), "--format", "jsonl", *texts]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    predictions = model.predict(texts, search=model.config.decoding.replace(**FLAGS[flags]))
    assert [one["text"] for one in printed] == [one.text for one in predictions]
    for one, prediction in zip(printed, predictions, strict=True):
        assert [other["text"] for other in one["alternatives"]] == [other.text for other in prediction.alternatives]
        assert one["score"] == pytest.approx(prediction.score)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--temperature 0.7", "temperature is 0.7, but only methods sampling and mbr read it, and method is beam"),
        ("--length-penalty none --alpha 2", "alpha is 2, but it is not read where length_penalty is none"),
        ("--method sampling --beam 3", "beam is 3, but only method beam reads it, and method is sampling"),
        ("--method sample", "method='sample': expected one of beam, sampling, mbr"),
        ("--no-repeat-ngram-size -1", "no_repeat_ngram_size=-1: expected a whole number of at least 0"),
    ],
)
def test_what_python_refuses_is_refused_as_a_flag(tmp_path, capsys, flags, message):
    save(untrained(beam=4), tmp_path / "model")
    assert run(["predict", "-m", str(tmp_path / "model"), *flags.split(), "ab"]) == 2
    assert message in capsys.readouterr().err


def test_a_file_is_judged_as_a_whole_and_what_its_method_does_not_read_is_refused_where_a_training_begins(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("data: {train: a.tsv}\ndecoding:\n  beam: 3\n  temperature: 0.5\n")
    with pytest.raises(ConfigError) as caught:
        load(file).check_unread()
    assert str(caught.value) == (
        f"{file}:4:3: decoding.temperature: temperature is 0.5, but only methods sampling and mbr read it, and "
        "method is beam"
    )
    sampling = load(file, ["decoding.method=sampling"])
    assert (sampling.config.decoding.beam, sampling.config.decoding.temperature) == (3, 0.5)
    with pytest.raises(ConfigError, match=r"a.yaml:3:3: decoding.beam: beam is 3, but only method beam reads it, and"):
        sampling.check_unread()
    from_preset("translation-rnn", ["data.train=a.tsv", "decoding.method=sampling"]).check_unread()
    file.write_text("data: {train: a.tsv}\ndecoding:\n  beam: 0\n")
    with pytest.raises(
        ConfigError, match=r"a.yaml:3:9: decoding.beam: expected a whole number from 1 to 1000000; got 0"
    ):
        load(file)


def test_a_search_needs_neither_torch_nor_the_reader_of_files():
    code = "import sys, regard.config.search; print({'torch', 'yaml'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
    code = "import sys, regard.decoding; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
