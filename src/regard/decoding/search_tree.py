"""The tree of a search: which continuations of an output were kept, which were pruned, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, Literal

from regard.decoding.result import Hypothesis
from regard.errors import RegardError

NodeState = Literal["kept", "pruned", "ended", "returned"]
NAMES = (
    *("id", "parent", "step", "token", "text", "is_end"),
    *("log_probability", "total", "score", "state", "why", "group"),
)
"""The names of a node's entries in JSON, in their order."""


@dataclass(frozen=True, slots=True)
class SearchNode:
    """A token of a search, after the tokens on the path from the root.

    Args:
        id: its place in `SearchTree.nodes`.
        parent: the id of the node before it; None of the root, which stands for the empty output.
        step: the number of tokens on its path.
        token: None of the root.
        log_probability: of the token by the model, in nats.
        total: the sum of log-probabilities on the path, as processors and groups change them; -inf if it is forbidden.
        score: with the penalty; None for what the search has not ranked by it.
        state: `kept` in the beam of its step, `pruned`, `ended` with the end symbol, or the last token of what is
            `returned`.
        why: why it is not, or does not lead to, one of the returned outputs; empty for the others.
        group: of a search with groups, counted from 0.
        is_end: whether the token is the end symbol.
        text: the token as text; filled in by models.
    """

    id: int
    parent: int | None
    step: int
    token: int | None
    log_probability: float
    total: float
    score: float | None
    state: NodeState
    why: str = ""
    group: int = 0
    is_end: bool = False
    text: str = ""

    def record(self) -> dict[str, Any]:
        """The node as a JSON object; infinities are null."""
        numbers = {
            name: value if (value := getattr(self, name)) is not None and isfinite(value) else None
            for name in ("log_probability", "total", "score")
        }
        return {name: numbers[name] if name in numbers else getattr(self, name) for name in NAMES}


@dataclass(frozen=True, slots=True, eq=False)
class SearchTree:
    """What a search has considered.

    Args:
        nodes: the root, then those of each step: kept ones, ends, pruned ones.
        returned: the ids of the last tokens of the returned outputs, best first.
        steps: the number of steps that the search has taken.
        prediction: of a model, the returned outputs, those of `returned` in their order.
    """

    nodes: tuple[SearchNode, ...]
    returned: tuple[int, ...]
    steps: int
    prediction: Any = None

    @classmethod
    def empty(cls, prediction: Any) -> SearchTree:
        """The tree of an input that cannot be read."""
        return cls((SearchNode(0, None, 0, None, 0.0, 0.0, None, "kept"),), (), 0, prediction)

    def path(self, id: int) -> list[SearchNode]:
        """The nodes from the first token to this one.

        Raises:
            RegardError: if there is no such node.
        """
        if not 0 <= id < len(self.nodes):
            raise RegardError(f"node {id}: the tree has nodes 0 to {len(self.nodes) - 1}.")
        path, node = list[SearchNode](), self.nodes[id]
        while node.parent is not None:
            path.append(node)
            node = self.nodes[node.parent]
        return path[::-1]

    def children(self, id: int) -> list[SearchNode]:
        """The continuations of a node that the tree has."""
        return [node for node in self.nodes if node.parent == id]

    def symbols(self, id: int) -> list[str]:
        """The texts of the tokens up to a node, which are a `prefix` of constraints: the search goes on from there.

        Raises:
            RegardError: for a node that ends the output, after which nothing follows.
        """
        path = self.path(id)
        if path and path[-1].is_end:
            raise RegardError(f"node {id} ends the output; choose a node before it.")
        return [node.text for node in path]

    def record(self) -> dict[str, Any]:
        """The tree as a JSON object."""
        return {
            "nodes": [node.record() for node in self.nodes],
            "steps": self.steps,
            "returned": list(self.returned),
        }

    def spelled(self, symbol: Callable[[int], str], end: str) -> SearchTree:
        """The tree with the texts of its tokens.

        Args:
            symbol: the text of a token other than the end symbol.
            end: the text of the end symbol.
        """
        ends = {node.token: node.is_end for node in self.nodes if node.token is not None}
        texts = {token: end if is_end else symbol(token) for token, is_end in ends.items()}
        nodes = [node if node.token is None else replace(node, text=texts[node.token]) for node in self.nodes]
        return replace(self, nodes=tuple(nodes))

    def returning(self, hypotheses: Sequence[Hypothesis]) -> SearchTree:
        """The tree if these hypotheses, best first, are returned, which are some of its paths."""
        paths: list[tuple[int, ...]] = []
        by_path: dict[tuple[int, ...], list[SearchNode]] = {}
        for node in self.nodes:
            paths.append(() if node.parent is None or node.token is None else (*paths[node.parent], node.token))
            if node.state != "pruned":
                by_path.setdefault(paths[-1], []).append(node)
        scores = {_nearest(by_path[tuple(h.tokens.tolist())], h.score): h.score for h in hypotheses}
        ends = [node for node in self.nodes if node.state in ("ended", "returned")]
        ends.sort(key=lambda node: -inf if node.score is None else -node.score)
        place = {node.id: number for number, node in enumerate(ends, start=1)}

        def judged(node: SearchNode) -> SearchNode:
            if node.id in scores:
                return replace(node, state="returned", why="", score=scores[node.id])
            if node.id in place:
                return replace(node, state="ended", why=node.why or _not_returned(place[node.id], len(scores)))
            return node

        return replace(self, nodes=tuple(map(judged, self.nodes)), returned=tuple(scores))


def _nearest(nodes: Sequence[SearchNode], score: float) -> int:
    """Of nodes with the same path, as groups may have, the one with a score; one that is not ranked, if none has."""
    return min(nodes, key=lambda node: inf if node.score is None else abs(node.score - score)).id


def _not_returned(place: int, count: int) -> str:
    return f"it ended, with the {ordinal(place)} score of all ends; {count} {'is' if count == 1 else 'are'} returned"


def ordinal(number: int) -> str:
    """
    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 112, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '112th', '22nd']
    """
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
