from __future__ import annotations

import math

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, sources
from regard.config.tasks.text_to_text import DecodingConfig
from regard.decoding import (
    NoRepeat,
    Prediction,
    Sampling,
    Search,
    force_align,
    greedy_search,
    main_alignment,
    rescore,
    sample,
    search,
)
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.models.contract import DecoderOutput

ALL = [Search(beam=1), Search(beam=3), Sampling(num_samples=2)]


def run(decoder, options=None, *, eos=3, max_length=4, count=2):
    return search(decoder, decoder.prepare(sources(count)), options, bos=BOS, eos=eos, max_length=max_length)


@pytest.mark.parametrize(
    ("kind", "name", "value", "advice"),
    [
        (Search, "beam", 0, "1 (greedy) or more"),
        (Search, "num_best", 0, "1 or more"),
        (Search, "beam", 1.5, "a whole number"),
        (Search, "beam", True, "a whole number"),
        (Search, "num_best", "2", "a whole number"),
        (Search, "min_length", math.nan, "a whole number"),
        (Search, "alpha", "0.6", "0 (no penalty) or more"),
        (Sampling, "temperature", "1", "a number above 0"),
        (Sampling, "top_p", None, "above 0"),
        (Search, "length_penalty", "gnm", "none, average or gnmt"),
        (Search, "alpha", -0.1, "0 (no penalty) or more"),
        (Search, "alpha", math.nan, "0 (no penalty) or more"),
        (Search, "min_length", -1, "0 or more"),
        (Sampling, "num_samples", 0, "from 1 to 1,000,000"),
        (Sampling, "temperature", 0.0, "Search(beam=1)"),
        (Sampling, "top_k", 0, "1 or more"),
        (Sampling, "top_p", 0.0, "above 0"),
        (Sampling, "top_p", 1.5, "up to 1"),
        (Sampling, "top_p", math.nan, "up to 1"),
        (Sampling, "temperature", math.inf, "Search(beam=1)"),
        (Sampling, "temperature", math.nan, "Search(beam=1)"),
        (Sampling, "top_k", 2.5, "a whole number"),
        (Sampling, "num_samples", 1.5, "a whole number"),
        (Sampling, "seed", 0.5, "a whole number"),
        (Sampling, "min_length", -1, "0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name_value_and_advice(kind, name, value, advice):
    with pytest.raises(ConfigError) as caught:
        kind(**{name: value})
    assert f"{name}={value!r}" in str(caught.value)
    assert advice in str(caught.value)
    assert caught.value.path == ("decoding", name)


def test_greedy_search_refuses_more_than_one_hypothesis():
    with pytest.raises(ConfigError, match=r"num_best=3.*wider beam"):
        Search(beam=1, num_best=3)
    decoder = HistoryDecoder(4, 0)
    with pytest.raises(ConfigError, match=r"beam=2.*beam_search"):
        greedy_search(decoder, decoder.prepare(sources(1)), Search(beam=2), bos=BOS, eos=3, max_length=2)


def test_a_seed_and_a_generator_together_are_refused():
    decoder = HistoryDecoder(4, 0)
    options = {"bos": BOS, "eos": 3, "max_length": 2, "generator": torch.Generator()}
    with pytest.raises(ConfigError, match="not both"):
        sample(decoder, decoder.prepare(sources(1)), Sampling(seed=1), **options)


def test_no_repeat_refuses_runs_of_nothing():
    with pytest.raises(ConfigError, match="size=0"):
        NoRepeat(0)


@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize(
    ("max_length", "error", "text"),
    [
        (0, RegardError, "max_length=0"),
        (torch.tensor([2, 0]), RegardError, "max_length=0"),
        (torch.tensor([2, 3, 4]), ShapeError, r"\(B=2,\) integers.*B=3"),
        (2.5, ShapeError, "integers"),
    ],
)
def test_impossible_maximum_lengths_are_refused(options, max_length, error, text):
    with pytest.raises(error, match="(?s)" + text):
        run(HistoryDecoder(4, 0), options, max_length=max_length)


@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda said, step: said * 0 + 3.0, RegardError, "logits.*log_softmax"),
        (lambda said, step: said[:1], ShapeError, r"R = 2 sentences x \d hypotheses"),
        (lambda said, step: said[:, None], ShapeError, r"log-probabilities \(R, N\)"),
        (lambda said, step: said if step < 2 else said * math.nan, RegardError, "NaN at step 2, sentence [01]"),
    ],
)
def test_outputs_that_cannot_be_searched_are_refused(options, change, error, text):
    with pytest.raises(error, match="(?s)" + text):
        run(Altered(HistoryDecoder(40, 0), change), options, eos=39)


def test_nan_names_the_sentence_of_the_batch():
    def change(said, step):
        said = said.clone()
        said[-1, :] = math.nan
        return said

    with pytest.raises(RegardError, match="step 1, sentence 2"):
        run(Altered(HistoryDecoder(4, 0), change), Search(beam=1), count=3)


@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize("eos", [4, -1])
def test_an_end_outside_the_vocabulary_is_refused(options, eos):
    with pytest.raises(RegardError, match=rf"eos={eos} is not a token.*N=4"):
        run(HistoryDecoder(4, 0), options, eos=eos)


def test_decoders_of_values_and_alignments_without_heads_are_refused():
    decoder = HistoryDecoder(4, 0)
    decoder.step = lambda inputs, memory, state, **options: (DecoderOutput(values=torch.zeros(len(inputs), 3)), state)
    with pytest.raises(UnsupportedError, match="values, not tokens"):
        run(decoder)
    decoder.step = lambda inputs, memory, state, **options: (
        DecoderOutput(torch.zeros(len(inputs), 4).log_softmax(1), alignments={"main": torch.zeros(len(inputs), 3)}),
        state,
    )
    with pytest.raises(ShapeError, match=r"\(R=10, H, S\)"):
        search(decoder, decoder.prepare(sources(2)), Search(), bos=BOS, eos=3, max_length=2, alignment=True)


def test_a_processor_that_changes_the_shape_is_refused():
    with pytest.raises(ShapeError, match=r"(?s)processor.*input.*returned"):
        run(HistoryDecoder(4, 0), Search(processors=(lambda said, tokens: said[:, :2],)))


def test_targets_that_do_not_fit_are_refused():
    decoder = HistoryDecoder(4, 0)
    memory = decoder.prepare(sources(2))
    with pytest.raises(RegardError, match=r"Target 1 has the id 9.*N=4"):
        force_align(decoder, memory, [[1], [2, 9]], bos=BOS, eos=3)
    with pytest.raises(ShapeError, match="B=2 rows, targets 1"):
        force_align(decoder, memory, [[1]], bos=BOS, eos=3)
    with pytest.raises(ShapeError, match="B=2 rows, hypotheses 3"):
        rescore(decoder, memory, [[], [], []], bos=BOS)


def test_the_defaults_are_those_of_a_configuration():
    config, options = DecodingConfig(), Search()
    for name in ("beam", "num_best", "length_penalty", "alpha", "min_length"):
        assert getattr(config, name) == getattr(options, name)


def test_the_main_alignment_is_the_one_the_decoder_names_or_the_last():
    alignments = {"a": torch.rand(2, 3, 4), "b": torch.rand(1, 3, 4)}
    torch.testing.assert_close(main_alignment(alignments), alignments["b"][0])

    class Named:
        main_attention = "a"

    torch.testing.assert_close(main_alignment(alignments, Named()), (alignments["a"][0] + alignments["a"][1]) / 2)
    assert main_alignment({}, Named()) is None
    with pytest.raises(RegardError, match="'a', but its alignments are b"):
        main_alignment({"b": alignments["b"]}, Named())


def test_results_show_what_matters():
    (h,) = run(HistoryDecoder(4, 0), count=1)[0]
    assert str(h.tokens.tolist()) in repr(h)
    assert h.stop_reason in repr(h)
    prediction = Prediction(["a"], ["b", "</s>"], "b", -1.0, -2.0, "eos", alignment=torch.ones(2, 1), warnings=("odd",))
    assert repr(prediction) == "Prediction('b', score=-1.0000, stop_reason='eos', alignment (2, 1), warnings=['odd'])"
