"""The verbs one after the other, on a real model of a few hundred weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.cli import run
from regard.config import load
from regard.runs.automatic_settings import adopt

CONFIG = """\
data:
  train: pairs.tsv
  dev_fraction: 0.2
  source: {units: whitespace}
  target: {units: whitespace}
model:
  encoder: {size: 8, embedding_size: 4, dropout: 0}
  decoder: {size: 8, embedding_size: 4, dropout: 0}
  attention: {recipe: bahdanau, size: 8}
training: {epochs: 1, samples: 0, device: cpu}
decoding: {beam: 2}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        torch.set_num_threads(1)
        Path("small.yaml").write_text(CONFIG)
        assert run(["data", "synthetic", "copy", "pairs.tsv", "--count", "60", "--max-length", "4"]) == 0
        assert run(["data", "synthetic", "copy", "test.tsv", "--count", "10", "--max-length", "4", "--seed", "9"]) == 0
        assert run(["train", "small.yaml"]) == 0
        yield folder / "runs" / "small"
    torch.set_num_threads(threads)


def test_the_run_folder_has_the_resolved_configuration(trained):
    saved, given = load(trained / "config.yaml"), load("small.yaml")
    assert saved.config == adopt(given.config, saved.config)


def test_the_same_command_says_that_the_run_is_finished(trained, capsys):
    assert run(["train", "small.yaml"]) == 0
    assert "this run has already ended" in "".join(capsys.readouterr())


def test_another_configuration_is_refused_with_the_keys_that_differ(trained, capsys):
    assert run(["train", "small.yaml", "--seed", "2"]) == 2
    err = capsys.readouterr().err
    assert "seed: 1 → 2" in err
    assert "--overwrite" in err


def test_an_unknown_option_of_a_recipe_has_file_line_and_column(trained, capsys):
    Path("odd.yaml").write_text(CONFIG.replace("bahdanau, size", "bahdanau, siez"))
    assert run(["train", "odd.yaml"]) == 2
    assert "odd.yaml:9:33: model.attention.siez: " in capsys.readouterr().err
    assert not Path("runs/odd").exists()


def test_the_model_predicts_evaluates_and_draws(trained, capsys):
    model = ["--model", str(trained), "--device", "cpu"]
    assert run(["predict", *model, "1 2", "3 frog", ""]) == 0
    printed = capsys.readouterr()
    assert [line.split("\t")[0] for line in printed.out.splitlines()] == ["1 2", "3 frog", ""]
    assert [line.partition(":")[0] for line in printed.err.splitlines()] == ["argument 2", "argument 3"]
    assert run(["predict", *model, "1 2", "--format", "jsonl", "--alignments", "--max-length", "3"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["alignment"]) == len(record["tokens"])
    assert all(abs(sum(row) - 1) < 1e-4 and len(row) == len(record["source_tokens"]) for row in record["alignment"])
    assert run(["evaluate", *model, "test.tsv", "--json"]) == 0
    assert 0 <= json.loads(capsys.readouterr().out)["sequence_error_rate"] <= 1
    assert run(["plot", *model, "1 2", "-o", "x.html"]) == 0
    assert "1 2" in Path("x.html").read_text()


def test_a_model_is_not_evaluated_on_its_training_data(trained, capsys):
    assert run(["evaluate", "--model", str(trained), "pairs.tsv"]) == 2
    assert "trained on this file" in capsys.readouterr().err


def test_info_explain_and_list_know_the_real_things(trained, capsys):
    assert run(["info", str(trained)]) == 0
    printed = capsys.readouterr().out
    assert "parameters" in printed
    assert "held_out" in printed
    assert "sequence_error_rate" in printed
    assert run(["explain", str(trained)]) == 0
    printed = capsys.readouterr().out
    assert "training takes the steps of a sequence" in printed
    assert "training on a GPU replays recorded steps" in printed
    assert "prediction on a GPU replays recorded steps" in printed
    assert "operations on a GPU: additive_energies by triton" in printed
    assert run(["explain"]) == 0
    assert "additive" in capsys.readouterr().out
    assert run(["list", "recipes"]) == 0
    assert "bahdanau" in capsys.readouterr().out
