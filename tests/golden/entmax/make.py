"""Goldens of sparse normalisers.

Program: entmax 1.3 on torch 2.13.0 (CPU).

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps entmax==1.3
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/entmax/make.py

Rows: random, spread wide, all equal, and two equal maxima; masked rows have -inf where nothing may be looked at.
`alpha` is a tensor, one for each row, with its gradient.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from entmax import entmax15, entmax_bisect, sparsemax, sparsemax_bisect

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import draw, record


def rows() -> np.ndarray:
    """Energies (6, 9)."""
    energies = draw(11, 6, 9)
    energies[1] *= 5
    energies[2] = 0.25
    energies[3, 4] = energies[3, 7] = 3.0
    energies[4, 5:] = -np.inf
    energies[5, 1:] = -np.inf
    return energies


def main() -> None:
    whole, masked = {"energies": rows()[:4]}, {"energies": rows()[4:]}
    for name, normalise in (("sparsemax", sparsemax), ("entmax15", entmax15)):

        def run(_, energies, normalise=normalise):
            return {"weights": normalise(energies, dim=-1)}

        record(f"entmax/{name}", lambda: None, run, whole)
        record(f"entmax/{name}_masked", lambda: None, run, masked)
    alphas = {"alpha": np.array([1.1, 1.3, 1.7, 2.0], np.float32)[:, None]}
    record(
        "entmax/entmax_bisect",
        lambda: None,
        lambda _, energies, alpha: {"weights": entmax_bisect(energies, alpha, dim=-1, n_iter=60)},
        whole | alphas,
    )
    record(
        "entmax/sparsemax_bisect",
        lambda: None,
        lambda _, energies: {"weights": sparsemax_bisect(energies, dim=-1, n_iter=60)},
        whole,
    )


if __name__ == "__main__":
    main()
