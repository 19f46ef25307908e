"""Numbers about maps over pictures, against loops over pixels and cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RegardError, ShapeError
from regard.metrics import CaptionMaps, Pointing, ink_share, map_divergence, map_scores, pointing

FUNCTIONS = {
    "pointing": lambda maps, **where: pointing(maps, [None] * len(maps), size=(16, 16), **where),
    "map_divergence": map_divergence,
    "ink_share": lambda maps, **where: ink_share(maps, np.zeros((16, 16), np.uint8), **where),
}
each_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())


def drawn(seed, *, steps=4, grid=(3, 5)):
    """Random maps with some zeros, a mask, and their grid."""
    random = np.random.default_rng(seed)
    maps = random.dirichlet(np.full(grid[0] * grid[1], 0.3), size=steps)
    maps[random.random(maps.shape) < 0.2] = 0
    mask = random.random(grid[0] * grid[1]) < 0.8
    mask[0] = True
    return maps, mask, grid


def entropy_bits(p):
    return -sum(x * math.log2(x) for x in p if x > 0)


@given(st.integers(0, 200))
def test_divergence_is_the_mean_of_the_entropies_of_mixtures_less_those_of_maps(seed):
    maps, mask, _ = drawn(seed)
    rows = [np.where(mask, row, 0) for row in maps]
    rows = [row / row.sum() if row.sum() else mask / mask.sum() for row in rows]
    pairs = [(p, q) for i, p in enumerate(rows) for q in rows[i + 1 :]]
    expected = [entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2 for p, q in pairs]
    assert map_divergence(maps, mask=mask) == pytest.approx(np.mean(expected), abs=1e-9)


def test_identical_maps_are_found_though_they_look_well_one_by_one():
    random = np.random.default_rng(0)
    one = random.dirichlet(np.full(64, 0.2))
    same = np.tile(one, (9, 1)) + random.random((9, 64)) * 1e-9
    assert map_divergence(same) < 1e-9
    assert map_divergence(random.dirichlet(np.full(64, 0.2), size=9)) > 0.5
    scores = map_scores([CaptionMaps(id="a", maps=same, grid=(8, 8)), CaptionMaps(id="b", maps=same, grid=(8, 8))])
    assert scores.are_identical
    assert "IDENTICAL" in str(scores)
    different = map_scores([CaptionMaps(id="a", maps=np.eye(64)[:9], grid=(8, 8))])
    assert not different.are_identical
    assert "IDENTICAL" not in str(different)


def test_divergence_of_maps_without_a_common_cell_is_one():
    assert map_divergence(np.eye(7)) == 1
    assert map_divergence(np.eye(7)[[0, 0, 1]]) == pytest.approx(2 / 3)
    assert math.isnan(map_divergence(np.eye(7)[:1]))
    assert map_divergence(np.array([[1e-320, 0], [0, 1e-320]])) == 1


@given(st.integers(0, 200), st.sampled_from([(12, 20), (7, 11), (3, 5), (2, 3)]))
def test_ink_is_found_pixel_by_pixel(seed, size):
    maps, mask, (h, w) = drawn(seed)
    image = np.full((*size, 3), 255, np.uint8)
    image[np.random.default_rng(seed).random(size) < 0.02, 1] = 200
    cells = np.zeros((h, w), bool)
    for row, column in np.argwhere((image != 255).any(2)):
        for y in range(h):
            for x in range(w):
                inside = row + 1 > y * size[0] / h and row < (y + 1) * size[0] / h
                if inside and column + 1 > x * size[1] / w and column < (x + 1) * size[1] / w:
                    cells[y, x] = True
    each = [row[cells.ravel() & mask].sum() / row[mask].sum() for row in maps if row[mask].sum()]
    result = ink_share(maps, image, grid=(h, w), mask=mask)
    if len(each) == len(maps):
        np.testing.assert_allclose(result.each, each, atol=1e-12)
        assert result.share == pytest.approx(np.mean(each))
    assert result.uniform == pytest.approx(cells.ravel()[mask].mean())
    flat = ink_share(np.full((2, h * w), 0.1), image, grid=(h, w), mask=mask)
    assert flat.share == pytest.approx(flat.uniform)


def test_a_pixel_that_is_almost_paper_is_no_ink():
    image = np.full((4, 4), 255, np.uint8)
    image[0, 0], image[3, 3] = 240, 220
    maps = np.eye(4)
    assert ink_share(maps, image, grid=(2, 2)).each.tolist() == [0, 0, 0, 1]
    assert ink_share(maps, image < 255, grid=(2, 2)).each.tolist() == [1, 0, 0, 1]
    assert ink_share(maps, 255 - image, grid=(2, 2), paper=0).each.tolist() == [0, 0, 0, 1]


def pointing_by_loops(maps, boxes, size, grid, mask):
    """Hits of both rules, weight and chance of each word, cell by cell."""
    rows = []
    for weights, several in zip(maps, boxes, strict=True):
        if several is None:
            continue
        overlapping, centred = [], []
        for s in range(grid[0] * grid[1]):
            y, x = divmod(s, grid[1])
            top, bottom = y * size[0] / grid[0], (y + 1) * size[0] / grid[0]
            left, right = x * size[1] / grid[1], (x + 1) * size[1] / grid[1]
            overlaps, holds = False, False
            for x0, y0, x1, y1 in several:
                overlaps |= min(right, x1) > max(left, x0) and min(bottom, y1) > max(top, y0)
                holds |= x0 <= (left + right) / 2 < x1 and y0 <= (top + bottom) / 2 < y1
            overlapping.append(overlaps)
            centred.append(holds)
        real = [s for s in range(len(mask)) if mask[s]]
        best = max(real, key=lambda s: (weights[s], -s))
        looks = weights[best] > 0
        weight = sum(weights[s] for s in real if overlapping[s]) / sum(weights[s] for s in real) if looks else 0
        chance = [sum(kind[s] for s in real) / len(real) for kind in (overlapping, centred)]
        rows.append((looks and overlapping[best], looks and centred[best], weight, *chance))
    return rows


@given(st.integers(0, 300))
def test_pointing_is_that_of_loops_over_cells(seed):
    random = np.random.default_rng(seed)
    maps, mask, grid = drawn(seed, grid=(4, 3))
    if seed % 7 == 0:
        maps[1] = 0
    size = [(16, 12), (10, 25)][seed % 2]
    boxes = []
    for _ in maps:
        corners = [sorted(random.choice(size[1] + 1, 2, False)) + sorted(random.choice(size[0] + 1, 2, False))
                   for _ in range(random.integers(1, 3))]  # fmt: skip
        boxes.append([(x0, y0, x1, y1) for x0, x1, y0, y1 in corners] if random.random() < 0.8 else None)
    expected = pointing_by_loops(maps, boxes, size, grid, mask)
    found = pointing(maps, boxes, size=size, grid=grid, mask=mask)
    names = ("hit", "centre_hit", "weight", "chance", "centre_chance")
    for number, row in enumerate(expected):
        assert [getattr(found, name)[number] for name in names] == pytest.approx(row)
    assert found.step.tolist() == [step for step, entry in enumerate(boxes) if entry is not None]
    assert len(found) == len(expected)


def test_padding_is_never_pointed_at_and_has_no_weight():
    maps = np.array([[0.1, 0.9, 0.3, 0.0]])
    mask = np.array([[True, False], [True, True]])
    found = pointing(maps, [(0, 4, 4, 8)], size=(8, 8), grid=(2, 2), mask=mask)
    assert found.hit.tolist() == [True]
    assert found.weight[0] == pytest.approx(0.75)
    assert found.chance[0] == pytest.approx(1 / 3)
    maps[0, 1] = np.nan
    assert pointing(maps, [(0, 4, 4, 8)], size=(8, 8), grid=(2, 2), mask=mask).hit.tolist() == [True]


def test_the_rules_differ_at_the_edge_of_a_box():
    maps = np.eye(64)[[9]]  # the cell of pixels 8 to 15 in both directions
    for box, hit, centre in [((0, 0, 8, 8), 0, 0), ((0, 0, 9, 9), 1, 0), ((12, 12, 13, 13), 1, 1)]:
        found = pointing(maps, [box], size=(64, 64), grid=(8, 8))
        assert (found.hit[0], found.centre_hit[0]) == (hit, centre)


def test_words_of_several_captions_are_joined():
    some = pointing(np.eye(4)[[0, 1]], [(0, 0, 4, 4), None], size=(8, 8), grid=(2, 2))
    more = pointing(np.eye(4)[[0, 1]], [(4, 4, 8, 8), [(0, 0, 3, 3), (4, 0, 8, 4)]], size=(8, 8), grid=(2, 2))
    both = Pointing.joined([some, more])
    assert (len(both), both.mean(), both.mean("chance")) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert str(both).startswith("pointing 66.7% (chance 33.3%)")
    none = pointing(np.eye(4)[:1], [None], size=(8, 8), grid=(2, 2))
    assert (len(none), str(none)) == (0, "no word names an object")
    assert math.isnan(none.mean())
    assert len(Pointing.joined([])) == 0


@each_function
def test_forms_of_maps_agree(function):
    maps, mask, grid = drawn(5)
    first = function(maps, grid=grid, mask=mask)
    for other in (maps.reshape(-1, *grid), torch.tensor(maps).reshape(-1, *grid), maps.reshape(-1, *grid).tolist()):
        for kept in (mask, mask.reshape(grid), torch.tensor(mask)):
            assert str(function(other, mask=kept)) == str(first)


@each_function
@pytest.mark.parametrize(
    ("maps", "where", "message"),
    [
        (np.ones(4), {}, r"\(T, S\) with a grid, or \(T, h, w\); got shape \(4,\)"),
        (np.ones((2, 6)), {"grid": (2, 4)}, "6 positions do not fit"),
        (np.ones((2, 2, 3)), {"grid": (3, 2)}, r"have the grid \(2, 3\); got"),
        (np.ones((2, 6)), {"grid": (2, 3), "mask": np.ones(5, bool)}, r"mask must be \(6,\) or \(2, 3\) bool"),
        (np.ones((2, 6)), {"grid": (2, 3), "mask": np.ones(6)}, "float64"),
        (np.ones((2, 6)), {"grid": (2, 3), "mask": np.zeros(6, bool)}, "at least one real cell"),
        (np.full((2, 6), np.nan), {"grid": (2, 3)}, "word 0 has nan at position 0"),
        (-np.eye(6), {"grid": (2, 3)}, "has -1.0 at position 0"),
        ([["a"]], {}, "maps: Expected"),
    ],
)
def test_what_are_no_maps_is_refused(function, maps, where, message):
    with pytest.raises(RegardError, match=message):
        function(maps, **where)


def test_maps_without_a_grid_are_refused_where_it_matters():
    for name in ("pointing", "ink_share"):
        with pytest.raises(ShapeError, match=r"need grid=\(h, w\)"):
            FUNCTIONS[name](np.ones((2, 6)))
    assert map_divergence(np.ones((2, 6))) == 0


@pytest.mark.parametrize(
    ("boxes", "size", "message"),
    [
        ([None], (8, 8), "each of the 2 maps; got 1"),
        ([None, (0, 0, 9, 8)], (8, 8), "boxes of word 1 .* within 8 × 8"),
        ([None, (3, 0, 3, 8)], (8, 8), "boxes of word 1"),
        ([None, []], (8, 8), "boxes of word 1"),
        ([None, (1, 2, 3)], (8, 8), "boxes of word 1"),
        ([None, ["a"]], (8, 8), "boxes of word 1"),
        ([None, (0, 0, 1, np.nan)], (8, 8), "boxes of word 1"),
        ([None, None], (0, 8), "height and width"),
    ],
)
def test_what_are_no_boxes_is_refused(boxes, size, message):
    with pytest.raises(ShapeError, match=message):
        pointing(np.ones((2, 4)), boxes, size=size, grid=(2, 2))


@pytest.mark.parametrize("image", [np.zeros(4, np.uint8), np.zeros((2, 2)), np.zeros((0, 2), np.uint8)])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(ShapeError, match="image must be"):
        ink_share(np.ones((1, 4)), image, grid=(2, 2))


def test_scores_of_captions_are_in_a_table(tmp_path):
    image = np.full((8, 8, 3), 255, np.uint8)
    image[:4, :4] = 0
    maps = np.eye(4)[[0, 0, 3]]
    captions = [
        CaptionMaps(id="a.png", maps=maps, grid=(2, 2), boxes=[None, (0, 0, 4, 4), (0, 0, 4, 4)], image=image),
        CaptionMaps(id="b.png", maps=maps.reshape(3, 2, 2), boxes=[(4, 4, 8, 8), None, None], size=(8, 8)),
        CaptionMaps(id="c.png", maps=maps[:1], grid=(2, 2)),
    ]
    scores = map_scores(captions)
    figures = scores.figures()
    assert figures["map_divergence"] == pytest.approx(2 / 3)  # the caption of one word has none
    assert (figures["pointing"], figures["naming_words"]) == (pytest.approx(1 / 3), 3)
    assert (figures["ink_share"], figures["uniform_ink_share"]) == (pytest.approx(2 / 3), 0.25)
    lines = [line.split("\t") for line in scores.write(tmp_path / "maps.tsv").read_text().splitlines()]
    columns = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    assert [row["id"] for row in columns] == ["a.png", "b.png", "c.png"]
    assert (columns[0]["pointing"], columns[1]["pointing"], columns[2]["pointing"]) == ("0.5", "0", "")
    assert (columns[0]["ink_share"], columns[1]["ink_share"], columns[2]["map_divergence"]) == ("0.66667", "", "")
    assert "weight on ink 66.7% (uniform 25.0%)" in str(scores)
    assert str(map_scores([])) == "no maps"


@pytest.mark.parametrize("shape", [(0, 4), (0, 2, 2)])
def test_a_caption_without_words_has_no_figures(shape):
    maps, grid, image = np.zeros(shape), (2, 2), np.zeros((8, 8), np.uint8)
    assert len(pointing(maps, [], size=(8, 8), grid=grid)) == 0
    assert np.isnan(map_divergence(maps, grid=grid))
    assert np.isnan(ink_share(maps, image, grid=grid).share)
    scores = map_scores([CaptionMaps(id="a.png", maps=maps, grid=grid, boxes=[], image=image)])
    assert scores.table().splitlines()[1].split("\t")[:3] == ["a.png", "0", ""]
    assert "nan" not in str(scores)


def test_what_captions_of_one_word_lack_is_left_out():
    scores = map_scores([CaptionMaps(id="a.png", maps=np.eye(4)[:1], grid=(2, 2))])
    assert str(scores) == "divergence of maps –, focus 1.00, entropy 0% (1 captions)"


def test_the_picture_of_a_mistake_is_named():
    for maps, boxes, message in [
        (np.ones((1, 4)), [None, None], r"a\.png: pointing needs"),
        (np.full((1, 4), np.inf), [None], r"a\.png: Weights must be finite"),
    ]:
        with pytest.raises(RegardError, match=message):
            map_scores([CaptionMaps(id="a.png", maps=maps, grid=(2, 2), boxes=boxes, size=(8, 8))])
    with pytest.raises(ShapeError, match=r"a\.png: boxes need the size"):
        map_scores([CaptionMaps(id="a.png", maps=np.ones((1, 4)), grid=(2, 2), boxes=[None])])
