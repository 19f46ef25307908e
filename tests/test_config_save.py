"""A saved configuration loads back equal; presets, differences and the description of all keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.config as config
from regard.config.description import key_list
from regard.config.keys import keys, keys_of, places
from regard.config.reading import preset_text
from regard.config.schema import SCHEMAS
from regard.errors import ConfigError
from regard.tasks.text_to_text.config import TextToTextConfig
from support.configuration_reference import describe

PRESETS = [
    "autoencoder",
    "captioning",
    "copying",
    "documents",
    "forecasting",
    "formulas",
    "g2p-transformer",
    "g2p",
    "inflection-transformer",
    "inflection",
    "labelling",
    "language-model",
    "no-attention",
    "speech-22k",
    "speech",
    "text-to-text",
    "translation-rnn",
    "translation-transformer",
    "transliteration",
]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_loads_and_saves_and_loads_equal(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = config.from_preset(name, ["data.train=pairs.tsv"])
    assert loaded.config.data.train == tmp_path / "pairs.tsv"
    (tmp_path / "run").mkdir()
    config.save(loaded.config, tmp_path / "run" / "config.yaml")
    monkeypatch.chdir("/")
    assert config.load(tmp_path / "run" / "config.yaml") == loaded


def test_presets_are_listed_with_a_line_each():
    listed = config.presets()
    assert list(listed) == PRESETS
    assert all(len(line) > 20 and not line.startswith("#") for line in listed.values())


def test_a_preset_asks_for_its_data():
    with pytest.raises(ConfigError, match=r"^preset g2p: data\.train: missing .* with settings=\{'data\.train': …\}$"):
        config.from_preset("g2p")


def test_an_unknown_preset_suggests_one():
    with pytest.raises(ConfigError, match="did you mean 'g2p'"):
        config.from_preset("gp2")
    with pytest.raises(ConfigError, match=r"there are autoencoder, .*g2p"):
        config.from_preset("qqqqq")


OPTION = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
    | st.sampled_from(["no", "1e-3", "010", "0x1f", "1_0", "12:30", "null", "~", "", ".inf", "<<", "=", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "no", "1"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=150)
@given(option=OPTION)
def test_every_option_of_a_recipe_survives_saving(option, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    original = TextToTextConfig(data={"train": "/a.tsv"}, model={"attention": {"recipe": "x", "option": option}})
    config.save(original, path)
    assert config.load(path).config == original


def test_a_saved_configuration_lists_every_key_in_the_order_of_the_schema():
    text = config.dump(TextToTextConfig(data={"train": Path("/a.tsv")}))
    positions = [text.index(f"\n{section}:") for section in ("data", "model", "training", "decoding", "select")]
    assert positions == sorted(positions)
    assert "betas: [0.9, 0.999]" in text


def test_differences_name_the_keys_that_differ():
    left = TextToTextConfig(data={"train": "/a.tsv"}, model={"attention": {"recipe": "bahdanau", "size": 3}})
    right = TextToTextConfig(data={"train": "/a.tsv"}, seed=2, model={"attention": {"recipe": "luong"}})
    none = TextToTextConfig(data={"train": "/a.tsv"}, model={"attention": None})
    assert config.differences(left, left) == []
    assert config.differences(left, right) == [
        ("seed", 1, 2),
        ("model.attention.recipe", "bahdanau", "luong"),
        ("model.attention.size", 3, config.ABSENT),
    ]
    assert ("model.attention", config.ABSENT, None) in config.differences(left, none)
    assert str(config.ABSENT) == "not set"


def test_every_key_has_a_meaning_and_stands_in_the_description():
    text = describe()
    for schema in SCHEMAS.values():
        for place in places(schema):
            for key in keys_of(place.section, place.path):
                assert key.field.description, key.path
                assert f"| `{key.path[-1]}` | " in text or f"`{'.'.join(key.path)}`" in text
    assert "| `max_steps` | a whole number of at least 1, or null | `null` |" in text
    assert "| `train` | a file name, a section (source, target), or a list of these | required |" in text


def test_the_description_says_what_a_task_has_of_its_own_and_shared_sections_once():
    text = describe()
    for task in SCHEMAS:
        assert text.count(f"## `task: {task}`\n") == 1
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(set(headings)) == len(headings)
    assert "`model` with `architecture: transformer`](#language_modelling-model-with-architecture-transformer)" in text
    own, _, shared = text.partition("## Sections that tasks share")
    assert "| `epochs` |" not in own
    assert shared.count("| `epochs` |") == 1
    assert "`window` `context` `batch_size` · [the training loop](#the-training-loop) |" in own
    assert "`training` of `text_to_text`, `documents`, `forecasting`" in shared


def test_the_list_of_keys_says_whose_a_key_is():
    assert "decoding.num_best (documents): a whole number of at least 1; default 1\n" in key_list("decoding.num_best")
    assert "model.dropout (architecture: flat): " in key_list("model", task="documents")
    assert "model.words.cell: one of gru, lstm, rnn, none; default gru\n" in key_list("model.words", task="documents")
    assert key_list("seed").startswith("seed: a whole number")
    assert "decoding.beam (text_to_text, language_modelling, image_to_text): a whole number" in key_list("decoding")
    assert "beam" not in key_list("decoding", task="documents")
    with pytest.raises(ConfigError, match=r"documents has no section or key 'decoding.beam'; "):
        key_list("decoding.beam", task="documents")


def test_keys_of_converted_models_are_listed_on_request_only():
    path = "model.encoder.norm_epsilon"
    assert path not in key_list()
    assert path not in key_list("model.encoder")
    assert path in key_list(path)
    assert path in key_list("model", converted=True)
    before, _, chapter = describe().partition("## Keys of converted models")
    assert "| `norm_epsilon` |" not in before
    assert "| `norm_epsilon` |" in chapter


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_no_key_of_converted_models(name):
    values = yaml.safe_load(preset_text(name))
    for path, key in keys(SCHEMAS[values.get("task", "text_to_text")], values).items():
        held = values
        for step in path:
            held = held.get(step) if isinstance(held, dict) else None
        assert held is None or not key.is_of_converted_models, path


def test_the_json_schema_knows_every_section_and_forbids_others():
    schema = config.json_schema()
    for kind, name in zip(schema["oneOf"], SCHEMAS, strict=True):
        assert set(kind["properties"]) == set(SCHEMAS[name].model_fields)
        assert kind["additionalProperties"] is False
    assert schema["$defs"]["EncoderConfig"]["properties"]["size"]["default"] == 256
