"""The trainee of text to text: a model with its training data, for the training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard import health
from regard.config.search import Search
from regard.config.tasks.text_to_text import TextTrainingConfig
from regard.data import BOS, EOS, Pair, bucket
from regard.data.pairs import shorten
from regard.data.translation import TRANSLATION_METRICS
from regard.decoding import Prediction
from regard.tasks.alignment_losses import aligned_cross_entropy
from regard.tasks.encoded import EncodedTexts
from regard.tasks.feeding import forced_cross_entropy
from regard.tasks.store import save
from regard.tasks.text_to_text.architectures import NEVER
from regard.tasks.text_to_text.copying import Copies
from regard.tasks.text_to_text.evaluation import Evaluation, Scored
from regard.tasks.text_to_text.links import TrainingLinks
from regard.tasks.text_to_text.model import TextToText, output_symbols
from regard.training import Loss, Validation, feedback_mask, processes
from regard.viz import plot_alignment

NUM_MEASURED = 200
"""The number of held-out items whose alignments are measured at each validation."""


class EncodedPairs:
    """The ids of both sides of many pairs, and of what a pointer copies.

    Args:
        pairs: the pairs.
        model: has the fields.
    """

    def __init__(self, pairs: Sequence[Pair], model: TextToText) -> None:
        self.source = EncodedTexts((pair.source for pair in pairs), model.source)
        self.target = EncodedTexts((pair.target for pair in pairs), model.target, is_reversed=model.is_reversed)
        self.copies = None
        if model.extended is not None:
            self.copies = Copies(pairs, model.extended, is_reversed=model.is_reversed)

    @property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(pairs,) symbols of each source and of each target."""
        return self.source.lengths, self.target.lengths

    def pad(self, indices: Any) -> dict[str, Tensor]:
        """Padded ids and masks of some of the pairs."""
        source, source_mask = self.source.pad(indices, end=EOS)
        inputs, _ = self.target.pad(indices, begin=BOS)
        targets, mask = self.target.pad(indices, end=EOS)
        batch = {"source": source, "source_mask": source_mask, "inputs": inputs, "targets": targets, "mask": mask}
        return batch if self.copies is None else {**batch, **self.copies.pad(indices)}


class TextTrainee:
    """A `TextToText` model with the pairs that it is trained on.

    Args:
        model: the model.
        train: training pairs; those with more than `data.max_length` symbols or an empty side are left out.
        dev: held-out pairs.
    """

    def __init__(self, model: TextToText, train: Sequence[Pair], dev: Sequence[Pair]) -> None:
        self.model = model
        self.module = model.module
        self.config = model.config
        self.items = model.items(dev)
        self._pairs = train
        self.train, self.dev = EncodedPairs(train, model), EncodedPairs(dev, model)
        lengths = self.train.lengths
        longest, shortest = np.maximum(*lengths), np.minimum(*lengths)
        self.kept = np.flatnonzero((longest <= self.config.data.max_length) & (shortest > 0))
        self.links: TrainingLinks | None = None
        if (alignments := self.config.data.alignments) is not None:
            fields = (model.source, model.target) if self.config.data.alignment_units == "word" else None
            self.links = TrainingLinks(alignments, train, np.stack(lengths, 1), fields, is_reversed=model.is_reversed)
        self.dev_batches = bucket(
            *(lengths + 1 for lengths in self.dev.lengths),
            batch_tokens=self.config.training.batch_tokens,
            seed=0,
            epoch=0,
            shuffle=False,
        )
        self.smoothing = smoothing_over_all(self.config.training, len(model.target.vocabulary) - len(NEVER))
        self._compiled_loss: Callable[[dict[str, Tensor]], tuple[Tensor, ...]] | None = None
        if self.config.training.compile:
            from regard.tasks.compilation import CompiledLoss, check_compilable

            check_compilable(self.config.training)
            self._compiled_loss = CompiledLoss(
                lambda batch: self._loss(batch, None, self.smoothing), self.module, self._first
            )

    def descriptions(self, epoch: int) -> Sequence[Any]:
        """Batches of indices of pairs of similar length; lengths include the end symbol."""
        batches = bucket(
            *(lengths[self.kept] + 1 for lengths in self.train.lengths),
            batch_tokens=self.config.training.batch_tokens,
            seed=self.config.seed,
            epoch=epoch,
        )
        return [self.kept[batch] for batch in batches]

    def batch(self, description: Any) -> dict[str, Tensor]:
        """Padded ids and masks of some training pairs."""
        batch = self.train.pad(description)
        if self.links is not None:
            rows = np.asarray(description, dtype=np.int64)
            batch["reference"] = self.links.pad(rows, batch["targets"].shape[1], batch["source"].shape[1])
        return batch

    def places(self, description: Any) -> Sequence[str]:
        """File and line of each pair."""
        return [self._pairs[int(index)].place for index in description]

    def divide(self, description: Any, count: int) -> Sequence[Any]:
        """Every `count`-th row: rows of a batch have similar lengths, and neighbours the most similar."""
        return [description[number::count] for number in range(min(count, len(description)))]

    def item_ids(self, description: Any) -> Tensor:
        """The indices of the training pairs."""
        return torch.from_numpy(np.asarray(description, dtype=np.int64))

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """Smoothed cross-entropy of the targets; the configuration decides where the decoder gets its own output."""
        if self._compiled_loss is not None:
            total, likelihood, count = self._compiled_loss(batch)
        else:
            rows, steps = batch["targets"].shape
            feedback = feedback_mask(self.config.training, rows, steps, step=step, generator=generator)
            if self.config.training.trains_alignments:
                return self._aligned_loss(batch, feedback)
            total, likelihood, count = self._loss(batch, feedback, self.smoothing)
        return Loss(total, count, {"negative_log_likelihood": likelihood})

    @torch.no_grad()
    def validate(self) -> Validation:
        """Metrics of free-running outputs and the teacher-forced loss on held-out pairs, with samples and pictures."""
        training = self.config.training
        evaluation = self._evaluate()
        metrics = dict(evaluation.metrics)
        del metrics["items"]
        metrics["teacher_forced_loss"] = self._forced_loss()
        shown = evaluation.scored[: training.samples]
        greedy = self._search(beam=1)
        predictions = self.model.predict([item.source for item in self.items[:NUM_MEASURED]], search=greedy)
        metrics.update(alignment_figures(predictions))
        pictures = [
            (f"{number:02d}.png", partial(plot_alignment, prediction))
            for number, prediction in enumerate(predictions[: training.samples])
            if prediction.alignment is not None and prediction.alignment.numel()
        ]
        samples = [sample_line(entry) for entry in shown]
        return Validation(metrics, samples, pictures, concern(evaluation.scored), highest_focus(predictions))

    def _search(self, beam: int) -> Search:
        """The configuration's search with another beam, for one output; without groups, stop criteria and
        constraints, which need theirs, and without other models."""
        alone = {"num_best": 1, "num_groups": 1, "stop": "optimal", "prefix": "", "include": (), "exclude": ()}
        alone |= {"ensemble": (), "ensemble_weights": None, "ensemble_alignment": None, "reranker": None}
        return self.config.decoding.replace(method="beam", beam=beam, **alone)

    def _evaluate(self) -> Evaluation:
        """Free-running outputs of the held-out items, each decoded by one of the processes."""
        search = self._search(beam=self.config.decoding.validation_beam)
        sources = [item.source for item in processes.local_part(self.items)]
        predictions = self.model.predict(sources, search=search, alignment=False)
        metrics = [name for name in TRANSLATION_METRICS if name == self.config.select]
        return self.model.evaluation(self.items, processes.merged(processes.gathered(predictions)), metrics=metrics)

    def _forced_loss(self) -> float:
        """Nats per symbol of the held-out references, each batch computed by one of the processes."""
        batches = [self._on_device(self.dev.pad(batch)) for batch in processes.local_part(self.dev_batches)]
        losses = [self._loss(batch, None, 0.0) for batch in batches]
        sums = processes.merged(processes.gathered([(float(loss[1]), int(loss[2])) for loss in losses]))
        return sum(loss for loss, _ in sums) / max(sum(count for _, count in sums), 1)

    @property
    def examples(self) -> Iterator[str]:
        """The inputs of the held-out pairs."""
        return (item.source for item in self.items)

    def save(self, folder: Path) -> None:
        """Saves everything that prediction needs."""
        save(self.model, folder)

    def _first(self) -> dict[str, Tensor]:
        """The first batch of the first epoch with more than one row, or one row twice if there is none."""
        batches = [batch for batch in self.descriptions(0) if len(batch) > 1]
        return self._on_device(self.train.pad(batches[0] if batches else self.kept[[0, 0]]))

    def _on_device(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(self.model.device) for name, tensor in batch.items()}

    def _memory(self, batch: dict[str, Tensor]) -> Any:
        """What the decoder reads of the sources."""
        copied = {name: batch[name] for name in ("source_ids", "extension") if name in batch}
        return self.module.prepare(batch["source"], batch["source_mask"], **copied)

    def _loss(
        self, batch: dict[str, Tensor], feedback: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        memory = self._memory(batch)
        total, likelihood = forced_cross_entropy(
            self.module.decoder, memory, batch["inputs"], batch["targets"], batch["mask"], feedback, smoothing=smoothing
        )
        return total, likelihood, batch["mask"].sum()

    def _aligned_loss(self, batch: dict[str, Tensor], feedback: Tensor | None) -> Loss:
        """The loss with the terms of the alignments."""
        training, source_mask, mask = self.config.training, batch["source_mask"], batch["mask"]
        memory = self._memory(batch)
        total, likelihood, figures = aligned_cross_entropy(
            training,
            self.module.decoder,
            memory,
            batch["inputs"],
            batch["targets"],
            mask,
            feedback,
            source_mask=source_mask,
            reference=batch.get("reference"),
            layer=training.alignment_losses.supervision_layer,
            head=training.alignment_losses.supervision_head,
            smoothing=self.smoothing,
        )
        return Loss(total, mask.sum(), {"negative_log_likelihood": likelihood, **figures})


def smoothing_over_all(training: TextTrainingConfig, num_symbols: int) -> float:
    """The share that is distributed over all symbols, the right one among them, so that each other one gets its own.

    With N symbols, a share ε of all but the right one is one of ε N / (N - 1) of all.

    Args:
        num_symbols: N, those that may be said.
    """
    if not training.label_smoothing_others:
        return training.label_smoothing
    return min(training.label_smoothing * num_symbols / max(num_symbols - 1, 1), 1.0)


def alignment_figures(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Mean focus rate, monotonicity and relative coverage of alignments; empty for a model without attention.

    Relative coverage is soft coverage as a share of what T steps can cover, min(1, T/S): 1 if no two steps attend to
    the same position, near 0 if all attend to one.
    """
    alignments = [a for prediction in predictions if (a := prediction.alignment) is not None and a.numel()]
    if not alignments:
        return {}
    measures: dict[str, Callable[[Tensor], float]] = {
        "focus_rate": health.focus_rate,
        "monotonicity": health.monotonicity,
        "relative_coverage": _relative_coverage,
    }
    return {name: float(np.mean([measure(a) for a in alignments])) for name, measure in measures.items()}


def highest_focus(predictions: Sequence[Prediction]) -> float | None:
    """The mean focus rate of the head, of any layer, in which it is highest; None if all attention has one head."""
    rates: dict[tuple[str, int], list[float]] = {}
    for prediction in predictions:
        for name, heads in prediction.alignments.items():
            if heads.numel():
                for head, rate in enumerate(health.focus_rate(heads)):
                    rates.setdefault((name, head), []).append(float(rate))
    return max(float(np.mean(each)) for each in rates.values()) if len(rates) > 1 else None


def _relative_coverage(alignment: torch.Tensor) -> float:
    steps, positions = alignment.shape
    return float(health.soft_coverage(alignment)) / min(1, steps / positions)


def concern(scored: Sequence[Scored]) -> str | None:
    """A sentence, if the outputs of several inputs are all empty or all equal and should not be; else None."""
    outputs = {tuple(output_symbols(entry.prediction)) for entry in scored}
    if len(scored) < 2 or len(outputs) > 1:
        return None
    if not any(outputs):
        return f"The output of the saved model is empty for all {len(scored):,} held-out inputs."
    if all(entry.is_right for entry in scored):
        return None
    text = shorten(scored[0].prediction.text)
    return f"The output of the saved model is the same for all {len(scored):,} held-out inputs: {text}."


def sample_line(entry: Scored) -> str:
    """One line about an item: input, output, and the reference if the output is wrong."""
    reference = "" if entry.is_right else f"   (expected {entry.item.references[0]})"
    return f"{entry.item.source} → {entry.prediction.text}{reference}"
