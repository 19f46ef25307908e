"""An alignment with its tokens, as it is drawn and saved: read from arrays or predictions, without padding."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError
from regard.metrics.padding import real_positions
from regard.viz.labels import END_SYMBOL

Weights = NDArray[np.floating[Any]]
SIDES = ("source", "target")
"""The default names of columns and rows."""
PREDICTION = "prediction"
"""The name of the alignment that a prediction reports, where its heads are also shown."""


class ReadingOptions(TypedDict, total=False):
    """Options of `read`.

    Args:
        heads: also reads every head of every entry of `alignments` of a prediction.
        end_symbol: False leaves out the rows and columns of "</s>"; the picture says how much weight they had.
        source_length, target_length: the number of real positions and steps; the rest is left out.
        source_mask, target_mask: (S,) and (T,) bool, True where real; give a length or a mask, not both.
        layers: the names of the L layers of an alignment (L, H, T, S); layer 0, layer 1, … if None.
        sides: the names of columns and rows; source and target if None.
    """

    heads: bool
    end_symbol: bool
    source_length: int | None
    target_length: int | None
    source_mask: Any
    target_mask: Any
    layers: Sequence[str] | None
    sides: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Aligned:
    """An alignment with its tokens.

    Args:
        alignment: (T, S), or (H, T, S) or (L, H, T, S) weights.
        source_tokens, tokens: S and T labels, or None.
        alignments: further alignments by name, (T, S) or (H, T, S).
        text: the text of the prediction, or None.
        left_out: the share of the weight in columns of the end symbol that were left out; None if none were.
        layers: the names of the layers of an alignment (L, H, T, S); None for numbers.
        sides: the names of columns and rows.
        prompt: of a continued text, how many columns and rows belong to its prompt; a line separates them.
    """

    alignment: Weights
    source_tokens: tuple[str, ...] | None = None
    tokens: tuple[str, ...] | None = None
    alignments: Mapping[str, Weights] = field(default_factory=dict)
    text: str | None = None
    left_out: float | None = None
    layers: tuple[str, ...] | None = None
    sides: tuple[str, str] = SIDES
    prompt: tuple[int, int] | None = None

    def panels(self) -> list[tuple[str, Weights]]:
        """Name and weights (T, S) of every head and layer, counted from 0; the name of a single panel is empty."""
        return [(panel_name(layer, head), weights) for layer, heads in self.by_layer() for head, weights in heads]

    def by_layer(self) -> list[tuple[str, list[tuple[str, Weights]]]]:
        """The name of every layer, or attention, and its heads: number and weights (T, S).

        An alignment without heads, and the single head of a named attention, has no number; a single layer no name.
        """
        named = {PREDICTION if self.alignments else "": self.alignment, **self.alignments}
        return [layer for name, weights in named.items() for layer in self._layers(name, weights)]

    def _layers(self, name: str, weights: Weights) -> Iterator[tuple[str, list[tuple[str, Weights]]]]:
        if weights.ndim == 2 or (weights.ndim == 3 and len(weights) == 1 and name):
            yield name, [("", weights.reshape(weights.shape[-2:]))]
        elif weights.ndim == 3:
            yield name, [(str(number), head) for number, head in enumerate(weights)]
        else:
            for index, layer in enumerate(weights):
                own = f"layer {index}" if self.layers is None or weights is not self.alignment else self.layers[index]
                heads = [(str(number), head) for number, head in enumerate(layer)]
                yield ", ".join(part for part in (name, own) if part), heads


def panel_name(layer: str, head: str) -> str:
    """The name of a head of a layer; both may be empty."""
    return ", ".join(part for part in (layer, head and f"head {head}") if part)


def read(
    alignment: Any, source_tokens: Any = None, target_tokens: Any = None, **options: Unpack[ReadingOptions]
) -> list[Aligned]:
    """The alignments of the arguments, without padding and excluded rows and columns.

    Args:
        alignment: an array or tensor (T, S), (H, T, S) or (L, H, T, S); or an object with `alignment`, `source_tokens`
            and `tokens` like a `Prediction`; or a list of such objects.
        source_tokens, target_tokens: S and T labels; with one label less the last position is the end symbol.

    Raises:
        ShapeError: for other shapes and numbers of tokens.
        RegardError: if no item has an alignment.
    """
    several = isinstance(alignment, list | tuple) and all(hasattr(each, "alignment") for each in alignment)
    if not several and not hasattr(alignment, "alignment"):
        return [_cut({"": as_weights(alignment)}, source_tokens, target_tokens, None, **options)]
    if several and not (source_tokens is None and target_tokens is None):
        raise RegardError("Several predictions have their own tokens; leave out source_tokens and target_tokens.")
    items = []
    for index, item in enumerate(alignment if several else [alignment]):
        if item.alignment is None:
            warnings.warn(f"Prediction {index} has no alignment and is left out.", UserWarning, stacklevel=3)
            continue
        heads = dict(getattr(item, "alignments", None) or {}) if options.get("heads") else {}
        weights = {"": as_weights(item.alignment)} | {name: as_weights(value) for name, value in heads.items()}
        if len(weights) == 2:
            whole, head = (each.ravel() for each in weights.values())
            if np.array_equal(whole, head, equal_nan=True):  # the only attention, which has one head
                del weights[next(iter(heads))]
        sources = getattr(item, "source_tokens", None) if source_tokens is None else source_tokens
        targets = getattr(item, "tokens", None) if target_tokens is None else target_tokens
        of_item: ReadingOptions = {"layers": getattr(item, "layers", None), "sides": getattr(item, "sides", None)}
        cut = _cut(weights, sources, targets, getattr(item, "text", None), **(of_item | options))
        items.append(replace(cut, prompt=getattr(item, "prompt", None)))
    if not items:
        raise RegardError("There is no alignment to show: predict with alignments, or give an array (T, S).")
    return items


def largest_weight(items: Sequence[Aligned]) -> float:
    """The largest finite weight of all panels; 1 if none is above 0."""
    finite = [weights[np.isfinite(weights)] for item in items for _, weights in item.panels()]
    largest = max((float(weights.max()) for weights in finite if weights.size), default=0.0)
    return largest if largest > 0 else 1.0


def as_numbers(values: Any) -> Weights:
    """Numbers of an array, nested lists or a tensor of any device; float32 and float64 stay, others become float32."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.itemsize < 4 else values
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"numbers of type {array.dtype}")
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"Expected numbers as an array, a tensor or nested lists of equal length; got {type(values).__name__} "
            f"({error})."
        ) from error


def as_weights(values: Any) -> Weights:
    """The numbers of an alignment with two to four axes."""
    weights = as_numbers(values)
    if not 2 <= weights.ndim <= 4 or 0 in weights.shape[:-2]:
        raise ShapeError(f"An alignment is (T, S), (H, T, S) or (L, H, T, S); got shape {weights.shape}.")
    return weights


def _cut(
    weights: dict[str, Weights],
    source_tokens: Sequence[str] | None,
    target_tokens: Sequence[str] | None,
    text: str | None,
    *,
    heads: bool = False,
    end_symbol: bool = True,
    source_length: int | None = None,
    target_length: int | None = None,
    source_mask: Any = None,
    target_mask: Any = None,
    layers: Sequence[str] | None = None,
    sides: tuple[str, str] | None = None,
) -> Aligned:
    steps, positions = weights[""].shape[-2:]
    for name, value in weights.items():
        if value.shape[-2:] != (steps, positions):
            raise ShapeError(f"alignments[{name!r}] has shape {value.shape}; expected (H, T={steps}, S={positions}).")
    rows = np.flatnonzero(real_positions("target", steps, (), target_length, target_mask))
    columns = np.flatnonzero(real_positions("source", positions, (), source_length, source_mask))
    targets = _labels("target_tokens", steps, target_tokens, rows)
    sources = _labels("source_tokens", positions, source_tokens, columns)
    left_out = None
    if not end_symbol:
        if sources is None and targets is None:
            warnings.warn("end_symbol=False does nothing without tokens.", UserWarning, stacklevel=4)
        rows, targets = _without_end(rows, targets)
        staying, sources = _without_end(columns, sources)
        if staying.size < columns.size:
            total = sum(float(np.nansum(w[..., rows[:, None], columns])) for w in weights.values())
            rest = sum(float(np.nansum(w[..., rows[:, None], staying])) for w in weights.values())
            left_out = 1 - rest / total if total else 0.0
        columns = staying
    selected = {name: w[..., rows[:, None], columns] for name, w in weights.items()}
    shape = weights[""].shape
    if layers is not None and (len(shape) != 4 or len(layers) != shape[0]):
        raise ShapeError(f"layers must name the L layers of an alignment (L, H, T, S); got {len(layers)} for {shape}.")
    names = None if layers is None else tuple(map(str, layers))
    named = SIDES if sides is None else sides
    return Aligned(selected.pop(""), sources, targets, selected, text, left_out, names, named)


def _labels(name: str, size: int, tokens: Sequence[str] | None, real: NDArray[np.intp]) -> tuple[str, ...] | None:
    """A label for each real position, from labels of the real or of all positions, with or without the end symbol."""
    if tokens is None:
        return None
    if not isinstance(tokens, Iterable):
        raise ShapeError(f"{name} must be a list of texts; got {tokens!r}.")
    labels = tuple(str(token) for token in tokens)
    for candidate in (labels, (*labels, END_SYMBOL)):
        if len(candidate) == real.size:
            return candidate
        if len(candidate) == size:
            return tuple(candidate[i] for i in real)
    raise ShapeError(
        f"{name} must name {real.size} positions, or all but the end symbol; got {len(labels)} tokens.\n"
        "  Is the alignment transposed (it is target by source), or padded (give its lengths)?"
    )


def _without_end(
    real: NDArray[np.intp], labels: tuple[str, ...] | None
) -> tuple[NDArray[np.intp], tuple[str, ...] | None]:
    if labels is None:
        return real, None
    keep = [i for i, label in enumerate(labels) if label != END_SYMBOL]
    return real[keep], tuple(labels[i] for i in keep)
