"""Random searches that are not refused: settings, decoders, lengths, constraints; and what every result must keep."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.decoding import (
    Constraints,
    Hypothesis,
    Search,
    SearchSource,
    rerank,
    rescore,
    reverse,
    search,
    stream,
)
from regard.errors import ConfigError, UnsupportedError
from regard.testing.assertion import equally_wide, require, require_close
from regard.testing.decoder_subject import DecoderSubject
from regard.testing.mechanism import move_weights
from regard.testing.source import encode
from support.cases import DECODERS

BOS, EOS, UNK = 0, 1, 2
TOLERANCE = 1e-5
CASES = {case.name: case for case in DECODERS if case.num_tokens is not None}
"""Decoders of tokens."""
CHANCE = 0.25
"""With this probability a key of a search is given; twice it, if it is read only beside another one that is given."""
VALUES: Mapping[str, Sequence[Any]] = {
    "method": ("beam", "beam", "sampling", "mbr"),
    "beam": (1, 2, 3, 4, 6, 9),
    "num_best": (1, 2, 3, 5, 20),
    "length_penalty": ("none", "average", "gnmt", "power"),
    "length_counts_begin": (True,),
    "alpha": (0.0, 0.6, 1.0, 2.0),
    "coverage_penalty": ("gnmt", "summary", "tfa"),
    "beta": (0.0, 0.5, 3.0),
    "num_groups": (2, 3),
    "diversity": (0.0, 0.3, 2.0),
    "stop": ("first", "patience", "top", "full"),
    "patience": (0.5, 1.0, 2.0),
    "keep_finished": (True,),
    "min_length": (1, 2, 5),
    "eos_threshold": (0.8, 1.5),
    "attention_stop": (1, 2, 3),
    "no_repeat_ngram_size": (1, 2, 3),
    "repetition_penalty": (1.2, 3.0),
    "unknown_penalty": (0.5, 1000.0),
    "num_samples": (1, 7, 40),
    "utility": ("bleu", "exact_match", "edit_distance"),
    "temperature": (1e-9, 0.5, 2.0, 1e9),
    "top_k": (1, 2, 100),
    "top_p": (1e-9, 0.5, 0.99),
    "min_p": (0.01, 0.4, 1.0),
    "typical_p": (1e-9, 0.5, 0.99),
    "seed": (0, 5),
}
"""By key of `Search`, the values that are drawn beside the default."""


BESIDE: Mapping[str, str] = {"beta": "coverage_penalty", "diversity": "num_groups", "patience": "stop"}
"""Keys that are read only beside another one."""


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """A search that is not refused.

    Args:
        number: from which it was drawn.
        case: the decoder, by its name on THE LIST.
        options: given settings.
        max_length: of each of the two sentences.
        constraints: of each sentence.
        weight: of a second model that reranks, or None.
        num_refused: how many drawn settings were refused before these.
    """

    number: int
    case: str
    options: Mapping[str, Any]
    max_length: tuple[int, int]
    constraints: tuple[Constraints | None, Constraints | None]
    weight: float | None
    num_refused: int


def draw_trial(number: int) -> SearchTrial:
    """The trial of a number, always the same one."""
    draw = random.Random(number)
    case = draw.choice(sorted(CASES))
    for refused in itertools.count():
        options = {"method": draw.choice(VALUES["method"])}
        for name in sorted(set(VALUES) - {"method"}, key=lambda name: (name in BESIDE, name)):
            chance = 2 * CHANCE * (BESIDE[name] in options) if name in BESIDE else CHANCE
            if draw.random() < chance:
                options[name] = draw.choice(VALUES[name])
        if "num_groups" in options:
            options["beam"] = options["num_groups"] * draw.choice((1, 2, 3))
        if options["method"] != "beam":
            options.setdefault("seed", number)
        try:
            settings = Search(**options)
        except ConfigError:
            continue
        limits = draw.randint(1, 7), draw.randint(1, 7)
        constraints = tuple(_constraints(draw, settings, limit) for limit in limits)
        weight = draw.choice((None, 0.0, 0.4, 1.0)) if settings.method != "mbr" and settings.width > 1 else None
        return SearchTrial(number, case, options, limits, constraints, weight, refused)  # type: ignore[arg-type]
    raise AssertionError


def _constraints(draw: random.Random, settings: Search, limit: int) -> Constraints | None:
    if draw.random() < 0.7 or limit < 5:
        return None
    phrase = [draw.choice((2, 3)) for _ in range(draw.randint(1, 2))]
    has_beam = settings.method == "beam" and settings.beam > 1 and not settings.keep_finished
    kinds = ["prefix", "exclude", *(["include"] if has_beam else [])]
    kind = draw.choice(kinds)
    if kind == "prefix":
        return Constraints(prefix=phrase)
    return Constraints(include=[phrase]) if kind == "include" else Constraints(exclude=[phrase])


def run_trial(trial: SearchTrial) -> bool:
    """Searches, and checks what every result must keep.

    Results have at most as many hypotheses as asked for, distinct ones but for samples, in order. Their
    log-probabilities and alignments are those of a teacher-forced pass. A sentence alone has the results that it has in
    the batch, but for the order of equal scores, and its stream is its first hypothesis. A second model changes the
    order only.

    Returns:
        False if the decoder does not have the attention that the settings read.

    Raises:
        AssertionError: for a result that breaks this.
    """
    case = CASES[trial.case]
    decoder = copy.deepcopy(case.make()).eval()
    move_weights(decoder)
    sources = case.sources()
    subject = DecoderSubject(decoder, tuple(sources), encode, case.num_tokens, None, BOS, EOS)
    options = Search(**trial.options)
    reads_weights = options.coverage_penalty != "none" or options.attention_stop is not None
    try:
        together = _found(subject, trial, options, [0, 1])
    except UnsupportedError:
        require(reads_weights, f"trial {trial.number}: refused though no attention is read.")
        return False
    forced = rescore(decoder, subject.prepare([0, 1]), together, bos=BOS)
    for b, (found, again) in enumerate(zip(together, forced, strict=True)):
        what = f"trial {trial.number}, sentence {b}"
        _check(found, again, options, trial, what)
        alone = _found(subject, trial, options, [b])[0]
        ours, theirs = ([h.tokens.tolist() for h in each] for each in (found, alone))
        differ = f"{what}: {ours} in a batch and {theirs} alone."
        require(len(ours) == len(theirs), differ)
        for left, right, a, c in zip(ours, theirs, found, alone, strict=True):
            # outputs of equal probability, as of a model that looks back one step, are in the order of their rounding
            require(left == right or math.isclose(a.score, c.score, abs_tol=1e-12), differ)
            require(math.isclose(a.score, c.score, abs_tol=1e-7), f"{what}: scores {a.score} and {c.score}.")
    _check_stream(subject, trial, options, together)
    if trial.weight is not None:
        second = rescore(decoder, subject.prepare([1, 0] if trial.number % 2 else [0, 1]), reverse(together), bos=BOS)
        for before, after in zip(together, rerank(together, second, weight=trial.weight), strict=True):
            ranks = [(h.stop_reason != "eos", -h.score) for h in after]
            require(ranks == sorted(ranks), f"trial {trial.number}: reranked hypotheses are not in order.")
            same = sorted(h.tokens.tolist() for h in before) == sorted(h.tokens.tolist() for h in after)
            require(same, f"trial {trial.number}: reranking changed the hypotheses.")
    return True


def _arguments(subject: DecoderSubject, trial: SearchTrial, sentences: Sequence[int]) -> dict[str, Any]:
    memory = subject.prepare(sentences)
    mask: Any = encode([subject.sources[b] for b in sentences]).mask
    mask = mask[-1] if isinstance(mask, tuple) else mask  # that of the last attention, which is the main one
    return {
        "decoder": subject.decoder,
        "memory": memory,
        "bos": BOS,
        "eos": EOS,
        "unk": UNK,
        "max_length": torch.tensor([trial.max_length[b] for b in sentences]),
        "alignment": True,
        "items": torch.tensor(sentences),
        "source": SearchSource(mask=mask),
        "constraints": [trial.constraints[b] for b in sentences],
    }


def _found(
    subject: DecoderSubject, trial: SearchTrial, options: Search, sentences: Sequence[int]
) -> list[list[Hypothesis]]:
    return search(options=options, **_arguments(subject, trial, sentences))


def _check(
    found: Sequence[Hypothesis], forced: Sequence[Hypothesis], options: Search, trial: SearchTrial, what: str
) -> None:
    count = len(found)
    least = options.num_best if options.method == "sampling" else 1
    require(least <= count <= options.num_best, f"{what}: {count} hypotheses, num_best is {options.num_best}.")
    tokens = [tuple(h.tokens.tolist()) for h in found]
    require(options.method == "sampling" or len(set(tokens)) == count, f"{what}: equal hypotheses {tokens}.")
    ranks = [
        (options.method == "beam" and not options.keep_finished and h.stop_reason != "eos", -h.score) for h in found
    ]
    require(ranks == sorted(ranks), f"{what}: hypotheses are not in order: {ranks}.")
    for h, again in zip(found, forced, strict=True):
        ended = h.stop_reason == "eos"
        tokens_of = h.tokens.tolist()
        right = tokens_of.count(EOS) == ended and (not ended or tokens_of[-1] == EOS)
        require(right, f"{what}: {h.tokens.tolist()} stops by {h.stop_reason}.")
        same = math.isclose(h.log_probability, again.log_probability, abs_tol=TOLERANCE)
        require(same, f"{what}: log-probability {h.log_probability}, teacher-forced {again.log_probability}.")
        for name, weights in again.alignments.items():
            actual, expected = equally_wide(h.alignments[name], weights)
            require_close(actual, expected, f"{what}: {name} of {h.tokens.tolist()}", TOLERANCE)


def _check_stream(
    subject: DecoderSubject, trial: SearchTrial, options: Search, together: Sequence[Sequence[Hypothesis]]
) -> None:
    said: dict[int, list[int]] = {}
    try:
        increments = stream(options=options, **_arguments(subject, trial, [0, 1]))
    except ConfigError:
        has_one = options.method != "mbr" and options.num_best == 1 and options.num_groups == 1
        require(not has_one, f"trial {trial.number}: a search for one output is not streamed.")
        return
    for increment in increments:
        said.setdefault(increment.sentence, []).extend(increment.tokens.tolist())
    for b, found in enumerate(together):
        expected = found[0].tokens.tolist()
        require(said.get(b) == expected, f"trial {trial.number}: streamed {said.get(b)}, found {expected}.")
