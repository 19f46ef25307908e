"""What a prediction may be asked for, and how long an output may be."""

from __future__ import annotations

import pytest
import torch

from regard.cli import run
from regard.config.tasks.text_to_text import SideConfig, TextToTextConfig
from regard.data import Field
from regard.decoding import GnmtPenalty, Sampling
from regard.errors import ConfigError
from regard.tasks import TextToText
from regard.tasks.store import save


def untrained(**decoding: object) -> TextToText:
    torch.manual_seed(0)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    config = TextToTextConfig(data={"train": "x.tsv"}, model={"encoder": side, "decoder": side}, decoding=decoding)
    field = Field.build(SideConfig(), ["abcdef"])
    return TextToText.build(config, field, field)


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "num_best": 3}, {"sampling": Sampling(5, seed=1)}])
@pytest.mark.parametrize("most", [1, 3, 6])
def test_no_output_has_more_symbols_than_its_maximum_length(options: dict, most: int) -> None:
    model = untrained()
    (best,) = model.predict(["abcd"], max_length=most, min_length=most, **options)
    for one in (best, *best.alternatives):
        symbols = len(one.tokens) - (one.stop_reason == "eos")
        assert symbols <= most
        assert one.alignment.shape == (len(one.tokens), 5)
    whole = untrained(max_length=most).predict(["abcd"], min_length=most, **options)[0]
    assert whole.tokens == best.tokens


def test_an_output_that_was_cut_is_scored_as_it_stands() -> None:
    model = untrained(length_penalty="gnmt", alpha=1.0)
    short, long = model.predict(["abcd"], beam=1, max_length=3)[0], model.predict(["abcd"], beam=1, max_length=9)[0]
    assert short.stop_reason == "length"
    assert short.tokens == long.tokens[:3]
    expected = GnmtPenalty(1.0).score(torch.tensor(short.log_probability), 3)
    assert short.score == pytest.approx(float(expected), abs=1e-6)
    assert short.log_probability > long.log_probability


def test_outputs_that_are_the_same_once_cut_are_one() -> None:
    model = untrained()
    (best,) = model.predict(["abcd"], beam=6, num_best=20, max_length=2, min_length=2)
    outputs = [(tuple(one.tokens), one.stop_reason) for one in (best, *best.alternatives)]
    assert len(set(outputs)) == len(outputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam=0: expected a whole number of at least 1"),
        ({"num_best": 0}, "num_best=0: expected a whole number of at least 1"),
        ({"max_length": 0}, "max_length=0: expected a whole number of at least 1"),
        ({"min_length": -1}, "min_length=-1: expected a whole number of at least 0"),
        ({"batch_tokens": -5}, "batch_tokens=-5: expected a whole number of at least 1"),
        ({"alpha": -1.0}, "alpha=-1.0: expected a number of at least 0"),
        ({"alpha": float("nan")}, "alpha=nan: expected a number"),
        ({"beam": 2.0}, "beam=2.0: expected a whole number"),
        ({"length_penalty": "gnm"}, "length_penalty='gnm': expected one of none, average, gnmt"),
        ({"min_length": 9, "max_length": 2}, "min_length is 9, above max_length 2"),
        ({"beam": 1, "num_best": 2}, "num_best is 2, but greedy search"),
    ],
)
def test_what_a_configuration_refuses_is_refused_in_python_too(options: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        untrained().predict(["ab"], **options)
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
    (best,) = untrained().predict(["ab"], beam=2, num_best=1_000_000, max_length=3)
    found = [tuple(one.tokens) for one in (best, *best.alternatives)]
    assert len(found) == len(set(found)) <= 2 * 4 + 2
