from __future__ import annotations

import math

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, sources
from regard.decoding import NoPenalty, NoRepeat, Prediction, Search, force_align, main_alignment, rescore, search
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.models.contract import DecoderOutput

ALL = [Search(beam=1), Search(beam=3), Search(method="sampling", num_best=2)]


def run(decoder, options=None, *, eos=3, max_length=4, count=2, **more):
    return search(decoder, decoder.prepare(sources(count)), options, bos=BOS, eos=eos, max_length=max_length, **more)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("method", "greedy", "one of beam, sampling, mbr (search for the most probable outputs, sample"),
        ("beam", 0, "a whole number from 1 to 1000000 (hypotheses kept at each step; 1: greedy search)"),
        ("beam", 1.5, "a whole number from 1"),
        ("beam", True, "a whole number from 1"),
        ("num_best", 0, "a whole number from 1 to 1000000"),
        ("num_best", 1_000_001, "a whole number from 1 to 1000000"),
        ("num_best", "2", "a whole number from 1"),
        ("min_length", math.nan, "a whole number of at least 0"),
        ("min_length", -1, "a whole number of at least 0"),
        ("no_repeat_ngram_size", -1, "a whole number of at least 0"),
        ("alpha", "0.6", "a number of at least 0"),
        ("alpha", -0.1, "a number of at least 0"),
        ("alpha", math.nan, "a number of at least 0"),
        ("length_penalty", "gnm", "one of none, average, gnmt, power"),
        ("temperature", "1", "a number above 0"),
        ("temperature", 0.0, "a number above 0"),
        ("temperature", math.inf, "a number above 0"),
        ("temperature", math.nan, "a number above 0"),
        ("top_k", 0, "a whole number of at least 1, or null"),
        ("top_k", 2.5, "a whole number of at least 1, or null"),
        ("top_p", None, "a number above 0 and at most 1"),
        ("top_p", 0.0, "a number above 0 and at most 1"),
        ("top_p", 1.5, "a number above 0 and at most 1"),
        ("top_p", math.nan, "a number above 0 and at most 1"),
        ("seed", 0.5, "a whole number of at least 0"),
        ("seed", -1, "a whole number of at least 0"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name_value_and_what_is_expected(name, value, expected):
    for make in (Search, Search().replace):
        with pytest.raises(ConfigError) as caught:
            make(**{name: value})
        assert str(caught.value).startswith(f"{name}={value!r}: expected {expected}")
        assert caught.value.path == ("decoding", name)


def test_a_misspelt_option_and_one_without_a_name_are_refused():
    with pytest.raises(ConfigError, match=r"beam_size=3: unknown key; did you mean 'beam'\?"):
        Search(beam_size=3)
    with pytest.raises(ConfigError, match="width=3: unknown key; there are method, beam, "):
        Search().replace(width=3)
    with pytest.raises(TypeError, match=r"Search takes names, as in Search\(beam=3\); got 3"):
        Search(3)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"temperature": 0.7}, "temperature"),
        ({"seed": 0}, "seed"),
        ({"method": "beam", "top_k": 3}, "top_k"),
        ({"method": "sampling", "beam": 3}, "beam"),
        ({"method": "sampling", "alpha": 0.5}, "alpha"),
        ({"method": "sampling", "length_penalty": "none"}, "length_penalty"),
    ],
)
def test_an_option_that_the_method_does_not_read_is_refused(options, name):
    for make in (Search, Search().replace):
        with pytest.raises(ConfigError, match=f"{name} is .*, but only methods? .* reads? it, and method is") as caught:
            make(**options)
        assert caught.value.path == ("decoding", name)


def test_another_method_makes_no_objection_to_what_the_former_one_read():
    narrow, warm = Search(beam=3, length_penalty="none"), Search(method="sampling", temperature=0.7)
    assert narrow.replace(method="sampling", seed=1).beam == 3
    assert warm.replace(method="beam", beam=2).beam == 2
    with pytest.raises(ConfigError, match="beam is 2, but only method beam reads it"):
        warm.replace(beam=2)


def test_greedy_search_refuses_more_than_one_hypothesis():
    with pytest.raises(ConfigError, match=r"num_best is 3.*raise beam") as caught:
        Search(beam=1, num_best=3)
    assert caught.value.path == ("decoding", "num_best")


def test_a_search_refuses_the_options_of_another_one():
    decoder = HistoryDecoder(4, 0)
    memory, told = decoder.prepare(sources(1)), {"bos": BOS, "eos": 3, "max_length": 2}
    with pytest.raises(ConfigError, match="A generator draws samples; method beam draws nothing"):
        search(decoder, memory, Search(), generator=torch.Generator(), **told)
    with pytest.raises(ConfigError, match="A penalty ranks the hypotheses of method beam"):
        search(decoder, memory, Search(method="sampling"), penalty=NoPenalty(), **told)
    with pytest.raises(ShapeError, match=r"items must be \(B=1,\) numbers of type long; got \(2,\)"):
        search(decoder, memory, Search(method="sampling"), items=torch.arange(2), **told)


def test_a_seed_and_a_generator_together_are_refused():
    decoder = HistoryDecoder(4, 0)
    options = {"bos": BOS, "eos": 3, "max_length": 2, "generator": torch.Generator()}
    with pytest.raises(ConfigError, match="not both"):
        search(decoder, decoder.prepare(sources(1)), Search(method="sampling", seed=1), **options)


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
    with pytest.raises(ShapeError, match=r"\(R=2, H, S\)"):
        search(decoder, decoder.prepare(sources(2)), Search(), bos=BOS, eos=3, max_length=2, alignment=True)


def test_a_processor_that_changes_the_shape_is_refused():
    with pytest.raises(ShapeError, match=r"(?s)processor.*input.*returned"):
        run(HistoryDecoder(4, 0), processors=[lambda said, state: said[:, :2]])


def test_targets_that_do_not_fit_are_refused():
    decoder = HistoryDecoder(4, 0)
    memory = decoder.prepare(sources(2))
    with pytest.raises(RegardError, match=r"Target 1 has the id 9.*N=4"):
        force_align(decoder, memory, [[1], [2, 9]], bos=BOS, eos=3)
    with pytest.raises(ShapeError, match="B=2 rows, targets 1"):
        force_align(decoder, memory, [[1]], bos=BOS, eos=3)
    with pytest.raises(ShapeError, match="B=2 rows, hypotheses 3"):
        rescore(decoder, memory, [[], [], []], bos=BOS)


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
