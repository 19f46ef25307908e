"""Arrays and tokens beside a picture: what is written reads back."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.errors import DataError, RegardError, UnsupportedError
from regard.viz import load_alignment, plot_alignment, save_alignment

both = pytest.mark.parametrize("suffix", [".json", ".npz"])


def same(found, alignment, sources, targets):
    np.testing.assert_array_equal(found.alignment, alignment)
    assert found.alignment.dtype == alignment.dtype
    assert (found.source_tokens, found.tokens) == (sources, targets)


@both
@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3), (2, 4, 2, 3), (0, 3), (2, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_and_tokens_read_back_exactly(tmp_path, suffix, shape, dtype):
    a = np.random.default_rng(0).random(shape).astype(dtype)
    tokens = ["</script>", "日本\n", " "][: shape[-1]]
    path = save_alignment(a, tmp_path / f"a{suffix}", tokens)
    (found,) = load_alignment(path)
    same(found, a, tuple(tokens), None)


@both
def test_predictions_read_back_and_can_be_drawn_again(tmp_path, suffix):
    def prediction(size, text):
        heads = {"layer/0": torch.full((2, size, size), 1 / size)}
        return SimpleNamespace(
            alignment=torch.eye(size), source_tokens=["s"] * size, tokens=["t"] * size, text=text, alignments=heads
        )

    items = [prediction(2, "a"), prediction(3, None)]
    found = load_alignment(save_alignment(items, tmp_path / f"a{suffix}", heads=True))
    assert [one.text for one in found] == ["a", None]
    np.testing.assert_array_equal(found[1].alignments["layer/0"], np.full((2, 3, 3), np.float32(1 / 3)))
    assert len(load_alignment(save_alignment(items[0], tmp_path / f"a{suffix}"))[0].alignments) == 0
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    plot_alignment(items, first, heads=True)
    plot_alignment(found, second, heads=True)
    assert first.read_text() == second.read_text()


@both
def test_a_picture_can_leave_its_data_beside_it(tmp_path, suffix):
    a = np.random.default_rng(0).random((3, 4))
    written = plot_alignment(
        a, tmp_path / "x.svg", list("abc"), list("xy"), source_length=3, target_length=2, data=suffix[1:]
    )
    assert [path.name for path in written] == ["x.svg", "x" + suffix]
    same(load_alignment(written[1])[0], a[:2, :3], ("a", "b", "c"), ("x", "y"))


def test_json_is_plain_and_has_null_for_what_is_no_number(tmp_path):
    path = save_alignment([[0.5, np.nan]], tmp_path / "a.json", ["a", "b"], ["c"])
    (item,) = json.loads(path.read_text())["items"]
    assert item["alignment"] == [[0.5, None]]
    assert (item["source_tokens"], item["tokens"]) == (["a", "b"], ["c"])
    np.testing.assert_array_equal(load_alignment(path)[0].alignment, [[0.5, np.nan]])


def test_npz_is_read_without_pickles_by_plain_names(tmp_path):
    path = save_alignment(np.eye(2), tmp_path / "a.npz", ["a", "b"])
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["0/source_tokens"].tolist() == ["a", "b"]
        np.testing.assert_array_equal(arrays["0/alignment"], np.eye(2))


def test_npz_refuses_the_one_token_it_would_change(tmp_path):
    with pytest.raises(UnsupportedError, match=r"U\+0000; save as \.json"):
        save_alignment(np.eye(2), tmp_path / "a.npz", ["a\0", "b"])


@pytest.mark.parametrize(
    "content", ["{", "{}", '{"format": "other"}', "[]", '{"format": "regard.alignment.1", "items": [{}]}']
)
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, content):
    for name in ("a.json", "a.npz"):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=name):
            load_alignment(tmp_path / name)


def test_an_unknown_suffix_is_refused_with_the_right_ones(tmp_path):
    with pytest.raises(RegardError, match=r"\.json or \.npz.*'\.csv'"):
        save_alignment(np.eye(2), tmp_path / "a.csv")
    with pytest.raises(RegardError, match="'json', 'npz' or None; got 'csv'"):
        plot_alignment(np.eye(2), tmp_path / "a.png", data="csv")
