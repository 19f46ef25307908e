"""Recurrent cells (`cell.py`) and layers of them (`layer.py`), by several implementations.

`packed.py` runs whole sequences without padding on the CPU, `padded.py` with padding on a GPU, and `elementary.py` in
operations that all transforms of torch support. `reset_before.py` is a GRU that torch lacks, with the reset gate before
the product. Single steps in a loop are those of `ops.cells`.
"""
