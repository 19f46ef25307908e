"""`search`, which calls the search that its options ask for."""

from __future__ import annotations

from torch import Tensor

from regard.decoding.beam import beam_search
from regard.decoding.options import Sampling, Search
from regard.decoding.result import Hypothesis
from regard.decoding.sampling import sample
from regard.models.contract import Decoder, Tree


def search(
    decoder: Decoder,
    memory: Tree,
    options: Search | Sampling | None = None,
    *,
    bos: int,
    eos: int,
    max_length: int | Tensor,
    alignment: bool = False,
) -> list[list[Hypothesis]]:
    """Searches for the outputs of a batch of prepared sources.

    The mode of the decoder is not changed: call `.eval()` first, otherwise its dropout is active. Nothing is set on it,
    so threads may share it. The result of a sentence does not depend on the rest of its batch (except in sampling).

    Args:
        decoder: a module with the verbs of `regard.models.contract.Decoder`, or a `SimpleDecoder`.
        memory: `decoder.prepare(encoded)`, B rows in every leaf.
        options: `Search` (beam or greedy) or `Sampling`; `Search()` if None.
        bos: the id that is the first input.
        eos: the id that ends a sentence.
        max_length: the largest number of tokens, including the end of sentence: a number, or (B,), one per sentence.
        alignment: whether hypotheses have their alignments, a row per token; a decoder without attention has none.

    Returns:
        For each sentence, best first: at most `num_best` hypotheses, or `num_samples` samples. Their tensors are no
        inference tensors, so they may be used in training.

    Raises:
        ShapeError: for outputs or limits of a wrong shape.
        RegardError: for NaN, logits instead of log-probabilities, or an eos outside the vocabulary.
    """
    if isinstance(options, Sampling):
        return sample(decoder, memory, options, bos=bos, eos=eos, max_length=max_length, alignment=alignment)
    return beam_search(decoder, memory, options, bos=bos, eos=eos, max_length=max_length, alignment=alignment)
