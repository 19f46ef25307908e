"""Pictures of alignments, their data, and numbers about them: odd sizes, names, weights, paths and files."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from hostile import models, text
from hostile.trial import Trial, command
from regard import metrics
from regard.image import Strokes
from regard.viz import (
    CaptionedImage,
    load_alignment,
    plot_alignment,
    plot_captioned_image,
    plot_curves,
    plot_strokes,
    save_alignment,
)

SUFFIXES = (".html", ".html", ".html", ".html", ".svg", ".png", ".pdf", ".jpg", "", ".HTML")
VALUES = (float("nan"), float("inf"), -float("inf"), -1.0, 2.0, 1e-45, 1e38, 0.0)


def draw(random: Random, folder: Path) -> Trial:
    way = random.randrange(13)
    if way >= 10:
        return _captioned(random, folder)
    if way < 4:
        return _plotted(random, folder)
    if way < 6:
        return _loaded(random, folder)
    if way == 6:
        return _curves(random)
    if way == 7:
        return _commanded(random, folder)
    weights, about = _weights(random)
    options: dict[str, Any] = {"threshold": random.choice(VALUES)} if random.random() < 0.3 else {}
    if random.random() < 0.3:
        options["source_length"] = random.choice((0, 1, -1, 10**6, 1.5, "2", [1], None))
    if random.random() < 0.2:
        options["longest_stay"] = random.choice((0, -1, 2, None, 1.5))
    return Trial(f"health {about} {options}", lambda: str(metrics.summary(weights, **options).text) and None)


def _weights(random: Random) -> tuple[Any, str]:
    """Something that may be an alignment."""
    axes = random.choice((2, 2, 2, 2, 3, 4, 0, 1, 5))
    shape = tuple(random.choice((0, 1, 2, 3, 5, 8)) for _ in range(axes))
    if axes == 2 and random.random() < 0.1:
        shape = random.choice(((1, 2000), (2000, 1), (300, 300), (1, 1), (0, 5), (5, 0)))
    values = np.random.default_rng(random.randrange(2**32)).random(shape)
    if values.size and values.ndim:
        for _ in range(random.choice((0, 0, 1, 3))):
            values[tuple(random.randrange(size) for size in shape)] = random.choice(VALUES)
    way = random.randrange(8)
    if way == 0:
        return values.tolist(), f"list {shape}"
    if way == 1:
        return torch.tensor(
            values, dtype=random.choice((torch.float16, torch.bfloat16, torch.float64))
        ), f"tensor {shape}"
    if way == 2:
        kind = random.choice(("int64", "bool", "complex64", "object", "float16", "uint8"))
        return np.nan_to_num(values, posinf=1, neginf=0).astype(kind), f"{kind} {shape}"
    if way == 3:
        strange: Any = random.choice((None, "abc", [], [[]], [[1], [1, 2]], {"a": 1}, 3, [["a", "b"]], object()))
        return strange, repr(strange)
    return values, f"array {shape}"


def _labels(random: Random, size: int) -> Any:
    way = random.randrange(8)
    if way == 0:
        return None
    count = size if way < 6 else random.randrange(size + 3)
    return (
        [text.string(random)[: random.choice((5, 50, 500))] for _ in range(count)]
        if way < 7
        else random.choice(("abc", [1], [None], 3))
    )


def _path(random: Random, folder: Path, suffix: str) -> str:
    way = random.randrange(12)
    (folder / "there").write_text("a file", encoding="utf-8")
    if way == 0:
        return f"there/x{suffix}"
    if way == 1:
        return "x" * 300 + suffix
    if way == 2:
        return text.string(random)[:100] + suffix
    if way == 3:
        (folder / f"folder{suffix}").mkdir(exist_ok=True)
        return f"folder{suffix}"
    if way == 4:
        return f"/proc/nothing/x{suffix}"
    if way == 5:
        return f"new/folder/x{suffix}"
    return f"x{suffix}"


def _plotted(random: Random, folder: Path) -> Trial:
    weights, about = _weights(random)
    shape = np.shape(weights) if isinstance(weights, np.ndarray | torch.Tensor) else (0, 0)
    steps, positions = shape[-2:] if len(shape) > 1 else (0, 0)
    sources, targets = _labels(random, positions), _labels(random, steps)
    path = _path(random, folder, random.choice(SUFFIXES))
    options: dict[str, Any] = {}
    if random.random() < 0.2:
        options["title"] = text.string(random)
    if random.random() < 0.15:
        options["highest"] = random.choice((0, -1, 0.5, 1e-300, 1e300, float("nan"), float("inf"), "1", None))
    if random.random() < 0.3:
        options["data"] = random.choice(("json", "npz", "xml", None))
    if random.random() < 0.2:
        options["end_symbol"] = False
    if random.random() < 0.2:
        options[random.choice(("source_length", "target_length"))] = random.choice((0, 1, -1, 100, 1.5, "1"))
    if random.random() < 0.1:
        options["source_mask"] = random.choice(([True], np.ones(positions, bool), np.ones(positions), "x"))
    if random.random() < 0.2 and isinstance(weights, np.ndarray):
        weights = SimpleNamespace(
            alignment=weights, source_tokens=sources, tokens=targets, text=text.string(random), alignments={}
        )
        weights = [weights] * random.choice((1, 2, 5))
        sources = targets = None
    return Trial(
        f"plot {about} {path!r:.100} {sources!r:.200} {targets!r:.200} {options}",
        lambda: plot_alignment(weights, path, sources, targets, **options) and None,
    )


def _captioned(random: Random, folder: Path) -> Trial:
    """A captioned image, or its strokes."""
    numbers = np.random.default_rng(random.randrange(2**32))
    side = (0, 1, 2, 7, 16, 33)
    shape = (random.choice(side[1:]), random.choice(side[1:]), random.choice((1, 1, 3)))
    if random.random() < 0.05:
        shape = tuple(random.choice(side) for _ in range(random.choice((1, 2, 3, 4))))
    image: Any = numbers.integers(0, 256, shape).astype(random.choice(("uint8",) * 30 + ("int64", "float32", "bool")))
    if random.random() < 0.05:
        image = random.choice((None, "abc", [], [[1, 2], [3]], np.zeros((1, 20_000), np.uint8), object()))
    steps, rows, columns = (random.choice((0, 1, 2, 3, 5)) for _ in range(3))
    if random.random() < 0.7:
        rows, columns = max(rows, 1), max(columns, 1)
    maps: Any = numbers.random((steps, rows, columns))
    for _ in range(random.choice((0, 0, 1, 3)) if maps.size else 0):
        maps[tuple(random.randrange(size) for size in maps.shape)] = random.choice(VALUES)
    options: dict[str, Any] = {}
    if random.random() < 0.4:
        maps = maps.reshape(steps, rows * columns)
        options["grid"] = (rows, columns)
    if random.random() < 0.1:
        maps = random.choice((None, "abc", [], [[1], [1, 2]], maps.astype("complex64"), torch.tensor(maps)))
    if random.random() < 0.06:
        options["grid"] = random.choice(((1, 1), (2,), (0, 3), ("a", 1), 5, (1.5, 2), (-1, -1), None))
    if random.random() < 0.15:
        options["cell_size"] = random.choice(
            (1, 8, 16, 0, -1, 1e-9, 1e300, float("nan"), "8", (8, 4), (8,), [4, 4], True)
        )
    if random.random() < 0.05:
        options["mask"] = random.choice((np.ones((rows, columns), bool), np.ones(3), "x", [True]))
    if random.random() < 0.3:
        options |= {"text": text.string(random), "note": text.string(random)}
    tokens: Any = [text.string(random)[:50] for _ in range(steps)]
    if random.random() < 0.2:
        tokens = _labels(random, steps)
    path = f"x{random.choice(SUFFIXES)}" if random.random() < 0.5 else _path(random, folder, random.choice(SUFFIXES))
    ways = {"smooth": random.random() < 0.5, "end_symbol": random.random() < 0.8}
    if random.random() < 0.3:
        ways["highest"] = random.choice(("word", "largest", 0.5, 0, 1e-300, 1e300, float("nan"), "most", None))
    strokes = Strokes.of([[random.choice((0, 1, 5, 30, 1e6)) for _ in range(4)] for _ in range(random.choice((1, 3)))])

    def act() -> None:
        caption = CaptionedImage(image, tokens, maps, **options)
        if random.random() < 0.3:
            plot_strokes(strokes, caption, path)
        else:
            plot_captioned_image([caption] * random.choice((1, 1, 2)), path, **ways)

    return Trial(f"caption {shape} {getattr(maps, 'shape', maps)} {path!r:.100} {tokens!r:.200} {options} {ways}", act)


def _loaded(random: Random, folder: Path) -> Trial:
    suffix = random.choice((".json", ".npz"))
    file = folder / f"saved{suffix}"
    save_alignment(np.random.default_rng(1).random((2, 3)), file, ["a", "b", "c"], ["x", "y"])
    content = file.read_bytes()
    if suffix == ".json" and random.random() < 0.5:
        from hostile.checkpoints import _edited

        content = text.encoded(_edited(random, content))
    elif random.random() < 0.1:
        import pickle

        from hostile.checkpoints import Bomb

        with file.open("wb") as stream:
            np.savez(stream, alignment=np.array([Bomb()], dtype=object)) if random.random() < 0.5 else pickle.dump(
                Bomb(), stream
            )
        content = file.read_bytes()
    else:
        content = text.damaged(random, content)
    file.write_bytes(content)
    return Trial(
        f"load {suffix} {content[:300]!r}",
        lambda: plot_alignment(load_alignment(file.name), "again.html") and None,
    )


def _curves(random: Random) -> Trial:
    curves = {}
    for _ in range(random.randrange(4)):
        count = random.choice((0, 1, 3))
        x = [random.choice((*VALUES, 1.0, 2.0, 3.0)) for _ in range(count)]
        y = [random.choice((*VALUES, 1.0, 2.0)) for _ in range(random.choice((count, count, count, 2)))]
        curves[text.string(random)[:60]] = (x, y)
    path = f"curves{random.choice(('.svg', '.png', '.html'))}"
    title = text.string(random)[:60]
    return Trial(
        f"curves {curves!r:.300} {title!r}",
        lambda: plot_curves(path, curves, x_label=title, y_label="y", title=title) and None,
    )


def _commanded(random: Random, folder: Path) -> Trial:
    """The verb plot."""
    path = _path(random, folder, random.choice(SUFFIXES)).replace("\x00", "")
    texts = [text.argument(random) if random.random() < 0.5 else text.word(random) for _ in range(random.randrange(3))]
    arguments = ["plot", "--model", str(models.saved()), "--output", path]
    for flag in ("--separate", "--heads"):
        if random.random() < 0.3:
            arguments.append(flag)
    if random.random() < 0.3:
        arguments += ["--data", random.choice(("json", "npz", "csv"))]
    arguments += ["--", *texts]
    return Trial(f"{arguments}", lambda: command(*arguments) and None)
