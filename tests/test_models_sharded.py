"""Models whose weights are divided among processes train and search as on one."""

from __future__ import annotations

import socket

import pytest
import torch.distributed as dist
from torch import nn

import sharded
from regard.errors import UnsupportedError
from regard.models import register_entry_points
from support.forked import Started


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")
def test_sharded_models_train_and_search_as_on_one_process(tmp_path):
    """At every granularity; the two processes compare by themselves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [Started.of(sharded.main, rank, port, folder=tmp_path) for rank in range(2)]
    ended = [process.end() for process in started]
    assert [one.status for one in ended] == [0, 0], "\n".join(one.out + one.err for one in ended)


def test_a_model_that_is_not_sharded_has_no_entries_to_register():
    with pytest.raises(UnsupportedError, match="fully_shard"):
        register_entry_points(nn.Linear(2, 2))
