"""Recurrent cells: what they are (`cell.py`) and how their steps are taken.

`reset_before.py` is the one that torch does not have: a GRU with the reset gate before the product.

`elementary.py`, in operations that every transform of torch knows, also as programs for any length; `packed.py`, over
whole sequences without padding. Single steps in a loop are those of `ops.cells`.
"""
