"""Given pairs are aligned in batches as they are alone, and as a search would have aligned them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from regard.data import Pair
from regard.data.text import BOS, EOS, Field
from regard.decoding import AlignedPair, force_align, merge_words
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.tasks import TextToText
from regard.tasks.text_to_text import aligning
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.viz import load_alignment, save_alignment

PAIRS = [
    ("ab cab", "ca bb"),
    ("a", "abc abc a b c"),
    ("c c c a", "b"),
    ("abc ab", "ab"),
    ("b", "a b"),
    ("ca cb ab a", "cab cc aa"),
]


def model(attention: dict | None = None, **data: object) -> TextToText:
    torch.manual_seed(0)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    attention = {"recipe": "multi_head", "size": 8, "num_heads": 2} if attention is None else attention
    config = TextToTextConfig(
        data={"train": "x.tsv", **data}, model={"encoder": side, "decoder": side, "attention": attention or None}
    )
    texts = [text for pair in PAIRS for text in pair]
    fields = [
        Field.build(each, texts, name=name)
        for name, each in (("source", config.data.source), ("target", config.data.target))
    ]
    return TextToText.build(config, *fields)


def close(one: AlignedPair, other: AlignedPair) -> None:
    assert (one.source_tokens, one.tokens, one.text) == (other.source_tokens, other.tokens, other.text)
    torch.testing.assert_close(one.alignment, other.alignment)
    torch.testing.assert_close(one.rest, other.rest)
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


@pytest.mark.parametrize("units", ["character", "word", "sentencepiece"])
def test_alone_and_in_any_batch_a_pair_gets_the_same(units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    side = {"units": units, **({"vocabulary_size": 12} if units == "sentencepiece" else {})}
    own = model(source=side, target=side)
    whole = own.align(PAIRS)
    assert [each.text for each in whole] == [target for _, target in PAIRS]
    for pair, each in zip(PAIRS, whole, strict=True):
        close(own.align([pair])[0], each)
        assert each.source_tokens == pair[0].split()
        assert each.tokens == pair[1].split()
    monkeypatch.setattr(aligning, "CELLS", 200)
    for one, other in zip(own.align(PAIRS[::-1])[::-1], whole, strict=True):
        close(one, other)
    assert own.align([]) == []


def test_batches_hold_every_pair_once_and_keep_their_limits() -> None:
    import numpy as np

    drawn = np.random.default_rng(1)
    sources, targets = drawn.integers(1, 40, 200), drawn.integers(1, 40, 200)
    batches = list(aligning._batches(np.arange(200), sources, targets, num_symbols=50, batch_tokens=300))
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sources[batch].max(), targets[batch].max()) <= 300
    assert len(batches) < 60


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("end_symbol", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_weights_are_those_of_a_forced_pass_with_no_mass_lost(words: bool, end_symbol: bool, normalise: bool) -> None:
    own = model()
    for (source, target), each in zip(
        PAIRS, own.align(PAIRS, words=words, end_symbol=end_symbol, normalise=normalise), strict=True
    ):
        ids = torch.from_numpy(own.source.encode(source).ids)
        outputs = torch.from_numpy(own.target.encode(target).ids)
        memory = own.module.prepare(torch.cat((ids, torch.tensor([EOS])))[None], None)
        (forced,) = force_align(own.module.decoder, memory, [[*outputs.tolist(), EOS]], bos=BOS, eos=EOS)
        assert each.log_probability == pytest.approx(forced.log_probability, abs=1e-5)
        weights = forced.alignments["attention"].mean(0)
        numbers = []
        for text in (source, target):
            index = own.source.words(list(text), text).index.tolist() if words else list(range(len(text)))
            numbers.append([*index, max(index) + 1 if end_symbol else -1])
        expected = merge_words(weights, *map(torch.tensor, numbers), normalise=normalise)
        torch.testing.assert_close(each.alignment, expected.weights)
        torch.testing.assert_close(each.rest, expected.rest)
        torch.testing.assert_close(each.alignment.sum(1) + each.rest, torch.ones(len(each.tokens)))
        assert (each.tokens[-1] == "</s>") == end_symbol
        if normalise:
            assert not each.rest.any()
        elif not end_symbol or (words and " " in source):
            assert (each.rest > 0.01).all()
        assert all(link[0] < len(source) and link[1] < len(target) for link in each.links())
        count = len(each.tokens) - end_symbol
        assert each.hard().shape == (count, len(each.source_tokens) - end_symbol)
        assert len(each.links()) == count if not end_symbol else len(each.links()) <= count


def test_heads_are_chosen() -> None:
    own = model()
    first, second, both = (own.align(PAIRS[:1], head=head)[0].alignment for head in (0, 1, None))
    torch.testing.assert_close((first + second) / 2, both)
    assert not torch.allclose(first, second)
    torch.testing.assert_close(own.align(PAIRS[:1], layer="attention", head=1)[0].alignment, second)
    with pytest.raises(ConfigError, match="alignment_head is 2, but attention has 2 heads"):
        own.align(PAIRS[:1], head=2)
    with pytest.raises(ConfigError, match=r"alignment_layer is 'cross\.1', but the alignments are attention"):
        own.align(PAIRS[:1], layer="cross.1")


def test_a_threshold_and_a_record() -> None:
    each = AlignedPair(
        ["a", "b"], ["x", "y"], "x y", torch.tensor([[0.6, 0.3], [0.4, 0.5]]), torch.tensor([0.1, 0.1]), -1.5
    )
    assert each.links() == [(0, 0), (1, 1)]
    assert each.links(threshold=0.4) == [(0, 0), (0, 1), (1, 1)]
    record = each.record(threshold=0.4)
    assert record["links"] == "0-0 0-1 1-1"
    assert record["alignment"] == [[0.6, 0.3], [0.4, 0.5]]
    assert record["rest"] == [0.1, 0.1]
    assert repr(each) == "AlignedPair('x y', links '0-0 1-1', log_probability=-1.5000, alignment (2, 2))"


def test_pairs_that_cannot_be_read_harm_no_other() -> None:
    own = model()
    own.config = own.config.model_copy(update={"decoding": own.config.decoding.replace(max_source_length=20)})
    pairs = [PAIRS[0], ("", "a b"), ("a b", ""), ("az", "a"), ("a", "a" * 21), ("a\ud800", "a"), PAIRS[1]]
    found = own.align(pairs)
    close(found[0], own.align(PAIRS[:1])[0])
    close(found[-1], own.align(PAIRS[1:2])[0])
    reasons = [each.warnings for each in found]
    assert reasons[0] == reasons[-1] == ()
    assert reasons[1] == ("the input is empty",)
    assert reasons[2] == ("the output is empty",)
    assert "'z'" in reasons[3][0]
    assert "21 symbols, but an output may have at most 20" in reasons[4][0]
    assert "surrogate" in reasons[5][0]
    assert [math.isnan(each.log_probability) for each in found] == [False, True, False, False, True, True, False]
    assert found[1].alignment.shape == (2, 0)
    assert found[2].alignment.shape == (0, 2)
    assert found[1].links() == found[2].links() == []
    assert "the input is empty" in repr(found[1])
    with pytest.raises(DataError, match=r"pair 2 .*the input is empty"):
        own.align(pairs, strict=True)


def test_other_arguments_are_refused() -> None:
    own = model()
    for wrong in (["ab"], [("a", 1)], [("a", "b", "c")]):
        with pytest.raises(TypeError, match="align takes pairs of texts"):
            own.align(wrong)  # type: ignore[arg-type]
    close(own.align([Pair("ab cab", "ca bb", Path("x"), 1)])[0], own.align(PAIRS[:1])[0])
    with pytest.raises(UnsupportedError, match="no attention"):
        model(attention={}).align(PAIRS)


def test_aligned_pairs_are_saved_like_predictions(tmp_path: Path) -> None:
    found = model().align(PAIRS[:2])
    save_alignment(found, tmp_path / "pairs.npz")
    for read, each in zip(load_alignment(tmp_path / "pairs.npz"), found, strict=True):
        assert (read.source_tokens, read.tokens, read.text) == (
            tuple(each.source_tokens),
            tuple(each.tokens),
            each.text,
        )
        torch.testing.assert_close(torch.from_numpy(read.alignment), each.alignment)


def test_the_attention_and_head_of_predictions_are_keys_of_decoding() -> None:
    own = model()
    text = PAIRS[0][0]
    whole = own.predict([text])[0]
    heads = whole.alignments["attention"]
    torch.testing.assert_close(whole.alignment, heads.mean(0))
    chosen = own.predict([text], search=own.config.decoding.replace(alignment_head=1))[0]
    torch.testing.assert_close(chosen.alignment, heads[1])
    with pytest.raises(ConfigError, match=r"alignment_layer is 'cross\.0', but the alignments are attention"):
        own.predict([text], search=own.config.decoding.replace(alignment_layer="cross.0"))
    losses = {"alignment_losses": {"supervision": 1.0, "supervision_head": 1}}
    supervised = model()
    config = own.config.model_dump(exclude={"training"}, exclude_unset=True)
    supervised.config = TextToTextConfig(**config, training=losses)
    torch.testing.assert_close(supervised.predict([text])[0].alignment, heads[1])
    aligned = supervised.align([(text, whole.text)], words=False, end_symbol=True)[0]
    torch.testing.assert_close(
        aligned.alignment, own.align([(text, whole.text)], words=False, end_symbol=True, head=1)[0].alignment
    )
    other = supervised.config.decoding.replace(alignment_head=0)
    torch.testing.assert_close(supervised.predict([text], search=other)[0].alignment, heads[0])


def test_predictions_by_words_keep_their_weight_but_that_of_blanks(tmp_path: Path) -> None:
    own = model()
    own.config = own.config.model_copy(update={"decoding": own.config.decoding.replace(min_length=8, num_best=2)})
    prediction = own.predict(["ab cab"])[0]
    by_words = own.by_words(prediction)
    assert by_words.source_tokens == ["ab", "cab", "</s>"]
    assert by_words.tokens == [*prediction.text.split(), *["</s>"] * (prediction.stop_reason == "eos")]
    blank = prediction.source_tokens.index(" ")
    rest = torch.tensor([0, 0, -1, 1, 1, 1, 2])
    assert blank == 2
    steps = own.target.words([t for t in prediction.tokens if t != "</s>"]).index.tolist()
    steps += [max(steps) + 1] * (prediction.stop_reason == "eos")
    expected = merge_words(prediction.alignment, rest, torch.tensor(steps))
    torch.testing.assert_close(by_words.alignment, expected.weights)
    torch.testing.assert_close(by_words.alignments["attention"].mean(0), expected.weights)
    assert by_words.alternatives[0].source_tokens == by_words.source_tokens
    own.plot([prediction], tmp_path / "x.html", words=True, end_symbol=False, data="json")
    (drawn,) = load_alignment(tmp_path / "x.json")
    assert drawn.source_tokens == ("ab", "cab")
    torch.testing.assert_close(torch.from_numpy(drawn.alignment), expected.weights[: len(drawn.tokens), :2])
    assert drawn.left_out > 0
    without = own.by_words(own.predict(["ab cab"], alignment=False)[0])
    assert without.source_tokens == [*"ab cab", "</s>"]


def test_outputs_that_a_pointer_copies_are_scored_as_copies() -> None:
    torch.manual_seed(0)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    word = {"units": "word"}
    config = TextToTextConfig(
        data={"train": "x.tsv", "source": word, "target": word},
        model={"encoder": side, "decoder": side, "pointer": {}},
        decoding={"beam": 2, "max_length": 4},
    )
    field = Field.build(config.data.source, ["call the office"])
    own = TextToText.build(config, field, field)
    texts = ["call Ulrike the Ole", "the the office", "Ole"]
    predictions = own.predict(texts, search=own.config.decoding.replace(min_length=1))
    pairs = [
        (text, each.text)
        for text, each in zip(texts, predictions, strict=True)
        if each.stop_reason == "eos" and "<unk>" not in each.text
    ]
    pairs += [("call Ulrike", "Ulrike call"), ("call the office", "Ulrike call")]
    found = own.align(pairs)
    for pair, each in zip(pairs, found, strict=True):
        close(own.align([pair])[0], each)
    copied, unknown = found[-2:]
    assert copied.warnings == ()
    assert unknown.warnings == ("output: not in the training data, read as <unk>: 'Ulrike'",)
    extension = own.extended.extend(pairs[-2][0])
    ids = torch.from_numpy(field.encode(pairs[-2][0]).ids)
    memory = own.module.prepare(
        torch.cat((ids, torch.tensor([EOS])))[None],
        None,
        source_ids=torch.tensor([[*extension.ids.tolist(), -1]]),
        extension=torch.ones(1, 1, dtype=torch.bool),
    )
    target = [*own.extended.ids(["Ulrike", "call"], extension).tolist(), EOS]
    assert target[0] == len(field.vocabulary)
    (forced,) = force_align(own.module.decoder, memory, [target], bos=BOS, eos=EOS)
    assert copied.log_probability == pytest.approx(forced.log_probability, abs=1e-5)


def transformer(**options: object) -> TextToText:
    torch.manual_seed(0)
    layers = {"size": 8, "layers": 2, "heads": 2, **options}
    config = TextToTextConfig(
        data={"train": "x.tsv", "max_length": 12},
        model={"architecture": "transformer", "encoder": layers, "decoder": layers},
    )
    field = Field.build(config.data.source, [text for pair in PAIRS for text in pair])
    return TextToText.build(config, field, field)


def test_layers_of_a_transformer_are_chosen_by_name() -> None:
    own = transformer()
    whole = own.predict(["ab ca"])[0]
    names = ["cross.0", "cross.1"]
    assert list(whole.alignments) == names
    found = {layer: own.align(PAIRS, layer=layer) for layer in (None, *names, "mean")}
    for first, last, shown, mean in zip(found["cross.0"], found["cross.1"], found[None], found["mean"], strict=True):
        close(shown, last)
        torch.testing.assert_close((first.alignment + last.alignment) / 2, mean.alignment)
        assert not torch.allclose(first.alignment, last.alignment)
    close(own.align(PAIRS[2:3], layer="cross.0", head=1)[0], own.align(PAIRS, layer="cross.0", head=1)[2])


def test_learned_positions_limit_both_sides_of_a_pair() -> None:
    own = transformer(positions="learned", max_positions=13)
    pairs = [("ab", "ab"), ("a" * 13, "b"), ("b", "a" * 13), ("a" * 12, "b" * 12)]
    found = own.align(pairs)
    close(found[0], own.align(pairs[:1])[0])
    assert [bool(each.warnings) for each in found] == [False, True, True, False]
    assert "13 symbols, but an output may have at most 12" in found[2].warnings[0]
    assert "13 symbols, but an input may have at most 12" in found[1].warnings[0]
