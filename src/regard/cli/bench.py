"""`regard bench`"""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import options
from regard.cli.standard import check_output, format_of_output, results, say


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="additive, decoder, training, beam, …; default: all."),
    ] = None,
    threads: Annotated[str, typer.Option("--threads", metavar="N,N", help="Numbers of threads to measure.")] = "1",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and few rounds, as a test.")] = False,
    output: options.Output = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Measure speed and memory on this machine.

    Everything is compared with the plain implementation of the same computation, in turns within one process. Results
    and gradients are first checked against float64, and wrong ones are not timed. Pictures are written beside --output.
    """
    counts = [int(count) for count in threads.split(",") if count.strip().isdigit() and int(count)]
    if len(counts) != len(threads.split(",")) or max(counts) > 1024:
        raise typer.BadParameter(
            f"{threads!r}: give numbers from 1 to 1024 separated by commas, for example 1,2", param_hint="'--threads'"
        )
    check_output(output, overwrite=overwrite)
    format_of_output(output, {".md": "markdown"}, "markdown")
    from regard import bench as benchmarks

    pictures = None if output is None or str(output) == "-" else output.with_suffix("")
    text, passes = benchmarks.run(cases or (), threads=counts, quick=quick, pictures=pictures, say=say)
    with results(output) as stream:
        words = ["regard bench", *(cases or ()), f"--threads {threads}", *(["--quick"] if quick else [])]
        stream.write(f"# Speed\n\n    {' '.join(words)}\n\n{text}")
    if not passes:
        raise typer.Exit(1)
