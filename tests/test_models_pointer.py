from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

import laws
from regard import losses
from regard.attention import (
    BilinearScore,
    ExponentialAlignment,
    Mechanism,
    Parallel,
    WeightedSum,
    bahdanau,
    gmm,
    location_sensitive,
    luong,
    mocha,
)
from regard.decoding import Search, search
from regard.errors import ShapeError, UnsupportedError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import (
    Bridge,
    Encoded,
    FixedContext,
    PointerDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    transformer_decoder,
)
from regard.ops import log_add, safe_log


class Unbounded(ExponentialAlignment):
    """Takes any score, so that weights may sum to more than 1."""

    def unsupported_reason(self, mechanism):
        return None


TOKENS, UNKNOWN, SIZE, MEMORY = 6, 3, 5, 8
# extended ids: two unknown words, one of them twice; one unknown word; none
SOURCES = [torch.tensor(ids) for ids in ([4, 6, 7, 4, 6, 2], [6, 5], [5, 4, 5])]
MECHANISMS = {
    "bahdanau": lambda: bahdanau(query_size=SIZE, memory_size=MEMORY, size=6),
    "two heads": lambda: luong(query_size=6, memory_size=6, score="dot", num_heads=2),
    "location": lambda: location_sensitive(query_size=SIZE, memory_size=MEMORY, size=6, num_heads=2, kernel_size=3),
    "mocha": lambda: mocha(query_size=SIZE, memory_size=MEMORY, size=6, chunk_size=2),
    "gmm": lambda: gmm(query_size=SIZE, memory_size=MEMORY, size=6),
    "more than 1": lambda: Mechanism(BilinearScore(SIZE, MEMORY), Unbounded(), WeightedSum(MEMORY)),
}

TRANSFORMERS = {"transformer": {}, "transformer, post-norm": {"norm": "post"}}
CORES = [*MECHANISMS, *TRANSFORMERS]


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make(mechanism="bahdanau", num_tokens=TOKENS, told=None, **options):
    """An encoder and a pointer; a dict of modules so that gradients of both are compared."""
    size, memory_size = (6, 6) if mechanism == "two heads" else (SIZE, MEMORY)
    encoder = RecurrentEncoder(TokenEmbedding(TOKENS, 4), RecurrentStack(4, memory_size // 2, bidirectional=True))
    if mechanism in TRANSFORMERS:
        core = transformer_core(num_tokens, **TRANSFORMERS[mechanism])
        model = torch.nn.ModuleDict({"encoder": encoder, "decoder": PointerDecoder(core, **(told or {}))})
        return made_certain(model)
    attention = MECHANISMS[mechanism]()
    width = RecurrentDecoder.input_size(4, size, attention=attention, **options)
    stack = RecurrentStack(width, size, cell="gru")
    core = RecurrentDecoder(
        TokenEmbedding(num_tokens, 4, unknown=UNKNOWN),
        stack,
        TokenHead(size, num_tokens),
        Bridge(encoder.stack, stack),
        attention=attention,
        **options,
    )
    model = torch.nn.ModuleDict({"encoder": encoder, "decoder": PointerDecoder(core, **(told or {}))})
    return made_certain(model)


def transformer_core(num_tokens, **options):
    embedding = TokenEmbedding(num_tokens, 6, unknown=UNKNOWN)
    head = TokenHead(6, num_tokens, tied=embedding)
    sizes = {"memory_size": MEMORY, "num_layers": 2, "num_heads": 2, "feed_forward_size": 5, "dropout": 0.0}
    return transformer_decoder(embedding, head, **sizes, **options)


def made_certain(model):
    """The model with larger weights, so that its outputs differ more."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
        model["decoder"].head.projection.bias[laws.EOS] = -1
    return model


def encoding(model, num_tokens=TOKENS):
    def encode(sources, extra=0):
        ids, mask = laws.padded(sources, extra, fill=99)
        encoded = model["encoder"].encode(ids.masked_fill(~mask, 5), mask)
        return extended(encoded, ids, mask, num_tokens)

    return encode


def extended(encoded, ids, mask, num_tokens=TOKENS):
    width = max(0, int(ids.masked_fill(~mask, 0).max()) - num_tokens + 1)
    extension = (ids[..., None] == num_tokens + torch.arange(width)).any(1)
    return Encoded(encoded.memory, mask, encoded.final_state, ids, extension)


@pytest.mark.parametrize("mechanism", CORES)
def test_steps_are_the_pass_over_the_whole_target(mechanism):
    model = make(mechanism)
    memory = model["decoder"].prepare(encoding(model)(SOURCES))
    laws.steps_are_forward(model["decoder"], memory, torch.randint(1, TOKENS + 2, (3, 5)))


@pytest.mark.parametrize("options", [{"order": "attend_then_recur"}, {"input_feeding": False}])
def test_the_core_keeps_its_options(options):
    model = make(**options)
    memory = model["decoder"].prepare(encoding(model)(SOURCES))
    laws.steps_are_forward(model["decoder"], memory, torch.randint(1, TOKENS + 2, (3, 5)))
    assert model["decoder"](torch.zeros(3, 0, dtype=torch.long), memory).log_probabilities.shape == (3, 0, TOKENS + 2)


@pytest.mark.parametrize("mechanism", CORES)
def test_sentences_with_other_extended_vocabularies_do_not_meet(mechanism):
    model = make(mechanism)
    laws.batches_are_invisible(model, encoding(model), model["decoder"], SOURCES)


@pytest.mark.parametrize("mechanism", CORES)
def test_a_beam_over_several_sentences_is_each_alone_and_agrees_with_the_forced_pass(mechanism):
    model = make(mechanism)
    laws.beams_are_alone_and_forced(encoding(model), model["decoder"], SOURCES)


def test_a_beam_copies_only_what_its_own_source_has():
    model = make()
    with torch.no_grad():
        model["decoder"].gate.bias.fill_(-4.0)
    memory = model["decoder"].prepare(encoding(model)(SOURCES))
    found = search(model["decoder"], memory, Search(beam=6, num_best=6), bos=1, eos=2, max_length=6)
    said = [{token for h in ranked for token in h.tokens.tolist() if token >= TOKENS} for ranked in found]
    assert said == [{6, 7}, {6}, set()]


def test_a_beam_wide_enough_is_exhaustive_search():
    model = make(num_tokens=4)
    ids = torch.tensor([[3, 4, 4]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    encoded = extended(model["encoder"].encode(ids, mask), ids, mask, num_tokens=4)
    laws.a_wide_beam_is_exhaustive(model["decoder"], model["decoder"].prepare(encoded), 5, 3)


@pytest.mark.parametrize("mechanism", ["bahdanau", "two heads", "mocha", "gmm", "more than 1", "transformer"])
def test_probabilities_are_mixed_as_published(mechanism):
    model = make(mechanism)
    decoder, core = model["decoder"], model["decoder"].core
    encoded = encoding(model)(SOURCES)
    memory = decoder.prepare(encoded)
    inputs = torch.randint(1, TOKENS + 2, (3, 5))
    output = decoder(inputs, memory, alignment=True)
    features = core(inputs, memory.core).values
    vocabulary = decoder.head(features).exp()
    embedded = decoder.embedding(inputs)
    for b, source in enumerate(SOURCES):
        for t in range(5):
            heads = output.alignments[decoder.main_attention][b, :, t, : len(source)].tolist()
            weights = [sum(column) / len(heads) for column in zip(*heads, strict=True)]
            total = sum(weights)
            read = [weight / max(1.0, total) for weight in weights]
            values = encoded.memory[b, : len(source)].T.tolist()
            context = [sum(w * h for w, h in zip(read, column, strict=True)) for column in values]
            inside = [*context, *features[b, t].tolist(), *embedded[b, t].tolist()]
            energy = sum(w * x for w, x in zip(decoder.gate.weight[0].tolist(), inside, strict=True))
            generate = 1 / (1 + math.exp(-energy - decoder.gate.bias.item()))
            assert output.auxiliary["generate"][b, t].item() == pytest.approx(generate, abs=1e-12)
            expected = [generate * p for p in vocabulary[b, t].tolist()] + [0.0, 0.0]
            for token, weight in zip(source.tolist(), weights, strict=True):
                expected[token] += (1 - generate) * weight / max(1.0, total)
            if total < 1:
                for token, p in enumerate(vocabulary[b, t].tolist()):
                    expected[token] += (1 - generate) * (1 - total) * p
            assert output.log_probabilities[b, t].exp().tolist() == pytest.approx(expected, abs=1e-12)
            assert sum(expected) == pytest.approx(1, abs=1e-12)


def test_extended_ids_that_a_source_lacks_are_impossible_and_padding_has_no_mass():
    model = make()
    memory = model["decoder"].prepare(encoding(model)(SOURCES, extra=3))
    output = model["decoder"](torch.randint(1, TOKENS, (3, 5)), memory, alignment=True)
    possible = (output.log_probabilities[..., TOKENS:] > -math.inf).all(1)
    assert possible.tolist() == [[True, True], [True, False], [False, False]]
    _, mask = laws.padded(SOURCES, extra=3)
    assert not output.alignments["attention"].masked_select(~mask[:, None, None]).any()


def test_an_extended_id_is_embedded_as_unknown():
    model = make()
    memory = model["decoder"].prepare(encoding(model)(SOURCES))
    said = [model["decoder"](torch.tensor([[1, token]] * 3), memory).log_probabilities for token in (7, UNKNOWN, 4)]
    laws.close(said[0], said[1])
    assert not torch.allclose(said[0][:, 1, :TOKENS], said[2][:, 1, :TOKENS])


@pytest.mark.parametrize("bias", [-1e4, -40.0, 40.0, 1e4])
def test_a_gate_that_is_shut_gives_numbers_and_finite_gradients(bias):
    model = make()
    decoder = model["decoder"]
    with torch.no_grad():
        decoder.gate.weight.zero_()
        decoder.gate.bias.fill_(bias)
    memory = decoder.prepare(encoding(model)(SOURCES))
    inputs, targets = torch.tensor([[1, 6], [1, 6], [1, 4]]), torch.tensor([[6, 4], [6, 5], [4, 2]])
    output = decoder(inputs, memory, alignment=True)
    assert not output.log_probabilities.isnan().any()
    words = decoder.head(decoder.core(inputs, memory.core).values)
    if bias > 0:
        laws.close(output.log_probabilities[..., :TOKENS], words)
    else:
        copied = output.alignments["attention"][0, 0, :, [1, 4]].sum(-1).log()
        laws.close(output.log_probabilities[0, :, 6], copied)
        laws.close(output.log_probabilities[0, :, 1], bias + words[0, :, 1])
    losses.cross_entropy(output.log_probabilities, targets, smoothing=0.1)[0].backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_weights_that_vanish_give_no_gradient_of_nan():
    model = make().to(torch.float32)
    decoder = model["decoder"]
    with torch.no_grad():
        decoder.core.attention.score.v.mul_(2000)
    memory = decoder.prepare(encoding(model)(SOURCES))
    output = decoder(torch.tensor([[1, 6]] * 3), memory, alignment=True)
    assert (output.alignments["attention"][0] == 0).any()
    finite = output.log_probabilities > -math.inf
    torch.where(finite, output.log_probabilities, 0).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("mechanism", CORES)
def test_with_nothing_to_copy_everything_is_generated(mechanism):
    model = make(mechanism)
    memory = model["decoder"].prepare(encoding(model)([SOURCES[0], SOURCES[1][:0]]))
    inputs = torch.randint(1, TOKENS, (2, 3))
    said = model["decoder"](inputs, memory).log_probabilities[1]
    decoder = model["decoder"]
    laws.close(said[:, :TOKENS], decoder.head(decoder.core(inputs, memory.core).values)[1])
    assert (said[:, TOKENS:] == -math.inf).all()
    said[:, :TOKENS].square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_weight_on_symbols_that_cannot_be_copied_generates():
    model = make()
    decoder, encoded = model["decoder"], encoding(model)(SOURCES)
    inputs = torch.randint(1, TOKENS + 2, (3, 5))
    everything = decoder(inputs, decoder.prepare(encoded), alignment=True)
    ids = encoded.source_ids.clone()
    ids[0, [1, 4]] = -1  # of the symbols 4 6 7 4 6 2 the two that are 6
    memory = decoder.prepare(Encoded(encoded.memory, encoded.mask, encoded.final_state, ids, encoded.extension))
    found = decoder(inputs, memory)
    kept = everything.auxiliary["generate"]
    laws.close(found.auxiliary["generate"], kept)
    lost = everything.alignments["attention"][0, 0, :, [1, 4]].sum(-1)
    words = decoder.head(decoder.core(inputs, memory.core).values)[0].exp()
    expected = everything.log_probabilities[0].exp()
    expected[:, 6] = 0
    expected[:, :TOKENS] += ((1 - kept[0]) * lost)[:, None] * words
    laws.close(found.log_probabilities[0].exp(), expected)
    laws.close(found.log_probabilities[1:], everything.log_probabilities[1:])
    laws.steps_are_forward(decoder, memory, inputs)


def test_a_symbol_of_id_0_and_positions_that_copy_nothing_do_not_meet():
    model = make()
    decoder, encoded = model["decoder"], encoding(model)(SOURCES, extra=1)
    ids = encoded.source_ids.clone()
    ids[0, 0], ids[0, 2] = -1, 0
    memory = decoder.prepare(Encoded(encoded.memory, encoded.mask, encoded.final_state, ids, encoded.extension))
    inputs = torch.randint(1, TOKENS + 2, (3, 4))
    said = decoder(inputs, memory).log_probabilities
    laws.close(said.exp().sum(-1), torch.ones(3, 4))
    targets = torch.zeros(3, 4, dtype=torch.long)
    expected = losses.cross_entropy(said, targets, smoothing=0.1)
    for ours, theirs in zip(decoder.cross_entropy(inputs, memory, targets, smoothing=0.1), expected, strict=True):
        laws.close(ours, theirs)


@pytest.mark.parametrize(
    ("mechanism", "name", "told"),
    [
        ("two heads", "attention", {"alignment_head": 1}),
        ("transformer", "cross.0", {"alignment_head": 1, "alignment": "cross.0"}),
    ],
)
def test_the_chosen_head_of_the_chosen_layer_copies(mechanism, name, told):
    model = make(mechanism, told=told)
    decoder, encoded = model["decoder"], encoding(model)(SOURCES)
    assert decoder.main_attention == name
    inputs = torch.randint(1, TOKENS + 2, (3, 4))
    memory = decoder.prepare(encoded)
    output = decoder(inputs, memory, alignment=True)
    laws.steps_are_forward(decoder, memory, inputs)
    weights = output.alignments[name][0, 1]
    copied = (1 - output.auxiliary["generate"][0]) * weights[:, [1, 4]].sum(-1)  # an extended id is only copied
    laws.close(output.log_probabilities[0, :, 6].exp(), copied)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("mechanism", CORES)
def test_the_loss_is_that_of_the_outputs(mechanism, smoothing):
    model = make(mechanism)
    decoder = model["decoder"]
    decoder.head = TokenHead(decoder.head.projection.in_features, TOKENS, never=(0, 1))
    sources = [*SOURCES, torch.tensor([-1, 6, -1, 4])]
    inputs = torch.randint(1, TOKENS + 1, (4, 5))
    targets = torch.tensor([[7, 4, 6, 5, 2], [6, 6, 5, 2, 99], [5, 3, 4, 2, 2], [4, 6, 3, 2, 99]])
    mask = targets < 99

    def gradients(loss):
        model.zero_grad()
        loss.backward()
        return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]

    def encoded():
        ids, real = laws.padded(sources, 2, fill=99)
        return extended(model["encoder"].encode(ids.clamp(0, 5), real), ids, real)

    memory = decoder.prepare(encoded())
    outputs = decoder(inputs, memory).log_probabilities
    expected = losses.cross_entropy(outputs, targets, mask, smoothing=smoothing)
    expected_gradients = gradients(expected[0])
    found = decoder.cross_entropy(inputs, decoder.prepare(encoded()), targets, mask, smoothing=smoothing)
    for ours, theirs in zip((*found, *gradients(found[0])), (*expected, *expected_gradients), strict=True):
        laws.close(ours, theirs)


def test_the_loss_of_impossible_targets_is_infinite_and_of_others_finite():
    model = make()
    decoder = model["decoder"]
    memory = decoder.prepare(encoding(model)(SOURCES))
    inputs = torch.ones(3, 1, dtype=torch.long)
    targets = torch.tensor([[7], [7], [7]])  # only the first source has it
    assert decoder.cross_entropy(inputs, memory, targets)[1].isinf()
    mask = torch.tensor([[True], [False], [False]])
    loss, _ = decoder.cross_entropy(inputs, memory, targets, mask, smoothing=0.1)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_least_weight_makes_what_attention_leaves_out_possible_and_nothing_else(monkeypatch, smoothing):
    local = partial(luong, query_size=SIZE, memory_size=MEMORY, local="monotonic", reach=1)
    monkeypatch.setitem(MECHANISMS, "local", local)
    model = make("local")
    decoder, inputs = model["decoder"], torch.ones(3, 1, dtype=torch.long)
    memory = decoder.prepare(encoding(model)(SOURCES))
    before = decoder(inputs, memory).log_probabilities
    assert (before[0, 0, TOKENS:] == -math.inf).any()
    decoder.least_weight = 1e-12
    after = decoder(inputs, memory).log_probabilities
    present = memory.extension[:, None]
    assert ((after[..., TOKENS:] > -math.inf) == present).all()
    laws.close(after.exp(), before.exp())
    targets = TOKENS + present[:, 0].int().argmax(-1, keepdim=True)
    mask = present.any(-1)
    loss, likelihood = decoder.cross_entropy(inputs, memory, targets, mask, smoothing=smoothing)
    loss.backward()
    assert likelihood.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_a_subclass_has_the_loss_of_its_own_outputs():
    class Certain(PointerDecoder):
        def forward(self, *arguments, **options):
            output = super().forward(*arguments, **options)
            return replace(output, log_probabilities=output.log_probabilities * 2)

    model = make()
    decoder, encoded = model["decoder"], encoding(model)(SOURCES)
    memory, inputs, targets = decoder.prepare(encoded), torch.ones(3, 2).long(), torch.full((3, 2), 4)
    once = decoder.cross_entropy(inputs, memory, targets)[0]
    decoder.__class__ = Certain
    laws.close(decoder.cross_entropy(inputs, memory, targets)[0], 2 * once)


def test_impossible_symbols_give_no_gradient_whatever_theirs_is():
    model = make()
    memory = model["decoder"].prepare(encoding(model)(SOURCES))
    said = model["decoder"](torch.ones(3, 2).long(), memory).log_probabilities
    assert (said == -math.inf).any()
    said.backward(torch.where(said == -math.inf, math.nan, 1.0))
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_the_mixture_has_tangents_and_gradients_of_each_sentence():
    model = make()
    decoder, encoded = model["decoder"], encoding(model)(SOURCES)
    weight = decoder.gate.weight.detach().clone()
    inputs = torch.tensor([[1, 6], [1, 4], [1, 5]])

    def function(weight):
        call = {"gate.weight": weight}
        return torch.func.functional_call(decoder, call, (inputs, decoder.prepare(encoded))).log_probabilities.exp()

    direction = torch.randn_like(weight)
    _, tangent = torch.func.jvp(function, (weight,), (direction,))
    step = 1e-6
    difference = (function(weight + step * direction) - function(weight - step * direction)) / (2 * step)
    torch.testing.assert_close(tangent, difference, rtol=0, atol=1e-8)


def test_gradients_are_those_of_finite_differences():
    model = make()
    decoder, encoded = model["decoder"], encoding(model)(SOURCES)
    inputs = torch.tensor([[1, 6], [1, 4], [1, 5]])
    state = encoded.final_state

    def function(values, weight):
        told = Encoded(values, encoded.mask, state, encoded.source_ids, encoded.extension)
        call = {"gate.weight": weight}
        said = torch.func.functional_call(decoder, call, (inputs, decoder.prepare(told))).log_probabilities
        return said[said > -math.inf]

    values = encoded.memory.detach().requires_grad_()
    assert torch.autograd.gradcheck(
        function, (values, decoder.gate.weight.detach().clone().requires_grad_()), fast_mode=True
    )


def test_without_extended_ids_a_pointer_has_the_width_of_its_vocabulary():
    model = make()
    ids, mask = laws.padded([SOURCES[2]])
    encoded = model["encoder"].encode(ids, mask)
    memory = model["decoder"].prepare(Encoded(encoded.memory, mask, encoded.final_state, ids))
    assert model["decoder"](torch.tensor([[1, 4]]), memory).log_probabilities.shape == (1, 2, TOKENS)


def test_what_does_not_fit_is_refused():
    model = make()
    decoder, encoded = model["decoder"], encoding(model)(SOURCES)
    rest = (encoded.memory, encoded.mask, encoded.final_state)
    with pytest.raises(UnsupportedError, match="source_ids"):
        decoder.prepare(Encoded(*rest))
    with pytest.raises(ShapeError, match=r"source_ids must be \(B, S\)"):
        decoder.prepare(Encoded(*rest, encoded.source_ids[:, 1:], encoded.extension))
    with pytest.raises(ShapeError, match="N=6 and X=1, or be -1 where nothing can be copied; got 0 to 7"):
        decoder.prepare(Encoded(*rest, encoded.source_ids, encoded.extension[:, :1]))
    core = decoder.core
    parts = (core.embedding, core.stack, decoder.head, core.bridge)
    for options in ({"context": FixedContext("mean", MEMORY)}, {"attention": Parallel([core.attention])}):
        with pytest.raises(UnsupportedError, match="attention over one source"):
            PointerDecoder(RecurrentDecoder(*parts, **options))
    plain = transformer_core(TOKENS)
    with pytest.raises(UnsupportedError, match=r"'cross.2' is not one of its alignments: cross.0, cross.1\."):
        PointerDecoder(plain, alignment="cross.2")
    for head in (2, -1):
        with pytest.raises(UnsupportedError, match=f"there is no head {head}: the attention has 2 heads"):
            PointerDecoder(plain, alignment_head=head)


def test_a_pointer_leaves_the_given_decoder_as_it_was():
    plain = transformer_core(TOKENS)
    inputs, encoded = torch.randint(1, TOKENS, (2, 3)), Encoded(torch.randn(2, 4, MEMORY))
    before = plain(inputs, plain.prepare(encoded)).log_probabilities
    pointer = PointerDecoder(plain)
    laws.close(plain(inputs, plain.prepare(encoded)).log_probabilities, before)
    assert isinstance(plain.head, TokenHead)
    names = [name for name, _ in pointer.named_parameters()]
    assert len(names) == len({id(p) for p in pointer.parameters()}) == len(list(plain.parameters())) + 2


def test_only_the_alignment_that_copies_is_computed_unless_all_are_asked_for(monkeypatch):
    model = make("transformer")
    decoder, asked = model["decoder"], []
    memory = decoder.prepare(encoding(model)(SOURCES))
    for layer in decoder.core.layers:
        plain = layer.cross_attention.forward
        monkeypatch.setattr(
            layer.cross_attention,
            "forward",
            lambda *told, plain=plain, **options: asked.append(options["alignment"]) or plain(*told, **options),
        )
    decoder(torch.ones(3, 2).long(), memory)
    decoder(torch.ones(3, 2).long(), memory, alignment=True)
    assert asked == [False, True, True, True]


def test_safe_logarithms_have_no_gradient_where_they_are_infinite():
    p = torch.tensor([0.0, 1e-310, 0.25], requires_grad=True)
    assert safe_log(p).tolist() == [-math.inf, -math.inf, math.log(0.25)]
    assert torch.autograd.grad(safe_log(p)[2] + safe_log(p)[0], p)[0].tolist() == [0, 0, 4]
    a = torch.tensor([-math.inf, -math.inf, 0.0, -3.0], requires_grad=True)
    b = torch.tensor([-math.inf, -1.0, -math.inf, -2.0], requires_grad=True)
    total = log_add(a, b)
    laws.close(total.exp(), a.exp() + b.exp())
    gradients = torch.autograd.grad(total, (a, b), torch.ones(4))
    laws.close(gradients[0], torch.tensor([0.0, 0.0, 1.0, 1 / (1 + math.exp(1))]))
    laws.close(gradients[1], torch.tensor([0.0, 1.0, 0.0, 1 / (1 + math.exp(-1))]))
