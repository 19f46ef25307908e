"""`regard export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli import options
from regard.cli.standard import format_of_output, say


def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, or a name from `regard list models`.")],
    format: Annotated[
        Literal["onnx", "ctranslate2", "torch"],
        typer.Option(
            "--format",
            help="onnx: an encoder, a step and a program of numpy and onnxruntime that decodes with them; ctranslate2: "
            "a Transformer for CTranslate2; torch: programs of torch.export.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder; it appears whole or not at all.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder of another export.")] = False,
) -> None:
    """Write a text-to-text model as programs for another runtime.

    The search of an ONNX model is that of the configuration, with the settings that are given here. What a format
    cannot express is refused by its name.
    """
    from regard.files import require_replaceable
    from regard.interop.export import export_model
    from regard.interop.export.folder import FILES, require_effect

    settings = options.settings(context)
    format_of_output(output, {}, "folder")
    require_replaceable(output, lambda: FILES, kind="an exported model", overwrite=overwrite)
    require_effect(format, settings)
    loaded = options.load(model, "cpu", settings)
    export_model(loaded, output, format=format, overwrite=overwrite)
    names = ", ".join(sorted(path.name for path in output.iterdir()))
    say(f"{output}: {names}")
