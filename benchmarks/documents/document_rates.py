"""Words per second of a training step, beside the plainest torch program for the same network.

    python benchmarks/documents/document_rates.py TRAIN [--steps 40] [--words 3000]

Both make the same steps on the same batches in turns, timed by the CPU time of the process: forward and backward pass,
clipping and Adam, with dropout. The plain program packs sequences (`pack_padded_sequence`) so that no recurrent layer
reads padding, pools by softmax over masked energies or by a masked mean, and draws dropout from torch's generator.
Prints the median ratio of the times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.tasks.documents.config import DocumentsConfig
from regard.tasks.documents.reading import DocumentTrainingData
from regard.tasks.documents.task import DocumentsTask
from regard.training.accumulation import LocalBatch
from regard.training.allocator import keep_memory
from regard.training.step import Stepper

DROPOUT = 0.3
WARMUP = 4
"""Steps that are not timed."""
LEVEL = {"size": 50, "attention_size": 100}
MODELS: dict[str, dict[str, Any]] = {
    "hierarchical": {"architecture": "hierarchical", "words": LEVEL, "sentences": LEVEL, "dropout": DROPOUT},
    "flat mean": {"architecture": "flat", "words": {"size": 50, "pooling": "mean"}, "dropout": DROPOUT},
}


class Attention(nn.Module):
    """Attention without a query, as every tutorial has it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.projection = nn.Linear(size, 100)
        self.context = nn.Parameter(torch.randn(100) * 0.1)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(B, S, M) and (B, S) to (B, M)."""
        energies = torch.tanh(self.projection(states)) @ self.context
        weights = torch.softmax(energies.masked_fill(~mask, -1e9), 1)
        return (weights[..., None] * states).sum(1)


def mean(states: Tensor, mask: Tensor) -> Tensor:
    """(B, S, M) and (B, S) to (B, M)."""
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Plain(nn.Module):
    """The plainest program: words, and with `deep` sentences."""

    def __init__(self, num_words: int, num_labels: int, *, deep: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, 100, padding_idx=0)
        self.words = nn.GRU(100, 50, batch_first=True, bidirectional=True)
        self.sentences = nn.GRU(100, 50, batch_first=True, bidirectional=True) if deep else None
        self.pool_words = Attention(100) if deep else mean
        self.pool_sentences = Attention(100) if deep else None
        self.dropout = nn.Dropout(DROPOUT)
        self.output = nn.Linear(100, num_labels)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, S, W) to logits (B, C)."""
        if self.sentences is None or self.pool_sentences is None:
            lengths = mask.flatten(1).sum(1)
            real = torch.arange(int(lengths.max())) < lengths[:, None]
            flat = ids.new_zeros(real.shape).masked_scatter(real, ids[mask])
            return self.output(self.dropout(self._encoded(self.words, self.dropout(self.embedding(flat)), real, mean)))
        filled = mask.any(-1)
        vectors = self._encoded(self.words, self.dropout(self.embedding(ids[filled])), mask[filled], self.pool_words)
        sentences = vectors.new_zeros(*filled.shape, vectors.shape[1])
        sentences[filled] = vectors
        encoded = self._encoded(self.sentences, self.dropout(sentences), filled, self.pool_sentences)
        return self.output(self.dropout(encoded))

    @staticmethod
    def _encoded(layer: nn.GRU, vectors: Tensor, mask: Tensor, pool: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        packed = pack_padded_sequence(vectors, mask.sum(1), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=mask.shape[1])
        return pool(states, mask)


def measure(name: str, model: dict[str, Any], material: DocumentTrainingData, options: argparse.Namespace) -> str:
    """Words per second of both programs, and the median ratio of their times."""
    task, training = DocumentsTask(), {"batch_words": options.words, "word_dropout": 0.0}
    config = DocumentsConfig(data={"train": options.train}, model=model, training=training)
    torch.manual_seed(0)
    built = task.build(config, material, name=name)
    trainee = task.trainee(built, material)
    built.module.train()
    stepper = Stepper(trainee, config.training, torch.device("cpu"), seed=1)
    plain = Plain(len(material.field.words.vocabulary), len(material.labels), deep="sentences" in model)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.002, weight_decay=0.0, fused=True)
    generator = torch.Generator()

    def ours(description: Any, batch: Any, number: int) -> None:
        stepper([(LocalBatch(description), batch)], step=number, learning_rate=0.002, generator=generator)

    def theirs(description: Any, batch: Any, number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = plain(batch["ids"], batch["mask"])
        functional.cross_entropy(logits, batch["targets"], label_smoothing=0.1).backward()
        clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()

    times: list[tuple[float, float, int]] = []
    for number, description in enumerate(trainee.descriptions(0)[: options.steps]):
        batch, spent = trainee.batch(description), {}
        for run in (ours, theirs) if number % 2 else (theirs, ours):
            start = time.process_time()
            run(description, batch, number)
            spent[run] = time.process_time() - start
        if number >= WARMUP:
            times.append((spent[ours], spent[theirs], int(batch["mask"].sum())))
    ratio = statistics.median(slow / fast for fast, slow, _ in times)
    rates = [sum(words for *_, words in times) / sum(entry[side] for entry in times) for side in (0, 1)]
    return f"{name}: {rates[0]:,.0f} words/s, plain torch {rates[1]:,.0f} words/s, median ratio {ratio:.2f}"


def main() -> None:
    """Prints a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--words", type=int, default=3000, help="words of a batch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    material = DocumentsTask().read(DocumentsConfig(data={"train": options.train}))
    for name, model in MODELS.items():
        print(measure(name, model, material, options), flush=True)


if __name__ == "__main__":
    main()
