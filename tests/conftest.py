"""One thread, and shapes of parts and operations checked against their annotations."""

from __future__ import annotations

import os
import signal
import tempfile
from zlib import crc32

import hypothesis
import pytest
import torch

import annotations

# The front doors (`Mechanism`, `Parallel`, models) stay out: their own errors say more, and tests look at them.
CHECKED = [
    *(f"regard.attention.{room}" for room in ("alignments", "heads", "reads", "scores", "windows")),
    "regard.layers",
    "regard.ops",
]

annotations.install(CHECKED)
# A busy machine is no mistake. The same examples in every run: a change is judged by what it changed;
# `pytest --hypothesis-profile explore` draws others.
hypothesis.settings.register_profile("regard", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("regard")
torch.set_num_threads(1)
_compiled = tempfile.TemporaryDirectory(prefix="regard-inductor-")  # what a killed test leaves half written harms none
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _compiled.name
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells leave it to what they run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without slow tests, a quarter of the tests checks annotations, by their names."""
    quick = item.config.option.markexpr == "not slow" and "annotations" not in item.nodeid
    annotations.next_test(checks=not quick or crc32(item.nodeid.encode()) % 4 == 0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without slow tests a quarter of the examples of hypothesis; skips tests marked `gpu` where there is none."""
    if config.option.markexpr == "not slow":
        for test in {item.obj for item in items if hypothesis.is_hypothesis_test(getattr(item, "obj", None))}:
            drawn = test._hypothesis_internal_use_settings
            test._hypothesis_internal_use_settings = hypothesis.settings(drawn, max_examples=drawn.max_examples // 4)
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="there is no GPU that torch can use"))
