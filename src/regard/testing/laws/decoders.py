"""Laws of decoders: step and forward, batches and padding, hypotheses, conduct."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.models import DecoderOutput
from regard.models.loop import for_search
from regard.ops.over_steps import Loop
from regard.testing.assertion import (
    equally_wide,
    require,
    require_close,
    require_close_trees,
    require_rows,
    require_same_in_threads,
)
from regard.testing.decoder_subject import DecoderSubject, seen
from regard.testing.laws.conduct import reloaded, require_unchanged, snapshot

STEPS = 4


def forward_is_the_loop_of_step(subject: DecoderSubject) -> None:
    """Teacher forcing and the loop of steps have the same outputs, including alignments and auxiliaries."""
    memory, inputs = subject.batch(STEPS)
    _agree(subject.decoder.forward(inputs, memory, alignment=True), subject.loop(memory, inputs)[0], subject, "forward")


def future_inputs_change_nothing_before(subject: DecoderSubject) -> None:
    """The input of step t changes nothing before it."""
    memory, inputs = subject.batch(STEPS)
    other = inputs.clone()
    other[:, -1] = other[:, -1] + 1 if subject.num_tokens is None else (other[:, -1] + 1) % subject.num_tokens
    before = seen(subject.decoder.forward(inputs, memory, alignment=True))
    after = seen(subject.decoder.forward(other, memory, alignment=True))
    for name, tensor in before.items():
        require_close(after[name][:, :-1], tensor[:, :-1], f"{name} before another last input", subject.tolerance)


def sentence_is_independent_of_batch_and_padding(subject: DecoderSubject) -> None:
    """A sentence has the same outputs and gradients alone, in a batch, in a permuted one, and with more padding."""
    sentences = list(range(len(subject.sources)))
    for sentence in sentences:
        alone = _view(subject, [sentence], sentence)
        for where, batch, padding in (
            ("in a batch", sentences, 0),
            ("in a permuted batch", sentences[1:] + sentences[:1], 0),
            ("with 30 more columns of padding", sentences, 30),
        ):
            for name, tensor in _view(subject, batch, sentence, padding).items():
                if name.startswith(("alignment", "log_probabilities")):
                    width = alone[name].shape[-1]
                    nothing = 0.0 if name.startswith("alignment") else float("-inf")
                    beyond = tensor[..., width:] == nothing
                    require(bool(beyond.all()), f"{name} of a sentence {where} are not {nothing} beyond its own width.")
                    tensor = tensor[..., :width]
                require_close(tensor, alone[name], f"{name} of a sentence {where}", subject.tolerance)


def log_probabilities_sum_to_one(subject: DecoderSubject) -> None:
    """exp of the log-probabilities sums to 1 at every step."""
    if not subject.has_tokens:
        return
    memory, inputs = subject.batch(STEPS)
    log_probabilities = subject.decoder.forward(inputs, memory).log_probabilities
    require(log_probabilities is not None, "a decoder of tokens gives no log_probabilities.")
    totals = log_probabilities.double().exp().sum(-1)
    require_close(totals, torch.ones_like(totals), "the sum of the probabilities", max(subject.tolerance, 1e-9))


def hypotheses_follow_their_state(subject: DecoderSubject) -> None:
    """Three hypotheses have the outputs of each alone; states can be reordered, copied and dropped."""
    sentences = range(len(subject.sources))
    count = len(sentences)
    memory, inputs = subject.prepare(sentences), subject.inputs(range(3 * count), STEPS)
    whole, _ = subject.loop(memory, inputs, num_hypotheses=3)
    for hypothesis in range(3):
        rows = torch.arange(count) * 3 + hypothesis
        _agree(_rows(whole, rows), subject.loop(memory, inputs[rows])[0], subject, f"hypothesis {hypothesis} of three")
    _, state = subject.loop(memory, inputs[:, :2], num_hypotheses=3)
    expected, after = subject.loop(memory, inputs[:, 2:], state=state)
    orders = {"permuted": [2, 0, 1], "copied": [1, 1, 2]}
    for name, order in orders.items():
        rows = (torch.arange(count)[:, None] * 3 + torch.tensor(order)).flatten()
        output, end = subject.loop(memory, inputs[rows, 2:], state=tree.reorder(state, rows))
        _agree(output, _rows(expected, rows), subject, f"a {name} state")
        require_close_trees(end, tree.reorder(after, rows), f"the state after a {name} state", subject.tolerance)
    staying = torch.tensor([count - 1])
    rows = torch.arange(3 * count - 3, 3 * count)
    output, _ = subject.loop(tree.reorder(memory, staying), inputs[rows, 2:], state=tree.reorder(state, rows))
    _agree(output, _rows(expected, rows), subject, "a batch that sentences have left")


def searches_have_the_outputs_of_the_decoder(subject: DecoderSubject) -> None:
    """The steps of a search have the decoder's outputs, while hypotheses change places and sentences leave."""
    decoder, count = subject.decoder, len(subject.sources)
    with torch.inference_mode():
        memories = {"decoder": (decoder, subject.prepare(range(count)))}
        memories["search"] = for_search(*memories["decoder"], 3 * count)
        loops: dict[str, Any] = {"decoder": nullcontext(), "search": Loop()}
        states = {name: stepped.initial_state(memory, 3) for name, (stepped, memory) in memories.items()}
        for step in range(2 * STEPS):
            inputs = subject.inputs(range(3 * count), STEPS)[:, step % STEPS]
            outputs = {}
            for name, (stepped, memory) in memories.items():
                with loops[name]:
                    outputs[name], states[name] = stepped.step(inputs, memory, states[name], alignment=True)
            _agree(outputs["search"], outputs["decoder"], subject, f"the search's step {step}")
            # parents (count, 3) of the next hypotheses: other ones of the sentence; after three steps the first leaves
            parents = (torch.arange(3 * count).view(count, 3).roll(step, 1) * 7 % 3).add(
                3 * torch.arange(count)[:, None]
            )
            staying = torch.arange(1 if step == STEPS - 2 and count > 1 else 0, count)
            count = len(staying)
            for name, (stepped, memory) in memories.items():
                memories[name] = stepped, tree.reorder(memory, staying)
                states[name] = tree.reorder(states[name], parents[staying].flatten())


def trees_hold_rows_of_tensors(subject: DecoderSubject) -> None:
    """Leaves of a memory have B rows, those of a state R; nothing but tensors, None, tuples, dicts, dataclasses."""
    sentences = range(len(subject.sources))
    memory = subject.prepare(sentences)
    state = subject.decoder.initial_state(memory, 3)
    _, after = subject.loop(memory, subject.inputs(range(3 * len(sentences)), 1), state=state)
    for name, value, rows in (("memory", memory, 1), ("first state", state, 3), ("state after a step", after, 3)):
        require_rows(value, rows * len(sentences), name)


def alignments_change_no_other_output(subject: DecoderSubject) -> None:
    """With `alignment=True` there are alignments, including the main one; without it there are none."""
    memory, inputs = subject.batch(STEPS)
    full, bare = (subject.decoder.forward(inputs, memory, alignment=alignment) for alignment in (True, False))
    require(not bare.alignments, "there are alignments with alignment=False.")
    main = getattr(subject.decoder, "main_attention", None)
    require(not full.alignments or main is None or main in full.alignments, f"there is no main alignment {main!r}.")
    _agree(replace(full, alignments={}), bare, subject, "an output with alignments")


def calls_leave_the_module_unchanged(subject: DecoderSubject) -> None:
    """No attribute, buffer or weight differs after the calls; two threads have the same results as a single one."""
    before = snapshot(subject.decoder) if isinstance(subject.decoder, nn.Module) else None

    def run(sentence: int) -> DecoderOutput:
        with torch.no_grad():
            return subject.loop(subject.prepare([sentence]), subject.inputs([sentence], STEPS))[0]

    require_same_in_threads(run, len(subject.sources))
    if before is not None:
        require_unchanged(subject.decoder, before)


def autocast_changes_no_more_than_rounding(subject: DecoderSubject) -> None:
    """Under autocast on a CPU results and gradients are near float32; memories may be used inside and outside of it."""
    if not isinstance(subject.decoder, nn.Module):
        return
    single = replace(subject, decoder=copy.deepcopy(subject.decoder).float())
    sentences = range(len(subject.sources))
    sources = [tree.map(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, s) for s in subject.sources]
    inputs = subject.inputs(sentences, STEPS)
    inputs = inputs.float() if inputs.is_floating_point() else inputs

    def run(prepares: torch.dtype | None, steps: torch.dtype | None) -> tuple[dict[str, Tensor], ...]:
        with torch.autocast("cpu", dtype=prepares, enabled=prepares is not None):
            memory = single.prepare(sentences, sources=sources)
        with torch.autocast("cpu", dtype=steps, enabled=steps is not None):
            whole = seen(single.decoder.forward(inputs, memory)), seen(single.loop(memory, inputs)[0])
        loss = torch.stack([x.float().masked_fill(x.isinf(), 0.0).sum() for outputs in whole for x in outputs.values()])
        loss.sum().backward()
        for name, weight in single.decoder.named_parameters():
            finite = weight.grad is None or bool(weight.grad.isfinite().all())
            require(finite, f"the gradient of {name} of a memory of {prepares} in steps of {steps} is not finite.")
            weight.grad = None
        return whole

    expected = run(None, None)
    for dtype, tolerance in ((torch.bfloat16, 0.2), (torch.float16, 0.05)):
        for prepares, steps in ((dtype, dtype), (dtype, None), (None, dtype)):
            for actual, single_outputs in zip(run(prepares, steps), expected, strict=True):
                for name, tensor in actual.items():
                    what = f"{name} of a memory of {prepares} in steps of {steps}"
                    require_close(tensor.float(), single_outputs[name], what, tolerance)


def saved_weights_give_the_same(subject: DecoderSubject) -> None:
    """A decoder that loads the saved weights has the same outputs."""
    if not isinstance(subject.decoder, nn.Module):
        return
    other = reloaded(subject.decoder)
    memory, inputs = subject.batch(STEPS)
    _agree(other.forward(inputs, memory), subject.decoder.forward(inputs, memory), subject, "a loaded decoder")


def _view(subject: DecoderSubject, batch: Sequence[int], sentence: int, padding: int = 0) -> dict[str, Tensor]:
    """All results of a sentence of a batch: outputs, and gradients of its source and of the weights."""
    row = list(batch).index(sentence)
    sources = [tree.map(_leaf, subject.sources[b]) for b in batch]
    output = subject.decoder.forward(
        subject.inputs(batch, STEPS), subject.prepare(batch, padding, sources), alignment=True
    )
    results = {name: tensor[row] for name, tensor in seen(output).items()}
    loss = torch.zeros((), dtype=torch.float64)
    for name, tensor in results.items():
        if not name.startswith("alignment"):
            steps, columns = (torch.arange(size, dtype=torch.float64) for size in (len(tensor), tensor[0].numel()))
            weights = torch.cos(17 * steps[:, None] + columns).view(tensor.shape)
            loss = loss + (tensor.masked_fill(torch.isinf(tensor), 0.0) * weights).sum()
    if not loss.requires_grad:
        return results
    leaves = [leaf for leaf in tree.leaves(sources[row]) if leaf.requires_grad]
    parameters: dict[str, Any] = (
        dict(subject.decoder.named_parameters()) if isinstance(subject.decoder, nn.Module) else {}
    )
    gradients = torch.autograd.grad(loss, [*leaves, *parameters.values()], allow_unused=True)
    names = [*(f"source {index}" for index in range(len(leaves))), *parameters]
    for name, gradient in zip(names, gradients, strict=True):
        if gradient is not None:
            results[f"the gradient of {name}"] = gradient
    return results


def _leaf(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().clone()
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def _rows(output: DecoderOutput, rows: Tensor) -> DecoderOutput:
    return tree.map(lambda leaf: leaf[rows], output)


def _agree(actual: DecoderOutput, expected: DecoderOutput, subject: DecoderSubject, what: str) -> None:
    ours, theirs = seen(actual), seen(expected)
    require(ours.keys() == theirs.keys(), f"{what} gives {sorted(ours)} instead of {sorted(theirs)}.")
    for name, tensor in theirs.items():
        mine, other = ours[name], tensor
        if name.startswith("alignment"):
            mine, other = equally_wide(mine, other)
        require_close(mine, other, f"{name} of {what}", subject.tolerance)
