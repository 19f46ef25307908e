"""BLEU and chrF of files, by sacrebleu (extra `regard[text]`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np

from regard.errors import ConfigError, UnsupportedError
from regard.lazy import optional
from regard.metrics.bootstrap import Array, MetricTerms, divided
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
        tokenize: the tokenizer of BLEU that was asked for.
    """

    value: float
    signature: str
    tokenize: str | None = None


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
    result = scorer.corpus_score(list(outputs), _streams(references))
    return CorpusScore(float(result.score), str(scorer.get_signature()), tokenize)


def corpus_terms(
    metric: Metric,
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> MetricTerms:
    """The counts of each output from which `corpus_score` follows; arguments and errors are the same.

    Sums of these counts give the score of any selection of the outputs. Their basis is the signature of the score.

    >>> terms = corpus_terms("chrf", ["the cat", "a dog"], [["the cat"], ["the dog"]])
    >>> score = corpus_score("chrf", ["the cat", "a dog"], [["the cat"], ["the dog"]])
    >>> round(terms.value - score.value, 9), terms.basis == score.signature
    (0.0, True)
    """
    check_outputs(outputs, references)
    scorer = scorer_of(metric, tokenize=tokenize, lowercase=lowercase)
    scorer.corpus_score(list(outputs), _streams(references))  # the signature counts the references
    counts = scorer._extract_corpus_statistics(list(outputs), _streams(references))  # as in sacrebleu's own tests
    value = bleu_of_counts if metric == "bleu" else chrf_of_counts
    return MetricTerms(np.array(counts, np.float64), value, larger_is_better=True, basis=str(scorer.get_signature()))


def bleu_of_counts(counts: Array) -> Array:
    """BLEU of counts (..., 2 + 2 n): words, words of references, matching n-grams and all n-grams, n = 1 … 4.

    As sacrebleu, each precision without a match counts as 1 / (2ᵏ · n-grams), the k-th time (smoothing `exp`); without
    any match or without n-grams of an order the score is 0.
    """
    words, reference_words, rest = counts[..., 0], counts[..., 1], counts[..., 2:]
    matching, total = np.split(rest, 2, -1)
    halvings = 0.5 ** np.cumsum(matching == 0, -1)
    precisions = divided(np.where(matching > 0, matching, halvings), total)
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.minimum(0.0, 1 - reference_words / words)
        score = 100 * np.exp(penalty + np.log(precisions).mean(-1))
    return np.where((matching.sum(-1) > 0) & (total > 0).all(-1), score, 0.0)


def chrf_of_counts(counts: Array) -> Array:
    """chrF of counts (..., 3 n): for n = 1 … 6 the n-grams of outputs, of references, and those that match."""
    outputs, references, matching = (counts[..., i::3] for i in range(3))
    present = (outputs > 0) & (references > 0)
    orders = np.maximum(present.sum(-1), 1)
    precision, recall = (
        np.where(present, divided(matching, whole), 0.0).sum(-1) / orders for whole in (outputs, references)
    )
    return 100 * np.nan_to_num(divided((1 + BETA**2) * precision * recall, BETA**2 * precision + recall))


BETA = 2.0
"""β of chrF, the importance of recall relative to precision."""


def _streams(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """All first references, all second ones, and so on, with None for missing ones, as sacrebleu takes them."""
    most = max(map(len, references))
    return [[texts[i] if i < len(texts) else None for texts in references] for i in range(most)]


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
