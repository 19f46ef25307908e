"""Goldens of IBM's pytorch-seq2seq: its attention, and its decoder in a forced pass and in a free run.

Program: IBM/pytorch-seq2seq at commit f146087, `seq2seq/models`, on torch 2.13.0 (CPU).

    git clone https://github.com/IBM/pytorch-seq2seq && git -C pytorch-seq2seq checkout f146087
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/ibm_seq2seq/make.py pytorch-seq2seq

The context is not given out: `output` is tanh(linear_out [context; query]). `TopKDecoder` does not run on this torch:
it divides indices as floats.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, SOURCE, draw, record

SIZE, LAYERS, SYMBOLS, SOS, EOS = 6, 2, 7, 1, 5
TARGETS = torch.tensor([[SOS, 3, 4, 2, 3, EOS], [SOS, 6, 4, 3, EOS, 0], [SOS, 0, 2, EOS, 0, 0]]).numpy()
SOURCES = torch.tensor([[3, 4, 5, 6, 3, 4, 2], [5, 5, 6, 3, 2, 0, 0], [4, 6, 2, 0, 0, 0, 0]]).numpy()


def hidden_positions(memory, lengths, steps=1):
    """True where a position is padding, (B, steps, S)."""
    return (torch.arange(memory.shape[1]) >= lengths[:, None])[:, None].expand(-1, steps, -1)


def attend(attention, queries, memory, lengths):
    attention.set_mask(hidden_positions(memory, lengths, queries.shape[1]))
    output, weights = attention(queries, memory)
    return {"output": output, "alignment": weights[:, None]}


def returned(result):
    """What a decoder returns, as tensors with sentences first."""
    outputs, hidden, about = result
    states = hidden if isinstance(hidden, tuple) else (hidden,)
    weights = [step.view(len(step), -1) for step in about["attention_score"]]
    dtype = outputs[0].dtype
    return {
        "output": torch.stack(outputs, 1),
        "alignment": torch.stack(weights, 1)[:, None],
        "symbols": torch.cat(about["sequence"], 1).to(dtype),
        "lengths": torch.tensor(about["length"], dtype=dtype),
    } | {f"state_{number}": state.transpose(0, 1) for number, state in enumerate(states)}


def decoder_inputs(states, size):
    """`encoder_hidden` (L, B, D) of as many states, and `encoder_outputs`."""
    drawn = {f"hidden_{number}": draw(20 + number, LAYERS * size, BATCH, SIZE // size) for number in range(states)}
    return drawn | {"memory": draw(9, BATCH, SOURCE, SIZE), "lengths": LENGTHS}


def forced(decoder, targets, hidden_0, memory, lengths):
    decoder.attention.set_mask(hidden_positions(memory, lengths, targets.shape[1] - 1))
    return returned(decoder(targets, hidden_0, memory, teacher_forcing_ratio=1))


def free(decoder, hidden_0, hidden_1, memory, lengths):
    decoder.attention.set_mask(hidden_positions(memory, lengths))
    return returned(decoder(None, (hidden_0, hidden_1), memory))


def unmasked(model, sources, targets, lengths):
    return returned(model(sources, lengths, targets, teacher_forcing_ratio=1))


def main() -> None:
    package = types.ModuleType("seq2seq")
    package.__path__ = [str(Path(sys.argv[1], "seq2seq"))]  # without the package's own imports, which need torchtext
    sys.modules["seq2seq"] = package
    models = importlib.import_module("seq2seq.models")
    attention = importlib.import_module("seq2seq.models.attention").Attention
    inputs = {"queries": draw(8, BATCH, 5, SIZE), "memory": draw(9, BATCH, SOURCE, SIZE), "lengths": LENGTHS}
    record("ibm_seq2seq/attention", lambda: attention(SIZE), attend, inputs)

    def decoder(cell, *, bidirectional=False, layers=LAYERS):
        return models.DecoderRNN(SYMBOLS, 8, SIZE, SOS, EOS, layers, cell, bidirectional, use_attention=True)

    def model():
        encoder = models.EncoderRNN(SYMBOLS, SOURCE, SIZE // 2, bidirectional=True, variable_lengths=True)
        return models.Seq2seq(encoder, decoder("gru", bidirectional=True, layers=1))

    given = {"targets": TARGETS} | decoder_inputs(1, 1)
    record("ibm_seq2seq/decoder_forced", lambda: decoder("gru"), forced, given)
    record("ibm_seq2seq/decoder_free", lambda: decoder("lstm", bidirectional=True), free, decoder_inputs(2, 2))
    record("ibm_seq2seq/seq2seq", model, unmasked, {"sources": SOURCES, "targets": TARGETS, "lengths": LENGTHS})


if __name__ == "__main__":
    main()
