"""The front door of all searches."""

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
    """Searches outputs for a batch of prepared sources.

    The decoder is used in the mode it is in: call `.eval()` first, or its dropout is active. Nothing is set on it, so
    threads may share it. A sentence's result does not depend on the others in its batch (sampling excepted).

    Args:
        decoder: a module with the verbs of `regard.models.contract.Decoder`, or a `SimpleDecoder`.
        memory: `decoder.prepare(encoded)`, B rows in every leaf.
        options: `Search` (beam or greedy) or `Sampling`; None: `Search()`.
        bos: the id that is fed first.
        eos: the id that ends a sentence.
        max_length: the most tokens, the end of sentence included: one number, or (B,) a limit per sentence.
        alignment: whether hypotheses carry their alignments, a row per token; a decoder without attention has none.

    Returns:
        Per sentence, best first: `num_best` hypotheses or fewer, or `num_samples` samples. Their tensors do not
        belong to inference mode, so they may be trained on.

    Raises:
        ShapeError: for outputs or limits of a wrong shape.
        RegardError: for NaN, logits in place of log-probabilities, an eos outside the vocabulary.
    """
    if isinstance(options, Sampling):
        return sample(decoder, memory, options, bos=bos, eos=eos, max_length=max_length, alignment=alignment)
    return beam_search(decoder, memory, options, bos=bos, eos=eos, max_length=max_length, alignment=alignment)
