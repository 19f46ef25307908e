"""A connection to a cluster of Ray, and what each worker takes of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from regard.errors import ConfigError, RegardError
from regard.lazy import optional

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to.

    Args:
        ray: the package.
        num_workers: how many work at a time.
        uses_gpus: whether each of them takes a GPU, besides a CPU.
    """

    ray: Any
    num_workers: int
    uses_gpus: bool

    def remote(self, work: Any, **options: Any) -> Any:
        """A class or function as Ray's, with what a worker takes of the cluster."""
        return self.ray.remote(num_cpus=1, num_gpus=int(self.uses_gpus), **options)(work)

    def here(self) -> Any:
        """Ray's option `scheduling_strategy` for what has to be on the machine of this process."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)


def ray(device: str = "auto") -> Any:
    """The package Ray.

    Args:
        device: of the workers, to check it.

    Raises:
        UnsupportedError: if it is not installed.
        ConfigError: for a device with a number.
    """
    if device not in DEVICES:
        raise ConfigError(f"device {device}: Ray gives each worker a GPU of its own; use one of {', '.join(DEVICES)}.")
    return optional("ray", "Work on a cluster needs", extra="ray")


@contextmanager
def connected(num_workers: int | None = None, device: str = "auto") -> Iterator[Cluster]:
    """Connects to the cluster that Ray finds, as by `RAY_ADDRESS`, or starts one on this machine; ends it afterwards.

    A connection that the program has already is used, and stays.

    Args:
        num_workers: None: as many as the cluster has GPUs, or CPUs if it has none.
        device: auto (a GPU for each worker if the cluster has any), cpu or cuda.

    Raises:
        UnsupportedError: without Ray.
        ConfigError: for `cuda` without GPUs.
        RegardError: if the cluster cannot be reached.
    """
    package = ray(device)
    begins = not package.is_initialized()
    if begins:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        before = signal.getsignal(signal.SIGTERM)
        try:
            package.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = os.environ.get("RAY_ADDRESS", "the address of a cluster on this machine")
            raise RegardError(f"Ray: there is no connection to {where}: {error}") from error
        if threading.current_thread() is threading.main_thread():  # which has Ray's now
            signal.signal(signal.SIGTERM, before)
    try:
        resources = package.cluster_resources()
        num_cpus, num_gpus = (int(resources.get(name, 0)) for name in ("CPU", "GPU"))
        if device == "cuda" and not num_gpus:
            raise ConfigError("device cuda: the cluster has no GPUs.")
        uses_gpus = device != "cpu" and num_gpus > 0
        yield Cluster(package, num_workers or (num_gpus if uses_gpus else num_cpus) or 1, uses_gpus)
    finally:
        if begins:
            package.shutdown()
