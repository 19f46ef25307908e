"""`regard plot`"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli import inputs, options
from regard.cli.standard import check_output, lines, say, show
from regard.errors import DataError, RegardError, UnsupportedError

if TYPE_CHECKING:
    from regard.runs.contract import AbstractModel

MOST_DRAWN = 50
"""The default number of inputs of a file that are drawn."""


def plot(
    context: typer.Context,
    model: options.Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png, .svg, .pdf or .html file.")],
    argument: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="Texts, or files if the model reads files.")
    ] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="A file of inputs, as of `regard predict`.")
    ] = None,
    source_field: options.SourceField = None,
    first: Annotated[
        int, typer.Option("--first", min=1, metavar="N", help="Draw the first N inputs of a file.")
    ] = MOST_DRAWN,
    separate: Annotated[
        bool, typer.Option("--separate", help="One numbered file per input instead of one file for all.")
    ] = False,
    heads: Annotated[
        bool, typer.Option("--heads", help="Every head of every attention instead of their mean.")
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Words instead of the symbols that they are made of.")] = False,
    no_end_symbol: Annotated[
        bool, typer.Option("--no-end-symbol", help="Without the end symbol; the picture says what weight it had.")
    ] = False,
    highest: Annotated[
        bool, typer.Option("--highest", help="Scale colours to the largest weight of the file instead of 1.")
    ] = False,
    cells: Annotated[
        bool, typer.Option("--cells", help="Maps over pictures as rectangles instead of smoothly.")
    ] = False,
    strokes: Annotated[
        bool,
        typer.Option("--strokes", help="Handwriting in the colours of the symbols that attend to each stroke."),
    ] = False,
    data: Annotated[
        Literal["json", "npz"] | None,
        typer.Option("--data", help="Also write weights and tokens, next to the picture."),
    ] = None,
    normaliser: options.Normaliser = None,
    overwrite: options.Overwrite = False,
    device: options.Device = "auto",
) -> None:
    """Draw what a model attends to.

    Inputs are texts, or those of a file, which is read as by `regard predict`: as the files of the training are.
    """
    from regard.viz.files import DRAWN, suffix_of

    suffix_of(output, DRAWN)
    if (input is None) == (not argument):
        raise RegardError("Give inputs as arguments, or a file of inputs with --input.")
    if input is None and source_field is not None:
        raise RegardError("--source-field names columns of a file: add --input FILE.")
    check_output(output, overwrite=True, inputs=[input])
    pictures = _free(output, len(argument) if separate and argument else None, data, overwrite=overwrite)
    loaded = options.load(model, device, options.settings(context), normaliser=normaliser)
    flags = {
        "--heads": ("heads", heads or None),
        "--words": ("words", words or None),
        "--no-end-symbol": ("end_symbol", False if no_end_symbol else None),
        "--highest": ("highest", "largest" if highest else None),
        "--cells": ("cells", cells or None),
        "--strokes": ("strokes", strokes or None),
        "--data": ("data", data),
    }
    choices = options.accepted(loaded, "plot", flags)
    # only pages play the sound of speech
    silent = {"sound": False} if loaded.file_formats and output.suffix.lower() != ".html" else {}
    items = _items(loaded, argument, input, inputs.parse_fields(source_field), first)
    if separate and len(items) != len(pictures):
        pictures = _free(output, len(items), data, overwrite=overwrite)
    with options.kernels_for(loaded, [item for _, _, item in items]):
        predictions = loaded.predict([item for _, _, item in items], **silent)
    drawn = []
    for number, ((place, name, _), prediction) in enumerate(zip(items, predictions, strict=True), start=1):
        for warning in prediction.warnings:
            say(f"{place}: {name[:60]!r}: {warning}")
        if loaded.can_plot(prediction):
            drawn.append((number, _title(name, prediction), prediction))
    if not drawn and any(prediction.warnings for prediction in predictions):
        raise DataError("No input could be read, so there is no picture.")
    if not drawn:
        raise UnsupportedError(f"{model}: the model has no alignment to draw. Was it trained without attention?")
    if separate:
        pages = [(pictures[number - 1], title, [prediction]) for number, title, prediction in drawn]
    else:
        title = drawn[0][1] if len(drawn) == 1 else f"{len(drawn)} predictions"
        pages = [(output, title, [prediction for _, _, prediction in drawn])]
    for file, title, shown in pages:
        for path in loaded.plot(shown, file, title=title, **choices):
            show(path)


def _items(
    model: AbstractModel[Any], arguments: Sequence[str] | None, file: Path | None, fields: Any, most: int
) -> list[tuple[str, str, Any]]:
    """The place, the name and the input of everything that is drawn."""
    if model.input_kind == "file":
        named = inputs.named_inputs(model, arguments or [str(file)], None)
        items = [(f"argument {number}", name, item) for number, (name, item) in enumerate(named, start=1)]
    else:
        file = inputs.file_of(arguments or ()) if file is None else file
        if file is None:
            rows = inputs.texts(arguments or ())
        elif file.is_dir():
            rows = iter(model.folder_inputs(file))
        else:
            rows = inputs.opened(model, lines(file), file, fields=fields, form="auto", peek=True).rows
        items = [
            (row.place, row.text if isinstance(row.text, str) else " ".join(row.text), row.text)
            for row in islice(rows, most + 1 if file is not None else None)
        ]
    if len(items) > most and (file is not None or len(items) > len(arguments or ())):
        say(f"The first {most} inputs are drawn; --first N draws more.")
        return items[:most]
    return items


def _title(item: str, prediction: object) -> str:
    """The input, and the output if it is another text."""
    text = getattr(prediction, "text", None)
    words = " ".join(item.split("\t"))
    return f"{words} → {text}" if isinstance(text, str) and text not in ("", words) else words


def _free(output: Path, count: int | None, data: str | None, *, overwrite: bool) -> list[Path]:
    """The files of pictures, after a check that they may be written.

    Args:
        count: the number of numbered pictures; None for one without a number.
        data: the suffix of the data of each picture.
    """
    pictures = [output]
    if count is not None:
        digits = len(str(count))
        pictures = [output.with_stem(f"{output.stem}-{number:0{digits}}") for number in range(1, count + 1)]
    for picture in pictures:
        check_output(picture, overwrite=overwrite)
        check_output(picture.with_suffix(f".{data}") if data else None, overwrite=overwrite)
    return pictures
