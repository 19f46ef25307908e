"""Vectors of words from the documents that they occur in, with which training begins."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float
from regard.tasks.documents.encoded import EncodedDocuments

MOST_DOCUMENTS = 50_000
"""The most documents whose words are counted."""
OVERSAMPLING, ITERATIONS = 10, 4
"""Further directions and iterations of the singular value decomposition, for its accuracy."""


@torch.no_grad()
def word_vectors(documents: EncodedDocuments, num_words: int, size: int) -> Float[Tensor, "N D"]:
    """Latent semantic analysis: unit vectors that are close if words occur in the same documents.

    The matrix of words and documents (Deerwester et al. 1990) has (1 + log n) · (1 + log((1 + B) / (1 + b))) for a word
    that occurs n times in a document and in b of B documents; its columns are divided by their lengths. The vectors are
    its left singular vectors times the singular values, by the randomised algorithm of Halko et al. 2011, which draws
    from torch's global generator.

    Args:
        documents: at least one with words; of more than 50,000 every second, third, … is counted.
        num_words: N, the number of ids.
        size: D; elements beyond the number of documents are 0.

    Returns:
        The vector of each id, 0 for ids that do not occur.
    """
    stride = -(-len(documents) // MOST_DOCUMENTS)
    numbers = np.repeat(np.arange(len(documents), dtype=np.int32), documents.words)
    is_counted = numbers % stride == 0
    indices = np.stack([documents.flat[is_counted], numbers[is_counted] // stride]).astype(np.int64)
    shape = num_words, -(-len(documents) // stride)
    counts = _sparse(torch.from_numpy(indices), torch.ones(indices.shape[1]), shape).coalesce()
    words, columns = counts.indices()
    num_documents = words.bincount(minlength=num_words)
    values = (1 + counts.values().log()) * (1 + ((1 + shape[1]) / (1 + num_documents)).log())[words]
    lengths = values.new_zeros(shape[1]).index_add(0, columns, values**2).sqrt()
    rank = min(size, *shape)
    matrix = _sparse(counts.indices(), values / lengths[columns], shape)
    left, singular, _ = torch.svd_lowrank(matrix, min(rank + OVERSAMPLING, *shape), niter=ITERATIONS)
    vectors = functional.normalize(left[:, :rank] * singular[:rank])
    return functional.pad(vectors, (0, size - rank)) * (num_documents > 0)[:, None]


def _sparse(indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=True)
