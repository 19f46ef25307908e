"""These files are scripts and hold no tests; `tests/test_benchmarks_gpu.py` tests their parts."""

collect_ignore_glob = ["*.py"]
