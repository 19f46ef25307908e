"""Every operation, with inputs in float64."""

from __future__ import annotations

import torch

from regard import ops
from support.cases.case import OperationCase, draw, probabilities

_SUPPORT = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0, 0, 0]]).bool()

OPERATIONS: tuple[OperationCase, ...] = (
    OperationCase(
        "additive energies",
        (ops.additive_energies,),
        lambda: (draw(3, 2, 4), draw(3, 5, 4, seed=1), draw(4, seed=2)),
    ),
    OperationCase(
        "additive attention",
        (ops.additive_attention,),
        lambda: (draw(3, 2, 4, 4), draw(3, 5, 4, 4, seed=1), draw(4, 4, seed=2), draw(3, 5, 2, 3, seed=3), _SUPPORT),
    ),
    OperationCase(
        "dot attention",
        (ops.dot_attention,),
        lambda: (draw(3, 2, 4, 4), draw(3, 5, 2, 4, seed=1), draw(3, 5, 2, 4, seed=2), _SUPPORT[:, None]),
    ),
    OperationCase(
        "location energies",
        (ops.location_energies,),
        lambda: (
            draw(3, 2, 2, 4),
            draw(3, 5, 2, 4, seed=1),
            draw(3, 2, 2, 2, 5, seed=2),
            draw(2, 4, 2, 3, seed=3) / 3,
            draw(2, 4, 4, seed=4) / 2,
            draw(2, 4, seed=5),
        ),
    ),
    OperationCase(
        "location energies of a plane",
        (ops.location_energies,),
        lambda: (
            draw(2, 2, 1, 4),
            draw(2, 6, 1, 4, seed=1),
            draw(2, 2, 1, 2, 2, 3, seed=2),
            draw(1, 4, 2, 3, 1, seed=3) / 3,
            draw(1, 4, 4, seed=4) / 2,
            draw(1, 4, seed=5),
        ),
    ),
    OperationCase("product with a weight", (ops.linear,), lambda: (draw(3, 5, 4), draw(2, 4, seed=1), draw(2, seed=2))),
    OperationCase("masked softmax", (ops.masked_softmax,), lambda: (draw(3, 5), _SUPPORT)),
    OperationCase("softmax without mask", (ops.masked_softmax,), lambda: (draw(3, 5),)),
    OperationCase(
        "expected monotonic alignment",
        (ops.expected_monotonic_alignment,),
        lambda: (probabilities(3, 5), probabilities(3, 5, seed=1) / 5),
    ),
    OperationCase(
        "expected monotonic alignment, long",
        (ops.expected_monotonic_alignment,),
        lambda: (probabilities(2, 21), probabilities(2, 21, seed=1) / 21),
    ),
    OperationCase(
        "clipped monotonic alignment",
        (ops.clipped_monotonic_alignment,),
        lambda: (probabilities(3, 5), probabilities(3, 5, seed=1) / 5),
    ),
    OperationCase(
        "hard monotonic alignment",
        (ops.hard_monotonic_alignment,),
        lambda: (probabilities(3, 5), probabilities(3, 5, seed=1) / 5),
    ),
    OperationCase(
        "moving chunk softmax",
        (ops.moving_chunk_softmax,),
        lambda: (probabilities(3, 2, 5) / 5, draw(3, 2, 5, seed=1), _SUPPORT[:, None], 3),
    ),
    OperationCase(
        "dropout by item",
        (ops.dropout,),
        lambda: (draw(3, 130), torch.tensor([7, 2, 7]), torch.tensor([0, 5, 1]), 0.3, (1, 2), 9),
    ),
    OperationCase("hardmax", (ops.hardmax,), lambda: (draw(3, 5), _SUPPORT)),
    OperationCase("sparsemax", (ops.sparsemax,), lambda: (draw(3, 5), _SUPPORT)),
    OperationCase("sparsemax without mask", (ops.sparsemax,), lambda: (draw(3, 5),)),
    OperationCase("entmax", (ops.entmax,), lambda: (draw(3, 5), _SUPPORT)),
    OperationCase("entmax of 2", (ops.entmax,), lambda: (draw(3, 5), None, 2.0)),
    OperationCase("entmax of 1.3", (ops.entmax,), lambda: (draw(3, 5), _SUPPORT, 1.3)),
    OperationCase("entmax, an alpha each", (ops.entmax,), lambda: (draw(3, 5), _SUPPORT, 1 + probabilities(3, 1))),
    OperationCase("rotation", (ops.rotate,), lambda: (draw(3, 2, 5), draw(3, 2, seed=1))),
    OperationCase("rotation of all features", (ops.rotate,), lambda: (draw(3, 2, 4), draw(3, 2, seed=1))),
    OperationCase("rotation of halves", (ops.rotate,), lambda: (draw(3, 2, 4), draw(3, 2, seed=1), "half")),
    OperationCase(
        "moving chunk softmax, infinite",
        (ops.moving_chunk_softmax,),
        lambda: (probabilities(3, 2, 5) / 5, draw(3, 2, 5, seed=1), _SUPPORT[:, None], None),
    ),
    OperationCase(
        "forward alignment",
        (ops.forward_alignment,),
        lambda: (draw(3, 2, 5), probabilities(3, 2, 5, seed=1), probabilities(3, 2, seed=2), _SUPPORT[:, None]),
    ),
    OperationCase("weighted sum", (ops.weighted_sum,), lambda: (probabilities(3, 2, 5), draw(3, 5, 1, 6, seed=1))),
    OperationCase("safe logarithm", (ops.safe_log,), lambda: (probabilities(3, 5) + 0.1,)),
    OperationCase("sum of logarithms", (ops.log_add,), lambda: (draw(3, 5), draw(3, 5, seed=1))),
)
