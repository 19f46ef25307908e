"""The checks of shapes that all tests run under."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from annotations import checked
from regard.attention.contract import Source


def add(x: Float[Tensor, "B S"], y: Float[Tensor, " S"], more: int = 0) -> Float[Tensor, "B S"]:
    return x + y if more == 0 else torch.zeros(more)


def test_a_wrong_shape_is_named_at_the_first_call_and_after_good_ones() -> None:
    for calls in (0, 2):
        strict: Any = checked(add)
        for size in range(calls):
            strict(torch.zeros(3, 4 + size), torch.zeros(4 + size))
        with pytest.raises(TypeCheckError):
            strict(torch.zeros(3, 4), torch.zeros(5))
        with pytest.raises(TypeCheckError):
            strict(torch.zeros(3, 4), torch.zeros(1))
        with pytest.raises(TypeCheckError):
            strict(torch.zeros(3, 4), torch.zeros(4).long())
        with pytest.raises(TypeCheckError):
            strict(torch.zeros(3, 4), y="y")


def test_a_wrong_result_is_named_at_the_first_call_and_after_good_ones() -> None:
    for calls in (0, 1):
        strict: Any = checked(add)
        for _ in range(calls):
            strict(torch.zeros(3, 4), torch.zeros(4))
        for _ in range(2):
            with pytest.raises(TypeCheckError):
                strict(torch.zeros(3, 4), torch.zeros(4), 5)


def test_sizes_that_happened_to_be_equal_do_not_pass_for_others() -> None:
    strict: Any = checked(add)
    strict(torch.zeros(3, 3), torch.zeros(3))
    strict(torch.zeros(3, 4), torch.zeros(4))
    with pytest.raises(TypeCheckError):
        strict(torch.zeros(3, 4), torch.zeros(3))


def test_what_raises_is_checked_again() -> None:
    def fail(x: Float[Tensor, "B S"], y: Float[Tensor, " S"]) -> None:
        raise ValueError

    strict: Any = checked(fail)
    for _ in range(2):
        with pytest.raises(ValueError):
            strict(torch.zeros(3, 4), torch.zeros(4))
        with pytest.raises(TypeCheckError):
            strict(torch.zeros(3, 4), torch.zeros(3))


def test_the_tensors_of_a_source_are_arguments_like_any_other() -> None:
    def read(x: Float[Tensor, "B S"], source: Source) -> None: ...

    strict: Any = checked(read)
    values, mask = torch.zeros(2, 5, 3), torch.ones(2, 5, dtype=torch.bool)
    for _ in range(2):
        strict(torch.zeros(2, 5), Source(values, values, mask))
        with pytest.raises(TypeCheckError):
            strict(torch.zeros(2, 4), Source(values, values, mask))
