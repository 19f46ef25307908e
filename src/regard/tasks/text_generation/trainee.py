"""The training of models that write texts, whatever their inputs are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard import metrics
from regard.config.search import Search
from regard.config.texts import WriterTrainingConfig
from regard.data.pairs import shorten
from regard.decoding import Prediction
from regard.metrics.translation import TRANSLATION_METRICS
from regard.runs.trainee import AbstractArrayTrainee, numbered_pictures
from regard.tasks.compilation import CompiledLoss
from regard.tasks.decoder_losses import Teaching, aligned_cross_entropy, forced_cross_entropy
from regard.tasks.text_generation.decoders import NEVER
from regard.tasks.text_generation.directions import reversed_targets
from regard.tasks.text_generation.evaluation import Evaluation, Scored, WrittenItem
from regard.tasks.text_generation.model import AbstractWriter, output_symbols
from regard.training import Loss, Validation, feedback_mask, processes

NUM_MEASURED = 200
"""The number of held-out items whose alignments are measured at each validation."""


MOST_CALIBRATED = 1000
"""The most held-out items, evenly chosen, to which the temperature of confidences is fitted."""


class AbstractWriterTrainee(AbstractArrayTrainee):
    """A model that writes texts, with what it is trained on.

    A task defines the batches and their encoding; loss, validation and samples are those of this class. A batch has
    `inputs`, `targets` (B, T) and their `mask`, the encoder's inputs, and `reference` (B, T, S) if alignments are
    supervised.
    """

    axes: ClassVar[Mapping[str, str]] = {"inputs": "BT", "targets": "BT", "mask": "BT", "reference": "BTS"}

    def __init__(self, model: AbstractWriter[Any, Any], items: Sequence[WrittenItem]) -> None:
        self.model = model
        self.items = items
        self.smoothing = smoothing_over_all(self._training, len(model.target.vocabulary) - len(NEVER))
        self._compiled_loss = CompiledLoss.of(
            self._training,
            lambda batch: self._loss(batch, None, self.smoothing),
            self.module,
            self.first,
        )

    @abstractmethod
    def places(self, description: Any) -> Sequence[str]:
        """File and line of each item."""

    @abstractmethod
    def held_out(self) -> Sequence[Callable[[], dict[str, Tensor]]]:
        """For each batch of held-out items the function that makes it, without references of alignments."""

    @abstractmethod
    def memory(self, batch: dict[str, Tensor]) -> tuple[Any, Tensor | None]:
        """The decoder's memory of a batch, and the mask (B, S) of its positions."""

    def teaching(self, batch: dict[str, Tensor]) -> Teaching | None:
        """What teachers say about the targets of a batch; None without teachers."""
        return None

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """Smoothed cross-entropy of the targets, teacher-forced or fed the decoder's own outputs as configured."""
        if self._compiled_loss is not None:
            total, likelihood, count = self._compiled_loss(batch)
        else:
            rows, steps = batch["targets"].shape
            feedback = feedback_mask(self._training, rows, steps, step=step, generator=generator)
            if self._training.trains_alignments:
                return self._aligned_loss(batch, feedback)
            total, likelihood, count = self._loss(batch, feedback, self.smoothing)
        return Loss(total, count, {"negative_log_likelihood": likelihood})

    def alignment_metrics(self, predictions: Sequence[Prediction]) -> tuple[Mapping[str, float], float | None]:
        """Figures of the alignments of predictions, and `Validation.focus`."""
        return alignment_figures(predictions), highest_focus(predictions)

    @torch.no_grad()
    def validate(self) -> Validation:
        """Metrics of free-running outputs and the teacher-forced loss on held-out items, with samples and pictures."""
        shown = self._training.samples
        evaluation = self._evaluate()
        metrics = dict(evaluation.metrics)
        del metrics["items"]
        metrics["teacher_forced_loss"] = self._forced_loss()
        greedy = self._search(beam=1)
        predictions = self.model.predict([item.source for item in self.items[:NUM_MEASURED]], search=greedy)
        figures, focus = self.alignment_metrics(predictions)
        metrics.update(figures)
        pictures = numbered_pictures(
            partial(self._draw, prediction, item.references) if _has_weights(prediction) else None
            for prediction, item in zip(predictions[:shown], self.items)
        )
        samples = [sample_line(entry) for entry in evaluation.scored[:shown]]
        return Validation(metrics, samples, pictures, concern(evaluation.scored), focus)

    @property
    def _training(self) -> WriterTrainingConfig:
        training: WriterTrainingConfig = self.config.training
        return training

    def _draw(self, prediction: Prediction, references: Sequence[str], path: Path) -> None:
        reference = "the reference" if prediction.text in references else f"reference: {references[0]}"
        self.model.plot([prediction], path, title=f"{prediction.text} ({reference})")

    def _search(self, beam: int) -> Search:
        """The configuration's search with another beam, for one output of this model in one direction.

        Groups, stop criteria and constraints, which need beams of their own, are left out.
        """
        plain = {"num_best": 1, "num_groups": 1, "stop": "optimal", "prefix": "", "include": (), "exclude": ()}
        plain |= {"ensemble": (), "ensemble_weights": None, "ensemble_alignment": None, "reranker": None}
        search: Search = self.config.decoding.replace(method="beam", beam=beam, joint=False, **plain)
        return search

    def _evaluate(self) -> Evaluation:
        """Free-running outputs of the held-out items, each decoded by one of the processes."""
        search = self._search(beam=self.config.decoding.validation_beam)
        sources = [item.source for item in processes.local_part(self.items)]
        predictions = self.model.predict(sources, search=search, alignment=False)
        metrics = [name for name in TRANSLATION_METRICS if name == self.config.select]
        return self.model.evaluation(self.items, processes.merged(processes.gathered(predictions)), metrics=metrics)

    def calibration_items(self) -> Evaluation:
        """The outputs of at most `MOST_CALIBRATED` held-out items by the beam of predictions."""
        items = self.items[:: -(-len(self.items) // MOST_CALIBRATED)]
        search = self._search(beam=self.config.decoding.beam)
        sources = [item.source for item in processes.local_part(items)]
        predictions = self.model.predict(sources, search=search, alignment=False)
        return self.model.evaluation(items, processes.merged(processes.gathered(predictions)))

    def _forced_loss(self) -> float:
        """Nats per symbol of the held-out references, each batch computed by one of the processes."""
        batches = (self.on_device(make()) for make in processes.local_part(self.held_out()))
        losses = [self._loss(batch, None, 0.0) for batch in batches]
        sums = processes.merged(processes.gathered([(float(loss[1]), int(loss[2])) for loss in losses]))
        return sum(loss for loss, _ in sums) / max(sum(count for _, count in sums), 1)

    def _loss(
        self, batch: dict[str, Tensor], feedback: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        memory, _ = self.memory(batch)
        total, likelihood = forced_cross_entropy(
            self.module.decoder,
            memory,
            batch["inputs"],
            batch["targets"],
            batch["mask"],
            feedback,
            smoothing=smoothing,
            teaching=self.teaching(batch),
        )
        count = batch["mask"].sum()
        if self.model.trained_direction != "both":
            return total, likelihood, count
        # a second pass over the same memory, with new draws of dropout (`layers.items`)
        inputs, targets = reversed_targets(batch["targets"], batch["mask"])
        further, other = forced_cross_entropy(
            self.module.decoder, memory, inputs, targets, batch["mask"], feedback, smoothing=smoothing
        )
        return total + further, likelihood + other, 2 * count

    def _aligned_loss(self, batch: dict[str, Tensor], feedback: Tensor | None) -> Loss:
        """The loss with the terms of the alignments."""
        training, mask = self._training, batch["mask"]
        memory, source_mask = self.memory(batch)
        losses = training.alignment_losses
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
            layer=getattr(losses, "supervision_layer", None),
            head=getattr(losses, "supervision_head", None),
            smoothing=self.smoothing,
            teaching=self.teaching(batch),
        )
        return Loss(total, mask.sum(), {"negative_log_likelihood": likelihood, **figures})


def smoothing_over_all(training: WriterTrainingConfig, num_symbols: int) -> float:
    """The share of label smoothing that is distributed over all symbols, the right one among them.

    With N symbols, a share ε over all but the right one equals one of ε N / (N - 1) over all.

    Args:
        num_symbols: N, of possible outputs.
    """
    if not training.label_smoothing_others:
        return training.label_smoothing
    return min(training.label_smoothing * num_symbols / max(num_symbols - 1, 1), 1.0)


def alignment_figures(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Mean focus rate, monotonicity and relative coverage of alignments; empty for a model without attention.

    Relative coverage is soft coverage as a share of the most that T steps can cover, min(1, T/S): 1 if no two steps
    attend to the same position, near 0 if all attend to one.
    """
    alignments: list[Tensor] = [prediction.alignment for prediction in predictions if _has_weights(prediction)]
    if not alignments:
        return {}
    measures: dict[str, Callable[[Tensor], float]] = {
        "focus_rate": metrics.focus_rate,
        "monotonicity": metrics.monotonicity,
        "relative_coverage": _relative_coverage,
    }
    return {name: float(np.mean([measure(a) for a in alignments])) for name, measure in measures.items()}


def highest_focus(predictions: Sequence[Prediction]) -> float | None:
    """The mean focus rate of the head, of any layer, in which it is highest; None if all attention has one head."""
    rates: dict[tuple[str, int], list[float]] = {}
    for prediction in predictions:
        for name, heads in prediction.alignments.items():
            if heads.numel():
                for head, rate in enumerate(metrics.focus_rate(heads)):
                    rates.setdefault((name, head), []).append(float(rate))
    return max(float(np.mean(each)) for each in rates.values()) if len(rates) > 1 else None


def _has_weights(prediction: Prediction) -> bool:
    return prediction.alignment is not None and prediction.alignment.numel() > 0


def _relative_coverage(alignment: torch.Tensor) -> float:
    steps, positions = alignment.shape
    return float(metrics.soft_coverage(alignment)) / min(1, steps / positions)


def concern(scored: Sequence[Scored]) -> str | None:
    """A warning if the outputs of several inputs are all empty, or all equal although not all are right; else None."""
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
