"""Parity of `regard.interop.ibm` with IBM's pytorch-seq2seq, in all that it returns and in gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call

from golden.archive import load
from golden.parity import TOLERANCE, compare, leaves
from regard.interop import ibm

SIZE, SYMBOLS, SOS, EOS = 6, 7, 1, 5
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


class Called(nn.Module):
    """A model and how it is called, so that its weights can be the original's as leaves."""

    def __init__(self, model, call):
        super().__init__()
        self.model = model
        self.call = call

    def forward(self, given):
        result = self.call(self.model, given)
        if len(result) == 2:
            return {"output": result[0], "alignment": result[1][:, None]}
        outputs, hidden, about = result
        states = hidden if isinstance(hidden, tuple) else (hidden,)
        return {
            "output": torch.stack(outputs, 1),
            "alignment": torch.cat(about[ibm.DecoderRNN.KEY_ATTN_SCORE], 1)[:, None],
            "symbols": torch.cat(about[ibm.DecoderRNN.KEY_SEQUENCE], 1).to(outputs[0].dtype),
            "lengths": torch.tensor(about[ibm.DecoderRNN.KEY_LENGTH], dtype=outputs[0].dtype),
        } | {f"state_{number}": state.transpose(0, 1) for number, state in enumerate(states)}


def mask_of(given):
    return torch.arange(given["memory"].shape[1]) < given["lengths"][:, None]


def decoder(cell, layers=2, bidirectional=False):
    return ibm.DecoderRNN(SYMBOLS, 8, SIZE, SOS, EOS, layers, cell, bidirectional, use_attention=True)


def model():
    encoder = ibm.EncoderRNN(SYMBOLS, 7, SIZE // 2, bidirectional=True, variable_lengths=True)
    return ibm.Seq2seq(encoder, decoder("gru", 1, bidirectional=True))


def unmasked(model, given):
    """The original's model attends to padding."""
    outputs, hidden = model.encoder(given["sources"], given["lengths"])
    return model.decoder(given["targets"], hidden, outputs, teacher_forcing_ratio=1)


def hidden_by_set_mask(attention, given):
    attention.set_mask(~mask_of(given))
    return attention(given["queries"], given["memory"])


CASES = {
    "ibm_seq2seq/attention": (lambda: ibm.Attention(SIZE), hidden_by_set_mask),
    "ibm_seq2seq/decoder_forced": (
        lambda: decoder("gru"),
        lambda model, given: model(
            given["targets"], given["hidden_0"], given["memory"], teacher_forcing_ratio=1, mask=mask_of(given)
        ),
    ),
    "ibm_seq2seq/decoder_free": (
        lambda: decoder("lstm", bidirectional=True),
        lambda model, given: model(None, (given["hidden_0"], given["hidden_1"]), given["memory"], mask=mask_of(given)),
    ),
    "ibm_seq2seq/seq2seq": (model, unmasked),
}


@PRECISIONS
@pytest.mark.parametrize("name", CASES)
def test_outputs_states_and_gradients_are_those_of_ibm(name, dtype):
    golden = load(*name.split("/"), dtype)
    make, call = CASES[name]
    module = Called(make(), call).to(dtype)
    inputs, weights = leaves(golden.inputs), leaves(golden.weights)
    assert {f"model.{name}": value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in module.named_parameters()
    }
    outputs = functional_call(module, {f"model.{name}": value for name, value in weights.items()}, (inputs,))
    found = compare(golden, outputs, inputs | weights)
    assert {"output", "alignment"} | {f"gradient of {name}" for name in weights} <= found.keys()
    assert {name: value for name, value in found.items() if not value <= TOLERANCE[dtype]} == {}


def test_a_state_of_the_originals_loads():
    model = decoder("gru")
    weights = load("ibm_seq2seq", "decoder_forced", torch.float32).weights
    model.load_state_dict(weights)
    assert torch.equal(model.attention.linear_out.weight, weights["attention.linear_out.weight"])
