from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.decoding import Search, SimpleDecoder, rescore, search

torch.set_num_threads(1)
BOS, EOS, N, SIZE = 0, 6, 7, 5


class Model(nn.Module):
    """A GRU that attends to its source, written for a batch and knowing nothing of beams."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N, SIZE)
        self.encoder = nn.GRU(SIZE, SIZE, batch_first=True)
        self.cell = nn.GRUCell(2 * SIZE, SIZE)
        self.output = nn.Linear(SIZE, N)

    def init(self, source):
        memory, last = self.encoder(self.embedding(source))
        return memory, (last[0], torch.zeros_like(last[0]))

    def step(self, ids, memory, state):
        hidden = self.cell(torch.cat([self.embedding(ids), state[1]], 1), state[0])
        weights = (memory @ hidden[:, :, None])[..., 0].softmax(1)
        context = (weights[:, None] @ memory)[:, 0]
        return (self.output(hidden + context) * 4).log_softmax(1), (hidden, context), weights


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().double()


@pytest.mark.parametrize(
    "options",
    [Search(beam=1), Search(beam=4, num_best=3), Search(method="sampling", num_best=3, seed=0)],
    ids=["greedy", "beam", "sample"],
)
def test_two_functions_get_every_search_with_the_right_alignments(model, options):
    decoder = SimpleDecoder(model.init, model.step)
    memory = decoder.prepare(torch.randint(0, N, (4, 9)))
    found = search(decoder, memory, options, bos=BOS, eos=EOS, max_length=8, alignment=True)
    for ours, theirs in zip(found, rescore(decoder, memory, found, bos=BOS), strict=True):
        for h, forced in zip(ours, theirs, strict=True):
            assert h.alignments["attention"].shape == (1, len(h.tokens), 9)
            assert h.log_probability == pytest.approx(forced.log_probability)
            torch.testing.assert_close(h.alignments["attention"], forced.alignments["attention"])


def test_a_step_that_reads_hypotheses_together_gets_the_memory_as_it_is(model):
    def together(ids, memory, state):
        hidden = model.cell(torch.cat([model.embedding(ids), state[1]], 1), state[0])
        weights = (hidden.view(len(memory), -1, SIZE) @ memory.transpose(1, 2)).softmax(2)
        context = (weights @ memory).flatten(0, 1)
        return (model.output(hidden + context) * 4).log_softmax(1), (hidden, context), weights.flatten(0, 1)

    source = torch.randint(0, N, (4, 9))
    results = []
    for decoder in (SimpleDecoder(model.init, model.step), SimpleDecoder(model.init, together, expand_memory=False)):
        found = search(decoder, decoder.prepare(source), Search(beam=4), bos=BOS, eos=EOS, max_length=8)
        results.append([(h.tokens.tolist(), pytest.approx(h.score)) for (h,) in found])
    assert results[0] == results[1]


def test_alignments_are_optional_and_left_out_unless_asked_for(model):
    source = torch.randint(0, N, (2, 4))
    decoder = SimpleDecoder(model.init, model.step)
    (h,), _ = search(decoder, decoder.prepare(source), Search(), bos=BOS, eos=EOS, max_length=5)
    assert h.alignments == {}
    blind = SimpleDecoder(model.init, lambda *arguments: model.step(*arguments)[:2])
    (h,), _ = search(blind, blind.prepare(source), Search(), bos=BOS, eos=EOS, max_length=5, alignment=True)
    assert h.alignments == {}


def test_forward_can_be_trained(model):
    decoder = SimpleDecoder(model.init, model.step)
    memory = decoder.prepare(torch.randint(0, N, (2, 4)))
    output = decoder.forward(torch.randint(0, N, (2, 3)), memory, alignment=True)
    assert output.log_probabilities.shape == (2, 3, N)
    assert output.alignments["attention"].shape == (2, 1, 3, 4)
    output.log_probabilities[..., 1].sum().backward()
    assert model.encoder.weight_ih_l0.grad.abs().sum() > 0
    with pytest.raises(ValueError, match=r"inputs must be \(B, T\) ids"):
        decoder.forward(torch.zeros(2, 0, dtype=torch.long), memory)
