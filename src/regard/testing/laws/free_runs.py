"""Laws of free runs: a decoder of values that is fed its outputs has the outputs of teacher forcing with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decoding import Trajectory, free_run
from regard.models import DecoderOutput
from regard.testing.assertion import require, require_close
from regard.testing.decoder_subject import DecoderSubject

MAX_LENGTH = 6


def free_run_is_teacher_forcing_with_its_values(subject: DecoderSubject) -> None:
    """Teacher forcing with the inputs of a free run has its values, its auxiliaries and its alignments."""
    sentences = range(len(subject.sources))
    trajectories = _run(subject, sentences)
    memory = subject.prepare(sentences)
    values = torch.stack([trajectory.values for trajectory in trajectories])
    known = subject.inputs(sentences, MAX_LENGTH)
    inputs = known.clone()
    inputs[:, 1:, : values.shape[2]] = values[:, :-1]
    with torch.no_grad():
        forced = subject.decoder.forward(inputs, memory, alignment=True)
    for row, trajectory in enumerate(trajectories):
        expected = Trajectory(
            forced.values[row],
            "length",
            {name: weights[row] for name, weights in forced.alignments.items()},
            {name: tensor[row] for name, tensor in forced.auxiliary.items()},
        )
        _agree(trajectory, expected, subject, f"row {row} of a free run")


def free_run_ends_where_stop_is_true(subject: DecoderSubject) -> None:
    """A row ends with the step at which `stop` is True, or at its own maximum length; other rows are unchanged."""
    sentences = range(len(subject.sources))
    whole = _run(subject, sentences)
    marks = torch.stack([trajectory.values[1 + row] for row, trajectory in enumerate(whole[:-1])])

    def is_marked(values: Tensor) -> Tensor:
        """Whether values (R, F) are those at which a row shall stop."""
        return ((values[:, None] - marks).abs() < 1e-7).all(2).any(1)

    def stop(output: DecoderOutput) -> Tensor:
        assert output.values is not None
        return is_marked(output.values)

    stopped = _run(subject, sentences, stop=stop)
    limits = torch.tensor([MAX_LENGTH - row % 3 for row in sentences])
    cut = _run(subject, sentences, max_length=limits)
    for row, trajectory in enumerate(whole):
        marked = is_marked(trajectory.values).nonzero()[:, 0].tolist()
        length = marked[0] + 1 if marked else MAX_LENGTH
        _agree(stopped[row], _beginning(trajectory, length, bool(marked)), subject, f"row {row} that stop ends")
        _agree(cut[row], _beginning(trajectory, int(limits[row]), False), subject, f"row {row} with its own limit")


def free_run_is_independent_of_batch_and_padding(subject: DecoderSubject) -> None:
    """A row has the same trajectory alone, in a batch, in a permuted batch, and with more padding."""
    sentences = list(range(len(subject.sources)))
    alone = [_run(subject, [sentence])[0] for sentence in sentences]
    for where, batch, padding in (
        ("in a batch", sentences, 0),
        ("in a permuted batch", sentences[1:] + sentences[:1], 0),
        ("with 30 more columns of padding", sentences, 30),
    ):
        for sentence, trajectory in zip(batch, _run(subject, batch, padding=padding), strict=True):
            narrowed = {}
            for name, weights in alone[sentence].alignments.items():
                narrowed[name], beyond = trajectory.alignments[name].tensor_split([weights.shape[-1]], -1)
                require(bool((beyond == 0).all()), f"{name} of a free run {where} has weight on padding.")
            shown = Trajectory(trajectory.values, trajectory.stop_reason, narrowed, trajectory.auxiliary)
            _agree(shown, alone[sentence], subject, f"row {sentence} of a free run {where}")


def _run(
    subject: DecoderSubject,
    sentences: Sequence[int],
    *,
    max_length: int | Tensor = MAX_LENGTH,
    stop: Callable[[DecoderOutput], Tensor] | None = None,
    padding: int = 0,
) -> list[Trajectory]:
    """The free run of these sentences; inputs beyond the values are those of the subject."""
    known = subject.inputs(sentences, MAX_LENGTH)

    def feed(values: Tensor, rows: Tensor, step: int) -> Tensor:
        return torch.cat([values, known[rows, step, values.shape[1] :]], 1)

    memory: Any = subject.prepare(sentences, padding)
    return free_run(subject.decoder, memory, known[:, 0], max_length=max_length, feed=feed, stop=stop, alignment=True)


def _beginning(trajectory: Trajectory, length: int, stopped: bool) -> Trajectory:
    return Trajectory(
        trajectory.values[:length],
        "stop" if stopped else "length",
        {name: weights[:, :length] for name, weights in trajectory.alignments.items()},
        {name: tensor[:length] for name, tensor in trajectory.auxiliary.items()},
    )


def _agree(actual: Trajectory, expected: Trajectory, subject: DecoderSubject, what: str) -> None:
    require(actual.stop_reason == expected.stop_reason, f"{what} ended by {actual.stop_reason!r}.")
    require_close(actual.values, expected.values, f"values of {what}", max(subject.tolerance, 1e-9))
    for kind in ("alignments", "auxiliary"):
        ours, theirs = getattr(actual, kind), getattr(expected, kind)
        require(ours.keys() == theirs.keys(), f"{what} has the {kind} {sorted(ours)} instead of {sorted(theirs)}.")
        for name, tensor in theirs.items():
            require_close(ours[name], tensor, f"{name} of {what}", max(subject.tolerance, 1e-9))
