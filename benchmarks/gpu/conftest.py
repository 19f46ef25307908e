"""Scripts: `tests/test_benchmarks_gpu.py` tests their parts."""

collect_ignore_glob = ["*.py"]
