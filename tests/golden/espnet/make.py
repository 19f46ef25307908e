"""Goldens of ESPnet's RNN attentions.

Program: espnet 202511, `espnet.nets.pytorch_backend.rnn.attentions` and `e2e_tts_tacotron2.GuidedAttentionLoss`,
on torch 2.13.0 (CPU).

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps espnet==202511
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/espnet/make.py

Each attention is called step by step with what it returned before, as its decoder does. AttLoc is recorded with the
previous alignment (speech recognition) and with the sum of alignments as Tacotron2's decoder forms it: nothing at
first, then the first alignment, then sums; the uniform start is never part of a sum. Forward attention gives padding
1e-6 of weight and so of gradient; `…_padded` has zeros in the padding of its memory, and no gradients.
"""

from __future__ import annotations

import ast
import logging
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from espnet.nets.pytorch_backend.nets_utils import make_non_pad_mask
from espnet.nets.pytorch_backend.rnn import attentions
from record import BATCH, LENGTHS, MEMORY, QUERY, SOURCE, STEPS, decoder_inputs, draw, record

SIZE, CHANNELS, FILTERS, OUTPUT = 4, 3, 1, 2


def steps(attention, queries, memory, lengths, *, cumulate=False, first=None, extra=None, **options):
    """Contexts and what the attention returned, step by step."""
    attention.reset()
    lengths = lengths.tolist()
    seen, contexts, returned = first, [], []
    for i, query in enumerate(queries.unbind(1)):
        given = () if extra is None else (extra[:, i],)
        context, weights = attention(memory, lengths, query, seen, *given, **options)
        contexts.append(context)
        returned.append(list(weights) if isinstance(weights, list) else weights)
        seen = weights if not cumulate or seen is None else seen + weights
    return torch.stack(contexts, 1), returned


def single(**options):
    def run(attention, queries, memory, lengths, **more):
        contexts, weights = steps(attention, queries, memory, lengths, **options, **more)
        return {"context": contexts, "alignment": torch.stack(weights, 1)[:, None]}

    return run


def heads(attention, queries, memory, lengths):
    contexts, weights = steps(attention, queries, memory, lengths)
    return {"context": contexts, "alignment": torch.stack([torch.stack(w, 1) for w in weights], 2)}


def newest(attention, queries, memory, lengths):
    """Attentions that return all alignments so far, the uniform start first."""
    contexts, weights = steps(attention, queries, memory, lengths)
    return {"context": contexts, "alignment": torch.stack([w[-1] for w in weights], 1)[:, None]}


def last_row(attention, queries, memory, lengths):
    contexts, weights = steps(attention, queries, memory, lengths)
    return {"context": contexts, "alignment": torch.stack([w[:, -1] for w in weights], 1)[:, None]}


def with_states(attention, queries, memory, lengths):
    contexts, weights = steps(attention, queries, memory, lengths)
    hidden = torch.stack([state[0] for _, state in weights], 1)
    return {"context": contexts, "alignment": torch.stack([w for w, _ in weights], 1)[:, None], "state": hidden}


def transition(attention, queries, memory, lengths, previous_outputs):
    """Forward attention with a transition agent, and the probability to stay after every step."""
    attention.reset()
    seen, contexts, weights, stays = None, [], [], []
    for query, output in zip(queries.unbind(1), previous_outputs.unbind(1), strict=True):
        context, seen = attention(memory, lengths.tolist(), query, seen, output)
        contexts.append(context)
        weights.append(seen)
        stays.append(attention.trans_agent_prob)
    return {
        "context": torch.stack(contexts, 1),
        "alignment": torch.stack(weights, 1)[:, None],
        "stay": torch.stack(stays, 1),
    }


def constrained(attention, queries, memory, lengths):
    """The constraint of Deep Voice 3 as ESPnet's inference applies it, one sentence at a time."""
    contexts, weights = [], []
    for sentence in range(BATCH):
        attention.reset()
        seen, last, own = None, 0, memory[sentence : sentence + 1, : lengths[sentence]]
        alone, looks = [], []
        for query in queries[sentence : sentence + 1].unbind(1):
            context, look = attention(
                own, [own.shape[1]], query, seen, last_attended_idx=last, backward_window=1, forward_window=3
            )
            seen, last = look, int(look.argmax())
            alone.append(context)
            looks.append(torch.nn.functional.pad(look, (0, memory.shape[1] - own.shape[1])))
        contexts.append(torch.stack(alone, 1))
        weights.append(torch.stack(looks, 1))
    return {"context": torch.cat(contexts), "alignment": torch.cat(weights)[:, None]}


def guided_attention_loss():
    """The class alone: its module imports all of Tacotron 2 and its training framework."""
    source = Path(find_spec("espnet").submodule_search_locations[0], "nets/pytorch_backend/e2e_tts_tacotron2.py")
    kinds = [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef)]
    (kind,) = [node for node in kinds if node.name == "GuidedAttentionLoss"]
    names = {"torch": torch, "make_non_pad_mask": make_non_pad_mask}
    exec(compile(ast.Module([kind], []), str(source), "exec"), names)
    return names["GuidedAttentionLoss"]


def guided(loss, alignment, source_lengths, target_lengths):
    return {"loss": loss(alignment, source_lengths, target_lengths)}


def main() -> None:
    logging.disable()
    sizes = (MEMORY, QUERY, SIZE)
    located = (*sizes, CHANNELS, FILTERS)
    many = (MEMORY, QUERY, 2, SIZE, 3)
    inputs = decoder_inputs()
    with_outputs = inputs | {"previous_outputs": draw(3, BATCH, STEPS, OUTPUT)}
    record("espnet/att_dot", lambda: attentions.AttDot(*sizes), single(), inputs)
    record("espnet/att_add", lambda: attentions.AttAdd(*sizes), single(), inputs)
    record("espnet/att_loc", lambda: attentions.AttLoc(*located), single(), inputs)
    record("espnet/att_loc_cumulative", lambda: attentions.AttLoc(*located), single(cumulate=True), inputs)
    record("espnet/att_loc_constrained", lambda: attentions.AttLoc(*located), constrained, inputs)
    record("espnet/att_loc2d", lambda: attentions.AttLoc2D(*sizes, 3, CHANNELS, FILTERS), last_row, inputs)
    record("espnet/att_loc_rec", lambda: attentions.AttLocRec(*located), with_states, inputs)
    record("espnet/att_cov", lambda: attentions.AttCov(*sizes), newest, inputs)
    record("espnet/att_cov_loc", lambda: attentions.AttCovLoc(*located), newest, inputs)
    record("espnet/att_multi_head_dot", lambda: attentions.AttMultiHeadDot(*many), heads, inputs)
    record("espnet/att_multi_head_add", lambda: attentions.AttMultiHeadAdd(*many), heads, inputs)
    record("espnet/att_multi_head_loc", lambda: attentions.AttMultiHeadLoc(*many, CHANNELS, FILTERS), heads, inputs)
    record(
        "espnet/att_multi_head_multi_res_loc",
        lambda: attentions.AttMultiHeadMultiResLoc(*many, CHANNELS, 2),
        heads,
        inputs,
    )
    hidden = np.arange(SOURCE) >= LENGTHS[:, None]
    memory = np.where(hidden[..., None], np.float32(0), inputs["memory"])
    for name, build, run, given in (
        ("att_forward", lambda: attentions.AttForward(*located), single(), inputs),
        ("att_forward_ta", lambda: attentions.AttForwardTA(*located, OUTPUT), transition, with_outputs),
    ):
        record(f"espnet/{name}", build, run, given | {"lengths": np.full(BATCH, SOURCE)})
        record(f"espnet/{name}_padded", build, run, given | {"memory": memory}, differentiable=False)
    weights = np.abs(draw(4, BATCH, STEPS, 7))
    record(
        "espnet/guided_attention_loss",
        lambda: guided_attention_loss()(sigma=0.4, alpha=2.0, reset_always=True),
        guided,
        {
            "alignment": weights / weights.sum(-1, keepdims=True),
            "source_lengths": np.array([7, 5, 3]),
            "target_lengths": np.array([5, 4, 3]),
        },
    )


if __name__ == "__main__":
    main()
