"""The tokens of a search: one node per token, each with a pointer to the node before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.decoding.result import Hypothesis

ROOT = -1
"""The node before the first token."""


@dataclass(frozen=True, slots=True)
class StepNodes:
    """The nodes of an output step.

    Args:
        alignments: (R, H, S) by name; empty if they are not kept.
        auxiliary: the decoder's further outputs, (R, …) by name.
        nodes: in parts, each parents, tokens, log-probabilities and rows of M nodes, (M,).
    """

    alignments: dict[str, Tensor] = field(default_factory=dict)
    auxiliary: dict[str, Tensor] = field(default_factory=dict)
    nodes: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...] = ()


class History:
    """Nodes by level (output step), with the decoder's further outputs; nothing is copied until hypotheses are read.

    A node has its parent, its token, the token's log-probability, and its row at that step, which is the row of its
    alignment wherever the hypothesis moves later. Nodes are numbered in the order in which they are added.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._alignments: list[Mapping[str, Tensor]] = []
        self._auxiliary: list[Mapping[str, Tensor]] = []
        self._nodes: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self._count = 0

    def add(self, level: StepNodes) -> None:
        """Adds an output step."""
        self._starts.append(self._count)
        self._alignments.append(level.alignments)
        self._auxiliary.append(level.auxiliary)
        self._nodes.extend(level.nodes)
        self._count += sum(len(nodes[0]) for nodes in level.nodes)

    def read(self, nodes: Tensor, scores: Sequence[float], ended: Sequence[bool]) -> list[Hypothesis]:
        """The hypotheses whose last nodes are `nodes` (M,), with whether each reached the end of sentence."""
        if not len(nodes):
            return []
        _, tokens, log_probabilities, rows = self.nodes()
        path = self.path(nodes)
        lengths = (path != ROOT).sum(1).tolist()
        path = path[:, : max(1, *lengths)]
        real = path != ROOT
        anywhere = path.clamp(min=0)
        alignments = self._gather(rows[anywhere])
        levels = self._auxiliary[: path.shape[1]]
        auxiliary = {
            name: torch.stack([level[name].index_select(0, rows[anywhere[:, t]]) for t, level in enumerate(levels)], 1)
            for name in levels[0]
        }
        auxiliary = {name: values.cpu() for name, values in auxiliary.items()}
        totals = log_probabilities[anywhere].cpu().double().masked_fill_(~real.cpu(), 0).sum(1).tolist()
        chosen = path[real]
        sequences, costs = (values[chosen].cpu().split(lengths) for values in (tokens, log_probabilities))
        return [
            Hypothesis(
                tokens=sequences[m],
                log_probability=totals[m],
                score=scores[m],
                stop_reason="eos" if ended[m] else "length",
                token_log_probabilities=costs[m],
                alignments={name: weights[m, :, :length].clone() for name, weights in alignments.items()},
                auxiliary={name: values[m, :length].clone() for name, values in auxiliary.items()},
            )
            for m, length in enumerate(lengths)
        ]

    def nodes(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Parents, tokens, log-probabilities and rows of all nodes."""
        parents, tokens, log_probabilities, rows = (torch.cat(parts) for parts in zip(*self._nodes))
        return parents, tokens, log_probabilities, rows

    def path(self, nodes: Tensor, first: int = 0) -> Tensor:
        """The nodes (..., L) on the path to `nodes` (...), from the level `first` on; ROOT after the end."""
        parents = torch.cat([grown[0] for grown in self._nodes])
        path = nodes.new_full((*nodes.shape, len(self._starts) - first), ROOT)
        for level in reversed(range(first, len(self._starts))):
            here = nodes >= self._starts[level]
            path[..., level - first] = torch.where(here, nodes, ROOT)
            nodes = torch.where(here, parents[nodes.clamp(min=0)], nodes)
        return path

    def tokens(self, path: Tensor) -> Tensor:
        """The tokens of a path, -1 at ROOT."""
        tokens = torch.cat([grown[1] for grown in self._nodes])
        return tokens[path.clamp(min=0)].masked_fill(path == ROOT, -1)

    def read_part(self, path: Tensor, first: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Tokens (L,), their log-probabilities and alignments (H, L, S) of a part of a path that begins at `first`."""
        _, tokens, log_probabilities, rows = (torch.cat(parts)[path] for parts in zip(*self._nodes))
        alignments = {name: weights[0] for name, weights in self._gather(rows[None], first).items()}
        return tokens.cpu(), log_probabilities.cpu(), alignments

    def _gather(self, rows: Tensor, first: int = 0) -> dict[str, Tensor]:
        """(M, H, T, S) by name, from rows (M, T) at the levels from `first` on; after the end of a hypothesis their
        content is arbitrary."""
        levels = self._alignments[first : first + rows.shape[1]]
        gathered = {}
        for name in levels[0]:
            widest = max(level[name].shape[-1] for level in levels)
            steps = [level[name].index_select(0, rows[:, t]) for t, level in enumerate(levels)]
            gathered[name] = torch.stack([pad(step, (0, widest - step.shape[-1])) for step in steps], 2).cpu()
        return gathered
