"""What can be explored of a model that writes texts: trees, steering, views, and what it does not explore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import test_tasks_directions as directions
import test_tasks_pointer as pointers
from regard.decoding import Search
from regard.errors import ConfigError, DataError
from regard.runs.store import save
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
