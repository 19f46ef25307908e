"""Image to text from tables of pictures and strokes to texts: training, resuming, prediction, figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from regard.cli import run
from regard.config import Config
from regard.config import load as read_config
from regard.data.pictures import open_pictures
from regard.data.text import Field, Normalisation, Vocabulary, WordUnits
from regard.decoding import Prediction
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.image import Strokes
from regard.metrics import expression_rates
from regard.runs.store import save
from regard.tasks import TASKS, ImageToText, load, train
from regard.tasks.image_to_text import model as image_model
from regard.tasks.image_to_text.batches import bucket_pictures, in_batches
from regard.tasks.image_to_text.config import ImageConfig, ImageToTextConfig, TargetConfig
from regard.tasks.image_to_text.evaluation import PictureEntry, PictureItem, figures_of, items_of
from regard.tasks.image_to_text.pixels import PictureReader
from regard.tasks.image_to_text.reading import hold_out_pictures, open_table
from regard.tasks.image_to_text.trainee import Augmenter
from regard.tasks.text_generation.evaluation import Scored

LOOP = {"device": "cpu", "threads": 1, "samples": 0, "log_every": 1000}
SMALL = {
    "encoder": {"widths": [8, 16], "depths": [1, 1], "dropout": 0.0},
    "decoder": {"size": 32, "embedding_size": 16, "order": "attend_then_recur", "dropout": 0.0},
    "attention": {"recipe": "plane_coverage", "size": 32, "num_filters": 4, "kernel_size": 3},
}


def bars(text: str, shift: int) -> list[list[int]]:
    """Strokes of words side by side: `i` is a vertical bar, `o` a square, `-` a horizontal one."""
    shapes = {"i": [10, 0, 10, 40], "o": [0, 10, 20, 10, 20, 30, 0, 30, 0, 10], "-": [0, 20, 25, 20]}
    lines = []
    for place, word in enumerate(text.split()):
        moved = [value + (40 * place + shift if axis % 2 == 0 else 0) for axis, value in enumerate(shapes[word])]
        lines.append(moved)
    return lines


def written(path: Path, count: int, seed: int) -> list[str]:
    """A JSONL table of strokes with tokens; their texts."""
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(list("io-"), random.integers(1, 3))) for _ in range(count)]
    records = [
        {"id": f"{path.stem}-{number}", "tokens": text, "strokes": bars(text, int(random.integers(0, 5)))}
        for number, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return texts


def configuration(folder: Path, *, data: dict[str, Any] | None = None, **training: Any) -> Path:
    values = {
        "task": "image_to_text",
        "data": {
            "train": "train.jsonl",
            "dev": "dev.jsonl",
            "target": {"units": "whitespace"},
            "image": {"unit": 12.0, "margin": 2.0},
            **(data or {}),
        },
        "model": SMALL,
        # there are only 12 texts of two symbols: held-out pictures are like training pictures
        "training": {**LOOP, "allow_trained_dev": True, **training},
        "decoding": {"max_length": 6},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables of strokes, and a run that has learned them."""
    folder = tmp_path_factory.mktemp("bars")
    for name, count, seed in (("train", 24, 1), ("dev", 6, 2), ("test", 20, 3)):
        written(folder / f"{name}.jsonl", count, seed)
    loop = {"max_steps": 100, "validate_every": 100, "schedule": "constant", "warmup_steps": 0}
    path = configuration(folder, batch_pixels=20_000, learning_rate=0.01, label_smoothing=0.0, **loop)
    train(read_config(path), folder / "run")
    return folder


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of strokes, and a saved model that has learned nothing."""
    folder = tmp_path_factory.mktemp("untrained")
    written(folder / "test.jsonl", 4, 3)
    config = read_config(configuration(folder)).config
    torch.manual_seed(0)
    model = ImageToText.build(config, words("i", "o", "-"), name="untrained")
    (folder / "run").mkdir()
    save(model, folder / "run")
    return folder


def words(*symbols: str) -> Field:
    """A field of words between blanks."""
    side = TargetConfig(units="whitespace")
    return Field.build(side, [" ".join(symbols)], name="target", max_length=20)


def test_a_toy_is_learned_and_evaluated(learned: Path) -> None:
    model = load(learned / "run", device="cpu")
    assert isinstance(model, ImageToText)
    evaluation = model.evaluate(learned / "test.jsonl")
    assert evaluation.metrics["expression_rate"] >= 0.6
    assert evaluation.metrics["expression_rate"] == 1 - evaluation.metrics["sequence_error_rate"]
    assert evaluation.metrics["expression_rate_1"] >= evaluation.metrics["expression_rate"]
    assert evaluation.metrics["items"] == 20
    assert f"expression_rate {evaluation.metrics['expression_rate']:.4g}" in str(evaluation)
    assert "cider" not in evaluation.metrics


def inputs(folder: Path) -> list[Any]:
    model = load(folder / "run", device="cpu")
    return [entry for _, entry in model.inputs(str(folder / "test.jsonl"))]


@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 3, "num_best": 2},
        {"beam": 4, "coverage_penalty": "gnmt"},
        {"method": "sampling", "seed": 5},
    ],
    ids=["beam", "coverage", "sampling"],
)
def test_a_picture_alone_gives_what_it_gives_among_others(untrained: Path, settings: dict[str, Any]) -> None:
    model = load(untrained / "run", device="cpu")
    search = model.config.decoding.replace(**settings)
    given = inputs(untrained)[:6]
    together = model.predict(given, search=search)
    small = model.predict(given, search=search.replace(batch_pixels=1))
    for one, other in zip(together, small, strict=True):
        assert one.text == other.text
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]
        assert one.alignment.shape == other.alignment.shape == (len(one.tokens), one.grid[0] * one.grid[1])
        torch.testing.assert_close(one.alignment, other.alignment, atol=1e-5, rtol=0)
        torch.testing.assert_close(one.alignment.sum(1), torch.ones(len(one.tokens)))


def test_searches_of_text_to_text_serve_here(learned: Path) -> None:
    model = load(learned / "run", device="cpu")
    entry = inputs(learned)[0]
    (plain,) = model.predict([entry])
    (prefixed,) = model.predict([entry], constraints=[{"prefix": "- -"}])
    assert prefixed.text.startswith("- -")
    (without,) = model.predict([entry], constraints=[{"exclude": plain.text.split()[:1]}])
    assert plain.text.split()[0] not in without.text.split()
    pieces = list(model.stream([entry], search=model.config.decoding.replace(beam=1)))
    assert (
        "".join(piece.text for piece in pieces)
        == model.predict([entry], search=model.config.decoding.replace(beam=1))[0].text
    )
    together = model.config.decoding.replace(ensemble=(learned / "run",))
    (twice,) = model.predict([entry], search=together)
    assert twice.text == plain.text
    assert twice.log_probability == pytest.approx(plain.log_probability, abs=1e-4)
    reranked = model.config.decoding.replace(reranker=learned / "run", num_best=2)
    assert model.predict([entry], search=reranked)[0].text == plain.text


def test_malformed_pictures_are_named_and_the_others_served(
    untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    good = tmp_path / "good.png"
    image.fromarray(np.full((20, 30), 255, np.uint8)).save(good)
    truncated = tmp_path / "truncated.png"
    image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 60), np.uint8)).save(truncated)
    truncated.write_bytes(truncated.read_bytes()[:400])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("this is no picture")
    (tmp_path / "bad.inkml").write_text("<ink><trace>1 2, x y</trace></ink>")
    names = ["empty.png", "text.png", "truncated.png", "missing.png", "bad.inkml"]
    model = load(untrained / "run", device="cpu")
    predictions = model.predict([tmp_path / name for name in names] + [good])
    for name, prediction in zip(names, predictions):
        assert prediction.text == ""
        assert name in prediction.warnings[0]
    (alone,) = model.predict([good])
    assert predictions[-1].warnings == ()
    assert (predictions[-1].text, predictions[-1].score) == (alone.text, pytest.approx(alone.score, abs=1e-5))
    with pytest.raises(DataError, match=r"input 1 .*empty\.png"):
        model.predict([tmp_path / "empty.png"], strict=True)
    assert run(["predict", "-m", str(untrained / "run"), *(str(tmp_path / name) for name in names), str(good)]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 6
    assert all(name in printed.err for name in names)
    assert printed.err.endswith("5 inputs have no output; see above.\n")


def test_a_folder_of_pictures_is_read_in_natural_order_and_what_cannot_be_read_stops_no_other(
    untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "pictures").mkdir()
    for number in (10, 9, 1):
        image.fromarray(np.full((20, 30), 255, np.uint8)).save(tmp_path / f"pictures/{number}.png")
    (tmp_path / "pictures/2.png").write_bytes(b"")
    folder, model = str(tmp_path / "pictures"), str(untrained / "run")
    assert run(["predict", "-m", model, str(tmp_path / "no.jsonl"), folder, "-o", str(tmp_path / "out.csv")]) == 1
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "image,prediction"
    assert [Path(row.split(",")[0]).name for row in rows] == ["1.png", "2.png", "9.png", "10.png"]
    said = capsys.readouterr().err
    assert "no.jsonl" in said
    assert said.endswith("2 inputs have no output; see above.\n")
    assert run(["predict", "-m", model, str(tmp_path / "no.jsonl")]) == 2


def test_pictures_of_any_kind_are_read(untrained: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    model = load(untrained / "run", device="cpu")
    strokes = Strokes.of(bars("i o", 0))
    pixels = model.reader.pixels(strokes)
    image.fromarray(pixels[..., 0]).save(tmp_path / "io.png")
    read = model.predict([strokes, pixels, tmp_path / "io.png", str(tmp_path / "io.png"), 255 - pixels])
    scores = [each.score for each in read]
    assert scores[:4] == pytest.approx(scores[:1] * 4, abs=1e-6)
    assert abs(scores[4] - scores[0]) > 1e-4
    frames = [image.fromarray(pixels[..., 0]), image.fromarray(255 - pixels[..., 0])]
    frames[0].save(tmp_path / "io.gif", save_all=True, append_images=frames[1:])
    (moving,) = model.predict([tmp_path / "io.gif"])
    assert (moving.score, len(moving.warnings)) == (pytest.approx(scores[0], abs=1e-6), 1)
    assert "io.gif: 2 pictures in one file" in moving.warnings[0]
    with pytest.raises(TypeError, match="a list of pictures"):
        model.predict(strokes)
    with pytest.raises(TypeError, match="got a int"):
        model.predict([3])
    tiny, wide = np.zeros((1, 1, 1), np.uint8), np.full((8, 30_000, 1), 255, np.uint8)
    assert [prediction.warnings for prediction in model.predict([tiny, wide])] == [(), ()]


def test_a_table_is_an_argument_and_a_file_of_pictures_is_drawn(
    untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(untrained / "run")
    table = tmp_path / "three.jsonl"
    table.write_text("".join((untrained / "test.jsonl").read_text().splitlines(keepends=True)[:3]))
    assert run(["predict", "-m", folder, str(table)]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == ["test-0", "test-1", "test-2"]
    assert run(["predict", "-m", folder, str(table), "--format", "jsonl", "--alignments"]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[0])
    assert len(record["alignment"][0]) == record["grid"][0] * record["grid"][1]
    assert record["text"] == lines[0][1]
    assert run(["plot", "-m", folder, str(table), "-o", str(tmp_path / "all.html")]) == 0
    assert "test" in capsys.readouterr().out or (tmp_path / "all.html").exists()
    assert run(["plot", "-m", folder, str(table), "-o", str(tmp_path / "each.png"), "--separate"]) == 0
    assert len(list(tmp_path.glob("each-*.png"))) == 3


def test_strokes_are_drawn_in_the_colours_of_symbols(
    untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(untrained / "run")
    model = load(untrained / "run", device="cpu")
    strokes = Strokes.of(bars("i o -", 0))
    for image in (model.config.data.image, model.config.data.image.model_copy(update={"max_height": 10})):
        data = model.config.data.model_copy(update={"image": image})
        other = ImageToText.build(model.config.model_copy(update={"data": data}), model.target)
        (prediction,) = other.predict([strokes])
        ink = prediction.image[..., 0] < 200
        for line in prediction.strokes.lines:
            x, y = np.floor(line).astype(int).T
            assert all(ink[max(b - 1, 0) : b + 2, max(a - 1, 0) : a + 2].any() for a, b in zip(x, y))
    drawn: list[Any] = []
    draw = image_model.plot_strokes

    monkeypatch.setattr(
        image_model, "plot_strokes", lambda *given, **named: drawn.append(given) or draw(*given, **named)
    )
    table = tmp_path / "two.jsonl"
    table.write_text("".join((untrained / "test.jsonl").read_text().splitlines(keepends=True)[:2]))
    command = ["plot", "-m", folder, str(table), "--strokes", "-o"]
    assert run([*command, str(tmp_path / "ink.png")]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / name) for name in ("ink-1.png", "ink-2.png")]
    assert run([*command, str(tmp_path / "each.svg"), "--separate", "--no-end-symbol"]) == 0
    assert len(list(tmp_path.glob("each-*.svg"))) == 2
    assert all("</s>" not in given[1].tokens for given in drawn[2:])
    capsys.readouterr()
    for more, message in (
        (["--cells"], "cells is an option of maps"),
        (["--highest"], "highest is an option of maps"),
    ):
        assert run([*command, str(tmp_path / "no.png"), *more]) != 0
        assert message in capsys.readouterr().err
    assert run([*command, str(tmp_path / "no.html")]) != 0
    assert "expected one of .png .svg .pdf, got '.html'" in capsys.readouterr().err
    (picture,) = model.predict([model.reader.pixels(strokes)])
    assert picture.strokes is None
    with pytest.raises(UnsupportedError, match="input 1: no strokes are known of a picture"):
        model.plot([picture], tmp_path / "no.png", strokes=True)
    assert not (tmp_path / "no.png").exists()


def test_maps_are_drawn_smoothly_or_as_cells(untrained: Path, tmp_path: Path) -> None:
    model = load(untrained / "run", device="cpu")
    (prediction,) = model.predict([Strokes.of(bars("i o", 0))])
    smooth, cells = tmp_path / "smooth.png", tmp_path / "cells.png"
    model.plot([prediction], smooth)
    model.plot([prediction], cells, cells=True)
    assert smooth.read_bytes() != cells.read_bytes()
    command = ["plot", "-m", str(untrained / "run"), str(untrained / "test.jsonl"), "--cells"]
    assert run([*command, "-o", str(tmp_path / "cells.html")]) == 0
    assert '"smooth":false' in (tmp_path / "cells.html").read_text().replace(" ", "")


SQUARE, BAR = (8, 8, 24, 24), (36, 4, 40, 28)
"""Left, upper, right and lower edges of what `placed` draws, in pictures of 32 × 48 pixels."""


def placed(folder: Path) -> tuple[Path, Path]:
    """A table of two pictures of a square and a bar with their captions, and the boxes of the first."""
    from PIL import Image

    pixels = np.full((32, 48, 3), 255, np.uint8)
    for left, upper, right, lower in (SQUARE, BAR):
        pixels[upper:lower, left:right] = 0
    for name in ("a", "b"):
        Image.fromarray(pixels).save(folder / f"{name}.png")
    (folder / "test.tsv").write_text("a.png\to and i\nb.png\to\n", encoding="utf-8")
    record = {"image": "a.png", "text": "o and i", "size": [32, 48], "boxes": [[SQUARE], None, [BAR]]}
    (folder / "boxes.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return folder / "test.tsv", folder / "boxes.jsonl"


def saying(model: ImageToText, text: str, cells: list[tuple[int, int]]) -> Any:
    """What predicts this text for every picture, looking at one cell for each symbol."""
    predict = model.predict

    def said(inputs: Any, **options: Any) -> list[Any]:
        found = []
        for prediction in predict(inputs, **options):
            h, w = prediction.grid
            maps = torch.zeros(len(cells), h, w)
            for step, (y, x) in enumerate(cells):
                maps[step, y, x] = 1
            alignment = None if prediction.alignment is None else maps.reshape(len(cells), -1)
            tokens = [*text.split(), "</s>"]
            found.append(replace(prediction, text=text, tokens=tokens, alignment=alignment, stop_reason="eos"))
        return found

    return said


@pytest.mark.parametrize("size", [None, (16, 24)], ids=["own size", "scaled"])
def test_maps_are_compared_with_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int] | None
) -> None:
    pytest.importorskip("PIL.Image")
    table, boxes = placed(tmp_path)
    config = read_config(configuration(tmp_path, data={"image": {"size": size} if size else {}})).config
    model = ImageToText.build(config, words("i", "o", "and", "x"))
    # cells of 4 pixels, or of 8 of the file: `o` is hit with the centre, `x` is not in the file, `i` is missed
    half = 2 if size else 1
    cells = [(4 // half, 3 // half), (0, 0), (0, 0), (7 // half, 0), (0, 0)]
    monkeypatch.setattr(model, "predict", saying(model, "o x and i", cells))
    plain = model.evaluate(table)
    found = model.evaluate(table, boxes=boxes)
    assert {name: value for name, value in found.metrics.items() if name in plain.metrics} == plain.metrics
    further = {name: value for name, value in found.metrics.items() if name not in plain.metrics}
    side = 4 * half
    rows, columns = 32 // side, 48 // side
    overlaps = [
        np.mean(
            [
                x * side < box[2] and box[0] < (x + 1) * side and y * side < box[3] and box[1] < (y + 1) * side
                for y in range(rows)
                for x in range(columns)
            ]
        )
        for box in (SQUARE, BAR)
    ]
    assert further["naming_words"] == 2
    assert further["pointing"] == further["centre_pointing"] == further["weight_on_object"] == 0.5
    assert further["pointing_chance"] == pytest.approx(np.mean(overlaps))
    pairs = [(a, b) for n, a in enumerate(cells[:-1]) for b in cells[n + 1 : -1]]
    assert further["map_divergence"] == pytest.approx(np.mean([a != b for a, b in pairs]))
    assert further["ink_share"] >= 0.25
    if size is None:  # scaling spreads ink into neighbours
        assert further["ink_share"] == 0.25
        assert further["uniform_ink_share"] == pytest.approx(sum(overlaps))
    assert "pointing 0.5  pointing_chance" in str(found)
    assert all(entry.prediction.alignment is None for entry in found.scored)


def test_boxes_of_other_pictures_are_refused(
    untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL.Image")
    table, boxes = placed(tmp_path)
    command = ["evaluate", "-m", str(untrained / "run"), str(table), "--json", "--min-length", "2", "--boxes"]
    assert run([*command, str(boxes)]) == 0
    assert "map_divergence" in json.loads(capsys.readouterr().out)
    text = boxes.read_text()
    boxes.write_text(text.replace("[32, 48]", "[32, 49]"))
    assert run([*command, str(boxes)]) != 0
    assert "a.png: size: boxes of a picture of (32, 49) pixels (height, width); it has (32, 48)" in (
        capsys.readouterr().err
    )
    boxes.write_text(text.replace("a.png", "c.png"))
    assert run([*command, str(boxes)]) != 0
    assert "none of its 1 pictures is in the table" in capsys.readouterr().err


def test_models_of_any_decoder_are_compared_with_boxes(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    table, boxes = placed(tmp_path)
    values = yaml.safe_load(configuration(tmp_path).read_text())
    for model, has_maps in (
        ({"architecture": "transformer", "decoder": {"size": 16, "layers": 1, "heads": 2}}, True),
        ({"attention": None, "decoder": {"context": "mean"}}, False),
    ):
        (tmp_path / "other.yaml").write_text(yaml.safe_dump({**values, "model": model}), encoding="utf-8")
        other = ImageToText.build(read_config(tmp_path / "other.yaml").config, words("i", "o", "and"))
        longer = other.config.decoding.replace(min_length=2)
        if has_maps:
            assert 0 < other.evaluate(table, search=longer, boxes=boxes).metrics["ink_share"] < 1
        else:
            with pytest.raises(UnsupportedError, match="has no attention over pictures"):
                other.evaluate(table, boxes=boxes)


def test_rates_of_expressions_are_those_of_the_package(untrained: Path) -> None:
    model = load(untrained / "run", device="cpu")
    evaluation = model.evaluate(untrained / "test.jsonl")
    outputs = [entry.prediction.text for entry in evaluation.scored]
    rates = expression_rates(outputs, [list(entry.item.references) for entry in evaluation.scored])
    names = {"expression_rate": "exact", **{f"expression_rate_{n}": f"within_{n}" for n in (1, 2, 3)}}
    assert {name: evaluation.metrics[name] for name in names} == {name: rates[rate] for name, rate in names.items()}
    assert evaluation.metrics["symbol_error_rate"] == rates["symbol_error_rate"]


def test_validations_are_of_some_pictures_always_the_same(tmp_path: Path) -> None:
    task = TASKS["image_to_text"]
    written(tmp_path / "train.jsonl", 12, 1)
    written(tmp_path / "dev.jsonl", 9, 2)

    def names(*overrides: str) -> list[str]:
        config = read_config(configuration(tmp_path), overrides).config
        material = task.read(config)
        trainee = task.trainee(task.build(config, material, name="model"), material)
        chosen = [item.source.name for item in trainee.items]
        rows = sum(len(make()["inputs"]) for make in trainee.held_out())
        assert rows == len(chosen)
        return chosen

    every = names()
    assert every == names("training.validation_pictures=9") == names("training.validation_pictures=50")
    assert len(every) == 9
    some = names("training.validation_pictures=4")
    assert some == names("training.validation_pictures=4", "seed=5")
    assert len(some) == 4
    assert some == [name for name in every if name in some]
    assert set(some) < set(names("training.validation_pictures=5"))
    lines = (tmp_path / "dev.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "dev.jsonl").write_text("".join(reversed(lines)))
    assert set(names("training.validation_pictures=4")) == set(some)


def test_pictures_beyond_the_learned_positions_are_named_and_the_others_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.tasks.image_to_text.build.LARGEST_GRID", (10, 12))
    for name, count, seed in (("train", 8, 1), ("dev", 4, 2)):
        written(tmp_path / f"{name}.jsonl", count, seed)
    config = read_config(configuration(tmp_path), ["model.encoder.positions=learned"]).config
    task = TASKS["image_to_text"]
    material = task.read(config)
    model = task.build(config, material, name="bars")
    small, wide = Strokes.of(bars("i", 0)), Strokes.of(bars("i " * 20, 0))
    known, beyond = model.predict([small, wide])
    assert known.warnings == ()
    assert known.alignment is not None
    assert "positions are learned for 10 × 12; sinusoidal" in beyond.warnings[0]
    task.trainee(model, material)
    written(tmp_path / "dev.jsonl", 4, 2)
    with (tmp_path / "dev.jsonl").open("a") as file:
        file.write(json.dumps({"tokens": "i", "strokes": bars("i " * 20, 0)}) + "\n")
    with pytest.raises(DataError, match=r"^dev, picture 5: the picture has .* cells of 4 pixels"):
        task.trainee(model, task.read(config))


def test_a_damaged_file_does_not_keep_the_others_from_being_divided(tmp_path: Path) -> None:
    ink = tmp_path / "ink"
    ink.mkdir()
    for number in range(30):
        annotation = f'<annotation type="truth">{"io"[number % 2]}</annotation>'
        (ink / f"{number}.inkml").write_text(f"<ink>{annotation}<trace>0 0, {number + 5} 10</trace></ink>")
    config = read_config(configuration(tmp_path, data={"train": "ink", "dev": None})).config
    task = TASKS["image_to_text"]

    def held_out() -> list[str]:
        return [name for name in (each.stem for each in files(task.read(config).dev.pictures)) if name != "7"]

    whole = held_out()
    (ink / "7.inkml").write_text("<ink")
    assert held_out() == whole
    material = task.read(config)
    assert len(material.train.pictures) + len(material.dev.pictures) == 30
    assert [text for text in (*material.train.refused, *material.dev.refused) if "7.inkml:1: not XML" in text]


def files(pictures: Any) -> list[Path]:
    """The files of some of a folder's pictures."""
    return [pictures.pictures.files[index] for index in pictures.indices]


def test_long_texts_of_held_out_pictures_have_no_loss_and_are_named(tmp_path: Path) -> None:
    long = [{"tokens": "i " * 12, "strokes": strokes} for strokes in ([[1]], bars("i", 0))]
    for name, count, seed in (("train", 8, 1), ("dev", 4, 2)):
        written(tmp_path / f"{name}.jsonl", count, seed)
        with (tmp_path / f"{name}.jsonl").open("a") as file:
            file.write("".join(json.dumps(record) + "\n" for record in long))
    path = configuration(tmp_path, data={"max_length": 10})
    values = yaml.safe_load(path.read_text())
    decoder = {"size": 16, "heads": 2, "layers": 1, "positions": "learned"}
    values["model"] = {"architecture": "transformer", "encoder": SMALL["encoder"], "decoder": decoder}
    path.write_text(yaml.safe_dump(values))
    config, task = read_config(path).config, TASKS["image_to_text"]
    material = task.read(config)
    found = [str(each) for each in task.check(config, material).findings if "longer than" in str(each)]
    assert [text.partition(" (")[0] for text in found] == [
        "warning: 2 texts of train are longer than data.max_length=10 and left out",
        "warning: 2 texts of dev are longer than data.max_length=10 and not in its teacher-forced loss",
    ]
    assert all(place in found[1] for place in ("dev.jsonl: entry 5", "dev.jsonl:6"))
    # learned positions end at max_length
    trainee: Any = task.trainee(task.build(config, material, name="bars"), material)
    batches = [make()["mask"] for make in trainee.held_out()]
    assert sum(map(len, batches)) == 4
    metrics = trainee.validate().metrics
    assert np.isfinite(metrics["teacher_forced_loss"])
    assert len(trainee.items) == 6


def numbered_pictures(folder: Path, count: int) -> list[str]:
    """Pictures 0.png, 1.png, … in a folder, each larger than the one before; their rows in a table."""
    image = pytest.importorskip("PIL.Image")
    folder.mkdir()
    for number in range(count):
        image.fromarray(np.full((20 + number, 30), 9 * number, np.uint8)).save(folder / f"{number}.png")
    return [f"{number}.png\t{'io'[number % 2]}\n" for number in range(count)]


@pytest.mark.parametrize("decoded", [100, 0])
def test_files_of_more_pixels_than_the_setting_are_found_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: int
) -> None:
    rows = numbered_pictures(tmp_path / "pictures", 12)
    for name, part in (("train", rows[:8]), ("dev", rows[8:])):
        (tmp_path / f"{name}.tsv").write_text("".join(part))
    monkeypatch.setattr("regard.tasks.image_to_text.reading.MOST_DECODED", decoded)
    data = {"train": "train.tsv", "dev": "dev.tsv", "image_folder": "pictures", "target": {"units": "character"}}
    task = TASKS["image_to_text"]
    for most, counts in ((31 * 30, []), (24 * 30, ["3 of train's", "4 of dev's"])):
        config = read_config(configuration(tmp_path, data={**data, "image": {"max_file_pixels": most}})).config
        found = task.check(config, task.read(config)).findings
        errors = [str(each) for each in found if each.severity == "error"]
        assert [error.split(" pictures")[0] for error in errors] == [f"error: {count}" for count in counts]
        assert all("more than max_pixels=720" in error for error in errors)


def test_a_table_beside_that_of_the_training_names_pictures_of_the_same_folder(tmp_path: Path) -> None:
    rows = numbered_pictures(tmp_path / "pictures", 3)
    records = [json.dumps(dict(zip(("image", "text"), row.split()))) + "\n" for row in rows]
    for name in ("train.json", "test.json", "elsewhere/test.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(records))
    (tmp_path / "test.tsv").write_text("".join(rows))
    data = {"train": "train.json", "format": "jsonl", "dev": None, "image_folder": "pictures"}
    config = read_config(configuration(tmp_path, data=data)).config
    for name in ("train.json", "test.json", "test.tsv"):
        (picture, *_) = open_table(config, tmp_path / name)
        assert picture.image == tmp_path / "pictures" / "0.png"
    (picture, *_) = open_table(config, tmp_path / "elsewhere" / "test.json")
    assert picture.image == tmp_path / "elsewhere" / "0.png"


def test_several_references_are_one_item_with_figures_of_captions(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    lines = []
    for number in range(12):
        pixels = np.full((16, 16), 255, np.uint8)
        pixels[4:12, 2 + number % 2 * 8 : 6 + number % 2 * 8] = 0
        image.fromarray(pixels).save(tmp_path / f"{number}.png")
        side = "right" if number % 2 else "left"
        lines += [f"{number}.png\ta bar on the {side}\n", f"{number}.png\tthe {side} has a bar\n"]
    for name, part in (("train", lines[:16]), ("dev", lines[16:]), ("test", lines[16:20])):
        (tmp_path / f"{name}.tsv").write_text("".join(part), encoding="utf-8")
    (tmp_path / "test.tsv").write_text("".join(lines[16:20]), encoding="utf-8")
    data = {"train": "train.tsv", "dev": "dev.tsv", "target": {"units": "word"}}
    path = configuration(tmp_path, data=data, max_steps=2, validate_every=2, batch_pixels=2_000)
    outcome = train(read_config(path, ["select=cider_d"]), tmp_path / "run")
    assert {"cider", "cider_d", "rouge_l", "bleu_4"} <= set(outcome.metrics)
    model = load(tmp_path / "run", device="cpu")
    evaluation = model.evaluate(tmp_path / "test.tsv")
    assert [len(entry.item.references) for entry in evaluation.scored] == [2, 2]
    material = TASKS["image_to_text"].read(read_config(path).config)
    assert material.train.owners.tolist() == [i for i in range(8) for _ in range(2)]
    assert material.train.text(3) == "the right has a bar"


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_references_of_captions_are_normalised_as_outputs_are(form: str) -> None:
    words = ["ein", "großer", "ﬁsch", "am", "café"]
    normalise = Normalisation(case="upper", unicode=form)
    written = [normalise(word) for word in words]
    field = Field(normalise, WordUnits(), Vocabulary(written))
    prediction = Prediction([], [*written, "</s>"], " ".join(written), 0.0, 0.0, "eos")
    item = PictureItem(PictureEntry("a.png", None), (" ".join(words), "etwas"), "a.tsv:1")
    figures = figures_of([Scored(item, prediction, 0, 5)], field, captions=False)
    assert figures["bleu_4"] == pytest.approx(1)
    assert figures["expression_rate"] == figures["rouge_l"] == 1


def test_references_keep_their_order_and_are_distinct(tmp_path: Path) -> None:
    table = tmp_path / "pictures.tsv"
    table.write_text("".join(f"a.png\t{text}\n" for text in ("a", "b", "A", "c", "B")), encoding="utf-8")
    (item,) = items_of(open_pictures(table), str.lower)
    assert item.references == ("a", "b", "c")


def padding(batches, shapes) -> float:
    """The share of pixels that are padding."""
    size = sum(len(batch) * int(shapes[batch].max(0).prod()) for batch in batches)
    return 1 - sum(int(shapes[batch].prod(1).sum()) for batch in batches) / size


def test_batches_hold_every_item_once_with_little_padding() -> None:
    random = np.random.default_rng(0)
    shapes = np.stack([random.integers(20, 120, 500), random.integers(20, 600, 500)], 1)
    for batches in (
        bucket_pictures(shapes, batch_pixels=200_000, seed=1, epoch=3),
        list(in_batches(shapes, 200_000)),
        list(in_batches(shapes, 200_000, in_order=True)),
    ):
        assert sorted(np.concatenate(batches).tolist()) == list(range(500))
        assert all(len(b) == 1 or len(b) * shapes[b].max(0).prod() <= 200_000 for b in batches)
    bucketed = bucket_pictures(shapes, batch_pixels=200_000, seed=1, epoch=3)
    assert padding(bucketed, shapes) < 0.35
    again = bucket_pictures(shapes, batch_pixels=200_000, seed=1, epoch=3)
    assert all(np.array_equal(one, other) for one, other in zip(bucketed, again, strict=True))
    other = bucket_pictures(shapes, batch_pixels=200_000, seed=1, epoch=4)
    assert [batch.tolist() for batch in other] != [batch.tolist() for batch in bucketed]


def test_changes_differ_between_epochs_and_items_and_are_the_same_again() -> None:
    config = ImageToTextConfig.model_validate({"data": {"train": "x.jsonl", "augmentation": {}}})
    reader = PictureReader.of(config.data.image)
    augment = Augmenter.of(config.data.augmentation, reader, 7)
    strokes = Strokes.of(bars("i o -", 0))
    first, again = augment(strokes, 0, 5), augment(strokes, 0, 5)
    np.testing.assert_array_equal(first, again)
    for epoch, item in ((1, 5), (0, 6)):
        other = augment(strokes, epoch, item)
        assert other.shape != first.shape or not np.array_equal(other, first)
    np.testing.assert_array_equal(Augmenter.of(None, reader, 7)(strokes, 0, 5), reader(strokes))


def test_names_of_fields_hold_for_the_format_of_the_training(tmp_path: Path) -> None:
    record = {"ink": [[0, 0, 9, 9]], "latex": "x"}
    for name in ("train.data", "test.data"):
        (tmp_path / name).write_text(json.dumps(record) + "\n")
    (tmp_path / "ink").mkdir()
    (tmp_path / "ink" / "a.inkml").write_text(
        '<ink><annotation type="truth">y</annotation><trace>1 2, 3 4</trace></ink>'
    )
    (tmp_path / "test.tsv").write_text("a.png\tz\n")
    (tmp_path / "coco.json").write_text(
        json.dumps({"images": [{"id": 1, "file_name": "b.png"}], "annotations": [{"image_id": 1, "caption": "w"}]})
    )
    data = {"train": "train.data", "dev": None, "format": "jsonl", "image_field": "ink", "text_field": "latex"}
    config = read_config(configuration(tmp_path, data=data)).config
    assert isinstance(config, ImageToTextConfig)
    for name, text in (("test.data", "x"), ("ink", "y"), ("test.tsv", "z"), ("coco.json", "w")):
        assert open_table(config, tmp_path / name)[0].texts == (text,)


def test_a_file_of_too_many_pixels_names_the_key(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (20, 30)).save(tmp_path / "large.png")
    reader = PictureReader.of(ImageConfig(max_file_pixels=599))
    for read in (reader.size, reader.pixels, reader):
        with pytest.raises(DataError, match=r"large\.png: 20 × 30 pixels .*data\.image\.max_file_pixels=599"):
            read(tmp_path / "large.png")


def test_changes_of_strokes_are_pointless_where_there_are_none_and_those_of_pictures_where_all_are_strokes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.tsv").write_text("".join(numbered_pictures(tmp_path / "pictures", 12)))
    written(tmp_path / "train.jsonl", 12, 1)
    written(tmp_path / "dev.jsonl", 4, 2)
    changes = {"strokes": {"slant": 0.5}, "pictures": {"rotation": 5.0}}
    for table, name, kind in (("train.tsv", "strokes", "files"), ("train.jsonl", "pictures", "strokes")):
        for augmentation, expected in (({}, []), (changes, [name])):
            data = {"train": table, "dev": "dev.jsonl", "augmentation": augmentation, "image_folder": "pictures"}
            assert run(["data", "check", str(configuration(tmp_path, data=data))]) in (0, 1)
            said = capsys.readouterr().out
            found = [line for line in said.splitlines() if "has no effect" in line]
            message = "warning: data.augmentation.{} has no effect: the 12 training pictures are all {}"
            assert found == [message.format(each, kind) for each in expected]


def test_an_evaluation_takes_one_column_of_pictures(untrained: Path) -> None:
    with pytest.raises(ConfigError, match="source_field: image, 2: a picture has one column"):
        load(untrained / "run").evaluate(untrained / "test.jsonl", source_field=["image", 2])


def refused(folder: Path, *overrides: str) -> Config:
    written(folder / "train.jsonl", 12, 1)
    written(folder / "dev.jsonl", 4, 2)
    config = read_config(configuration(folder), overrides).config
    TASKS["image_to_text"].draft(config)
    return config


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["training.alignment_losses.guided_attention=1.0"], "cells of a picture have no such order"),
        (["training.compile=true"], "leave compile out"),
        (["data.image.fit=crop"], "fit='crop' has no effect without size"),
        (["data.image.size=[32, 32]", "data.image.max_width=9"], "no effect with size"),
        (["decoding.alignment_layer=cross.7"], "alignment_layer"),
        (["model.encoder.widths=[4, 5]", "model.encoder.size=7"], "even"),
        (["model.decoder.like=arctic"], "order follows from like: arctic"),
        (["model.decoder.readout=deep", "model.attention=null", "model.decoder.context=mean"], "readout|order"),
    ],
)
def test_settings_without_a_meaning_are_refused(tmp_path: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        refused(tmp_path, *overrides)


@pytest.mark.parametrize(
    "model",
    [
        {"encoder": {"backbone": "plain", "widths": [4, 8], "depth": 1}},
        {"encoder": {"backbone": "residual", "widths": [4, 8], "depths": [1, 1], "stem_kernel": 7, "pool": True}},
        {"encoder": {"backbone": "dense", "growth": 4, "depth": 2, "num_blocks": 2}},
        {"encoder": {"backbone": "efficientnet-lite0", "stride": 8, "size": 8}},
        {"encoder": {"backbone": "resnet18", "stride": 8, "size": 8}},
        {"attention": {"recipe": "show_attend_tell", "size": 8, "hard": True}},
        {"attention": None, "decoder": {"context": "mean"}},
        {"decoder": {"order": "attend_then_recur", "readout": "deep", "cell": "lstm"}},
        {"decoder": {"like": "arctic", "cell": "lstm"}, "attention": {"recipe": "show_attend_tell", "size": 8}},
        {"architecture": "transformer", "decoder": {"size": 16, "layers": 2, "heads": 2}},
    ],
    ids=["plain", "residual", "dense", "efficientnet", "resnet", "hard", "fixed", "deep", "arctic", "transformer"],
)
def test_every_network_is_built_and_takes_a_step(tmp_path: Path, model: dict[str, Any]) -> None:
    written(tmp_path / "train.jsonl", 12, 1)
    written(tmp_path / "dev.jsonl", 3, 2)
    values = yaml.safe_load(configuration(tmp_path, max_steps=1, epochs=1).read_text())
    values["model"] = model
    if (model.get("attention") or {}).get("hard"):
        values["training"]["reinforce"] = {}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    outcome = train(read_config(tmp_path / "config.yaml"), tmp_path / "run")
    assert outcome.metrics["teacher_forced_loss"] > 0
    read = load(tmp_path / "run", device="cpu")
    assert read.predict([Strokes.of(bars("i", 0))])[0].warnings == ()
    if model.get("encoder", {}).get("pool"):
        assert read.stride == 8
        assert read.module.encoder.backbone.stem.kernel_size == 7


def test_models_that_read_otherwise_do_not_predict_together(untrained: Path) -> None:
    model = load(untrained / "run", device="cpu")
    field = Field(model.target.normalisation, model.target.units, Vocabulary(["a", "b"]))
    image = model.config.data.image.model_copy(update={"unit": 13.0})
    data = model.config.data.model_copy(update={"image": image})
    other = ImageToText.build(model.config.model_copy(update={"data": data}), field, name="other")
    found = model.differences(other)
    assert any("vocabulary" in line for line in found)
    assert any("pictures" in line for line in found)


def test_pictures_of_pillow_are_read_like_their_files(untrained: Path, tmp_path: Path) -> None:
    model = load(untrained / "run")
    image = pytest.importorskip("PIL.Image")
    numbered_pictures(tmp_path / "pictures", 2)
    paths = sorted((tmp_path / "pictures").iterdir())
    opened = [image.open(path) for path in paths]
    arrays = [picture.convert("RGBA") for picture in opened]
    texts = [[each.text for each in model.predict(each)] for each in (paths, opened, arrays)]
    assert texts[0] == texts[1] == texts[2]
    assert not [each.warnings for each in model.predict(arrays) if each.warnings]
    with pytest.raises(TypeError, match="paths, contents of files, strokes, arrays or pictures of Pillow; got a int"):
        model.predict([3])


def test_a_file_that_divides_its_pictures_is_trained_on_and_evaluated_by_its_parts(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    names = [row.split("\t")[0] for row in numbered_pictures(folder, 12)]
    images = [
        {"filename": name, "split": split, "sentences": [{"raw": "i o"}, {"tokens": ["o"]}]}
        for name, split in zip(names, ["train"] * 8 + ["val"] * 2 + ["test"] * 2, strict=True)
    ]
    (folder / "all.json").write_text(json.dumps({"images": images}), encoding="utf-8")
    path = configuration(folder, data={"train": "all.json", "dev": None}, max_steps=2, batch_pixels=8_000)
    train(read_config(path), folder / "run")
    model = load(folder / "run")
    evaluation = model.evaluate(folder / "all.json")
    assert [Path(each.prediction.name).name for each in evaluation.scored] == names[10:]
    assert len(list(model.inputs(str(folder / "all.json")))) == 12


def test_the_same_pictures_are_held_out_wherever_their_folder_is(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(40)]

    def held_out(folder: Path, prefix: str) -> list[str]:
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        table = folder / "table.tsv"
        table.write_text("".join(f"{prefix}{name}\ta\n" for name in names), encoding="utf-8")
        _, dev = hold_out_pictures(open_table(ImageToTextConfig.model_validate({"data": {"train": table}}), table), 0.1)
        return [Path(dev.read(index).id).name for index in range(len(dev))]

    chosen = held_out(tmp_path / "a", "")
    assert chosen
    assert chosen == held_out(tmp_path / "b", f"{tmp_path / 'b'}/") == held_out(tmp_path / "c", f"{tmp_path / 'c'}/")
