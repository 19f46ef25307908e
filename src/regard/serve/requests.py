"""The bodies of requests, their bounds, and the errors that answer them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

MOST_INPUTS = 256
"""The inputs or pairs of a request."""
MOST_OUTPUTS = 1_024
"""The outputs of a request, alternatives included."""
MOST_ALIGNED = 256
"""The outputs of a request that asks for their alignments."""
MOST_HYPOTHESES = 2_048
"""The hypotheses or samples that a request has searched together."""
MOST_TEXTS, LONGEST_TEXT = 32, 1_000
"""The texts of a setting or constraint, and the characters of each."""
LARGEST: Mapping[str, float] = {
    "beam": 64, "num_best": 64, "num_groups": 64, "num_samples": 256, "max_length": 1_000, "min_length": 1_000,
    "max_length_extra": 1_000, "max_length_ratio": 10, "min_length_ratio": 10, "steps": 1_000, "iterations": 200,
    "max_frames_per_unit": 100,
}  # fmt: skip
"""The largest values of settings, by name."""
SERVERS = ("batch_", "ensemble", "reranker", "validation_", "weights", "max_source_length", "context", "window")
"""How the names of settings begin that belong to who starts the server: files, memory and speed."""
CODES = {
    400: "not_json", 401: "token", 403: "host", 404: "not_found", 405: "method", 408: "slow", 413: "too_large",
    415: "media_type", 422: "invalid", 429: "busy", 500: "internal", 503: "unavailable",
}  # fmt: skip


FOLDERS = re.compile(r"(?<!\S)/\S*/")


def without_folders(error: Exception) -> str:
    """The text of an error without the folders of paths, which are not for clients."""
    return FOLDERS.sub("", str(error))


class Refusal(HTTPException):
    """A request that is refused: its status, what to do, the field at fault, and further headers."""

    def __init__(
        self, status: int, message: str, field: str | None = None, *, code: str | None = None, **headers: str
    ) -> None:
        message = message if message.endswith((".", "?")) else f"{message}."
        super().__init__(status, message, {name.replace("_", "-"): value for name, value in headers.items()})
        self.field, self.code = field, code or CODES.get(status, "error")

    @property
    def error(self) -> dict[str, str | None]:
        """What is wrong, as in `ErrorDetail`."""
        return {"code": self.code, "message": self.detail, "field": self.field}

    def response(self) -> JSONResponse:
        """The answer."""
        return JSONResponse({"error": self.error}, self.status_code, self.headers)


class ErrorDetail(BaseModel):
    """What is wrong."""

    code: str = Field(description=f"one of {', '.join(CODES.values())}")
    message: str = Field(description="what is wrong, and what to do")
    field: str | None = Field(description="the field at fault, such as `inputs[2]`")


class ErrorBody(BaseModel):
    """The answer to a request that is refused."""

    error: ErrorDetail


class Body(BaseModel):
    """A body of JSON, without fields that nothing reads."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(default=None, description="the name of a model (`/v1/info`); null: the first")


Search = Annotated[
    dict[str, JsonValue],
    Field(
        description="settings of the search in place of the model's, such as `beam`, `num_best`, `length_penalty`, "
        "`temperature` or `seed`: keys of `decoding` of its task",
        examples=[{"beam": 10, "num_best": 3}],
    ),
]
TEXTS = {"type": "array", "items": {"type": "string"}}
INPUT = {
    "anyOf": [
        {"type": "string", "description": "a text"},
        {**TEXTS, "description": "the texts of several columns, or the tokens of a sentence"},
        {
            "type": "object",
            "description": "a picture: PNG, JPEG and others in base64",
            "properties": {"image": {"type": "string", "contentEncoding": "base64"}},
            "required": ["image"],
        },
        {
            "type": "object",
            "description": "handwriting: strokes of points x, y; y points down",
            "properties": {"strokes": {"type": "array", "items": {"type": "array"}}},
            "required": ["strokes"],
        },
        {
            "type": "object",
            "description": "series: the content of a CSV file",
            "properties": {"csv": {"type": "string"}},
            "required": ["csv"],
        },
        {
            "type": "object",
            "description": "series: lists of values by the name of their column",
            "properties": {"columns": {"type": "object", "additionalProperties": {"type": "array"}}},
            "required": ["columns"],
        },
    ],
    "examples": ["attention"],
}
"""The forms of inputs; `/v1/info` says which of them a model reads."""
Input = Annotated[JsonValue, Field(json_schema_extra=lambda schema: schema.update(INPUT))]
Inputs = Annotated[list[Input], Field(min_length=1, max_length=MOST_INPUTS, examples=[["attention", "regard"]])]
Output = str | list[str]


class Predict(Body):
    """Inputs whose outputs are predicted."""

    inputs: Inputs
    search: Search = Field(default={})
    alignment: bool = Field(default=False, description="whether predictions have their alignments")
    confidence: bool = Field(default=False, description="whether predictions have the probability that they are right")
    at_least: float | None = Field(
        default=None, ge=0, le=1, description="mark outputs with less confidence as `abstained`"
    )
    constraints: list[dict[str, JsonValue] | None] | None = Field(
        default=None,
        max_length=MOST_INPUTS,
        description="for each input null or an object with `prefix`, `include` and `exclude`: how its output begins, "
        "and which texts it contains and does not contain",
    )
    details: bool = Field(
        default=False, description="whether predictions have what the page draws, such as alignments by layer and head"
    )
    sound: bool = Field(default=False, description="of speech: whether predictions have a WAV file in base64")
    stream: bool = Field(default=False, description="send the symbols of outputs as soon as they are certain, by SSE")


class GivenPair(BaseModel):
    """An input with a given output."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: Input
    output: Output = Field(description="a text, or a list of labels")


PAIR = {"input": "attention", "output": "AH T EH N SH AH N"}
Pairs = Annotated[list[GivenPair], Field(min_length=1, max_length=MOST_INPUTS, examples=[[PAIR]])]


class Align(Body):
    """Given outputs that are aligned with their inputs."""

    pairs: Pairs
    words: bool = Field(default=True, description="whether rows and columns are words; else they are symbols")
    end_symbol: bool = Field(default=False, description="whether the end symbol has a row and a column")
    normalise: bool = Field(default=False, description="whether rows are divided by their sum")
    layer: str | None = Field(default=None, description="an attention such as `cross.3`, or `mean`")
    head: int | None = Field(default=None, ge=0, description="one head, from 0; null: their mean")


class Score(Body):
    """Given outputs whose probabilities are computed."""

    pairs: Pairs


class Explore(Body):
    """An input whose search is looked at."""

    input: Input
    search: Search = Field(default={})
    constraints: dict[str, JsonValue] | None = Field(default=None, description="as in `/v1/predict`, of this input")
    runners_up: int = Field(default=3, ge=0, le=20, description="the most pruned tokens after each kept one")


class Nearest(Body):
    """A step of an output whose nearest training items are looked for."""

    input: Input
    output: str | None = Field(default=None, description="null: the prediction")
    step: int = Field(default=1, ge=1, description="the number of the symbol that the decoder's state predicts")
    count: int = Field(default=10, ge=1, le=100, description="the most items")


class Predicted(BaseModel):
    """The predictions of inputs, in order."""

    model: str
    version: str = Field(description="the digest of the weights")
    predictions: list[dict[str, Any]] = Field(description="as `regard predict --format jsonl` prints them")


class Explored(BaseModel):
    """The search for an output."""

    model: str
    version: str
    tree: dict[str, Any] | None = Field(description="nodes, steps and returned nodes; null of searches without a tree")
    note: str = Field(description="why there is no tree")
    prediction: dict[str, Any] = Field(description="as of `/v1/predict`, with `details`")


class NearestItems(BaseModel):
    """Training items, nearest first."""

    model: str
    version: str
    nearest: list[dict[str, Any]] = Field(description="distance, place, input, tokens and step of each")


class Alignments(BaseModel):
    """The alignments of pairs, in order."""

    model: str
    version: str
    alignments: list[dict[str, Any]] = Field(description="as `regard align --format jsonl` prints them")


class Scores(BaseModel):
    """The scores of pairs, in order."""

    model: str
    version: str
    scores: list[dict[str, Any]] = Field(description="log-probabilities in nats, of the output and of its symbols")


def check_setting(name: str, value: JsonValue) -> None:
    """Refuses a setting or constraint that would take too much memory, or that is not for clients.

    Raises:
        Refusal: with the bound.
    """
    if name.startswith(SERVERS):
        raise Refusal(
            422, f"{name} is set when the server is started, not by requests; leave it out.", f"search.{name}"
        )
    if isinstance(value, int | float) and value > LARGEST.get(name, float("inf")):
        raise Refusal(422, f"{name} is {value:,}; a request may have at most {LARGEST[name]:,}.", f"search.{name}")
    texts = value if isinstance(value, list) else [value]
    longest = max((len(text) for text in texts if isinstance(text, str)), default=0)
    if len(texts) > MOST_TEXTS or longest > LONGEST_TEXT:
        most = f"at most {MOST_TEXTS} texts of at most {LONGEST_TEXT:,} characters each"
        raise Refusal(413, f"{name} may have {most}.", name)


def check_constraints(constraints: Mapping[str, JsonValue], field: str) -> None:
    """Refuses the constraints of an input that are too long; a prefix may be a list of symbols.

    Raises:
        Refusal: with the bound.
    """
    for name, value in constraints.items():
        if name != "prefix" or not isinstance(value, list):
            check_setting(field, value)
        elif len(value) > LARGEST["max_length"] or length_of(value) > MOST_TEXTS * LONGEST_TEXT:
            raise Refusal(413, f"prefix may have at most {LARGEST['max_length']:,} symbols.", field)


def length_of(value: JsonValue) -> int:
    """The characters of a text, or of a list of texts; 0 of other inputs, which the size of the body limits."""
    texts: Sequence[JsonValue] = value if isinstance(value, list) else [value]
    return sum(len(text) for text in texts if isinstance(text, str))
