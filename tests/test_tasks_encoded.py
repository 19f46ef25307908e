from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.text import BOS, EOS, PAD, UNKNOWN, Field
from regard.tasks.encoded import EncodedTexts, pad
from regard.tasks.text_to_text.config import SideConfig

TEXTS = ["ab", "", "cab", "b?a", "c" * 9]


@pytest.fixture
def field() -> Field:
    return Field.build(SideConfig(), ["abc"])


def reference(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Row by row, as one would write it by hand."""
    width = max(map(len, rows), default=0)
    padded = [row + [PAD] * (width - len(row)) for row in rows]
    real = [[True] * len(row) + [False] * (width - len(row)) for row in rows]
    shape = (len(rows), width)
    return torch.tensor(padded).reshape(shape).long(), torch.tensor(real).reshape(shape).bool()


@pytest.mark.parametrize("begin", [None, BOS])
@pytest.mark.parametrize("end", [None, EOS])
@pytest.mark.parametrize("chosen", [[0, 1, 2, 3, 4], [4, 2, 2], [1], [1, 1], []])
def test_texts_that_were_encoded_once_are_laid_out_as_if_encoded_now(
    field: Field, chosen: list[int], begin: int | None, end: int | None
) -> None:
    ids = [field.encode(TEXTS[i]).ids for i in chosen]
    around = [[[] if symbol is None else [symbol] for symbol in (begin, end)] for _ in chosen]
    expected = reference([before + row.tolist() + after for (before, after), row in zip(around, ids)])
    for found in (EncodedTexts(TEXTS, field).pad(chosen, begin=begin, end=end), pad(ids, begin=begin, end=end)):
        assert found[0].dtype == torch.long
        for got, wanted in zip(found, expected):
            assert torch.equal(got, wanted)


def test_ids_are_kept_in_the_smallest_type_that_holds_the_vocabulary() -> None:
    for num_words, kind in ((252, np.uint8), (253, np.uint16), (70_000, np.uint32)):
        words = [f"w{i}" for i in range(num_words)]
        field = Field.build(SideConfig(units="whitespace"), [" ".join(words)])
        texts = EncodedTexts([field.vocabulary.symbols[-1], "unheard of"], field)
        assert texts.flat.dtype == kind
        assert texts.pad([0])[0].item() == num_words + 3
        assert texts.pad([1])[0].tolist() == [[UNKNOWN, UNKNOWN]]


def test_no_texts_are_no_rows(field: Field) -> None:
    texts = EncodedTexts([], field)
    assert texts.lengths.tolist() == []
    assert texts.pad([], end=EOS)[0].shape == (0, 0)
