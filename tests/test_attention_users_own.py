"""A score of the user's own: ten lines that train, decode with a beam and keep every law, the library untouched."""

from __future__ import annotations

import torch
from torch import nn

from regard.attention import AbstractScore, Mechanism, SoftmaxAlignment, WeightedSum, cite
from regard.decoding import Search, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.losses import cross_entropy
from regard.models import Bridge, EncoderDecoder, RecurrentDecoder, RecurrentEncoder
from regard.testing import check_mechanism

BOS, EOS, FIRST, NUM_TOKENS, SIZE = 0, 1, 2, 6, 32


class SineScore(AbstractScore):
    """e_j = Σ_d sin(W q)_d sin(U h_j)_d."""

    def __init__(self, query_size, memory_size, size):
        super().__init__()
        self.of_query, self.of_memory = nn.Linear(query_size, size), nn.Linear(memory_size, size)

    def prepare(self, source):
        return torch.sin(self.of_memory(source.keys))[:, :, None]

    def forward(self, inputs, state):
        keys = inputs.memory.score
        sine = torch.sin(self.of_query(inputs.query)).unflatten(0, (len(keys), -1))
        return torch.einsum("bkd,bsd->bks", sine, keys[:, :, 0]).flatten(0, 1)[:, None], state


def sine(query_size, memory_size):
    return Mechanism(SineScore(query_size, memory_size, 16), SoftmaxAlignment(), WeightedSum(memory_size))


def test_it_keeps_every_law():
    check_mechanism(sine(5, 6), query_size=5, memory_size=6)
    assert cite(sine(5, 6)) == ""


def test_it_trains_and_decodes_with_a_beam():
    encoder = RecurrentStack(SIZE, SIZE // 2, cell="gru", bidirectional=True)
    decoder = RecurrentStack(SIZE, SIZE, cell="gru")
    model = EncoderDecoder(
        RecurrentEncoder(TokenEmbedding(NUM_TOKENS, SIZE, padding=None), encoder),
        RecurrentDecoder(
            TokenEmbedding(NUM_TOKENS, SIZE, padding=None),
            decoder,
            TokenHead(SIZE, NUM_TOKENS),
            Bridge(encoder, decoder, "zero"),
            attention=sine(SIZE, SIZE),
            input_feeding=False,
        ),
    )
    draw = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def drawn(count):
        symbols = torch.randint(FIRST, NUM_TOKENS, (count, 4), generator=draw)
        return torch.cat([symbols, torch.full((count, 1), EOS)], 1)

    for _ in range(150):
        target = drawn(32)
        said = torch.cat([torch.full((32, 1), BOS), target[:, :-1]], 1)
        memory = model.decoder.prepare(model.encoder.encode(target))
        loss = cross_entropy(model.decoder(said, memory).log_probabilities, target)[0] / target.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source = drawn(20)
    memory = model.eval().decoder.prepare(model.encoder.encode(source))
    found = search(model.decoder, memory, Search(beam=4), bos=BOS, eos=EOS, max_length=8, alignment=True)
    right = [hypotheses[0].tokens.tolist() == row.tolist() for hypotheses, row in zip(found, source)]
    assert sum(right) >= 19
    assert found[0][0].alignments["attention"].shape == (1, 5, 5)
