"""Streaming: the symbols of outputs as soon as they are certain."""

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
from regard.decoding.result import Hypothesis, StopReason
from regard.decoding.search import steps_of
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """Further tokens of an output, n of them. Its tensors are ordinary tensors on the CPU.

    Args:
        sentence: the number of the sentence in the batch.
        tokens: (n,) long; none in a last increment that says only that the output has ended.
        token_log_probabilities: (n,).
        alignments: by name, (H, n, S), as in `Hypothesis`.
        hypothesis: the whole output in its last increment, else None.
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
    """The first hypothesis of `search` for every sentence, token by token while the search goes on.

    Greedy search and sampling give a token a step. A beam gives those on which all its hypotheses agree, unfinished
    ones and the best finished one: whichever wins in the end, they are part of it. So nothing is ever taken back.

    Increments of a sentence are in order; those of several sentences follow each other as they come. A stream that is
    not read on stops the search.

    Args: as in `search`.

    Raises:
        ConfigError: for options with which nothing is certain before the end: method mbr, several outputs, several
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
    if (refused := excluded(options, STREAM_EXCLUSIONS)) is not None:
        raise ConfigError(refused[1], ("decoding", refused[0]))
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
    given: Counter[int] = Counter()
    while True:
        with torch.inference_mode():
            event = next(steps, None)
        if event is None:
            return
        for increment in _certain(event, given) if isinstance(event, SearchProgress) else _rest(event, given):
            given[increment.sentence] += len(increment.tokens)
            yield increment


def _certain(event: SearchProgress, given: Counter[int]) -> Iterator[Increment]:
    """What the hypotheses of each sentence agree on and was not given yet."""
    sentences = event.sentences.tolist()
    first = min((given[sentence] for sentence in sentences), default=0)
    path = event.history.path(event.nodes, first)
    tokens = event.history.tokens(path)
    leading = event.possible.int().argmax(1)
    rows = torch.arange(len(leading), device=leading.device)
    agreed = ((tokens == tokens[rows, leading][:, None]) & (tokens >= 0)) | ~event.possible[..., None]
    counts = agreed.all(1).int().cumprod(1).sum(1).tolist()
    for m, (sentence, column, count) in enumerate(zip(sentences, leading.tolist(), counts, strict=True)):
        if first + count > given[sentence]:
            nodes = path[m, column, given[sentence] - first : count]
            yield Increment(sentence, *event.history.read_part(nodes, given[sentence]))


def _rest(event: Ended, given: Counter[int]) -> Iterator[Increment]:
    """What is left of outputs that are whole."""
    stops: list[StopReason] = ["eos" if ended else "length" for ended in event.ended.tolist()]
    hypotheses = event.history.read(event.nodes, event.scores.tolist(), stops)
    for sentence, h in zip(event.sentences.tolist(), hypotheses, strict=True):
        start = given[sentence]
        alignments = {name: weights[:, start:] for name, weights in h.alignments.items()}
        yield Increment(sentence, h.tokens[start:], h.token_log_probabilities[start:], alignments, h)
