from __future__ import annotations

import pytest
import torch

from decoders import BOS, HistoryDecoder, score, sources
from regard.decoding import GnmtPenalty, Search, force_align, rerank, rescore, reverse, search
from regard.errors import ConfigError, ShapeError

torch.set_num_threads(1)
EOS = 4


def found_by_two():
    first, second, batch = HistoryDecoder(5, 6, scale=1.0), HistoryDecoder(5, 7, scale=1.0), sources(6)
    options = Search(beam=5, num_best=25)
    found = search(first, first.prepare(batch), options, bos=BOS, eos=EOS, max_length=5, alignment=True)
    return batch, found, second, rescore(second, second.prepare(batch), reverse(found), bos=BOS)


@pytest.mark.parametrize("weight", [0.0, 0.6, 1.0])
def test_the_order_is_by_both_scores_as_lists_compute_them(weight):
    batch, found, second, rescored = found_by_two()
    ours = rerank(found, rescored, weight=weight, penalty=GnmtPenalty(0.6))
    moved = 0
    for source, ranked, again in zip(batch, found, ours, strict=True):
        expected = []
        for h in ranked:
            tokens = h.tokens.tolist()
            turned = [*reversed(tokens[:-1]), EOS] if tokens[-1] == EOS else tokens[::-1]
            (forced,) = force_align(second, second.prepare([source]), [turned], bos=BOS, eos=EOS)
            other = score(forced.log_probability, len(tokens), "gnmt", 0.6)
            expected.append((h.stop_reason != "eos", -((1 - weight) * h.score + weight * other), tokens))
        expected.sort()
        assert [h.tokens.tolist() for h in again] == [tokens for _, _, tokens in expected]
        assert [-h.score for h in again] == pytest.approx([total for _, total, _ in expected])
        by_tokens = {tuple(h.tokens.tolist()): h for h in ranked}
        for h in again:
            before = by_tokens[tuple(h.tokens.tolist())]
            assert h.log_probability == before.log_probability
            assert h.alignments is before.alignments
        moved += again[0].tokens.tolist() != ranked[0].tokens.tolist()
    assert (moved > 0) == (weight > 0)
    assert [len(h) for h in rerank(found, rescored, num_best=2)] == [2] * len(found)


def test_what_is_reversed_twice_is_as_it_was_and_rows_follow_their_tokens():
    _, found, _, _ = found_by_two()
    kinds = set()
    for ranked, turned, again in zip(found, reverse(found), reverse(reverse(found)), strict=True):
        for h, other, back in zip(ranked, turned, again, strict=True):
            kinds.add(h.stop_reason)
            assert back.tokens.tolist() == h.tokens.tolist()
            torch.testing.assert_close(back.alignments["main"], h.alignments["main"])
            ended = h.stop_reason == "eos"
            last = len(h.tokens) - ended
            for t in range(last):
                assert other.tokens[t] == h.tokens[last - 1 - t]
                assert other.token_log_probabilities[t] == h.token_log_probabilities[last - 1 - t]
                torch.testing.assert_close(other.alignments["main"][:, t], h.alignments["main"][:, last - 1 - t])
            assert not ended or other.tokens[-1] == EOS
    assert kinds == {"eos", "length"}


def test_what_cannot_be_reranked_is_refused():
    _, found, _, rescored = found_by_two()
    with pytest.raises(ConfigError, match=r"weight=1\.5: expected a number from 0 to 1"):
        rerank(found, rescored, weight=1.5)
    with pytest.raises(ShapeError, match="must have the same lengths"):
        rerank(found, rescored[:1])
