"""The bounds of a server, and the gate that refuses requests before they are read: their host, token, size and time."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections.abc import Collection, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import Option
from regard.serve.metrics import Metrics
from regard.serve.requests import Refusal

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\A.{0,3}\0", re.DOTALL)
"""What JSON that has half of a surrogate pair has, among others: an escape, or another encoding."""
LINGER = 16
"""How many times the largest body is read and thrown away, so that a client that sends more gets to read the answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a server.

    Args:
        wait: seconds that a request may wait for others with which it is computed.
        batch: the most inputs that are computed together.
        queue: the most requests that wait for a model.
        seconds: within which a request is answered.
        body: bytes of a request.
        reading: seconds within which the body of a request has come.
    """

    wait: float = 0.005
    batch: int = 64
    queue: int = 256
    seconds: float = 60.0
    body: int = 10_000_000
    reading: float = 10.0


@dataclass
class Traffic:
    """The requests of a server.

    Args:
        active: those without an answer, of those that came before draining.
        is_draining: whether new ones are refused.
    """

    active: int = 0
    is_draining: bool = False


@dataclass
class Gate:
    """An ASGI middleware that reads the body of each request within its limits, and counts requests.

    Args:
        paths: the addresses of the server, by which requests are counted.
        token: that requests of `/v1/` and `/metrics` need; None: none.
        hosts: names in the header Host; None: any. Another one is how a web page elsewhere would reach a server that
            only this machine can reach.
    """

    app: ASGIApp
    limits: Limits
    metrics: Metrics
    traffic: Traffic
    paths: Collection[str]
    token: str | None = None
    hosts: Collection[str] | None = LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, answered = time.perf_counter(), 0

        async def observed(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                if self.traffic.is_draining:
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        is_accepted = not self.traffic.is_draining
        self.traffic.active += is_accepted
        self.metrics.active.set(self.traffic.active)
        try:
            try:
                body = await self._body(scope, receive)
            except Refusal as refusal:
                await refusal.response()(scope, receive, observed)
            else:
                await self.app(scope, _replayed(body, receive), observed)
        finally:
            self.traffic.active -= is_accepted
            self.metrics.active.set(self.traffic.active)
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(answered)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that may be answered."""
        headers: MutableMapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        path = scope["path"]
        if self.traffic.is_draining and path != "/health":
            raise ending()
        host = re.sub(r":\d*$", "", headers.get("host", ""))
        if self.hosts is not None and host.lower() not in self.hosts:
            option = Option(f"--allow-host {host:.60}", f"hosts=[{host!r:.60}]")
            raise Refusal(403, f"The server is not reached by the name {host!r:.60}; start it with {option}.")
        if self.token is not None and path.startswith(("/v1/", "/metrics")) and scope["method"] != "OPTIONS":
            given = headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                raise Refusal(401, "Send the server's token: Authorization: Bearer TOKEN.", www_authenticate="Bearer")
        if scope["method"] == "POST" and path.startswith("/v1/"):
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" or headers.get("content-encoding", "identity") != "identity":
                raise Refusal(415, "Send JSON: Content-Type: application/json, without a Content-Encoding.")
        body = await self._read(headers, receive)
        if HALF_PAIR.search(body):
            with suppress(RecursionError, UnicodeDecodeError, json.JSONDecodeError):  # which are refused as no JSON
                if not _is_utf8(json.loads(body)):
                    raise Refusal(422, "A text has half of a surrogate pair, which UTF-8 cannot express; remove it.")
        return body

    async def _read(self, headers: MutableMapping[str, str], receive: Receive) -> bytes:
        parts: list[bytes] = []
        size, most = 0, self.limits.body
        declared = headers.get("content-length", "0")
        is_too_large = declared.isdecimal() and int(declared) > most
        try:
            async with asyncio.timeout(self.limits.reading):
                more = True
                while more and size <= LINGER * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    part: bytes = message.get("body", b"")
                    size += len(part)
                    is_too_large |= size > most
                    parts = [] if is_too_large else [*parts, part]
                    more = message.get("more_body", False)
        except TimeoutError:
            if not is_too_large:
                raise Refusal(
                    408,
                    f"The body did not come within {self.limits.reading:g} seconds; send it again.",
                    connection="close",
                ) from None
        if is_too_large:
            option = Option("--longest-body", "Limits.body")
            text = f"The body has more than {most:,} bytes; send less, or start the server with a larger {option}."
            raise Refusal(413, text, connection="close")
        return b"".join(parts)


def ending() -> Refusal:
    """The answer of a server that ends."""
    text = "The server is shutting down; send the request to another one, or again later."
    return Refusal(503, text, retry_after="5")


def _is_utf8(value: Any) -> bool:
    """Whether UTF-8 can express all texts of a value of JSON."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Receives a body that has been read, and then what comes after it."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
