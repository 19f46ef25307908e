"""The probabilities of teachers at every symbol of the training pairs, computed once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.data import bucket
from regard.data.cache import CacheEntry
from regard.data.growing_array import blocks, save_array, scratch
from regard.data.text import UNKNOWN
from regard.data.text.field import described
from regard.data.text.survey import Survey
from regard.data.text.vocabulary import SPECIALS
from regard.errors import ConfigError
from regard.files import checksum
from regard.runs.store import WEIGHTS, find_named, load_of_task
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.encoded_pairs import EncodedPairs
from regard.tasks.text_to_text.model import TextToText
from regard.training import processes

KEY_PATH = ("training", "teachers")
MOST_SYMBOLS = 8
"""The number of symbols at each position whose probabilities are kept; the others of a teacher have almost none."""
BATCH_TOKENS = 4000


class TeacherProbabilities:
    """The mean of the teachers' probabilities at each symbol of the training pairs and at their ends.

    Args:
        symbols, probabilities: (positions, K), those of all pairs in their order.
        starts: (pairs,) the first position of each pair.
    """

    def __init__(self, symbols: NDArray[Any], probabilities: NDArray[Any], starts: NDArray[Any]) -> None:
        self.symbols, self.probabilities, self.starts = symbols, probabilities, starts

    @classmethod
    def of(cls, student: TextToText, pairs: Survey) -> TeacherProbabilities:
        """Those of the teachers of a student, from the cache if they are there.

        Args:
            pairs: the training pairs, with the fields of the student.
        """
        folders = [find_named(folder, KEY_PATH) for folder in student.config.training.taught_by]
        lengths = pairs.target.lengths.astype(np.int64) + 1
        starts = np.cumsum(lengths) - lengths
        key = _key(folders, student, pairs)

        def write(folder: Path) -> dict[str, Any]:
            from regard.training.progress import say

            say(f"teachers: {', '.join(folder.name for folder in folders)}: their probabilities are computed once")
            symbols, probabilities = _computed(folders, student, pairs, lengths, starts)
            save_array(folder / "symbols.npy", symbols)
            save_array(folder / "probabilities.npy", probabilities)
            return {}

        processes.first(lambda: CacheEntry.find(key) or CacheEntry.write(key, write))
        entry = CacheEntry.find(key)
        if entry is None:  # the file system did not put it in place
            symbols, probabilities = _computed(folders, student, pairs, lengths, starts)
        else:
            symbols, probabilities = entry.array("symbols"), entry.array("probabilities")
        width = len(symbols) // max(int(lengths.sum()), 1)
        return cls(symbols.reshape(-1, width), probabilities.reshape(-1, width), starts)

    def pad(self, indices: ArrayLike, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Symbols and probabilities (B, T, K) of some pairs.

        Args:
            mask: (B, T), True at the symbols of each output and at its end.
        """
        starts = self.starts[np.asarray(indices, np.int64)]
        real = mask.numpy()
        places = (starts[:, None] + np.arange(mask.shape[1]))[real]
        shape = (*mask.shape, self.symbols.shape[1])
        symbols, probabilities = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        symbols[real], probabilities[real] = self.symbols[places], self.probabilities[places]
        return torch.from_numpy(symbols), torch.from_numpy(probabilities)


def check_teaching(config: TextToTextConfig) -> None:
    """Refuses a student that nobody can teach."""
    if config.training.taught_by and config.data.target.direction == "both":
        raise ConfigError("teachers write in one direction, and data.target.direction is both", KEY_PATH)
    if config.training.taught_by and config.model.pointer is not None:
        raise ConfigError("a pointer's copies cannot be taught; leave out teachers or model.pointer", KEY_PATH)


def check_teachers(student: TextToText) -> None:
    """Refuses teachers that cannot teach this student."""
    for path in student.config.training.taught_by:
        folder = find_named(path, KEY_PATH)
        teacher = _loaded(folder, "cpu")
        if teacher.extended is not None:
            raise ConfigError(f"{folder} has a pointer, whose copies cannot be taught", KEY_PATH)
        if teacher.trained_direction != student.trained_direction:
            raise ConfigError(
                f"{folder} writes {teacher.trained_direction}, and data.target.direction is "
                f"{student.trained_direction}",
                KEY_PATH,
            )
        for name in ("source", "target"):
            ours, theirs = getattr(student, name), getattr(teacher, name)
            if described(ours.units) != described(theirs.units) or ours.normalisation != theirs.normalisation:
                raise ConfigError(
                    f"{folder} divides the {name}s of its pairs into other symbols: {described(theirs.units)} "
                    f"({theirs.normalisation}), and this model {described(ours.units)} ({ours.normalisation})",
                    KEY_PATH,
                )


def _loaded(folder: Path, device: torch.device | str) -> TextToText:
    teacher: TextToText = load_of_task(folder, KEY_PATH, task="text_to_text", device=device)
    return teacher


def _key(folders: Sequence[Path], student: TextToText, pairs: Survey) -> str:
    """A text that depends on the teachers, the symbols of the student and the pairs."""
    digest = hashlib.sha256()
    for folder in folders:
        digest.update(checksum(folder / WEIGHTS).encode())
    for field, side in ((student.source, pairs.source), (student.target, pairs.target)):
        digest.update(repr((described(field.units), field.vocabulary.symbols, list(side.counts))).encode())
        for _, (ids,) in blocks(side.ids):
            digest.update(np.ascontiguousarray(ids).data)
        for _, (lengths,) in blocks(side.lengths):
            digest.update(np.ascontiguousarray(lengths).data)
    digest.update(repr((student.is_reversed, MOST_SYMBOLS)).encode())
    return f"teachers-{digest.hexdigest()[:32]}"


def _computed(
    folders: Sequence[Path], student: TextToText, pairs: Survey, lengths: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The most probable symbols at all positions and their probabilities, flat."""
    teachers = [_Teacher(folder, student, pairs) for folder in folders]
    size = len(student.target.vocabulary)
    width = min(MOST_SYMBOLS, size)
    symbols = scratch(int(lengths.sum()) * width, np.min_scalar_type(size - 1))
    probabilities = scratch(len(symbols), np.float16)
    tables = symbols.reshape(-1, width), probabilities.reshape(-1, width)
    order = bucket(
        pairs.source.lengths, pairs.target.lengths, batch_tokens=BATCH_TOKENS, seed=0, epoch=0, shuffle=False, extra=1
    )
    for indices in order:
        mean = sum(teacher.probabilities(indices) for teacher in teachers) / len(teachers)
        assert isinstance(mean, Tensor)
        best, chosen = mean.topk(width)
        shares = best / best.sum(-1, keepdim=True).clamp(min=torch.finfo(best.dtype).tiny)
        columns = np.arange(mean.shape[1])
        real = columns < lengths[indices][:, None]
        places = (starts[indices][:, None] + columns)[real]
        for table, values in zip(tables, (chosen, shares), strict=True):
            table[places] = values.cpu().numpy()[real]
    return symbols, probabilities


class _Teacher:
    """A teacher that reads the training pairs of a student, with its own symbols."""

    def __init__(self, folder: Path, student: TextToText, pairs: Survey) -> None:
        self.model = _loaded(folder, student.device)
        self.model.module.eval()
        self.pairs = EncodedPairs(pairs.of(self.model.source, self.model.target), self.model)
        own = self.model.target.vocabulary.ids(student.target.vocabulary.symbols)
        numbers = torch.cat([torch.arange(len(SPECIALS)), torch.from_numpy(own)])
        is_known = torch.cat([torch.ones(len(SPECIALS)), torch.from_numpy(own != UNKNOWN)])
        self.numbers, self.is_known = numbers.to(student.device), is_known.to(student.device)

    @torch.inference_mode()
    def probabilities(self, indices: NDArray[np.int64]) -> Tensor:
        """(B, T, N) of the symbols of the student, teacher-forced."""
        batch = {name: each.to(self.model.device) for name, each in self.pairs.pad(indices).items()}
        memory = self.model.module.prepare(batch["source"], batch["source_mask"])
        output = self.model.module.decoder.forward(batch["inputs"], memory)
        assert output.log_probabilities is not None
        return output.log_probabilities.exp()[..., self.numbers] * self.is_known
