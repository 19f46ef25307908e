"""What a prediction may be asked for, and how long an output may be."""

from __future__ import annotations

import pytest
import torch

from regard.cli import run
from regard.config.search import with_search
from regard.data.text import Field
from regard.decoding import Candidates, GnmtPenalty, Search
from regard.errors import ConfigError
from regard.runs.store import save
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import DecodingConfig, SideConfig, TextToTextConfig


def untrained(**decoding: object) -> TextToText:
    torch.manual_seed(0)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    config = TextToTextConfig(data={"train": "x.tsv"}, model={"encoder": side, "decoder": side}, decoding=decoding)
    field = Field.build(SideConfig(), ["abcdef"])
    return TextToText.build(config, field, field)


SAMPLES = {"method": "sampling", "num_best": 5, "seed": 1}


MBR = {"method": "mbr", "num_samples": 9, "num_best": 9, "seed": 1, "utility": "edit_distance"}


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "num_best": 3}, SAMPLES, MBR])
@pytest.mark.parametrize("most", [1, 3, 6])
def test_no_output_has_more_symbols_than_its_maximum_length(options: dict, most: int) -> None:
    model = untrained()
    search = model.config.decoding.replace(max_length=most, min_length=most, **options)
    (best,) = model.predict(["abcd"], search=search)
    for one in (best, *best.alternatives):
        symbols = len(one.tokens) - (one.stop_reason == "eos")
        assert symbols <= most
        assert one.alignment.shape == (len(one.tokens), 5)
    whole = untrained(max_length=most).predict(["abcd"], search=Search(min_length=most, **options))[0]
    assert whole.tokens == best.tokens


def test_an_output_that_was_cut_is_scored_as_it_stands() -> None:
    model = untrained(length_penalty="gnmt", alpha=1.0)
    searches = [model.config.decoding.replace(beam=1, max_length=most) for most in (3, 9)]
    short, long = (model.predict(["abcd"], search=search)[0] for search in searches)
    assert short.stop_reason == "length"
    assert short.tokens == long.tokens[:3]
    expected = GnmtPenalty(1.0).score(Candidates(torch.tensor(short.log_probability), 3))
    assert short.score == pytest.approx(float(expected), abs=1e-6)
    assert short.log_probability > long.log_probability


def test_outputs_of_least_risk_that_are_cut_stay_distinct_and_in_order() -> None:
    model = untrained()
    search = model.config.decoding.replace(max_length=2, min_length=2, **MBR)
    (best,) = model.predict(["abcd"], search=search)
    outputs = (best, *best.alternatives)
    assert len({tuple(one.tokens) for one in outputs}) == len(outputs) > 1
    assert [one.score for one in outputs] == sorted((one.score for one in outputs), reverse=True)
    assert all(-3 <= one.score <= 0 for one in outputs)


def test_outputs_that_are_the_same_once_cut_are_one() -> None:
    model = untrained()
    search = model.config.decoding.replace(beam=6, num_best=20, max_length=2, min_length=2)
    (best,) = model.predict(["abcd"], search=search)
    outputs = [(tuple(one.tokens), one.stop_reason) for one in (best, *best.alternatives)]
    assert len(set(outputs)) == len(outputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam=0: expected a whole number from 1 to 1000000"),
        ({"num_best": 0}, "num_best=0: expected a whole number from 1 to 1000000"),
        ({"max_length": 0}, "max_length=0: expected a whole number of at least 1"),
        ({"min_length": -1}, "min_length=-1: expected a whole number of at least 0"),
        ({"batch_tokens": -5}, "batch_tokens=-5: expected a whole number of at least 1"),
        ({"alpha": -1.0}, "alpha=-1.0: expected a number of at least 0"),
        ({"alpha": float("nan")}, "alpha=nan: expected a number"),
        ({"beam": 2.0}, "beam=2.0: expected a whole number"),
        ({"length_penalty": "gnm"}, "length_penalty='gnm': expected one of none, average, gnmt, power"),
        ({"min_length": 9, "max_length": 2}, "min_length is 9, above max_length 2"),
        ({"beam": 1, "num_best": 2}, "num_best is 2, but greedy search"),
    ],
)
def test_what_a_configuration_refuses_is_refused_in_python_too(options: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        untrained().config.decoding.replace(**options)
    assert message in str(caught.value)
    assert caught.value.path[0] == "decoding"


@pytest.mark.parametrize(
    "option", ["--beam 0", "--num-best 0", "--max-length 0", "--batch-tokens -5", "--min-length 9 --max-length 2"]
)
def test_what_a_configuration_refuses_is_refused_on_the_command_line(tmp_path, capsys, option: str) -> None:
    save(untrained(), tmp_path / "model")
    assert run(["predict", "--model", str(tmp_path / "model"), *option.split(), "ab"]) == 2
    assert option.split()[0].removeprefix("--").replace("-", "_") in capsys.readouterr().err


def test_a_million_outputs_are_as_many_as_there_are() -> None:
    (best,) = untrained(max_length=3).predict(["ab"], search=Search(beam=2, num_best=1_000_000))
    found = [tuple(one.tokens) for one in (best, *best.alternatives)]
    assert len(found) == len(set(found)) <= 2 * 4 + 2


def test_a_search_replaces_the_search_of_the_configuration_and_no_limit() -> None:
    model = untrained(max_length=4, alpha=0.9, beam=2)
    assert with_search(model.config.decoding, None) == model.config.decoding
    assert with_search(model.config.decoding, Search(beam=3)) == DecodingConfig(max_length=4, beam=3)
    whole = DecodingConfig(max_length=3)
    assert with_search(model.config.decoding, whole) is whole
    with pytest.raises(ConfigError, match="min_length is 5, above max_length 4"):
        model.predict(["ab"], search=Search(min_length=5))
    with pytest.raises(TypeError, match=r"search: expected a Search, as in search=Search\(beam=3\); got 3"):
        model.predict(["ab"], search=3)  # type: ignore[arg-type]


LONG, DRAWN = {"min_length": 6}, {"method": "sampling", "seed": 5, "min_length": 6}


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"beam": 2, "num_best": 40}, {"beam": 3}),
        (LONG, {"num_best": 2}),
        (LONG, {"length_penalty": "average"}),
        (LONG, {"alpha": 2.0}),
        (LONG, {"min_length": 7}),
        (LONG, {"no_repeat_ngram_size": 1}),
        (LONG, {"method": "sampling"}),
        ({"beam": 3}, {"keep_finished": True}),
        (DRAWN, {"num_best": 2}),
        (DRAWN, {"seed": 6}),
        (DRAWN, {"temperature": 2.0}),
        (DRAWN, {"top_k": 2}),
        (DRAWN, {"top_p": 0.5}),
    ],
    ids=str,
)
def test_the_configuration_and_python_mean_the_same_by_a_setting(settings: dict, change: dict) -> None:
    def outputs(configured: dict, search: Search | None = None) -> str:
        model = untrained(max_length=9, **configured)
        torch.manual_seed(1)
        return str(model.predict(["abcd", "f", "aab"], search=search))

    changed = {**settings, **change}
    assert outputs({}, Search(**changed)) == outputs(changed) != outputs(settings)


def test_no_output_repeats_its_symbols() -> None:
    (best,) = untrained(max_length=6).predict(
        ["abcd"], search=Search(beam=4, num_best=4, min_length=3, no_repeat_ngram_size=1)
    )
    for one in (best, *best.alternatives):
        symbols = one.tokens[: len(one.tokens) - (one.stop_reason == "eos")]
        assert len(set(symbols)) == len(symbols) >= 3


def test_samples_of_an_input_depend_on_the_seed_and_on_no_other_input() -> None:
    model = untrained(method="sampling", num_best=3, seed=4, max_length=8)
    texts = ["abc", "f", "fedcba", "", "aab", "cc"]

    def outputs(texts: list[str], **changes: int) -> dict[str, list[str]]:
        found = model.predict(texts, search=model.config.decoding.replace(**changes))
        return {text: [other.text for other in (one, *one.alternatives)] for text, one in zip(texts, found)}

    together = outputs(texts)
    assert together == outputs(texts[::-1]) == outputs(texts, batch_tokens=1)
    assert together == {text: outputs([text])[text] for text in texts}
    assert together != outputs(texts, seed=5)
    first, again, other = model.predict(["abc", "abc", "f"])
    assert [one.text for one in (first, *first.alternatives)] == together["abc"]
    assert [one.text for one in (again, *again.alternatives)] != together["abc"]
    assert other.text == together["f"][0]


def test_without_a_seed_torchs_generator_gives_one() -> None:
    model = untrained(method="sampling", num_best=3, max_length=8)
    torch.manual_seed(1)
    first, second = model.predict(["abc"]), model.predict(["abc"])
    torch.manual_seed(1)
    assert str(model.predict(["abc"])) == str(first) != str(second)
