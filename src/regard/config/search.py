"""The settings of a search for symbols: keys of configurations, a Python class, and flags of commands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, cast, dataclass_transform

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, model_validator

from regard.config.combinations import Method, refusal_of, unread_keys
from regard.config.keys import keys
from regard.config.place import KeyPath, cut
from regard.config.schema import COMMON, Section
from regard.config.spelling import suggestion
from regard.errors import ConfigError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""Hypotheses or samples of a sentence; more would exhaust the memory."""
Natural = Annotated[int, Field(ge=0)]
UtilityName = Literal["chrf", "bleu", "exact_match", "edit_distance"]
Ranking = Literal["none", "average", "gnmt", "power"]
Coverage = Literal["none", "gnmt", "summary", "tfa"]
Criterion = Literal["optimal", "first", "patience", "top", "full"]
Temperature = Annotated[float, Field(gt=0.0)]
Seed = Annotated[int, Field(ge=0, lt=2**31)] | None


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class _Called(ModelMetaclass):
    """Makes `Search(beam=0)` raise a ConfigError; checks of files keep pydantic's errors, which have places."""

    def __call__(cls, *arguments: Any, **values: Any) -> Any:
        if arguments:
            raise TypeError(f"{cls.__name__} takes names, as in {cls.__name__}(beam=3); got {arguments[0]!r:.60}.")
        try:
            return super().__call__(**values)
        except ValidationError as error:
            raise _refusal(error, cast("type[Search]", cls), values, ("decoding",)) from None


class Search(Section, metaclass=_Called):
    """The search: beam search, greedy search (`beam=1`), sampling, or minimum Bayes risk over samples.

    A key that the method does not read is refused (`regard.config.combinations`). `temperature`, `top_k`, `top_p`,
    `min_p` and `typical_p` change the draws only, not the returned log-probabilities.

    Raises:
        ConfigError: for a value out of its range, or values that contradict each other.

    >>> Search(beam=3).replace(num_best=2).num_best
    2
    >>> Search(temperature=0.7)
    Traceback (most recent call last):
    regard.errors.ConfigError: temperature is 0.7, but only methods sampling and mbr read it, and method is beam
    """

    never_read: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """By key, the reason why the searches of a task never read it."""

    method: Method = Field(
        default="beam",
        description="search for the most probable outputs, sample from the model's distribution, or draw "
        "`num_samples` and choose those of the highest expected utility (minimum Bayes risk, Eikema "
        "2020)",
        json_schema_extra=COMMON,
    )
    beam: Count = Field(
        default=5, description="hypotheses kept at each step; 1: greedy search", json_schema_extra=COMMON
    )
    num_best: Count = Field(
        default=1,
        description="outputs returned for each input, best first: hypotheses, possibly fewer, or samples, possibly "
        "with equal ones",
        json_schema_extra=COMMON,
    )
    length_penalty: Ranking = Field(
        default="gnmt",
        description="the score that ranks hypotheses: the sum of log-probabilities, their mean, or the sum divided by "
        "((5 + length) / 6)^alpha (gnmt, Wu 2016) or by length^alpha (power)",
        json_schema_extra=COMMON,
    )
    alpha: Annotated[float, Field(ge=0.0)] = Field(default=0.6, description="strength of the penalties gnmt and power")
    length_counts_begin: bool = Field(
        default=False,
        description="the length of the penalty also counts the begin symbol (OpenNMT-py)",
    )
    coverage_penalty: Coverage = Field(
        default="none",
        description="the penalty of the total weight of each source position, which is added to the score: gnmt: "
        "beta times the sum of log min(weight, 1) (Wu 2016); summary: minus beta times the sum of the "
        "excess over 1 (Gehrmann 2018); tfa: as gnmt, only for finished outputs, and a position without "
        "any weight costs nothing",
    )
    beta: Annotated[float, Field(ge=0.0)] = Field(default=0.2, description="strength of the coverage penalty")
    num_groups: Count = Field(
        default=1,
        description="diverse beam search (Vijayakumar 2018): the number of groups of the beam, each of which avoids "
        "the symbols that earlier groups have chosen at the same step",
    )
    diversity: Annotated[float, Field(ge=0.0)] = Field(
        default=0.5,
        description="of groups: the reduction of a symbol's log-probability for each hypothesis that has chosen it",
    )
    stop: Criterion = Field(
        default="optimal",
        description="when the search of an output ends. optimal: no unfinished hypothesis can beat the finished ones; "
        "first: num_best hypotheses have finished; patience: patience times beam have (Kasai 2022); top: num_best "
        "have, and the most probable continuation of a step is an end, while hypotheses that end take places of the "
        "beam (OpenNMT-py); full: beam hypotheses have, and no unfinished one now ranks above the best beam of them "
        "(transformers). All but optimal count hypotheses whose end is among the beam most probable continuations",
    )
    patience: Annotated[float, Field(gt=0.0)] = Field(
        default=1.0, description="of stop patience: finished hypotheses as a multiple of the beam"
    )
    keep_finished: bool = Field(
        default=False,
        description="finished outputs keep their places in the beam and compete with unfinished ones, and the search"
        " of an input ends when its whole beam has finished (tensorflow-addons); otherwise every "
        "hypothesis may end at every step, and finished outputs are kept outside the beam",
    )
    min_length: Natural = Field(default=0, description="the fewest symbols of an output")
    eos_threshold: Annotated[float, Field(gt=0.0)] | None = Field(
        default=None,
        description="an output ends only where the end symbol's log-probability is above this multiple of that of "
        "the most probable other symbol (Hannun 2019); null: anywhere",
    )
    attention_stop: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="an output ends when its largest weight has been at the last source position for this many "
        "consecutive steps; null: never for this reason",
    )
    no_repeat_ngram_size: Natural = Field(
        default=0,
        description="no output contains the same n consecutive symbols twice (without the end symbol); 0: it may",
    )
    repetition_penalty: Annotated[float, Field(ge=1.0)] = Field(
        default=1.0,
        description="factor of the log-probability of a symbol that the output already contains (Keskar 2019)",
    )
    unknown_penalty: Annotated[float, Field(ge=0.0)] = Field(
        default=0.0,
        description="reduction of the log-probability of the unknown symbol; with 1000 it is predicted only where "
        "nothing else is possible",
    )
    num_samples: Count = Field(default=32, description="of mbr: number of samples, which are candidates and references")
    utility: UtilityName = Field(
        default="chrf",
        description="of mbr: the utility of an output, with a sample as reference: chrF of the texts, BLEU of the "
        "symbols, 1 for an equal output, or minus the edit distance of the symbols",
    )
    temperature: Temperature = Field(
        default=1.0,
        description="of sampling: divisor of log-probabilities; below 1 samples are more probable, above 1 more "
        "uniform",
        json_schema_extra=COMMON,
    )
    top_k: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="of sampling: only the k most probable symbols are drawn; null: all"
    )
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0,
        description="of sampling: only the most probable symbols that together reach this probability are drawn",
        json_schema_extra=COMMON,
    )
    min_p: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0,
        description="of sampling: only symbols with at least this multiple of the highest probability are drawn "
        "(Nguyen 2024)",
    )
    typical_p: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=1.0,
        description="of sampling: only symbols that together reach this probability are drawn, those first whose "
        "information is nearest to the entropy (Meister 2022); `top_k`, `top_p`, `min_p` and `typical_p` cut in this "
        "order, after `temperature`",
    )
    seed: Seed = Field(
        default=None,
        description="of sampling: with the same seed an input has the same samples in any batch; null: drawn from "
        "torch's global generator",
        json_schema_extra=COMMON,
    )

    weights: Literal["float32", "int8"] = Field(
        default="float32",
        description="how the decoder's matrices are stored during a search: as they are, or rounded to 8 bits, which "
        "is faster on a CPU and less exact",
    )

    @model_validator(mode="after")
    def _agree(self, info: ValidationInfo) -> Self:
        judged = self.model_fields_set if info.context is None else self.model_fields_set & info.context
        if (refused := refusal_of(self, judged, self._defaults)) is not None:
            raise ConfigError(refused[1], (refused[0],))
        return self

    @property
    def _defaults(self) -> dict[str, Any]:
        return {name: field.default for name, field in type(self).model_fields.items()}

    def unread(self, judged: Collection[str]) -> Iterator[tuple[str, str]]:
        """The keys among `judged` that nothing reads in this search, with the reasons."""
        return unread_keys(self, judged, self._defaults)

    @property
    def width(self) -> int:
        """The number of hypotheses or samples of an input that are decoded together."""
        return {"beam": self.beam, "sampling": self.num_best, "mbr": self.num_samples}[self.method]

    def replace(self, **values: Any) -> Self:
        """The same settings with other values.

        Raises:
            ConfigError: as for a new `Search`; keys of other methods are refused only if they are among `values`.
        """
        return checked(self, values, ("decoding",), judged=frozenset(values))


def another(name: str, default: Any) -> Any:
    """The field of a key of `Search` with another default, for the section of a task."""
    field = Search.model_fields[name]
    return Field(default=default, description=field.description, json_schema_extra=field.json_schema_extra)


S = TypeVar("S", bound=Section)
SearchT = TypeVar("SearchT", bound=Search)


def changed(section: S, name: str, values: Mapping[str, Any]) -> S:
    """A copy of the section with other values.

    Raises:
        ConfigError: for values outside their range, or that contradict each other.

    >>> changed(Search(), "decoding", {"beam": 3}).beam
    3
    """
    return checked(section, values, (name,), judged=frozenset(values)) if values else section


def checked(section: S, values: Mapping[str, Any], path: KeyPath, *, judged: frozenset[str]) -> S:
    """A checked copy of the section with other values.

    Args:
        path: the place of the section in the configuration, for errors.
        judged: the names of the keys that the caller has set, which are refused if nothing reads them.

    Raises:
        ConfigError: as in `changed`.
    """
    try:
        return type(section).model_validate({**dict(section), **values}, context=judged)
    except ValidationError as error:
        raise _refusal(error, type(section), values, path) from None


def _refusal(error: ValidationError, schema: type[BaseModel], values: Mapping[str, Any], path: KeyPath) -> ConfigError:
    """Pydantic's error as a ConfigError, with a line for each problem."""
    lines: dict[str, KeyPath] = {}
    for detail in error.errors():
        key = str(detail["loc"][0]) if detail["loc"] else None
        if key is None:
            cause = detail["ctx"]["error"]
            lines.setdefault(str(cause), getattr(cause, "path", ()))
        elif (known := keys(schema).get((key,))) is None:
            hint = suggestion(key, schema.model_fields)
            lines.setdefault(f"{key}={cut(repr(values.get(key)))}: unknown key; {hint}", (key,))
        else:
            meaning = f" ({known.field.description})" if known.field.description else ""
            lines.setdefault(f"{key}={cut(repr(values.get(key)))}: expected {known.expected}{meaning}", (key,))
    return ConfigError("\n".join(lines), (*path, *next(iter(lines.values()))))


def with_search(decoding: SearchT, search: Search | None) -> SearchT:
    """A task's `decoding` with the settings of `search`, for predictions.

    Args:
        decoding: the section of a task, which may have further keys, such as limits.
        search: of the task's class, it replaces the section; a `Search` replaces the keys that it has.

    Raises:
        ConfigError: for a search that contradicts the remaining keys.
    """
    if not isinstance(search, Search | None):
        raise TypeError(f"search: expected a Search, as in search=Search(beam=3); got {search!r:.60}.")
    if search is None or isinstance(search, type(decoding)):
        return decoding if search is None else search
    return checked(decoding, dict(search), ("decoding",), judged=frozenset(decoding.never_read))
