"""Several memories in one step."""

from __future__ import annotations

import torch

from regard.attention import Parallel, bahdanau, luong


def test_an_empty_source_takes_no_part_in_a_combination() -> None:
    combination = bahdanau(query_size=5, memory_size=6, size=4)
    parallel = Parallel(
        [bahdanau(query_size=5, memory_size=6, size=4), luong(query_size=5, memory_size=6)], combination=combination
    )
    sources = (torch.randn(2, 4, 6), torch.randn(2, 3, 6))
    memory = parallel.prepare(sources, lengths=(torch.tensor([4, 2]), torch.tensor([3, 0])))
    queries = torch.randn(6, 2, 5)
    attended, _ = parallel(queries, memory, alignment=True)
    weights = attended.alignment[-1]
    assert weights.shape == (6, 1, 2, 2)
    torch.testing.assert_close(weights[3:, ..., 0], torch.ones(3, 1, 2))
    alone, _ = parallel.mechanisms[0](queries, memory[0])
    torch.testing.assert_close(attended.context[3:], alone.context[3:])
    assert bool((weights[:3] > 0).all())
