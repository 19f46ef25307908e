"""Models whose weights are divided among processes train and search as on one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist
from torch import nn

from regard.errors import UnsupportedError
from regard.models import register_entry_points

HERE = Path(__file__).parent


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")
def test_sharded_models_train_and_search_as_on_one_process():
    """At every granularity; the two processes compare by themselves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": HERE, "env": os.environ}
    processes = [subprocess.Popen([sys.executable, "sharded.py", str(rank), port], **options) for rank in range(2)]
    try:
        told = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(told)


def test_a_model_that_is_not_sharded_has_no_entries_to_register():
    with pytest.raises(UnsupportedError, match="fully_shard"):
        register_entry_points(nn.Linear(2, 2))
