"""The card of a run: `README.md` in its folder, with the metadata that Hugging Face reads.

A training writes it at its end. Its last line has a checksum of the text, so that a card that a person has changed is
recognised and never replaced.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import torch
import yaml

from regard.config.place import cut
from regard.data import Finding
from regard.errors import DataError, counted, one_line
from regard.files import replace_text
from regard.metrics.bootstrap import Estimate, ItemTerms, estimate
from regard.runs.contract import AbstractModel, task_of
from regard.runs.fingerprints import DataFile, fingerprints
from regard.runs.store import WEIGHTS, load_fingerprints
from regard.training import Outcome
from regard.training.manifest import Manifest

NAME = "README.md"
PIPELINES = {
    "text_to_text": "text2text-generation",
    "image_to_text": "image-to-text",
    "labelling": "token-classification",
    "documents": "text-classification",
    "language_modelling": "text-generation",
    "text_to_speech": "text-to-speech",
    "forecasting": "time-series-forecasting",
}
"""Hugging Face's names of tasks."""
NUM_EXAMPLES, NUM_PICTURES = 4, 3
LONGEST = 160
"""The most characters of a text of an example."""
SEAL = re.compile(r"<!-- written by regard [^ ]+; sha256 ([0-9a-f]{64}) -->\n")


@dataclass(frozen=True, eq=False)
class RunCard:
    """What a card says.

    Args:
        items: the terms of held-out items, from which intervals follow; None if there are none.
        findings: of the check of the data.
        files: of the data.
        warnings: about held-out items that the model cannot answer.
    """

    model: AbstractModel[Any]
    outcome: Outcome
    folder: Path
    items: ItemTerms | None
    findings: Sequence[Finding]
    files: Sequence[DataFile]
    warnings: Sequence[str] = ()

    @cached_property
    def figures(self) -> dict[str, Estimate | float]:
        """The metrics by name: of the held-out items, then those of the last validation only."""
        terms = {} if self.items is None or not len(self.items.keys) else self.items.metrics
        groups = None if self.items is None else self.items.groups
        figures: dict[str, Estimate | float] = dict(self.outcome.metrics)
        return figures | {name: estimate(each, groups=groups) for name, each in terms.items()}


def write_card(card: RunCard) -> Path | None:
    """Writes the card of a finished run, or again after it was continued; None if the folder has another one."""
    folder = card.folder
    path, manifest = folder / NAME, Manifest(folder)
    if path.exists() and (path not in manifest.files() or is_edited(folder)):
        manifest.leave(NAME)
    if NAME not in manifest.claim([NAME]):
        return None
    text = "\n".join([*_metadata(card), *_body(card)]) + "\n"
    replace_text(path, text + _seal(text))
    return path


def lacks_card(folder: Path, files: Sequence[DataFile]) -> bool:
    """Whether a finished run was stopped before its card was written, and still has its data."""
    manifest = Manifest(folder)
    if (folder / NAME).exists() or not manifest.may_write(NAME):
        return False
    try:
        return fingerprints(files).items() <= load_fingerprints(folder).items()
    except DataError:
        return False


def leave_edited(folder: Path) -> None:
    """Leaves a card that a person has changed to this person, before its run is replaced."""
    if (folder / NAME).exists() and is_edited(folder):
        Manifest(folder).leave(NAME)


def is_edited(folder: Path) -> bool:
    """Whether a person has changed the card of a run."""
    text = (folder / NAME).read_text(encoding="utf-8", errors="replace")
    found = list(SEAL.finditer(text))
    return not found or found[-1].end() != len(text) or found[-1][1] != _digest(text[: found[-1].start()])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _seal(text: str) -> str:
    from regard import __version__

    return f"<!-- written by regard {__version__}; sha256 {_digest(text)} -->\n"


def _metadata(card: RunCard) -> Iterator[str]:
    """The front matter, with the figures as Hugging Face's model index."""
    pipeline, tested = PIPELINES[card.model.config.task], _held_out_name(card.files)
    values = {name: each.value if isinstance(each, Estimate) else each for name, each in card.figures.items()}
    metrics = [{"type": name, "value": float(f"{value:.6g}")} for name, value in values.items() if isfinite(value)]
    result = {"task": {"type": pipeline}, "dataset": {"name": tested, "type": tested}, "metrics": metrics}
    entries = {
        "license": "unknown",
        "library_name": "regard",
        "pipeline_tag": pipeline,
        "tags": ["regard", "attention", card.model.config.task],
        "model-index": [{"name": card.model.name, "results": [result]}],
    }
    yield from ("---", yaml.safe_dump(entries, sort_keys=False, allow_unicode=True).rstrip(), "---")


def _held_out_name(files: Sequence[DataFile]) -> str:
    named = next((file for file in files if file.name.split(".")[0] == "dev"), None)
    if named is not None:
        return named.path.name
    train = next((file.path.name for file in files if file.name.split(".")[0] == "train"), "the data")
    return f"held-out part of {train}"


def _body(card: RunCard) -> Iterator[str]:
    from regard import __version__

    model, outcome = card.model, card.outcome
    yield from ("", f"# {model.name}", "", one_line(task_of(model.config).summary), "")
    yield from ("## Figures", "", *_figures(card), "")
    yield from ("## Use", "", "```sh", f"regard predict --model {shlex.quote(model.name)} INPUT", "```", "")
    yield from ("```python", "import regard", "", f"model = regard.load({model.name!r})", "```", "")
    yield from _examples(card.folder, card.items)
    yield from ("## Data", "", "| key | file | SHA-256 |", "|---|---|---|")
    for file in card.files:
        digest = model.fingerprints.get(file.name, "")
        yield f"| {_cell(file.key)} | {_cell(file.path.name)} | `{digest[:16]}…` |"
    yield from ("", *(f"- {_cell(finding.text)}" for finding in card.findings), "")
    yield from ("## Model", "", "| | |", "|---|---|")
    recipe = getattr(getattr(model.config.model, "attention", None), "recipe", None)
    facts = {
        "parameters": f"{model.num_parameters:,}",
        "size": f"{(card.folder / WEIGHTS).stat().st_size / 1e6:.3g} MB",
        **({"attention": recipe} if recipe else {}),
        **{name: value for name, value in model.description().items() if isinstance(value, str | int)},
    }
    yield from (f"| {_cell(name)} | {_cell(value)} |" for name, value in facts.items())
    yield from ("", "`config.yaml` has all settings, `metrics.jsonl` the log.", "")
    yield from ("## Training", "", "```sh", "regard train config.yaml --output FOLDER", "```", "")
    yield (
        f"{counted(outcome.steps, 'step|steps')}, {counted(outcome.epochs, 'epoch|epochs')}, "
        f"{outcome.seconds / 60:,.1f} minutes on {_device(model)}; ended by `training.{outcome.stop_reason}`. The "
        f"weights are {_saved(outcome)}. regard {__version__}, torch {torch.__version__}, {date.today().isoformat()}."
    )
    yield from ("", "## Limits", "")
    yield "- The held-out data chose the saved weights, so the figures are slightly better than those of new data."
    yield from (f"- {_cell(warning)}" for warning in card.warnings)
    yield (
        "- The training does not know, and people should write here: the licence (`license` above), the origin and the "
        "language of the data, and what the model should not be used for. A card that was edited is never replaced."
    )
    yield ""


def _figures(card: RunCard) -> Iterator[str]:
    """A table of the metrics; those of the held-out items have intervals."""
    count = "" if card.items is None else f", {counted(len(card.items.keys), 'item|items')}"
    yield from (f"On {_cell(_held_out_name(card.files))}{count}:", "")
    yield from ("| metric | value | 95 % interval |", "|---|---|---|")
    for name, each in card.figures.items():
        if isinstance(each, Estimate):
            yield f"| {_cell(name)} | {each.value:.4g} | {each.low:.4g} to {each.high:.4g} |"
    for name, each in card.figures.items():
        if not isinstance(each, Estimate):
            yield f"| {_cell(name)}, in the last validation | {each:.4g} | |"


def _examples(folder: Path, items: ItemTerms | None) -> Iterator[str]:
    """Held-out items with their outputs, and pictures of the last validation."""
    count = 0 if items is None else len(items.keys)
    chosen = range(0, count, max(1, count // NUM_EXAMPLES))[:NUM_EXAMPLES]
    shown = [] if items is None else [items.show(i) for i in chosen]
    shown = [item for item in shown if item.reference or item.output]
    pictures = sorted(folder.glob("pictures/*/*.png"), key=lambda path: (path.stat().st_mtime, path.name))
    if shown or pictures:
        yield from ("## Examples", "")
    if shown:
        yield from ("| input | output | reference |", "|---|---|---|")
        for item in shown:
            yield f"| {_cell(item.source)} | {_cell(item.output)} | {_cell(item.reference)} |"
        yield ""
    last = [path for path in pictures if path.parent == pictures[-1].parent][:NUM_PICTURES] if pictures else []
    for path in last:
        yield f"![a held-out item and what the model attends to]({path.relative_to(folder).as_posix()})"
    if last:
        yield ""


def _saved(outcome: Outcome) -> str:
    steps = outcome.weights
    if len(steps) == 1:
        return f"those of step {steps[0]:,}"
    return f"the mean of {len(steps)}, of steps {steps[0]:,} to {steps[-1]:,}"


def _device(model: AbstractModel[Any]) -> str:
    if model.device.type == "cuda":
        return torch.cuda.get_device_name(model.device)
    return f"the CPU ({platform.machine()}, {counted(torch.get_num_threads(), 'thread|threads')})"


def _cell(value: Any) -> str:
    """A text in a cell of a Markdown table."""
    text = cut(one_line(str(value)), LONGEST)
    return re.sub(r"([|<>*_`\[\]\\])", r"\\\1", text)
