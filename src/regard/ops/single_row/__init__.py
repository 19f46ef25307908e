"""Parts of a step for a single row; the equations are in `reference`, and `numba` has the kernels."""
