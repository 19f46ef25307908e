"""A server computes requests together, keeps its bounds, replaces models, and ends without a lost request."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli import run
from regard.decoding.stopping import check_stop
from regard.serve import Limits
from regard.serve.batching import Batcher, Closed, Full, Job
from regard.serve.limits import Gate, Traffic
from regard.serve.metrics import Metrics
from regard.serve.models import sources_of
from regard.serve.running import listen
from test_serve import client

WORDS = ["attention", "regard", "library", "through", "a", "seven"]


@pytest.fixture(scope="module")
def g2p() -> Iterator[Any]:
    """A client of a server of `g2p-en`."""
    with client("g2p-en", limits=Limits(wait=0.1, body=150_000)) as server:
        yield server


def batcher(**options: Any) -> tuple[Batcher, list[int]]:
    """A thread of jobs, and the sizes of its computations."""
    sizes: list[int] = []
    return Batcher(**{"wait": 0.05, "most_items": 8, "most_jobs": 4, "observe": sizes.append, **options}), sizes


def job(items: Sequence[Any], key: Any = "same", compute: Callable[..., Any] | None = None) -> Job:
    def double(inputs: Sequence[int]) -> list[int]:
        return [2 * each for each in inputs]

    return Job(items, lambda number, item: int(item), compute or double, list, key)


def test_jobs_of_a_key_are_computed_together_and_others_are_not() -> None:
    async def play() -> None:
        thread, sizes = batcher()
        jobs = [job([1, 2]), job([3]), job([4], "other"), job([5, 6])]
        results = await asyncio.gather(*map(thread.submit, jobs))
        assert results == [[2, 4], [6], [8], [10, 12]]
        assert sizes == [5, 1]
        assert await asyncio.gather(thread.submit(job([1], None)), thread.submit(job([2], None))) == [[2], [4]]
        assert sizes == [5, 1, 1, 1]
        assert await thread.submit(job(range(20))) == [*range(0, 40, 2)]
        thread.close()

    asyncio.run(play())


def test_an_error_is_that_of_its_own_job() -> None:
    def refuse_three(inputs: Sequence[int]) -> list[int]:
        if 3 in inputs:
            raise ArithmeticError("three")
        return list(inputs)

    async def play() -> None:
        thread, sizes = batcher()
        jobs = [
            job([1], compute=refuse_three),
            job([3], compute=refuse_three),
            job(["x"]),
            job([4], compute=refuse_three),
        ]
        results = await asyncio.gather(*map(thread.submit, jobs), return_exceptions=True)
        assert [results[0], results[3]] == [[1], [4]]
        assert [type(results[1]), type(results[2])] == [ArithmeticError, ValueError]
        assert sizes == [3, 1, 1, 1]
        thread.close()

    asyncio.run(play())


def test_what_nobody_waits_for_is_not_computed_and_stops_at_its_next_step() -> None:
    steps: list[int] = []

    def endless(inputs: Sequence[int]) -> list[int]:
        while True:
            steps.append(1)
            time.sleep(0.001)
            check_stop()

    async def play() -> None:
        thread, sizes = batcher(wait=0)
        running, waiting = thread.submit(job([1], "a", endless)), thread.submit(job([2], "b"))
        while not steps:
            await asyncio.sleep(0.001)
        waiting.cancel()
        running.cancel()
        assert await thread.submit(job([3], "c")) == [6]
        assert sizes == [1, 1]
        thread.close()

    asyncio.run(play())


def test_a_full_queue_and_a_closed_one_take_nothing_and_what_was_taken_is_answered() -> None:
    async def play() -> None:
        thread, _ = batcher(wait=0.2)
        futures = [thread.submit(job([number])) for number in range(4)]
        with pytest.raises(Full):
            thread.submit(job([9]))
        thread.close()
        with pytest.raises(Closed):
            thread.submit(job([9]))
        assert await asyncio.gather(*futures) == [[0], [2], [4], [6]]
        thread.join(1)

    asyncio.run(play())


def test_requests_that_come_together_are_computed_together_and_answered_as_alone(g2p: Any) -> None:
    model = g2p.models.loaded["g2p-en"].model
    computed = computations(g2p)
    expected = {word: model.predict([word], alignment=False)[0] for word in WORDS}
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        body = {"inputs": [WORDS[number % 6]]} | ({"search": {"beam": 2}} if number >= 18 else {})
        answers[number] = g2p.post("/v1/predict", json=body)

    at_once(ask, 24)
    for number, answer in answers.items():
        (prediction,) = answer.json()["predictions"]
        if number < 18:
            assert prediction["text"] == expected[WORDS[number % 6]].text
            assert prediction["tokens"] == expected[WORDS[number % 6]].tokens
            assert prediction["score"] == pytest.approx(expected[WORDS[number % 6]].score, abs=1e-5)
    assert computations(g2p) - computed < 12


def at_once(ask: Callable[[int], object], count: int) -> None:
    """Calls a function in as many threads."""
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def computations(server: Any) -> float:
    """The computations of the model so far."""
    line = re.search(r'^regard_batch_inputs_count\{model="g2p-en"\} (.+)$', server.get("/metrics").text, re.MULTILINE)
    return 0.0 if line is None else float(line[1])


def test_samples_do_not_depend_on_other_requests(g2p: Any) -> None:
    body = {"inputs": ["attention", "attention"], "search": {"method": "sampling", "seed": 3, "num_best": 2}}
    model = g2p.models.loaded["g2p-en"].model
    search = model.config.decoding.replace(**body["search"])
    alone = [model.record(each) for each in model.predict(body["inputs"], search=search, alignment=False)]
    answers: list[Any] = []
    at_once(lambda _: answers.append(g2p.post("/v1/predict", json=body).json()["predictions"]), 3)

    def texts(records: Sequence[Any]) -> list[list[str]]:
        return [[each["text"], *(other["text"] for other in each["alternatives"])] for each in records]

    assert [*map(texts, answers)] == [texts(alone)] * 3


def test_a_stream_has_the_whole_text_and_the_prediction(g2p: Any) -> None:
    answer = g2p.post("/v1/predict", json={"inputs": WORDS, "stream": True, "search": {"beam": 3}})
    whole = g2p.post("/v1/predict", json={"inputs": WORDS, "search": {"beam": 3}}).json()["predictions"]
    refused = g2p.post("/v1/predict", json={"inputs": WORDS, "stream": True, "search": {"num_best": 2}})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [event.split("\n") for event in answer.text.strip().split("\n\n")]
    parsed = [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in events]
    assert parsed[-1][0] == "done"
    texts, predictions = [""] * len(WORDS), {}
    for kind, data in parsed[:-1]:
        if kind == "token":
            texts[data["index"]] += data["text"]
        else:
            predictions[data["index"]] = data["prediction"]
    assert texts == [each["text"] for each in whole] == [predictions[i]["text"] for i in range(len(WORDS))]
    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == "search.num_best"


def test_alignments_are_those_of_align(g2p: Any) -> None:
    pairs = [("attention", "AH T EH N SH AH N"), ("regard", "R AH G AA R D")]
    expected = [each.record() for each in g2p.models.loaded["g2p-en"].model.align(pairs, words=False)]
    body = {"pairs": [{"input": given, "output": output} for given, output in pairs], "words": False}
    assert g2p.post("/v1/align", json=body).json()["alignments"] == expected
    assert g2p.post("/v1/align", json={**body, "layer": "none"}).status_code == 422
    answer = g2p.post("/v1/align", json={"pairs": [{"input": "cat", "output": ["K", "AE", "T"]}]})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "pairs[0].output")


def test_confidence_and_abstaining_are_those_of_predict(g2p: Any) -> None:
    body = {"inputs": ["hello", "qqq"], "confidence": True, "at_least": 0.5}
    first, second = g2p.post("/v1/predict", json=body).json()["predictions"]
    assert (first["abstained"], second["abstained"]) == (False, True)
    assert first["confidence"] > 0.5 > second["confidence"]


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (400, {"content": b'{"inputs": ['}),
        (400, {"content": b'{"inputs": ["\xff"]}'}),
        (400, {"content": b"[" * 100_000}),
        (413, {"content": b'{"inputs": ["' + b"a" * 150_000 + b'"]}'}),
        (413, {"json": {"inputs": ["a" * 20_001]}}),
        (413, {"json": {"inputs": ["a"] * 257}}),
        (413, {"json": {"inputs": ["a"] * 100, "search": {"num_best": 64, "beam": 64}}}),
        (413, {"json": {"inputs": ["a"] * 100, "search": {"num_best": 3}, "alignment": True}}),
        (413, {"json": {"inputs": ["a"], "search": {"include": ["a"] * 33}}}),
        (415, {"content": b"inputs=a", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}),
        (415, {"content": b"{}", "headers": {"Content-Encoding": "gzip"}}),
        (422, {"json": {}}),
        (422, {"json": []}),
        (422, {"json": {"inputs": []}}),
        (422, {"json": {"inputs": "attention"}}),
        (422, {"json": {"inputs": ["a"], "serach": {}}}),
        (422, {"json": {"inputs": ["a"], "search": {"beam": "3"}}}),
        (422, {"json": {"inputs": ["a"], "search": {"method": "sampling", "beam": 3}}}),
        (422, {"json": {"inputs": ["a"], "search": {"alpha": float("nan")}}}),
        (422, {"content": b'{"inputs": ["\\ud800"]}'}),
        (422, {"content": b'{"inputs": ["\xed\xa0\x80"]}'}),
        (422, {"json": {"inputs": ["a", "b"], "constraints": [None]}}),
        (422, {"json": {"inputs": ["a"], "constraints": [{"suffix": "a"}]}}),
        (404, {"json": {"inputs": ["a"], "model": "g2p"}}),
    ],
)
def test_a_refusal_says_what_to_do(g2p: Any, status: int, request_: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json", **request_.get("headers", {})}
    content = json.dumps(request_["json"]) if "json" in request_ else request_["content"]
    answer = g2p.post("/v1/predict", headers=headers, content=content)
    error = answer.json()["error"]
    assert (answer.status_code, set(error)) == (status, {"code", "message", "field"}), error
    assert error["message"].endswith((".", "?"))
    assert g2p.get("/health").status_code == 200


def test_a_token_and_the_names_of_the_host_are_asked_for() -> None:
    with client("g2p-en", token="secret") as server:
        for path in ("/v1/info", "/metrics"):
            assert server.get(path).status_code == 401
            assert server.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert server.get(path, headers={"Authorization": "Bearer secret"}).status_code == 200
        assert server.get("/health").status_code == 200


def test_pages_of_other_origins_are_let_in_only_if_they_are_named(g2p: Any) -> None:
    origin = {"Origin": "https://example.org"}
    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    assert "access-control-allow-origin" not in g2p.get("/health", headers=origin).headers
    assert g2p.options("/v1/predict", headers=asked).status_code == 405
    assert g2p.get("/v1/predict").headers["allow"] == "POST"
    with client("g2p-en", origins=["https://example.org"]) as server:
        assert server.options("/v1/predict", headers=asked).headers["access-control-allow-origin"] == origin["Origin"]


def test_the_pages_load_nothing_from_elsewhere(g2p: Any) -> None:
    docs, description = g2p.get("/docs"), g2p.get("/openapi.json").json()
    assert re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", docs.text) == []
    assert "frame-ancestors 'none'" in docs.headers["content-security-policy"]
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in docs.text
    for path in description["paths"]:
        assert path in docs.text


def test_a_computation_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        try:
            while True:
                time.sleep(0.001)
                check_stop()
        finally:
            ended.set()

    with client("g2p-en", limits=Limits(seconds=2, wait=0)) as server:
        model = server.models.loaded["g2p-en"].model
        monkeypatch.setattr(model, "predict", slow)
        answer = server.post("/v1/predict", json={"inputs": ["a"]})
        assert ended.wait(5)
        monkeypatch.undo()
        assert server.post("/v1/predict", json={"inputs": ["a"]}).status_code == 200
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "over_time")


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def play() -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(5)
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        gate = Gate(None, Limits(reading=0.05), Metrics(), Traffic(), ["/v1/predict"], hosts=None)
        head = [(b"content-type", b"application/json"), (b"content-length", b"50")]
        scope = {"type": "http", "path": "/v1/predict", "method": "POST", "headers": head}
        await gate(scope, receive, send)
        return sent

    start, body = asyncio.run(play())
    assert start["status"] == 408
    assert json.loads(body["body"])["error"]["code"] == "slow"


def test_a_draining_server_answers_503_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    with client("g2p-en") as server:
        server.app.state.traffic.is_draining = True
        answer = server.post("/v1/predict", json={"inputs": ["a"]})
        health = server.get("/health")
    assert (answer.status_code, answer.headers["connection"]) == (503, "close")
    assert (health.status_code, health.json()) == (503, {"status": "draining"})


def test_a_model_is_replaced_and_one_that_cannot_be_read_is_not(tmp_path: Path) -> None:
    model = regard.load("g2p-en", device="cpu")
    model.save(tmp_path / "run")
    with client(tmp_path / "run") as server:
        before = server.post("/v1/predict", json={"inputs": ["a"]}).json()
        server.portal.call(lambda: server.models.reload(changed_only=True))
        assert server.models.loaded["run"].version == before["version"]
        with_bias = next(iter(model.module.parameters()))
        with_bias.data += 0.5
        model.save(tmp_path / "run", overwrite=True)
        server.portal.call(lambda: server.models.reload(changed_only=True))
        after = server.post("/v1/predict", json={"inputs": ["a"]}).json()
        assert after["version"] != before["version"]
        (tmp_path / "run" / "model.safetensors").write_bytes(b"nothing")
        server.portal.call(server.models.reload)
        assert server.post("/v1/predict", json={"inputs": ["a"]}).json() == after


def test_a_folder_of_runs_is_served_model_by_model(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    source = regard.load("g2p-en", device="cpu").folder
    for name in ("one", "two", "a/one"):
        shutil.copytree(source, tmp_path / name)
    (tmp_path / "two" / "model.safetensors").write_bytes(b"nothing")
    (tmp_path / "two" / "metrics.jsonl").write_text('{"kind": "validation"}\n[1]\n')
    (tmp_path / "two" / "README.md").write_text("---\nlicense: unknown\n---\n# Two\n")
    sources, named = sources_of([str(tmp_path), str(tmp_path / "a" / "one")])
    assert (list(sources), named) == (["one", "two", "one-2"], ["one-2"])
    with client(tmp_path) as server:
        assert [each["loaded"] for each in server.get("/v1/info").json()["models"]] == [False, False]
        assert server.post("/v1/predict", json={"inputs": ["a"]}).json()["model"] == "one"
        damaged = server.post("/v1/predict", json={"inputs": ["a"], "model": "two"})
        one, two = server.get("/v1/info").json()["models"]
    assert (one["loaded"], two["loaded"]) == (True, False)
    assert (two["card"], two["task"], "validations" in two) == ("# Two\n", "text_to_text", False)
    assert [each["step"] for each in one["validations"]][:2] == [540, 1080]
    assert one["settings"]["training"]["learning_rate"] > 0
    assert damaged.status_code == 503
    assert "model.safetensors" in damaged.text
    assert str(tmp_path) not in damaged.text + json.dumps([one, two])
    with pytest.raises(regard.RegardError, match="no shipped model"):
        sources_of(["g2p-ne"])


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server of `g2p-en` as a process of its own, and its port."""
    command = [sys.executable, "-m", "regard", "serve", "g2p-en", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        assert started.stdout is not None
        lines = [started.stdout.readline(), started.stdout.readline()]
        address = re.match(r"http://127\.0\.0\.1:(\d+)/", lines[1])
        assert address is not None, lines
        yield started, int(address[1])
        started.kill()


def asked(port: int, words: Sequence[str] = ("attention",)) -> int:
    """The status of a request; 0 if the server does not listen, -1 if it takes the request and does not answer."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.connect()
    except ConnectionRefusedError:
        return 0
    with closing(connection):
        body = json.dumps({"inputs": words, "search": {"beam": 3}})
        try:
            connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        except ConnectionError:
            return -1


def test_a_process_loads_again_at_a_signal_and_ends_without_a_lost_request(
    process: tuple[subprocess.Popen[str], int],
) -> None:
    started, port = process
    statuses: list[int] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set() and (status := asked(port)):
            statuses.append(status)
            time.sleep(0.5 * (status == 503))  # as the answer says: later

    assert asked(port) == 200  # loads what the first prediction needs
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for sent in (signal.SIGHUP, signal.SIGTERM):
        time.sleep(1)
        started.send_signal(sent)
    assert started.wait(30) == 0
    is_over.set()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 8
    assert started.stdout is not None
    assert "g2p-en was loaded again" in started.stdout.read()


def test_half_requests_and_idle_connections_harm_nobody(process: tuple[subprocess.Popen[str], int]) -> None:
    _, port = process
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    for number, connection in enumerate(idle):
        connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"[: 10 + number])
    assert asked(port) == 200
    for connection in idle:
        connection.shutdown(socket.SHUT_WR)
    assert asked(port) == 200
    for connection in idle:
        connection.close()
    assert asked(port) == 200


def test_connections_send_the_body_of_an_answer_with_its_head() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_taken_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["serve", "g2p-en", "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another --port" in capfd.readouterr().err
