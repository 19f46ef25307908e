"""Tokens per second of a training step of sequence labelling, beside the plainest torch program for the same network.

    python benchmarks/labelling/label_rates.py TRAIN [--steps 40] [--tokens 600]

Both make the same steps on the same batches in turns, timed by the CPU time of the process: forward and backward pass,
clipping and Adam, with dropout. The plain program packs sequences, so that no recurrent layer reads padding, and reads
the characters of every token of the batch, equal ones or not. Prints the median ratio of the times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.data.text import PAD
from regard.runs.contract import TASKS
from regard.tasks.labelling.config import LabellingConfig
from regard.tasks.labelling.network import CHARACTER_SIZE
from regard.training.accumulation import LocalBatch
from regard.training.allocator import keep_memory
from regard.training.step import Stepper

WARMUP = 4
"""Steps that are not timed."""


class Plain(nn.Module):
    """The plainest program: characters pooled by attention, a GRU, multi-head self-attention, a linear layer."""

    def __init__(self, config: LabellingConfig, num_tokens: int, num_characters: int, num_labels: int) -> None:
        super().__init__()
        encoder, size = config.model.encoder, config.model.character_size
        self.spelling = nn.Embedding(num_characters, CHARACTER_SIZE, padding_idx=PAD)
        self.reader = nn.GRU(CHARACTER_SIZE, size, batch_first=True, bidirectional=True)
        self.energies = nn.Sequential(nn.Linear(2 * size, size), nn.Tanh(), nn.Linear(size, 1, bias=False))
        self.embedding = nn.Embedding(num_tokens, encoder.embedding_size, padding_idx=PAD)
        width = encoder.embedding_size + 2 * size
        self.encoder = nn.GRU(
            width, encoder.size, encoder.layers, batch_first=True, bidirectional=True, dropout=encoder.dropout
        )
        self.query = nn.Linear(2 * encoder.size, 256, bias=False)
        self.keys = nn.Linear(2 * encoder.size, 256, bias=False)
        self.values = nn.Linear(2 * encoder.size, 256, bias=False)
        self.joined = nn.Linear(256, 256, bias=False)
        self.dropout = nn.Dropout(encoder.dropout)
        self.output = nn.Linear(2 * encoder.size + 256, num_labels)

    def forward(self, tokens: Tensor, words: Tensor, spelling: Tensor, mask: Tensor) -> Tensor:
        """Ids (B, S), rows of the spelling (B, S) and characters (N, W) to logits (B, S, C)."""
        characters = spelling[words[mask]]
        states = _packed(self.reader, self.dropout(self.spelling(characters)), characters != PAD)
        weights = self.energies(states).masked_fill((characters == PAD)[..., None], -1e9).softmax(1)
        read = states.new_zeros(*mask.shape, states.shape[-1])
        read[mask] = (weights * states).sum(1)
        encoded = _packed(self.encoder, torch.cat([self.dropout(self.embedding(tokens)), read], -1), mask)
        heads = [part(encoded).unflatten(-1, (4, 64)).transpose(1, 2) for part in (self.query, self.keys, self.values)]
        attended = functional.scaled_dot_product_attention(*heads, attn_mask=mask[:, None, None])
        context = self.joined(attended.transpose(1, 2).flatten(2))
        return self.output(self.dropout(torch.cat([encoded, context], -1)))


def _packed(layer: nn.GRU, vectors: Tensor, mask: Tensor) -> Tensor:
    packed = pack_padded_sequence(vectors, mask.sum(1), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=mask.shape[1])[0]


def main() -> None:
    """Prints the rates of both programs, and the median ratio of their times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=600, help="tokens of a batch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    task = TASKS["labelling"]
    encoder = {"size": 128, "dropout": 0.3}
    training = {"batch_tokens": options.tokens, "word_dropout": 0.0}
    config = LabellingConfig(data={"train": options.train}, model={"encoder": encoder}, training=training)
    material = task.read(config)
    torch.manual_seed(0)
    model = task.build(config, material, name="model")
    trainee = task.trainee(model, material)
    model.module.train()
    stepper = Stepper(trainee, config.training, torch.device("cpu"), seed=1)
    sizes = [len(each) for each in (material.tokens, material.characters, material.labels)]
    plain = Plain(config, *sizes)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.002, weight_decay=0.0, fused=True)
    generator = torch.Generator()
    print(f"{model.num_parameters:,} parameters, plain {sum(each.numel() for each in plain.parameters()):,}")

    def ours(description: Any, batch: Any, number: int) -> None:
        stepper([(LocalBatch(description), batch)], step=number, learning_rate=0.002, generator=generator)

    def theirs(description: Any, batch: Any, number: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = plain(batch["tokens"], batch["words"], batch["spelling"], batch["mask"])
        mask = batch["mask"]
        functional.cross_entropy(logits[mask], batch["targets"][mask], label_smoothing=0.1).backward()
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
    rates = [sum(tokens for *_, tokens in times) / sum(entry[side] for entry in times) for side in (0, 1)]
    print(f"{rates[0]:,.0f} tokens/s, plain torch {rates[1]:,.0f} tokens/s, median ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
