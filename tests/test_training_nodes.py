"""`torchrun` on two machines, as in docs/processes.md: machines, processes and connections that fail.

The machines are network namespaces with one folder (`support.network`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from support import network

pytestmark = pytest.mark.skipif(network.missing() is not None, reason=network.missing() or "")

CONFIG = """\
data: {train: pairs.tsv, dev_fraction: 0.1, source: {units: whitespace}, target: {units: whitespace}}
model:
  encoder: {size: 8, embedding_size: 8, dropout: 0.2}
  decoder: {size: 8, embedding_size: 8, dropout: 0.2}
training: {epochs: 90, max_steps: 240, batch_tokens: 400, warmup_steps: 0, validate_every: 80, log_every: 20, \
  save_every_minutes: 0.004, samples: 0, device: cpu}
decoding: {beam: 1, max_length: 9}
"""
MIDDLE = 100
"""The step at which something happens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("nodes")
    texts = [" ".join(str(7**n % 61 % (5 + k)) for k in range(1 + n % 7)) for n in range(400)]
    (made / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
    (made / "small.yaml").write_text(CONFIG)
    return made


@pytest.fixture(scope="module")
def nodes():
    with network.Network() as made:
        yield made.nodes


@pytest.fixture(autouse=True)
def ended(nodes):
    yield
    for node in nodes:
        node.close()


def train(name):
    return ["-m", "regard", "train", "small.yaml", "--output", name]


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def middle(folder, name):
    """Waits for a step in the middle."""
    log = folder / name / "metrics.jsonl"
    until(lambda: log.exists() and f'"step": {MIDDLE},' in log.read_text())


def begin(nodes, folder, name, **options):
    for node in nodes:
        node.start(folder, *train(name), **options)
    middle(folder, name)


def finish(nodes):
    for node in nodes:
        status, printed = node.end()
        assert status == 0, printed


def weights(folder, name):
    return load_file(folder / name / "model.safetensors")


def lines(folder, name):
    entries = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "timing"} for entry in entries]


@pytest.fixture(scope="module")
def whole(nodes, folder):
    """A training that nothing interrupts."""
    for node in nodes:
        node.start(folder, *train("whole"))
    finish(nodes)
    return "whole"


def assert_same(folder, whole, name):
    expected, found = weights(folder, whole), weights(folder, name)
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert lines(folder, whole) == lines(folder, name)


def test_two_machines_make_the_model_of_two_processes_bit_for_bit_and_of_one_up_to_rounding(folder, whole):
    for name, launcher in (
        ("two", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]),
        ("one", []),
    ):
        command = [sys.executable, *launcher, *train(name)]
        environment = {**os.environ, **network.VARIABLES}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=300)
    assert_same(folder, whole, "two")
    one, two = weights(folder, "one"), weights(folder, "two")
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=0, atol=1e-3)


def test_a_process_that_is_killed_is_started_again_and_the_run_ends_as_if_nothing_had_been(nodes, folder, whole):
    begin(nodes, folder, "process")
    os.kill(nodes[1].workers[0], signal.SIGKILL)
    finish(nodes)
    assert "continuing after step" in nodes[0].output.read_text()
    assert_same(folder, whole, "process")


def test_a_machine_that_fails_and_comes_back_joins_the_one_that_waits(nodes, folder, whole):
    begin(nodes, folder, "machine")
    nodes[1].power_off()
    nodes[1].start(folder, *train("machine"))
    finish(nodes)
    assert_same(folder, whole, "machine")


def test_where_the_machine_of_the_rendezvous_fails_both_are_started_again(nodes, folder, whole):
    begin(nodes, folder, "first")
    nodes[0].power_off()
    status, _ = nodes[1].end()
    assert status != 0
    for node in nodes:
        node.start(folder, *train("first"))
    finish(nodes)
    assert_same(folder, whole, "first")


def test_a_signal_to_all_machines_saves_and_a_later_job_continues(nodes, folder, whole):
    begin(nodes, folder, "preempted")
    for node in nodes:
        node.stop()
    printed = [node.end() for node in nodes]
    assert all(status != 0 for status, _ in printed)
    assert any("The run is saved" in text for _, text in printed), printed
    assert not (folder / "preempted" / "outcome.json").exists()
    for node in nodes:
        node.start(folder, *train("preempted"))
    finish(nodes)
    assert_same(folder, whole, "preempted")


def test_a_signal_to_one_machine_stops_both_and_none_of_them_reports_success(nodes, folder, whole):
    """The status 0 would end the job of the other machine, whose part is not done."""
    begin(nodes, folder, "half", restarts=0)
    nodes[1].stop()
    assert all(node.end()[0] != 0 for node in nodes)
    for node in nodes:
        node.start(folder, *train("half"))
    finish(nodes)
    assert_same(folder, whole, "half")


def test_processes_whose_torchrun_was_killed_save_and_leave_the_folder_to_the_next_job(nodes, folder, whole):
    begin(nodes, folder, "orphans")
    orphans = [worker for node in nodes for worker in node.workers]
    for node in nodes:
        os.kill(node.torchrun, signal.SIGKILL)
    until(lambda: not any(os.path.exists(f"/proc/{worker}") for worker in orphans))
    for node in nodes:
        node.start(folder, *train("orphans"))
    finish(nodes)
    assert_same(folder, whole, "orphans")


def test_a_machine_without_power_counts_as_failed_after_two_minutes(nodes, folder, whole):
    """Nothing says that its connections have ended."""
    begin(nodes, folder, "power")
    nodes[1].cut()
    nodes[1].power_off()
    began = time.monotonic()
    until(lambda: "another process of this run has ended" in nodes[0].output.read_text(), seconds=200)
    assert time.monotonic() - began > 60
    nodes[1].cut(False)
    nodes[1].start(folder, *train("power"))
    finish(nodes)
    assert_same(folder, whole, "power")
