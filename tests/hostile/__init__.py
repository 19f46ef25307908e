"""Inputs that were not meant: what users, disks and editors do to configurations, data, models and commands.

Each kind is a file with `draw(random, folder)`, which fills a working folder and returns the `Trial` to make in it.
`tests/test_fuzz.py` draws few of each with Hypothesis, `benchmarks/fuzz` many with a seed.
"""
