"""Two machines on one: network namespaces of Linux joined by a virtual cable. Needs root, `ip` and `unshare`.

Each has an address, a host name and processes of its own; they share the files, as machines do through NFS.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

NAMES = ("nodea", "nodeb")
PORT = 29500
VARIABLES = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""The second lets a torchrun that has been started again join one that waits, as docs/processes.md says."""


def missing() -> str | None:
    """Why there can be no such machines here; None if there can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if absent := [name for name in ("ip", "unshare") if shutil.which(name) is None]:
        return f"{absent[0]} is not installed"
    name = f"rg{os.getpid()}t"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "this system forbids network namespaces"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


class Node:
    """A machine, and the torchrun on it.

    Args:
        interface: the name of its network interface, which is also that of its namespace.
    """

    def __init__(self, number: int, hosts: Path) -> None:
        self.name, self.interface = NAMES[number], f"rg{os.getpid()}{number}"
        self._hosts = hosts
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path, *arguments: str, restarts: int = 3, environment: Mapping[str, str] = {}) -> Self:
        """Starts torchrun, with one process of a program; what it prints goes into a file.

        Args:
            arguments: a file of Python, or -m and a module, and its own arguments.
        """
        self.close()
        # the processes of a torchrun that is killed live on for a while
        own = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && "$@"; status=$?; '
        own += "[ $status = 137 ] && sleep 30; exit $status"
        isolated = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{NAMES[0]}:{PORT}", "--rdzv-id", "test"]
        torchrun += ["--max-restarts", str(restarts)]
        before = ["ip", "netns", "exec", self.interface, *isolated, "sh", "-c", own, "sh", str(self._hosts), self.name]
        variables = {**os.environ, **VARIABLES, "GLOO_SOCKET_IFNAME": self.interface, **environment}
        self.output = Path(tempfile.mkstemp(dir=folder, prefix=f"{self.name}-")[1])
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [*before, *torchrun, *arguments], cwd=folder, env=variables, stdout=output, stderr=output
            )
        return self

    @property
    def torchrun(self) -> int:
        """The id of the process of torchrun."""
        (machine,) = _children(self._running.pid)
        return _children(machine)[0]

    @property
    def workers(self) -> list[int]:
        """The ids of the processes that torchrun has started."""
        return _children(self.torchrun)

    def power_off(self) -> None:
        """Ends all processes of the machine at once."""
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Sends SIGTERM to torchrun, as Slurm and Kubernetes do."""
        os.kill(self.torchrun, signal.SIGTERM)

    def cut(self, is_cut: bool = True) -> None:
        """Cuts the cable, or joins it again."""
        _ip("-n", self.interface, "link", "set", self.interface, "down" if is_cut else "up")

    def end(self, timeout: float = 300) -> tuple[int, str]:
        """Waits for torchrun: its status and what was printed."""
        try:
            status = self._running.wait(timeout)
        finally:
            self.close()
        return status, self.output.read_text()

    def close(self) -> None:
        """Ends what still runs."""
        if self._process is not None and self._process.poll() is None:
            self.power_off()

    @property
    def sent(self) -> int:
        """The bytes that its interface has sent."""
        counter = f"/sys/class/net/{self.interface}/statistics/tx_bytes"
        read = ["ip", "netns", "exec", self.interface, "cat", counter]
        return int(subprocess.run(read, capture_output=True, check=True).stdout)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "nothing was started"
        return self._process


class Network:
    """A context with two machines, in `nodes`, that reach each other by name."""

    def __init__(self) -> None:
        self._hosts = Path(tempfile.mkstemp(prefix="hosts-")[1])
        addresses = [f"10.77.{os.getpid() % 256}.{number + 1}" for number in range(2)]
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for address, name in zip(addresses, NAMES, strict=True))]
        self._hosts.write_text("".join(f"{line}\n" for line in lines))
        self._addresses = addresses
        self.nodes = [Node(number, self._hosts) for number in range(2)]

    def __enter__(self) -> Self:
        first, second = (node.interface for node in self.nodes)
        for name in (first, second):
            _ip("netns", "add", name)
        _ip("link", "add", first, "netns", first, "type", "veth", "peer", "name", second, "netns", second)
        for name, address in zip((first, second), self._addresses, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
            for device in ("lo", name):
                _ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *error: object) -> None:
        for node in self.nodes:
            node.close()
            _ip("netns", "del", node.interface)
        self._hosts.unlink()

    def limit(self, rate: str) -> None:
        """Limits what each machine sends, for example to "1gbit"."""
        for node in self.nodes:
            bucket = ["tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
            at = ["ip", "netns", "exec", node.interface, "tc", "qdisc", "replace", "dev", node.interface, "root"]
            subprocess.run([*at, *bucket], check=True)

    def unlimit(self) -> None:
        """Removes the limit."""
        for node in self.nodes:
            at = ["ip", "netns", "exec", node.interface, "tc", "qdisc", "del", "dev", node.interface, "root"]
            subprocess.run(at, check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
