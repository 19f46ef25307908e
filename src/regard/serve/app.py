"""The addresses of a server: predictions, alignments, scores, facts about models, and the state of the server."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from regard import __version__
from regard.errors import ConfigError, DataError, InputError, RegardError
from regard.files import plain
from regard.runs.calibration import Stated
from regard.runs.contract import AbstractModel
from regard.serve.batching import Closed, Job
from regard.serve.limits import LOOPBACK, Gate, Traffic
from regard.serve.models import Models, Served, with_settings
from regard.serve.reference import page_of
from regard.serve.requests import (
    MOST_ALIGNED,
    MOST_OUTPUTS,
    Align,
    Alignments,
    ErrorBody,
    Pair,
    Predict,
    Predictions,
    Refusal,
    Score,
    Scores,
    check_setting,
    length_of,
)

PAGE = Path(__file__).parent / "page" / "index.html"
JSON = "application/json"
LOG = logging.getLogger("regard.serve")
SAFE = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data: blob:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""The headers of pages, which load nothing from elsewhere."""


def application(
    models: Models,
    *,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = LOOPBACK,
) -> FastAPI:
    """The server of models, an ASGI application; `application.state.traffic` stops it from taking requests.

    Args:
        models: loads and computes.
        token: that clients have to send; None: none.
        origins: of web pages elsewhere that may use the server (CORS).
        hosts: names by which clients may reach the server; None: any.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(models.close)

    errors = {status: {"model": ErrorBody} for status in (400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503)}
    app = FastAPI(
        title="regard",
        version=__version__,
        description="Sequence models with attention: predictions, alignments and scores.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=errors,
    )
    app.state.models, app.state.traffic = models, Traffic()

    @app.post("/v1/predict", response_model=Predictions)
    async def predict(body: Predict, request: Request) -> Response:
        """The outputs of inputs. With `stream`, an event `token` for each new piece of a text, `prediction` for each
        whole output, and `done` or `error`."""
        while True:
            served = await models.get(body.model)
            try:
                if body.stream:
                    return await _streamed(models, served, body)
                return await _answered(models, served, request, _predicting(served, body))
            except Closed:  # another version has taken its place
                continue

    @app.post("/v1/align", response_model=Alignments)
    async def align(body: Align, request: Request) -> Response:
        """The alignments of given outputs with their inputs."""
        while True:
            served = await models.get(body.model)
            try:
                return await _answered(models, served, request, _aligning(served, body))
            except Closed:
                continue

    @app.post("/v1/score", response_model=Scores)
    async def score(body: Score, request: Request) -> Response:
        """The probabilities of given outputs."""
        while True:
            served = await models.get(body.model)
            try:
                return await _answered(models, served, request, _scoring(served, body))
            except Closed:
                continue

    @app.get("/v1/info")
    async def info(model: str | None = None) -> dict[str, Any]:
        """What is served: each model with its task, the form of its inputs, what it can do, and its settings."""
        if model is not None:
            await models.get(model)
        known = models.loaded
        shown = [facts_of(known[name]) if name in known else {"name": name, "loaded": False} for name in models.sources]
        return plain({"version": __version__, "models": shown})

    @app.get("/health")
    async def health() -> Response:
        """Whether the server takes requests."""
        is_draining = app.state.traffic.is_draining
        return JSONResponse({"status": "draining" if is_draining else "ok"}, 503 if is_draining else 200)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(models.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        """The explorer."""
        return FileResponse(PAGE, headers=SAFE) if PAGE.is_file() else RedirectResponse("docs")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """The description of the addresses, a page without anything from elsewhere."""
        return HTMLResponse(page_of(app.openapi()), headers=SAFE)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _invalid(error).response()

    @app.exception_handler(RegardError)
    async def wrong(_: Request, error: RegardError) -> Response:
        return refusal_of(error).response()

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return refusal_of(error).response()

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        if isinstance(error, Refusal):
            return error.response()
        texts = {
            404: f"There is no address {request.url.path:.60}; /docs has those that there are.",
            405: f"{request.url.path:.60} is not asked by {request.method:.10}; /docs says how.",
            400: "The body cannot be read as JSON; send UTF-8, and not too many brackets within each other.",
        }
        return Refusal(error.status_code, texts.get(error.status_code, str(error.detail))).response()

    paths = {getattr(route, "path", "") for route in app.routes}
    app.add_middleware(
        Gate,
        limits=models.limits,
        metrics=models.metrics,
        traffic=app.state.traffic,
        paths=paths,
        token=token,
        hosts=hosts,
    )
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    return app


def facts_of(served: Served) -> dict[str, Any]:
    """The entry of a model in `/v1/info`."""
    model = served.model
    own = type(model)
    return {
        **model.information(),
        "name": served.name,
        "version": served.version,
        "loaded": True,
        "device": str(model.device),
        "card": model.card,
        "input": {"schema": model.input_schema(), "columns": list(model.input_fields)},
        "can": {
            "stream": hasattr(model, "stream"),
            "align": own.align is not AbstractModel.align,
            "score": own.score_pairs is not AbstractModel.score_pairs,
            "sound": bool(model.sounds),
            "confidence": not model.no_confidence,
            "constraints": "constraints" in _options(model),
        },
        "calibrated": model.is_calibrated,
    }


def _options(model: AbstractModel[Any]) -> set[str]:
    """The names of the keyword-only arguments of `predict`."""
    parameters = inspect.signature(model.predict).parameters.values()
    return {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def _predicting(served: Served, body: Predict) -> Job:
    """The job of a request for predictions."""
    model = with_settings(served.model, body.search)
    decoding: Any = model.config.decoding
    items = _items(model, body)
    outputs = len(items) * getattr(decoding, "num_best", 1)
    most = MOST_ALIGNED if body.alignment else MOST_OUTPUTS
    if outputs > most:
        with_ = " with alignments" if body.alignment else ""
        raise Refusal(413, f"{outputs:,} outputs are asked for; a request may have {most:,}{with_}.", "inputs")
    stated = _stated(model, body)
    options = _accepted(model, body)
    is_drawn = getattr(decoding, "method", "beam") != "beam"  # equal inputs of a call have different samples
    key = json.dumps([body.search, body.alignment, options, body.constraints is None, stated.shown, stated.at_least])

    def compute(inputs: Sequence[Any]) -> list[dict[str, Any]]:
        given = {"constraints": [own for _, own in inputs]} if body.constraints is not None else {}
        predictions = model.predict([value for value, _ in inputs], alignment=body.alignment, **options, **given)
        return [_record(model, prediction, stated, sound=body.sound) for prediction in predictions]

    return _job(served, items, _reader(model), compute, "predictions", key=None if is_drawn else ("predict", key))


def _items(model: AbstractModel[Any], body: Predict) -> list[tuple[Any, Any]]:
    """The inputs of a request, each with its constraints."""
    for number, value in enumerate(body.inputs):
        _check_length(model, value, f"inputs[{number}]")
    if body.constraints is None:
        return [(value, None) for value in body.inputs]
    if len(body.constraints) != len(body.inputs):
        counts = f"{len(body.constraints):,} for {len(body.inputs):,} inputs"
        raise Refusal(422, f"Give constraints or null for every input; there are {counts}.", "constraints")
    if "constraints" not in _options(model):
        raise Refusal(422, f"constraints are not for models of {model.config.task}; leave them out.", "constraints")
    for number, own in enumerate(body.constraints):
        for value in (own or {}).values():
            check_setting(f"constraints[{number}]", value)
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
    return {"sound": body.sound} if "sound" in _options(model) else {}


def _record(model: AbstractModel[Any], prediction: Any, stated: Stated, *, sound: bool) -> dict[str, Any]:
    record = model.stated_record(prediction, stated)
    if sound:
        content = model.sound(prediction)
        record["sound"] = None if content is None else base64.b64encode(content).decode("ascii")
    return record


def _aligning(served: Served, body: Align) -> Job:
    """The job of a request for alignments."""
    model = served.model
    names = ("words", "end_symbol", "normalise", "layer", "head")
    choices = {name: getattr(body, name) for name in names}

    def compute(pairs: Sequence[Any]) -> list[dict[str, Any]]:
        return [each.record() for each in model.align(pairs, **choices)]

    return _job(
        served, _pairs(model, body.pairs), _pair_reader(model), compute, "alignments",
        key=("align", json.dumps(choices)),
    )  # fmt: skip


def _scoring(served: Served, body: Score) -> Job:
    """The job of a request for scores."""
    model = served.model

    def compute(pairs: Sequence[Any]) -> list[dict[str, Any]]:
        return [each.record() for each in model.score_pairs(pairs)]

    return _job(served, _pairs(model, body.pairs), _pair_reader(model), compute, "scores", key="score")


def _pairs(model: AbstractModel[Any], pairs: Sequence[Pair]) -> Sequence[Pair]:
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


def _pair_reader(model: AbstractModel[Any]) -> Callable[[int, Pair], tuple[Any, Any]]:
    def read(number: int, pair: Pair) -> tuple[Any, Any]:
        return _read(model, pair.input, f"pairs[{number}].input"), pair.output

    return read


def _read(model: AbstractModel[Any], value: Any, field: str) -> Any:
    try:
        return model.from_json(value)
    except DataError as error:
        raise Refusal(422, str(error), field) from None


def _job(
    served: Served,
    items: Sequence[Any],
    read: Callable[[int, Any], Any],
    compute: Callable[[Sequence[Any]], Sequence[Any]],
    name: str,
    *,
    key: Hashable,
) -> Job:
    """A job whose result is the body of the answer."""
    facts = {"model": served.name, "version": served.version}
    return Job(items, read, compute, lambda records: _json({**facts, name: records}), key)


async def _answered(models: Models, served: Served, request: Request, job: Job) -> Response:
    """The answer to a request; its job is given up when its time is over or its client is gone."""
    future = models.submit(served, job)
    gone = asyncio.ensure_future(request.receive())  # after the body, only the end of the connection comes
    try:
        await asyncio.wait({future, gone}, timeout=models.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return Response(future.result(), media_type=JSON)
        models.metrics.abandoned.labels(served.name).inc()
        if gone.done():
            return Response(status_code=499)
        raise _over_time(models)
    except Exception as error:
        raise refusal_of(error) from error
    finally:
        future.cancel()
        gone.cancel()


async def _streamed(models: Models, served: Served, body: Predict) -> Response:
    """The answer to a request whose outputs are streamed, as server-sent events."""
    if not hasattr(served.model, "stream"):
        task = served.model.config.task
        raise Refusal(422, f"stream is not for models of {task}, which do not predict step by step.", "stream")
    job = _predicting(served, body)
    model: Any = with_settings(served.model, body.search)
    events: asyncio.Queue[str | None] = asyncio.Queue()
    loop, stated = asyncio.get_running_loop(), _stated(model, body)

    def compute(inputs: Sequence[Any]) -> list[None]:
        given = {"constraints": [own for _, own in inputs]} if body.constraints is not None else {}
        for piece in model.stream([value for value, _ in inputs], alignment=body.alignment, **given):
            lines = _event("token", {"index": piece.index, "text": piece.text}) if piece.text else ""
            if piece.prediction is not None:
                record = _record(model, piece.prediction, stated, sound=False)
                lines += _event("prediction", {"index": piece.index, "prediction": record})
            if lines:
                loop.call_soon_threadsafe(events.put_nowait, lines)
        return [None] * len(inputs)

    job.compute, job.answer, job.key = compute, lambda _: None, None
    future = models.submit(served, job)
    future.add_done_callback(lambda _: events.put_nowait(None))
    deadline = loop.time() + models.limits.seconds
    try:
        async with asyncio.timeout_at(deadline):
            first = await events.get()
    except TimeoutError:
        future.cancel()
        raise _over_time(models) from None
    if first is None and (error := future.exception()) is not None:
        raise refusal_of(error)

    async def lines() -> AsyncIterator[str]:
        event = first
        try:
            async with asyncio.timeout_at(deadline):
                while event is not None:
                    yield event
                    event = await events.get()
            error = future.exception()
            if error is None:
                yield _event("done", {"model": served.name, "version": served.version})
            else:
                yield _event("error", refusal_of(error).error)
        except TimeoutError:
            yield _event("error", _over_time(models).error)
        finally:
            if not future.done():
                models.metrics.abandoned.labels(served.name).inc()
            future.cancel()

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _over_time(models: Models) -> Refusal:
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


def _invalid(error: RequestValidationError) -> Refusal:
    """The answer to a body of another form."""
    first = error.errors()[0]
    kind, places = str(first["type"]), [each for each in first["loc"][1:] if isinstance(each, int | str)]
    if kind == "json_invalid":
        return Refusal(400, f"The body is not JSON: {first['ctx']['error']} at character {places[0]}.")
    field = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in places).removeprefix(".")
    if kind == "missing" and not field:
        return Refusal(422, "The body is empty; send a JSON object.")
    status = 413 if kind == "too_long" else 422
    return Refusal(status, f"{field}: {first['msg']}.", field or None)


def _json(value: Any) -> bytes:
    """A value as JSON, with null for numbers that are not finite."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode()
