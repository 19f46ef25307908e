"""The process of a server: its socket, its signals, and its end without a lost request."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

from regard.errors import Option, RegardError
from regard.serve.limits import Traffic, ending
from regard.serve.models import Models

BACKLOG = 2048
LAST_REQUESTS = 1.0
"""Seconds between the last answer and the end of connections that may still send a request, which is refused."""
PAUSE = 0.02


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 is a free one.

    Raises:
        RegardError: for an address that cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # for its connections, too: otherwise the body of an answer waits 40 ms for the acknowledgement of its head
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
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
        self._listening = [each.dup() for each in sockets or ()]  # stays open when the server stops to listen
        try:
            await super().serve(sockets)
        finally:
            for each in self._listening:
                each.close()

    async def _end(self) -> None:
        """Answers what has come, stops listening, and refuses what still comes on open connections."""
        await self._quiet(0)
        for number in [each.fileno() for server in self.servers for each in server.sockets]:
            with suppress(NotImplementedError):  # of loops that accept otherwise
                self._loop.remove_reader(number)
        await asyncio.sleep(PAUSE)  # what has been accepted becomes a connection
        for server in self.servers:
            server.close()
        waiting = [connection for each in self._listening for connection in _accepted(each)]
        await asyncio.gather(*map(_refuse, waiting))
        await self._quiet(LAST_REQUESTS)
        self.should_exit = True

    async def _quiet(self, seconds: float) -> None:
        """Waits until no request has been open for some seconds, or no connection is."""
        since = self._loop.time()
        while self._traffic.active or (self.server_state.connections and self._loop.time() - since < seconds):
            await asyncio.sleep(PAUSE)
            since = self._loop.time() if self._traffic.active else since


def _accepted(listening: socket.socket) -> list[socket.socket]:
    """The connections that wait for a server that has stopped to listen, which would be reset."""
    connections = []
    with listening, suppress(BlockingIOError):
        listening.setblocking(False)
        while True:
            connections.append(listening.accept()[0])
    return connections


async def _refuse(connection: socket.socket) -> None:
    """Answers the request of a connection with 503."""
    with suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection(sock=connection)
        body = json.dumps({"error": ending().error}).encode()
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nRetry-After: 5\r\nConnection: close"
        writer.write(f"HTTP/1.1 503 Service Unavailable\r\n{head}\r\n\r\n".encode() + body)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), LAST_REQUESTS)  # so that the client is not reset while it sends
        writer.close()
