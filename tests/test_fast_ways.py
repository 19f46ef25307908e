"""Fast ways are taken only for modules that are exactly what they compute; all others are called, and are right."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from decoders import BOS
from regard import attention as a
from regard.decoding import Search, search
from regard.errors import ShapeError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import (
    Bridge,
    Encoded,
    EncoderDecoder,
    FixedContext,
    RecurrentDecoder,
    RecurrentEncoder,
    transformer_decoder,
)
from regard.ops import plain
from regard.ops.switch import switched_off

B, K, S, T, E, D, N, EOS = 6, 3, 5, 4, 6, 8, 12, 2


def decoder_of(
    mechanism=None, *, cell="lstm", order="recur_then_attend", layers=1, dropout=0.0, feeding=True, kind=None
):
    torch.manual_seed(0)
    mechanism = a.bahdanau(query_size=D, memory_size=D, size=D) if mechanism is None else mechanism
    fed = RecurrentDecoder.input_size(E, D, attention=mechanism, order=order, input_feeding=feeding)
    stack = RecurrentStack(fed, D, layers, cell=cell, dropout=dropout)
    made = (kind or RecurrentDecoder)(
        TokenEmbedding(N, E, padding=None),
        stack,
        TokenHead(D, N, never=(0,)),
        Bridge(RecurrentStack(E, D // 2, cell=cell, bidirectional=True), stack, "zero"),
        attention=mechanism,
        order=order,
        input_feeding=feeding,
    ).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return made


class GatedDot(a.AbstractScore):
    """A user's own: e_j = s · (W q)ᵀ tanh(U h_j), which says that it is a dot product."""

    def __init__(self):
        super().__init__()
        self.asks, self.gates = nn.Linear(D, D), nn.Linear(D, D)
        self.strength = nn.Parameter(torch.tensor(0.7))

    def prepare(self, source):
        return torch.tanh(self.gates(source.keys))[:, :, None]

    def forward(self, inputs, state):
        keys = inputs.memory.score[:, :, 0]
        query = (self.strength * self.asks(inputs.query)).unflatten(0, (len(keys), -1))
        return torch.einsum("bkd,bsd->bks", query, keys).flatten(0, 1)[:, None], state

    def comparison(self):
        return a.Comparison("dot", self.asks, self.strength)


class UndeclaredDot(GatedDot):
    """The same, which says nothing."""

    def comparison(self):
        return None


def source():
    torch.manual_seed(1)
    mask = torch.arange(S) < torch.tensor([5, 4, 3, 5, 2, 1])[:, None]
    return Encoded(torch.randn(B, S, D, dtype=torch.float64), mask)


class Adapted(nn.Module):
    """A low-rank adapter that shows its base's weight and bias and adds to its output."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 2, bias=False).double()
        self.up = nn.Linear(2, base.out_features, bias=False).double()

    @property
    def weight(self):
        return self.base.weight

    @property
    def bias(self):
        return self.base.bias

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def at(path):
    """Replaces the module of this path by what a function makes of it."""
    *parents, last = path.split(".")

    def change(make):
        def apply(decoder):
            parent = decoder.get_submodule(".".join(parents))
            setattr(parent, last, make(getattr(parent, last)))

        return apply

    return change


def on(path, work):
    return lambda decoder: work(decoder.get_submodule(path))


def legacy(function, *args, **options):
    def apply(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(module, *args, **options)

    return apply


def count_calls(module):
    module.register_forward_hook(lambda one, given, found: found * 1.25 if isinstance(found, torch.Tensor) else found)


def scale_energies(score):
    score.register_forward_hook(lambda one, given, found: (found[0] * 2, found[1]))


def without_bias(head):
    head.projection = nn.Linear(D, N, bias=False).double()


def limit_norm(table):
    table.max_norm = 0.5


READOUT, QUERY, HEAD = "readout", "attention.score.query_projection", "head.projection"
LINEAR = (READOUT, QUERY, HEAD)
CHANGES = {
    **{f"an adapter on {path}": at(path)(Adapted) for path in LINEAR},
    **{f"spectral norm of {path}": on(path, legacy(nn.utils.spectral_norm)) for path in LINEAR},
    **{f"weight norm of {path}": on(path, legacy(nn.utils.weight_norm)) for path in LINEAR},
    **{f"{path} pruned": on(path, legacy(prune.l1_unstructured, "weight", amount=0.4)) for path in LINEAR},
    **{f"{path} parametrised": on(path, parametrizations.weight_norm) for path in LINEAR},
    **{f"a hook on {path}": on(path, count_calls) for path in LINEAR},
    **{f"{path} is a sequence of layers": at(path)(lambda base: nn.Sequential(base, nn.Tanh())) for path in LINEAR},
    "a cell's weights pruned": on("stack.layers.0", legacy(prune.l1_unstructured, "weight_hh_l0", amount=0.5)),
    "weight norm of a cell": on("stack.layers.0", legacy(nn.utils.weight_norm, "weight_hh_l0")),
    "a cell parametrised": on("stack.layers.0", lambda cell: parametrizations.weight_norm(cell, "weight_hh_l0")),
    "a hook on a score": on("attention.score", scale_energies),
    "a hook on the alignment": on("attention.alignment", lambda one: one.register_forward_hook(
        lambda module, given, found: (found[0] * 0.5, *found[1:]))),
    "a hook on the read": on("attention.read", count_calls),
    "no bias in the output layer": on("head", without_bias),
    "an embedding that limits norms": on("embedding.table", limit_norm),
    "weight norm of v": on("attention.score", legacy(nn.utils.weight_norm, "v")),
}  # fmt: skip


def steps(decoder, ids, memory):
    """Outputs of a loop of `step`."""
    state, found = decoder.initial_state(memory), []
    for x in ids.unbind(1):
        output, state = decoder.step(x, memory, state)
        found.append(output.log_probabilities)
    return torch.stack(found, 1)


class Plain:
    """A decoder whose steps share nothing and are computed by torch's operations."""

    def __init__(self, decoder):
        self.prepare, self.initial_state, self.decoder = decoder.prepare, decoder.initial_state, decoder

    def step(self, *given, **options):
        with plain():
            return self.decoder.step(*given, **options)


def assert_forward_steps_and_searches_agree(decoder):
    ids = torch.randint(1, N, (B, T), generator=torch.Generator().manual_seed(2))
    memory = decoder.prepare(source())
    together, loop = decoder(ids, memory).log_probabilities, steps(decoder, ids, memory)
    torch.testing.assert_close(together, loop, rtol=0, atol=1e-10)
    wanted = [p for p in decoder.parameters() if p.requires_grad]
    targets = torch.randint(1, N, (B, T), generator=torch.Generator().manual_seed(3))
    loss, _ = decoder.cross_entropy(ids, decoder.prepare(source()), targets)
    plainly = -steps(decoder, ids, decoder.prepare(source())).gather(2, targets[..., None]).sum()
    torch.testing.assert_close(loss, plainly)
    found, expected = (torch.autograd.grad(x, wanted, allow_unused=True) for x in (loss, plainly))
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.zeros(()) if x is None else x, torch.zeros(()) if y is None else y)
    assert_searches_agree(decoder)
    return dict(zip([name for name, p in decoder.named_parameters() if p.requires_grad], found, strict=True))


def assert_searches_agree(decoder):
    with torch.no_grad():
        memory = decoder.prepare(source())
    options, told = Search(beam=K, num_best=2), {"bos": BOS, "eos": EOS, "max_length": 6}
    for ours, theirs in zip(search(decoder, memory, options, **told), search(Plain(decoder), memory, options, **told)):
        assert [h.tokens.tolist() for h in ours] == [h.tokens.tolist() for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-9)


@pytest.mark.parametrize("order", ["recur_then_attend", "attend_then_recur"])
@pytest.mark.parametrize("name", CHANGES)
def test_whatever_is_done_to_a_layer_inside_counts_in_passes_and_searches(name, order):
    decoder = decoder_of(order=order).eval()
    torch.manual_seed(5)
    CHANGES[name](decoder)
    gradients = assert_forward_steps_and_searches_agree(decoder)
    for parameter, gradient in gradients.items():
        assert gradient is not None or "encoder" in parameter, parameter


@pytest.mark.parametrize("feeding", [True, False])
def test_the_untouched_decoder_takes_the_fast_ways(feeding):
    decoder = decoder_of(feeding=feeding).eval()
    assert_forward_steps_and_searches_agree(decoder)


def test_an_adapter_on_the_readout_learns():
    decoder = decoder_of()
    at(READOUT)(Adapted)(decoder)
    ids = torch.randint(1, N, (B, T))
    decoder(ids, decoder.prepare(source())).log_probabilities[..., 1:].sum().backward()
    assert decoder.readout.up.weight.grad.abs().sum() > 0


MADE_ANEW = {
    "spectral norm": legacy(nn.utils.spectral_norm),
    "weight norm": legacy(nn.utils.weight_norm),
    "pruning": legacy(prune.l1_unstructured, "weight", amount=0.4),
}
"""Hooks that make a weight anew before every call."""


@pytest.mark.parametrize("change", MADE_ANEW)
@pytest.mark.parametrize("path", LINEAR)
def test_weights_that_a_hook_makes_anew_train_on_fresh_ones(change, path):
    """Three steps of training are those of the plain way, with power iterations and all."""
    losses = []
    for plainly in (False, True):
        decoder = decoder_of().train()
        torch.manual_seed(6)
        on(path, MADE_ANEW[change])(decoder)
        optimizer = torch.optim.SGD(decoder.parameters(), 0.3)
        ids = torch.randint(1, N, (B, T), generator=torch.Generator().manual_seed(2))
        for _ in range(3):
            optimizer.zero_grad()
            if plainly:  # by the log-probabilities, so that the output layer is called, too
                with plain():
                    said = decoder(ids, decoder.prepare(source())).log_probabilities
                loss = -said.gather(2, ids[..., None]).sum()
            else:
                loss, _ = decoder.cross_entropy(ids, decoder.prepare(source()), ids)
            loss.backward()
            optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_quantised_layers_are_called():
    decoder = decoder_of().float().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(decoder, {nn.Linear, nn.LSTM}, dtype=torch.qint8)
    encoded = source()
    encoded = Encoded(encoded.memory.float(), encoded.mask)
    ids = torch.randint(1, N, (B, T))
    with torch.no_grad():
        memory = quantised.prepare(encoded)
        found, expected = quantised(ids, memory).log_probabilities, steps(quantised, ids, memory)
        exact = decoder(ids, decoder.prepare(encoded)).log_probabilities
    assert torch.equal(found.isfinite(), expected.isfinite())
    torch.testing.assert_close(found[..., 1:], exact[..., 1:], rtol=0, atol=0.2)
    hypotheses = search(quantised, memory, Search(beam=K), bos=BOS, eos=EOS, max_length=4)
    assert len(hypotheses) == B


class OwnStep(RecurrentStack):
    def step(self, inputs, state):
        output, new = super().step(inputs * 1.5, state)
        return output, new


class OwnAdvance(RecurrentDecoder):
    def advance(self, inputs, memory, state, **options):
        found, state = super().advance((inputs + 1) % N, memory, state, **options)
        return found, state


class OwnReadOut(RecurrentDecoder):
    def _read_out(self, *given, **options):
        found = super()._read_out(*given, **options)
        return type(found)(found.output * 2, found.cell, found.context, found.embedded, found.alignment)


class OwnDecoderStep(RecurrentDecoder):
    def step(self, inputs, memory, state, **options):
        return super().step((inputs + 1) % N, memory, state, **options)


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("kind", [OwnAdvance, OwnReadOut, OwnDecoderStep])
def test_a_step_that_a_subclass_changes_is_the_step_of_every_way(kind, feeding):
    decoder = decoder_of(kind=kind, feeding=feeding).eval()
    assert_forward_steps_and_searches_agree(decoder)
    plainer = decoder_of(feeding=feeding).eval()
    ids = torch.randint(1, N, (B, T))
    memory = plainer.prepare(source())
    assert not torch.allclose(
        decoder(ids, memory).log_probabilities[..., 1:], plainer(ids, memory).log_probabilities[..., 1:]
    )


@pytest.mark.parametrize("feeding", [True, False])
def test_a_stack_with_a_step_of_its_own_takes_it_in_sequences_too(feeding):
    decoder = decoder_of(feeding=feeding).eval()
    decoder.stack.__class__ = OwnStep
    assert_forward_steps_and_searches_agree(decoder)
    x, mask = torch.randn(B, S, decoder.stack.layers[0].input_size).double(), source().mask
    outputs, (final, *_) = decoder.stack(x, mask=mask)
    alone, (end, *_) = decoder.stack(x[2:3, :3])
    torch.testing.assert_close(outputs[2:3, :3], alone)
    torch.testing.assert_close(final[0][2:3], end[0])
    assert not outputs[~mask].any()


def test_methods_that_were_replaced_on_the_instance_count():
    decoder = decoder_of().eval()
    original = decoder.advance
    decoder.advance = lambda inputs, *given, **options: original((inputs + 1) % N, *given, **options)
    assert_forward_steps_and_searches_agree(decoder)
    decoder = decoder_of().eval()
    forward = decoder.readout.forward
    decoder.readout.forward = lambda x: forward(x) * 2
    assert_forward_steps_and_searches_agree(decoder)


def test_global_hooks_see_every_module():
    decoder, seen = decoder_of().eval(), []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        decoder(torch.randint(1, N, (B, T)), decoder.prepare(source()))
    finally:
        handle.remove()
    assert seen.count("AdditiveScore") == T


def test_a_mechanism_with_a_step_of_its_own_takes_it_in_sequences():
    class Own(a.Mechanism):
        def step(self, query, *given, **options):
            return super().step(query * 2, *given, **options)

    made = a.luong(query_size=4, memory_size=4)
    own = Own(made.score, made.alignment, made.read)
    memory = own.prepare(torch.randn(2, 5, 4))
    queries = torch.randn(2, 3, 4)
    torch.testing.assert_close(own(queries, memory)[0].context, made(queries * 2, memory)[0].context)
    assert "overrides step" in own.explain(memory)


@pytest.mark.parametrize("make", [Adapted, lambda base: parametrizations.weight_norm(base)])
def test_linear_maps_that_are_read_as_matrices_may_be_wrapped(make):
    torch.manual_seed(0)
    mechanism = a.multi_head(query_size=4, memory_size=4, size=4, num_heads=2, positions="transformer_xl").double()
    score = mechanism.score
    base = copy.deepcopy(score.offset_projection)
    score.offset_projection = make(score.offset_projection)
    memory, queries = mechanism.prepare(torch.randn(2, 5, 4).double()), torch.randn(2, 3, 4).double()
    found = mechanism(queries, memory)[0].context
    with torch.no_grad():
        exact = nn.Linear(base.in_features, base.out_features, bias=False).double()
        exact.weight.copy_(score.offset_projection(torch.eye(base.in_features).double()).T)
    score.offset_projection = exact
    torch.testing.assert_close(found, mechanism(queries, memory)[0].context)


class Doubled(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, x):
        return 2 * self.base(x)


def test_filters_that_are_wrapped_are_what_the_wrapper_makes_of_them():
    torch.manual_seed(0)
    mechanism = a.location_sensitive(
        query_size=4, memory_size=4, size=4, num_heads=2, num_filters=3, kernel_size=5, location="both"
    ).double()
    memory, queries = mechanism.prepare(torch.randn(2, 6, 4).double()), torch.randn(2, 4, 4).double()
    base = mechanism.score.filters
    mechanism.score.filters = Doubled(base)
    found = mechanism(queries, memory)[0].context
    with torch.no_grad():
        base.weight.mul_(2)
    mechanism.score.filters = base
    torch.testing.assert_close(found, mechanism(queries, memory)[0].context)


@pytest.mark.parametrize("order", ["recur_then_attend", "attend_then_recur"])
def test_a_users_own_score_takes_every_fast_way_by_one_declaration(order):
    declared, silent = (
        decoder_of(a.Mechanism(kind(), a.SoftmaxAlignment(), a.WeightedSum(D)), order=order)
        for kind in (GatedDot, UndeclaredDot)
    )
    silent.load_state_dict(declared.state_dict())
    ids, found = torch.randint(1, N, (B, T)), []
    for decoder, fast in ((declared, True), (silent, False)):
        memory = decoder.prepare(source())
        output = decoder(ids, memory).log_probabilities
        assert ("_AttendBackward" in str(graph_of(output))) == fast
        sequences = decoder.attention.explain(memory.attention).splitlines()[1]
        assert ("one operation for all steps" in sequences) == fast
        loss = output[..., 1:].square().sum()
        gradients = torch.autograd.grad(loss, decoder.parameters(), materialize_grads=True)
        hypotheses = search(decoder, decoder.prepare(source()), Search(beam=3), bos=BOS, eos=EOS, max_length=6)
        hypotheses = [one[0].tokens.tolist() for one in hypotheses]
        found.append((output, gradients, hypotheses))
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])
    assert found[0][2] == found[1][2]


def test_the_switch_turns_fast_ways_off_and_says_so():
    decoder = decoder_of().eval()
    ids = torch.randint(1, N, (B, T))
    memory = decoder.prepare(source())
    fast = decoder(ids, memory).log_probabilities
    with plain():
        assert "switched off" in decoder.attention.explain(memory.attention)
        plainly = decoder(ids, memory).log_probabilities
        assert "_AttendBackward" not in str(graph_of(plainly))
    assert "_AttendBackward" in str(graph_of(fast))
    torch.testing.assert_close(fast, plainly, rtol=0, atol=1e-12)


def graph_of(tensor):
    seen, todo = set(), [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo.extend(next_node for next_node, _ in node.next_functions)
    return sorted(node.name() for node in seen)


def test_the_switch_holds_for_its_thread_alone():
    from threading import Thread

    found = []
    with plain():
        thread = Thread(target=lambda: found.append(switched_off()))
        thread.start()
        thread.join()
    assert found == [None]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", ["stack.dropout", "dropout", "embedding.dropout"])
@pytest.mark.parametrize("feeding", [True, False])
def test_the_dropout_layers_own_flag_decides(layer, feeding, training):
    decoder = decoder_of(layers=2, feeding=feeding).train(not training)
    drop = decoder.get_submodule(layer)
    drop.p = 0.5
    drop.train(training)
    ids = torch.randint(1, N, (B, T))
    memory = decoder.prepare(source())
    with torch.no_grad():
        first, second = (decoder(ids, memory).log_probabilities for _ in range(2))
    assert torch.equal(first, second) != training
    with torch.no_grad():
        told = {"bos": BOS, "eos": EOS, "max_length": 6}
        one, other = ([h[0].score for h in search(decoder, memory, Search(beam=K), **told)] for _ in range(2))
    assert (one == other) != training


def test_dropout_of_an_encoder_follows_its_layer():
    stack = RecurrentStack(3, 4, 2, cell="gru", dropout=0.5).eval()
    x = torch.randn(4, 6, 3)
    mask = torch.arange(6) < torch.tensor([6, 2, 3, 4])[:, None]
    assert torch.equal(stack(x, mask=mask)[0], stack(x, mask=mask)[0])
    stack.dropout.train()
    assert not torch.equal(stack(x, mask=mask)[0], stack(x, mask=mask)[0])
    stack.train().dropout.eval()
    assert torch.equal(stack(x, mask=mask)[0], stack(x, mask=mask)[0])


def model_of(kind):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(TokenEmbedding(N, E), RecurrentStack(E, D // 2, bidirectional=True))
    if kind == "attention":
        return EncoderDecoder(encoder, decoder_of().float())
    if kind == "transformer":
        decoder = transformer_decoder(
            TokenEmbedding(N, D), TokenHead(D, N), memory_size=D, num_layers=1, num_heads=2, feed_forward_size=8
        )
        return EncoderDecoder(encoder, decoder)
    context = FixedContext(kind, D)
    stack = RecurrentStack(E + D, D)
    width = None if kind == "last" else D
    bridge = Bridge(encoder.stack, stack, "dense", context_size=width)
    decoder = RecurrentDecoder(TokenEmbedding(N, E), stack, TokenHead(D, N), bridge, context=context, every_step=True)
    return EncoderDecoder(encoder, decoder)


MASK = torch.arange(S) < torch.tensor([5, 3])[:, None]
WRONG_MASKS = {
    "one shorter": (MASK[:, :-1], "one shorter"),
    "of numbers": (MASK.float(), "mask.bool()"),
    "time first": (MASK.T, "mask.T"),
    "inverted": (~MASK, "use ~mask"),
    "left-padded": (MASK.flip(1), "right-padded"),
    "with a hole": (torch.tensor([[True] * 5, [True, False, True, True, False]]), "right-padded"),
}


@pytest.mark.parametrize("kind", ["attention", "transformer", "last", "mean", "maximum", "learned"])
@pytest.mark.parametrize("name", WRONG_MASKS)
def test_a_recurrent_encoder_refuses_masks_that_it_would_read_wrongly(name, kind):
    mask, way_out = WRONG_MASKS[name]
    model = model_of(kind)
    ids = torch.randint(1, N, (2, S))
    with pytest.raises(ShapeError, match="mask") as caught:
        model.prepare(ids, mask)
    assert way_out in str(caught.value)
    model.prepare(ids, MASK)
    model.prepare(ids, torch.zeros_like(MASK))


def test_a_fixed_context_refuses_a_mask_of_another_length():
    decoder = model_of("mean").decoder
    with pytest.raises(ShapeError, match="one shorter"):
        decoder.prepare(Encoded(torch.randn(2, S, D), MASK[:, :-1]))


@pytest.mark.parametrize("assign", [False, True])
def test_what_is_never_said_survives_the_meta_device(assign):
    torch.manual_seed(0)
    head = TokenHead(4, 6, never=(0, 3))
    with torch.device("meta"):
        other = TokenHead(4, 6, never=(0, 3))
    if not assign:
        other.to_empty(device="cpu")
        other.never.fill_(True)  # whatever the memory held
        other.to_empty(device="cpu")
    other.load_state_dict(head.state_dict(), assign=assign)
    features = torch.randn(2, 4)
    assert torch.equal(other(features), head(features))
    assert list(head.state_dict()) == ["projection.weight", "projection.bias"]


def test_buckets_survive_the_meta_device():
    def made():
        return a.BucketBiasWindow(2, num_buckets=8, max_distance=20)

    with torch.device("meta"):
        other = made()
    other.to_empty(device="cpu")
    assert torch.equal(other.boundaries, made().boundaries)
