"""What a training on many pairs costs: time before the first step, disk, and steps of many processes.

    python benchmarks/costs.py --symbols 2e9 --rate 5000 --parameters 60e6 --processes 64 --network 100
    python benchmarks/costs.py --picture docs/pictures/costs.svg

The first form computes a training from its rates; the second draws what was measured (`MEASURED`, from
benchmarks/results/large_data_*.md and nodes_*.md) and what follows from it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

MEASURED = {200_000: (9.1, 9.1), 2_000_000: (25.8, 7.5), 20_000_000: (211.6, 14.8), 100_000_000: (1_103.0, 49.9)}
"""Pairs: seconds to the first step at the first start and at the second."""
START = 7.3
"""Seconds to the first step without data: imports, the model, compiled kernels."""
RATE, PARAMETERS = 3_800.0, 2_600_000
"""Output symbols a second of one process with one thread, and parameters, of the preset `g2p`."""


def step_seconds(
    symbols: float, rate: float, parameters: float, processes: int, gigabits: float
) -> tuple[float, float]:
    """The seconds of computation and of exchange of a step.

    Args:
        symbols: of the outputs of the whole batch, which the processes divide.
        rate: of these symbols, a second and process.
        processes: one for each network connection.
        gigabits: a second, of each connection.
    """
    sent = 4 * parameters * 2 * (processes - 1) / processes
    return symbols / (processes * rate), sent * 8 / (gigabits * 1e9)


def picture(path: Path) -> None:
    """Draws the start by pairs and the rate by processes."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    pairs = list(MEASURED)
    for place, name in ((0, "first start"), (1, "second start")):
        (line,) = left.loglog(pairs, [MEASURED[count][place] for count in pairs], "o", label=name)
        last = MEASURED[pairs[-1]][place]
        slope = (last - START) / pairs[-1]
        counts = [10 ** (exponent / 10) for exponent in range(50, 91)]
        left.loglog(counts, [START + slope * count for count in counts], color=line.get_color(), linewidth=1)
    left.set(xlabel="pairs", ylabel="seconds to the first step")
    left.legend(frameon=False)
    numbers = [2**exponent for exponent in range(8)]
    for color, gigabits in (("tab:red", 1), ("tab:orange", 10), ("tab:green", 100)):
        for symbols, style in ((20_000, "--"), (200_000, "-")):
            times = [sum(step_seconds(symbols, RATE, PARAMETERS, number, gigabits)) for number in numbers]
            label = f"{gigabits} Gbit/s, batches of {symbols:,} symbols"
            right.loglog(numbers, [symbols / each for each in times], style, label=label, color=color, linewidth=1)
    right.loglog(numbers, [RATE * number for number in numbers], ":", color="gray", label="without exchange")
    right.set(xlabel="processes", ylabel="symbols a second")
    right.legend(frameon=False, fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Prints the costs of a training, or draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--symbols", type=float, default=1e9, help="of the outputs of the training data")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument(
        "--rate", type=float, default=RATE, help="output symbols a second of one process, as regard train shows it"
    )
    parser.add_argument("--parameters", type=float, default=PARAMETERS)
    parser.add_argument("--batch", type=float, default=200_000, help="output symbols of the whole batch")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--network", type=float, default=10.0, help="Gbit/s of each process")
    given = parser.parse_args()
    if given.picture is not None:
        picture(given.picture)
        return
    computed, exchanged = step_seconds(given.batch, given.rate, given.parameters, given.processes, given.network)
    steps = given.epochs * given.symbols / given.batch
    print(f"{steps:,.0f} steps of {computed:.3g} s computation and {exchanged:.3g} s exchange")
    hours = steps * (computed + exchanged) / 3600
    print(f"{hours:,.1f} hours, {hours * given.processes:,.0f} hours of one process in all")


if __name__ == "__main__":
    main()
