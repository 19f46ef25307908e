"""What a converted model searches with where nothing is said: the default of each option of the other program.

The defaults were read from the code of OpenNMT-py 3.5.1 (`opts.py`, `translate/`), eole 0.6.4
(`config/inference.py`, `predict/`), Joey NMT 2.3.0 (`config.py`, `search.py`), transformers 4.57.3 and 5.23
(`generation/`), tensorflow-addons 0.23.0 (`seq2seq/beam_search_decoder.py`) and NVIDIA/tacotron2 (`hparams.py`).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from regard.errors import DataError, UnsupportedError
from regard.interop import KINDS, Converted, convert
from test_conversion_tfa import made

GOLDEN = Path(__file__).parent / "golden"
DEFAULTS = [
    # program, its option, its default, our key, its value
    ("opennmt", "beam_size", 5, "beam", 5),
    ("opennmt", "n_best", 1, "num_best", 1),
    ("opennmt", "ratio", 0, "stop", "top"),
    ("opennmt", "length_penalty", "avg", "length_penalty", "average"),
    ("opennmt", "length_penalty", "of the length with <s>", "length_counts_begin", True),
    ("opennmt", "coverage_penalty", "none", "coverage_penalty", "none"),
    ("opennmt", "min_length", 0, "min_length", 0),
    ("opennmt", "max_length", 250, "max_length_cap", 250),
    ("opennmt", "max_length_ratio", 1.25, "max_length_ratio", 1.25),
    ("opennmt", "max_length_ratio", "and 5 more", "max_length_extra", 5),
    ("opennmt", "block_ngram_repeat", 0, "no_repeat_ngram_size", 0),
    ("opennmt", "ban_unk_token", False, "unknown_penalty", 0),
    ("opennmt", "random_sampling_topk", 0, "method", "beam"),
    ("opennmt", "tgt_file_prefix", False, "prefix", ""),
    ("eole", "beam_size", 5, "beam", 5),
    ("eole", "n_best", 1, "num_best", 1),
    ("eole", "ratio", 0, "stop", "top"),
    ("eole", "length_penalty", "avg", "length_penalty", "average"),
    ("eole", "length_penalty", "of the length with <s>", "length_counts_begin", True),
    ("eole", "coverage_penalty", "none", "coverage_penalty", "none"),
    ("eole", "min_length", 0, "min_length", 0),
    ("eole", "max_length", 250, "max_length_cap", 250),
    ("eole", "max_length_ratio", 2, "max_length_ratio", 2),
    ("eole", "max_length_ratio", "and 5 more", "max_length_extra", 5),
    ("eole", "block_ngram_repeat", 0, "no_repeat_ngram_size", 0),
    ("eole", "ban_unk_token", False, "unknown_penalty", 0),
    ("joeynmt", "beam_size", 1, "beam", 1),
    ("joeynmt", "n_best", 1, "num_best", 1),
    ("joeynmt", "beam_alpha", -1, "length_penalty", "none"),
    ("joeynmt", "min_output_length", 1, "min_length", 1),
    ("joeynmt", "max_output_length", -1, "max_length", None),
    ("joeynmt", "max_output_length", "1.5 times the source", "max_length_ratio", 1.5),
    ("joeynmt", "max_output_length", "with its </s>", "max_length_extra", 1.5),
    ("joeynmt", "generate_unk", True, "unknown_penalty", 0),
    ("joeynmt", "no_repeat_ngram_size", -1, "no_repeat_ngram_size", 0),
    ("joeynmt", "repetition_penalty", -1, "repetition_penalty", 1),
    ("marian", "num_beams", 1, "beam", 1),
    ("marian", "num_return_sequences", 1, "num_best", 1),
    ("marian", "length_penalty", 1.0, "length_penalty", "average"),
    ("marian", "max_length", "20, with the first symbol", "max_length", 19),
    ("marian", "min_length", 0, "min_length", 0),
    ("marian", "no_repeat_ngram_size", 0, "no_repeat_ngram_size", 0),
    ("marian", "do_sample", False, "method", "beam"),
    ("tfa", "length_penalty_weight", 0.0, "alpha", 0),
    ("tfa", "coverage_penalty_weight", 0.0, "coverage_penalty", "none"),
    ("tfa", "finished hypotheses", "stay in the beam", "keep_finished", True),
    ("nvidia", "gate_threshold", 0.5, "stop_threshold", 0.5),
]
SET = [
    # program, what is set there, our keys
    ("eole", {"alpha": 0.7}, {"length_penalty": "power", "alpha": 0.7}),
    ("eole", {"alpha": 0}, {"length_penalty": "none", "length_counts_begin": False}),
    ("eole", {"length_penalty": "wu", "alpha": 0.9}, {"length_penalty": "gnmt", "alpha": 0.9}),
    ("eole", {"length_penalty": "none"}, {"length_penalty": "none", "length_counts_begin": False}),
    ("eole", {"coverage_penalty": "wu", "beta": 0.3}, {"coverage_penalty": "gnmt", "beta": 0.3}),
    ("eole", {"coverage_penalty": "summary", "beta": 5}, {"coverage_penalty": "summary", "beta": 5}),
    ("eole", {"coverage_penalty": "wu"}, {"coverage_penalty": "none"}),
    ("eole", {"max_length_ratio": 0, "max_length": 80}, {"max_length": 80, "max_length_cap": None}),
    ("eole", {"max_length": 80}, {"max_length": None, "max_length_cap": 80}),
    ("eole", {"beam_size": 1}, {"beam": 1, "stop": "optimal"}),
    ("eole", {"n_best": 3, "min_length": 2}, {"num_best": 3, "min_length": 2}),
    ("eole", {"block_ngram_repeat": 3, "ban_unk_token": True}, {"no_repeat_ngram_size": 3, "unknown_penalty": 1000}),
    ("joeynmt", {"beam_size": 5, "beam_alpha": 1.0}, {"beam": 5, "length_penalty": "gnmt", "alpha": 1.0}),
    ("joeynmt", {"beam_size": 4, "alpha": 0.8, "n_best": 2}, {"beam": 4, "alpha": 0.8, "num_best": 2}),
    ("joeynmt", {"max_output_length": 31}, {"max_length": 31}),
    ("joeynmt", {"generate_unk": False}, {"unknown_penalty": 1000}),
    ("marian", {"num_beams": 4}, {"beam": 4, "stop": "full"}),
    ("marian", {"num_beams": 4, "early_stopping": True}, {"stop": "patience", "patience": 1}),
    ("marian", {"num_beams": 4, "early_stopping": "never"}, {"stop": "optimal"}),
    ("marian", {"length_penalty": 0.6}, {"length_penalty": "power", "alpha": 0.6}),
    ("marian", {"length_penalty": 0.0}, {"length_penalty": "none"}),
    ("marian", {"max_length": 512, "forced_eos_token_id": 0}, {"max_length": 510}),
    ("marian", {"max_new_tokens": 40, "min_new_tokens": 2}, {"max_length": 40, "min_length": 2}),
    ("marian", {"min_length": 3, "no_repeat_ngram_size": 2}, {"min_length": 2, "no_repeat_ngram_size": 2}),
]
NOTED = [
    ("eole", {"ratio": 0.5}, "ratio: 0.5 is ignored"),
    ("eole", {"top_p": 0.9}, "top_p: 0.9 is ignored"),
    ("eole", {"replace_unk": True}, "replace_unk: True is ignored"),
    ("joeynmt", {"min_output_length": 4}, "min_output_length: 4 is ignored"),
    ("joeynmt", {"repetition_penalty": 1.5}, "repetition_penalty: 1.5 is ignored"),
    ("marian", {"do_sample": True}, "do_sample: True is ignored"),
    ("marian", {"repetition_penalty": 1.3}, "repetition_penalty: 1.3 is ignored"),
    ("marian", {"bad_words_ids": [[3]]}, "bad_words_ids: 1 of them are ignored"),
    ("marian", {"forced_bos_token_id": 4}, "forced_bos_token_id: 4 is ignored"),
]


def converted(program: str, folder: Path, settings: dict | None = None) -> Converted:
    """A model with these settings of searches and no others."""
    settings = settings or {}
    if program == "opennmt":
        return convert(program, GOLDEN / "opennmt_models" / "lstm_general.pt", folder / "out", overwrite=True)
    if program == "nvidia":
        return convert(program, next((GOLDEN / "nvidia_models").glob("*.pt")), folder / "out", overwrite=True)
    names = {"eole": "transformer", "joeynmt": "gru", "marian": "shared"}
    place = folder / program
    shutil.copytree(GOLDEN / f"{program}_models" / names[program], place, dirs_exist_ok=True)
    if program == "eole":
        config = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps({**config, "inference": settings}))
    elif program == "joeynmt":
        config = yaml.safe_load((place / "config.yaml").read_text())
        (place / "config.yaml").write_text(yaml.safe_dump({**config, "testing": settings}))
    else:
        (place / "generation_config.json").write_text(json.dumps({"transformers_version": "4.57.3", **settings}))
    return convert(program, place, folder / "out", overwrite=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models as their programs save them, without settings of searches."""
    folder, found = tmp_path_factory.mktemp("defaults"), {}

    def model(program):
        if program not in found:
            found[program] = converted(program, folder)
        return found[program]

    return model


@pytest.mark.parametrize(("program", "option", "default", "key", "value"), DEFAULTS)
def test_defaults_are_those_of_the_other_program(models, tmp_path, program, option, default, key, value):
    if program == "tfa":
        decoding = KINDS["tfa"].read(made(tmp_path)[0]).model.config.decoding
    else:
        decoding = models(program).model.config.decoding
    assert getattr(decoding, key) == value, f"{option} of {program} is {default}"


@pytest.mark.parametrize(("program", "settings", "expected"), SET)
def test_settings_that_are_saved_with_a_model_become_ours(tmp_path, program, settings, expected):
    decoding = converted(program, tmp_path, settings).model.config.decoding
    assert {key: getattr(decoding, key) for key in expected} == expected


@pytest.mark.parametrize(("program", "settings", "text"), NOTED)
def test_settings_that_are_left_out_are_said(tmp_path, program, settings, text):
    found = converted(program, tmp_path, settings)
    assert any(text in note for note in found.notes)
    assert text in found.model.card


def test_a_model_of_transformers_that_normalises_again_has_no_probability_for_what_it_never_says(tmp_path):
    renormalised = converted("marian", tmp_path, {"renormalize_logits": True}).model
    assert renormalised.config.model.decoder.specials == "excluded"


def test_transforms_that_eole_applies_itself_are_refused_unless_texts_are_prepared(tmp_path):
    shutil.copytree(GOLDEN / "eole_models" / "transformer", tmp_path / "eole")
    path = tmp_path / "eole" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "transforms": ["sentencepiece", "filtertoolong"]}))
    with pytest.raises(
        UnsupportedError, match=r"applies the transforms sentencepiece to inputs.*facts={'prepared': True}"
    ):
        convert("eole", tmp_path / "eole", tmp_path / "out")
    found = convert("eole", tmp_path / "eole", tmp_path / "out", facts={"prepared": True})
    assert "sentencepiece" in found.notes[0]
    path.write_text(json.dumps({**config, "transforms": ["filtertoolong"]}))
    assert not convert("eole", tmp_path / "eole", tmp_path / "out", overwrite=True).notes


@pytest.mark.parametrize("value", ["often", [1], -2])
def test_settings_of_wrong_types_are_errors_about_the_file(tmp_path, value):
    with pytest.raises((DataError, UnsupportedError), match="eole"):
        converted("eole", tmp_path, {"max_length_ratio": value, "max_length": value, "beam_size": value})


def test_greedy_search_may_be_asked_for_alone(models):
    """A stop of searches with a beam changes nothing then."""
    for program in ("opennmt", "marian"):
        decoding = models(program).model.config.decoding
        assert decoding.replace(beam=1).beam == 1
