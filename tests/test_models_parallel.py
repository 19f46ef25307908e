from __future__ import annotations

import pytest
import torch

import laws
from regard.attention import Parallel, bahdanau, location_sensitive, multi_head
from regard.decoding import Search, main_alignment, search
from regard.errors import UnsupportedError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, Encoded, RecurrentDecoder, RecurrentEncoder

TOKENS, SIZE, MEMORY = 6, 5, 8
# a pair of sources a sentence; the second source of the second sentence is the longest, that of the last is empty
SOURCES = [
    (torch.tensor([3, 4, 5, 3, 4]), torch.tensor([5, 3])),
    (torch.tensor([4]), torch.tensor([3, 3, 5, 4, 5, 4, 3])),
    (torch.tensor([5, 5, 4]), torch.tensor([], dtype=torch.long)),
]


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make(*, hierarchical=False, source=0, **options):
    """Two encoders, and a decoder that looks at both; a dict of modules so that gradients of all are compared."""
    encoders = [
        RecurrentEncoder(TokenEmbedding(TOKENS, 4), RecurrentStack(4, MEMORY // 2, bidirectional=True))
        for _ in range(2)
    ]
    mechanisms = [
        location_sensitive(query_size=SIZE, memory_size=MEMORY, size=6, kernel_size=3),
        bahdanau(query_size=SIZE, memory_size=MEMORY, size=6),
    ]
    top = multi_head(query_size=SIZE, memory_size=MEMORY, size=6, num_heads=2) if hierarchical else None
    attention = Parallel(mechanisms, combination=top)
    width = RecurrentDecoder.input_size(4, SIZE, attention=attention, **options)
    stack = RecurrentStack(width, SIZE)
    decoder = RecurrentDecoder(
        TokenEmbedding(TOKENS, 4),
        stack,
        TokenHead(SIZE, TOKENS),
        Bridge(encoders[0].stack, stack, source=source),
        attention=attention,
        **options,
    )
    model = torch.nn.ModuleDict({"first": encoders[0], "second": encoders[1], "decoder": decoder})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
        decoder.head.projection.bias[laws.EOS] = -1
    return model


def encoding(model):
    def encode(sources, extra=0):
        encoded = [
            model[name].encode(*laws.padded([pair[index] for pair in sources], extra, fill=3))
            for index, name in enumerate(("first", "second"))
        ]
        return Encoded(*(tuple(getattr(one, name) for one in encoded) for name in ("memory", "mask", "final_state")))

    return encode


CASES = pytest.mark.parametrize(
    "options",
    [
        {},
        {"hierarchical": True},
        {"input_feeding": False},
        {"order": "attend_then_recur"},
        {"hierarchical": True, "input_feeding": False},
    ],
)


@CASES
def test_steps_over_two_memories_are_the_pass_over_the_whole_target(options):
    model = make(**options)
    memory = model["decoder"].prepare(encoding(model)(SOURCES))
    laws.steps_are_forward(model["decoder"], memory, torch.randint(1, TOKENS, (3, 5)))


@CASES
def test_neither_batch_nor_order_nor_padding_changes_outputs_or_gradients(options):
    model = make(**options)
    laws.batches_are_invisible(model, encoding(model), model["decoder"], SOURCES)


@CASES
def test_a_beam_over_several_sentences_is_each_alone_and_agrees_with_the_forced_pass(options):
    model = make(**options)
    laws.beams_are_alone_and_forced(encoding(model), model["decoder"], SOURCES)


@pytest.mark.parametrize("hierarchical", [False, True])
def test_alignments_have_a_name_a_memory_and_the_first_is_shown(hierarchical):
    model = make(hierarchical=hierarchical)
    decoder = model["decoder"]
    memory = decoder.prepare(encoding(model)(SOURCES))
    (best, *_), *_ = search(decoder, memory, Search(beam=2), bos=1, eos=2, max_length=4, alignment=True)
    widths = {name: tuple(weights.shape[::2]) for name, weights in best.alignments.items()}
    over_memories = {"attention.2": (2, 2)} if hierarchical else {}
    assert widths == {"attention.0": (1, 5), "attention.1": (1, 7)} | over_memories
    assert torch.equal(main_alignment(best.alignments, decoder), best.alignments["attention.0"][0])


@pytest.mark.parametrize("source", [0, 1])
def test_one_source_makes_the_first_state(source):
    model = make(source=source)
    encode, decoder = encoding(model), model["decoder"]
    first = decoder.prepare(encode(SOURCES)).first_state[0][0]
    changed = [list(pair) for pair in SOURCES]
    changed[0][1 - source] = torch.tensor([4, 4, 4])
    assert torch.equal(first, decoder.prepare(encode(changed)).first_state[0][0])
    changed[0][source] = torch.tensor([4, 4, 4])
    assert not torch.equal(first[0], decoder.prepare(encode(changed)).first_state[0][0][0])


def test_sources_without_last_states_need_a_bridge_that_tells_nothing():
    model = make()
    encoded = encoding(model)(SOURCES)
    told = Encoded(encoded.memory, encoded.mask)
    with pytest.raises(UnsupportedError, match="use bridge 'zero'"):
        model["decoder"].prepare(told)
    stack = model["decoder"].stack
    model["decoder"].bridge = Bridge(stack, stack, "zero")
    laws.steps_are_forward(model["decoder"], model["decoder"].prepare(told), torch.randint(1, TOKENS, (3, 4)))
