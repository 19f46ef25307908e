"""Nothing that is loaded is executed: not from a model, not from a run, not from data."""

from __future__ import annotations

import ast
import io
import pickle
import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from hostile import models
from hostile.checkpoints import Bomb
from hostile.trial import CANARY, Refused, command, inside
from regard.errors import RegardError
from regard.viz import load_alignment

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for room in ("src", "tests", "benchmarks", "examples", "docs") for path in (ROOT / room).rglob("*.py")
)
SUSPECT = re.compile(r"\b(torch|np|numpy|yaml|pickle|dill|cloudpickle|joblib|shelve)\.\w*(load|open|Unpickler)")
BOMBS = {
    "torch": lambda path: path.write_bytes(_saved()),
    "torch, as before 1.6": lambda path: path.write_bytes(_saved(_use_new_zipfile_serialization=False)),
    "pickle": lambda path: path.write_bytes(pickle.dumps(Bomb())),
    "numpy": lambda path: path.write_bytes(_array()),
}


def _saved(**options: bool) -> bytes:
    stream = io.BytesIO()
    torch.save(Bomb(), stream, **options)
    return stream.getvalue()


def _array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    return stream.getvalue()


def slots(folder: Path) -> list[str]:
    """The files of a folder that are read by programs."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".png"
    )


def test_the_bomb_goes_off_where_a_pickle_is_executed(tmp_path: Path) -> None:
    with inside(tmp_path):
        pickle.loads(pickle.dumps(Bomb())).close()
    assert (tmp_path / CANARY).exists()


@pytest.mark.parametrize("bomb", BOMBS)
def test_S1_a_pickle_in_any_file_of_a_model_is_never_executed(tmp_path: Path, bomb: str) -> None:
    for slot in slots(models.saved()):
        shutil.copytree(models.saved(), tmp_path / "model", dirs_exist_ok=True)
        BOMBS[bomb](tmp_path / "model" / slot)
        with inside(tmp_path), suppress(RegardError):
            regard.load("model").predict(["abc"])
            assert slot.endswith((".md", ".yaml")), f"{slot} was read although it is no such file"
        assert not (tmp_path / CANARY).exists(), slot
        shutil.rmtree(tmp_path / "model")


def test_S1_a_pickle_in_any_file_of_a_run_is_never_executed(tmp_path: Path) -> None:
    for slot in slots(models.interrupted() / "run"):
        models.copied(models.interrupted(), tmp_path / "project")
        BOMBS["torch"](tmp_path / "project" / "run" / slot)
        with inside(tmp_path / "project"), suppress(Refused):
            command("train", "tiny.yaml", "--output", "run")
        assert not list(tmp_path.rglob(CANARY)), slot
        shutil.rmtree(tmp_path / "project")


def test_S1_a_pickle_in_data_a_configuration_or_an_alignment_is_never_executed(tmp_path: Path) -> None:
    for name in ("pairs.tsv", "pairs.jsonl", "run.yaml", "a.npz", "a.json", "piece.model"):
        for write in BOMBS.values():
            write(tmp_path / name)
            with inside(tmp_path), suppress(Refused, RegardError):
                if name.startswith("a."):
                    load_alignment(name)
                elif name == "piece.model":
                    (tmp_path / "words.tsv").write_text("a b\tb a\n", encoding="utf-8")
                    command(
                        "data", "check", "words.tsv", "--set", "data.source={units: sentencepiece, "
                        "sentencepiece_model: piece.model}"
                    )  # fmt: skip
                else:
                    command("data", "check", name)
            assert not (tmp_path / CANARY).exists(), name


def unsafe(tree: ast.AST) -> list[str]:
    """Calls that execute what they read."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        options = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if name in ("torch.load", "torch.serialization.load") and options.get("weights_only") != "True":
            found.append(f"{node.lineno}: torch.load without weights_only=True")
        if name.partition(".")[0] in ("pickle", "dill", "cloudpickle", "joblib", "shelve") and name.endswith(
            ("load", "loads", "Unpickler", "open")
        ):
            found.append(f"{node.lineno}: {name}")
        if name in ("np.load", "numpy.load") and options.get("allow_pickle", "False") != "False":
            found.append(f"{node.lineno}: {name} with pickles")
        if name in ("yaml.load", "yaml.unsafe_load", "yaml.full_load") and "Safe" not in (
            loader := options.get("Loader", "")
        ):
            found += [] if loader in ("yaml.BaseLoader", "Loader") else [f"{node.lineno}: {name} without a safe loader"]
    return found


def test_S1_nothing_in_the_repository_reads_a_file_by_executing_it() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES if path.name != Path(__file__).name}
    found = {
        str(path.relative_to(ROOT)): calls
        for path, text in texts.items()
        if SUSPECT.search(text) and (calls := unsafe(ast.parse(text)))
    }
    # tests pickle their own objects to see that processes can share them, and the originals of goldens need it
    assert {name: calls for name, calls in found.items() if not name.startswith("tests/")} == {}
    for name, calls in found.items():
        assert all("pickle.loads" in call for call in calls), (name, calls)


@pytest.mark.parametrize(
    "call",
    [
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, map_location='cpu', weights_only=safe)",
        "pickle.load(file)",
        "pickle.loads(content)",
        "joblib.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader=yaml.UnsafeLoader)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
    ],
)
def test_a_call_that_executes_what_it_reads_is_noticed(call: str) -> None:
    assert len(unsafe(ast.parse(call))) == 1
    assert unsafe(ast.parse("torch.load(path, weights_only=True); np.load(path); yaml.safe_load(text)")) == []
