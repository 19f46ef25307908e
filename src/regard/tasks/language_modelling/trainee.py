"""The trainee of language modelling: a model with its text, for the training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.text import RunningText, TextBatch, TextWindows
from regard.data.text.running_text import decode
from regard.metrics import ItemTerms, Likelihood, MetricTerms, ShownItem, ratio_terms
from regard.runs.trainee import AbstractArrayTrainee, numbered_pictures
from regard.tasks.compilation import CompiledLoss
from regard.tasks.language_modelling.evaluation import exponential, metrics
from regard.tasks.language_modelling.model import LanguageModel
from regard.tasks.language_modelling.reading import frequencies
from regard.training import Loss, Validation, processes
from regard.viz import plot_alignment

PROMPT_WORDS = 5
"""The words of a held-out line that a validation continues."""
SHOWN_LENGTH = 80
"""The most tokens of such a continuation."""
MOST_TOKENS = 1 << 13
"""The most tokens of a batch of a validation."""


class LanguageTrainee(AbstractArrayTrainee):
    """A `LanguageModel` with the text that it is trained on.

    Batches are windows of the text with their left context; no state passes from one to the next.
    """

    model: LanguageModel

    def __init__(self, model: LanguageModel, text: RunningText) -> None:
        self.model, self.text = model, text
        training = self.config.training
        length = training.window + 1 - training.context
        self.windows = TextWindows(text, text.train, length=length, context=training.context)
        self.dev = model.windows(text, text.held_out)
        self._compiled_loss = CompiledLoss.of(training, self._loss, self.module, self.first)

    def descriptions(self, epoch: int) -> Sequence[Any]:
        return self.windows.shuffled(self.config.training.batch_size, seed=self.config.seed, epoch=epoch)

    def batch(self, description: Any) -> dict[str, Tensor]:
        return _tensors(self.windows.batch(description))

    def item_ids(self, description: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(description[:, 0]))

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """Cross-entropy of the scored tokens."""
        total, count = (self._compiled_loss or self._loss)(batch)
        return Loss(total, count)

    @torch.no_grad()
    def validate(self) -> Validation:
        """The likelihood of the held-out text, with continuations of some of its lines and their attention."""
        likelihood = self._likelihood()
        prompts = [text for text, _ in zip(self.examples, range(self.config.training.samples))]
        predictions = self._continued(prompts)
        pictures = numbered_pictures(
            None if each.alignment is None else partial(plot_alignment, self.model.aligned(each))
            for each in predictions
        )
        lines = [f"{text} → {self.model.rows(each)[0][0]}" for text, each in zip(prompts, predictions)]
        return Validation(metrics(likelihood), lines, pictures, self._concern(likelihood))

    @torch.no_grad()
    def held_out_terms(self) -> ItemTerms:
        """The items are windows of the held-out text."""
        tokens = self.model.token_nats(self.dev)
        starts = np.arange(0, len(tokens), self.dev.length)
        nats, counts = np.add.reduceat(tokens, starts), np.diff(starts, append=len(tokens))
        terms = {"perplexity": MetricTerms(np.stack([nats, counts], 1), exponential), "loss": ratio_terms(nats, counts)}
        return ItemTerms(range(len(starts)), terms, lambda index: ShownItem(str(index)))

    @property
    def examples(self) -> Iterator[str]:
        ids = self.text.ids[self.text.held_out.start : self.text.held_out.stop]
        for line in decode(self.text.field, ids[: 1 << 16].tolist()).split("\n"):
            if words := line.split()[:PROMPT_WORDS]:
                yield " ".join(words)

    def _continued(self, prompts: Sequence[str]) -> Sequence[Any]:
        """Continuations by the configured search, with a short length and a fixed seed."""
        decoding = self.config.decoding
        seed = 1 if decoding.seed is None else decoding.seed
        short = {"max_length": min(SHOWN_LENGTH, decoding.max_length), "seed": seed, "num_best": 1}
        config = self.config.model_copy(update={"decoding": decoding.model_copy(update=short)})
        return replace(self.model, config=config).predict(prompts)

    def _likelihood(self) -> Likelihood:
        """The likelihood of the held-out text, each batch computed by one of the processes."""
        batches = self.dev.in_order(max(1, MOST_TOKENS // self.model.window))
        local = islice(batches, processes.rank(), None, processes.size())
        sums = processes.merged(processes.gathered([self._sum(batch) for batch in local]))
        return Likelihood.of(sum(nats for nats, _ in sums), sum(count for _, count in sums), self.text.held_out)

    def _sum(self, batch: TextBatch) -> tuple[float, int]:
        total, count = self._loss(self.on_device(_tensors(batch)))
        return float(total), int(count)

    def _concern(self, likelihood: Likelihood) -> str | None:
        """A warning if the model predicts no better than the frequencies of symbols; else None."""
        counts = frequencies(self.text) + 1.0
        part = self.text.held_out
        nats = -float(np.log(counts / counts.sum())[self.text.ids[part.start : part.stop]].mean())
        if likelihood.nats_per_token < nats:
            return None
        return (
            f"The saved model predicts no better than the frequencies of symbols: {likelihood.nats_per_token:.4g} and "
            f"{nats:.4g} nats per token."
        )

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        scored = batch["scored"]
        total, _ = self.module.cross_entropy(batch["inputs"], None, batch["targets"], scored)
        return total, scored.sum()


def _tensors(batch: TextBatch) -> dict[str, Tensor]:
    inputs, targets, scored = map(torch.from_numpy, batch)
    return {"inputs": inputs.long(), "targets": targets.long(), "scored": scored}
