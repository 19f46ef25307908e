"""Whole models of Joey NMT, saved by it, converted, and compared with what they said."""

from __future__ import annotations

import shutil

import pytest
import torch
import yaml

import converted as c
from regard.errors import DataError, UnsupportedError
from regard.interop import convert

FOLDER = c.GOLDEN / "joeynmt_models"
CASES = sorted(path.parent.name for path in FOLDER.glob("*/config.yaml"))
LONGEST = 9


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """A converted model, and what Joey NMT said."""
    folder = tmp_path_factory.mktemp("models") / request.param
    return c.converted("joeynmt", FOLDER / request.param, folder), c.golden("joeynmt_models", request.param)


def test_log_probabilities_are_joeys(case):
    c.check_log_probabilities(*case)


def test_greedy_outputs_are_joeys(case):
    c.check_greedy(*case, LONGEST)


def test_the_search_is_that_of_the_configuration(case):
    decoding = case[0].config.decoding
    found = decoding.beam, decoding.length_penalty, decoding.alpha, decoding.max_length, decoding.min_length
    assert found == (5, "gnmt", 1.0, LONGEST, 1)


@pytest.fixture
def changed(tmp_path):
    """Converts a model whose configuration or weights were changed."""

    def convert_changed(name, change=lambda config: None, weights=lambda state: None, **options):
        folder = tmp_path / name
        shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
        config = yaml.safe_load((folder / "config.yaml").read_text())
        change(config)
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        saved = torch.load(folder / "best.ckpt", weights_only=True)
        weights(saved["model_state"])
        torch.save(saved, folder / "best.ckpt")
        return convert("joeynmt", folder, tmp_path / "out", overwrite=True, **options)

    return convert_changed


@pytest.mark.parametrize(
    ("section", "key", "value", "text"),
    [
        ("model.decoder", "attention", "dot", "option attention .* is 'dot'.* 'bahdanau' or 'luong'"),
        ("model.decoder", "activation", "relu", "option activation .* is 'relu'"),
        ("model.encoder", "bidirectional", False, "option bidirectional .* is False"),
        ("model.encoder", "rnn_type", "sru", "option rnn_type .* is 'sru'"),
        ("model.encoder", "type", "cnn", "model.encoder.type .* is 'cnn'"),
        ("model.decoder", "init_hidden", "last", "init_hidden: last .* its hidden_size is 7"),
        ("data.src", "level", "byte", "option level .* is 'byte'"),
        ("data.src", "normalize", True, "data.src .* has normalize.*facts={'prepared': True}"),
        ("data.trg", "tokenizer_cfg", {"pretokenizer": "moses"}, "data.trg .* has pretokenizer: moses"),
        ("data.special_symbols", "sep_token", "<sep>", "special_symbols.sep_token .* is '<sep>'"),
        ("data.special_symbols", "lang_tags", ["<de>"], r"special_symbols.lang_tags .* is \['<de>'\]"),
    ],
)
def test_options_that_cannot_be_expressed_are_refused_by_name(changed, section, key, value, text):
    def change(config):
        for name in section.split("."):
            config = config[name]
        config[key] = value

    with pytest.raises(UnsupportedError, match=text):
        changed("lstm", change)


def test_a_transformer_whose_residuals_are_weighted_is_refused(changed):
    with pytest.raises(
        UnsupportedError, match=r"option alpha .* is 1\.2, but inputs of sublayers are added without a factor"
    ):
        changed("transformer", lambda config: config["model"]["encoder"].update(alpha=1.2))


def test_weights_that_do_not_fit_are_refused_by_name(changed):
    def cut(name):
        return lambda state: state.update({name: state[name][1:]})

    with pytest.raises(DataError, match=r"no weight decoder\.att_vector_layer\.weight, from which decoder\.readout"):
        changed("lstm", weights=lambda state: state.pop("decoder.att_vector_layer.weight"))
    with pytest.raises(DataError, match=r"decoder\.rnn\.weight_hh_l1 is \(27, 7\); .* needs \(28, 7\)"):
        changed("lstm", weights=cut("decoder.rnn.weight_hh_l1"))
    with pytest.raises(DataError, match=r"src_embed\.lut\.weight is \(9, 6\), but the vocabulary has 10 symbols"):
        changed("lstm", weights=cut("src_embed.lut.weight"))
    with pytest.raises(DataError, match=r"decoder\.bridge_layer\.weight is \(6, 10\); it must be \(7, 10\)"):
        changed("lstm", weights=cut("decoder.bridge_layer.weight"))
    with pytest.raises(DataError, match=r"no module here has: decoder\.gate"):
        changed("lstm", weights=lambda state: state.update({"decoder.gate": torch.ones(1)}))


def test_texts_may_be_prepared_elsewhere_if_that_is_said(changed):
    found = changed("lstm", lambda config: config["data"]["src"].update(normalize=True), facts={"prepared": True})
    assert "data.src: normalize" in found.model.card


def test_pieces_that_joey_does_not_use_split_no_text(case):
    model, theirs = case
    if model.config.data.source.units == "sentencepiece":
        known = set(theirs["symbols"])
        assert {token for text in theirs["sources"] for token in model.source.split(text)} - known == set()
        assert not any(len(piece) > 1 and piece not in known for piece in model.source.units.inventory)
