"""`Seen`: recorded weights by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import Float

if TYPE_CHECKING:
    from regard.viz.notebook import EmbeddedPage

REPEATED = 0.01
"""The largest difference between the weights of a step and those of the same step in a later call, for rounding."""


class Seen(Mapping[str, Tensor | list[Tensor]]):
    """The recorded weights of every attention, by name, in the order of the first calls.

    A name is the dotted path of the module that computed attention (`decoder.layers.0.self_attn`), and has .0, .1, … at
    its end if a method of the module calls torch's function from several places. Weights are (B, H, T, S): each of T
    queries has a distribution over S positions. `seen[name]` is a tensor if the attention was called once, otherwise a
    list with a tensor for each call, as in a loop that generates; `calls(name)` is always a list. `print(seen)` prints
    a table.
    """

    def __init__(self) -> None:
        self._calls: dict[str, dict[Hashable, list[Tensor]]] = {}

    def add(self, name: str, site: Hashable, weights: Float[Tensor, "B H T S"]) -> None:
        """Adds the weights of one call.

        Args:
            name: of the module.
            site: identifies the place of the call in a method of the module.
        """
        self._calls.setdefault(name, {}).setdefault(site, []).append(weights)

    def count(self, name: str, site: Hashable) -> int:
        """The number of recorded calls from a site of a module."""
        return len(self._calls.get(name, {}).get(site, ()))

    def number(self, name: str, site: Hashable) -> int:
        """The index of a site among those of a module, in the order of their first use."""
        sites = self._calls.setdefault(name, {})
        sites.setdefault(site, [])
        return list(sites).index(site)

    def _named(self) -> dict[str, list[Tensor]]:
        named: dict[str, list[Tensor]] = {}
        for name, sites in self._calls.items():
            for index, calls in enumerate(sites.values()):
                if not calls:  # its weights were not wanted
                    continue
                key = name if len(sites) == 1 else f"{name}.{index}"
                while key in named or (key != name and key in self._calls):
                    key += "'"
                named[key] = calls
        return named

    def calls(self, name: str) -> list[Tensor]:
        """The weights (B, H, T, S) of every call of an attention, in order."""
        named = self._named()
        if name not in named:
            raise KeyError(f"{name!r} was not recorded; the recorded attentions are: {', '.join(named) or 'none'}.")
        return named[name]

    def joined(self, name: str) -> Float[Tensor, "B H T S"]:
        """All calls of an attention joined along T, for loops that generate.

        S is that of the longest call; shorter ones have weight 0 at the further positions. In a loop without a cache
        each call repeats the steps of the one before and adds new ones, so the last call has all steps and is returned.

        Raises:
            ShapeError: if calls differ in B or H.
        """
        calls = self.calls(name)
        if len({weights.shape[:2] for weights in calls}) > 1:
            shapes = ", ".join(dict.fromkeys(str(tuple(weights.shape)) for weights in calls))
            raise ShapeError(
                f"The calls of {name} differ in B or H: (B, H, T, S) is {shapes}. They are of several batches, or of a "
                "search that removed finished rows; use `calls`."
            )
        if all(_continues(call, following) for call, following in pairwise(calls)):
            return calls[-1]
        longest = max(weights.shape[3] for weights in calls)
        return torch.cat([torch.nn.functional.pad(w, (0, longest - w.shape[3])) for w in calls], 2)

    def __getitem__(self, name: str) -> Tensor | list[Tensor]:
        calls = self.calls(name)
        return calls[0] if len(calls) == 1 else calls

    def __iter__(self) -> Iterator[str]:
        return iter(self._named())

    def __len__(self) -> int:
        return len(self._named())

    def entropy(self, name: str) -> float:
        """The mean entropy of an attention's distributions, in nats, from 0 (one position) to ln S (uniform).

        Rows without weight do not count; NaN if there are no others.
        """
        total, rows = 0.0, 0
        for weights in self.calls(name):
            p = weights.double() if weights.dtype == torch.float64 else weights.float()
            mass = p.sum(-1, keepdim=True)
            p = p / mass
            entropies = -torch.special.xlogy(p, p).sum(-1)[mass[..., 0] > 0]
            total, rows = total + float(entropies.sum()), rows + entropies.numel()
        return total / rows if rows else float("nan")

    def rollout(self, names: str | Sequence[str] = "*") -> Float[Tensor, "B T T"]:
        """Attention rollout: the share of each input in each output of a stack of self-attention.

        R = Â_L ⋯ Â_1 with Â_l = ½ (mean of the heads of layer l) + ½ I, where ½ I stands for the residual connection.
        Layers are in the order of their calls.

        Args:
            names: patterns of the names of the layers, such as `"encoder.*"`.

        Raises:
            ShapeError: for attention with T ≠ S, or with several calls, or if only some of the layers are causal, as
                those of a decoder are.

        Source: Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers (arXiv 2005.00928), equation 1.
        """
        patterns = (names,) if isinstance(names, str) else tuple(names)
        chosen = [name for name in self if any(fnmatchcase(name, pattern) for pattern in patterns)]
        layers = {name: weights for name in chosen for weights in self.calls(name)}
        shapes = {(weights.shape[0], *weights.shape[2:]) for weights in layers.values()}
        is_stack = len(shapes) == 1 and all(steps == positions for _, steps, positions in shapes)
        if not is_stack or any(len(self.calls(name)) > 1 for name in chosen):
            shown = "\n".join(f"  {name} (B, H, T, S) {_shapes(self.calls(name))}" for name in chosen)
            raise ShapeError(
                f"A rollout needs layers of self-attention, each called once; names={names!r} match:\n{shown}"
            )
        causal = [name for name, weights in layers.items() if _is_causal(weights)]
        if 0 < len(causal) < len(layers):
            raise ShapeError(
                f"A rollout needs layers of one stack; of those that names={names!r} match only {', '.join(causal)} "
                "are causal. Choose the layers of the encoder, or of the decoder's self-attention, by names."
            )
        ((_, steps, _),) = shapes
        total = torch.eye(steps)
        for weights in layers.values():
            mean = (weights if weights.dtype == torch.float64 else weights.float()).mean(1)
            total = total.to(mean)
            total = (0.5 * mean + 0.5 * torch.eye(steps).to(mean)) @ total
        return total

    def show(
        self, tokens: Sequence[str] | None = None, target_tokens: Sequence[str] | None = None, **options: Any
    ) -> EmbeddedPage:
        """The page of `plot`, as the result of a cell of a notebook.

        Args:
            tokens, target_tokens, **options: as in `plot`.
        """
        from regard.viz.notebook import EmbeddedPage, embedded_page

        def draw(path: Path) -> object:
            return self.plot(path, tokens, target_tokens, **options)

        return EmbeddedPage(embedded_page(draw, str(options.get("title") or "attention")))

    def plot(
        self,
        path: str | Path,
        tokens: Sequence[str] | None = None,
        target_tokens: Sequence[str] | None = None,
        *,
        sentence: int = 0,
        call: int | None = None,
        names: str | Sequence[str] | None = None,
        title: str | None = None,
        highest: float | Literal["largest"] = 1.0,
        data: Literal["json", "npz"] | None = None,
    ) -> tuple[Path, ...]:
        """Draws the layers and heads of one sentence (`regard.plot_alignment`); the page lets choose among them.

        Attentions whose names differ in the number of a layer only are the layers of one picture.

        Args:
            path: ends in .png, .svg, .pdf or .html.
            tokens: labels of the positions and, in self-attention, of the steps. Later positions are padding and left
                out.
            target_tokens: labels of the steps, for models with a source, whose labels are `tokens`: what each step
                outputs, such as the tokens of the target and then the end symbol. Causal self-attention is over them.
            sentence: the row of the batch.
            call: the number of the call; if None, all calls, `joined`.
            names: patterns of the names to show; all if None.
            title, highest, data: as in `regard.plot_alignment`.

        Returns:
            The paths of the written files.

        Raises:
            ShapeError: for too many or too few tokens, or a missing sentence or call.
            RegardError: if no recorded attention matches `names`.
        """
        from regard.record.picture import aligned
        from regard.viz import plot_alignment

        patterns = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        items = aligned(self, tokens, target_tokens, sentence=sentence, call=call, names=patterns)
        return plot_alignment(items, path, title=title, highest=highest, data=data)

    def __repr__(self) -> str:
        """A table: name, number of calls, shape (B, H, T, S), and mean entropy in nats."""
        head = ("name", "calls", "B, H, T, S", "entropy")
        rows = [
            (name, str(len(calls)), _shapes(calls), f"{self.entropy(name):.3f}")
            for name, calls in self._named().items()
        ]
        if not rows:
            return "Seen: no attention was recorded"
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if index in (1, 3) else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        return "\n".join(lines)


def _continues(call: Float[Tensor, "B H T S"], following: Float[Tensor, "B H T S"]) -> bool:
    """Whether a call repeats all steps of the one before it, up to rounding, and has further ones."""
    steps, positions = call.shape[2:]
    if steps >= following.shape[2] or positions > following.shape[3]:
        return False
    return torch.allclose(following[:, :, :steps, :positions].float(), call.float(), rtol=0, atol=REPEATED)


def _is_causal(weights: Float[Tensor, "B H T T"]) -> bool:
    return not bool(weights.triu(1).any())


def _shapes(calls: Sequence[Tensor]) -> str:
    """The sizes of all calls, with the smallest and the largest of those that differ."""
    axes = zip(*(weights.shape for weights in calls), strict=True)
    return ", ".join(
        str(low) if low == high else f"{low}–{high}" for low, high in ((min(sizes), max(sizes)) for sizes in axes)
    )
