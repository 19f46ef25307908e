"""What processors and penalties are told about hypotheses, sentences and sources."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, sources, without
from regard.decoding import AbstractPenalty, Candidates, NoPenalty, Search, SearchSource, rescore, search
from regard.errors import ShapeError, UnsupportedError

torch.set_num_threads(1)
METHODS = [Search(beam=1), Search(beam=4, num_best=4), Search(method="sampling", num_best=4, seed=0)]
EOS = 5


def padded(batch):
    """Ids and mask of sources, (B, S); an id is the number of the sentence times 100 plus the position."""
    width = max(map(len, batch))
    ids = torch.tensor([[100 * b + j for j in range(width)] for b in range(len(batch))])
    return SearchSource(ids, torch.tensor([[j < len(source) for j in range(width)] for source in batch]))


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_a_processor_sees_the_sentence_the_source_and_the_weights_of_the_hypothesis_that_it_changes(options):
    decoder, batch = HistoryDecoder(6, 4), sources(5, 3)
    source, items = padded(batch), torch.tensor([70, 71, 72, 73, 74])
    alone = [decoder.prepare([one]) for one in batch]
    checked = []

    class Check:
        uses_weights = True

        def __call__(self, log_probabilities, state):
            for row in range(len(state.tokens)):
                b, tokens = int(state.sentences[row]), state.tokens[row].tolist()
                if state.ended[row]:
                    assert EOS in tokens
                    continue
                real = source.mask[b].sum()
                assert state.source.ids[b, 0] == 100 * b
                assert state.items[b] == 70 + b
                assert state.eos == EOS
                if EOS in tokens:  # a hypothesis that only fills the beam
                    continue
                forced = decoder.forward(torch.tensor([[BOS, *tokens]]), alone[b])
                steps = forced.alignments["main"][0].mean(0)
                torch.testing.assert_close(state.log_probabilities[row], forced.log_probabilities[0, -1])
                torch.testing.assert_close(state.weights[row, :real], steps.sum(0))
                assert not state.weights[row, real:].any()
                assert state.peaks[row].tolist() == steps.argmax(1).tolist()
                checked.append((b, len(tokens)))
            return log_probabilities

    limits = torch.tensor([3, 8, 5, 8, 6])
    found = search(
        decoder,
        decoder.prepare(batch),
        options,
        bos=BOS,
        eos=EOS,
        max_length=limits,
        processors=[Check()],
        items=items,
        source=source,
    )
    assert {b for b, _ in checked} == set(range(5))
    assert max(length for _, length in checked) >= 4
    assert all(h.alignments == {} for hypotheses in found for h in hypotheses)


@dataclass(frozen=True)
class Covering(AbstractPenalty):
    """log P plus ten times the smallest weight of a real position, twice that for what has ended."""

    uses_weights = True

    def score(self, candidates: Candidates) -> torch.Tensor:
        least = candidates.weights.masked_fill(~candidates.mask, math.inf).amin(-1)
        return candidates.log_probabilities + least * torch.where(torch.as_tensor(candidates.ended), 20.0, 10.0)


@pytest.mark.parametrize("options", METHODS[:2], ids=str)
@pytest.mark.parametrize("case", ["ends", "never ends", "dead end"])
def test_a_penalty_sees_the_weights_of_the_hypothesis_that_it_ranks_and_whether_it_has_ended(options, case):
    decoder, batch = HistoryDecoder(6, 4, scale=1.0), sources(5, 3)
    if case == "never ends":
        decoder = Altered(decoder, without(EOS))
    if case == "dead end":
        known = without(EOS)
        decoder = Altered(
            decoder, lambda said, step: known(said, step) if step <= 3 else torch.full_like(said, -math.inf)
        )
    decoder.main_attention = "main"
    memory, told = decoder.prepare(batch), {"bos": BOS, "eos": EOS, "max_length": torch.tensor([3, 8, 5, 8, 6])}
    found = search(decoder, memory, options, penalty=Covering(), alignment=True, source=padded(batch), **told)
    ended = 0
    for one, hypotheses, again in zip(batch, found, rescore(decoder, memory, found, bos=BOS), strict=True):
        for h, forced in zip(hypotheses, again, strict=True):
            least = forced.alignments["main"].mean(0).sum(0)[: len(one)].min().item()
            factor = 20 if h.stop_reason == "eos" else 10
            assert h.score == pytest.approx(h.log_probability + factor * least, abs=1e-9)
            ended += h.stop_reason == "eos"
    assert (ended > 0) == (case == "ends")


def test_a_penalty_that_reads_weights_changes_the_ranks_and_stops_at_no_bound_that_may_be_wrong():
    decoder, batch, steps = HistoryDecoder(6, 4, scale=1.0), sources(5, 3), []

    def counted(said, step):
        steps.append(step)
        return said

    counting = Altered(decoder, counted)
    counting.main_attention = "main"
    told = {"bos": BOS, "eos": EOS, "max_length": 9, "source": padded(batch)}
    plain = search(counting, decoder.prepare(batch), Search(beam=4), penalty=NoPenalty(), **told)
    early, steps[:] = max(steps), []
    covered = search(counting, decoder.prepare(batch), Search(beam=4), penalty=Covering(), **told)
    assert max(steps) == 9 > early
    assert [h.tokens.tolist() for (h,) in plain] != [h.tokens.tolist() for (h,) in covered]


def test_nothing_is_kept_that_nobody_asks_for():
    decoder, batch, asked, states = HistoryDecoder(6, 4), sources(3), [], []
    step = decoder.step
    decoder.step = lambda *given, alignment, **more: (
        asked.append(alignment) or step(*given, alignment=alignment, **more)
    )

    def watch(log_probabilities, state):
        states.append(state)
        return log_probabilities

    told = {"bos": BOS, "eos": EOS, "max_length": 4}
    for options in METHODS:
        search(decoder, decoder.prepare(batch), options, processors=[watch], **told)
    assert set(asked) == {False}
    assert all(state.weights is None and state.peaks is None and state.source is None for state in states)


def test_a_decoder_without_attention_and_sources_of_another_shape_are_refused():
    decoder = HistoryDecoder(6, 4)
    memory, told = decoder.prepare(sources(3)), {"bos": BOS, "eos": EOS, "max_length": 4}
    for source in (SearchSource(torch.zeros(2, 6).long()), SearchSource(mask=torch.ones(3).bool())):
        with pytest.raises(ShapeError, match=r"source\.(ids|mask) must be \(B=3, S\)"):
            search(decoder, memory, source=source, **told)
    with pytest.raises(ShapeError, match=r"source\.mask must be bool"):
        search(decoder, memory, source=SearchSource(mask=torch.ones(3, 6)), **told)
    step = decoder.step
    decoder.step = lambda *given, alignment, **more: step(*given, alignment=False, **more)
    with pytest.raises(
        UnsupportedError, match="processor reads the weights of the attention, but the decoder returns none"
    ):
        search(decoder, memory, penalty=Covering(), **told)
