"""The `regard` program: its commands, and the exit status of errors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from errno import ENOSPC
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from regard.cli import (
    adapt,
    align,
    compare,
    convert,
    data,
    distill,
    evaluate,
    explain,
    export,
    info,
    plot,
    predict,
    serve,
    sweep,
    train,
)
from regard.cli import list as catalogue
from regard.cli.flags import EVERYTHING, HELP, WIDTH, check_repeated, settings_help, with_settings
from regard.cli.standard import hush, plain_warnings, prepare_streams, report, say, show, standard_output
from regard.errors import naming_flags

UNREAD = 141
"""The exit status if the reader of stdout has closed it."""


class Commands(TyperGroup):
    """The group of commands; if the reader of stdout goes away, as `head` does, a command ends quietly."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                with standard_output():
                    sys.stdout.flush()
        except BrokenPipeError:
            hush()
            raise typer.Exit(UNREAD) from None
        return result


WITH_SETTINGS = (
    evaluate.evaluate, predict.predict, plot.plot, serve.serve, explain.explain, export.export,
)  # fmt: skip
"""The commands that take settings of `decoding`."""
COMMANDS = {
    example.split()[0]: (function, example)
    for function, example in (
        (train.train, "train g2p.yaml --set training.epochs=10"),
        (adapt.adapt, "adapt runs/g2p names.tsv --output runs/names"),
        (distill.distill, "distill runs/1 runs/2 runs/3 words.tsv --output runs/student"),
        (sweep.sweep, "sweep g2p.yaml --set sweep.trials=30"),
        (evaluate.evaluate, "evaluate --model runs/g2p test.tsv --worst 10"),
        (compare.compare, "compare runs/small runs/large --data test.tsv"),
        (predict.predict, "predict --model g2p-en attention regard"),
        (align.align, "align runs/translation test.tsv --output test.links"),
        (plot.plot, "plot --model g2p-en attention --output attention.html"),
        (serve.serve, "serve g2p-en --port 8000"),
        (export.export, "export g2p-en --format onnx --output g2p-onnx"),
        (info.info, "info g2p-en"),
        (explain.explain, "explain runs/g2p"),
        (convert.convert, "convert opennmt model_step_1000.pt --output models/translation"),
        (catalogue.list_, "list recipes"),
    )
}


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The application of typer.

    Args:
        words: the arguments. Only the command among them gets flags for the settings of models, so that `regard --help`
            does not import the schema; its help shows those of the model among them.
    """
    result = typer.Typer(
        name="regard",
        cls=Commands,
        help="Attention you can trust, look at and afford: train sequence models, use them, and see what they attend "
        "to.",
        epilog="Begin with: regard train --preset text-to-text --set data.train=pairs.tsv",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP), "max_content_width": WIDTH},
    )
    result.callback()(_options)
    named = next((word for word in words if not word.startswith("-")), None)
    for name, (function, example) in COMMANDS.items():
        epilog = f"Example: regard {example}"
        if name == named and function in WITH_SETTINGS:
            if {*HELP, EVERYTHING} & set(words):
                epilog = f"{settings_help(words)}\n\n{epilog}"
            function = with_settings(function)
        result.command(name, epilog=epilog)(function)
    result.add_typer(data.application)
    return result


def main() -> NoReturn:
    """Runs the command line of this process and exits with its status."""
    if "--debug" not in sys.argv:
        plain_warnings()
    status = run(sys.argv[1:])
    gc.freeze()  # otherwise the last garbage collection visits all objects of torch, a sixth of a short command's time
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Runs one command.

    Args:
        arguments: those after `regard`; `--debug` may be anywhere before `--`.

    Returns:
        The exit status: 0 done, 1 failed, 2 wrong usage, configuration or data, 130 interrupted, 141 stdout closed by
        its reader, 143 terminated.
    """
    prepare_streams()
    end = arguments.index("--") if "--" in arguments else len(arguments)
    debug = "--debug" in arguments[:end]
    words = [word for i, word in enumerate(arguments) if i >= end or word != "--debug"]
    end -= len(arguments) - len(words)
    try:
        command = typer.main.get_command(application(words[:end]))
        check_repeated(command, words[:end])
        with naming_flags():
            command.main(
                [HELP[1] if word == EVERYTHING else word for word in words[:end]] + words[end:], prog_name="regard"
            )
    except SystemExit as error:  # click always ends in this way
        if isinstance(getattr(error.__context__, "__cause__", None), KeyboardInterrupt):
            say("interrupted")
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == ENOSPC and error.filename is None:
            hush()  # otherwise writing the rest to a full disk fails again when Python ends
        return report(error, debug=debug)
    return 0


def _version(value: bool) -> None:
    if value:
        from regard import __version__

        show(f"regard {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; accepted anywhere.")] = False,
) -> None:
    """Options of all commands; `run` has removed `--debug` already."""
