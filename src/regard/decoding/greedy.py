"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from torch import Tensor

from regard.decoding.options import Search
from regard.decoding.result import Hypothesis
from regard.decoding.rollout import roll_out
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree
from regard.ops import largest


def greedy_search(
    decoder: Decoder,
    memory: Tree,
    options: Search | None = None,
    *,
    bos: int,
    eos: int,
    max_length: int | Tensor,
    alignment: bool = False,
) -> list[list[Hypothesis]]:
    """Takes the most probable token at every step, the lower id among equals; one hypothesis per sentence.

    Args and Raises: as in `search`. A beam other than 1 is an error.
    """
    options = Search(beam=1) if options is None else options
    if options.beam != 1:
        raise ConfigError(f"Greedy search is beam=1; got beam={options.beam}. Call beam_search.", ("decoding", "beam"))
    return roll_out(
        decoder,
        memory,
        options,
        lambda log_probabilities: largest(log_probabilities, 1)[1],
        options.penalty,
        width=1,
        bos=bos,
        eos=eos,
        max_length=max_length,
        alignment=alignment,
    )
