"""Alignments with their tokens as files: JSON for every language, NPZ for numpy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np

from regard.errors import DataError, RegardError, UnsupportedError
from regard.viz.aligned import SIDES, Aligned, ReadingOptions, Weights, as_weights, read

T = TypeVar("T")
FORMAT = "regard.alignment.1"
ARRAYS = (".json", ".npz")
PICTURES = (".png", ".svg", ".pdf")
DRAWN = (*PICTURES, ".html")


def check_highest(highest: object) -> None:
    """Raises RegardError for a `highest` that is no weight."""
    if highest != "largest" and not (isinstance(highest, int | float) and 0 < highest < float("inf")):
        raise RegardError(f"highest must be a weight above 0, or 'largest'; got {highest!r}.")


def save_alignment(
    alignment: Any,
    path: str | Path,
    source_tokens: Any = None,
    target_tokens: Any = None,
    **options: Unpack[ReadingOptions],
) -> Path:
    """Writes arrays and tokens, as `plot_alignment` would show them, to a .json or .npz file.

    JSON is `{"format": ..., "items": [{"alignment": [[...]], "source_tokens": [...], "tokens": [...], ...}]}` with
    null for numbers that are not finite. NPZ has the same names after the number of the item, `0/alignment`,
    `0/source_tokens`, and is loaded without pickle.

    Args:
        alignment, source_tokens, target_tokens, **options: as in `plot_alignment`.

    Raises:
        RegardError: for another suffix.
    """
    target = Path(path)
    write(read(alignment, source_tokens, target_tokens, **options), target)
    return target


def load_alignment(path: str | Path) -> list[Aligned]:
    """The alignments of a file that `save_alignment` wrote; `plot_alignment` accepts them.

    Raises:
        DataError: for any other file.
    """
    source = Path(path)
    read_items = _from_json if suffix_of(source, ARRAYS) == ".json" else _from_npz
    try:
        return read_items(source)
    except OSError as error:
        raise DataError(f"{source}: cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # a damaged archive may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{source}: not a file written by save_alignment ({reason:.200}).") from error


def check_name(path: Path) -> None:
    """Raises RegardError for a path that no file can have: with U+0000 or half a surrogate pair."""
    try:
        os.lstat(path)
    except OSError:
        pass
    except ValueError as error:
        raise RegardError(f"{str(path)!r} cannot be the name of a file: {error}.") from None


def write(items: Sequence[Aligned], path: Path) -> None:
    """Writes alignments."""
    writer = {".json": _to_json, ".npz": _to_npz}[suffix_of(path, ARRAYS)]
    path.parent.mkdir(parents=True, exist_ok=True)
    writer(items, path)


def suffix_of(path: Path, suffixes: Sequence[str]) -> str:
    """The suffix in lower case, which must be one of `suffixes`."""
    check_name(path)
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise RegardError(
            f"{path}: the suffix of the file is wrong: expected one of {' '.join(suffixes)}, got {suffix!r}."
        )
    return suffix


def numbered_files(path: Path, count: int) -> list[Path]:
    """The file of a picture; of several pictures one for each, with its number."""
    if count == 1:
        return [path]
    digits = len(str(count))
    return [path.with_stem(f"{path.stem}-{number:0{digits}}") for number in range(1, count + 1)]


def alignment_record(alignment: Any, *, decimals: int | None = 6, **options: Unpack[ReadingOptions]) -> dict[str, Any]:
    """An alignment as the JSON object that `save_alignment` writes for it.

    Args:
        alignment: as in `plot_alignment`, but only one.
        decimals: of the weights; None: all.
        **options: as in `plot_alignment`; with `heads`, `alignments` has every head of every attention by name.

    >>> record = alignment_record([[0.25, 0.75]], decimals=1)
    >>> record["alignment"], record["shape"]
    ([[0.2, 0.8]], [1, 2])
    """
    (item,) = read(alignment, **options)
    return _record(item, decimals)


def _record(item: Aligned, decimals: int | None = None) -> dict[str, Any]:
    return {
        "alignment": _listed(item.alignment, decimals),
        "source_tokens": item.source_tokens,
        "tokens": item.tokens,
        "alignments": {name: _listed(weights, decimals) for name, weights in item.alignments.items()},
        "text": item.text,
        "left_out": item.left_out,
        "layers": item.layers,
        "sides": item.sides,
        "prompt": item.prompt,
        "shape": list(item.alignment.shape),
        "dtype": item.alignment.dtype.name,
    }


def _to_json(items: Sequence[Aligned], path: Path) -> None:
    entries = [_record(item) for item in items]
    path.write_text(json.dumps({"format": FORMAT, "items": entries}, allow_nan=False), encoding="utf-8")


def _listed(weights: Weights, decimals: int | None = None) -> Any:
    """Nested lists; each number is the shortest that reads back as the same weight, or None if it is not finite."""
    if decimals is not None:
        weights = weights.astype(np.float64).round(decimals)
    if np.isfinite(weights).all():
        return weights.tolist()
    numbers = weights.astype(object)
    numbers[~np.isfinite(weights)] = None
    return numbers.tolist()


def _from_json(path: Path) -> list[Aligned]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["format"] != FORMAT:
        raise ValueError(f"format is {document['format']!r}, expected {FORMAT!r}")
    return [
        _restored(
            np.array(entry["alignment"], dtype=entry["dtype"]).reshape(entry["shape"]),
            {name: as_weights(np.array(value, entry["dtype"])) for name, value in entry["alignments"].items()},
            entry,
        )
        for entry in document["items"]
    ]


def _to_npz(items: Sequence[Aligned], path: Path) -> None:
    arrays: dict[str, Any] = {"format": np.array(FORMAT)}
    for index, item in enumerate(items):
        arrays[f"{index}/alignment"] = item.alignment
        arrays |= {f"{index}/alignments/{name}": weights for name, weights in item.alignments.items()}
        for name in ("source_tokens", "tokens", "text", "left_out", "layers", "sides", "prompt"):
            value = getattr(item, name)
            if value is not None:
                is_number = name in ("left_out", "prompt")
                arrays[f"{index}/{name}"] = np.array(value) if is_number else _text_array(value, path)
    np.savez_compressed(path, **arrays)


def _text_array(value: Any, path: Path) -> Any:
    array = np.array(value, dtype=np.str_)
    if array.tolist() != (list(value) if isinstance(value, tuple) else value):
        raise UnsupportedError(f"{path}: NPZ cannot keep a token that ends in U+0000; save as .json.")
    return array


def _from_npz(path: Path) -> list[Aligned]:
    with np.load(path, allow_pickle=False) as arrays:
        if str(arrays["format"]) != FORMAT:
            raise ValueError(f"format is {str(arrays['format'])!r}, expected {FORMAT!r}")
        items: list[Aligned] = []
        while f"{len(items)}/alignment" in arrays:
            start = f"{len(items)}/"
            fields = {name.removeprefix(start): arrays[name] for name in arrays if name.startswith(start)}
            heads = "alignments/"
            further = {name.removeprefix(heads): w for name, w in fields.items() if name.startswith(heads)}
            optional = dict.fromkeys(("source_tokens", "tokens", "text", "left_out"))
            items.append(_restored(fields["alignment"], further, optional | fields))
    return items


def _restored(alignment: Weights, alignments: dict[str, Weights], values: Mapping[str, Any]) -> Aligned:
    text, left_out = values["text"], values["left_out"]
    return Aligned(
        alignment,
        _tokens(values["source_tokens"]),
        _tokens(values["tokens"]),
        alignments,
        None if text is None else str(text),
        None if left_out is None else float(left_out),
        _tokens(values.get("layers")),
        _pair(values.get("sides"), str) or SIDES,
        _pair(values.get("prompt"), int),
    )


def _tokens(values: Any) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(value) for value in values)


def _pair(values: Any, kind: type[T]) -> tuple[T, T] | None:
    if values is None:
        return None
    first, second = map(kind, values)
    return first, second
