"""The twin that a search steps with says what the decoder says, and nothing of the decoder is changed."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from decoders import BOS
from regard import tree
from regard.attention import bahdanau, coverage, location_sensitive, luong, plane_coverage
from regard.decoding import Search, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.layers.twin import MIN_ROWS, twin
from regard.models import Encoded, PointerDecoder, RecurrentDecoder, captioner
from regard.models.bridge import Bridge
from regard.models.transformer import transformer_decoder

B, K, S, E, D, N, FEW, EOS = 16, 4, 7, 24, 32, 300, 40, 2
drawing = partial(Search, method="sampling")
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12}


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


def steps(decoder, encoded, count=4):
    """What a decoder says to the same inputs, while hypotheses change their places."""
    memory = decoder.prepare(encoded)
    stepped, memory = decoder.for_search(memory, B * K)
    assert (stepped is decoder) == torch.is_grad_enabled()
    state, said = stepped.initial_state(memory, K), []
    draw = torch.Generator().manual_seed(5)
    for _ in range(count):
        output, state = stepped.step(torch.randint(3, FEW, (B * K,), generator=draw), memory, state, alignment=True)
        said.append((output.log_probabilities, dict(output.alignments)))
        parents = torch.randint(K, (B, K), generator=draw) + K * torch.arange(B)[:, None]
        state = tree.reorder(state, parents.flatten())
    return said


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DECODERS)
def test_a_twin_says_what_its_decoder_says(name, dtype):
    decoder = DECODERS[name](dtype=dtype)
    expected = steps(decoder, source(dtype))
    with torch.inference_mode():
        found = steps(decoder, source(dtype))
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype])


def test_a_transformers_twin_says_what_it_says():
    decoder = transformer()
    expected = steps(decoder, source())
    with torch.inference_mode():
        torch.testing.assert_close(steps(decoder, source()), expected, rtol=0, atol=5e-6)


class Slow:
    """A decoder without a twin."""

    def __init__(self, decoder):
        self.prepare, self.initial_state, self.step = decoder.prepare, decoder.initial_state, decoder.step


@pytest.mark.parametrize("options", [Search(beam=4, num_best=3), Search(beam=1), drawing(num_best=3, seed=4)])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "pointer", "coverage of a plane"])
def test_searches_find_the_same_with_a_twin(name, options):
    decoder = DECODERS[name](dtype=torch.float64)
    memory = decoder.prepare(source(torch.float64))
    told = {"bos": BOS, "eos": EOS, "max_length": torch.arange(B) % 7 + 2, "alignment": True}
    for ours, theirs in zip(search(decoder, memory, options, **told), search(Slow(decoder), memory, options, **told)):
        assert [h.tokens.tolist() for h in ours] == [h.tokens.tolist() for h in theirs]
        for one, other in zip(ours, theirs):
            assert one.score == pytest.approx(other.score, abs=1e-11)
            torch.testing.assert_close(one.alignments, other.alignments)


def test_what_takes_the_steps_of_a_search_is_explained():
    packed = "searches call the decoder's `step`, with weights packed once"
    for decoder in (recurrent(), recurrent("rnn"), recurrent(attention="location"), of_images("coverage")):
        assert decoder.explain().endswith(packed)
    assert packed in DECODERS["pointer"](dtype=torch.float32).explain()


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


def test_with_gradients_autocast_or_few_rows_there_is_no_twin():
    decoder = recurrent()

    def has_twin(rows=B * K):
        memory = decoder.prepare(source(next(decoder.parameters()).dtype))
        found, given = decoder.for_search(memory, rows)
        assert given is memory
        return found is not decoder

    assert not has_twin()
    with torch.inference_mode():
        assert not has_twin(MIN_ROWS - 1)
        assert has_twin(MIN_ROWS)
        with torch.autocast("cpu", torch.bfloat16):
            assert not has_twin()
        decoder.to(torch.bfloat16)
        assert not has_twin()


def test_what_is_watched_or_made_anew_or_somebodys_own_stays():
    class Own(nn.Linear):
        def forward(self, input):
            return super().forward(input) + 1

    parts = [nn.Linear(4, 4) for _ in range(4)]
    parts[1].register_forward_hook(lambda *_: None)
    torch.nn.utils.parametrizations.weight_norm(parts[2])
    parts[3] = Own(4, 4)
    whole = nn.Sequential(nn.Sequential(*parts), nn.Tanh())
    with torch.inference_mode():
        found = twin(whole, 64)
        assert [made is given for made, given in zip(found[0], parts)] == [False, True, True, True]
        assert found[1] is whole[1]
        x = torch.randn(64, 4)
        torch.testing.assert_close(found(x), whole(x))
        assert twin(nn.Sequential(nn.Tanh()), 64)[0] is not None


def test_a_decoder_of_ones_own_is_asked_itself():
    class Certain(RecurrentDecoder):
        """Says what its parent says, but token 7 first."""

        def say(self, found):
            output = super().say(found)
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
def test_a_beam_wider_than_the_vocabulary_finds_the_same_with_a_twin(beam):
    torch.manual_seed(4)
    decoder = recurrent(dtype=torch.float64)
    decoder.head = TokenHead(D, 5, never=(0,)).double()
    memory = decoder.prepare(source(torch.float64))
    options = Search(beam=beam, num_best=beam)
    told = {"bos": BOS, "eos": EOS, "max_length": torch.arange(B) % 4 + 1}
    for ours, theirs in zip(search(decoder, memory, options, **told), search(Slow(decoder), memory, options, **told)):
        assert [h.tokens.tolist() for h in ours] == [h.tokens.tolist() for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-11)
