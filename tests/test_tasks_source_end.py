"""Models whose inputs have no end symbol (`data.source_end`)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.attention import bahdanau, multi_head
from regard.config.search import Search
from regard.data import Pair
from regard.data.pairs import ListedPairs
from regard.data.text import EOS, Field
from regard.data.text.survey import survey
from regard.errors import ConfigError, UnsupportedError
from regard.runs.contract import TASKS
from regard.tasks import TextToText
from regard.tasks.text_generation.ensembles import ensemble_of
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.trainee import EncodedPairs

PAIRS = [("ab cab", "ca bb"), ("a", "abc"), ("c c c a", "b")]


def model(*, source_end: bool, **sections: object) -> TextToText:
    torch.manual_seed(0)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    network = {"encoder": side, "decoder": side, "attention": {"size": 8}, **sections}
    config = TextToTextConfig(data={"train": "x.tsv", "source_end": source_end}, model=network)
    texts = [text for pair in PAIRS for text in pair]
    fields = [Field.build(side, texts) for side in (config.data.source, config.data.target)]
    return TextToText.build(config, *fields)


def test_inputs_have_an_end_symbol_unless_the_configuration_says_otherwise():
    own, other = model(source_end=True), model(source_end=False)
    assert own.predict(["ab"])[0].source_tokens == ["a", "b", "</s>"]
    (prediction,) = other.predict(["ab"])
    assert prediction.source_tokens == ["a", "b"]
    assert prediction.alignment.shape[1] == 2
    assert own.by_words(own.predict(["ab a"])[0]).source_tokens == ["ab", "a", "</s>"]
    assert other.by_words(other.predict(["ab a"])[0]).source_tokens == ["ab", "a"]


def test_training_reads_what_predictions_read():
    pairs = ListedPairs(Pair(*texts, Path("x.tsv"), 1) for texts in PAIRS)
    for source_end in (True, False):
        own = model(source_end=source_end)
        batch = EncodedPairs(survey("x", pairs, own.source, own.target), own).pad([0, 1])
        lengths = batch["source_mask"].sum(1).tolist()
        assert lengths == [6 + source_end, 1 + source_end]
        assert (EOS in batch["source"].flatten().tolist()) == source_end


def test_pairs_are_aligned_with_the_columns_that_there_are():
    own = model(source_end=False)
    (aligned,) = own.align([("ab cab", "ca bb")], words=False)
    assert aligned.source_tokens == list("ab cab")
    torch.testing.assert_close(aligned.alignment.sum(1), torch.ones(5), atol=1e-5, rtol=0)
    with pytest.raises(ConfigError, match="no end symbol follows"):
        own.align([("ab", "ca")], end_symbol=True)


def test_models_that_read_otherwise_do_not_predict_together_and_pointers_need_the_end():
    with pytest.raises(ConfigError, match="an end symbol follows the inputs of one of them only"):
        ensemble_of([model(source_end=True), model(source_end=False)])
    config = model(source_end=False).config
    network = config.model.model_dump() | {"pointer": {}}
    pointing = TextToTextConfig(data=config.data.model_dump(), model=network)
    with pytest.raises(ConfigError, match="a pointer reads inputs with an end symbol"):
        TASKS["text_to_text"].draft(pointing)


def test_a_training_that_starts_from_a_model_says_that_it_reads_otherwise():
    own, other = model(source_end=True), model(source_end=False)
    assert own.unlike(other) == ["source: its inputs were read without an end symbol (data.source_end)"]
    assert own.unlike(own) == []


def test_options_of_positions_are_those_of_their_parts_and_refused_elsewhere():
    sizes = {"query_size": 8, "memory_size": 8, "size": 8, "num_heads": 2}
    rotary = multi_head(**sizes, positions="rotary", rotary_layout="half", rotary_base=500.0)
    assert (rotary.score.layout, rotary.score.base) == ("half", 500.0)
    shared = multi_head(**sizes, positions="relative", max_distance=3, shared_offsets=True)
    assert shared.read.offsets is shared.score.offsets
    assert shared.score.offsets.vectors.shape == (7, 4)
    apart = multi_head(**sizes, positions="relative", max_distance=3)
    assert apart.read.offsets.vectors.shape == (7, 4)
    assert apart.read.offsets is not apart.score.offsets
    for options in ({"rotary_layout": "half"}, {"rotary_base": 2.0}, {"max_distance": 3}, {"shared_offsets": True}):
        (name,) = options
        with pytest.raises(UnsupportedError, match=f"{name} is an option of positions="):
            multi_head(**sizes, **options)


def test_an_additive_score_may_have_a_bias_without_being_normalised():
    mechanism = bahdanau(query_size=4, memory_size=3, size=5, bias=True)
    assert mechanism.score.query_projection.bias.shape == (5,)
    assert bahdanau(query_size=4, memory_size=3, size=5).score.query_projection.bias is None


def test_recurrent_networks_may_know_positions():
    side = {"positions": "sinusoidal", "size": 8, "embedding_size": 6, "dropout": 0.2, "input_feeding": True}
    encoder = {key: value for key, value in side.items() if key != "input_feeding"}
    own = model(source_end=True, encoder=encoder, decoder=side | {"tied_weights": True})
    embedding = own.module.decoder.embedding
    assert (embedding.embedding.dropout.p, embedding.dropout.p) == (0.0, 0.2)
    assert own.module.decoder.head.projection.weight is embedding.embedding.table.weight
    ids = torch.full((1, 3), 5)
    first, second, _ = own.module.encoder.embedding(ids, torch.arange(3))[0]
    assert not torch.equal(first, second)
    forced = own.module(ids, ids).log_probabilities
    memory = own.module.prepare(ids)
    state, steps = own.module.decoder.initial_state(memory), []
    for step in ids.unbind(1):
        output, state = own.module.decoder.step(step, memory, state)
        steps.append(output.log_probabilities)
    torch.testing.assert_close(torch.stack(steps, 1), forced)
    assert own.predict(["ab"], search=Search(beam=3))[0].stop_reason in ("eos", "length")
