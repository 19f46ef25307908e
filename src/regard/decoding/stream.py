"""Streaming: the tokens of outputs as soon as they are certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.config.combinations import STREAM_EXCLUSIONS, excluded
from regard.config.search import Search
from regard.decoding.constraint import Constraints
from regard.decoding.penalty import AbstractPenalty
from regard.decoding.processor import Processor, SearchSource
from regard.decoding.request import Ended, Request, SearchProgress, Steps
from regard.decoding.result import Hypothesis
from regard.decoding.search import steps_of
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """Further tokens of an output, n of them. Its tensors are ordinary tensors on the CPU.

    Args:
        sentence: the index of the sentence in the batch.
        tokens: (n,) long; the last increment may have none.
        token_log_probabilities: (n,).
        alignments: by name, (H, n, S), as in `Hypothesis`.
        hypothesis: the whole output, in its last increment; else None.
    """

    sentence: int
    tokens: Tensor
    token_log_probabilities: Tensor
    alignments: Mapping[str, Tensor] = field(default_factory=dict)
    hypothesis: Hypothesis | None = None


def stream(
    decoder: Decoder,
    memory: Tree,
    options: Search | None = None,
    *,
    bos: int,
    eos: int,
    max_length: int | Tensor,
    alignment: bool = False,
    penalty: AbstractPenalty | None = None,
    processors: Sequence[Processor] = (),
    items: Tensor | None = None,
    source: SearchSource | None = None,
    min_length: int | Tensor | None = None,
    unk: int | None = None,
    constraints: Sequence[Constraints | None] | None = None,
) -> Iterator[Increment]:
    """The first hypothesis of `search` for every sentence, token by token while the search runs.

    Greedy search and sampling yield one token per step. A beam search yields the tokens that all unfinished hypotheses
    and the best finished one have in common, so no token is ever revoked.

    The increments of a sentence are in order; those of different sentences are interleaved. The search runs only while
    the stream is read.

    Args: as in `search`.

    Raises:
        ConfigError: for options with which no token is certain before the end: method mbr, several outputs, several
            groups.
        ShapeError, RegardError: as in `search`.

    >>> from regard.decoding import SimpleDecoder
    >>> chain = torch.tensor([[0.1, 0.7, 0.2], [0.4, 0.1, 0.5], [0.1, 0.1, 0.8]]).log()
    >>> decoder = SimpleDecoder(lambda source: (source, None), lambda ids, memory, _: (chain[ids], None))
    >>> memory = decoder.prepare(torch.zeros(1, 4))
    >>> [each.tokens.tolist() for each in stream(decoder, memory, Search(beam=1), bos=0, eos=2, max_length=5)]
    [[1], [2]]
    """
    options = Search() if options is None else options
    if (exclusion := excluded(options, STREAM_EXCLUSIONS)) is not None:
        raise ConfigError(exclusion[1], ("decoding", exclusion[0]))
    request = Request(
        decoder=decoder,
        memory=memory,
        bos=bos,
        eos=eos,
        max_length=max_length,
        alignment=alignment,
        penalty=penalty,
        processors=processors,
        items=items,
        source=source,
        min_length=min_length,
        unk=unk,
        constraints=constraints,
        streaming=True,
    )
    return _increments(steps_of(request, options))


def _increments(steps: Steps) -> Iterator[Increment]:
    num_yielded: Counter[int] = Counter()
    while True:
        with torch.inference_mode():
            event = next(steps, None)
        if event is None:
            return
        further = _certain(event, num_yielded) if isinstance(event, SearchProgress) else _rest(event, num_yielded)
        for increment in further:
            num_yielded[increment.sentence] += len(increment.tokens)
            yield increment


def _certain(event: SearchProgress, num_yielded: Counter[int]) -> Iterator[Increment]:
    """The tokens that all hypotheses of a sentence have in common and that have not been yielded yet."""
    sentences = event.sentences.tolist()
    first = min((num_yielded[sentence] for sentence in sentences), default=0)
    path = event.history.path(event.nodes, first)
    tokens = event.history.tokens(path)
    leading = event.possible.int().argmax(1)
    rows = torch.arange(len(leading), device=leading.device)
    agreed = ((tokens == tokens[rows, leading][:, None]) & (tokens >= 0)) | ~event.possible[..., None]
    counts = agreed.all(1).int().cumprod(1).sum(1).tolist()
    for m, (sentence, column, count) in enumerate(zip(sentences, leading.tolist(), counts, strict=True)):
        start = num_yielded[sentence]
        if first + count > start:
            yield Increment(sentence, *event.history.read_part(path[m, column, start - first : count], start))


def _rest(event: Ended, num_yielded: Counter[int]) -> Iterator[Increment]:
    """The tokens of complete outputs that have not been yielded yet."""
    hypotheses = event.history.read(event.nodes, event.scores.tolist(), event.ended.tolist())
    for sentence, h in zip(event.sentences.tolist(), hypotheses, strict=True):
        start = num_yielded[sentence]
        alignments = {name: weights[:, start:] for name, weights in h.alignments.items()}
        yield Increment(sentence, h.tokens[start:], h.token_log_probabilities[start:], alignments, h)
