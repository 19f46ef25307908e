"""`search`: beam search, greedy search, sampling and minimum Bayes risk."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Generator, Tensor

from regard.config.search import Search
from regard.decoding.bayes_risk import Texts, minimum_bayes_risk
from regard.decoding.beam import beam_steps
from regard.decoding.constraint import Constraints
from regard.decoding.keep_finished import kept_steps
from regard.decoding.penalty import AbstractPenalty
from regard.decoding.processor import Processor, SearchSource
from regard.decoding.request import Request, Steps, exhausted
from regard.decoding.result import Hypothesis
from regard.decoding.rollout import greedy_steps
from regard.decoding.sampling import drawing_steps
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree


def search(
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
    text: Texts | None = None,
    min_length: int | Tensor | None = None,
    unk: int | None = None,
    constraints: Sequence[Constraints | None] | None = None,
    generator: Generator | None = None,
) -> list[list[Hypothesis]]:
    """Searches for the outputs of a batch of prepared sources.

    Call `decoder.eval()` first, otherwise dropout is active. Nothing is set on the decoder, so threads may share it.
    The result of a sentence does not depend on the rest of its batch.

    Args:
        decoder: a module with the methods of `regard.models.contract.Decoder`, or a `SimpleDecoder`.
        memory: `decoder.prepare(encoded)`, B rows in every leaf.
        options: the method and its settings; `Search()`, a beam search, if None.
        bos: the id that is the first input.
        eos: the id that ends a sentence.
        max_length: the largest number of tokens, including the end of sentence: a number, or (B,), one per sentence.
        alignment: whether hypotheses have alignments, a row per token; a decoder without attention has none.
        penalty: replaces the options' `length_penalty`; for method beam only.
        processors: change the log-probabilities of the next token, in order, after those of the options.
        items: (B,) numbers from 0 to 2⁶³ − 1 that make samples with the same seed differ; if None, the sentences are
            numbered from 0.
        source: ids and mask of the sources, for processors and for penalties that read the attention.
        text: for method mbr, converts tokens to text (`minimum_bayes_risk`).
        min_length: the smallest number of tokens before the end of sentence, at least that of the options: a number, or
            (B,), one per sentence.
        unk: the id of the unknown token, for `unknown_penalty`.
        constraints: for each sentence the constraints on its output, or None; phrases to include need a beam.
        generator: for samples, instead of a seed; on the memory's device. A decoder that draws itself (hard attention)
            gets it, or one with the seed; such draws do depend on the batch.

    Returns:
        For each sentence, best first: at most `num_best` hypotheses, or exactly that many samples. Their tensors are
        ordinary ones, not inference tensors, so they may be used in training.

    Raises:
        ConfigError: for options or constraints that the search cannot satisfy.
        ShapeError: for outputs or limits of a wrong shape.
        RegardError: for NaN, logits instead of log-probabilities, or an eos outside the vocabulary.
    """
    options = Search() if options is None else options
    if generator is not None and options.method == "beam":
        raise ConfigError("A generator draws samples; method beam draws nothing.", ("decoding", "method"))
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
        generator=generator,
    )
    if options.method != "mbr":
        return exhausted(steps_of(request, options))
    drawn = exhausted(drawing_steps(request, options, options.num_samples))
    return minimum_bayes_risk(drawn, utility=options.utility, num_best=options.num_best, text=text)


def steps_of(request: Request, options: Search) -> Steps:
    """The steps of the search that the options select, except minimum Bayes risk."""
    if options.method == "sampling":
        return drawing_steps(request, options, options.num_best)
    if options.keep_finished:
        return kept_steps(request, options)
    return greedy_steps(request, options) if options.beam == 1 else beam_steps(request, options)
