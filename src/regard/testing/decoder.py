"""The conformance suite of decoders."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from regard.models import Encoded
from regard.testing.decoder_subject import DecoderSubject
from regard.testing.laws import decoders, free_runs, laws_of, searches
from regard.testing.mechanism import chosen_laws, keep_law, move_weights
from regard.testing.source import encode as encode_sources

DECODER_LAWS: Mapping[str, Callable[[DecoderSubject], None]] = laws_of(decoders, searches, free_runs)
"""Every law by its name; its docstring states the law."""

SEARCH_LAWS, FREE_RUN_LAWS = laws_of(searches).keys(), laws_of(free_runs).keys()


def check_decoder(
    decoder: Any,
    *,
    sources: Sequence[Any],
    num_tokens: int | None = None,
    num_features: int | None = None,
    bos: int = 0,
    eos: int = 1,
    encode: Callable[[Sequence[Any], int], Encoded] = encode_sources,
    only: Iterable[str] | None = None,
    exempt: Mapping[str, str] | None = None,
) -> None:
    """Tests a decoder against the contract; give a tiny one, in float64, with 3 to 6 tokens.

    The decoder is not changed: a copy is tested in evaluation mode, with slightly different weights.

    Args:
        decoder: a module with the interface of `regard.models.Decoder`.
        sources: two or more sentences of different length: `Source`, or other trees of tensors that `encode` accepts.
        num_tokens: the number of input ids, for a decoder of tokens.
        num_features: I, the number of inputs of a decoder of values: its F values and known future inputs. Give either
            `num_tokens` or `num_features`.
        bos, eos: the ids of the first input and of the end.
        encode: computes the argument of `decoder.prepare` from sentences and a number of further columns of padding.
        only: names of laws (`DECODER_LAWS`) to check; all if None.
        exempt: laws that do not hold by design, with the reasons.

    Raises:
        AssertionError: for a broken law; the text has its name and docstring, and the difference.
        ValueError: for an unknown law, an exemption without a reason, or fewer than two sources.
    """
    if (num_tokens is None) == (num_features is None):
        raise ValueError("Give num_tokens for a decoder of tokens or num_features for a decoder of values.")
    if len(sources) < 2:
        raise ValueError(f"Give two sources or more, of different length; got {len(sources)}.")
    names = chosen_laws(DECODER_LAWS, only, exempt)
    examined = decoder
    if isinstance(decoder, nn.Module):
        examined = copy.deepcopy(decoder).eval()
        move_weights(examined)
    subject = DecoderSubject(examined, tuple(sources), encode, num_tokens, num_features, bos, eos)
    others = FREE_RUN_LAWS if subject.has_tokens else SEARCH_LAWS
    for name in names:
        if name not in others:
            keep_law(name, DECODER_LAWS[name], subject, type(decoder).__name__)
