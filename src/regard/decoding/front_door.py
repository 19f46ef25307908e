"""`search`, which calls the search that its options ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from regard.config.search import Search
from regard.decoding.bayes_risk import Texts, mbr_search
from regard.decoding.beam import beam_search
from regard.decoding.constraint import Constraints
from regard.decoding.penalty import AbstractPenalty, refuse_penalty
from regard.decoding.processor import Processor, SearchSource
from regard.decoding.result import Hypothesis
from regard.decoding.sampling import sample
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
) -> list[list[Hypothesis]]:
    """Searches for the outputs of a batch of prepared sources.

    The mode of the decoder is not changed: call `.eval()` first, otherwise its dropout is active. Nothing is set on it,
    so threads may share it. The result of a sentence does not depend on the rest of its batch.

    Args:
        decoder: a module with the verbs of `regard.models.contract.Decoder`, or a `SimpleDecoder`.
        memory: `decoder.prepare(encoded)`, B rows in every leaf.
        options: beam search, greedy search, sampling or minimum Bayes risk; `Search()` if None.
        bos: the id that is the first input.
        eos: the id that ends a sentence.
        max_length: the largest number of tokens, including the end of sentence: a number, or (B,), one per sentence.
        alignment: whether hypotheses have their alignments, a row per token; a decoder without attention has none.
        penalty: ranks hypotheses instead of the options' `length_penalty`, beside their `coverage_penalty`; for method
            beam only.
        processors: change the log-probabilities of the next token, in order, after the blocking of n-grams.
        items: (B,) numbers from 0 to 2⁶³ − 1, by which samples differ for the same seed (`sample`); if None, the
            sentences are numbered from 0.
        source: ids and mask of the sources, for processors and for penalties that read the attention.
        text: for method mbr, makes texts of tokens (`minimum_bayes_risk`).
        min_length: the smallest number of tokens before the end of sentence: a number, or (B,), one per sentence; the
            options' one at least.
        unk: the id of the unknown token, for the options' penalty of it.
        constraints: for each sentence what its output must be like, or None; phrases that are to be included need a
            beam.

    Returns:
        For each sentence, best first: at most `num_best` hypotheses, or exactly so many samples. Their tensors are no
        inference tensors, so they may be used in training.

    Raises:
        ConfigError: for options or constraints that the search cannot keep.
        ShapeError: for outputs or limits of a wrong shape.
        RegardError: for NaN, logits instead of log-probabilities, or an eos outside the vocabulary.
    """
    options = Search() if options is None else options
    chosen: Callable[..., list[list[Hypothesis]]]
    if options.method == "beam":
        chosen = partial(beam_search, penalty=penalty)
    else:
        refuse_penalty(penalty, options)
        chosen = sample if options.method == "sampling" else partial(mbr_search, text=text)
    return chosen(
        decoder,
        memory,
        options,
        bos=bos,
        eos=eos,
        max_length=max_length,
        alignment=alignment,
        processors=processors,
        items=items,
        source=source,
        min_length=min_length,
        unk=unk,
        constraints=constraints,
    )
