"""Laws of searches: hypotheses have the outputs of the decoder."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from regard import tree
from regard.decoding import Search, rescore, search
from regard.testing.assertion import equally_wide, require, require_close
from regard.testing.decoder_subject import DecoderSubject

MAX_LENGTH = 7
PENALTIES = (("none", 0.6), ("average", 0.6), ("gnmt", 0.6), ("gnmt", 1.0), ("gnmt", 2.0))
VARIETIES: tuple[dict[str, Any], ...] = ({}, {"min_length": 4, "length_penalty": "average"})
"""Options of the searches that are compared: for short outputs, and for long ones, whose hypotheses change places."""
WIDEST = 1000
"""The widest beam; outputs are as long as an exhaustive search in it allows."""


def beam_is_independent_of_the_batch(subject: DecoderSubject) -> None:
    """A beam of 5 over all sentences has the same hypotheses as a beam for each sentence, ties apart."""
    for options in VARIETIES:
        together = _search(subject, subject.prepare(range(len(subject.sources))), 5, **options)
        for sentence, batched in enumerate(together):
            alone = _search(subject, subject.prepare([sentence]), 5, **options)[0]
            numbers = f"{len(batched)} in a batch, {len(alone)} alone"
            require(len(batched) == len(alone), f"sentence {sentence} has {numbers}.")
            for a, b in zip(batched, alone, strict=True):
                ours, theirs = a.tokens.tolist(), b.tokens.tolist()
                same = math.isclose(a.score, b.score, abs_tol=1e-9)
                require(same, f"sentence {sentence}: {ours} scores {a.score} in a batch, {theirs} {b.score} alone.")
                if ours != theirs:
                    continue  # a tie: if only the token before counts, hypotheses of the same pairs have equal scores
                for name, weights in b.alignments.items():
                    real, padded = a.alignments[name].tensor_split([weights.shape[-1]], -1)
                    require_close(real, weights, f"{name} of a beam's hypothesis", 1e-9)
                    require(bool((padded == 0).all()), f"{name} of a beam has weight on padding.")


def hypotheses_equal_teacher_forcing(subject: DecoderSubject) -> None:
    """Log-probabilities and alignments of every returned hypothesis are those of a teacher-forced pass over it."""
    memory = subject.prepare(range(len(subject.sources)))
    for options in VARIETIES:
        searched = _search(subject, memory, 5, **options)
        forced = rescore(subject.decoder, memory, searched, bos=subject.bos)
        for ours, theirs in zip(itertools.chain(*searched), itertools.chain(*forced), strict=True):
            what = f"hypothesis {ours.tokens.tolist()}"
            actual, expected = ours.token_log_probabilities, theirs.token_log_probabilities
            require_close(actual, expected, f"log-probabilities of {what}", 1e-9)
            same = math.isclose(ours.log_probability, math.fsum(expected.tolist()), abs_tol=1e-9)
            require(same, f"the log-probability of {what} is {ours.log_probability}, not the sum of its tokens'.")
            require(ours.alignments.keys() == theirs.alignments.keys(), f"{what} has other alignments than forward.")
            for name, weights in theirs.alignments.items():
                actual, expected = equally_wide(ours.alignments[name], weights)
                require_close(actual, expected, f"{name} of {what}", 1e-9)


def widest_beam_is_exhaustive_search(subject: DecoderSubject) -> None:
    """A beam of width N·(N-1)^(L-1) returns the best of all outputs, with every length penalty."""
    memory = subject.prepare(range(len(subject.sources)))
    width = subject.decoder.forward(subject.inputs(range(len(subject.sources)), 1), memory).log_probabilities.shape[-1]
    length = 1
    while length < 3 and width * (width - 1) ** length <= WIDEST:
        length += 1
    beam = max(2, width * (width - 1) ** (length - 1))
    outputs = [_all_outputs(subject, memory, b, width, length) for b in range(len(subject.sources))]
    for penalty, alpha in PENALTIES:
        searched = _search(subject, memory, beam, num_best=8, length_penalty=penalty, alpha=alpha, max_length=length)
        for ours, every in zip(searched, outputs, strict=True):
            ranked = sorted(every, key=lambda o: (o[0][-1] != subject.eos, -_score(o, penalty, alpha)))[: len(ours)]
            tokens = [list(output[0]) for output in ranked]
            actual = [h.tokens.tolist() for h in ours]
            require(actual == tokens, f"with penalty {penalty} {alpha} the beam gives {actual}, the best are {tokens}.")
            for hypothesis, output in zip(ours, ranked, strict=True):
                expected = _score(output, penalty, alpha)
                require(
                    math.isclose(hypothesis.score, expected, abs_tol=1e-9),
                    f"with penalty {penalty} {alpha} a score is {hypothesis.score} instead of {expected}.",
                )


def beam_of_one_is_greedy(subject: DecoderSubject) -> None:
    """A beam of 1 takes the most probable token at every step, here computed by teacher forcing."""
    searched = _search(subject, subject.prepare(range(len(subject.sources))), 1, num_best=1)
    for sentence, (hypothesis,) in enumerate(searched):
        memory = subject.prepare([sentence])
        tokens = [subject.bos]
        while len(tokens) <= MAX_LENGTH:
            with torch.no_grad():
                output = subject.decoder.forward(torch.tensor([tokens]), memory)
            tokens.append(int(output.log_probabilities[0, -1].argmax()))
            if tokens[-1] == subject.eos:
                break
        actual = hypothesis.tokens.tolist()
        require(actual == tokens[1:], f"greedy search gives {actual}, the most probable tokens are {tokens[1:]}.")


def _search(subject: DecoderSubject, memory: Any, beam: int, **options: Any) -> list[list[Any]]:
    max_length = options.pop("max_length", MAX_LENGTH)
    search_options = Search(**{"beam": beam, "num_best": min(beam, 5), **options})
    return search(
        subject.decoder, memory, search_options, bos=subject.bos, eos=subject.eos, max_length=max_length, alignment=True
    )


def _all_outputs(
    subject: DecoderSubject, memory: Any, sentence: int, width: int, length: int
) -> list[tuple[tuple[int, ...], float]]:
    """Every possible output of a sentence up to a length, with its log-probability."""
    sequences = list(itertools.product(range(width), repeat=length))
    rows = tree.reorder(memory, torch.full((len(sequences),), sentence))
    inputs = torch.tensor([(subject.bos, *sequence[:-1]) for sequence in sequences])
    with torch.no_grad():
        log_probabilities = subject.decoder.forward(inputs, rows).log_probabilities.tolist()
    totals: dict[tuple[int, ...], float] = {}
    for sequence, steps in zip(sequences, log_probabilities, strict=True):
        end = sequence.index(subject.eos) + 1 if subject.eos in sequence else length
        totals[sequence[:end]] = math.fsum(steps[t][sequence[t]] for t in range(end))
    return [(tokens, total) for tokens, total in totals.items() if total > -math.inf]


def _score(output: tuple[tuple[int, ...], float], penalty: str, alpha: float) -> float:
    tokens, total = output
    if penalty == "gnmt":
        return total / ((5 + len(tokens)) / 6) ** alpha
    return total / len(tokens) if penalty == "average" else total
