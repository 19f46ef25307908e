"""Timing errors of the baselines that an alignment of speech has to be better than, on a corpus with labels.

    python benchmarks/speech/timing_baselines.py CORPUS [--table letters.tsv] [--part dev]

CORPUS has `metadata_train.csv` and `metadata_PART.csv`, whose first column, before the first |, is a sentence's id,
a table of labels (`phones.tsv` or `letters.tsv`), and the sound in `wavs/ID.wav`; without the sound a sentence is as
long as its labels. The median of boundaries is also printed after subtracting the lag, their median difference.
"""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

from regard.data.speech import read_intervals
from regard.metrics.speech import MeanDurations, diagonal_times, timing_differences, timing_errors


def ids(path: Path) -> list[str]:
    """The first column of a table without header."""
    return [line.partition("|")[0] for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Prints a row for each baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--table", default="phones.tsv")
    parser.add_argument("--part", default="dev")
    options = parser.parse_args()
    labels = read_intervals(options.corpus / options.table)

    def seconds(key: str) -> float:
        path = options.corpus / "wavs" / f"{key}.wav"
        if not path.exists():
            return labels[key].ends[-1]
        with wave.open(str(path)) as file:
            return file.getnframes() / file.getframerate()

    means = MeanDurations.of(labels[key] for key in ids(options.corpus / "metadata_train.csv"))
    keys = ids(options.corpus / f"metadata_{options.part}.csv")
    part = [labels[key] for key in keys]
    baselines = {
        "diagonal": [diagonal_times(len(labels[key]), seconds(key)) for key in keys],
        "mean durations": [means.times(labels[key].units, seconds(key)) for key in keys],
    }
    units = sum(len(one) for one in part)
    print(f"{options.corpus.name} {options.table} {options.part}: {len(part)} sentences, {units:,} units")
    print("| baseline | centre, ms | boundary, ms | within 50 ms | lag, ms | boundary without the lag, ms |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, times in baselines.items():
        differences = [timing_differences(found, one) for found, one in zip(times, part, strict=True)]
        errors = timing_errors(differences)
        print(
            f"| {name} | {errors.centre_ms:.1f} | {errors.boundary_ms:.1f} | {100 * errors.near_share:.1f} % | "
            f"{errors.lag_ms:+.1f} | {errors.lagless_ms:.1f} |"
        )


if __name__ == "__main__":
    main()
