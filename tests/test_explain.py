"""What `explain` says is what runs: for one row, few and many, in training and in searches."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module

import pytest
import torch

from regard import attention as a
from regard import ops
from regard.decoding import Search, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.layers.cells import autograd as recurrence
from regard.layers.twin import PackedHead, PackedLinear, PackedStack
from regard.models import (
    Bridge,
    EncoderDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    fused,
    transformer_decoder,
)
from regard.models.fused.transformer_search import SearchTwin as CachedTwin
from regard.models.recurrent_decoder import RecurrentDecoder as Recurrent
from regard.ops.choose import choose, step_implementations, steps_for
from regard.ops.eligibility import StandIn, only_loaded_kernels, refuse_numba, stand_in

pytestmark = pytest.mark.skipif(
    refuse_numba("regard.ops.attend.numba") is not None, reason="without compiled loops there is one path"
)
E, D, N = 4, 6, 9
PATHS = {
    "through compiled loops": (recurrence, "run"),
    "torch's own loop": (RecurrentStack, "_call"),
    "all layers are one call": (CachedTwin, "step"),
    "fused node": (fused, "run"),
    "run at once": (Recurrent, "_at_once"),
    "steps one by one": (Recurrent, "_advance"),
}
PACKED = ((PackedHead, "forward"), (PackedLinear, "forward"), (PackedStack, "step"))


@pytest.fixture
def ran(monkeypatch):
    """The paths that were taken since it was cleared."""
    found: set[str] = set()

    def watch(owner, name, path):
        original = getattr(owner, name)

        def call(*given, **options):
            found.add(path)
            return original(*given, **options)

        monkeypatch.setattr(owner, name, call)

    for path, (owner, name) in PATHS.items():
        watch(owner, name, path)
    for owner, name in PACKED:
        watch(owner, name, "packed")
    return found


def recurrent(cell, **options):
    torch.manual_seed(0)
    mechanism = a.bahdanau(query_size=D, memory_size=D, size=D)
    stack = RecurrentStack(RecurrentDecoder.input_size(E, D, attention=mechanism, **options), D, cell=cell)
    encoder = RecurrentEncoder(TokenEmbedding(N, E), RecurrentStack(E, D // 2, cell=cell, bidirectional=True))
    bridge = Bridge(encoder.stack, stack, "dense")
    decoder = RecurrentDecoder(TokenEmbedding(N, E), stack, TokenHead(D, N), bridge, attention=mechanism, **options)
    return EncoderDecoder(encoder, decoder)


def transformer():
    model = recurrent("gru")
    decoder = transformer_decoder(
        TokenEmbedding(N, D), TokenHead(D, N), memory_size=D, num_layers=1, num_heads=2, feed_forward_size=8
    )
    return EncoderDecoder(model.encoder, decoder)


def hooked():
    model = recurrent("gru")
    model.decoder.readout.register_forward_hook(lambda *_: None)
    return model


MODELS = {
    "attention after the cell": lambda: recurrent("gru", input_feeding=False),
    "input feeding": lambda: recurrent("lstm"),
    "attention before the cell": lambda: recurrent("gru", order="attend_then_recur"),
    "cells that no kernel knows": lambda: recurrent("rnn"),
    "a hook": hooked,
    "transformer": transformer,
}


def said(text):
    return {path for path in PATHS if path in text} | ({"packed"} if "weights packed once" in text else set())


@pytest.mark.parametrize("may_load", [True, False])
@pytest.mark.parametrize(("sentences", "beam"), [(1, 1), (1, 5), (8, 1), (64, 4)])
@pytest.mark.parametrize("name", MODELS)
def test_searches_take_the_paths_that_explain_tells(name, sentences, beam, may_load, ran):
    model = MODELS[name]().eval()
    with nullcontext() if may_load else only_loaded_kernels(()):
        encoder = model.encoder.paths(rows=sentences)["search"]
        decoder = model.decoder.paths(rows=sentences * beam)["search"]
        for padded in (False, True)[: 1 + (sentences > 1)]:
            ran.clear()
            mask = torch.ones(sentences, 5, dtype=torch.bool)
            mask[1:, 3:] = not padded
            with torch.inference_mode():
                memory = model.prepare(torch.randint(1, N, (sentences, 5)), mask)
            expected = said(encoder)
            if len(expected) > 1:  # one for each
                expected = {"through compiled loops" if padded else "torch's own loop"}
            assert ran == expected, encoder
        ran.clear()
        search(model.decoder, memory, Search(beam=beam), bos=1, eos=2, max_length=4)
        if "all layers are one call" in ran:  # whose output layer is packed, too
            ran.discard("packed")
        assert ran - {"steps one by one"} == said(decoder), decoder


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("name", MODELS)
def test_training_takes_the_paths_that_explain_tells(name, rows, autocast, ran):
    model = MODELS[name]().train()
    ids, mask = torch.randint(1, N, (rows, 5)), torch.ones(rows, 5, dtype=torch.bool)
    mask[1:, 3:] = False
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        encoder, decoder = (part.paths(rows=rows)["training"] for part in (model.encoder, model.decoder))
        memory = model.prepare(ids, mask)
        expected = said(encoder)
        if len(expected) > 1:
            expected = {"through compiled loops" if rows > 1 else "torch's own loop"}
        assert ran == expected, encoder
        ran.clear()
        model.decoder.cross_entropy(ids, memory, ids)[0].backward()
    if name == "transformer":
        assert not ran
        assert "run at once" in decoder
    else:
        assert ran & {"fused node", "run at once", "steps one by one"} == said(decoder) - {"torch's own loop"}, decoder


def test_a_gpu_is_spoken_of_where_there_is_none():
    """By the tables and refusals that decide, about inputs that are not there."""
    feeding, plain = MODELS["input feeding"](), MODELS["attention after the cell"]()
    paths = feeding.decoder.paths(rows=40, device="cuda")
    assert "one fused node of the graph, launched as one graph when a shape comes again" in paths["training"]
    assert "launched" not in feeding.decoder.paths(device="cpu")["training"]
    assert paths["search"].startswith("searches call the decoder's `step`: ")
    assert "for the CPU only" in paths["search"]
    assert "run at once" in plain.decoder.paths(device="cuda")["training"]
    assert "torch's own loop" in plain.encoder.paths(device="cuda")["search"]
    assert next(feeding.parameters()).device.type == "cpu"
    square = StandIn(torch.device("cuda"), (64, 64))
    assert "triton: taken" in ops.explain("additive_energies", square, square, square)
    assert "numba: refused: the inputs are on cuda and the kernels for the CPU" in ops.explain("largest", square, 3)
    assert "selection: taken" in ops.explain("largest", square, 3)


@pytest.mark.parametrize("operation", ["attend", "cells", "softmax"])
def test_steps_are_read_from_the_table_that_is_explained(operation):
    for device in ("cpu", "cuda"):
        taken = choose(step_implementations(operation), stand_in(device)).name
        assert steps_for(operation, device).__name__ == f"regard.ops.{operation}.{taken}"
    if operation in ops.STEPS:
        assert "reference: taken" in ops.explain(operation, stand_in("cuda"))


@pytest.mark.parametrize(
    ("context", "expected"),
    [(nullcontext, "numba"), (lambda: only_loaded_kernels(()), "chunked"), (ops.plain, "reference")],
)
def test_dispatch_takes_what_explain_shows(context, expected, monkeypatch):
    inputs, seen = (torch.randn(1, 2, 3), torch.randn(1, 4, 3), torch.randn(3)), []
    for name in ("numba", "chunked"):
        module = import_module(f"regard.ops.additive.{name}")

        def watch(*given, name=name, original=module.energies):
            seen.append(name)
            return original(*given)

        monkeypatch.setattr(module, "energies", watch)
    with context():
        assert f"{expected}: taken" in ops.explain("additive_energies", *inputs)
        ops.additive_energies(*inputs)
    assert (seen or ["reference"]) == [expected]
