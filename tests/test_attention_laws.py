from __future__ import annotations

import pytest
import torch

from regard.attention import bahdanau, multi_head
from regard.testing import LAWS, check_mechanism
from support.cases import MECHANISMS, covering

EXPORT = "step_can_be_exported"


def with_laws():
    """Every mechanism with every law; one mechanism of every set of modules is exported, as that takes a second.

    `make test` has the mechanisms that together have every part, and exports the first one only.
    """
    exported = {frozenset(map(type, case.make().modules())): case.name for case in reversed(MECHANISMS)}
    quick = covering(MECHANISMS)
    for case in MECHANISMS:
        for law in LAWS:
            if law != EXPORT or case.name in exported.values():
                is_quick = case.name in (MECHANISMS[0].name,) if law == EXPORT else case.name in quick
                marks = () if is_quick else pytest.mark.slow
                yield pytest.param(case, law, id=f"{case.name}-{law}", marks=marks)


@pytest.mark.parametrize(("case", "law"), list(with_laws()))
def test_every_mechanism_keeps_every_law(case, law):
    check_mechanism(
        case.make(),
        query_size=case.query_size,
        memory_size=case.memory_size,
        input_size=case.input_size,
        key_size=case.key_size,
        only=[law],
        exempt=case.exempt,
    )


def test_a_mechanism_may_be_checked_in_float32():
    check_mechanism(
        multi_head(query_size=5, memory_size=6, size=4, num_heads=2), query_size=5, memory_size=6, dtype=torch.float32
    )


def test_checking_leaves_the_mechanism_as_it_was():
    mechanism = bahdanau(query_size=3, memory_size=4, size=4)
    before = {name: tensor.clone() for name, tensor in mechanism.state_dict().items()}
    check_mechanism(mechanism, query_size=3, memory_size=4, only=["trees_hold_rows_of_tensors"])
    assert mechanism.training
    for name, tensor in mechanism.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ["gravity"]}, "'gravity' is not a law. The laws are: "),
        ({"exempt": {"gravity": "it floats"}}, "'gravity' is not a law"),
        ({"exempt": {"memory_may_grow": " "}}, "needs a reason: memory_may_grow"),
        ({"dtype": torch.float16}, "dtype=torch.float16 must be"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        check_mechanism(bahdanau(query_size=3, memory_size=4, size=4), query_size=3, memory_size=4, **options)


def test_a_broken_law_is_named_with_what_it_says_and_what_was_found():
    mechanism = bahdanau(query_size=3, memory_size=4, size=4)
    with pytest.raises(AssertionError) as caught:
        check_mechanism(mechanism, query_size=5, memory_size=4, only=["forward_is_the_loop_of_step"])
    text = str(caught.value)
    assert "Mechanism (AdditiveScore, FullWindow, SoftmaxAlignment, WeightedSum) breaks the law forward_is_" in text
    assert "Law: Contexts, alignments" in text
    assert "Failure: ShapeError" in text


def test_an_exempt_law_is_not_checked():
    mechanism = bahdanau(query_size=3, memory_size=4, size=4)
    check_mechanism(
        mechanism,
        query_size=5,
        memory_size=4,
        only=["forward_is_the_loop_of_step"],
        exempt={"forward_is_the_loop_of_step": "the query has another size here"},
    )
