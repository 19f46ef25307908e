"""Laws of batches: a sentence is independent of other sentences and of padding."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.testing.assertion import require, require_close
from regard.testing.subject import Subject

LENGTHS = (4, 2, 3)
STEPS = 3
ALL = range(len(LENGTHS))


def sentence_is_independent_of_its_batch(subject: Subject) -> None:
    """Contexts, alignments and gradients of a sentence do not depend on the batch."""
    for sentence, view in _views(subject, ALL).items():
        _agree(view, _views(subject, [sentence])[sentence], subject, "in a batch")


def order_of_sentences_changes_nothing(subject: Subject) -> None:
    """A permuted batch gives permuted results."""
    permuted = _views(subject, [2, 0, 1])
    for sentence, view in _views(subject, ALL).items():
        _agree(permuted[sentence], view, subject, "in a permuted batch")


def further_padding_changes_nothing(subject: Subject) -> None:
    """Fifty more columns of padding change nothing."""
    padded = _views(subject, ALL, padding=50)
    for sentence, view in _views(subject, ALL).items():
        _agree(padded[sentence], view, subject, "with 50 more columns of padding")


def _views(subject: Subject, batch: Sequence[int], padding: int = 0) -> dict[int, dict[str, Tensor]]:
    """All results of each sentence of a batch, with gradients."""
    sources = subject.sources([LENGTHS[b] for b in batch], sentences=batch, padding=padding).require_grad()
    queries = subject.queries(batch, STEPS).requires_grad_()
    outputs = subject.loop(subject.prepare(sources), queries)
    views = {}
    for row, sentence in enumerate(batch):
        lengths = [LENGTHS[sentence] + index for index in range(len(sources.values))]
        results = {"the context": outputs.contexts[row]}
        for index, length in enumerate(lengths):
            results[f"alignment {index}"] = outputs.alignments[index][row, ..., :length]
        grad_query, *rest = subject.gradients(subject.probe(outputs, row, lengths), queries, *sources.values)
        grad_values, grad_parameters = rest[: len(lengths)], rest[len(lengths) :]
        for name, gradient in (("queries", grad_query), *(("values", g) for g in grad_values)):
            others = [b for b in range(len(batch)) if b != row]
            require(
                bool((gradient[others] == 0).all()), f"a sentence's results depend on the {name} of another sentence."
            )
        results["the gradient of the queries"] = grad_query[row]
        for index, (gradient, length) in enumerate(zip(grad_values, lengths)):
            results[f"the gradient of values {index}"] = gradient[row, :length]
        for (name, _), gradient in zip(subject.mechanism.named_parameters(), grad_parameters):
            results[f"the gradient of {name}"] = gradient
        views[sentence] = results
    return views


def _agree(actual: dict[str, Tensor], expected: dict[str, Tensor], subject: Subject, where: str) -> None:
    for name, tensor in expected.items():
        require_close(actual[name], tensor, f"{name} of a sentence {where}", subject.tolerance)
