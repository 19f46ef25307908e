"""Scripts: `tests/test_benchmarks_small_data.py` tests their parts."""

collect_ignore_glob = ["*.py", "yoyodyne/*.py"]
