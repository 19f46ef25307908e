"""Laws of batches: a sentence depends neither on its neighbours nor on its padding."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.testing.assertion import require, require_close
from regard.testing.subject import Subject

LENGTHS = (4, 2, 3)
STEPS = 3


def sentence_alone_is_as_in_a_batch(subject: Subject) -> None:
    """Contexts, alignments and gradients of a sentence do not depend on the batch."""
    for sentence in range(len(LENGTHS)):
        _agree(
            _view(subject, range(len(LENGTHS)), sentence), _view(subject, [sentence], sentence), subject, "in a batch"
        )


def order_of_sentences_changes_nothing(subject: Subject) -> None:
    """A permuted batch gives permuted results."""
    for sentence in range(len(LENGTHS)):
        permuted = _view(subject, [2, 0, 1], sentence)
        _agree(permuted, _view(subject, range(len(LENGTHS)), sentence), subject, "in a permuted batch")


def further_padding_changes_nothing(subject: Subject) -> None:
    """Fifty more columns of padding change nothing."""
    for sentence in range(len(LENGTHS)):
        padded = _view(subject, range(len(LENGTHS)), sentence, padding=50)
        _agree(padded, _view(subject, range(len(LENGTHS)), sentence), subject, "with 50 more columns of padding")


def _view(subject: Subject, batch: Sequence[int], sentence: int, padding: int = 0) -> dict[str, Tensor]:
    """All results of a sentence of a batch, with gradients."""
    row = list(batch).index(sentence)
    sources = subject.sources([LENGTHS[b] for b in batch], sentences=batch, padding=padding).require_grad()
    queries = subject.queries(batch, STEPS).requires_grad_()
    looks = subject.loop(subject.prepare(sources), queries)
    lengths = [LENGTHS[sentence] + index for index in range(len(sources.values))]
    results = {"the context": looks.contexts[row]}
    for index, length in enumerate(lengths):
        results[f"alignment {index}"] = looks.alignments[index][row, ..., :length]
    grad_query, *rest = subject.gradients(subject.probe(looks, row, lengths), queries, *sources.values)
    grad_values, grad_parameters = rest[: len(lengths)], rest[len(lengths) :]
    for name, gradient in (("queries", grad_query), *(("values", g) for g in grad_values)):
        others = [b for b in range(len(batch)) if b != row]
        require(bool((gradient[others] == 0).all()), f"a sentence's results depend on the {name} of another sentence.")
    results["the gradient of the queries"] = grad_query[row]
    for index, (gradient, length) in enumerate(zip(grad_values, lengths)):
        results[f"the gradient of values {index}"] = gradient[row, :length]
    for (name, _), gradient in zip(subject.mechanism.named_parameters(), grad_parameters):
        results[f"the gradient of {name}"] = gradient
    return results


def _agree(actual: dict[str, Tensor], expected: dict[str, Tensor], subject: Subject, where: str) -> None:
    for name, tensor in expected.items():
        require_close(actual[name], tensor, f"{name} of a sentence {where}", subject.tolerance)
