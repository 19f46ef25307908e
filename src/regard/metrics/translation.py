"""BLEU and chrF of files, by sacrebleu (extra `regard[text]`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

from regard.errors import ConfigError, UnsupportedError
from regard.lazy import optional
from regard.metrics.edit_distance import check_outputs

Metric = Literal["bleu", "chrf"]
TRANSLATION_METRICS: tuple[Metric, ...] = get_args(Metric)
"""Metrics of a file of texts, from 0 to 100; larger is better."""


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """A metric of a file.

    Args:
        value: from 0 to 100.
        signature: sacrebleu's record of the computation; only values with equal signatures are comparable.
    """

    value: float
    signature: str


def is_available() -> bool:
    """Whether sacrebleu is installed."""
    return find_spec("sacrebleu") is not None


def corpus_score(
    metric: Metric,
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> CorpusScore:
    """BLEU (Papineni et al. 2002, https://aclanthology.org/P02-1040) or chrF (Popović 2015,
    https://aclanthology.org/W15-3049) of outputs, computed by sacrebleu (Post 2018, https://aclanthology.org/W18-6319).

    Args:
        metric: bleu or chrf.
        outputs: plain texts.
        references: one or more per output; the numbers may differ.
        tokenize: the tokenizer of BLEU; sacrebleu's default, `13a`, if None; `none` for tokenised files.
        lowercase: whether to ignore letter case.

    Raises:
        ConfigError: for an unknown metric or tokenizer.
        UnsupportedError: if sacrebleu, or a package that the tokenizer needs, is not installed.

    >>> round(corpus_score("bleu", ["the cat sat on the mat"], [["the cat sat on the mat"]]).value, 6)
    100.0
    """
    check_outputs(outputs, references)
    scorer = scorer_of(metric, tokenize=tokenize, lowercase=lowercase)
    most = max(map(len, references))
    # sacrebleu takes a list of all first references, of all second ones, and so on, with None for missing ones
    streams = [[texts[i] if i < len(texts) else None for texts in references] for i in range(most)]
    result = scorer.corpus_score(list(outputs), streams)
    return CorpusScore(float(result.score), str(scorer.get_signature()))


def scorer_of(metric: Metric, *, tokenize: str | None = None, lowercase: bool = False) -> Any:
    """The object of sacrebleu that computes the metric; arguments and errors as in `corpus_score`."""
    if metric not in TRANSLATION_METRICS:
        raise ConfigError(f"There is no metric {metric!r}; there are {', '.join(TRANSLATION_METRICS)}.", ("select",))
    metrics = optional("sacrebleu.metrics", "BLEU and chrF need")
    options: dict[str, Any] = {"lowercase": lowercase}
    if metric == "bleu":
        options["force"] = True  # without warnings about tokenised texts
    if tokenize is not None and metric == "bleu":
        tokenizers = sorted(metrics.BLEU.TOKENIZERS)
        if tokenize not in tokenizers:
            raise ConfigError(f"sacrebleu has no tokenizer {tokenize!r}; it has {', '.join(tokenizers)}.")
        options["tokenize"] = tokenize
    try:
        return {"bleu": metrics.BLEU, "chrf": metrics.CHRF}[metric](**options)
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"sacrebleu's tokenizer {tokenize} cannot be used: {error}") from None
