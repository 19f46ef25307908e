from __future__ import annotations

import inspect

import pytest
import torch

from regard import attention
from regard.attention import (
    RECIPES,
    AdditiveScore,
    BilinearScore,
    ChunkwiseAlignment,
    DotScore,
    GatedSum,
    LocationScore,
    Mechanism,
    Parallel,
    SoftmaxAlignment,
    WeightedSum,
    bahdanau,
    location_sensitive,
    luong,
)
from regard.errors import RegardError, ShapeError, UnsupportedError

VALUES = torch.zeros(4, 37, 6)


def refusal(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def prepare(**options):
    return lambda: bahdanau(query_size=5, memory_size=6, size=4).prepare(VALUES, **options)


def test_a_mask_that_is_one_shorter_is_shown_with_its_letters_and_a_guess():
    text = refusal(ShapeError, prepare(mask=torch.ones(4, 36, dtype=torch.bool)))
    assert "(B=4, S=37, M=6)" in text
    assert "(B=4, S=36) bool" in text
    assert "one shorter" in text


def test_a_time_first_mask_is_recognised():
    assert "mask.T" in refusal(ShapeError, prepare(mask=torch.ones(37, 4, dtype=torch.bool)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.long, torch.uint8])
def test_a_mask_that_is_not_bool_shows_both_right_calls(dtype):
    text = refusal(ShapeError, prepare(mask=torch.ones(4, 37, dtype=dtype)))
    assert "mask.bool()" in text
    assert "~mask" in text


def test_mask_and_lengths_at_once_are_refused():
    mask = torch.ones(4, 37, dtype=torch.bool)
    assert "not both" in refusal(ShapeError, prepare(mask=mask, lengths=mask.sum(1)))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([1, 2, 3]), r"lengths  \(B=3\)"),
        (torch.tensor([1.0, 2.0, 3.0, 4.0]), "integers"),
        (torch.tensor([1, 2, 3, 38]), "between 0 and S=37; got 1 to 38"),
        (torch.tensor([-1, 2, 3, 4]), "got -1 to 4"),
    ],
)
def test_lengths_that_cannot_be_are_refused(lengths, message):
    with pytest.raises(ShapeError, match=message):
        prepare(lengths=lengths)()


@pytest.mark.parametrize("name", ["mask", "lengths"])
def test_a_list_instead_of_a_tensor_is_refused_with_the_right_call(name):
    assert f"torch.tensor({name})" in refusal(ShapeError, prepare(**{name: [37, 1, 2, 3]}))


def test_parts_in_each_others_place_are_refused():
    parts = SoftmaxAlignment(), AdditiveScore(5, 6, 4), WeightedSum(6)
    assert "score must be an AbstractScore; got SoftmaxAlignment" in refusal(
        UnsupportedError, lambda: Mechanism(*parts)
    )


@pytest.mark.parametrize("read", [WeightedSum(6), GatedSum(5, 6)])
def test_a_read_of_another_number_of_heads_than_the_score_is_refused(read):
    score = AdditiveScore(5, 6, 4, num_heads=2)
    assert "1 heads and the score has 2: give it num_heads=2" in refusal(
        UnsupportedError, lambda: Mechanism(score, SoftmaxAlignment(), read)
    )


def test_values_without_a_batch_and_keys_of_another_source_are_refused():
    mechanism = bahdanau(query_size=5, memory_size=6, size=4)
    assert "values must be (B, S, M)" in refusal(ShapeError, lambda: mechanism.prepare(VALUES[0]))
    text = refusal(ShapeError, lambda: mechanism.prepare(VALUES, keys=VALUES[:, 1:]))
    assert "keys    (B=4, S=36, M=6)" in text


def test_rows_of_queries_must_be_a_multiple_of_sentences():
    mechanism = bahdanau(query_size=5, memory_size=6, size=4)
    memory = mechanism.prepare(VALUES)
    state = mechanism.initial_state(mechanism.prepare(torch.zeros(6, 2, 6)))
    text = refusal(ShapeError, lambda: mechanism.step(torch.zeros(6, 5), memory, state))
    assert "R=6 rows of queries are not a multiple of B=4 sentences" in text


def test_the_memory_of_a_recurrent_mechanism_does_not_grow():
    mechanism = location_sensitive(query_size=5, memory_size=6, size=4)
    text = refusal(UnsupportedError, lambda: mechanism.extend(mechanism.prepare(VALUES), VALUES))
    assert "LocationScore" in text
    assert "Prepare the whole memory first" in text


def test_a_mechanism_with_a_query_cannot_pool():
    mechanism = bahdanau(query_size=5, memory_size=6, size=4)
    text = refusal(UnsupportedError, lambda: mechanism.pool(mechanism.prepare(VALUES)))
    assert "AdditiveScore needs a query: use step or forward" in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DotScore(5, 6), "query_size=5 and memory_size=6 must be equal. Use the bilinear score"),
        (lambda: DotScore(6, 6, num_heads=4), "query_size=6 must be a multiple of num_heads=4"),
        (lambda: BilinearScore(5, 6, num_heads=2), "query_size=5 must be a multiple of num_heads=2"),
        (
            lambda: bahdanau(query_size=5, memory_size=6, size=5, num_heads=2),
            "size=5 must be a multiple of num_heads=2",
        ),
        (lambda: bahdanau(query_size=5, memory_size=6, num_heads=0), "num_heads=0"),
        (lambda: LocationScore(5, 6, 4, kernel_size=4), "kernel_size=4 must be odd"),
        (lambda: SoftmaxAlignment(sharpening=0), "sharpening=0 must be above 0"),
        (lambda: ChunkwiseAlignment(DotScore(6, 6), chunk_size=0), "chunk_size=0 must be 1 or more"),
        (lambda: ChunkwiseAlignment(LocationScore(5, 6, 4), chunk_size=2), "must not be recurrent; got LocationScore"),
        (lambda: luong(query_size=5, memory_size=6, score="cosine"), "score='cosine' must be"),
        (lambda: luong(query_size=5, memory_size=6, size=4), "score='general' has none"),
        (lambda: luong(query_size=5, memory_size=6, score="concat", learned_scale=True), "learned_scale multiplies"),
    ],
)
def test_parts_that_make_no_sense_are_refused_with_the_numbers_given(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()


def test_a_combination_needs_one_width_and_no_state():
    narrow, wide = (bahdanau(query_size=5, memory_size=size, size=4) for size in (4, 6))
    text = refusal(ShapeError, lambda: Parallel([narrow, wide], combination=wide))
    assert "read [4, 6]" in text
    recurrent = location_sensitive(query_size=5, memory_size=6, size=4)
    assert "must not be recurrent" in refusal(ShapeError, lambda: Parallel([wide, wide], combination=recurrent))


@pytest.mark.parametrize("verb", ["prepare", "extend"])
def test_parallel_takes_one_entry_a_memory(verb):
    parallel = Parallel([bahdanau(query_size=5, memory_size=6, size=4) for _ in range(2)])
    memory = parallel.prepare((VALUES, VALUES))
    call = parallel.prepare if verb == "prepare" else lambda values: parallel.extend(memory, values)
    assert "values must be a tuple of 2" in refusal(ShapeError, lambda: call((VALUES,)))
    assert "values must be a tuple of 2" in refusal(ShapeError, lambda: call((VALUES, VALUES, VALUES)))


@pytest.mark.parametrize("name", RECIPES)
def test_an_unknown_option_of_a_recipe_is_an_error_and_never_ignored(name):
    required = inspect.signature(RECIPES[name]).parameters.values()
    sizes = {parameter.name: 6 for parameter in required if parameter.default is parameter.empty}
    with pytest.raises(TypeError, match="colour"):
        RECIPES[name](**sizes, colour="red")


def test_all_errors_are_value_errors():
    assert issubclass(RegardError, ValueError)
    assert issubclass(ShapeError, RegardError)
    assert issubclass(UnsupportedError, RegardError)


def test_what_is_no_module_cannot_be_cited():
    with pytest.raises(RegardError, match=r"cite\('bahdanau'\): give the mechanism or the model itself"):
        attention.cite("bahdanau")


@pytest.mark.parametrize("recipe", ["gmm", "monotonic", "luong", "vinyals"])
def test_a_size_of_nothing_is_refused_and_not_replaced(recipe):
    options = {"score": "concat"} if recipe == "luong" else {}
    with pytest.raises(RegardError):
        getattr(attention, recipe)(query_size=4, memory_size=4, size=0, **options)
