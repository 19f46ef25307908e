"""The figures of a server for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """Counts what a server does."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        path = ["path"]
        self.requests = Counter("regard_requests", "Answered requests", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "regard_request_seconds", "From the head of a request to its answer", path, buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.inputs = Counter("regard_inputs", "Inputs and pairs that were computed", ["model"], registry=self.registry)
        self.batches = Histogram(
            "regard_batch_inputs", "Inputs that are computed together", ["model"], buckets=SIZES, registry=self.registry
        )
        self.abandoned = Counter(
            "regard_abandoned", "Requests whose client went or whose time ended", ["model"], registry=self.registry
        )
        self.loads = Counter("regard_loads", "Loads of a model", ["model", "result"], registry=self.registry)
        self.active = Gauge("regard_active_requests", "Requests without an answer", registry=self.registry)
        self.waiting = Gauge(
            "regard_waiting_requests", "Requests that wait for a model", ["model"], registry=self.registry
        )

    def observer(self, name: str) -> Callable[[int], None]:
        """Counts the inputs of the computations of a model."""
        batches, inputs = self.batches.labels(name), self.inputs.labels(name)

        def observe(count: int) -> None:
            batches.observe(count)
            inputs.inc(count)

        return observe

    def text(self) -> bytes:
        """The figures in Prometheus' format."""
        return generate_latest(self.registry)
