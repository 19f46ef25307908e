"""Attention layers of a recurrent decoder, what the head reads and what is fed back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import linear

from regard import attention as a
from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.models import Bridge, DeepReadout, RecurrentDecoder
from regard.ops import plain
from regard.ops.over_steps import Loop
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import RecurrentConfig
from regard.testing.source import encode
from support import tiny

SIZES = {"query_size": tiny.QUERY_SIZE, "memory_size": tiny.MEMORY_SIZE}
MECHANISMS = {
    "additive": lambda: a.bahdanau(**SIZES, size=4),
    "general, 2 heads": lambda: a.luong(**SIZES, num_heads=2),
    "location": lambda: a.location_sensitive(**SIZES, size=4, num_filters=2, kernel_size=3),
}
FED = {
    "linear": {"readout": "linear"},
    "linear, wide, no bias": {"readout": "linear", "layer_size": 7, "layer_bias": False},
    "tanh, narrow, no bias": {"layer_size": 2, "layer_bias": False},
    "the context": {"readout": "context"},
    "the context, the state is read": {"readout": "state", "input_feeding": "context"},
    "the context, tanh is read": {"input_feeding": "context"},
    "the context, linear is read": {"input_feeding": "context", "readout": "linear", "layer_size": 3},
    "a linear layer, the state is read": {"readout": "state", "input_feeding": "linear", "layer_size": 3},
    "a linear layer, the context is read": {"readout": "context", "input_feeding": "linear", "layer_bias": False},
    "a layer with tanh, the state is read": {"readout": "state", "input_feeding": "tanh"},
}
"""Of decoders whose cell comes first."""
FIRST = {
    "attending first, linear": {"readout": "linear", "layer_size": 5},
    "attending first, tanh without a bias": {"layer_bias": False},
}
ZEROS = {
    "a first context of zeros": {"order": "attend_then_recur", "first_context": "zeros"},
    "a first context of zeros, the state": {
        "order": "attend_then_recur",
        "first_context": "zeros",
        "readout": "state",
    },
}


def build(name, mechanism="additive", cell="lstm", **further):
    options = dict({**FED, **FIRST, **ZEROS}[name])
    if name in FIRST:
        options["order"] = "attend_then_recur"
    decoder = tiny.recurrent(MECHANISMS[mechanism](), cell=cell, **options, **further)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return decoder


IDS = torch.tensor([[0, 2, 3, 1, 1], [3, 0, 2, 2, 1]])


@pytest.mark.parametrize("name", [*FED, *FIRST, *ZEROS])
def test_a_pass_by_kernels_is_the_plain_one_with_every_gradient(name):
    for mechanism, cell, layers in (("additive", "lstm", 2), ("general, 2 heads", "gru", 1), ("location", "lstm", 1)):
        decoder = build(name, mechanism, cell, num_layers=layers)
        encoded = encode(tiny.sources(cell=cell), padding=2)
        values = encoded.memory.clone().requires_grad_()
        wanted = {**dict(decoder.named_parameters()), "memory": values}
        results = []
        for plainly in (False, True):
            with plain() if plainly else nullcontext():
                features = decoder.run(IDS, decoder.prepare(replace(encoded, memory=values)), alignment=True)
            found = [features.output, features.cell, features.context, features.alignment]
            torch.manual_seed(5)
            probes = [torch.randn(part.shape, dtype=part.dtype) for part in found]
            results.append((found, torch.autograd.grad(found, list(wanted.values()), probes, allow_unused=True)))
        (ours, grads), (theirs, expected) = results
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=1e-13)
        for key, x, y in zip(wanted, grads, expected, strict=True):
            assert (x is None) == (y is None), key
            if y is not None:
                torch.testing.assert_close(x, y, rtol=0, atol=1e-12, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("name", ["linear, wide, no bias", "the context", "a linear layer, the state is read", *FIRST])
def test_second_derivatives_are_those_of_the_plain_pass(name):
    decoder = build(name, "general, 2 heads", "gru")
    encoded = encode(tiny.sources(), padding=1)
    found = []
    for plainly in (False, True):
        with plain() if plainly else nullcontext():
            features = decoder.run(IDS[:, :3], decoder.prepare(encoded))
            wanted = list(decoder.attention.parameters())
            total = features.output.square().sum() + features.cell.pow(3).sum()
            grads = torch.autograd.grad(total, wanted, create_graph=True)
            found.append(torch.autograd.grad(sum(grad.square().sum() for grad in grads), wanted))
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [*FED, *FIRST, *ZEROS])
@pytest.mark.parametrize("mechanism", ["additive", "general, 2 heads"])
def test_steps_without_gradients_are_plain_steps(name, mechanism):
    for cell in ("lstm", "gru"):
        decoder = build(name, mechanism, cell).eval()
        memory = decoder.prepare(encode(tiny.sources(cell=cell), padding=1))
        with torch.inference_mode():
            states, loop = [decoder.initial_state(memory, 10)] * 2, Loop()
            ids = torch.arange(20) % 4
            for step in range(3):
                with loop:
                    found, state = decoder.step(ids, memory, states[0], alignment=True)
                with plain():
                    expected, plain_state = decoder.step(ids, memory, states[1], alignment=True)
                torch.testing.assert_close(found.log_probabilities, expected.log_probabilities, rtol=0, atol=1e-12)
                torch.testing.assert_close(found.alignments, expected.alignments, rtol=0, atol=1e-12)
                states, ids = (state, plain_state), (ids * 3 + step) % 4


def test_each_word_means_its_equation():
    """õ and what is fed, by hand, for a decoder of one step after another."""
    for name, options in FED.items():
        decoder = build(name, cell="gru")
        encoded = encode(tiny.sources(), padding=0)
        memory = decoder.prepare(encoded)
        features = decoder.run(IDS, memory)
        layer = None
        if decoder.readout is not None:
            layer = linear(
                torch.cat([features.cell, features.context], -1), decoder.readout.weight, decoder.readout.bias
            )
            layer = layer if "linear" in (options.get("readout"), options.get("input_feeding")) else layer.tanh()
        read = {"state": features.cell, "context": features.context}.get(options.get("readout"), layer)
        torch.testing.assert_close(features.output, read, rtol=0, atol=1e-13)
        feeding = options.get("input_feeding", True)
        fed = {"context": features.context, True: read}.get(feeding, layer)
        fed = torch.cat([torch.zeros_like(fed[:, :1]), fed[:, :-1]], 1)
        states = [decoder.initial_state(memory).cell]
        for t in range(IDS.shape[1]):
            cell, state = decoder.stack.step(torch.cat([features.embedded[:, t], fed[:, t]], -1), states[-1])
            torch.testing.assert_close(cell, features.cell[:, t], rtol=0, atol=1e-13)
            states.append(state)


def test_a_first_context_of_zeros_is_the_cell_first_with_its_context_fed():
    """Cells are those of TensorFlow's AttentionWrapper; alignments stand one step later."""
    late = build("a first context of zeros, the state")
    early = tiny.recurrent(MECHANISMS["additive"](), cell="lstm", readout="state", input_feeding="context")
    early.load_state_dict(late.state_dict())
    encoded = encode(tiny.sources(cell="lstm"), padding=1)
    ours, theirs = (part.run(IDS, part.prepare(encoded), alignment=True) for part in (late, early))
    torch.testing.assert_close(ours.output, theirs.output, rtol=0, atol=1e-14)
    assert not ours.alignment[:, :, 0].any()
    assert not ours.context[:, 0].any()
    torch.testing.assert_close(ours.alignment[:, :, 1:], theirs.alignment[:, :, :-1], rtol=0, atol=1e-14)


def test_a_deep_readout_of_any_width_is_fed_back():
    mechanism = MECHANISMS["additive"]()
    readout = DeepReadout(4, embedding_size=3, context_size=mechanism.context_size)
    decoder = tiny.recurrent(mechanism, readout=readout)
    memory = decoder.prepare(encode(tiny.sources(), padding=0))
    assert decoder.initial_state(memory).feed.shape == (2, 3)
    state, steps = decoder.initial_state(memory), []
    for x in IDS.unbind(1):
        said, state = decoder.step(x, memory, state)
        steps.append(said.log_probabilities)
    torch.testing.assert_close(decoder(IDS, memory).log_probabilities, torch.stack(steps, 1), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readout": "cubic"}, "readout='cubic' must be 'tanh', 'linear', 'context', 'state' or a DeepReadout"),
        ({"input_feeding": "state"}, "input_feeding='state' must be True, False"),
        ({"first_context": "ones"}, "first_context='ones' must be"),
        ({"readout": "state"}, "order='attend_then_recur', or input_feeding='context'"),
        ({"readout": "state", "input_feeding": False}, "must then be an input of the cell"),
        ({"readout": "context", "order": "attend_then_recur"}, "depends only with order='recur_then_attend'"),
        ({"input_feeding": "context", "order": "attend_then_recur"}, "the cell reads the context of the same step"),
        ({"first_context": "zeros"}, "first_context='zeros' is for order='attend_then_recur'"),
        ({"readout": "tanh", "input_feeding": "linear"}, "a decoder has one"),
        ({"readout": "context", "layer_size": 3}, "this decoder has no attention layer"),
        ({"readout": "state", "input_feeding": "context", "layer_bias": False}, "this decoder has no attention layer"),
    ],
)
def test_combinations_that_mean_nothing_are_refused(options, message):
    with pytest.raises(UnsupportedError, match=message):
        tiny.recurrent(MECHANISMS["additive"](), **options)


def test_a_stack_of_another_width_is_refused():
    decoder = build("the context")
    parts = decoder.embedding, decoder.stack, decoder.head, decoder.bridge
    with pytest.raises(ShapeError, match="E=3 features of x and 5 that are fed back; the stack has 9"):
        RecurrentDecoder(*parts, attention=decoder.attention, readout="linear", layer_size=5)
    assert isinstance(decoder.bridge, Bridge)


def test_without_attention_there_is_no_layer_but_that_of_the_fixed_context():
    for options, message in (
        ({"input_feeding": "context"}, "there is no attention"),
        ({"readout": "context"}, "this decoder has no attention"),
        ({"readout": "linear"}, "this decoder has no attention"),
        ({"layer_size": 3}, "this decoder has no attention layer"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            tiny.without_attention("mean", every_step=False, **options)
    decoder = tiny.without_attention("mean", every_step=True, readout="linear", layer_size=3, layer_bias=False)
    features = decoder.run(IDS, decoder.prepare(encode(tiny.sources(), padding=0)))
    read = torch.cat([features.cell, features.context], -1)
    torch.testing.assert_close(features.output, linear(read, decoder.readout.weight), rtol=0, atol=1e-14)


def model(**decoder):
    sections = {
        "encoder": {"size": 3, "embedding_size": 2, "dropout": 0.0, "layers": 1},
        "decoder": {"size": 4, "embedding_size": 3, "dropout": 0.0, "cell": "gru_reset_before", **decoder},
        "attention": {"recipe": "bahdanau", "size": 4},
    }
    return build_model(RecurrentConfig.model_validate(sections), num_source=7, num_target=6)


@pytest.mark.parametrize(
    ("keys", "fed", "read"),
    [
        ({"readout": "linear", "input_feeding": True, "layer_size": 5, "layer_bias": False}, 5, 5),
        ({"readout": "context", "input_feeding": True}, 6, 6),
        ({"readout": "state", "input_feeding": "context"}, 6, 4),
        ({"readout": "state", "input_feeding": "linear", "layer_size": 2}, 2, 4),
        ({"readout": "deep", "input_feeding": True}, 3, 3),
        ({"readout": "deep", "input_feeding": "context"}, 6, 3),
        ({"readout": "linear"}, 0, 4),
        ({"readout": "linear", "order": "attend_then_recur", "first_context": "zeros"}, 6, 4),
    ],
)
def test_keys_of_a_configuration_are_the_options(keys, fed, read):
    decoder = model(**keys).decoder
    assert decoder.stack.layers[0].input_size == 3 + fed
    assert decoder.output_size == decoder.head.projection.in_features == read
    assert decoder.reading.begins_with_zeros == (keys.get("first_context") == "zeros")


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"readout": "state"}, "readout", "must then be an input of the cell"),
        ({"readout": "linear", "input_feeding": "tanh"}, "input_feeding", "a decoder has one"),
        ({"readout": "context", "layer_size": 3}, "layer_size", "no attention layer"),
        ({"first_context": "zeros"}, "first_context", "is for order='attend_then_recur'"),
    ],
)
def test_the_key_of_a_refused_combination_is_named(keys, key, message):
    with pytest.raises(ConfigError, match=message) as caught:
        model(**keys)
    assert caught.value.path == ("model", "decoder", key)
