"""The server answers as `predict` does, for every task, and refuses what it cannot answer by name."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from serving.hostile_requests import uploads

import regard
from regard.config import load as read_config
from regard.files import plain
from regard.runs.contract import TASKS
from regard.runs.store import save
from regard.serve import Limits, Models, application
from regard.serve.models import sources_of
from task_cases import TASK_CASES, configured, near

fastapi = pytest.importorskip("fastapi.testclient")
NAMES = sorted(TASK_CASES)


@pytest.fixture(scope="module", params=NAMES)
def untrained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A task's name, and its folder with data and a model in `run` that has learned nothing."""
    folder = tmp_path_factory.mktemp("serve") / request.param
    task, config = TASKS[request.param], read_config(configured(request.param, folder)).config
    material = task.read(config)
    plan = task.resolve(config, material, task.check(config, material))
    torch.manual_seed(5)
    save(task.build(plan.config, material, name="run"), folder / "run")
    return request.param, folder


@contextmanager
def client(*folders: Path | str, **options: Any) -> Iterator[Any]:
    """A client of a server of models."""
    limits = options.pop("limits", Limits(wait=0.001))
    sources, named = sources_of(list(map(str, folders)))
    models = Models(sources, lambda source: regard.load(source, device="cpu"), limits=limits, say=lambda text: None)
    for name in named:
        models.load(name)
    app = application(models, hosts=None, **options)
    with fastapi.TestClient(app, raise_server_exceptions=False) as made:
        made.models = models
        yield made


def sent_inputs(task: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """The inputs of a task as a request has them, and as `predict` does."""
    names = TASK_CASES[task].inputs
    if task == "forecasting":
        return [{"csv": (folder / name).read_text()} for name in names], [str(folder / name) for name in names]
    if task == "image_to_text":
        pictures = [name for name in names if name.endswith("png")]
        files = [(folder / name).read_bytes() for name in pictures]
        return [{"image": base64.b64encode(file).decode()} for file in files], [folder / name for name in pictures]
    return list(names), list(names)


def without_names(record: Any) -> Any:
    """A record without the name of its file."""
    return {key: value for key, value in record.items() if key not in ("file", "image")}


def test_predictions_of_every_task_are_those_of_predict(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    sent, inputs = sent_inputs(task, folder)
    model = regard.load(folder / "run", device="cpu")
    expected = [plain(model.record(each)) for each in model.predict(inputs, alignment=True)]
    with client(folder / "run") as server:
        answer = server.post("/v1/predict", json={"inputs": sent, "alignment": True})
        assert answer.status_code == 200, answer.text
        assert answer.json()["version"] == model.digest[:16]
        predictions = answer.json()["predictions"]
        assert [*map(without_names, predictions)] == json.loads(json.dumps([*map(without_names, expected)]))
        (facts,) = server.get("/v1/info").json()["models"]
    assert facts["task"] == task
    assert facts["input"]["schema"]


STREAMING = {"text_to_text", "image_to_text", "language_modelling"}
ALIGNING = {"text_to_text"}
WITHOUT_SCORES = {"forecasting", "text_to_speech"}


def test_what_a_task_cannot_do_is_refused_by_name(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    (first, *_), _ = sent_inputs(task, folder)
    pairs = {"pairs": [{"input": first, "output": "a"}]}
    with client(folder / "run") as server:
        (facts,) = server.get("/v1/info").json()["models"]
        can = facts["can"]
        refused = {
            "stream": server.post("/v1/predict", json={"inputs": [first], "stream": True}),
            "align": server.post("/v1/align", json=pairs),
            "score": server.post("/v1/score", json=pairs),
            "sound": server.post("/v1/predict", json={"inputs": [first], "sound": True}),
            "confidence": server.post("/v1/predict", json={"inputs": [first], "confidence": True}),
            "constraints": server.post("/v1/predict", json={"inputs": [first], "constraints": [{"prefix": "a"}]}),
        }
        for name, value in {"beem": 3, "batch_tokens": 5, "ensemble": "run", "beam": 65}.items():
            answer = server.post("/v1/predict", json={"inputs": [first], "search": {name: value}})
            assert answer.status_code == 422, answer.text
            assert answer.json()["error"]["field"] == f"search.{name}"
        for wrong in (None, 3, True, {}, {"path": "train.csv"}, [1], {"image": "train-0.png"}, {"csv": 3}):
            answer = server.post("/v1/predict", json={"inputs": [first, wrong]})
            assert answer.status_code == 422, answer.text
            assert answer.json()["error"]["field"] == "inputs[1]"
    for name, answer in refused.items():
        if not can[name]:
            assert answer.status_code == 422, (name, answer.text)
            assert "models of " + task in answer.json()["error"]["message"].lower() or name == "stream"
    assert (can["stream"], can["align"], can["score"]) == (
        task in STREAMING,
        task in ALIGNING,
        task not in WITHOUT_SCORES,
    )


def test_the_symbols_of_a_node_are_a_prefix_of_any_length(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    if task != "text_to_text":
        return
    with client(folder / "run") as server:
        symbols = ["1"] * 40
        answer = server.post("/v1/predict", json={"inputs": ["0 1"], "constraints": [{"prefix": symbols}]})
        assert answer.json()["predictions"][0]["tokens"][:40] == symbols
        answer = server.post("/v1/predict", json={"inputs": ["0 1"], "constraints": [{"prefix": ["1"] * 1001}]})
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "prefix may have at most 1,000 symbols."


def test_a_file_of_the_server_is_never_read(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    name = str(folder / TASK_CASES[task].inputs[0])
    with client(folder / "run") as server:
        answer = server.post("/v1/predict", json={"inputs": [name]})
    if task in ("image_to_text", "forecasting"):
        assert answer.status_code == 422
    else:  # it is a text like others
        model = regard.load(folder / "run", device="cpu")
        assert without_names(answer.json()["predictions"][0]) == plain(
            model.record(model.predict([name], alignment=False)[0])
        )


def test_scores_of_outputs_are_those_of_predictions(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    if task in WITHOUT_SCORES:
        return
    sent, inputs = sent_inputs(task, folder)
    model = regard.load(folder / "run", device="cpu")
    predictions = model.predict(inputs)
    records = [model.record(each) for each in predictions]
    outputs = [record["labels"] if "labels" in record else record["text"] for record in records]
    with client(folder / "run") as server:
        pairs = [{"input": given, "output": output} for given, output in zip(sent, outputs, strict=True)]
        answer = server.post("/v1/score", json={"pairs": pairs})
    assert answer.status_code == 200, answer.text
    for score, prediction, record in zip(answer.json()["scores"], predictions, records, strict=True):
        total = score["log_probability"]
        assert total == pytest.approx(sum(score["token_log_probabilities"]))
        if task == "labelling":
            assert [*map(math.exp, score["token_log_probabilities"])] == pytest.approx(
                record["probabilities"], abs=2e-6
            )
        elif task == "documents":
            assert math.exp(total) == pytest.approx(prediction.probabilities[record["labels"][0]])
        elif record["stop_reason"] == "eos":
            assert total == pytest.approx(record["log_probability"], abs=1e-5)
            assert score["tokens"] == record["tokens"]
        else:  # with its end
            assert sum(score["token_log_probabilities"][: len(record["tokens"])]) == pytest.approx(
                record["log_probability"], abs=1e-5
            )
        if prediction.confidence is not None and record.get("stop_reason") != "length":
            assert score["confidence"] == pytest.approx(prediction.confidence, abs=1e-6)


READ = {
    "a header of more rows than there are": "",
    "a picture cut in the middle": "truncated",
    "an animation of 300 pictures": "the first is read",
    "strokes as wide as 1e38": "",
    "200,000 strokes": "",
}
"""Uploads that are read, or whose prediction has a warning."""


def test_uploads_that_are_not_what_they_seem_are_refused_with_a_sentence(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    model = {"image_to_text": "pictures", "forecasting": "series"}.get(task)
    if model is None:
        return
    with client(folder / "run") as server:
        for name, of, given in uploads():
            if of != model:
                continue
            answer = server.post("/v1/predict", json={"inputs": [given]})
            if answer.status_code == 200:
                (prediction,) = answer.json()["predictions"]
                assert READ[name] in " ".join(prediction["warnings"]), name
            else:
                assert answer.status_code == 422, (name, answer.text)
                assert answer.json()["error"]["field"] == "inputs[0]"
                assert name not in READ
                assert not re.search(r"/tmp|sent\.csv|Traceback", answer.text), answer.text


def test_details_are_what_a_page_draws_of_a_prediction(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    sent, inputs = sent_inputs(task, folder)
    model = regard.load(folder / "run", device="cpu")
    (prediction,) = model.predict(inputs[:1], alignment=True)
    expected = json.loads(json.dumps(plain(model.details(prediction))))
    assert expected
    with client(folder / "run") as server:
        answer = server.post("/v1/predict", json={"inputs": sent[:1], "details": True})
        assert answer.status_code == 200, answer.text
        (record,) = answer.json()["predictions"]
        assert near(record["details"], expected)
        assert "details" not in server.post("/v1/predict", json={"inputs": sent[:1]}).json()["predictions"][0]
    without = model.predict(inputs[:1], alignment=False)[0]
    assert not model.details(without) or task == "forecasting"


def test_the_search_for_an_output_is_a_tree_or_refused_by_name(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    sent, inputs = sent_inputs(task, folder)
    model: Any = regard.load(folder / "run", device="cpu")
    with client(folder / "run") as server:
        body = {"input": sent[0], "search": {"method": "beam", "beam": 3, "num_best": 2}}
        searches = task in ("text_to_text", "image_to_text", "language_modelling")
        assert server.get("/v1/info").json()["models"][0]["can"]["tree"] == searches
        answer = server.post("/v1/explore/search", json=body if searches else {"input": sent[0]})
        if not searches:
            assert answer.status_code == 422
            assert f"Models of {task} do not search" in answer.json()["error"]["message"]
            return
        found = answer.json()
        search = model.config.decoding.replace(**body["search"])
        (prediction,) = model.predict(inputs[:1], search=search)
        expected = [prediction.text, *(each.text for each in prediction.alternatives)]
        assert [each["text"] for each in (found["prediction"], *found["prediction"]["alternatives"])] == expected
        assert (len(found["tree"]["returned"]), len(found["prediction"]["details"]["views"])) == (2, 2)
        sampled = server.post("/v1/explore/search", json={"input": sent[0], "search": {"method": "sampling"}}).json()
        assert sampled["tree"] is None
        assert "samples do not compete" in sampled["note"]
        assert sampled["prediction"]["tokens"]
        if task == "text_to_text":
            forced = server.post("/v1/explore/search", json={"input": sent[0], "constraints": {"prefix": ["1"]}}).json()
            assert forced["prediction"]["tokens"][0] == "1"
            wrong = server.post("/v1/explore/search", json={"input": sent[0], "constraints": {"prefix": 1}})
            assert wrong.status_code == 422


def test_the_nearest_training_items_are_refused_by_name_without_data(untrained: tuple[str, Path]) -> None:
    task, folder = untrained
    sent, _ = sent_inputs(task, folder)
    with client(folder / "run") as server:
        can = server.get("/v1/info").json()["models"][0]["can"]["nearest"]
        assert can == (task in ("text_to_text", "image_to_text"))
        answer = server.post("/v1/explore/nearest", json={"input": sent[0]})
        assert answer.status_code == 422
        message = answer.json()["error"]["message"]
        assert ("training data" in message) if can else (f"Models of {task} have no states" in message)
        assert str(folder) not in message, message
