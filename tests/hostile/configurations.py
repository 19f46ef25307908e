"""Configurations: YAML that editors, templates and other programs write, and `--set`."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import yaml

from hostile import models, text
from hostile.trial import CANARY, Trial, command
from regard.config import dump, from_preset, load
from regard.config.keys import Key, keys
from regard.config.place import dotted
from regard.errors import ConfigError
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import TextToTextConfig

KEYS = keys(TextToTextConfig)
LEAVES = [dotted(key.path) for key in KEYS.values() if key.section is None]
MOST = 512
"""Sizes from here on are not built: a model that large is a wish, not an accident."""


def draw(random: Random, folder: Path) -> Trial:
    (folder / "pairs.tsv").write_text(models.pairs(12), encoding="utf-8")
    (folder / "dev.tsv").write_text(models.pairs(4, 40), encoding="utf-8")
    content = _content(random)
    (folder / "hostile.yaml").write_bytes(content)
    overrides = [_override(random) for _ in range(random.choice((0, 0, 0, 1, 2)))]
    about = f"{content[:300]!r} {overrides}"
    if random.random() < 0.15:
        options = [word for text in overrides for word in ("--set", text.replace("\x00", ""))]
        return Trial(about, lambda: command("data", "check", "hostile.yaml", *options) and None)
    return Trial(about, lambda: _load("hostile.yaml", overrides))


def _load(file: str, overrides: list[str]) -> str | None:
    """Loads, writes, loads again, builds, and compares what was given with what was understood."""
    configuration = load(file, overrides)
    config = configuration.config
    Path("again.yaml").write_text(dump(config), encoding="utf-8")
    if load("again.yaml").config != config:
        return "what was written is not what was read"
    understood = config.model_dump()
    try:  # every scalar a text
        given = yaml.load(Path(file).read_text(encoding="utf-8-sig"), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        given = None
    set_ = {tuple(part.strip() for part in name.split(".")) for name, _, _ in (one.partition("=") for one in overrides)}
    for path, value in _leaves(given):
        if any(path[: len(other)] == other or other[: len(path)] == path for other in set_):
            continue
        if complaint := _compare(path, value, understood):
            return complaint
    sizes = [value for path, value in _leaves(understood) if isinstance(value, int) and path[0] == "model"]
    if max(sizes, default=0) <= MOST:
        try:
            build_model(config.model, num_source=8, num_target=8)
        except ConfigError as error:
            raise configuration.located(error) from None
    return None


def _leaves(values: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(values, dict):
        return [leaf for key, value in values.items() for leaf in _leaves(value, (*path, key))]
    return [(path, values)]


def _compare(path: tuple[Any, ...], written: Any, understood: Any) -> str | None:
    for part in path:
        if not isinstance(understood, dict) or part not in understood:
            return f"{path}: given, and not in the configuration"
        understood = understood[part]
    if isinstance(understood, bool | None) or not isinstance(understood, int | float) or not isinstance(written, str):
        return None
    try:
        number = float(written.replace("_", "")) if "x" not in written.lower() else float(int(written, 16))
    except ValueError:
        return None if "o" in written else f"{path}: {written!r} became {understood!r}"
    return None if math.isclose(number, understood, rel_tol=1e-12) else f"{path}: {written!r} became {understood!r}"


def _content(random: Random) -> bytes:
    way = random.randrange(16)
    if way == 0:
        return text.damaged(random, models.CONFIGURATION.encode())
    if way == 1:
        return text.encoded(_soup(random))
    if way == 2:
        return text.encoded(_bomb(random))
    values = yaml.safe_load(models.CONFIGURATION)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _change(random, values)
    written = yaml.dump(values, allow_unicode=True, sort_keys=False)
    if way in (3, 4):
        lines = written.splitlines(keepends=True)
        at = random.randrange(len(lines))
        odd = random.choice(
            ("\t", "  ", " ", "- ", lines[at], "<<: *a\n", "---\n", "...\n", "%YAML 1.2\n", "? ", "!!map ")
        )
        lines[at] = odd + lines[at]
        written = "".join(lines)
    if way == 5:
        at = random.randrange(len(written))
        written = written[:at] + text.string(random) + written[at:]
    content = text.encoded(written)
    return text.damaged(random, content) if way == 6 else content


def _change(random: Random, values: dict[str, Any]) -> None:
    """Puts something else under a key, known or not."""
    path = random.choice(LEAVES).split(".")
    way = random.randrange(6)
    if way == 0:
        path = path[: random.randrange(1, len(path) + 1)]
    if way == 1:
        path[random.randrange(len(path))] = text.string(random)[:200]
    section = values
    for part in path[:-1]:
        inner = section.get(part)
        section[part] = inner = inner if isinstance(inner, dict) else {}
        section = inner
    key = KEYS.get(tuple(path))
    section[path[-1]] = _plausible(random, key) if key and random.random() < 0.75 else _value(random)


def _plausible(random: Random, key: Key) -> Any:
    """A value that the key may have."""
    member = random.choice(key.members)
    if member.choices:
        return random.choice(member.choices)
    if member.type is bool:
        return random.random() < 0.5
    if member.type is int:
        return random.choice((1, 2, 3, 8))
    if member.type is float:
        return random.choice((0.25, 0.5, 1.0, 1e-3))
    if member.type is Path:
        return random.choice(("pairs.tsv", "dev.tsv", "missing.tsv"))
    if member.section:
        return {}
    return None if member.type is type(None) else random.choice(("bahdanau", "luong", "wer", "cpu", 0, 1, [0.9, 0.98]))


def _value(random: Random) -> Any:
    way = random.randrange(6)
    if way == 0:
        return text.string(random)
    if way == 1:
        return random.choice((True, False, None, [], {}, [[]], {"a": 1}, [1, 2], [0.9, 0.98], [0.9], [0.9, 0.9, 0.9]))
    if way == 2:
        return text.json_value(random)
    if way == 3:
        return random.choice((0, 1, 2, 3, -1, 0.5, 1.0, 10**9, 10**19, 1e-300, 1e308, float("nan"), float("inf"), -0.0))
    if way == 4:
        return random.choice(
            ("gru", "lstm", "luong", "bahdanau", "cpu", "auto", "word", "byte", "sentencepiece", "cosine")
        )
    return yaml.load(text.number(random).replace("\x00", "") or "0", Loader=yaml.BaseLoader)


def _override(random: Random) -> str:
    key = random.choice(LEAVES)
    way = random.randrange(16)
    if way == 0:
        return text.string(random)
    if way == 1:
        key = random.choice(
            (key.upper(), key.replace(".", ".."), key + ".x", key.rpartition(".")[2], f" {key} ", "." + key)
        )
    way = random.randrange(5)
    if key in LEAVES and way < 3:
        value = yaml.dump(_plausible(random, KEYS[tuple(key.split("."))]), default_flow_style=True).partition("\n")[0]
    else:
        value = text.number(random) if way == 3 else text.string(random)
    return f"{key}{random.choice(('=', '=', '=', '=', '=', '=', '=', '=', ' = ', ':', '=='))}{value}"


def _soup(random: Random) -> str:
    fragments = (
        "a",
        ": ",
        ":",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&x ",
        "*x",
        "!!str ",
        "!x ",
        "|\n",
        ">\n",
        "'",
        '"',
        "#",
        "? ",
        "data",
        "model",
        "training",
        "1",
        "null",
        "---\n",
        "\t",
        "%TAG ! x\n",
        "<<",
        "@",
        "`",
    )
    return "".join(random.choice(fragments) for _ in range(random.randrange(1, 40)))


def _bomb(random: Random) -> str:
    way, depth = random.randrange(8), random.choice((3, 9, 40, 3000))
    if way == 0:
        rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else '1'}]" for n in range(min(depth, 40))]
        return "\n".join(rows)
    if way == 1:
        return "data: " + "[" * depth + "]" * depth
    if way == 2:
        return "data: " + "{a: " * depth + "1" + "}" * depth
    if way == 3:
        return "\n".join("  " * n + f"k{n}:" for n in range(min(depth, 800)))
    if way == 4:
        return "a: &a [*a]\nb: &b {b: *b}\ndata: {train: *a}"
    if way == 5:
        applied = random.choice(("apply:os.system", "new:os.system", "apply:builtins.open"))
        return f'data: !!python/object/{applied} ["{CANARY}", "w"]\nmodel: !!python/name:os.system touch {CANARY}'
    if way == 6:
        return models.CONFIGURATION + f"{'k' * depth * 10}: 1\n" + f"select: {'x' * depth * 100}\n"
    return "data: {train: pairs.tsv}\n" + "training: {epochs: 1}\n" * min(depth, 40)


def preset_draw(random: Random, folder: Path) -> Trial:
    """A preset with hostile overrides."""
    (folder / "pairs.tsv").write_text(models.pairs(12), encoding="utf-8")
    overrides = ["data.train=pairs.tsv", *(_override(random) for _ in range(random.choice((1, 2))))]
    name = random.choice(
        ("g2p", "text-to-text", "no-attention", "autoencoder", "g2p", random.choice(("G2P", text.string(random))))
    )
    return Trial(f"{name!r} {overrides}", lambda: from_preset(name, overrides) and None)
