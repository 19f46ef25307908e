"""How requests become jobs of a model's thread, and their results answers."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from regard.errors import ConfigError, DataError, InputError, RegardError, UnsupportedError
from regard.files import plain
from regard.runs.calibration import Stated
from regard.runs.contract import AbstractModel
from regard.serve.batching import Closed, Full, Job
from regard.serve.models import Models, Served, with_settings
from regard.serve.requests import (
    MOST_ALIGNED,
    MOST_HYPOTHESES,
    MOST_OUTPUTS,
    Align,
    Explore,
    GivenPair,
    Nearest,
    Predict,
    Refusal,
    Score,
    check_constraints,
    length_of,
    without_folders,
)

JSON = "application/json"
LOG = logging.getLogger("regard.serve")
CLIENT_GONE = 499
"""The status in the figures of a request whose client has closed the connection."""
MOST_NODES = 50_000
"""The most nodes of a tree that is sent."""
WIDE = 16
"""The hypotheses of an input with which a request is computed by itself."""


@cache
def options_of(kind: type[AbstractModel[Any]]) -> frozenset[str]:
    """The names of the keyword-only arguments of `predict` of a kind of models."""
    parameters = inspect.signature(kind.predict).parameters.values()
    return frozenset(each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY)


def predicting(served: Served, body: Predict) -> Job:
    """The job of a request for predictions."""
    model = with_settings(served.model, body.search)
    decoding: Any = model.config.decoding
    items = _items(model, body)
    outputs = len(items) * getattr(decoding, "num_best", 1)
    is_aligned = body.alignment or body.details
    most = MOST_ALIGNED if is_aligned else MOST_OUTPUTS
    if outputs > most:
        with_ = " with alignments" if is_aligned else ""
        raise Refusal(413, f"{outputs:,} outputs are asked for; a request may have {most:,}{with_}.", "inputs")
    stated = _stated(model, body)
    options = _accepted(model, body)
    width = getattr(decoding, "width", 1)
    if len(items) * width > MOST_HYPOTHESES:
        text = f"{len(items):,} inputs with {width:,} hypotheses each; a request may have {MOST_HYPOTHESES:,} of them."
        raise Refusal(413, text, "inputs")
    # equal inputs of a call have different samples
    is_alone = getattr(decoding, "method", "beam") != "beam" or width > WIDE
    asked = [body.search, body.alignment, body.details, body.constraints is None, stated.shown, stated.at_least]
    key = json.dumps([*asked, options])

    def compute(inputs: Sequence[Any]) -> list[dict[str, Any]]:
        values, given = _given(inputs, body)
        predictions = model.predict(values, alignment=is_aligned, **options, **given)
        return [_record(model, each, stated, sound=body.sound, details=body.details) for each in predictions]

    return job_of(served, items, _reader(model), compute, "predictions", key=None if is_alone else ("predict", key))


def _given(inputs: Sequence[Any], body: Predict) -> tuple[list[Any], dict[str, Any]]:
    """The inputs of `predict`, and their constraints if there are some."""
    values = [value for value, _ in inputs]
    return values, {} if body.constraints is None else {"constraints": [own for _, own in inputs]}


def _items(model: AbstractModel[Any], body: Predict) -> list[tuple[Any, Any]]:
    """The inputs of a request, each with its constraints."""
    for number, value in enumerate(body.inputs):
        _check_length(model, value, f"inputs[{number}]")
    if body.constraints is None:
        return [(value, None) for value in body.inputs]
    if len(body.constraints) != len(body.inputs):
        counts = f"{len(body.constraints):,} for {len(body.inputs):,} inputs"
        raise Refusal(422, f"Give constraints or null for every input; there are {counts}.", "constraints")
    if "constraints" not in options_of(type(model)):
        raise Refusal(422, f"constraints are not for models of {model.config.task}; leave them out.", "constraints")
    for number, own in enumerate(body.constraints):
        check_constraints(own or {}, f"constraints[{number}]")
    return list(zip(body.inputs, body.constraints, strict=True))


def _stated(model: AbstractModel[Any], body: Predict) -> Stated:
    """What is asked for of the confidence of outputs."""
    stated = Stated(body.confidence, body.at_least or 0.0)
    if stated != Stated() and model.no_confidence:
        field = "confidence" if body.confidence else "at_least"
        raise Refusal(422, f"{field} is not for models of {model.config.task}: {model.no_confidence}.", field)
    return stated


def _accepted(model: AbstractModel[Any], body: Predict) -> dict[str, Any]:
    """The arguments of `predict` beside the alignment and constraints: no sound is made that is not asked for."""
    if body.sound and not model.sounds:
        raise Refusal(422, f"sound is not for models of {model.config.task}; leave it out.", "sound")
    return {"sound": body.sound} if "sound" in options_of(type(model)) else {}


def _record(
    model: AbstractModel[Any], prediction: Any, stated: Stated, *, sound: bool = False, details: bool = False
) -> dict[str, Any]:
    record = model.stated_record(prediction, stated)
    if details:
        record["details"] = model.details(prediction)
    if sound:
        content = model.sound(prediction)
        record["sound"] = None if content is None else base64.b64encode(content).decode("ascii")
    return record


def aligning(served: Served, body: Align) -> Job:
    """The job of a request for alignments."""
    model = served.model
    names = ("words", "end_symbol", "normalise", "layer", "head")
    choices = {name: getattr(body, name) for name in names}
    for number, pair in enumerate(body.pairs):
        if not isinstance(pair.output, str):
            raise Refusal(422, "The output of a pair that is aligned is a text, not a list.", f"pairs[{number}].output")

    def compute(pairs: Sequence[Any]) -> list[dict[str, Any]]:
        return [each.record() for each in model.align(pairs, **choices)]

    return job_of(
        served, _pairs(model, body.pairs), _pair_reader(model), compute, "alignments",
        key=("align", json.dumps(choices)),
    )  # fmt: skip


def scoring(served: Served, body: Score) -> Job:
    """The job of a request for scores."""
    model = served.model

    def compute(pairs: Sequence[Any]) -> list[dict[str, Any]]:
        return [each.record() for each in model.score_pairs(pairs)]

    return job_of(served, _pairs(model, body.pairs), _pair_reader(model), compute, "scores", key="score")


def exploring(served: Served, body: Explore) -> Job:
    """The job of a request for the tree of a search."""
    task = served.model.config.task
    if type(served.model).search_tree is AbstractModel.search_tree:
        raise Refusal(422, f"Models of {task} do not search for their outputs, so there is no tree.", "model")
    constraints: list[dict[str, Any] | None] | None = None if body.constraints is None else [body.constraints]
    states = not served.model.no_confidence
    whole = Predict(inputs=[body.input], search=body.search, constraints=constraints, confidence=states, details=True)
    job, model, stated = predicting(served, whole), with_settings(served.model, body.search), Stated(shown=states)

    def compute(inputs: Sequence[Any]) -> list[dict[str, Any]]:
        (value,), given = _given(inputs, whole)
        tree, note = None, ""
        try:
            own = {name: each[0] for name, each in given.items()}
            found = model.search_tree(value, runners_up=body.runners_up, **own)
        except ConfigError as error:  # samples and the like, which have no tree
            note, (prediction,) = str(error), model.predict([value], alignment=True, **given)
        else:
            prediction = found.prediction
            if len(found.nodes) <= MOST_NODES:
                tree = found.record()
            else:
                note = f"The tree has {len(found.nodes):,} nodes, more than {MOST_NODES:,}; take a smaller beam."
        return [{"tree": tree, "note": note, "prediction": _record(model, prediction, stated, details=True)}]

    return _single(served, job.items, job.read, compute)


def nearing(served: Served, body: Nearest) -> Job:
    """The job of a request for the nearest training items; of their files only the names are told."""
    model = served.model
    _check_length(model, body.input, "input")
    _check_length(model, body.output or "", "output")

    def compute(inputs: Sequence[Any]) -> list[dict[str, Any]]:
        try:
            near = model.nearest(inputs[0], body.output, step=body.step, count=body.count)
        except UnsupportedError as error:
            raise Refusal(422, without_folders(error), "model") from None
        return [{"nearest": [{**each.record(), "place": Path(each.place).name} for each in near]}]

    return _single(served, [body.input], lambda _, value: _read(model, value, "input"), compute)


def _facts(served: Served) -> dict[str, Any]:
    """What every answer says of its model."""
    return {"model": served.name, "version": served.version}


def _single(
    served: Served,
    items: Sequence[Any],
    read: Callable[[int, Any], Any],
    compute: Callable[[Sequence[Any]], Sequence[dict[str, Any]]],
) -> Job:
    """A job of one input, computed by itself, whose result is the body of the answer."""
    return Job(items, read, compute, lambda results: _json(_facts(served) | results[0]))


def _pairs(model: AbstractModel[Any], pairs: Sequence[GivenPair]) -> Sequence[GivenPair]:
    for number, pair in enumerate(pairs):
        _check_length(model, pair.input, f"pairs[{number}].input")
        _check_length(model, pair.output, f"pairs[{number}].output")
    return pairs


def _check_length(model: AbstractModel[Any], value: Any, field: str) -> None:
    if (length := length_of(value)) > model.longest_text:
        text = f"{length:,} characters; a text for {model.name} may have {model.longest_text:,}."
        raise Refusal(413, text, field)


def _reader(model: AbstractModel[Any]) -> Callable[[int, Any], Any]:
    """Reads the input of an item with its constraints."""

    def read(number: int, item: tuple[Any, Any]) -> tuple[Any, Any]:
        return _read(model, item[0], f"inputs[{number}]"), item[1]

    return read


def _pair_reader(model: AbstractModel[Any]) -> Callable[[int, GivenPair], tuple[Any, Any]]:
    def read(number: int, pair: GivenPair) -> tuple[Any, Any]:
        return _read(model, pair.input, f"pairs[{number}].input"), pair.output

    return read


def _read(model: AbstractModel[Any], value: Any, field: str) -> Any:
    try:
        return model.from_json(value)
    except DataError as error:
        raise Refusal(422, str(error), field) from None


def job_of(
    served: Served,
    items: Sequence[Any],
    read: Callable[[int, Any], Any],
    compute: Callable[[Sequence[Any]], Sequence[Any]],
    name: str,
    *,
    key: Hashable,
) -> Job:
    """A job whose result is the body of the answer."""
    return Job(items, read, compute, lambda records: _json(_facts(served) | {name: records}), key)


async def accepted(models: Models, name: str | None, make: Callable[[Served], Job]) -> tuple[Served, Job]:
    """The job of a request, in the queue of its model.

    Raises:
        Refusal: for a model that is not there, or too many requests that wait.
    """
    while True:
        served = await models.get(name)
        job = make(served)
        try:
            served.jobs.submit(job)
        except Closed:  # another version has just taken its place
            continue
        except Full:
            text = f"{models.limits.queue:,} requests wait for {served.name} already; send this one again later."
            raise Refusal(429, text, retry_after="1") from None
        return served, job


async def answered(models: Models, request: Request, name: str | None, make: Callable[[Served], Job]) -> Response:
    """The answer to a request; its job is given up when its time is over or its client is gone."""
    served, job = await accepted(models, name, make)
    gone = asyncio.ensure_future(request.receive())  # after the body, only the end of the connection comes
    try:
        await asyncio.wait({job.future, gone}, timeout=models.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if job.future.done():
            return Response(job.future.result(), media_type=JSON)
        models.metrics.abandoned.labels(served.name).inc()
        if gone.done():
            return Response(status_code=CLIENT_GONE)
        raise over_time(models)
    except Exception as error:
        raise refusal_of(error) from None
    finally:
        job.future.cancel()
        gone.cancel()


async def streamed(models: Models, body: Predict) -> Response:
    """The answer to a request whose outputs are streamed, as server-sent events."""
    events: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def send(lines: str) -> None:
        loop.call_soon_threadsafe(events.put_nowait, lines)

    served, job = await accepted(models, body.model, lambda served: _streaming(served, body, send))
    job.future.add_done_callback(lambda _: events.put_nowait(None))
    deadline = loop.time() + models.limits.seconds
    try:
        async with asyncio.timeout_at(deadline):
            first = await events.get()
    except TimeoutError:
        job.future.cancel()
        raise over_time(models) from None
    if first is None and (error := job.future.exception()) is not None:
        raise refusal_of(error)

    async def lines() -> AsyncIterator[str]:
        event = first
        try:
            async with asyncio.timeout_at(deadline):
                while event is not None:
                    yield event
                    event = await events.get()
            error = job.future.exception()
            yield _event("done", _facts(served)) if error is None else _event("error", refusal_of(error).error)
        except TimeoutError:
            yield _event("error", over_time(models).error)
        finally:
            if not job.future.done():
                models.metrics.abandoned.labels(served.name).inc()
            job.future.cancel()

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _streaming(served: Served, body: Predict, send: Callable[[str], object]) -> Job:
    """The job of a request for streamed predictions, which sends events."""
    if not hasattr(served.model, "stream"):
        task = served.model.config.task
        raise Refusal(422, f"stream is not for models of {task}, which do not predict step by step.", "stream")
    job, model, stated = predicting(served, body), with_settings(served.model, body.search), _stated(served.model, body)

    def compute(inputs: Sequence[Any]) -> list[None]:
        values, given = _given(inputs, body)
        for piece in model.stream(values, alignment=body.alignment or body.details, **given):  # type: ignore[attr-defined]
            lines = _event("token", {"index": piece.index, "text": piece.text}) if piece.text else ""
            if piece.prediction is not None:
                record = _record(model, piece.prediction, stated, details=body.details)
                lines += _event("prediction", {"index": piece.index, "prediction": record})
            if lines:
                send(lines)
        return [None] * len(inputs)

    return Job(job.items, job.read, compute, lambda _: None)


def over_time(models: Models) -> Refusal:
    """The answer to a request that took too long."""
    text = (
        f"The answer took longer than {models.limits.seconds:g} seconds; send fewer or shorter inputs, or again later."
    )
    return Refusal(503, text, code="over_time", retry_after="1")


def _event(name: str, value: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {_json(value).decode()}\n\n"


def refusal_of(error: BaseException) -> Refusal:
    """The answer to a request whose computation has raised an error."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, InputError):
        return Refusal(422, error.reason, f"inputs[{error.index}]")
    if isinstance(error, ConfigError):
        return Refusal(422, str(error), f"search.{error.path[-1]}" if error.path else None)
    if isinstance(error, RegardError):
        return Refusal(422, str(error))
    if isinstance(error, MemoryError) or "out of memory" in str(error) or "allocate memory" in str(error):
        return Refusal(503, "There is not enough memory for this request; send fewer or shorter inputs.", code="memory")
    LOG.error("A request failed.", exc_info=error)
    return Refusal(500, f"The request failed with {type(error).__name__}; the server's log has more.")


def _json(value: Any) -> bytes:
    """A value as JSON, with null for numbers that are not finite."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode()
