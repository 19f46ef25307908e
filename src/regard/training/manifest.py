"""The files that a run wrote into its folder, and the former run in `.replaced/`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.errors import OUTPUT_OPTION, DataError, RegardError, newer_format
from regard.files import create_folder, remove_folder, replace_text, writing

NAME = "run.json"
REPLACED = ".replaced"
"""A folder with the whole former run: a model that loads, with its log and its checkpoints. At every moment either it
or the run folder itself has a model."""
FORMAT = 1
CHECKPOINTS = (
    "checkpoints/latest",
    "checkpoints/best",
    "checkpoints/config.yaml",
    "checkpoints/step-*/model.safetensors",
    "checkpoints/step-*/trainer_state.pt",
    "checkpoints/step-*/progress.json",
    "checkpoints/weights/step-*.safetensors",
    "checkpoints/weights/mean.safetensors",
)
ALWAYS = ("metrics.jsonl", "outcome.json", *CHECKPOINTS)
"""Files that every run writes; those of the model and the pictures are added when they are written."""
BEFORE_MANIFESTS = ("model.safetensors", "config.yaml", "source.json", "target.json", "data.json", "*.model", *ALWAYS)
"""Files of runs from before there was a manifest."""


class Manifest:
    """The list of the files that a run wrote into its folder, stored there in `run.json`.

    A name is listed before its file is written, so that no kill leaves an unlisted file. A file that existed before is
    the user's and is never replaced, moved or deleted.

    Raises:
        DataError: for a `run.json` that cannot be read or is of a newer format.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        stored = _read(folder / NAME)
        if stored is None and is_run(folder):
            stored = {"files": [name for name in BEFORE_MANIFESTS if any(folder.glob(name))]}
        stored = stored or {}
        self._names = dict.fromkeys(stored.get("files", []))
        self._left = dict.fromkeys(stored.get("left", []))
        self.clearing = bool(stored.get("clearing", False))
        """Whether the files are being deleted to make room for another run."""

    def claim(self, names: Iterable[str], *, written: bool = False) -> list[str]:
        """Lists names before their files are written, and returns those that may be written.

        Args:
            names: relative to the folder; they may be patterns of `Path.glob`.
            written: whether the process has just written the files.
        """
        names = list(names)
        unlisted = [name for name in names if name not in self._names and name not in self._left]
        foreign = [str(path.relative_to(self._folder)) for name in unlisted for path in self._folder.glob(name)]
        if foreign and not written:
            raise RegardError(
                f"{self._folder} already has files that the run would write: {', '.join(sorted(foreign))}.\n"
                f"  Move them elsewhere, or choose another folder for the run ({OUTPUT_OPTION})."
            )
        if unlisted or not (self._folder / NAME).exists():
            self._names.update(dict.fromkeys(unlisted))
            self._write()
        return [name for name in names if name not in self._left]

    def leave(self, name: str) -> None:
        """Leaves a file that the user has changed to the user: the run never writes it again."""
        if name not in self._left:
            self._names.pop(name, None)
            self._left[name] = None
            self._write()

    def may_write(self, name: str) -> bool:
        """Whether a file is not left to the user."""
        return name not in self._left

    def files(self) -> list[Path]:
        """The files of the run that exist, `run.json` included."""
        paths = {path for name in (NAME, *self._names) for path in self._folder.glob(name) if path.is_file()}
        return sorted(paths)

    def clear(self) -> None:
        """Deletes the files of the run, the model's weights first; `run.json` stays.

        After a kill `clearing` remains set, so that the next process calls this again.
        """
        if not self.clearing:
            self.clearing = True
            self._write()
        files = [path for path in self.files() if path.name != NAME]
        for path in sorted(files, key=lambda path: path.relative_to(self._folder) != Path("model.safetensors")):
            path.unlink()
        for folder in sorted({parent for path in files for parent in path.parents}, reverse=True):
            if self._folder in folder.parents and not any(folder.iterdir()):
                folder.rmdir()
        self._names.clear()
        self.clearing = False
        self._write()

    def _write(self) -> None:
        from regard import __version__

        lists = {"files": sorted(self._names), "left": sorted(self._left)}
        entry = {"format": FORMAT, "regard": __version__, "clearing": self.clearing, **lists}
        replace_text(self._folder / NAME, json.dumps(entry, indent=1, ensure_ascii=False) + "\n")


def set_aside(folder: Path) -> None:
    """Moves the run of a folder to `.replaced/`; files that the run did not write stay where they are.

    A run without a model is deleted, and `.replaced/` is not changed. The files are moved by hard links: first all
    files are linked, then the folder `.replaced/` appears, then the files of the run folder are deleted
    (`Manifest.clear`).
    """
    manifest = Manifest(folder)

    def link(partial: Path) -> None:
        for path in manifest.files():
            target = partial / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target)
            except OSError:  # a file system without links
                shutil.copy2(path, target)

    if (folder / "model.safetensors").exists() and not manifest.clearing:
        create_folder(folder / REPLACED, link)
    with writing(folder):
        manifest.clear()


def drop_replaced(folder: Path) -> None:
    """Removes the former run, when the folder has a new model."""
    if (folder / REPLACED).exists():
        with writing(folder):
            remove_folder(folder / REPLACED)


def is_run(folder: Path) -> bool:
    """Whether a folder has a run, finished or not."""
    return any((folder / name).is_file() for name in (NAME, "checkpoints/latest", "outcome.json"))


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    advice = (
        f"Restore the file, or choose another folder for the run ({OUTPUT_OPTION}). A model in this "
        "folder can still be used."
    )
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        names = [name for key in ("files", "left") for name in stored.get(key, [])]
        is_valid = isinstance(stored["format"], int) and all(isinstance(name, str) and _inside(name) for name in names)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path}: not the list of files of a run ({error!r}).\n  {advice}") from None
    if not is_valid:
        raise DataError(f"{path}: not the list of files of a run.\n  {advice}")
    if stored["format"] > FORMAT:
        raise newer_format(path, stored["format"], FORMAT)
    return stored


def _inside(name: str) -> bool:
    """Whether a name, perhaps from a damaged file, is inside the folder and not a pattern that matches everything."""
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts and not set(parts) & {"*", "**"}
