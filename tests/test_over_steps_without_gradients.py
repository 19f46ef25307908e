"""Steps of a loop without gradients say what they say outside of it, and nothing of the decoder is changed.

Weights are laid out once and what steps share of attention is made once, in searches and in free runs.
"""

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from decoders import BOS
from regard import ops, plain, tree
from regard.attention import bahdanau, coverage, location_sensitive, luong, plane_coverage
from regard.decoding import Search, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Encoded, PointerDecoder, RecurrentDecoder, captioner
from regard.models.bridge import Bridge
from regard.models.transformer import transformer_decoder
from regard.ops import onednn
from regard.ops.eligibility import numba_reason
from regard.ops.linear import PackedProduct
from regard.ops.over_steps import Loop, current
from support import tiny

B, K, S, E, D, N, FEW, EOS = 16, 4, 7, 24, 32, 300, 40, 2
drawing = partial(Search, method="sampling")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
needs_bytes = pytest.mark.skipif(
    numba_reason("regard.ops.kernels.linear") is not None, reason="products with bytes are compiled"
)


@pytest.fixture
def small_products_are_packed(monkeypatch):
    """Those of these tests are too small for it to pay."""
    monkeypatch.setattr(onednn, "MIN_WORK_PACKED", 0)


def recurrent(
    cell="lstm", order="recur_then_attend", layers=1, attention="additive", tokens=N, feeds=True, dtype=torch.float32
):
    """A decoder with weights that matter, biases included."""
    torch.manual_seed(1)
    sizes = {"query_size": D, "memory_size": 2 * D, "size": D}
    made = {
        "additive": lambda: bahdanau(**sizes),
        "heads": lambda: bahdanau(**sizes, num_heads=2),
        "dot": lambda: luong(query_size=D, memory_size=2 * D),
        "location": lambda: location_sensitive(**sizes),
    }
    mechanism = made[attention]()
    embedding = TokenEmbedding(tokens, E)
    fed = RecurrentDecoder.input_size(E, D, attention=mechanism, order=order, input_feeding=feeds)
    stack = RecurrentStack(fed, D, layers, cell=cell, residual=layers > 1)
    decoder = RecurrentDecoder(
        embedding,
        stack,
        TokenHead(D, tokens, tied=embedding, never=(0, 1)),
        Bridge(RecurrentStack(E, D, bidirectional=True), stack, "zero"),
        attention=mechanism,
        order=order,
        input_feeding=feeds,
    )
    for name, parameter in decoder.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.3)
    return decoder.to(dtype).eval()


def source(dtype=torch.float32):
    torch.manual_seed(2)
    mask = torch.arange(S) < torch.randint(3, S + 1, (B, 1))
    memory = torch.randn(B, S, 2 * D, dtype=dtype).masked_fill(~mask[..., None], 0)
    return Encoded(memory, mask, source_ids=torch.randint(3, N, (B, S)), grid=(S, 1))


def of_images(attention=None, tokens=N, dtype=torch.float32, **options):
    """A captioner with weights that matter; its attention may know what was covered."""
    torch.manual_seed(1)
    sizes = {"query_size": D, "memory_size": 2 * D, "size": D}
    plane = {**sizes, "num_filters": 6, "kernel_size": 3}
    made = {
        None: lambda: None,
        "plane": lambda: plane_coverage(**plane, num_heads=2, gate="scalar"),
        "location": lambda: location_sensitive(**plane, location="both", num_previous=2, first_alignment="uniform"),
        "coverage": lambda: coverage(**sizes, like="espnet"),
    }
    decoder = captioner(
        tokens,
        memory_size=2 * D,
        embedding_size=E,
        size=D,
        attention_size=D,
        attention=made[attention](),
        never=(0, 1),
        **options,
    )
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.15)
    return decoder.to(dtype).eval()


def transformer():
    torch.manual_seed(1)
    embedding = TokenEmbedding(N, D)
    head = TokenHead(D, N, tied=embedding, never=(0, 1))
    return transformer_decoder(
        embedding, head, memory_size=2 * D, num_layers=2, num_heads=4, feed_forward_size=64
    ).eval()


DECODERS = {
    "LSTM": recurrent,
    "GRU": lambda **kind: recurrent("gru", **kind),
    "vanilla": lambda **kind: recurrent("rnn", **kind),
    "three layers": lambda **kind: recurrent("lstm", layers=3, **kind),
    "two layers of GRU, attends first": lambda **kind: recurrent("gru", "attend_then_recur", 2, **kind),
    "dot": lambda **kind: recurrent(attention="dot", **kind),
    "GRU that feeds nothing back": lambda **kind: recurrent("gru", feeds=False, **kind),
    "LSTM that attends first": lambda **kind: recurrent("lstm", "attend_then_recur", **kind),
    "two heads": lambda **kind: recurrent(attention="heads", **kind),
    "few tokens": lambda **kind: recurrent(tokens=FEW, **kind),
    "few tokens, GRU that attends first": lambda **kind: recurrent("gru", "attend_then_recur", tokens=FEW, **kind),
    "location": lambda **kind: recurrent(attention="location", **kind),
    "pointer": lambda **kind: PointerDecoder(recurrent(**kind)).to(**kind).eval(),
    "captioner": of_images,
    "captioner, few tokens, two layers": lambda **kind: of_images(tokens=FEW, num_layers=2, **kind),
    "captioner as arctic": lambda **kind: of_images(like="arctic", **kind),
    "captioner as sgrvinod, few tokens": lambda **kind: of_images(like="sgrvinod", tokens=FEW, **kind),
    "coverage of a plane": lambda **kind: of_images("plane", cell="gru", **kind),
    "coverage of a plane, few tokens": lambda **kind: of_images("plane", tokens=FEW, **kind),
    "location, attends first": lambda **kind: of_images("location", **kind),
    "coverage, attends first": lambda **kind: of_images("coverage", **kind),
    "pointer around coverage of a plane": lambda **kind: (
        PointerDecoder(of_images("plane", **kind), memory_size=2 * D).to(**kind).eval()
    ),
}


def steps(decoder, encoded, loop=None, count=5, hypotheses=K):
    """What a decoder says to the same inputs, while hypotheses change their places and sentences leave."""
    loop, memory = loop or nullcontext(), decoder.prepare(encoded)
    state, said = decoder.initial_state(memory, hypotheses), []
    draw = torch.Generator().manual_seed(5)
    for step in range(count):
        sentences = tree.rows(memory)
        inputs = torch.randint(3, FEW, (sentences * hypotheses,), generator=draw)
        with loop:
            output, state = decoder.step(inputs, memory, state, alignment=True)
        said.append((output.log_probabilities, dict(output.alignments)))
        parents = torch.randint(hypotheses, (sentences, hypotheses), generator=draw)
        parents = parents + hypotheses * torch.arange(sentences)[:, None]
        staying = torch.arange(sentences)
        if step % 2 and sentences > 1:
            staying = staying[staying % 3 != 1]
            memory = tree.reorder(memory, staying)
        state = tree.reorder(state, parents[staying].flatten())
    return said


def assert_same(found, expected, dtype=torch.float64):
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DECODERS)
def test_steps_within_a_loop_say_what_they_say_outside(name, dtype, small_products_are_packed):
    decoder, encoded = DECODERS[name](dtype=dtype), source(dtype)
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            with plain():
                expected = steps(decoder, encoded)
            assert_same(steps(decoder, encoded), expected, dtype)
            assert_same(steps(decoder, encoded, Loop()), expected, dtype)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "vanilla", "captioner", "coverage of a plane"])
def test_a_single_row_says_the_same(name):
    """It multiplies weights that are not laid out."""
    decoder = DECODERS[name](dtype=torch.float64)
    whole = source(torch.float64)
    encoded = Encoded(whole.memory[:1], whole.mask[:1], source_ids=whole.source_ids[:1], grid=whole.grid)
    with torch.inference_mode():
        assert_same(steps(decoder, encoded, Loop(), hypotheses=1), steps(decoder, encoded, hypotheses=1))


def test_a_transformers_steps_say_the_same():
    decoder = transformer()
    with torch.inference_mode():
        assert_same(steps(decoder, source(), Loop()), steps(decoder, source()), torch.float32)


@pytest.mark.parametrize("order", ["recur_then_attend", "attend_then_recur"])
def test_a_decoder_of_values_says_the_same(order):
    mechanism = bahdanau(query_size=tiny.QUERY_SIZE, memory_size=tiny.MEMORY_SIZE, size=4)
    decoder = tiny.recurrent(mechanism, continuous=True, order=order).eval()
    torch.manual_seed(0)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    final = ((torch.randn(2, tiny.MEMORY_SIZE).double(),),)
    memory = decoder.prepare(Encoded(torch.randn(2, 4, tiny.MEMORY_SIZE).double(), mask, final))
    said = []
    for loop in (Loop, nullcontext):
        with torch.no_grad(), loop():
            values, state = torch.ones(4, 2).double(), decoder.initial_state(memory, 2)
            for _ in range(3):
                output, state = decoder.step(values, memory, state)
                assert output.log_probabilities is None
                values = output.values
        said.append(values)
    assert_same(*said)


class Plain:
    """A decoder whose steps share nothing and are computed by torch's operations."""

    def __init__(self, decoder):
        self.prepare, self.initial_state, self.decoder = decoder.prepare, decoder.initial_state, decoder

    def step(self, *given, **options):
        with plain():
            return self.decoder.step(*given, **options)


@pytest.mark.parametrize("options", [Search(beam=4, num_best=3), Search(beam=1), drawing(num_best=3, seed=4)])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "pointer", "coverage of a plane"])
def test_searches_find_what_plain_steps_find(name, options):
    decoder = DECODERS[name](dtype=torch.float64)
    memory = decoder.prepare(source(torch.float64))
    told = {"bos": BOS, "eos": EOS, "max_length": torch.arange(B) % 7 + 2, "alignment": True}
    for ours, theirs in zip(search(decoder, memory, options, **told), search(Plain(decoder), memory, options, **told)):
        assert [h.tokens.tolist() for h in ours] == [h.tokens.tolist() for h in theirs]
        for one, other in zip(ours, theirs):
            assert one.score == pytest.approx(other.score, abs=1e-11)
            torch.testing.assert_close(one.alignments, other.alignments)


def test_nothing_is_set_on_the_decoder():
    decoder = recurrent()
    before = {name: dict(module.__dict__) for name, module in decoder.named_modules()}
    kept = copy.deepcopy(decoder.state_dict())
    search(decoder, decoder.prepare(source()), Search(beam=4), bos=BOS, eos=EOS, max_length=5)
    after = {name: dict(module.__dict__) for name, module in decoder.named_modules()}
    assert before.keys() == after.keys()
    assert all(before[name] == after[name] for name in before)
    torch.testing.assert_close(decoder.state_dict(), kept, rtol=0, atol=0)


def test_a_search_uses_the_weights_of_now():
    decoder = recurrent()
    memory = decoder.prepare(source())
    told = {"bos": BOS, "eos": EOS, "max_length": 3}
    search(decoder, memory, Search(beam=1), **told)
    with torch.no_grad():
        decoder.head.projection.bias[9] += 100
    assert all(h.tokens.tolist() == [9, 9, 9] for (h,) in search(decoder, memory, Search(beam=1), **told))


def test_with_gradients_or_autocast_nothing_is_shared():
    decoder, encoded = recurrent(), source()
    with torch.no_grad():
        loop = Loop()
        assert_same(steps(decoder, encoded, loop), steps(decoder, encoded), torch.float32)
        assert loop._made
        with torch.autocast("cpu", torch.bfloat16):
            idle = Loop()
            torch.testing.assert_close(steps(decoder, encoded, idle), steps(decoder, encoded), rtol=0, atol=0)
        assert not idle._made
        of_no_gradients = Loop()
    steps(decoder, encoded, of_no_gradients)
    assert not of_no_gradients._made
    decoder.to(torch.bfloat16)
    with torch.no_grad():
        said = steps(decoder, source(torch.bfloat16), Loop()), steps(decoder, source(torch.bfloat16))
    torch.testing.assert_close(*said, rtol=0.02, atol=0.02)


class Own(nn.Linear):
    """Somebody's own layer."""

    def forward(self, input):
        return 2 * super().forward(input)


class Adapted(nn.Module):
    """A low-rank adapter that shows its base's weight and bias and adds to its output."""

    def __init__(self, base):
        super().__init__()
        self.base, self.weight, self.bias = base, base.weight, base.bias
        self.down, self.up = nn.Linear(base.in_features, 2).double(), nn.Linear(2, base.out_features).double()

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def own(layer):
    made = Own(layer.in_features, layer.out_features, layer.bias is not None).double()
    made.load_state_dict(layer.state_dict())
    return made


def hooked(layer):
    layer.register_forward_hook(lambda module, given, found: 1.25 * found)
    return layer


@pytest.mark.parametrize("change", [own, Adapted, hooked, parametrizations.weight_norm, parametrizations.spectral_norm])
@pytest.mark.parametrize("name", ["LSTM", "GRU that feeds nothing back", "location, attends first"])
def test_users_layers_are_called(name, change, small_products_are_packed):
    """What is made anew in every step, as a normalised weight, is what it is in that step."""
    decoder, encoded = DECODERS[name](dtype=torch.float64), source(torch.float64)
    with torch.inference_mode():
        before = steps(decoder, encoded)
    changed = [decoder.head, decoder.attention.score if name == "LSTM" else decoder]
    for parent in changed:
        for key, layer in list(parent.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(parent, key, change(layer))
    decoder.eval()
    with torch.inference_mode():
        found, expected = steps(decoder, encoded, Loop()), steps(decoder, encoded)
    assert_same(found, expected)
    if change is not parametrizations.weight_norm:  # which is the weight itself at first
        assert not torch.allclose(found[0][0].exp(), before[0][0].exp(), atol=1e-6)


def test_a_loop_uses_each_layers_weight_of_its_own():
    """Weights that are there for one step only are not mistaken for others at the same place in memory."""
    x = torch.randn(3, 64)
    with torch.no_grad(), Loop() as loop:
        for _ in range(50):
            weight = torch.randn(64, 64)
            torch.testing.assert_close(ops.linear(x, weight), x @ weight.T)
            del weight
        assert not loop._made


def test_what_is_laid_out_is_dropped_with_its_weight(small_products_are_packed):
    weight, x = torch.randn(64, 64), torch.randn(3, 64)
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), Loop() as loop:
            ops.linear(x, weight)
            (product,) = (made for made, *_ in loop._made.values())
            assert isinstance(product, PackedProduct)
            laid_out, dead = weakref.ref(product), weakref.ref(weight)
            del product, weight
            # the product reads the weight, but does not keep the tensor that it was made of
            assert dead() is None
            assert laid_out() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["LSTM", "dot", "location", "coverage of a plane", "location, attends first"])
def test_what_is_shared_does_not_grow_when_sentences_leave(name):
    decoder = DECODERS[name](dtype=torch.float64)
    with torch.inference_mode():
        memory, loop, counts = decoder.prepare(source(torch.float64)), Loop(), []
        state = decoder.initial_state(memory, K)
        for sentences in range(B, 1, -1):
            with loop:
                _, state = decoder.step(torch.full((sentences * K,), 5), memory, state)
            counts.append(len(loop._made))
            memory = tree.reorder(memory, torch.arange(sentences - 1))
            state = tree.reorder(state, torch.arange((sentences - 1) * K))
    assert counts[0] > 0
    assert max(counts) == counts[0]


def test_a_loop_ends_with_all_that_it_shared():
    decoder, encoded = recurrent(), source()
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad():
            loop = Loop()
            steps(decoder, encoded, loop)
            made = [weakref.ref(product) for product, *_ in loop._made.values() if isinstance(product, PackedProduct)]
            assert made
            del loop
            assert [one for one in made if one() is not None] == []
    finally:
        gc.enable()


def test_a_loop_within_a_loop_has_its_own_and_the_outer_goes_on():
    decoder, encoded = recurrent(dtype=torch.float64), source(torch.float64)
    with torch.no_grad():
        expected, inner = steps(decoder, encoded), Loop()
        with Loop() as outer:
            assert_same(steps(decoder, encoded, inner), expected)
            assert current() is outer
            assert not outer._made
            with outer:  # a step that takes steps of the same loop
                assert_same(steps(decoder, encoded, outer), expected)
            assert current() is outer
        assert outer._made
        assert current() is None


def test_an_error_in_a_step_leaves_the_loop_and_the_loop_goes_on():
    class Failing(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError

    decoder, encoded, loop = recurrent(dtype=torch.float64), source(torch.float64), None
    with torch.no_grad():
        expected, loop, head = steps(decoder, encoded), Loop(), decoder.head
        decoder.head = Failing()
        with pytest.raises(ZeroDivisionError):
            steps(decoder, encoded, loop)
        assert current() is None
        decoder.head = head
        assert_same(steps(decoder, encoded, loop), expected)


def test_threads_have_loops_of_their_own():
    decoder, encoded = recurrent(dtype=torch.float64), source(torch.float64)

    def within(_):
        with torch.inference_mode():
            assert current() is None
            return steps(decoder, encoded, Loop())

    with torch.inference_mode():
        expected = steps(decoder, encoded)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(within, range(8)):
            assert_same(found, expected)


@needs_bytes
@pytest.mark.parametrize("name", DECODERS)
def test_bytes_are_close_and_a_row_is_what_it_is_alone(name):
    decoder, encoded = DECODERS[name](dtype=torch.float32), source()
    with torch.inference_mode():
        memory = decoder.prepare(encoded)
        inputs = torch.randint(3, FEW, (B,), generator=torch.Generator().manual_seed(1))
        said = []
        for loop in (Loop("int8"), Loop()):
            with loop:
                _, state = decoder.step(inputs, memory, decoder.initial_state(memory))
                said.append(decoder.step(inputs, memory, state)[0].log_probabilities.exp())
        assert 1e-6 < (said[0] - said[1]).abs().max() < 0.1
        with Loop("int8"):
            for row in (0, B - 1):
                one = tree.reorder(memory, torch.tensor([row]))
                _, state = decoder.step(inputs[row : row + 1], one, decoder.initial_state(one))
                alone = decoder.step(inputs[row : row + 1], one, state)[0].log_probabilities.exp()
                torch.testing.assert_close(alone[0], said[0][row], rtol=0, atol=5e-3)


def test_a_decoder_of_ones_own_is_asked_itself():
    class Certain(RecurrentDecoder):
        """Says what its parent says, but token 7 first."""

        def head_output(self, features):
            output = super().head_output(features)
            said = torch.full_like(output.log_probabilities, -50.0)
            said[:, 7] = 0
            return type(output)(log_probabilities=said)

    class Wrapper:
        def __init__(self, decoder):
            self.decoder = decoder

        def __getattr__(self, name):
            return getattr(self.decoder, name)

        def step(self, *given, **options):
            output, state = self.decoder.step(*given, **options)
            return type(output)(log_probabilities=output.log_probabilities.roll(1, 1)), state

    decoder = recurrent()
    decoder.__class__ = Certain
    memory = decoder.prepare(source())
    told = {"bos": BOS, "eos": EOS, "max_length": 2}
    assert all(h.tokens.tolist() == [7, 7] for (h,) in search(decoder, memory, Search(beam=1), **told))
    assert all(h.tokens.tolist() == [8, 8] for (h,) in search(Wrapper(decoder), memory, Search(beam=1), **told))


def test_the_first_step_of_a_beam_is_taken_once_a_sentence_and_of_samples_by_each():
    class Counting(RecurrentDecoder):
        def step(self, inputs, *given, **options):
            counts.append(len(inputs))
            return super().step(inputs, *given, **options)

    decoder = recurrent()
    decoder.__class__ = Counting
    memory = decoder.prepare(source())
    told = {"bos": BOS, "eos": EOS, "max_length": 3}
    counts = []
    search(decoder, memory, Search(beam=K, min_length=3), **told)
    assert counts == [B, B * K, B * K]
    counts = []
    search(decoder, memory, drawing(num_best=K, min_length=3), **told)
    assert counts == [B * K] * 3


@pytest.mark.parametrize("beam", [2, 5, 40])
def test_a_beam_wider_than_the_vocabulary_finds_what_plain_steps_find(beam):
    torch.manual_seed(4)
    decoder = recurrent(dtype=torch.float64)
    decoder.head = TokenHead(D, 5, never=(0,)).double()
    memory = decoder.prepare(source(torch.float64))
    options = Search(beam=beam, num_best=beam)
    told = {"bos": BOS, "eos": EOS, "max_length": torch.arange(B) % 4 + 1}
    for ours, theirs in zip(search(decoder, memory, options, **told), search(Plain(decoder), memory, options, **told)):
        assert [h.tokens.tolist() for h in ours] == [h.tokens.tolist() for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-11)
