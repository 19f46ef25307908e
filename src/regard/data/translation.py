"""BLEU and chrF of whole files, by sacrebleu (extra `regard[text]`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

from regard.errors import ConfigError, RegardError, UnsupportedError

Metric = Literal["bleu", "chrf"]
TRANSLATION_METRICS: tuple[Metric, ...] = get_args(Metric)
"""Figures of a whole file of texts, from 0 to 100; larger is better."""


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """A figure of a whole file.

    Args:
        value: from 0 to 100.
        signature: sacrebleu's, which says how it was computed; figures with other signatures cannot be compared.
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
    https://aclanthology.org/W15-3049) of outputs, as sacrebleu (Post 2018, https://aclanthology.org/W18-6319) has them.

    Args:
        metric: bleu or chrf.
        outputs: texts, as they are read.
        references: of each output one or more; their numbers may differ.
        tokenize: how BLEU cuts texts into words, sacrebleu's `13a` where None; `none` for files that have been cut.
        lowercase: letter case does not count.

    Raises:
        ConfigError: for an unknown metric or tokenizer.
        UnsupportedError: sacrebleu, or what the tokenizer needs, is not installed.

    >>> round(corpus_score("bleu", ["the cat sat on the mat"], [["the cat sat on the mat"]]).value, 6)
    100.0
    """
    if len(outputs) != len(references) or not outputs or not all(references):
        raise RegardError(
            f"A figure needs as many outputs as items, at least one, and a reference of each; got {len(outputs)} "
            f"outputs, {len(references)} items, {sum(not given for given in references)} of them without a reference."
        )
    scorer = scorer_of(metric, tokenize=tokenize, lowercase=lowercase)
    most = max(map(len, references))
    # sacrebleu takes one list for the first reference of every output, one for the second, and so on; None: no such.
    streams = [[given[i] if i < len(given) else None for given in references] for i in range(most)]
    result = scorer.corpus_score(list(outputs), streams)
    return CorpusScore(float(result.score), str(scorer.get_signature()))


def scorer_of(metric: Metric, *, tokenize: str | None = None, lowercase: bool = False) -> Any:
    """sacrebleu's object that computes the metric; arguments and errors as in `corpus_score`."""
    if metric not in TRANSLATION_METRICS:
        raise ConfigError(f"There is no metric {metric!r}; there are {', '.join(TRANSLATION_METRICS)}.", ("select",))
    metrics = _library()
    options: dict[str, Any] = {"lowercase": lowercase}
    if metric == "bleu":
        options["force"] = True  # no advice about tokenised texts in the midst of a training
    if tokenize is not None and metric == "bleu":
        known = sorted(metrics.BLEU.TOKENIZERS)
        if tokenize not in known:
            raise ConfigError(f"sacrebleu has no tokenizer {tokenize!r}; it has {', '.join(known)}.")
        options["tokenize"] = tokenize
    try:
        return {"bleu": metrics.BLEU, "chrf": metrics.CHRF}[metric](**options)
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"sacrebleu's tokenizer {tokenize} cannot be used: {error}") from None


def _library() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise UnsupportedError("BLEU and chrF need the sacrebleu package: pip install 'regard[text]'.") from None
    return metrics
