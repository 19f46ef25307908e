"""The runner takes minutes; `tests/test_fuzz.py` makes few inputs of each kind."""

collect_ignore_glob = ["*.py"]
