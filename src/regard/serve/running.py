"""The process of a server: its socket, its signals, and its end without a lost request."""

from __future__ import annotations

import asyncio
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from regard.errors import Option, RegardError
from regard.serve.limits import Traffic
from regard.serve.models import Models

BACKLOG = 2048
LAST_REQUESTS = 0.5
"""Seconds between the last answer and the end of connections that may still send a request, which is refused."""
PAUSE = 0.02


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 is a free one.

    Raises:
        RegardError: for an address that cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        is_used = "in use" in str(error.strerror)
        hint = f" Another program listens there: choose another {Option('--port', 'port')}." if is_used else ""
        raise RegardError(f"{host}:{port}: {error.strerror}.{hint}") from None


def run(app: FastAPI, listening: socket.socket, *, watch: float | None = None) -> None:
    """Serves until SIGTERM or SIGINT, and then until the last request is answered; SIGHUP loads all models again.

    Args:
        app: of `application`.
        listening: of `listen`.
        watch: seconds between two looks for changed models; None: no looks.
    """
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=30)
    asyncio.run(_serve(Server(config, app.state.traffic), app.state.models, listening, watch))


async def _serve(server: Server, models: Models, listening: socket.socket, watch: float | None) -> None:
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def reload() -> None:
        task = asyncio.create_task(models.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, reload)
    if watch is not None:
        tasks.add(asyncio.create_task(_watch(models, watch)))
    try:
        await server.serve(sockets=[listening])
    finally:
        for task in tasks:
            task.cancel()


async def _watch(models: Models, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await models.reload(changed_only=True)


class Server(uvicorn.Server):
    """A server that refuses new requests at a signal, and ends when it has answered the others."""

    def __init__(self, config: uvicorn.Config, traffic: Traffic) -> None:
        super().__init__(config)
        self._traffic = traffic

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins the end; a second signal ends at once."""
        if self._traffic.is_draining:
            self.should_exit = self.force_exit = True
            return
        self._traffic.is_draining = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until a signal."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def _end(self) -> None:
        """Answers what has come, stops listening, and refuses what still comes on open connections."""
        await self._quiet(0)
        for listener in self.servers:
            listener.close()
        await self._quiet(LAST_REQUESTS)
        self.should_exit = True

    async def _quiet(self, seconds: float) -> None:
        """Waits until no request has been open for some seconds, or no connection is."""
        since = self._loop.time()
        while self._traffic.active or (self.server_state.connections and self._loop.time() - since < seconds):
            await asyncio.sleep(PAUSE)
            since = self._loop.time() if self._traffic.active else since
