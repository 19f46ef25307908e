"""Models of sentencepiece in which only some pieces are used."""

from __future__ import annotations

import pytest
import torch

from regard.data.text import Field, Normalisation
from regard.data.text.pieces import SentencePieceUnits
from regard.errors import DataError
from regard.interop.pieces import of_pieces, restricted
from regard.interop.texts import LEAST, Symbols

SPECIALS = {"padding": "<pad>", "begin": "<pad>", "end": "</s>", "unknown": "<unk>"}


@pytest.fixture(scope="module")
def units():
    return SentencePieceUnits.train(["low lower lowest", "new newer newest", "wide wider widest"] * 20, num_pieces=40)


def test_texts_are_split_into_the_pieces_that_are_left(units):
    used = {piece for piece in units.inventory if "we" not in piece}
    fewer = SentencePieceUnits(restricted(units.model, used))
    text = "lower newest wide"
    assert fewer.split(text) != units.split(text)
    assert set(fewer.split(text)) <= set(fewer.inventory)
    assert fewer.join(fewer.split(text)) == text
    assert set(fewer.inventory) == {piece for piece in units.inventory if piece in used or len(piece) == 1}


def test_all_pieces_give_the_same_model(units):
    again = SentencePieceUnits(restricted(units.model, set(units.inventory)))
    assert again.inventory == units.inventory
    assert again.split("lower newest") == units.split("lower newest")


@pytest.mark.parametrize("damage", [b"nothing at all", b"\x0a\x7fabc", b"\x0b"])
def test_what_is_no_model_is_refused(damage):
    with pytest.raises(DataError, match="Not a sentencepiece model"):
        restricted(damage, set())


def test_symbols_beside_the_pieces_stand_behind_them_and_survive_a_folder(units, tmp_path):
    theirs = ["</s>", "<unk>", "▁elsewhere", *reversed(units.inventory[2:]), "<pad>"]
    symbols = of_pieces(units, Symbols.of(theirs, **SPECIALS))
    assert symbols.vocabulary.symbols == (*units.inventory, "▁elsewhere")
    weight = torch.arange(len(theirs), dtype=torch.float)[:, None]
    rows = symbols.rows(weight, "table")[:, 0].tolist()
    assert rows[:4] == [len(theirs) - 1, len(theirs) - 1, 0, 1]
    assert rows[4:6] == [1, 1]  # pieces that they do not have are read as unknown
    assert rows[6:] == [theirs.index(name) for name in symbols.vocabulary.symbols[2:]]
    bias = symbols.biases(weight[:, 0])
    assert bias.tolist()[:2] == [len(theirs) - 1, LEAST]  # outputs begin with the padding, which counts once
    assert bias[4:6].tolist() == [LEAST] * 2
    field = Field(Normalisation("keep", "keep"), units, symbols.vocabulary)
    field.save(tmp_path, "source")
    assert Field.load(tmp_path, "source").vocabulary == symbols.vocabulary
    with pytest.raises(DataError, match=r"table is \(3, 1\), but the vocabulary has"):
        symbols.rows(weight[:3], "table")
