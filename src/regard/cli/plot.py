"""`regard plot`"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli import inputs, options
from regard.cli.predict import LONGEST_NAME
from regard.cli.standard import check_output, lines, say, show
from regard.errors import DataError, UnsupportedError

if TYPE_CHECKING:
    from regard.tasks.contract import AbstractModel


def plot(
    context: typer.Context,
    argument: Annotated[list[str], typer.Argument(metavar="INPUT", help="Texts, or files if the model reads files.")],
    model: options.Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png, .svg, .pdf or .html file.")],
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
        typer.Option("--strokes", help="Handwriting in the colours of the symbols that looked at each stroke."),
    ] = False,
    data: Annotated[
        Literal["json", "npz"] | None, typer.Option("--data", help="Also write weights and tokens, beside the picture.")
    ] = None,
    overwrite: options.Overwrite = False,
    device: options.Device = "auto",
) -> None:
    """Draw what a model attends to."""
    from regard.viz.files import suffix_of
    from regard.viz.plot import PICTURES

    suffix_of(output, (*PICTURES, ".html"))
    pictures = _free(output, len(argument) if separate else None, data, overwrite=overwrite)
    loaded = options.load(model, device, options.settings(context))
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
    # of what is played only a page has use
    silent = {"sound": False} if loaded.file_formats and output.suffix.lower() != ".html" else {}
    with options.kernels_for(loaded, argument):
        given = [each for name in argument for each in _inputs(loaded, name)]
        if separate and len(given) != len(argument):
            pictures = _free(output, len(given), data, overwrite=overwrite)
        predictions = loaded.predict([item for _, item in given], **silent)
    drawn = []
    for number, (item, prediction) in enumerate(zip((name for name, _ in given), predictions, strict=True), start=1):
        for warning in prediction.warnings:
            say(f"argument {number}: {item[:60]!r}: {warning}")
        if loaded.can_plot(prediction):
            drawn.append((number, _title(item, prediction), prediction))
    if not drawn and any(prediction.warnings for prediction in predictions):
        raise DataError("There is nothing to draw, because no input could be read.")
    if not drawn:
        raise UnsupportedError(f"{model}: the model has no alignment to draw. Was it trained without attention?")
    if separate:
        pages = [(pictures[number - 1], item, [prediction]) for number, item, prediction in drawn]
    else:
        title = drawn[0][1] if len(drawn) == 1 else f"{len(drawn)} predictions"
        pages = [(output, title, [prediction for _, _, prediction in drawn])]
    for file, title, shown in pages:
        for path in loaded.plot(shown, file, title=title, **choices):
            show(path)


def _inputs(model: AbstractModel[Any], argument: str) -> Iterable[tuple[str, Any]]:
    """The inputs that an argument means, with their names: itself, or those of a file."""
    path = Path(argument)
    if model.input_kind == "file" or not (path.suffix and len(argument) < LONGEST_NAME and path.is_file()):
        return model.inputs(argument)
    rows = inputs.opened(model, lines(path), path, fields=None, form="auto", peek=True).rows
    return [(str(row.text), row.text) for row in rows]


def _title(item: str, prediction: object) -> str:
    """The input, and the output if it is a text."""
    text = getattr(prediction, "text", None)
    words = " ".join(item.split("\t"))
    return f"{words} → {text}" if isinstance(text, str) and text else words


def _free(output: Path, count: int | None, data: str | None, *, overwrite: bool) -> list[Path]:
    """The files of pictures, after a check that they may be written.

    Args:
        count: how many numbered ones there are; None for one without a number.
        data: the suffix of the data beside them.
    """
    pictures = [output]
    if count is not None:
        digits = len(str(count))
        pictures = [output.with_stem(f"{output.stem}-{number:0{digits}}") for number in range(1, count + 1)]
    for picture in pictures:
        check_output(picture, overwrite=overwrite)
        check_output(picture.with_suffix(f".{data}") if data else None, overwrite=overwrite)
    return pictures
