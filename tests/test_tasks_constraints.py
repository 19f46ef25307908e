"""Options of searches by configuration, Python and command line: constraints as texts, ratios, penalties."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import run
from regard.cli.options import load as load_with
from regard.config import load
from regard.config.keys import keys
from regard.config.place import yaml_text
from regard.data.text import EOS, Field
from regard.decoding import Search
from regard.errors import ConfigError, DataError, InputError
from regard.runs.store import save
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import DecodingConfig, SideConfig, TextToTextConfig
from test_tasks_limits import untrained
from test_tasks_pointer import untrained as pointing

TEXTS = ["abcd", "f", "aab"]


def outputs(model, **more):
    return [[one.text for one in (best, *best.alternatives)] for best in model.predict(TEXTS, **more)]


def test_prefixes_inclusions_and_exclusions_are_texts():
    model = untrained(max_length=9, beam=4, num_best=3, prefix="ba", include=["cde", "f"], exclude="dd")
    for every in outputs(model):
        assert every
        assert all(text.startswith("ba") and "cde" in text and "f" in text and "dd" not in text for text in every)
    assert outputs(untrained(max_length=9, beam=4, num_best=3)) != outputs(model)


def test_constraints_of_single_inputs_are_added_to_those_of_all():
    model = untrained(max_length=12, beam=6, prefix="ba", include="cc")
    own = [{"prefix": "", "include": ["fef"]}, None, {"prefix": "d", "exclude": ["a", "b"]}]
    first, second, third = (best.text for best in model.predict(TEXTS, constraints=own))
    assert "cc" in first
    assert "fef" in first
    assert second == model.predict(TEXTS)[1].text
    assert second.startswith("ba")
    assert third.startswith("d")
    assert "cc" in third
    assert not {"a", "b"} & set(third)
    assert outputs(untrained(max_length=12, beam=6, prefix="ba", include="cc"), constraints=[None] * 3) == outputs(
        model
    )


def test_samples_and_greedy_search_take_prefixes_and_exclusions():
    for search in ({"method": "sampling", "num_best": 9, "seed": 1}, {"beam": 1}):
        model = untrained(max_length=9, prefix="ba", exclude=["c", "d"], **search)
        for every in outputs(model):
            assert all(text.startswith("ba") and not {"c", "d"} & set(text) for text in every)


def test_a_text_that_did_not_fit_gets_a_warning_and_limits_from_ratios_leave_room():
    short = untrained(max_length=4, beam=4, include=["abc", "def"]).predict(["ab"])[0]
    assert short.warnings[0].startswith("the output reached its greatest length without '")
    roomy = untrained(beam=4, max_length_ratio=0.1, include=["abcabcabc", "defdefdef"]).predict(["a"])[0]
    assert "abcabcabc" in roomy.text
    assert "defdefdef" in roomy.text
    assert roomy.warnings == ()


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([None], "constraints: give one for each of the 3 inputs, or None; got 1"),
        ([None, {"includes": ["a"]}, None], "input 2: constraints: unknown key 'includes'; there are prefix, include"),
        ([None, None, {"include": [3]}], r"input 3: constraints: include is a list of texts; got \[3\]"),
        ([{"prefix": [3]}, None, None], r"input 1: constraints: prefix is a text, or a list of symbols; got \[3\]"),
        ([{"prefix": ["a", "ab"]}, None, None], "input 1: constraints: prefix has symbols that no output has: 'ab'"),
        ([["a"], None, None], r"input 1: constraints: expected an object with prefix, include, exclude; got \['a'\]"),
        ([{"include": ["aßc"]}, None, None], "input 1: constraints: include 'aßc' has symbols that no output has: 'ß'"),
        ([{"include": [" "]}, None, None], "input 1: constraints: include ' ': the text is empty"),
        (
            [{"prefix": "abcdefabcdef"}, None, None],
            "input 1: constraints have 12 symbols in a row, but max_length is 9",
        ),
    ],
)
def test_constraints_that_cannot_be_kept_name_the_input_the_key_and_the_value(constraints, message):
    model = untrained(max_length=9)
    with pytest.raises(DataError, match=message) as caught:
        model.predict(TEXTS, constraints=constraints)
    assert len(constraints) == 1 or isinstance(caught.value, InputError)


def test_a_symbol_that_no_output_has_is_excluded_already():
    model = untrained(max_length=9)
    assert outputs(model, constraints=[{"exclude": ["ß"]}] * 3) == outputs(model)


def test_texts_to_include_need_a_beam():
    for options in ({"beam": 1}, {"method": "sampling"}):
        with pytest.raises(ConfigError, match="include needs a beam of at least 2") as caught:
            DecodingConfig(include="ab", **options)
        assert caught.value.path == ("decoding", "include")
        with pytest.raises(InputError, match="input 1: constraints: include needs a search with a beam of at least 2"):
            untrained(**options).predict(["ab"], constraints=[{"include": ["a"]}])
    with pytest.raises(ConfigError, match="exclude has an empty text"):
        DecodingConfig(exclude=["a", " "])
    with pytest.raises(ConfigError, match="include 'ß' has symbols that no output has"):
        untrained(include="ß").predict(["ab"])


def brief(**decoding):
    """A model whose outputs end early."""
    model = untrained(**decoding)
    decoder = model.module.decoder
    step = decoder.step

    def ending(*given, **more):
        output, state = step(*given, **more)
        changed = output.log_probabilities.clone()
        changed[:, EOS] += 4.0
        return type(output)(log_probabilities=changed.log_softmax(1), alignments=output.alignments), state

    decoder.step = ending
    return model


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3}, {"method": "sampling", "seed": 2}])
def test_the_least_length_follows_from_the_input(options):
    model, texts = brief(min_length_ratio=1.5, **options), ["abcd", "f", "aabcdefabc"]
    for text, best in zip(texts, model.predict(texts), strict=True):
        assert math.ceil(1.5 * len(text)) <= len(best.text) < 3 * len(text) + 10
    assert all(
        len(best.text) < 1.5 * len(text) for text, best in zip(texts, brief(**options).predict(texts), strict=True)
    )
    limited = brief(min_length_ratio=1.5, max_length=2, **options).predict(["abcd"])[0]
    assert len(limited.text) == 2
    with pytest.raises(ConfigError, match=r"min_length_ratio is 4\.0, above max_length_ratio 3\.0"):
        DecodingConfig(min_length_ratio=4.0)


SETTINGS = {
    "--prefix ba --include [cc,f] --exclude dd": {"prefix": "ba", "include": ("cc", "f"), "exclude": "dd"},
    "--repetition-penalty 3.0 --min-length-ratio 1.5": {"repetition_penalty": 3.0, "min_length_ratio": 1.5},
    "--num-groups 2 --diversity 3.0 --num-best 4": {"num_groups": 2, "diversity": 3.0, "num_best": 4},
    "--coverage-penalty gnmt --beta 5.0": {"coverage_penalty": "gnmt", "beta": 5.0},
    "--coverage-penalty summary --length-penalty average": {"coverage_penalty": "summary", "length_penalty": "average"},
    "--unknown-penalty 1000.0 --min-length 6": {"unknown_penalty": 1000.0, "min_length": 6},
    "--stop first --num-best 2": {"stop": "first", "num_best": 2},
    "--stop patience --patience 0.5": {"stop": "patience", "patience": 0.5},
    "--eos-threshold 1.1": {"eos_threshold": 1.1},
    "--attention-stop 1": {"attention_stop": 1},
}


@pytest.mark.parametrize("flags", SETTINGS)
def test_flags_configuration_and_python_mean_the_same(tmp_path, capsys, flags):
    base = {"max_length": 9, "beam": 4, "length_penalty": "none"}
    model, configured = untrained(**base), untrained(**{**base, **SETTINGS[flags]})
    save(configured, tmp_path / "configured")
    save(model, tmp_path / "model")
    found = model.predict(TEXTS, search=model.config.decoding.replace(**SETTINGS[flags]))
    restored = regard.load(tmp_path / "configured")
    assert restored.config.decoding == configured.config.decoding
    assert str(found) == str(restored.predict(TEXTS))
    assert run(["predict", "-m", str(tmp_path / "model"), *flags.split(), "--format", "jsonl", *TEXTS]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["text"] for one in printed] == [one.text for one in found]
    assert [len(one["alternatives"]) for one in printed] == [len(one.alternatives) for one in found]


@pytest.mark.parametrize("alignment", [True, False])
def test_coverage_does_not_depend_on_whether_alignments_are_asked_for(alignment):
    model = untrained(beam=4, max_length=3, min_length=3, coverage_penalty="gnmt", beta=2.0)
    (best,) = model.predict(["abcd"], alignment=alignment)
    assert (best.alignment is not None) == alignment
    whole = model.predict(["abcd"])[0]
    assert best.score == pytest.approx(whole.score)
    covered = whole.alignment.double().sum(0).clamp(max=1).log().sum().item()
    ranked = whole.log_probability / ((5 + len(whole.tokens)) / 6) ** 0.6
    assert whole.score == pytest.approx(ranked + 2.0 * covered, abs=1e-5)


def test_lines_of_a_file_have_constraints_of_their_own(tmp_path, capsys):
    save(untrained(max_length=12, beam=6), tmp_path / "model")
    file = tmp_path / "in.jsonl"
    rows = [
        {"source": "abcd", "must": {"prefix": "ba", "include": ["fef"]}},
        {"source": "f"},
        {"source": "aab", "must": {"exclude": ["a", "b"]}},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["predict", "-m", str(tmp_path / "model"), "-i", str(file), "--source-field", "source"]
    assert run([*command, "--constraints", "must"]) == 0
    first, second, third = (json.loads(line)["prediction"]["text"] for line in capsys.readouterr().out.splitlines())
    assert first.startswith("ba")
    assert "fef" in first
    assert not {"a", "b"} & set(third)
    assert run(command) == 0
    plain = [json.loads(line)["prediction"]["text"] for line in capsys.readouterr().out.splitlines()]
    assert plain[1] == second
    assert plain[0] != first
    rows[2]["must"] = {"exclude": "ab", "prefix": 3}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run([*command, "--constraints", "must"]) == 2
    assert f"{file}:3: must: constraints: prefix is a text, or a list of symbols; got 3" in capsys.readouterr().err
    assert run(["predict", "-m", str(tmp_path / "model"), "--constraints", "must", "ab"]) == 2
    assert "--constraints names a field of JSONL inputs" in capsys.readouterr().err
    out = tmp_path / "out.jsonl"
    assert run([*command, "--constraints", "mist", "-o", str(out)]) == 2
    assert f"{file}: --constraints mist: no line has this field; did you mean 'must'?" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", "3"),
        ("no", "no"),
        ("a: b", "a: b"),
        ("# 3", "# 3"),
        ("- 3", "- 3"),
        ("'3'", "3"),
        ("[a, '3']", ("a", "3")),
    ],
)
def test_texts_of_flags_need_no_quotes(tmp_path, text, value):
    save(untrained(), tmp_path / "model")
    loaded = load_with(str(tmp_path / "model"), "cpu", {"exclude": text, "alignment_layer": "null"})
    assert loaded.config.decoding.exclude == value
    assert loaded.config.decoding.alignment_layer is None


def test_a_list_says_what_its_entries_are():
    with pytest.raises(ConfigError, match="expected a list of which each entry is a number above 0, or null"):
        DecodingConfig(ensemble=Path("b")).replace(ensemble_weights=[1, -1])
    assert keys(DecodingConfig)["include",].expected == "text or a list of these"


def test_a_configuration_file_has_the_same_keys(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("data: {train: a.tsv}\ndecoding:\n  include: [Haus, Tür]\n  beta: 0.5\n")
    with pytest.raises(ConfigError, match=r"a.yaml:4:3: decoding.beta: beta is 0.5, but it is not read where"):
        load(file).check_unread()
    decoding = load(file, ["decoding.coverage_penalty=gnmt"]).config.decoding
    assert decoding.include == ("Haus", "Tür")
    assert decoding.replace(coverage_penalty="none").beta == 0.5


def test_continuations_refuse_what_is_about_a_source():
    from regard.tasks.language_modelling.config import ContinuationConfig

    for name, value in (("coverage_penalty", "gnmt"), ("attention_stop", 2), ("unknown_penalty", 1.0)):
        with pytest.raises(ConfigError, match=f"{name} is {yaml_text(value)}, but a continuation"):
            ContinuationConfig(method="beam", **{name: value})
    with pytest.raises(ConfigError, match="attention_stop is 2, but a continuation has no source"):
        ContinuationConfig().replace(attention_stop=2)
    assert Search(attention_stop=2).attention_stop == 2


def test_a_validation_has_neither_groups_nor_constraints_nor_other_models():
    from regard.tasks.text_to_text.trainee import PairTrainee

    model = untrained(beam=4, num_groups=2, diversity=1.0, include="ab", stop="first")
    search = PairTrainee._search(type("Trainee", (), {"config": model.config})(), beam=1)
    assert (search.beam, search.num_groups, search.include) == (1, 1, ())
    model = untrained(beam=4, ensemble="a", ensemble_weights=[1.0, 2.0], ensemble_alignment=1, reranker="b")
    search = PairTrainee._search(type("Trainee", (), {"config": model.config})(), beam=1)
    assert (search.members, search.ensemble_weights, search.reranker) == ((), None, None)


def test_a_pointer_includes_and_excludes_what_it_copies():
    model, texts = pointing(), ["zebra zebra b", "okapi c"]
    plain = model.predict(texts, search=Search(beam=4))
    assert any("zebra" in one.text for one in plain)
    own = [{"include": ["zebra b"], "exclude": ["b b"]}, {"prefix": "d okapi"}]
    first, second = (one.text for one in model.predict(texts, search=Search(beam=4), constraints=own))
    assert f" {first} ".count(" zebra b ")
    assert " b b " not in f" {first} "
    assert second.startswith("d okapi")
    without = model.predict(texts, search=Search(beam=4), constraints=[{"exclude": "zebra"}, None])
    assert "zebra" not in without[0].text
    assert without[1].text == plain[1].text
    with pytest.raises(InputError, match="input 2: constraints: include 'zebra' has symbols that no output has"):
        model.predict(texts, search=Search(beam=4), constraints=[None, {"include": "zebra"}])


SMALL = {"size": 8, "heads": 2, "layers": 2, "dropout": 0.0}
KINDS = {
    "recurrent": {"encoder": {"size": 8, "embedding_size": 6}, "decoder": {"size": 8, "embedding_size": 6}},
    "transformer": {"architecture": "transformer", "encoder": SMALL, "decoder": SMALL},
}
TOGETHER = [
    {"beam": 4, "num_groups": 2, "num_best": 4},
    {"beam": 4, "num_best": 2, "include": ["fe", "a"], "coverage_penalty": "gnmt", "length_penalty": "average"},
    {"beam": 6, "num_groups": 2, "include": "cd", "prefix": "ab", "repetition_penalty": 1.5, "stop": "patience"},
    {"beam": 1, "exclude": ["a", "bb"], "eos_threshold": 1.2, "attention_stop": 2, "min_length": 3},
    {"method": "sampling", "num_best": 3, "seed": 3, "prefix": "c", "attention_stop": 1, "min_length_ratio": 1.0},
    {"method": "mbr", "num_samples": 6, "seed": 3, "prefix": "c", "exclude": "d", "utility": "edit_distance"},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", TOGETHER, ids=str)
def test_fast_steps_search_as_plain_ones_do(kind, options):
    torch.manual_seed(3)
    config = TextToTextConfig(data={"train": "x.tsv"}, model=KINDS[kind], decoding={**options, "max_length": 8})
    field = Field.build(SideConfig(), ["abcdef"])
    model = TextToText.build(config, field, field)
    fast = model.predict(TEXTS)
    alone = [model.predict([text])[0] for text in TEXTS]
    with regard.plain():
        plain = model.predict(TEXTS)
    for ours, others in zip(fast, zip(plain, alone, strict=True), strict=True):
        for other in others:
            assert ours.text == other.text
            assert ours.warnings == other.warnings
            assert ours.score == pytest.approx(other.score, abs=1e-4)
            assert [one.text for one in ours.alternatives] == [one.text for one in other.alternatives]
            torch.testing.assert_close(ours.alignment, other.alignment, atol=1e-5, rtol=1e-4)
    texts = [one.text for best in fast for one in (best, *best.alternatives) if not one.warnings]
    assert all(text.startswith(options.get("prefix", "")) for text in texts)
