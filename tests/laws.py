"""Laws that every decoder keeps, as assertions on a decoder, what encodes its sources, and sources of any length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard import tree
from regard.decoding import Hypothesis, Search, rescore, search

BOS, EOS = 1, 2
Encode = Callable[..., Any]


def padded(sources: Sequence[Tensor], extra: int = 0, fill: int = 0) -> tuple[Tensor, Tensor]:
    """Ids (B, S + extra) and their mask, True at real positions."""
    width = max(map(len, sources), default=0) + extra
    ids = torch.full((len(sources), width), fill)
    for row, source in zip(ids, sources, strict=True):
        row[: len(source)] = source
    return ids, torch.arange(width) < torch.tensor([len(source) for source in sources])[:, None]


def close(ours: Tensor, theirs: Tensor) -> None:
    """Equal to 1e-10; gradients are sums of hundreds, whose rounding grows with them."""
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-10)


def steps_are_forward(decoder: Any, memory: Any, inputs: Tensor) -> None:
    """The loop of steps says and sees what the pass over the whole target does, with finite numbers or -inf."""
    whole = decoder(inputs, memory, alignment=True)
    assert not whole.log_probabilities.isnan().any()
    state = decoder.initial_state(memory)
    for t, ids in enumerate(inputs.unbind(1)):
        output, state = decoder.step(ids, memory, state, alignment=True)
        close(output.log_probabilities, whole.log_probabilities[:, t])
        assert output.alignments.keys() == whole.alignments.keys()
        for name, weights in output.alignments.items():
            close(weights, whole.alignments[name][:, :, t])
    assert decoder.main_attention in whole.alignments
    assert not decoder(inputs, memory).alignments


def batches_are_invisible(model: torch.nn.Module, encode: Encode, decoder: Any, sources: Sequence[Any]) -> None:
    """A sentence alone, in a batch, in another order and beside 50 columns of padding: the same outputs, gradients."""
    count = len(sources)
    inputs = torch.randint(1, 6, (count, 4), generator=torch.Generator().manual_seed(1))
    weights = torch.rand(count, 4, 99, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def run(rows: Sequence[int], extra: int = 0) -> tuple[list[Tensor], list[Tensor]]:
        model.zero_grad()
        memory = decoder.prepare(encode([sources[row] for row in rows], extra))
        said = decoder(inputs[list(rows)], memory).log_probabilities
        finite = said > -math.inf
        (torch.where(finite, said, 0) * weights[list(rows), :, : said.shape[2]]).sum().backward()
        parameters = model.parameters()
        return list(said.detach()), [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]

    said, gradients = run(range(count))
    assert all(gradient.isfinite().all() for gradient in gradients)
    alone = [run([row]) for row in range(count)]
    for ours, (theirs, _) in zip(said, alone, strict=True):
        close(ours[:, : theirs[0].shape[1]], theirs[0])
        assert (ours[:, theirs[0].shape[1] :] == -math.inf).all()
    for ours, theirs in zip(gradients, zip(*(own for _, own in alone), strict=True), strict=True):
        close(ours, sum(theirs, torch.zeros_like(ours)))
    order = list(reversed(range(count)))
    for again, extra in ((order, 0), (range(count), 50)):
        other, other_gradients = run(again, extra)
        for row, theirs in zip(again, other, strict=True):
            close(said[row], theirs)
        for ours, theirs in zip(gradients, other_gradients, strict=True):
            close(ours, theirs)


def beams_are_alone_and_forced(encode: Encode, decoder: Any, sources: Sequence[Any], length: int = 6) -> None:
    """A beam over all sentences finds what it finds for each alone; scores and alignments are the forced pass's."""
    options = Search(beam=5, num_best=5)
    memory = decoder.prepare(encode(sources))
    assert tree.rows(memory) == len(sources)
    assert tree.rows(decoder.initial_state(memory, 5)) == len(sources) * 5
    found = search(decoder, memory, options, bos=BOS, eos=EOS, max_length=length, alignment=True)
    assert len({tuple(h.tokens.tolist()) for ranked in found for h in ranked}) > 5
    for ranked, forced in zip(found, rescore(decoder, memory, found, bos=BOS), strict=True):
        for ours, theirs in zip(ranked, forced, strict=True):
            close(ours.token_log_probabilities, theirs.token_log_probabilities)
            assert ours.alignments
            for name, weights in ours.alignments.items():
                close(weights, theirs.alignments[name])
    for source, ranked in zip(sources, found, strict=True):
        own = decoder.prepare(encode([source]))
        alone = search(decoder, own, options, bos=BOS, eos=EOS, max_length=length, alignment=True)[0]
        assert [h.tokens.tolist() for h in alone] == [h.tokens.tolist() for h in ranked]
        for ours, theirs in zip(ranked, alone, strict=True):
            assert math.isclose(ours.score, theirs.score, abs_tol=1e-9)
            for name, weights in theirs.alignments.items():
                width = weights.shape[-1]
                close(ours.alignments[name][..., :width], weights)
                assert not ours.alignments[name][..., width:].any()


def a_wide_beam_is_exhaustive(decoder: Any, memory: Any, num_tokens: int, length: int) -> None:
    """A beam that loses nothing finds the best of all outputs of one sentence."""
    expected = []
    for tokens in itertools.product(range(num_tokens), repeat=length):
        cut = next((i + 1 for i, token in enumerate(tokens) if token == EOS), length)
        if tokens[cut:] != (0,) * (length - cut):
            continue
        said = decoder(torch.tensor([[BOS, *tokens[: cut - 1]]]), memory).log_probabilities[0].detach()
        total = float(said[range(cut), tokens[:cut]].sum())
        if total > -math.inf:
            expected.append((tokens[cut - 1] != EOS, -total, list(tokens[:cut])))
    options = Search(beam=num_tokens * (num_tokens - 1) ** (length - 1), num_best=20, length_penalty="none")
    found: list[Hypothesis] = search(decoder, memory, options, bos=BOS, eos=EOS, max_length=length)[0]
    assert [h.tokens.tolist() for h in found] == [tokens for _, _, tokens in sorted(expected)[:20]]
