"""Whole Marian models, saved by transformers, converted, and compared with what they said."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import converted as c
from regard.errors import DataError, UnsupportedError
from regard.interop import convert

FOLDER = c.GOLDEN / "marian_models"
LONGEST = 9


@pytest.fixture(scope="module", params=["shared", "separate"])
def case(request, tmp_path_factory):
    """A converted model, and what transformers said."""
    folder = tmp_path_factory.mktemp("models") / request.param
    return c.converted("marian", FOLDER / request.param, folder), c.golden("marian_models", request.param)


def test_log_probabilities_are_those_of_transformers(case):
    c.check_log_probabilities(*case)


def test_greedy_outputs_are_those_of_transformers(case):
    c.check_greedy(*case, LONGEST)


def test_the_search_is_that_of_the_generation_config(case):
    decoding = case[0].config.decoding
    assert (decoding.beam, decoding.length_penalty, decoding.max_length) == (4, "average", LONGEST)


def test_symbols_that_a_side_lacks_are_read_as_unknown_and_never_said(case):
    model, theirs = case
    known = set(theirs["symbols"])
    pieces = model.target.vocabulary
    lacking = [pieces.number(piece) for piece in model.target.units.inventory if piece not in known]
    assert lacking
    said = c.log_probabilities(model, theirs["sources"], theirs["targets"])
    assert all((row[:, lacking] < -9000).all() for row in said)
    unread = model.source.vocabulary.number("▁ü")
    assert unread == 3  # a piece that neither has


@pytest.fixture
def changed(tmp_path):
    """Converts a model of which a file of JSON was changed, or its weights."""

    def convert_changed(name, file=None, change=lambda values: None, weights=None):
        folder = tmp_path / name
        shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
        if file is not None:
            values = json.loads((folder / file).read_text())
            change(values)
            (folder / file).write_text(json.dumps(values))
        if weights is not None:
            state = torch.load(folder / "pytorch_model.bin", weights_only=True)
            weights(state)
            torch.save(state, folder / "pytorch_model.bin")
        return convert("marian", folder, tmp_path / "out", overwrite=True)

    return convert_changed


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("model_type", "bart", "option model_type .* is 'bart', but only Marian models are read"),
        ("activation_function", "gelu_new", "option activation_function .* is 'gelu_new'"),
        ("normalize_before", True, "option normalize_before .* is True"),
        ("normalize_embedding", True, "option normalize_embedding .* is True"),
    ],
)
def test_options_that_cannot_be_expressed_are_refused_by_name(changed, name, value, text):
    with pytest.raises(UnsupportedError, match=text):
        changed("shared", "config.json", lambda config: config.update({name: value}))


def test_models_of_many_languages_are_refused(changed):
    def add(vocabulary):
        vocabulary[">>fra<<"] = len(vocabulary)

    with pytest.raises(UnsupportedError, match=r"language codes \(>>fra<<\)"):
        changed("shared", "vocab.json", add)


def test_files_that_do_not_belong_together_are_refused(changed):
    with pytest.raises(DataError, match="ids are not 0 to"):
        changed("shared", "vocab.json", lambda vocabulary: vocabulary.update(new=99))
    with pytest.raises(DataError, match=r"decoder_start_token_id 99 .* do the files belong together"):
        changed("shared", "config.json", lambda config: config.update(decoder_start_token_id=99))


def test_weights_that_do_not_fit_are_refused_by_name(changed):
    name = "model.encoder.layers.1.fc1.weight"
    with pytest.raises(DataError, match=r"no weight encoder\.layers\.1\.fc1\.weight"):
        changed("separate", weights=lambda state: state.pop(name))
    with pytest.raises(DataError, match=r"encoder\.layers\.1\.fc1\.weight is \(9, 8\); .* needs \(10, 8\)"):
        changed("separate", weights=lambda state: state.update({name: state[name][1:]}))
    with pytest.raises(DataError, match=r"no module here has: encoder\.layernorm_embedding"):
        changed(
            "separate", weights=lambda state: state.update({"model.encoder.layernorm_embedding.weight": torch.ones(8)})
        )


def test_settings_of_searches_that_are_left_out_are_named(changed):
    settings = {"length_penalty": -0.6, "repetition_penalty": 1.3, "bad_words_ids": [[3]], "do_sample": True}
    found = changed("shared", "generation_config.json", lambda config: config.update(settings))
    assert all(name in found.model.card for name in settings)
