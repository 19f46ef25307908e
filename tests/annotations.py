"""The checker of annotations in tests: an int is a float, as everywhere in Python."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
