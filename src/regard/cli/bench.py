"""`regard bench`"""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import options
from regard.cli.standard import check_output, results, say


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="additive, decoder, training, beam, …; all without it."),
    ] = None,
    threads: Annotated[str, typer.Option(metavar="N,N", help="Numbers of threads, each measured.")] = "1",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and few rounds: does it work?")] = False,
    output: options.Output = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Measure speed and memory on this machine.

    Everything is measured against the plain way to the same numbers, turn by turn in one process. Results and
    gradients are compared with float64 first, and what is wrong gets no time. Pictures go beside --output.
    """
    counts = [int(count) for count in threads.split(",") if count.strip().isdigit() and int(count)]
    if len(counts) != len(threads.split(",")):
        raise typer.BadParameter(f"{threads!r}: give numbers with commas between, as 1,2", param_hint="'--threads'")
    check_output(output, overwrite=overwrite)
    from regard import bench as benchmarks

    pictures = None if output is None or str(output) == "-" else output.with_suffix("")
    text, passes = benchmarks.run(cases or (), threads=counts, quick=quick, pictures=pictures, say=say)
    with results(output) as stream:
        asked = ["regard bench", *(cases or ()), f"--threads {threads}", *(["--quick"] if quick else [])]
        stream.write(f"# Speed\n\n    {' '.join(asked)}\n\n{text}")
    if not passes:
        raise typer.Exit(1)


def register(application: typer.Typer) -> None:
    """Adds the verb to the command line."""
    application.command("bench", epilog="Example: regard bench additive --threads 1,2")(bench)
