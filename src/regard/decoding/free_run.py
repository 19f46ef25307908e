"""Free-running decoding: a decoder of values receives its own outputs as inputs; and the rules by which it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import groupby
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard import tree
from regard.decoding.live_beam import checked_source
from regard.decoding.processor import SearchSource, last_positions
from regard.decoding.recorded import called, is_due, recordings_of, staying
from regard.decoding.request import length_limits, per_sentence
from regard.decoding.result import main_name
from regard.decoding.stopping import check_stop
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.models.contract import Decoder, DecoderOutput, Tree
from regard.models.tacotron import STOP
from regard.ops import over_steps
from regard.ops.recording import Recordings
from regard.shapes import Bool, Float, describe

Feed = Callable[[Tensor, Tensor, Any], Tensor]
"""From the values (R, F) of a step, the indices of their rows in the batch (R,) and the number of the next step, 1 or
more, to the inputs of that step (R, I)."""
Stop = Callable[[DecoderOutput], Tensor]
"""From a step's output for R unfinished rows to (R,) bool: True for rows that end with this step."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The values of a free run, T steps. Its tensors are ordinary tensors on the CPU.

    Args:
        values: (T, F), including those of the last step.
        stop_reason: "stop" if a rule ended it, "length" if it reached the maximum length.
        alignments: by name, (H, T, S), a row for every step; empty unless requested. S is that of the batch, including
            padding.
        auxiliary: by name, (T, …): further outputs of the decoder, such as `quantiles` (T, F, Q).
    """

    values: Tensor
    stop_reason: Literal["stop", "length"]
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        further = {**self.alignments, **self.auxiliary}
        shapes = "".join(f", {name} {tuple(tensor.shape)}" for name, tensor in further.items())
        return f"Trajectory(values {tuple(self.values.shape)}, stop_reason={self.stop_reason!r}{shapes})"


def free_run(
    decoder: Decoder,
    memory: Tree,
    first: Float[Tensor, "B I"],
    *,
    max_length: int | Tensor,
    min_length: int | Tensor = 0,
    feed: Feed | None = None,
    stop: Stop | None = None,
    attention_stop: int | None = None,
    source: SearchSource | None = None,
    alignment: bool = False,
) -> list[Trajectory]:
    """Runs a decoder of values on its own outputs: x_0 = first, x_{t+1} = feed(y_t).

    The result of a row does not depend on its batch, which rows leave when they end. Call `decoder.eval()` first; no
    gradients are computed.

    Args:
        decoder: a module with the methods of `regard.models.contract.Decoder` that returns `values`.
        memory: `decoder.prepare(encoded)`, B rows in every leaf.
        first: (B, I), the inputs of the first step: the last observation, or a frame of zeros.
        max_length: the largest number of steps: a number, or (B,), one per row.
        min_length: the number of steps before which neither `stop` nor `attention_stop` ends a row: a number, or (B,),
            one per row.
        feed: computes the next inputs from the values, which are the inputs themselves if None; for example with known
            futures (`torch.cat([values, known[rows, step]], 1)`). Steps are recorded on a GPU if this is a frozen
            dataclass of tensors; the number of the step is then a tensor.
        stop: a rule that ends rows by their outputs, such as `stop_at_logit()` and `stop_at_silence(level)`. It is
            recorded under the same condition.
        attention_stop: also ends rows whose main attention (mean of heads) has had its largest weight at the last
            source position for this number of steps in a row, as after the last sound of an utterance.
        source: its mask determines the last source position; the last one of the alignments if None.
        alignment: whether trajectories have alignments; a decoder without attention has none.

    Returns:
        B trajectories.

    Raises:
        ShapeError: for first inputs, limits, or results of `feed` or `stop` of a wrong shape.
        ConfigError: for an `attention_stop` below 1.
        UnsupportedError: for a decoder of tokens, or one without attention if `attention_stop` is given.
        RegardError: for NaN.

    >>> from regard.layers import RecurrentStack, ValueEmbedding, ValueHead
    >>> from regard.models import Bridge, Encoded, FixedContext, RecurrentDecoder
    >>> stack, context = RecurrentStack(3, 4, cell="gru"), FixedContext("last", 4)
    >>> decoder = RecurrentDecoder(
    ...     ValueEmbedding(2, 3), stack, ValueHead(4, 2), Bridge(stack, stack, "pass"), context=context, continuous=True
    ... )
    >>> memory = decoder.prepare(Encoded(torch.zeros(1, 5, 4), final_state=((torch.zeros(1, 4),),)))
    >>> free_run(decoder, memory, torch.zeros(1, 2), max_length=6)
    [Trajectory(values (6, 2), stop_reason='length')]
    """
    count = tree.rows(memory)
    if first.dim() != 2 or len(first) != count or not first.is_floating_point():
        raise ShapeError(
            f"first must be (B={count}, I) values, a row of inputs.\n" + describe({"first": ("B I", first)})
        )
    if attention_stop is not None and attention_stop < 1:
        raise ConfigError(f"attention_stop={attention_stop}: give a number of steps, at least 1.")
    if count == 0:
        return []
    remaining = length_limits(max_length, memory)
    device, nothing = remaining.device, torch.zeros_like(remaining)
    recordings, weights = _recordings(decoder, remaining, feed, stop)
    is_recorded = recordings is not None
    constant = repr(("free run", weights, type(feed), type(stop), attention_stop, alignment))

    def step(
        read: tuple[_Run, int | Tensor, Feed | None, Stop | None, SearchSource | None],
    ) -> tuple[_Run, int | Tensor, DecoderOutput]:
        run, number, feed, stop, source = read
        inputs = first if run.values is None else _inputs_after(run.values, run.rows, number, first, feed)
        with loop:
            output, state = decoder.step(
                inputs, run.memory, run.state, alignment=alignment or attention_stop is not None
            )
        number, values, steps_at_end = number + 1, _values_of(output, inputs), run.steps_at_end
        ended = None if stop is None else _ends(stop, output, run.rows)
        if attention_stop is not None:
            if not output.alignments:
                raise UnsupportedError("attention_stop reads the attention, but the decoder returns no alignments.")
            weights = output.alignments[main_name(output.alignments, decoder)].mean(1)
            is_at_end = weights.argmax(1) == last_positions(source, weights, run.rows)
            steps_at_end = torch.where(is_at_end, steps_at_end + 1, 0)
            is_read = steps_at_end >= attention_stop
            ended = is_read if ended is None else ended | is_read
        over, stopped = run.remaining <= number, run.stopped
        if ended is not None:
            ended = ended & (run.waiting <= number)
            over, stopped = over | ended, torch.where(run.over == 0, ended, stopped)
        over = torch.where(run.over == 0, over * number, run.over)
        after = replace(run, state=state, values=values, steps_at_end=steps_at_end, over=over, stopped=stopped)
        return after, number, output if alignment else replace(output, alignments={})

    outputs: list[tuple[Tensor, DecoderOutput]] = []
    with torch.inference_mode():
        loop = over_steps.Loop(is_idle=is_recorded)
        if is_recorded:
            feed, stop = tree.to((feed, stop), device)
        source = checked_source(source, count, device)
        rows, waiting = torch.arange(count, device=device), per_sentence("min_length", min_length, memory)
        run = _Run(memory, decoder.initial_state(memory), None, rows, remaining, waiting, nothing, nothing, nothing > 0)
        lengths, stopped = nothing.clone(), run.stopped.clone()
        least, longest = int(remaining.min()), int(remaining.max())
        number: int | Tensor = nothing.new_zeros(()) if is_recorded else 0
        while len(run.rows):
            check_stop()
            read = run, number, feed, stop, source
            if recordings is None or not outputs:
                run, number, output = step(read)
            else:
                rows = run.rows  # the same tensor as long as no row leaves
                run, number, output = called(recordings, constant, read, step)
                run, output = replace(run, rows=rows), tree.map(torch.clone, output)
            outputs.append((run.rows, output))
            may_end = stop is not None or attention_stop is not None or len(outputs) >= least
            if not may_end or not is_due(len(outputs), longest, is_recorded=is_recorded):
                continue
            leaving = run.over > 0
            if bool(leaving.any()):
                lengths[run.rows[leaving]], stopped[run.rows[leaving]] = run.over[leaving], run.stopped[leaving]
                places = staying(leaving, is_recorded=is_recorded)
                run = run if places is None else tree.reorder(run, places)
    return _trajectories(outputs, lengths.tolist(), stopped.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """The state of R rows.

    Args:
        memory, state: of the decoder.
        values: of the step before; None before the first.
        rows: indices in the batch.
        remaining, waiting: the largest number of steps, and the minimum before which a row cannot end.
        steps_at_end: the number of steps for which attention has been at the last position.
        over: the step at which each row ended, 0 for unfinished rows.
        stopped: bool, rows that a rule ended.
    """

    memory: Tree
    state: Tree
    values: Tensor | None
    rows: Tensor
    remaining: Tensor
    waiting: Tensor
    steps_at_end: Tensor
    over: Tensor
    stopped: Tensor


def _recordings(
    decoder: Decoder, like: Tensor, feed: Feed | None, stop: Stop | None
) -> tuple[Recordings | None, Hashable]:
    """The recordings of a decoder's steps and a key of its weights, if `feed` and `stop` depend on tensors only."""
    for each in (feed, stop):
        values = [getattr(each, part.name) for part in fields(each)] if is_dataclass(each) else [each]
        if not all(value is None or isinstance(value, Tensor) for value in values):
            return None, None
    return recordings_of(decoder, like) or (None, None)


def _values_of(output: DecoderOutput, inputs: Tensor) -> Tensor:
    """The values (R, F) of a step."""
    if output.values is None:
        raise UnsupportedError("The decoder returns log-probabilities, not values. Use `search` for tokens.")
    if output.values.dim() != 2 or len(output.values) != len(inputs):
        raise ShapeError(
            f"A step must return values (R={len(inputs)}, F).\n"
            + describe({"inputs": ("R I", inputs), "values": ("R F", output.values)})
        )
    return output.values


def _ends(stop: Stop, output: DecoderOutput, rows: Tensor) -> Bool[Tensor, " R"]:
    ended = stop(output)
    if ended.shape != rows.shape or ended.dtype != torch.bool:
        raise ShapeError(
            f"stop must return (R={len(rows)},) bool, one for each row that still runs.\n"
            + describe({"stop": ("R", ended)})
        )
    return ended


def _inputs_after(values: Tensor, rows: Tensor, step: int | Tensor, inputs: Tensor, feed: Feed | None) -> Tensor:
    """The inputs (R, I) of a step from the values of the one before."""
    following = values if feed is None else feed(values, rows, step)
    if following.shape == (len(rows), inputs.shape[1]):
        return following
    origin = "give `feed`, as the values have another shape" if feed is None else "feed must return them"
    raise ShapeError(
        f"The inputs of step {step} must be (R={len(rows)}, I={inputs.shape[1]}), as those of the first: {origin}.\n"
        + describe({"values": ("R F", values), "inputs": ("R I", following)})
    )


def _trajectories(
    outputs: Sequence[tuple[Tensor, DecoderOutput]], lengths: Sequence[int], stopped: Sequence[bool]
) -> list[Trajectory]:
    """The trajectory of each row, from the outputs of the steps and the indices of the rows that took them."""
    named = [
        {
            ("values", ""): output.values,
            **{("alignments", name): weights for name, weights in output.alignments.items()},
            **{("auxiliary", name): tensor for name, tensor in output.auxiliary.items()},
        }
        for _, output in outputs
    ]
    running = [rows for rows, _ in outputs]
    whole = {key: _whole([step[key] for step in named], running, len(lengths)) for key in named[0]}
    trajectories = []
    for row, length in enumerate(lengths):
        outcome = {key: tensor[row, :length] for key, tensor in whole.items()}
        values = outcome["values", ""]
        if bool(values.isnan().any()):
            step = int(values.isnan().any(1).nonzero()[0, 0])
            raise RegardError(
                f"The decoder returned NaN at step {step}, row {row} of the batch. Did training diverge, or is an "
                "input NaN?"
            )
        trajectories.append(
            Trajectory(
                values.clone(),
                "stop" if stopped[row] else "length",
                {name: x.transpose(0, 1).clone() for (kind, name), x in outcome.items() if kind == "alignments"},
                {name: x.clone() for (kind, name), x in outcome.items() if kind == "auxiliary"},
            )
        )
    return trajectories


def _whole(steps: Sequence[Tensor | None], running: Sequence[Tensor], count: int) -> Tensor:
    """(B, T, …) on the CPU from T tensors (R, …) and the indices of their rows (R,), filled up with 0.

    The last axis may grow from step to step, as that of an alignment with the steps so far.
    """
    present = [step for step in steps if step is not None]
    widest = max((step.shape[-1] for step in present if step.dim() > 1), default=0)
    whole = present[0].new_zeros(count, len(present), *present[0].shape[1:-1], *([widest] * (present[0].dim() > 1)))
    start = 0
    # steps of the same rows together
    for _, group in groupby(zip(present, running, strict=True), key=lambda pair: id(pair[1])):
        several = list(group)
        padded = [
            pad(step, (0, widest - step.shape[-1])) if step.dim() > 1 and step.shape[-1] < widest else step
            for step, _ in several
        ]
        whole[several[0][1], start : start + len(several)] = torch.stack(padded, 1)
        start += len(several)
    return whole.cpu()


def stop_at_logit(threshold: float = 0.5) -> Stop:
    """Ends a row at the step in which the stop probability σ(x) of any of its frames exceeds a threshold.

    Args:
        threshold: from 0 to 1, both excluded.

    Raises:
        ConfigError: for another threshold.

    >>> import torch
    >>> output = DecoderOutput(values=torch.zeros(2, 1), auxiliary={"stop": torch.tensor([[-1.0, 1.0], [-1.0, -1.0]])})
    >>> stop_at_logit()(output).tolist()
    [True, False]
    """
    if not 0 < threshold < 1:
        raise ConfigError(f"threshold={threshold} must be a probability between 0 and 1.")
    return _AtLogit(torch.tensor(math.log(threshold / (1 - threshold))))


def stop_at_silence(level: float | Float[Tensor, " F"]) -> Stop:
    """Ends a row at the step whose values are all below a level, so that all its frames are silent.

    For spectrograms that are 0 in silence, such as keithito's, whose decoder learns to produce silence after the end.
    (A test for exactly 0, as there, never holds for outputs of a network.)

    Args:
        level: a number above silence, or one for each of the F values of a step; 0.05 for values between 0 and 1.

    >>> import torch
    >>> stop_at_silence(0.05)(DecoderOutput(values=torch.tensor([[0.01, -0.02], [0.01, 0.3]]))).tolist()
    [True, False]
    """
    return _AtSilence(torch.as_tensor(level))


@dataclass(frozen=True, slots=True, eq=False)
class _AtLogit:
    """Ends a row at which a stop logit exceeds `least`."""

    least: Tensor

    def __call__(self, output: DecoderOutput) -> Bool[Tensor, " R"]:
        if STOP not in output.auxiliary:
            raise UnsupportedError(
                "The decoder has no stop logits; use stop_at_silence, or attention_stop of free_run."
            )
        return (output.auxiliary[STOP] > self.least).any(1)


@dataclass(frozen=True, slots=True, eq=False)
class _AtSilence:
    """Ends a row whose values are all below `level`."""

    level: Tensor

    def __call__(self, output: DecoderOutput) -> Bool[Tensor, " R"]:
        if output.values is None:
            raise UnsupportedError("The decoder returns log-probabilities, not frames.")
        return (output.values < self.level).all(1)
