"""The former run of a folder, kept until the run that replaces it has a model.

`.replaced/` in a run folder holds the whole former run: a model that loads, with its log and its checkpoints. At every
moment either it or the folder itself has a model.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from regard.files import create_folder, remove_folder, writing
from regard.training.manifest import Manifest

NAME = ".replaced"


def set_aside(folder: Path) -> None:
    """Moves the run of a folder to `.replaced/`; files that the run did not write stay where they are.

    A run without a model is deleted, and `.replaced/` then stays as it is. The files are moved by hard links, which
    take no space: first all files are linked, then the folder `.replaced/` appears, then the files of the run folder
    are deleted (`Manifest.clear`).
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
        create_folder(folder / NAME, link)
    with writing(folder):
        manifest.clear()


def drop(folder: Path) -> None:
    """Removes the former run, once the folder has a model."""
    if (folder / NAME).exists():
        with writing(folder):
            remove_folder(folder / NAME)
