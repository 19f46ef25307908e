"""The attention of Grammar as a Foreign Language."""

from __future__ import annotations

from regard.attention.alignments import SoftmaxAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore


def vinyals(
    *,
    query_size: int,
    memory_size: int,
    size: int | None = None,
    num_heads: int = 1,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention by heads of full width: e_j = vᵀ tanh(W₁ h_j + W₂ d + b), contexts concatenated.

    The query d is the whole state of the decoder (`query: state` of a decoder; h and c of every layer).

    Args:
        query_size, memory_size: Q and M.
        size: width of each head's hidden layer; M if None.
        num_heads: each head has its own W₁, W₂ and v.
        window: which positions may be attended to; all if None.

    Source: Vinyals et al. 2015, Grammar as a Foreign Language (arXiv 1412.7449), section 2; with several heads,
    attention_decoder of TensorFlow's legacy_seq2seq.
    """
    return Mechanism(
        AdditiveScore(
            query_size, memory_size, (memory_size if size is None else size) * num_heads, num_heads=num_heads, bias=True
        ),
        SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
        sources=("vinyals2015",),
    )
