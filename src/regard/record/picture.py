"""Recorded weights of one sentence as alignments with tokens, one for all layers of the same attention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.record.seen import Seen
from regard.shapes import Float
from regard.viz import Aligned

ROUNDING = 1e-6
"""Weights up to this count as 0 at positions after the last token."""
_NUMBER = re.compile(r"(?:^|(?<=\.))\d+(?=\.|$)")
_CROSS = re.compile("cross|encoder_attn|encdec|enc_dec|multihead_attn")


def aligned(
    seen: Seen,
    tokens: Sequence[str] | None,
    target_tokens: Sequence[str] | None,
    *,
    sentence: int,
    call: int | None,
    names: Sequence[str] | None,
) -> list[Aligned]:
    """An alignment (L, H, T, S) for each group of attentions whose names differ in the number of the layer only.

    Args:
        tokens, target_tokens, sentence, call, names: as in `Seen.plot`.
    """
    kinds: dict[tuple[str, tuple[int, ...]], dict[str, Tensor]] = {}
    for name in seen:
        if names is not None and not any(fnmatchcase(name, pattern) for pattern in names):
            continue
        weights = _of_sentence(seen, name, sentence, call)
        kind = _NUMBER.sub("*", name, count=1)
        kinds.setdefault((kind, tuple(weights.shape)), {})[name] = weights
    if not len(seen):
        raise RegardError("No attention was recorded, so there is nothing to plot.")
    if not kinds:
        raise RegardError(f"names={names} match none of the recorded attentions: {', '.join(seen)}.")
    return [
        _labelled(kind, list(layers), torch.stack(list(layers.values())), tokens, target_tokens)
        for (kind, _), layers in kinds.items()
    ]


def _of_sentence(seen: Seen, name: str, sentence: int, call: int | None) -> Float[Tensor, "H T S"]:
    if call is None:
        weights = seen.joined(name)
    else:
        calls = seen.calls(name)
        if not -len(calls) <= call < len(calls):
            raise ShapeError(f"call={call}, but {name} was called {len(calls)} times.")
        weights = calls[call]
    if not -len(weights) <= sentence < len(weights):
        raise ShapeError(f"sentence={sentence}, but the weights of {name} have {len(weights)} rows.")
    return weights[sentence].float().cpu()


def _labelled(
    kind: str,
    layers: list[str],
    weights: Float[Tensor, "L H T S"],
    tokens: Sequence[str] | None,
    target_tokens: Sequence[str] | None,
) -> Aligned:
    sources, targets = _sides(kind, weights, tokens, target_tokens)
    steps, positions = weights.shape[2:]
    for name, labels, size in (("target_tokens", targets, steps), ("tokens", sources, positions)):
        if labels is not None and len(labels) > size:
            raise ShapeError(f"{name} has {len(labels)} tokens, but {kind} has {size} positions.")
    if targets is not None:
        weights = weights[:, :, : len(targets)]
    if sources is not None:
        if bool((weights[..., len(sources) :] > ROUNDING).any()):
            raise ShapeError(
                f"tokens has {len(sources)} tokens, but {kind} has weight on later positions of its {positions}. "
                "Give a token for every position, also for those that the model adds."
            )
        weights = weights[..., : len(sources)]
    return Aligned(
        weights.numpy(),
        None if sources is None else tuple(sources),
        None if targets is None else tuple(targets),
        text=kind,
        layers=tuple(layers),
    )


def _sides(
    kind: str,
    weights: Float[Tensor, "L H T S"],
    tokens: Sequence[str] | None,
    target_tokens: Sequence[str] | None,
) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """The tokens of positions and of steps.

    Attention with T = S is self-attention: over the target if it is causal, else over the source. If source and target
    have equal lengths, names such as "cross" mark the attention between them.
    """
    steps, positions = weights.shape[2:]
    if target_tokens is None:
        return tokens, tokens if steps == positions else None
    if steps != positions or _CROSS.search(kind):
        return tokens, target_tokens
    is_causal = not bool((weights.triu(1) > ROUNDING).any())
    own, other = (target_tokens, tokens) if is_causal else (tokens, target_tokens)
    if own is not None and other is not None and len(own) > steps == len(other):
        own = other
    return own, own
