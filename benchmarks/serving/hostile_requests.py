"""Hostile requests: whether each gets a status and a sentence, and whether the server lives and answers as before.

    python benchmarks/serving/hostile_requests.py [--bodies 2000] [--seed 0] > hostile.md

A server of `g2p-en`, of a model of pictures and of a model of series, which have learned nothing, gets bodies that are
no JSON, nested too deeply, of wrong types, too large or not UTF-8; heads that are damaged; clients that send slowly or
close half of their connection; pictures that are bombs or lie about themselves, and tables with gaps of a thousand
years. Between them it is asked for a word, whose answer must stay the same.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
TEXTS = [
    "",
    "a",
    "\0",
    "\u202e",
    "é" * 50,
    "\\",
    '"',
    "</script>",
    "../../etc/passwd",
    "http://example.org/x.png",
    "NaN",
]
VALID = {"inputs": ["attention"], "search": {"beam": 2}}
PATHS = ("/v1/predict", "/v1/align", "/v1/score")
Draw = Callable[[random.Random], bytes]


def value(draw: random.Random, depth: int = 3) -> Any:
    """A random value of JSON."""
    kind = draw.randrange(8 if depth else 6)
    if kind == 6:
        return [value(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind == 7:
        return {draw.choice([*TEXTS, "inputs", "model"]): value(draw, depth - 1) for _ in range(draw.randrange(4))}
    numbers = [0, -1, 2**63, 10**40, 1e308, -0.0, 1e-300, draw.random()]
    return [None, True, draw.choice(numbers), draw.choice(TEXTS), draw.choice(numbers), draw.choice(TEXTS)][kind]


def wrong_types(draw: random.Random) -> bytes:
    """A valid body in which values are others."""
    body: dict[str, Any] = {**VALID, "alignment": True, "constraints": [{"prefix": "AH"}], "at_least": 0.5}
    for _ in range(draw.randrange(1, 4)):
        body[draw.choice([*body, "stream", "sound", "confidence", "model", "unknown", "pairs", "words"])] = value(draw)
    if draw.random() < 0.3:
        names = [
            "beam",
            "num_best",
            "method",
            "temperature",
            "seed",
            "alpha",
            "ensemble",
            "reranker",
            "prefix",
            "include",
        ]
        body["search"] = {draw.choice(names): value(draw, 1) for _ in range(3)}
    return json.dumps(body).encode()


def pairs(draw: random.Random) -> bytes:
    """A body of pairs in which values are others."""
    pair = {"input": draw.choice([*TEXTS, value(draw)]), "output": draw.choice([*TEXTS, value(draw)])}
    return json.dumps({"pairs": [pair, value(draw)] if draw.random() < 0.5 else [pair]}).encode()


def deep(draw: random.Random) -> bytes:
    """Brackets within each other."""
    depth, (left, right) = draw.choice([50, 900, 5_000, 200_000]), draw.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return b'{"inputs":' + left * depth + b"1" * (left != b"[") + right * depth * draw.randrange(2) + b"}"


def damaged(draw: random.Random) -> bytes:
    """A valid body with some other bytes."""
    body = bytearray(json.dumps(VALID).encode())
    for _ in range(draw.randrange(1, 6)):
        body[draw.randrange(len(body))] = draw.randrange(256)
    return bytes(body[: draw.randrange(1, len(body) + 1)])


def not_utf8(draw: random.Random) -> bytes:
    """A text that is not UTF-8, or half of a surrogate pair."""
    bad = draw.choice([b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\xf0\x28\x8c\xbc", "é".encode("latin-1")])
    return b'{"inputs":["' + bad * draw.randrange(1, 5) + b'"]}'


def large(draw: random.Random) -> bytes:
    """A body of many texts, of a long one, or of digits."""
    kind = draw.randrange(4)
    if kind == 0:
        return json.dumps({"inputs": ["a"] * draw.choice([257, 100_000])}).encode()
    if kind == 1:
        return json.dumps({"inputs": ["a" * draw.choice([20_001, 9_000_000])]}).encode()
    if kind == 2:
        return b'{"inputs":["a"],"search":{"beam":' + b"9" * draw.choice([400, 5_000, 1_000_000]) + b"}}"
    return b" " * draw.choice([10_000_001, 20_000_000])


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, rows: int | None = None) -> bytes:
    """A picture of white pixels, whose header may lie about its rows."""
    line = b"\0" + b"\xff" * width
    packed = zlib.compressobj(9)
    content = b"".join(packed.compress(line) for _ in range(height if rows is None else rows)) + packed.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def animation() -> bytes:
    from PIL import Image

    frames, file = [Image.new("L", (400, 400), grey % 256) for grey in range(300)], io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


def uploads() -> list[tuple[str, str, Any]]:
    """Pictures and tables that are not what they seem: a name, a model and an input."""
    small = png(40, 40)
    pictures = {
        "49 million pixels in 50 KB": png(7_000, 7_000),
        "a header of 10 billion pixels": png(100_000, 100_000, rows=1),
        "a header of 4 billion columns": png(2**31 - 1, 2, rows=0),
        "a header of more rows than there are": png(3_000, 3_000, rows=3),
        "a picture cut in the middle": small[: len(small) // 2],
        "a text": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "a gzip bomb": zlib.compress(b"\0" * 50_000_000),
        "an animation of 300 pictures": animation(),
        "nothing": b"",
        "text comments of 40 MB": small[:33]
        + chunk(b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 40_000_000, 9))
        + small[33:],
    }
    sent: list[tuple[str, str, Any]] = [
        (name, "pictures", {"image": base64.b64encode(content).decode()}) for name, content in pictures.items()
    ]
    sent += [
        ("no base64", "pictures", {"image": "é"}),
        ("a path", "pictures", {"image": "/etc/passwd"}),
        ("strokes as wide as 1e38", "pictures", {"strokes": [[[0, 0], [1e38, 1e38]]]}),
        ("200,000 strokes", "pictures", {"strokes": [[[i, i % 7]] for i in range(200_000)]}),
        ("strokes of texts", "pictures", {"strokes": [["a", "b"]]}),
    ]
    head = "time,a,b\n"
    tables = {
        "a gap of 7,000 years": f"{head}2024-01-01 00:00,1,2\n2024-01-01 01:00,1,2\n9024-01-01 00:00,1,2\n",
        "200,000 rows": head + "2024-01-01 00:00,1,2\n" * 200_000,
        "50,000 columns": ",".join(map(str, range(50_000))) + "\n" + "1," * 50_000,
        "one line of 5 MB": head + "1" * 5_000_000,
        "formulas": f'{head}=cmd|"/c calc"!A1,1,2\n',
        "quotation marks that never end": f'{head}"2024-01-01' + "a" * 100_000,
        "numbers beyond all bounds": f"{head}2024-01-01 00:00,1e999,-1e999\n2024-01-01 01:00,1,2\n",
        "nothing": "",
        "a path": "/etc/passwd",
    }
    sent += [(name, "series", {"csv": text}) for name, text in tables.items()]
    sent.append(("columns of other lengths", "series", {"columns": {"time": ["2024-01-01"], "a": [1, 2], "b": []}}))
    return sent


def models(folder: Path) -> list[str]:
    """Models of pictures and of series that have learned nothing."""
    from regard.config import load
    from regard.runs.contract import TASKS
    from regard.runs.store import save
    from task_cases import configured

    named = {"pictures": "image_to_text", "series": "forecasting"}
    for name, task_name in named.items():
        task, config = TASKS[task_name], load(configured(task_name, folder / f"{name}-data")).config
        if name == "series":
            config = config.model_copy(update={"data": config.data.model_copy(update={"fill_gaps": True})})
        material = task.read(config)
        plan = task.resolve(config, material, task.check(config, material))
        save(task.build(plan.config, material, name=name), folder / name)
    return [str(folder / name) for name in named]


def sent(port: int, data: bytes, *, pause: float = 0.0, half: bool = False, seconds: float = 60) -> bytes:
    """What the server answers to bytes, sent slowly or followed by the end of one direction."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection, suppress(OSError):
        with suppress(OSError):
            if pause:
                for start in range(0, len(data), 20):
                    connection.sendall(data[start : start + 20])
                    time.sleep(pause)
            else:
                connection.sendall(data)
            if half:
                connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(OSError):
            while part := connection.recv(65536):
                answer += part
        return answer
    return b""


def request(body: bytes, path: str = "/v1/predict", **headers: str) -> bytes:
    named = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in named.items() if text)
    return f"POST {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode() + body


def judged(answer: bytes, *, closes: bool = False) -> tuple[str, str]:
    """The status of an answer and what is wrong with it, if something is."""
    if not answer:
        return "closed", "" if closes else "no answer"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1].decode()
    if status.startswith("5") and status != "503":
        return status, f"status {status}: {body[:200]!r}"
    if status == "200" or b"text/event-stream" in head:
        return status, ""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return status, "" if closes or b"Invalid HTTP request" in body else f"no sentence: {body[:200]!r}"
    return status, "" if message.endswith((".", "?")) and len(message) < 1_000 else f"no sentence: {message[:200]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bodies", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    kinds: dict[str, tuple[Draw, float]] = {
        "wrong types": (wrong_types, 0.45), "pairs": (pairs, 0.15), "damaged": (damaged, 0.2),
        "not UTF-8": (not_utf8, 0.08), "deep": (deep, 0.08), "large": (large, 0.04),
    }  # fmt: skip
    statuses: dict[str, Counter[str]] = {}
    faults: list[str] = []

    def note(kind: str, answer: bytes, what: str = "", *, closes: bool = False) -> str:
        status, fault = judged(answer, closes=closes)
        statuses.setdefault(kind, Counter())[status] += 1
        faults.extend([f"{kind}: {what}: {fault}"] * bool(fault))
        return status

    with tempfile.TemporaryDirectory() as temporary:
        folders = models(Path(temporary))
        command = [sys.executable, "-m", "regard", "serve", "g2p-en", *folders, "--port", "0", "--device", "cpu"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            port = next(int(m[1]) for line in server.stdout if (m := re.match(r"http://127\.0\.0\.1:(\d+)", line)))
            size = lambda: int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096 / 1e6  # noqa: E731

            def usual() -> bytes:
                return sent(port, request(json.dumps(VALID).encode())).partition(b"\r\n\r\n")[2]

            expected, before = usual(), size()
            names = draw.choices(list(kinds), [share for _, share in kinds.values()], k=options.bodies)
            for number, name in enumerate(names, start=1):
                body = kinds[name][0](draw)
                path = draw.choice(PATHS[1:]) if name == "pairs" else "/v1/predict"
                note(name, sent(port, request(body, path)), repr(body[:100]))
                if number % 100 == 0 and usual() != expected:
                    faults.append(f"after {number} bodies the answer is another one")
            note("100 MB", sent(port, request(b"a" * 100_000_000)))
            body = json.dumps(VALID).encode()
            heads = [
                request(body, Content_Length="99999999999"), request(body, Content_Length="-1"),
                request(body, Content_Length="", Transfer_Encoding="chunked"), request(body, Host=""),
                request(body, Host="example.org"), request(body, Content_Type="text/plain"),
                request(body, Content_Encoding="gzip"), b"\x16\x03\x01" + bytes(200), b"GET / HTTP/9.9\r\n\r\n",
                request(body, X="a" * 100_000), request(body).replace(b"POST", b"P\0ST"), request(body, "/%00%ff/../x"),
            ]  # fmt: skip
            slow = [request(body)] * 20
            with ThreadPoolExecutor(40) as pool:
                for answer in pool.map(lambda data: sent(port, data, half=True, seconds=20), heads):
                    note("heads", answer, closes=True)
                for answer in pool.map(
                    lambda data: sent(port, data, half=True), [request(body)] * 10 + [body[:9]] * 10
                ):
                    note("half-closed", answer, closes=True)
                for answer in pool.map(lambda data: sent(port, data, pause=1.5), [data + b" " * 400 for data in slow]):
                    note("slow, 13 bytes a second", answer, closes=True)
            lines = []
            for name, model, given in uploads():
                began = time.perf_counter()
                answer = sent(port, request(json.dumps({"model": model, "inputs": [given]}).encode()))
                status = note(f"uploads: {model}", answer, name)
                content = json.loads(answer.partition(b"\r\n\r\n")[2])
                text = content["error"]["message"] if "error" in content else str(content["predictions"][0]["warnings"])
                shown = " ".join(text.split())[:110].replace("|", "\\|")
                lines.append(f"| {name} | {status} | {time.perf_counter() - began:.1f} | {shown} |")
            if usual() != expected:
                faults.append("in the end the answer is another one")
            after = size()
            server.terminate()
            status = server.wait(60)
    print("| kind | requests | statuses |\n|---|---|---|")
    for kind, counts in statuses.items():
        print(f"| {kind} | {counts.total():,} | {', '.join(f'{s}: {n:,}' for s, n in sorted(counts.items()))} |")
    print("\n| upload | status | seconds | message |\n|---|---|---|---|")
    print("\n".join(lines))
    print(f"\nMemory: {before:,.0f} MB before, {after:,.0f} MB after. The server ended with status {status}.")
    print(f"\nFaults: {len(faults)}.")
    print("\n".join(f"- {fault}" for fault in faults))


if __name__ == "__main__":
    main()
