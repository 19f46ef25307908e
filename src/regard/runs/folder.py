"""Run folders: whether a training begins, continues or replaces the run in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import ABSENT, Config, differences, dump
from regard.config import load as load_configuration
from regard.config.place import cut
from regard.errors import OUTPUT_OPTION, OVERWRITE_OPTION, ConfigError, DataError
from regard.files import SUFFIX, replace_file, replace_text
from regard.runs.automatic_settings import adopt
from regard.runs.card import leave_edited
from regard.runs.contract import AbstractModel, task_of
from regard.runs.fingerprints import fingerprints
from regard.runs.store import FINGERPRINTS, load_fingerprints, save_fingerprints
from regard.runs.trained_items import ITEMS
from regard.training import Outcome, lock, read_state
from regard.training.checkpoint import Checkpoints
from regard.training.manifest import REPLACED, Manifest, is_run, set_aside
from regard.training.outcome import reopen
from regard.training.progress import say

CONFIG, RECORD = "config.yaml", "checkpoints/config.yaml"
"""The configuration of the model, which the user may edit, and that of the beginning of the run."""
WHOLE = "# end\n"
"""The last line of the record, since half a configuration file can be a valid configuration."""
FREE = (
    "training.device",
    "training.sharding",
    "training.threads",
    "training.tensorboard",
    "training.log_every",
    "training.keep_checkpoints",
    "decoding.batch_tokens",
    "decoding.batch_words",
    "decoding.batch_pixels",
    "decoding.batch_sentences",
)
"""Keys that may change when a run continues, since they have no influence on the weights."""
EXTENDING = ("training.epochs", "training.max_steps", "training.early_stopping")
"""Keys that may be raised when a run continues, which then ends later; each is named like its stop reason."""
START = "training.start_from"
"""The key of the model whose weights a run starts from."""
Change = tuple[str, Any, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a training does with a folder.

    Args:
        config: the configuration, with the automatic settings of the run in the folder.
        begins: whether a run begins, instead of continuing the run in the folder.
        replaces: whether the run in the folder is set aside first.
        finished: the outcome, if the run is finished and is not extended.
        extended: the raised keys with which the run ends later.
        edited: whether the user has changed `config.yaml`, which then is not replaced.
    """

    config: Config
    begins: bool = True
    replaces: bool = False
    finished: Outcome | None = None
    extended: tuple[Change, ...] = ()
    edited: bool = False


def inspect(config: Config, folder: Path, *, overwrite: bool, given: Sequence[str] = ()) -> Decision:
    """Decides what a training does with a folder, and changes nothing.

    Args:
        given: the names of files of data of Python that are in the folder already.

    Raises:
        ConfigError: for a folder with a run of another configuration (the text has the keys that differ); for one with
            other files; for an edited `config.yaml` that would be replaced.
        DataError: for damaged files.
    """
    start = config.training.start_from
    if start is not None and start.resolve() == folder.resolve():
        raise ConfigError(
            f"the run cannot start from the model in its own folder, {folder}; choose another folder ({OUTPUT_OPTION})",
            ("training", "start_from"),
        )
    if not is_run(folder):
        _check_empty(folder, given)
        return Decision(config)
    if Manifest(folder).clearing:
        return Decision(config, replaces=True)
    edited = _edited(folder)
    if overwrite:
        if edited:
            raise ConfigError(
                f"{folder / CONFIG} was edited since the run wrote it, so {OVERWRITE_OPTION} does not replace it. "
                f"Move it elsewhere and use it from there, or choose another folder ({OUTPUT_OPTION})."
            )
        return Decision(config, replaces=True)
    before = _before(folder)
    if before is None:
        return Decision(config, edited=edited)
    config = adopt(config, before) if before.task == config.task else config
    changed = [row for row in differences(before, config) if row[0] not in FREE]
    changed = [row for row in changed if not _same_file(row[0], config, folder)]
    extended = tuple(row for row in changed if row[0] in EXTENDING and _raised(*row[1:]))
    if len(extended) < len(changed):
        raise ConfigError(_refusal(folder, changed))
    finished = Outcome.read(folder)
    if finished is not None and f"training.{finished.stop_reason}" in {key for key, *_ in extended}:
        finished = None
        if Checkpoints(folder).latest is None:
            raise ConfigError(
                f"{folder}: the run has ended and its checkpoints were removed (training.keep_checkpoints), so it "
                f"cannot be continued. Begin another run ({OUTPUT_OPTION}) from its model: training.start_from={folder}"
            )
    return Decision(config, begins=False, finished=finished, extended=extended, edited=edited)


def take(decision: Decision, model: AbstractModel[Any], folder: Path, given: Sequence[str] = ()) -> None:
    """Prepares the folder as `inspect` decided, in the process that holds the lock.

    A replaced run is moved to `.replaced/` until the new one has a model.

    Args:
        given: as in `inspect`; the files now belong to the run.
    """
    if decision.replaces:
        leave_edited(folder)
        set_aside(folder)
    if decision.extended:
        _announce(decision, folder)
        reopen(folder)
    manifest = Manifest(folder)
    if decision.edited:
        manifest.leave(CONFIG)
    names = manifest.claim([CONFIG, FINGERPRINTS, RECORD, *([ITEMS] if model.trained_items is not None else [])])
    manifest.claim(given, written=True)
    replace_text(folder / RECORD, dump(decision.config) + WHOLE)
    if CONFIG in names:
        replace_text(folder / CONFIG, dump(decision.config))
    replace_file(folder / FINGERPRINTS, lambda path: save_fingerprints(model, path.parent))
    if model.trained_items is not None:
        replace_file(folder / ITEMS, model.trained_items.save)


def check_data(folder: Path, current: dict[str, str]) -> None:
    """Raises DataError if the data changed since the run began."""
    before = load_fingerprints(folder)
    if changed := [name for name in before if before[name] != current.get(name)]:
        raise DataError(
            f"{folder}: the data changed since the run began: {', '.join(f'data.{name}' for name in changed)}.\n"
            f"Restore the files to continue, choose another folder ({OUTPUT_OPTION}), or begin anew "
            f"({OVERWRITE_OPTION})."
        )


def _check_empty(folder: Path, given: Sequence[str]) -> None:
    if not folder.is_dir() and folder.exists():
        raise ConfigError(f"{folder} is a file; choose a folder ({OUTPUT_OPTION})")
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    known = {path for pattern in given for path in folder.glob(pattern)}
    ours = {path.relative_to(folder).parts[0] for path in known}
    ours = {name for name in ours if known.issuperset(path for path in (folder / name).rglob("*") if path.is_file())}
    if others := [name for name in names if name not in (lock.NAME, REPLACED, *ours) and not name.endswith(SUFFIX)]:
        shown = ", ".join(others[:5]) + (" …" if len(others) > 5 else "")
        raise ConfigError(f"{folder} has files but no run ({shown}); choose another folder ({OUTPUT_OPTION})")


def _edited(folder: Path) -> bool:
    """Whether `config.yaml` differs from the one that the run wrote."""
    path, record = folder / CONFIG, folder / RECORD
    if not path.is_file():
        return False
    if record.is_file():
        return path.read_bytes() + WHOLE.encode() != record.read_bytes()
    try:
        return path.read_bytes() != dump(load_configuration(path).config).encode()
    except ConfigError:
        return True


def _before(folder: Path) -> Config | None:
    """The configuration that the run of a folder began with; None if none was written."""
    path = next((folder / name for name in (RECORD, CONFIG) if (folder / name).is_file()), None)
    if path is None:
        return None
    try:
        if path == folder / RECORD and not path.read_bytes().endswith(WHOLE.encode()):
            raise ConfigError(f"{path}: the end of the file is missing")
        return load_configuration(path).config
    except ConfigError as error:
        raise DataError(
            f"{error}\n  This is the configuration that the run in {folder} began with. Restore the file, choose "
            f"another folder ({OUTPUT_OPTION}), or begin anew "
            f"({OVERWRITE_OPTION})."
        ) from None


def _same_file(key: str, config: Config, folder: Path) -> bool:
    """Whether a key names a file with the same content as at the beginning of the run."""
    before = load_fingerprints(folder)
    if key == START:  # its weights were copied, so the file is no longer needed
        return "start_from" in before
    files = [file for file in task_of(config).files(config) if key == file.key or key.startswith(f"{file.key}.")]
    return bool(files) and all(before.get(name) == value for name, value in fingerprints(files).items())


def _raised(before: object, now: object) -> bool:
    return before is not None and (now is None or (isinstance(now, int) and isinstance(before, int) and now > before))


def _refusal(folder: Path, changed: list[Change]) -> str:
    state = read_state(folder)
    lines = [f"  {key}: {_shown(was)} → {_shown(now)}" for key, was, now in changed]
    where = f" at step {state.step:,}" if state is not None else ""
    return (
        f"{folder} holds a run{where} with another configuration:\n" + "\n".join(lines) + "\n"
        f"Continue it with the old configuration, choose another folder ({OUTPUT_OPTION}), or begin anew "
        f"({OVERWRITE_OPTION})."
    )


def _announce(decision: Decision, folder: Path) -> None:
    """Prints the raised keys and their effect on the learning rate."""
    changes = ", ".join(f"{key} is now {_shown(now)} (before: {_shown(was)})" for key, was, now in decision.extended)
    if decision.config.training.schedule == "cosine":
        rate = (
            "The cosine now spans the new length, so the learning rate rises above its last value and then falls "
            "again, a warm restart. The saved model changes only if a later one is better."
        )
    else:
        rate = "The learning rate continues as if this end had been planned from the start."
    say(f"{folder}: the run continues: {changes}. {rate}")


def _shown(value: object) -> str:
    return "not set" if value is ABSENT else "null" if value is None else cut(repr(value), 200)
