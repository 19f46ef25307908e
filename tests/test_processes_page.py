"""The scripts of docs/processes.md."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[1] / "docs" / "processes.md").read_text(encoding="utf-8")
COMMANDS = {
    "scontrol": 'if [ "$1" = show ]; then echo node1; echo node2; else echo "$@" >> requeued; fi',
    "srun": 'shift; exec "$@"',
    # the trap is that of torchrun, which ends with 1 after SIGTERM
    "torchrun": 'trap "echo saved >> saved; exit 1" TERM; echo "$@" > arguments; [ -e finishes ] && exit 0; '
    "while true; do sleep 0.05; done",
}
"""What the commands of a cluster do in a script."""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script of Slurm, with its commands on the path."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (block,) = re.findall(r"```sh\n(#!/bin/bash\n.*?)```", PAGE, re.DOTALL)
    for name, body in {**COMMANDS, "job.sh": block}.items():
        (tmp_path / name).write_text(body if name == "job.sh" else f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in (("SLURM_JOB_NODELIST", "node[1-2]"), ("SLURM_JOB_NUM_NODES", "2"), ("SLURM_JOB_ID", "7")):
        monkeypatch.setenv(name, value)
    return tmp_path / "job.sh"


def test_the_job_of_slurm_saves_and_is_queued_again_before_its_time_ends(script, tmp_path):
    job = subprocess.Popen(["bash", str(script)])
    deadline = time.monotonic() + 20
    while not (tmp_path / "arguments").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(20) == 1
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"
    assert "--nnodes 2 " in (arguments := (tmp_path / "arguments").read_text())
    assert "--rdzv-endpoint node1:29500 --rdzv-id 7 -m regard train config.yaml" in arguments


def test_the_job_of_slurm_that_is_finished_is_not_queued_again(script, tmp_path):
    (tmp_path / "finishes").touch()
    assert subprocess.run(["bash", str(script)], check=False, timeout=20).returncode == 0
    assert not (tmp_path / "requeued").exists()


def test_the_objects_of_kubernetes_fit_together():
    (block,) = re.findall(r"```yaml\n(apiVersion.*?)```", PAGE, re.DOTALL)
    service, job = yaml.safe_load_all(block)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    name = job["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}  # the label that Kubernetes puts on the pods of a job
    assert pod["subdomain"] == service["metadata"]["name"]
    assert f"--rdzv-endpoint={name}-0.{pod['subdomain']}:29500" in container["command"]
    assert f"--nnodes={job['spec']['completions']}" in container["command"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_every_command_that_starts_torchrun_on_machines_lets_it_join_again():
    starts = [block for block in re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL) if "rdzv-endpoint" in block]
    assert len(starts) == 3
    assert all("TORCH_DISABLE_SHARE_RDZV_TCP_STORE" in block for block in starts)
