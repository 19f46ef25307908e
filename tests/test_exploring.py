"""What can be explored of a model that writes texts: trees, steering, views, and what it does not explore."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import test_tasks_directions as directions
import test_tasks_pointer as pointers
from regard.data.text import EOS
from regard.decoding import Search, force_align
from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError
from regard.metrics import alignment_difference
from regard.runs.store import save
from regard.tasks.text_generation.model import ensemble
from regard.tasks.text_generation.nearest import states_of
from test_tasks_limits import untrained

torch.set_num_threads(1)
SEARCHES = [
    {"beam": 1},
    {"beam": 4, "num_best": 3},
    {"beam": 3, "num_best": 3, "max_length": 3, "min_length": 3},
    {"beam": 1, "max_length": 2, "min_length": 2},
    {"beam": 4, "num_groups": 2, "num_best": 4},
    {"beam": 3, "keep_finished": True, "num_best": 2},
    {"beam": 3, "stop": "top", "coverage_penalty": "gnmt", "prefix": "ba", "exclude": "dd"},
    {"beam": 5, "include": ["cde", "f"]},
]


def agree(tree, prediction):
    """Whether a tree has this prediction, and its paths are the outputs."""
    outputs = [prediction, *prediction.alternatives]
    found = [tree.prediction, *tree.prediction.alternatives]
    assert len(outputs) == len(found) == len(tree.returned)
    for one, other, number in zip(outputs, found, tree.returned, strict=True):
        assert one.record() == other.record()
        assert [node.text for node in tree.path(number)] in (one.tokens, one.tokens[-2::-1] + one.tokens[-1:])
        assert tree.nodes[number].score == pytest.approx(one.score)
    json.dumps(tree.record(), allow_nan=False)


@pytest.mark.parametrize("decoding", SEARCHES)
def test_the_tree_of_a_model_has_its_prediction(decoding):
    model = untrained(**decoding)
    for text in ("abcd", "f"):
        agree(model.search_tree(text), *model.predict([text]))
    search = Search(beam=2, num_best=2)
    agree(model.search_tree("abz", search=search), *model.predict(["abz"], search=search))


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_both_directions_ensembles_and_pointers_have_trees(direction, tmp_path):
    model = directions.made(direction=direction, beam=3, num_best=2)
    agree(model.search_tree("abcd"), *model.predict(["abcd"]))
    save(directions.made(1, direction=direction), tmp_path)
    together = model.config.decoding.replace(ensemble=(tmp_path,))
    agree(model.search_tree("abcd", search=together), *model.predict(["abcd"], search=together))
    both = directions.made(beam=2)
    chosen = both.config.decoding.replace(direction=direction)
    agree(both.search_tree("abcd", search=chosen), *both.predict(["abcd"], search=chosen))
    pointer = pointers.untrained()
    agree(pointer.search_tree("a okapi b"), *pointer.predict(["a okapi b"]))


def test_a_token_is_chosen_and_the_search_goes_on_from_there():
    for model, text in [(untrained(beam=3), "abcd"), (pointers.untrained(), "a okapi b")]:
        tree = model.search_tree(text)
        others = [node for node in tree.nodes if node.state == "pruned" and not node.is_end and node.step < 5]
        for node in others[:8]:
            symbols = tree.symbols(node.id)
            steered = model.search_tree(text, constraints={"prefix": symbols})
            agree(steered, *model.predict([text], constraints=[{"prefix": symbols}]))
            assert steered.prediction.tokens[: len(symbols)] == symbols
            (path,) = [n for n in steered.nodes if n.step == len(symbols) and n.state != "pruned" and not n.is_end]
            assert path.total == pytest.approx(sum(n.log_probability for n in tree.path(node.id)), abs=1e-5)


def test_symbols_that_no_text_has_are_a_prefix_too():
    """The unknown symbol, and symbols whose text would be divided otherwise."""
    model = untrained(beam=2)
    (prediction,) = model.predict(["abc"], constraints=[{"prefix": ["a", "<unk>", "b"]}])
    assert prediction.tokens[:3] == ["a", "<unk>", "b"]
    with pytest.raises(DataError, match="prefix '<unk>' has symbols that no output has"):
        model.predict(["abc"], constraints=[{"prefix": "<unk>"}])
    reversed_model = directions.made(direction="right_to_left")
    with pytest.raises(DataError, match="writes from right to left, so no output has a prefix"):
        reversed_model.search_tree("abc", constraints={"prefix": ["a"]})


def test_an_input_that_cannot_be_read_has_an_empty_tree():
    tree = untrained().search_tree(" ")
    assert (len(tree.nodes), tree.returned, tree.steps) == (1, (), 0)
    assert tree.prediction.warnings == ("the input is empty",)


@pytest.mark.parametrize(
    ("decoding", "message"),
    [
        ({"method": "sampling", "seed": 1}, "method is sampling, but samples do not compete for places"),
        ({"method": "mbr", "seed": 1}, "method is mbr, but samples do not compete for places"),
        ({"reranker": Path("other"), "beam": 3}, "reranker is other, but another model orders the outputs when the"),
    ],
)
def test_searches_without_a_tree_are_refused_by_name(decoding, message):
    with pytest.raises(ConfigError, match=message):
        untrained(**decoding).search_tree("abc")


def test_joint_searches_are_refused_by_name():
    with pytest.raises(ConfigError, match="joint is true, but there are two searches, one in each direction; leave it"):
        directions.made(joint=True).search_tree("abc")


def test_views_are_of_symbols_and_of_words():
    model = directions.made(kind="transformer", direction="left_to_right", max_length=6, min_length=4)
    (prediction,) = model.predict(["ab cd"])
    views = model.views(prediction)
    assert views["symbols"]["source_tokens"] == ("a", "b", "<unk>", "c", "d", "</s>") or len(views) == 2
    assert views["words"]["source_tokens"] == ("ab", "cd", "</s>")
    assert set(views["words"]["alignments"]) == {"cross.0", "cross.1"}
    for name, heads in views["symbols"]["alignments"].items():
        merged = torch.tensor(views["words"]["alignments"][name])
        symbols = torch.tensor(heads).sum(-1)
        assert merged.shape[0] == len(heads) == 2
        assert (merged.sum(-1) <= symbols.max() + 1e-5).all()
    assert model.views(model.predict(["ab cd"], alignment=False)[0]) == {}
    assert "words" not in pointers.untrained().views(pointers.untrained().predict(["a b"])[0])


def test_the_difference_of_alignments_is_of_matched_symbols():
    model = untrained(min_length=3, max_length=5)
    first, second = model.predict(["abcd"]) + model.predict(["abfcd"])
    same = alignment_difference(first, first)
    assert not same.weights.any()
    assert not same.moved.any()
    difference = alignment_difference(first, second)
    assert difference.columns == [(0, 0), (1, 1), (None, 2), (2, 3), (3, 4), (4, 5)]
    assert difference.source_tokens == ("a", "b", "f", "c", "d", "</s>")
    before, after = (each.alignment.double().numpy() for each in (first, second))
    for row, (i, j) in enumerate(difference.rows):
        for column, (k, m) in enumerate(difference.columns):
            old = 0.0 if None in (i, k) else before[i, k]
            new = 0.0 if None in (j, m) else after[j, m]
            assert difference.weights[row, column] == pytest.approx(new - old, abs=1e-12)
        if None in (i, j):
            assert math.isnan(difference.moved[row])
        else:
            assert 0 <= difference.moved[row] <= 1 + 1e-6
    record = json.loads(json.dumps(difference.record(), allow_nan=False))
    assert record["columns"][2] == [None, 2]
    backwards = alignment_difference(second, first)
    assert backwards.weights.sum() == pytest.approx(-difference.weights.sum(), abs=1e-9)
    (without,) = model.predict(["abcd"], alignment=False)
    with pytest.raises(RegardError, match="The second output has no alignment to compare"):
        alignment_difference(first, without)
    with pytest.raises(ShapeError, match=r"The alignment of the first output must be \(T=1, S=2\)"):
        alignment_difference(SimpleNamespace(source_tokens="ab", tokens="c", alignment=[[1.0]]), first)


def test_states_of_both_directions_and_pointers_predict_the_symbols(tmp_path):
    """The head turns the states of a pass into the model's own log-probabilities."""
    models = [
        untrained(),
        directions.made(direction="right_to_left"),
        directions.made(kind="transformer", direction="left_to_right"),
    ]
    for model in models:
        tokens, states = states_of(model, "abcd", "fed")
        assert tokens == (("d", "e", "f", "</s>") if model.is_reversed else ("f", "e", "d", "</s>"))
        with torch.no_grad():
            costs = model.module.decoder.head(states)
        assert float(costs.exp().sum(1).min()) == pytest.approx(1, abs=1e-5)
        (output,) = force_align(
            model.module.decoder,
            model.encode(model.sources(["abcd"])).memory,
            [[*model.target.vocabulary.ids(tokens[:-1]).tolist(), EOS]],
            bos=model.begin,
            eos=EOS,
        )
        torch.testing.assert_close(costs[range(4), output.tokens], output.token_log_probabilities, atol=1e-5, rtol=0)
    pointer = pointers.untrained()
    tokens, states = states_of(pointer, "a okapi b", "okapi b")
    assert (tokens, states.shape) == (("okapi", "b", "</s>"), (3, pointer.module.decoder.core.output_size))


def test_models_without_training_data_or_with_several_decoders_have_no_nearest_items(tmp_path):
    with pytest.raises(UnsupportedError, match="model was not loaded from a run folder, so its training data are unkn"):
        untrained().nearest("abc")
    with pytest.raises(DataError, match="count is 0; ask for 1 item or more"):
        untrained().nearest("abc", count=0)
    with pytest.raises(DataError, match="' ' with the output '' cannot be read"):
        untrained().nearest(" ")
    together = ensemble([directions.made(0), directions.made(1)])
    with pytest.raises(UnsupportedError, match="The states of several decoders are not compared"):
        together.nearest("abc")
