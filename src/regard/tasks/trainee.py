"""What the training loop needs of a text-to-text model and its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import health
from regard.data import BOS, EOS, Pairs, plan
from regard.decoding import Prediction
from regard.tasks.encoded import EncodedTexts
from regard.tasks.evaluation import Scored
from regard.tasks.feeding import forced_cross_entropy
from regard.tasks.store import save
from regard.tasks.text_to_text import TextToText
from regard.training import Loss, Validation, feedback_mask
from regard.viz import plot_alignment

Sides = tuple[EncodedTexts, EncodedTexts]
"""Sources and targets."""
MEASURED = 200
"""Held-out items whose alignments are measured at each validation."""


class TextTrainee:
    """Pairs of texts, taught to a `TextToText` model.

    Args:
        model: the model.
        train: training pairs; those longer than `data.max_length` symbols, or with an empty side, are left out.
        dev: held-out pairs.
    """

    def __init__(self, model: TextToText, train: Pairs, dev: Pairs) -> None:
        self.model = model
        self.module = model.module
        self.config = model.config
        self.items = model.items(dev)
        self.train, self.dev = self._encode(train), self._encode(dev)
        lengths = [side.lengths for side in self.train]
        longest, shortest = np.maximum(*lengths), np.minimum(*lengths)
        self.kept = np.flatnonzero((longest <= self.config.data.max_length) & (shortest > 0))
        self.dev_batches = plan(
            *(side.lengths + 1 for side in self.dev),
            batch_tokens=self.config.training.batch_tokens,
            seed=0,
            epoch=0,
            shuffle=False,
        )
        smoothing = self.config.training.label_smoothing
        self._taught: Callable[[dict[str, Tensor]], tuple[Tensor, ...]] | None = None
        if self.config.training.compile:
            from regard.tasks.compilation import CompiledLoss, check_compilable

            check_compilable(self.config.training)
            self._taught = CompiledLoss(lambda batch: self._loss(batch, None, smoothing), self.module, self._first)

    def plan(self, epoch: int) -> Sequence[Any]:
        """Batches of indices of similar length; the end symbol counts."""
        batches = plan(
            *(side.lengths[self.kept] + 1 for side in self.train),
            batch_tokens=self.config.training.batch_tokens,
            seed=self.config.seed,
            epoch=epoch,
        )
        return [self.kept[batch] for batch in batches]

    def batch(self, description: Any) -> dict[str, Tensor]:
        """Padded ids and masks of some training pairs."""
        return self._batch(self.train, description)

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """Smoothed cross-entropy of the targets; the reference or the own output is fed as the configuration says."""
        if self._taught is not None:
            total, likelihood, count = self._taught(batch)
        else:
            rows, steps = batch["targets"].shape
            own = feedback_mask(self.config.training, rows, steps, step=step, generator=generator)
            total, likelihood, count = self._loss(batch, own, self.config.training.label_smoothing)
        return Loss(total, count, {"negative_log_likelihood": likelihood})

    @torch.no_grad()
    def validate(self) -> Validation:
        """Free-running outputs of the held-out inputs, with samples and pictures; and the teacher-forced loss."""
        training, decoding = self.config.training, self.config.decoding
        evaluation = self.model.evaluate_items(self.items, beam=decoding.validation_beam, num_best=1)
        metrics = dict(evaluation.metrics)
        del metrics["items"]
        losses = [self._loss(self._batch(self.dev, batch, device=True), None, 0.0) for batch in self.dev_batches]
        count = sum(int(loss[2]) for loss in losses)
        metrics["teacher_forced_loss"] = sum(float(loss[1]) for loss in losses) / max(count, 1)
        shown = evaluation.scored[: training.samples]
        looked = self.model.predict([item.source for item in self.items[:MEASURED]], beam=1, num_best=1)
        metrics.update(alignment_figures(looked))
        pictures = [
            (f"{number:02d}.png", _picture(prediction))
            for number, prediction in enumerate(looked[: training.samples])
            if prediction.alignment is not None and prediction.alignment.numel()
        ]
        return Validation(metrics, [sample(one) for one in shown], pictures)

    def save(self, folder: Path) -> None:
        """Everything that prediction needs."""
        save(self.model, folder)

    def _first(self) -> dict[str, Tensor]:
        """The first batch of the first epoch that has more than one row, or a row twice."""
        batches = [batch for batch in self.plan(0) if len(batch) > 1]
        return self._batch(self.train, batches[0] if batches else self.kept[[0, 0]], device=True)

    def _encode(self, pairs: Pairs) -> Sides:
        """The ids of both sides."""
        source = EncodedTexts((pair.source for pair in pairs), self.model.source)
        return source, EncodedTexts((pair.target for pair in pairs), self.model.target)

    def _batch(self, pairs: Sides, indices: Any, *, device: bool = False) -> dict[str, Tensor]:
        sources, targets = pairs
        source, source_mask = sources.pad(indices, end=EOS)
        inputs, _ = targets.pad(indices, begin=BOS)
        outputs, mask = targets.pad(indices, end=EOS)
        batch = {"source": source, "source_mask": source_mask, "inputs": inputs, "targets": outputs, "mask": mask}
        return {name: tensor.to(self.model.device) for name, tensor in batch.items()} if device else batch

    def _loss(self, batch: dict[str, Tensor], own: Tensor | None, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
        memory = self.module.prepare(batch["source"], batch["source_mask"])
        total, likelihood = forced_cross_entropy(
            self.module.decoder, memory, batch["inputs"], batch["targets"], batch["mask"], own, smoothing=smoothing
        )
        return total, likelihood, batch["mask"].sum()


def alignment_figures(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Mean focus rate and monotonicity of alignments; nothing for a model that does not attend."""
    alignments = [one.alignment for one in predictions if one.alignment is not None and one.alignment.numel()]
    if not alignments:
        return {}
    return {
        "focus_rate": float(np.mean([health.focus_rate(alignment) for alignment in alignments])),
        "monotonicity": float(np.mean([health.monotonicity(alignment) for alignment in alignments])),
    }


def sample(one: Scored) -> str:
    """An item's line: input, output, and the reference where it differs."""
    right = "" if one.is_right else f"   (expected {one.item.references[0]})"
    return f"{one.item.source} → {one.prediction.text}{right}"


def _picture(prediction: Prediction) -> Any:
    return lambda path: plot_alignment(prediction, path)
