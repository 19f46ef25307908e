"""Saved models and run folders: cut off, flipped, swapped, missing, of another version, links and folders for files."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from random import Random

import torch

from hostile import models, text
from hostile.trial import CANARY, Trial, command

VERBS = ("predict", "predict", "predict", "info", "explain", "evaluate", "plot", "load")


class Bomb:
    """A pickle that makes a file when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (CANARY, "w")


def draw(random: Random, folder: Path) -> Trial:
    """A damaged model and a verb that reads it."""
    is_run = random.random() < 0.3
    (folder / "held.tsv").write_text(models.pairs(3, 90), encoding="utf-8")
    shutil.copytree(models.finished() / "run" if is_run else models.saved(), folder / "model")
    about = [damage(random, folder / "model") for _ in range(random.choice((1, 1, 1, 2)))]
    verb = random.choice(VERBS)
    if verb == "load":
        return Trial(f"{about} load", _load)
    arguments = {
        "predict": ["predict", "--model", "model", "abc"],
        "info": ["info", "model"],
        "explain": ["explain", "model"],
        "evaluate": ["evaluate", "held.tsv", "--model", "model"],
        "plot": ["plot", "--model", "model", "abc", "--output", "picture.html"],
    }[verb]
    return Trial(f"{about} {verb}", lambda: command(*arguments) and None)


def _load() -> None:
    import regard

    regard.load("model").predict(["abc"])


def damage(random: Random, folder: Path, *, among: str = "*") -> str:
    """Damages one of a folder's files, and says how."""
    files = sorted(path for path in folder.rglob(among) if path.is_file() and path.suffix != ".png")
    if not files:
        return "nothing left to damage"
    file = random.choice(files)
    content = file.read_bytes()
    name = str(file.relative_to(folder))
    way = random.randrange(12)
    if way == 0:
        file.unlink()
        return f"{name} removed"
    if way == 1:
        file.unlink()
        file.mkdir()
        return f"{name} a folder"
    if way == 2:
        file.unlink()
        target = random.choice(("nowhere", name.rpartition("/")[2], ".", "/dev/null", "/dev/full"))
        os.symlink(target, file)
        return f"{name} a link to {target}"
    if way == 3:
        other = random.choice(files)
        file.write_bytes(other.read_bytes())
        return f"{name} replaced by {other.name}"
    if way == 4:
        stream = io.BytesIO()
        torch.save(Bomb(), stream)
        file.write_bytes(stream.getvalue())
        return f"{name} a pickle"
    if way in (5, 6) and file.suffix == ".json":
        file.write_text(_edited(random, content), encoding="utf-8", errors="surrogatepass")
        return f"{name} edited: {file.read_bytes()[:200]!r}"
    if way in (7, 8) and file.suffix == ".safetensors":
        file.write_bytes(_header(random, content))
        return f"{name} with another header"
    if way == 9 and file.suffix == ".yaml":
        file.write_text(_reconfigured(random, content), encoding="utf-8", errors="surrogatepass")
        return f"{name} edited"
    changed = text.damaged(random, content)
    file.write_bytes(changed)
    return f"{name} damaged: {len(content)} to {len(changed)} bytes {changed[:60]!r}"


def _edited(random: Random, content: bytes) -> str:
    """Another value somewhere in a JSON document."""
    try:
        value = json.loads(content)
    except ValueError:
        return json.dumps(text.json_value(random))
    if not isinstance(value, dict) or not value or random.random() < 0.2:
        return json.dumps(text.json_value(random))
    key = random.choice(sorted(value))
    inner = value[key]
    if isinstance(inner, list) and inner and random.random() < 0.7:
        at = random.randrange(len(inner))
        inner[at] = random.choice((text.json_value(random), inner[0], text.string(random)))
        if random.random() < 0.3:
            del inner[at]
    elif random.random() < 0.3:
        del value[key]
    else:
        value[key] = text.json_value(random)
    return json.dumps(value, ensure_ascii=random.random() < 0.5)


def _header(random: Random, content: bytes) -> bytes:
    """A safetensors file whose header says something else."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
    except ValueError:
        return content[:8]
    name = random.choice(sorted(header))
    way = random.randrange(7)
    if way == 0:
        del header[name]
    elif way == 1:
        header[text.string(random)] = header.pop(name)
    elif way == 2 and "dtype" in header[name]:
        header[name]["dtype"] = random.choice(("I32", "F16", "BF16", "F64", "X", "U8"))
    elif way == 3 and "shape" in header[name]:
        header[name]["shape"] = random.choice(([], [1], [0], [-1], [2**62], header[name]["shape"][::-1]))
    elif way == 4 and "data_offsets" in header[name]:
        header[name]["data_offsets"] = random.choice(([0, 0], [0, 2**60], [8, 4]))
    elif way == 5:
        header["__metadata__"] = random.choice(
            (None, {"format": "99"}, {"format": "x"}, {"format": ""}, {}, {"format": "0"})
        )
    else:
        header[name] = text.json_value(random)
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + content[8 + length :]


def _reconfigured(random: Random, content: bytes) -> str:
    """A saved configuration with another value."""
    lines = content.decode("utf-8", "replace").splitlines()
    at = random.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    if colon:
        plausible = random.choice(("4", "8", "gru", "lstm", "luong", "word", "byte", "null"))
        lines[at] = f"{key}: {random.choice((plausible, plausible, text.number(random), text.string(random)))}"
    return "\n".join(lines)
