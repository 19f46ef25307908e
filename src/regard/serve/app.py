"""The addresses of a server: predictions, alignments, scores, facts about models, and the state of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

from regard import __version__
from regard.errors import RegardError
from regard.files import plain
from regard.runs.contract import AbstractModel
from regard.runs.store import find
from regard.serve.answers import (
    aligning,
    answered,
    exploring,
    nearing,
    options_of,
    predicting,
    refusal_of,
    scoring,
    streamed,
)
from regard.serve.limits import LOOPBACK, Gate, Traffic
from regard.serve.models import Models, told_by
from regard.serve.reference import page_of
from regard.serve.requests import (
    Align,
    Alignments,
    ErrorBody,
    Explore,
    Explored,
    Nearest,
    NearestItems,
    Predict,
    Predicted,
    Refusal,
    Score,
    Scores,
)

PAGE = Path(__file__).parent / "page" / "index.html"
SAFE = {
    "Content-Security-Policy": "frame-ancestors 'none'; object-src 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""The headers of pages, beside their own policies, by which they load nothing from elsewhere."""


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

    errors: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorBody} for status in (400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503)
    }
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

    @app.post("/v1/predict", response_model=Predicted)
    async def predict(body: Predict, request: Request) -> Response:
        """The outputs of inputs. With `stream`, an event `token` for each new piece of a text, `prediction` for each
        whole output, and `done` or `error`."""
        if body.stream:
            return await streamed(models, body)
        return await answered(models, request, body.model, lambda served: predicting(served, body))

    @app.post("/v1/align", response_model=Alignments)
    async def align(body: Align, request: Request) -> Response:
        """The alignments of given outputs with their inputs."""
        return await answered(models, request, body.model, lambda served: aligning(served, body))

    @app.post("/v1/score", response_model=Scores)
    async def score(body: Score, request: Request) -> Response:
        """The probabilities of given outputs."""
        return await answered(models, request, body.model, lambda served: scoring(served, body))

    @app.post("/v1/explore/search", response_model=Explored)
    async def explore(body: Explore, request: Request) -> Response:
        """The search for the output of an input as a tree: what was kept, pruned and returned, and why."""
        return await answered(models, request, body.model, lambda served: exploring(served, body))

    @app.post("/v1/explore/nearest", response_model=NearestItems)
    async def nearest(body: Nearest, request: Request) -> Response:
        """The training items whose decoder states are nearest to that of a step of an output."""
        return await answered(models, request, body.model, lambda served: nearing(served, body))

    @app.get("/v1/info")
    async def info(model: str | None = None) -> dict[str, Any]:
        """What is served: each model with its task, the form of its inputs, what it can do, and its settings."""
        if model is not None:
            await models.get(model)
        facts = await asyncio.to_thread(lambda: [facts_of(models, name) for name in models.sources])
        return plain({"version": __version__, "models": facts})

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
        answer = Refusal(error.status_code, texts.get(error.status_code, str(error.detail))).response()
        answer.headers.update(error.headers or {})  # such as Allow
        return answer

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


def facts_of(models: Models, name: str) -> dict[str, Any]:
    """The entry of a model in `/v1/info`; of one that is not loaded, what its files tell."""
    try:
        told = told_by(find(models.sources[name]))
    except RegardError:  # of a model that is not there any longer
        told = {}
    if (served := models.loaded.get(name)) is None:
        return {"name": name, "loaded": False, **told}
    model = served.model
    own = type(model)
    return {
        **told,
        **model.information(),
        "settings": _without_paths({each: getattr(model.config, each).model_dump() for each in ("data", "training")}),
        "name": name,
        "version": served.version,
        "loaded": True,
        "device": str(model.device),
        "input": {"schema": model.input_schema(), "columns": list(model.input_fields)},
        "can": {
            "stream": hasattr(model, "stream"),
            "align": own.align is not AbstractModel.align,
            "score": own.score_pairs is not AbstractModel.score_pairs,
            "sound": bool(model.sounds),
            "pace": any(getattr(part, "has_pace", False) for part in model.module.modules()),
            "confidence": not model.no_confidence,
            "constraints": "constraints" in options_of(own),
            "tree": own.search_tree is not AbstractModel.search_tree,
            "nearest": own.nearest is not AbstractModel.nearest,
        },
        "calibrated": model.is_calibrated,
    }


def _without_paths(value: Any) -> Any:
    """Settings without paths, which are not for clients."""
    if isinstance(value, dict):
        return {name: _without_paths(each) for name, each in value.items() if not isinstance(each, Path)}
    if isinstance(value, list | tuple):
        return [_without_paths(each) for each in value if not isinstance(each, Path)]
    return value


def _invalid(error: RequestValidationError) -> Refusal:
    """The answer to a body of another form."""
    first = error.errors()[0]
    kind, places = str(first["type"]), [each for each in first["loc"][1:] if isinstance(each, int | str)]
    if kind == "json_invalid":
        return Refusal(400, f"The body is not JSON: {first['ctx']['error']} at character {places[0]}.")
    names = places[:2]  # further ones are types of JSON
    field = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in names).removeprefix(".")
    if kind == "missing" and not field:
        return Refusal(422, "The body is empty; send a JSON object.")
    status = 413 if kind == "too_long" else 422
    return Refusal(status, f"{field}: {first['msg']}.", field or None)
