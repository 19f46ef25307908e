"""Conversions of models of other programs: the framework, whatever the program."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.cli import run
from regard.data.text.vocabulary import BOS, PAD
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.interop import KINDS, Origin, convert
from regard.interop.files import (
    read_arrays,
    read_checkpoint,
    read_json,
    read_lines,
    read_safetensors,
    read_yaml,
    tensors,
)
from regard.interop.named_weights import load_named
from regard.interop.options import Options
from regard.interop.texts import Symbols, ordered

GOLDEN = Path(__file__).parent / "golden"
SPECIALS = {"padding": "<blank>", "begin": "<s>", "end": "</s>", "unknown": "<unk>"}


class Malicious:
    def __reduce__(self):
        return os.system, ("touch /tmp/regard-was-here",)


def test_rows_of_symbols_are_brought_into_our_order():
    symbols = Symbols.of(["<unk>", "<blank>", "<s>", "</s>", "b", "a"], **SPECIALS)
    assert symbols.vocabulary.symbols == ("b", "a")
    assert symbols.rows(torch.arange(6)).tolist() == [1, 2, 3, 0, 4, 5]


def test_a_special_that_the_other_program_lacks_has_zeros():
    symbols = Symbols.of(["</s>", "a", "<unk>"], **SPECIALS)
    assert symbols.rows(torch.tensor([[3.0], [4.0], [5.0]])).flatten().tolist() == [0, 0, 3, 5, 4]


def test_ids_that_the_other_program_does_not_have_leave_nothing_of_their_probability():
    tokens = ["</s>", "a", "<unk>", "<blank>"]
    alike = Symbols.of(tokens, **SPECIALS | {"begin": "</s>"})  # outputs begin with the end symbol
    assert alike.unpredicted == [BOS]
    assert alike.rows(torch.arange(4)).tolist() == [3, 0, 0, 2, 1]
    assert alike.biases(torch.arange(4.0)).tolist() == [3, -1e4, 0, 2, 1]
    assert Symbols.of(tokens[:3], **SPECIALS).unpredicted == [PAD, BOS]
    assert Symbols.of(tokens, **SPECIALS | {"begin": "<blank>"}).unpredicted == [BOS]
    weights = {"in.weight": torch.ones(4, 1), "out.weight": torch.arange(4.0)[:, None], "other": torch.ones(1)}
    read = ordered(weights, {"in": alike, "out": alike}, output="out")
    assert read["out.bias"].tolist() == [0, -1e4, 0, 0, 0]
    assert (read["out.weight"].flatten().tolist(), read["in.weight"].shape) == ([3, 0, 0, 2, 1], (5, 1))


def test_vocabularies_that_cannot_be_read_are_refused():
    with pytest.raises(DataError, match="'a' twice"):
        Symbols.of(["</s>", "a", "a"], **SPECIALS)
    with pytest.raises(DataError, match="no end symbol"):
        Symbols.of(["a"], **SPECIALS)
    with pytest.raises(DataError, match="has 3, which is no symbol"):
        Symbols.of(["</s>", 3], **SPECIALS)
    with pytest.raises(DataError, match=r"is \(2,\), but the vocabulary has 3 symbols"):
        Symbols.of(["</s>", "a", "<unk>"], **SPECIALS).rows(torch.zeros(2))


def test_weights_are_loaded_by_name_and_each_is_accounted_for():
    theirs = {"out.w": torch.ones(3, 2), "out.bias": torch.ones(3)}
    layer = load_named(nn.Linear(2, 3), theirs, {"": "out", "weight": "out.w"})
    assert layer.weight.sum() == 6
    assert layer.bias.sum() == 3
    with pytest.raises(DataError, match=r"no weight out\.weight, from which weight"):
        load_named(nn.Linear(2, 3), {}, {"": "out"})
    with pytest.raises(DataError, match=r"out\.w is \(3, 2\); weight needs \(3, 4\)"):
        load_named(nn.Linear(4, 3), theirs, {"": "out", "weight": "out.w"})
    with pytest.raises(DataError, match=r"no weight out\.bias, from which bias"):
        load_named(nn.Linear(2, 3), {"out.weight": torch.ones(3, 2)}, {"": "out"})
    layer = load_named(nn.Linear(2, 3), {"out.weight": torch.ones(3, 2)}, {"": "out"}, without_bias=["o*"])
    assert layer.bias.tolist() == [0, 0, 0]
    with pytest.raises(DataError, match=r"out\.w is torch\.int8"):
        load_named(
            nn.Linear(2, 3), {**theirs, "out.w": torch.ones(3, 2, dtype=torch.int8)}, {"": "out", "weight": "out.w"}
        )
    with pytest.raises(DataError, match=r"no module here has: more"):
        load_named(nn.Linear(2, 3), {**theirs, "more": torch.ones(1)}, {"": "out", "weight": "out.w"})


def test_checkpoints_are_read_without_running_code(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"opt": argparse.Namespace(size=3), "weight": torch.ones(2)}, path)
    assert read_checkpoint(path)["opt"].size == 3
    torch.save({"opt": Malicious()}, path)
    with pytest.raises(DataError, match="code is not read"):
        read_checkpoint(path)
    assert not os.path.exists("/tmp/regard-was-here")
    path.write_bytes(pickle.dumps(Malicious(), protocol=2))
    with pytest.raises(DataError, match="code is not read"):
        read_checkpoint(path)
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"model\.pt"):
        read_checkpoint(path)
    with pytest.raises(DataError, match="there is no such file"):
        read_checkpoint(tmp_path / "other.pt")
    with pytest.raises(DataError, match="it is a folder"):
        read_checkpoint(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_checkpoint_with_other_objects_is_refused_in_our_words_alone(tmp_path, capsys):
    path = tmp_path / "model.pt"
    for content in (pickle.dumps(Malicious(), protocol=4), pickle.dumps({"a": Counter("ab")}, protocol=5)):
        path.write_bytes(content)
        assert run(["convert", "opennmt", str(path), "-o", str(tmp_path / "out")]) == 2
        shown = capsys.readouterr().err
        assert "code is not read" in shown
        assert "issue" not in shown
    torch.save({"a": nn.Linear(2, 3)}, path)
    with pytest.raises(
        DataError, match=r"it contains torch\.nn\.modules\.linear\.Linear besides(?s:.*)state_dict"
    ) as caught:
        read_checkpoint(path)
    assert "safe_globals" not in str(caught.value)
    torch.jit.save(torch.jit.trace(nn.Linear(2, 3), torch.ones(1, 2)), path)
    with pytest.raises(DataError, match="it is a TorchScript archive"):
        read_checkpoint(path)


def test_a_checkpoint_of_an_older_opennmt_py_is_told_how_it_is_converted(tmp_path, monkeypatch):
    module = ModuleType("torchtext")
    module.Field = type("Field", (), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    torch.save({"vocab": {"src": module.Field()}, "opt": 1}, tmp_path / "model.pt")
    with pytest.raises(DataError, match=r"contains torchtext\.Field(?s:.*)OpenNMT-py 1 or 2.*convertv2_v3"):
        convert("opennmt", tmp_path / "model.pt", tmp_path / "out")


def test_weights_that_are_not_finite_are_named(tmp_path):
    with torch.serialization.safe_globals([Namespace]):
        checkpoint = torch.load(GOLDEN / "opennmt_models" / "lstm_general.pt", weights_only=True)
    for value in (torch.nan, torch.inf):
        name, tensor = next(iter(checkpoint["model"].items()))
        checkpoint["model"][name] = torch.full_like(tensor, value)
        torch.save(checkpoint, tmp_path / "model.pt")
        with pytest.raises(DataError, match=f"{name} has numbers that are not finite"):
            convert("opennmt", tmp_path / "model.pt", tmp_path / "out")


def test_a_state_dict_in_place_of_facts_is_told_what_the_facts_are(tmp_path):
    torch.save({"w": torch.ones(1)}, tmp_path / "model.pt")
    with pytest.raises(
        DataError, match=r"model\.pt: this is a file of weights(?s:.*)weights: model\.pt(?s:.*)heads: 8"
    ):
        convert("torch", tmp_path / "model.pt", tmp_path / "out")


def test_a_file_in_place_of_a_folder_is_told_what_the_folder_has(tmp_path):
    (tmp_path / "model.pt").touch()
    (tmp_path / "folder").mkdir()
    for kind, name in (("joeynmt", "config.yaml"), ("marian", "config.json"), ("eole", "config.json")):
        for path, text in (("model.pt", "is a file"), ("folder", "has none")):
            with pytest.raises(DataError, match=rf"is a folder with {name}, and this {text}"):
                convert(kind, tmp_path / path, tmp_path / "out")
        with pytest.raises(DataError, match="there is no such folder"):
            convert(kind, tmp_path / "none", tmp_path / "out")


def test_the_help_of_the_command_lists_the_kinds_with_their_files_and_facts(capsys):
    assert run(["convert", "--help"]) == 0
    shown = capsys.readouterr().out
    for name, kind in KINDS.items():
        for word in (name, *kind.files, *kind.facts):
            assert word in shown


def test_other_files_are_read_as_data(tmp_path):
    path = tmp_path / "file"
    np.savez(tmp_path / "arrays.npz", a=np.ones(2))
    assert read_arrays(tmp_path / "arrays.npz")["a"].tolist() == [1, 1]
    np.savez(tmp_path / "objects.npz", a=np.array([Malicious()], dtype=object))
    with pytest.raises(DataError, match="not an archive of numpy arrays of numbers"):
        read_arrays(tmp_path / "objects.npz")
    path.write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        read_json(path)
    with pytest.raises(DataError, match="not a safetensors file"):
        read_safetensors(path)
    path.write_text("!!python/object/apply:os.system ['touch /tmp/regard-was-here']")
    with pytest.raises(DataError, match="not plain YAML"):
        read_yaml(path)
    path.write_bytes(b"\xff\xfe")
    for read in (read_json, read_yaml, read_lines):
        with pytest.raises(DataError, match="file: not UTF-8"):
            read(path)
    for read in (read_arrays, read_safetensors, read_json, read_yaml, read_lines):
        with pytest.raises(DataError, match="none: there is no such file"):
            read(tmp_path / "none")
    for values in ([1], None, {"a": 3}, {3: torch.ones(1)}):
        with pytest.raises(DataError, match="expected weights"):
            tensors(values, path, "weights")


def test_options_are_refused_by_name_and_value():
    options = Options({"norm": "rms"}, "Toolkit", {"layers": 2})
    assert options["layers"] == 2
    with pytest.raises(UnsupportedError, match=r"option norm of the model of Toolkit is 'rms'.*must be 'standard'"):
        options.require("norm", ["standard"])
    with pytest.raises(DataError, match="lacks the option 'heads'"):
        options["heads"]


def test_kinds_files_and_facts_that_there_are_not_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no kind 'opennnmt'; did you mean 'opennmt'"):
        convert("opennnmt", tmp_path, tmp_path / "out")
    for what in ("files", "facts"):
        with pytest.raises(ConfigError, match="this kind has no such"):
            convert("opennmt", tmp_path, tmp_path / "out", **{what: {"x": tmp_path}})
    assert all(kind.summary and not kind.check(Origin(tmp_path)) for kind in KINDS.values())


def test_an_output_that_is_not_a_saved_model_is_never_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(RegardError, match="the folder exists"):
        convert("opennmt", tmp_path / "none.pt", tmp_path / "out")
    with pytest.raises(RegardError, match=r"not those of a saved model \(thesis\.txt\)"):
        convert("opennmt", tmp_path / "none.pt", tmp_path / "out", overwrite=True)
    with pytest.raises(RegardError, match="this is a file"):
        convert("opennmt", tmp_path / "none.pt", tmp_path / "out" / "thesis.txt", overwrite=True)
    with pytest.raises(DataError, match="there is no such file"):
        convert("opennmt", tmp_path / "none.pt", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_refuses_flags_that_it_cannot_read(tmp_path, capsys):
    words = ["convert", "opennmt", str(tmp_path / "none.pt"), "--output", str(tmp_path / "out")]
    for flags, text in (
        (["--file", "vocabulary"], "expected NAME=VALUE"),
        (["--fact", "a=1", "--fact", "a=2"], "--fact a is given twice"),
        (["--fact", "a=[1"], "'[1' is not a value of YAML"),
        (["--fact", "heads=8"], "--fact heads: this kind has no such fact"),
        ([], "none.pt: there is no such file"),
    ):
        assert run([*words, *flags]) == 2
        assert text in capsys.readouterr().err
    assert json.dumps([p.name for p in tmp_path.iterdir()]) == "[]"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("transformer_ff", "wide", r"encoder.*feed_forward_size: Input should be a valid integer"),
        ("norm_eps", -1.0, r"norm_epsilon: Input should be greater than 0"),
        ("heads", 0, r"o\.pt: not a model as opennmt saves it, or damaged \(ZeroDivisionError"),
        ("dropout", [], r"o\.pt: not a model as opennmt saves it, or damaged \(IndexError"),
        ("max_relative_positions", -1, r"max_relative_positions .* is -1, but position_encoding is also set"),
        ("add_ffnbias", True, r"no weight encoder\.transformer\.0\.feed_forward\.w_1\.bias"),
    ],
)
def test_options_of_another_kind_are_errors_about_the_file(key, value, message, tmp_path):
    checkpoint = read_checkpoint(GOLDEN / "opennmt_models" / "transformer.pt")
    setattr(checkpoint["opt"], key, value)
    torch.save(checkpoint, tmp_path / "o.pt")
    with pytest.raises(RegardError, match=message):
        convert("opennmt", tmp_path / "o.pt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["eole", "joeynmt", "marian"])
def test_a_missing_bias_is_named(kind, tmp_path):
    folders = {"eole": "transformer", "joeynmt": "transformer", "marian": "shared"}
    shutil.copytree(GOLDEN / f"{kind}_models" / folders[kind], tmp_path / "theirs")
    [path] = [p for p in (tmp_path / "theirs").iterdir() if p.suffix in (".safetensors", ".ckpt")]
    is_safe = path.suffix == ".safetensors"
    saved = read_safetensors(path) if is_safe else read_checkpoint(path)
    weights = saved if is_safe else saved["model_state"]
    name = next(name for name in weights if name.startswith("encoder.layer_norm.bias") or name.endswith("fc1.bias"))
    del weights[name]
    save_file(weights, path) if is_safe else torch.save(saved, path)
    with pytest.raises(DataError, match=f"There is no weight {name.removeprefix('model.')}"):
        convert(kind, tmp_path / "theirs", tmp_path / "out")


@pytest.mark.parametrize("value", ["high", 7, None, True, [0.5]])
def test_a_threshold_that_is_no_probability_is_refused(value, tmp_path):
    with pytest.raises(ConfigError, match="fact gate_threshold: it must be a probability"):
        convert("nvidia", GOLDEN / "nvidia_models" / "checkpoint.pt", tmp_path / "out", facts={"gate_threshold": value})


def test_a_prenet_has_two_layers(tmp_path):
    saved = read_checkpoint(GOLDEN / "nvidia_models" / "checkpoint.pt")
    del saved["state_dict"]["decoder.prenet.layers.1.linear_layer.weight"]
    torch.save(saved, tmp_path / "c.pt")
    with pytest.raises(DataError, match=r"no weight decoder\.prenet\.layers\.1\.linear_layer\.weight"):
        convert("nvidia", tmp_path / "c.pt", tmp_path / "out")
