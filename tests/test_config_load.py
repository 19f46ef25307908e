"""What a configuration file says is read exactly, and what is wrong with it is said with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import regard.config as config
from regard.config import Configuration, from_preset
from regard.config.reading import preset_text
from regard.config.search import changed
from regard.errors import ConfigError
from regard.tasks.text_to_text.config import DecodingConfig, TextToTextConfig


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "run.yaml") -> str:
        Path(name).write_text(text, encoding="utf-8")
        return name

    return write


def messages(path: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config.load(path, overrides)
    return str(caught.value).splitlines()


def test_a_file_that_says_only_where_the_data_is_has_every_default(written):
    loaded = config.load(written("data: {train: pairs.tsv}\n"))
    assert loaded.config == TextToTextConfig(data={"train": Path("pairs.tsv").absolute()})
    assert (loaded.name, loaded.origin) == ("run", "run.yaml")


def test_an_unknown_key_is_named_with_line_column_and_nearest_key(written):
    path = written("data: {train: a.tsv}\nmodel:\n  encodr: {size: 3}\n")
    assert messages(path) == ["run.yaml:3:3: model.encodr: unknown key; did you mean 'encoder'?"]


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("epochs: 3", "epochs: unknown key; did you mean 'training.epochs'?"),
        ("hidden_size: 3", "hidden_size: unknown key; did you mean 'model.encoder.size' or 'model.decoder.size'?"),
        ("training: {lr: 0.1}", "training.lr: unknown key; did you mean 'learning_rate'?"),
        (
            "model: {encoder: {sample_rate: 3}}",
            "model.encoder.sample_rate: unknown key; model.encoder has architecture, positions, cell, size, layers, "
            "bidirectional, embedding_size, dropout, residual",
        ),
        ("training: {beam: 3}", "training.beam: unknown key; did you mean 'decoding.beam'?"),
        (
            "model: {zzz: 3}",
            "model.zzz: unknown key; model has architecture, encoder, decoder, attention, pointer, shared_embeddings",
        ),
    ],
)
def test_an_unknown_key_suggests_what_was_meant_in_any_section(written, line, end):
    (message,) = messages(written(f"data: {{train: a.tsv}}\n{line}\n"))
    assert message.startswith("run.yaml:2:")
    assert message.endswith(end)


def test_all_errors_are_reported_at_once_in_the_order_of_the_file(written):
    path = written("sede: 1\ndata:\n  trian: a.tsv\n  format: xls\nmodel:\n  encoder: {size: 0, size: 2}\n")
    found = messages(path, "training.epohcs=3")
    assert [message.split(" ")[0] for message in found] == [
        "run.yaml:1:1:",
        "run.yaml:3:3:",
        "run.yaml:4:11:",
        "run.yaml:6:19:",
        "run.yaml:6:22:",
        "training.epohcs=3:",
    ]


def test_a_key_given_twice_is_an_error_that_names_the_first_line(written):
    path = written("data: {train: a.tsv}\ntraining:\n  epochs: 3\n  epochs: 4\n")
    assert messages(path) == ["run.yaml:4:3: training.epochs: the key occurs twice (first at line 3); remove one"]


@pytest.mark.parametrize(
    ("text", "start", "word"),
    [
        ("data:\n\ttrain: a\n", "run.yaml:2:1: ", "spaces"),
        ("data: {train: a\nmodel: 3\n", "run.yaml:2:", "YAML"),
        ("data: a: b\n", "run.yaml:1:8: ", "quotes"),
        ("a: 1\n---\nb: 2\n", "run.yaml:2:1: ", "document"),
        ("data: &a {train: *a}\n", "run.yaml:1:7: data.train: ", "an alias that contains itself"),
        ("data: {train: !!python/name:os.system a}\n", "run.yaml:1:15: data.train: ", "tag"),
        ("x: &x {train: a}\ndata:\n  <<: *x\n", "run.yaml:3:3: ", "merge keys"),
        ("data: \x07\n", "run.yaml:1:7: ", "U+0007"),
        ("data: " + "[" * 5000, "run.yaml: ", "too deeply"),
        ("seed: " + "9" * 5000, "run.yaml:1:7: seed: ", "whole number"),
        ("- data\n", "run.yaml:1:1: ", "expected sections"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_line_and_column(written, text, start, word):
    assert any(message.startswith(start) and word in message for message in messages(written(text)))


def test_an_alias_bomb_is_refused_before_it_grows(written):
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{chr(c + 1)}: &{chr(c + 1)} [{','.join([f'*{chr(c)}'] * 10)}]\n" for c in range(ord("a"), ord("i"))
    )
    assert any("values" in message for message in messages(written(bomb)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {epochs: '3'}", "2:20: training.epochs: expected a whole number of at least 0; got '3'; "
         "write it without quotes"),
        ("training: {epochs: 3.0}", "2:20: training.epochs: expected a whole number of at least 0; got 3.0; write 3"),
        ("training: {epochs: yes}", "2:20: training.epochs: expected a whole number of at least 0; got yes, "
         "which YAML reads as true"),
        ("training: {max_steps: none}", "2:23: training.max_steps: expected a whole number of at least 1, or null; "
         "got 'none'; write null"),
        ("training: {betas: [0.9, 2]}", "2:19: training.betas: expected a list of 2 numbers of at least 0 and below 1; "
         "got a list of 2: [0.9, 2]"),
        ("training: {clip_norm: .inf}", "2:23: training.clip_norm: expected a number above 0, or null; got .inf"),
        ("model: {encoder: {cell: LSTMs}}", "2:25: model.encoder.cell: expected one of lstm, gru, rnn, "
         "gru_reset_before; got 'LSTMs'; did you mean 'lstm'?"),
        ("model: {attention: bahdanau}", "2:20: model.attention: expected a section (recipe and options), or null; "
         "got 'bahdanau'"),
        ("model: 3", "2:8: model: expected a section (architecture, encoder, decoder, attention, pointer, "
         "shared_embeddings); got 3"),
        ("select: on", "2:9: select: expected text; got on, which YAML reads as true; "
         "write 'on' in quotes to mean the word"),
        ("decoding: {length_penalty: null}", "2:28: decoding.length_penalty: expected one of none, average, gnmt, "
         "power; got null; did you mean 'none'?"),
        ("decoding: {beam: 1, num_best: 3}", "2:21: decoding.num_best: num_best is 3, but greedy search (beam 1) "
         "finds only one output; raise beam"),
        ("decoding: {min_length: 5, max_length: 3}",
         "2:12: decoding.min_length: min_length is 5, above max_length 3; lower it or raise max_length"),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_expected_and_what_came(written, text, message):
    assert messages(written(f"data: {{train: a.tsv}}\n{text}\n")) == [f"run.yaml:{message}"]


def test_a_pair_of_files_is_checked_as_a_pair(written):
    found = messages(written("data:\n  train: {source: a.txt, taget: b.txt}\n  dev: 3\n"))
    assert found == [
        "run.yaml:2:26: data.train.taget: unknown key; did you mean 'target'?",
        "run.yaml:3:8: data.dev: expected a file name, a section (source, target), or null; got 3",
    ]


def test_what_is_missing_without_a_misspelling_is_told(written):
    (found,) = messages(written("data:\n  train: {source: a.txt}\n"))
    assert found.startswith("run.yaml:2:3: data.train.target: missing (a text file")
    assert "settings={'data.train.target': …}" in found


def test_data_in_the_place_of_a_configuration_are_told_where_they_belong(written):
    first, *rest = messages(written("a\tb\n", "pairs.tsv"))
    assert first.startswith("pairs.tsv: the file has data, not a configuration")
    assert "--set data.train=pairs.tsv" in "".join(rest)


def test_numbers_are_read_as_people_write_them(written):
    path = written(
        "data: {train: a.tsv}\ntraining: {learning_rate: 1e-3, max_steps: 1e5, batch_tokens: 10_000, weight_decay: 1}\n"
        "seed: 010\nmodel: {encoder: {bidirectional: no}, attention: {recipe: luong, when: 12:30, day: 2020-01-02}}\n"
    )
    loaded = config.load(path).config
    assert loaded.training.learning_rate == 0.001
    assert (loaded.training.max_steps, loaded.training.batch_tokens, loaded.seed) == (100_000, 10_000, 10)
    assert loaded.training.weight_decay == 1.0
    assert loaded.model.encoder.bidirectional is False
    assert loaded.model.attention is not None
    assert loaded.model.attention.options == {"when": "12:30", "day": "2020-01-02"}


def test_an_empty_section_has_its_defaults_and_null_attention_is_none(written):
    loaded = config.load(written("data: {train: a.tsv}\ntraining:\nmodel: {attention: null}\n")).config
    assert loaded.training.epochs == 30
    assert loaded.model.attention is None


@pytest.mark.parametrize("text", ["", "data:\n", "seed: 1\n"])
def test_missing_data_is_asked_for_by_its_key(written, text):
    (message,) = messages(written(text))
    assert message.startswith("run.yaml:1:1: data.train: missing (a TSV, CSV or JSONL file")
    assert message.endswith("settings={'data.train': …}")


def test_paths_in_a_file_start_at_its_folder_and_in_overrides_at_the_working_directory(written, tmp_path):
    (tmp_path / "conf").mkdir()
    path = written("data: {train: ../a.tsv, dev: {source: s, target: /t}}\n", "conf/run.yaml")
    loaded = config.load(
        path, ["data.dev.source=here.txt", "data.source.sentencepiece_model=~/m", "data.train=~odd.tsv"]
    ).config.data
    assert loaded.train == tmp_path / "~odd.tsv"
    assert config.load(path).config.data.train == tmp_path / "a.tsv"
    assert loaded.dev is not None
    assert not isinstance(loaded.dev, Path)
    assert (loaded.dev.source, loaded.dev.target) == (tmp_path / "here.txt", Path("/t"))
    assert loaded.source.sentencepiece_model == Path.home() / "m"


def test_overrides_are_yaml_and_the_later_wins(written):
    path = written("data: {train: a.tsv}\nmodel: {attention: {recipe: bahdanau, size: 3}}\n")
    overrides = ["seed=1", "seed=7", "model.attention.size=4", "training={epochs: 2}", "select=a=b"]
    loaded = config.load(path, overrides).config
    assert (loaded.seed, loaded.training.epochs, loaded.select) == (7, 2, "a=b")
    assert loaded.model.attention is not None
    assert loaded.model.attention.options == {"size": 4}
    assert config.load(path, ["model.attention="]).config.model.attention is None
    assert (
        config.load(path, ["model.attention=null", "model.attention.recipe=luong"]).config.model.attention is not None
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.trian=x", "unknown key; did you mean 'data.train'?"),
        ("epochs=3", "unknown key; did you mean 'training.epochs'?"),
        ("modle.encoder.size=3", "modle: unknown key; did you mean 'model.encoder.size'?"),
        ("model.encoder={siz: 3}", "model.encoder.siz: unknown key; did you mean 'model.encoder.size'?"),
        ("seed=x", "expected a whole number of at least 0 and below 2147483648; got 'x'"),
        ("training.epochs.most=3", "training.epochs: expected a whole number of at least 0; got a section"),
        ("select.by=3", "select: expected text; got a section"),
        ("data.train={", "not YAML: expected the node content, but found '<stream end>' while parsing a flow node"),
        ("seed", "expected section.key=value, for example training.epochs=10"),
        ("data..x=1", "expected section.key=value, for example training.epochs=10"),
    ],
)
def test_an_override_is_reported_as_it_was_given(written, override, message):
    assert messages(written("data: {train: a.tsv}\nselect: loss\n"), override) == [f"{override}: {message}"]


def test_an_override_that_is_not_yaml_is_refused(written):
    (message,) = messages(written("data: {train: a.tsv}\n"), "seed=[")
    assert message.startswith("seed=[: not YAML: ")


def test_a_message_shows_nothing_that_a_terminal_obeys_and_cuts_what_is_long(written):
    path = written("data: {train: a.tsv}\n")
    assert messages(path, "seed=\x07") == ["seed=\\x07: the character U+0007 is not allowed in YAML; remove it"]
    (message,) = messages(path, "\x1b[31mred")
    assert message.startswith("\\x1b[31mred: expected")
    for override in ("seed=" + "9" * 9000, "seed=0x" + "f" * 9000, f"{'k' * 9000}=1", f"seed={'x' * 9000}"):
        assert 0 < len("\n".join(messages(path, override))) < 900
    with pytest.raises(ConfigError, match="There is no preset") as caught:
        config.from_preset("x\n" * 9000)
    assert len(str(caught.value)) < 600


def test_a_file_without_end_is_refused(written):
    Path("endless.yaml").symlink_to("/dev/zero")
    assert messages("endless.yaml") == ["endless.yaml: the file is larger than 16 MiB, too large for a configuration"]


def test_escapes_of_two_surrogates_are_a_character_and_one_alone_is_refused(written):
    path = written('data: {train: "\\ud83d\\ude00.tsv"}\n')
    assert config.load(path).config.data.train == Path("\U0001f600.tsv").absolute()
    (message,) = messages(written('data: {train: a.tsv}\nselect: "lo\\ud83d"\n'))
    assert message == r"run.yaml:2:9: select: half a surrogate pair in 'lo\ud83d'; write the whole character"
    (message,) = messages(written('data: {train: a.tsv, "\\ude00": 1}\n'))
    assert message == r"run.yaml:1:22: data: half a surrogate pair in '\ude00'; write the whole character"


def test_an_override_repairs_what_it_replaces(written):
    path = written("data: {train: 3, trian: 4}\ntraining: {epochs: x}\n")
    loaded = config.load(path, ["training.epochs=3", "data={train: a.tsv}"])
    assert loaded.config.training.epochs == 3


def test_a_file_that_is_not_there_suggests_one_that_is(written, tmp_path):
    written("", "g2p-big.yaml")
    assert messages("g2p-bg.yaml") == ["g2p-bg.yaml: no such file; did you mean 'g2p-big.yaml'?"]
    assert "from_preset('g2p')" in messages("g2p")[0]
    assert "regard list presets" in messages("nowhere/else.yaml")[0]
    Path("runs").mkdir()
    assert messages("runs") == ["runs: this is a folder; give a YAML file"]
    written("", "runs/config.yaml")
    assert messages("runs") == ["runs: this is a folder; did you mean 'runs/config.yaml'?"]
    Path("latin.yaml").write_bytes("data: {}\nselect: é".encode("latin-1"))
    assert messages("latin.yaml") == ["latin.yaml:2: byte 0xe9 is not UTF-8; save the file as UTF-8"]


def test_a_later_error_is_explained_with_the_place_of_its_key(written):
    path = written("data: {train: a.tsv}\nmodel:\n  attention: {recipe: bahdanau, siez: 3}\n")
    loaded = config.load(path, ["model.attention.odd=1"])
    explained = loaded.located(ConfigError("bahdanau has no option 'siez'", ("model", "attention", "siez")))
    assert str(explained) == "run.yaml:3:33: model.attention.siez: bahdanau has no option 'siez'"
    assert explained.path == ("model", "attention", "siez")
    assert str(loaded.located(explained)) == str(explained)
    assert str(loaded.located(ConfigError("the folder is used"))) == "the folder is used"
    odd = loaded.located(ConfigError("no", ("model", "attention", "odd")))
    assert str(odd) == "model.attention.odd=1: no"
    assert str(loaded.located(ConfigError("no", ("training", "device")))) == "run.yaml: training.device: no"
    assert str(Configuration(loaded.config).located(ConfigError("no", ("seed",)))) == "seed: no"


def test_configurations_are_equal_when_their_values_are(written):
    text = "data: {train: a.tsv}\n"
    assert config.load(written(text)) == config.load(written("\n" + text, "b.yaml"))
    assert config.load("run.yaml") != config.load("run.yaml", ["seed=2"])


def test_a_list_that_is_too_short_says_how_long_it_should_be():
    with pytest.raises(ConfigError, match=r"expected a list of 2 numbers .* got a list of 1: \[0.9\]"):
        config.from_preset("g2p", ["data.train=a.tsv", "training.betas=[0.9]"])


def test_a_seed_of_thousands_of_digits_is_out_of_range():
    for digits in (900, 3000, 10_000):
        with pytest.raises(ConfigError, match="expected a whole number"):
            config.from_preset("g2p", ["data.train=a.tsv", f"seed={'1' * digits}"])


@pytest.mark.parametrize(
    "setting",
    [
        f"seed={'1' * 3_000}",
        f"training.epochs={'x' * 3_000}",
        f"training.betas=[{', '.join(['0.5'] * 900)}]",
        f"training.{'k' * 3_000}=1",
        f"training.beta={'9' * 900}",
    ],
)
def test_long_settings_are_not_repeated_whole(setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_preset("g2p", ["data.train=pairs.tsv", setting])
    message = str(caught.value)
    assert len(message) < 900  # with the names of all keys of `training`
    assert setting[:12] in message
    with pytest.raises(ConfigError) as caught:
        changed(DecodingConfig(), "decoding", {"beam": -(10**900)})
    assert len(str(caught.value)) < 300


def test_another_recipe_has_none_of_a_presets_options() -> None:
    """They are options of the recipe that the preset names; what is set beside it counts."""

    def attention(*settings: str) -> dict[str, Any]:
        chosen = from_preset("speech", ["data.train=metadata.csv", *settings]).config
        return chosen.model.attention.model_dump()

    assert attention() == {"recipe": "forward_attention", "transition_agent": True}
    same = "model.attention.recipe=forward_attention"
    assert attention(same) == attention()
    assert attention("model.attention.size=64", "model.attention.recipe=gmm") == {"recipe": "gmm", "size": 64}


def test_a_presets_options_of_attention_name_their_recipe() -> None:
    """Without the name, naming the same recipe would remove them."""
    for name in config.presets():
        attention = (yaml.safe_load(preset_text(name)).get("model") or {}).get("attention")
        assert not attention or "recipe" in attention, name
