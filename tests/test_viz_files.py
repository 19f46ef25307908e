"""Arrays and tokens beside a picture: what is written reads back."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.errors import DataError, RegardError, ShapeError, UnsupportedError
from regard.metrics import summary
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
    with pytest.raises(RegardError, match=r"\.json \.npz, got '\.csv'"):
        save_alignment(np.eye(2), tmp_path / "a.csv")
    with pytest.raises(RegardError, match="'json', 'npz' or None; got 'csv'"):
        plot_alignment(np.eye(2), tmp_path / "a.png", data="csv")


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, suffix: str) -> None:
    file = save_alignment([[0.5, 0.5]], tmp_path / f"a{suffix}", "ab", "A")
    content = file.read_bytes()
    for broken in (b"", content[:-1], content[: len(content) // 2], content[9:], b"PK\x03\x04", b"\x00" * 99, b"[]"):
        file.write_bytes(broken)
        with pytest.raises(DataError, match=f"a{suffix}: not a file written by save_alignment"):
            load_alignment(file)
    for place in range(0, len(content), 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        with contextlib.suppress(DataError):  # or the flip hit what nobody looks at
            load_alignment(file)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_alignment(tmp_path / f"missing{suffix}")


@pytest.mark.parametrize("name", ["a\x00b.json", "a\ud800.json"])
def test_what_cannot_be_the_name_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RegardError, match="cannot be the name of a file"):
        save_alignment([[1.0]], tmp_path / name)
    with pytest.raises(RegardError, match="cannot be the name of a file"):
        plot_alignment([[1.0]], (tmp_path / name).with_suffix(".html"))


@pytest.mark.parametrize("strange", ["abc", [[1], [1, 2]], object(), {"a": 1}, [["a"]], None, np.ones((2, 2), complex)])
def test_what_is_no_alignment_is_an_error_that_says_what_is(tmp_path: Path, strange: object) -> None:
    with pytest.raises(RegardError, match=r"Expected numbers|An alignment is|no alignment"):
        plot_alignment(strange, tmp_path / "a.html")
    with pytest.raises(ShapeError, match=r"Expected an array|at least the axes"):
        summary(strange)


def test_tokens_lengths_and_weights_of_a_wrong_type_are_errors_that_name_them(tmp_path: Path) -> None:
    for options, name in (
        ({"source_tokens": 3}, "source_tokens must be a list"),
        ({"source_length": "1"}, "source_length: Expected an array, a tensor or nested lists of numbers"),
        ({"target_length": 0.5}, "target_length must be integers between"),
        ({"highest": "1"}, "highest must be a weight"),
        ({"highest": None}, "highest must be a weight"),
    ):
        with pytest.raises(RegardError, match=name):
            plot_alignment([[0.5, 0.5]], tmp_path / "a.html", **options)
