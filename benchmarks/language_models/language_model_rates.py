"""Training rates of the task language_modelling beside the plainest torch program for the same model.

    python benchmarks/language_models/language_model_rates.py TEXT [--rounds 8] [--steps 10]

Both train the same weights on windows of the same width, in turn in one process: so many steps of the one, then of the
other. The plain program is what a tutorial has: random crops of one tensor of ids, `nn.LSTM` or blocks with
`scaled_dot_product_attention`, `F.cross_entropy`, `AdamW(fused=True)`, gradients clipped by norm. Before timing, both
must give the same loss and the same gradients for the same batch. Rates are tokens per second of CPU time; the ratio is
the median over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config import from_preset
from regard.tasks import TASKS
from regard.training.accumulation import LocalBatch
from regard.training.step import Stepper

MODELS = {
    "lstm": "{architecture: recurrent, past: state, size: 308, dropout: 0.0}",
    "transformer": "{architecture: transformer, layers: 4, size: 128, heads: 4, dropout: 0.0}",
}
SPECIALS = 3
"""The first ids, which are never predicted."""


class PlainLSTM(nn.Module):
    """An embedding, an LSTM, an output layer."""

    def __init__(self, num_tokens: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, size)
        self.lstm = nn.LSTM(size, size, batch_first=True)
        self.head = nn.Linear(size, num_tokens)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.lstm(self.embedding(ids))[0])

    def copy(self, module: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """Own weights with those of regard's model."""
        yield self.embedding.weight, module.embedding.table.weight
        yield from zip(self.lstm.parameters(), module.stack.layers[0].parameters(), strict=True)
        yield from zip(self.head.parameters(), module.head.projection.parameters(), strict=True)


class PlainBlock(nn.Module):
    """Self-attention with rotary positions, then feed-forward; norms before both."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.inner, self.outer = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """x + attention + feed-forward."""
        y = self.norms[0](x)
        q, k, v = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(y.transpose(1, 2).flatten(2))
        return x + self.outer(self.inner(self.norms[1](x)).relu())

    def copy(self, layer: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """Own weights with those of regard's layer."""
        content, read = layer.attention.score.content, layer.attention.read
        yield self.query.weight, content.query_projection.weight
        yield self.key.weight, content.key_projection.weight
        yield self.value.weight, read.value_projection.weight
        yield self.output.weight, read.output_projection.weight
        yield from zip(self.inner.parameters(), layer.feed_forward.inner.parameters(), strict=True)
        yield from zip(self.outer.parameters(), layer.feed_forward.outer.parameters(), strict=True)
        for own, residual in zip(self.norms, layer.residuals, strict=True):
            yield from zip(own.parameters(), residual.norm.parameters(), strict=True)


class PlainTransformer(nn.Module):
    """Blocks between an embedding and an output layer with the same matrix."""

    def __init__(self, num_tokens: int, size: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, size)
        self.blocks = nn.ModuleList([PlainBlock(size, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, num_tokens)
        self.head.weight = self.embedding.weight
        rates = 10000.0 ** (-torch.arange(0, size // heads, 2) / (size // heads))
        angles = torch.arange(width)[:, None] * rates
        self.cosine, self.sine = angles.cos(), angles.sin()

    def forward(self, ids: Tensor) -> Tensor:
        """Logits."""
        x = self.embedding(ids) * self.embedding.embedding_dim**0.5
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.head(self.norm(x))

    def copy(self, module: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """Own weights with those of regard's model."""
        yield self.embedding.weight, module.embedding.embedding.table.weight
        for block, layer in zip(self.blocks, module.layers, strict=True):
            yield from block.copy(layer)
        yield from zip(self.norm.parameters(), module.norm.parameters(), strict=True)
        yield self.head.bias, module.head.projection.bias


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Adjacent features are pairs that are rotated."""
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack([first * cosine - second * sine, first * sine + second * cosine], -1).flatten(-2)


def plain_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy; the ids that are never predicted are left out of the softmax, as in regard's head."""
    logits = model(inputs)[..., SPECIALS:]
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten() - SPECIALS)


def main() -> None:
    """Times both programs, a line of the table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | parameters | regard, tokens/s | plain torch, tokens/s | ratio | lowest and highest |")
    print("|---|---|---|---|---|---|")
    for name in options.models:
        report(name, options)


def report(name: str, options: argparse.Namespace) -> None:
    """Checks that both programs compute the same, and times them."""
    settings = [
        f"data.train={options.text}",
        f"model={MODELS[name]}",
        f"training.window={options.width}",
        f"training.batch_size={options.batch_size}",
    ]
    config = from_preset("language-model", settings).config
    task = TASKS[config.task]
    text = task.read(config)
    config = task.resolve(config, text, task.check(config, text)).config
    torch.manual_seed(1)
    model = task.build(config, text, name="rates")
    trainee = task.trainee(model, text)
    num_tokens = len(text.field.vocabulary)
    plain = PlainLSTM(num_tokens, 308) if name == "lstm" else PlainTransformer(num_tokens, 128, 4, 4, options.width)
    pairs = list(plain.copy(model.module))
    with torch.no_grad():
        for own, other in pairs:
            own.copy_(other)
    descriptions = trainee.descriptions(0)
    check(plain, trainee, descriptions[1], pairs)
    stepper = Stepper(trainee, config.training, torch.device("cpu"))
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    ids = torch.from_numpy(text.ids[: text.train.stop]).long()

    def ours(start: int) -> None:
        model.module.train()
        for number in range(start, start + options.steps):
            description = descriptions[number % len(descriptions)]
            batch = trainee.batch(description)
            stepper([(LocalBatch(description), batch)], step=number, learning_rate=1e-3, generator=generator)

    def theirs(start: int) -> None:
        plain.train()
        for _ in range(options.steps):
            starts = torch.randint(len(ids) - options.width - 1, (options.batch_size,))
            inputs = torch.stack([ids[i : i + options.width] for i in starts])
            targets = torch.stack([ids[i + 1 : i + options.width + 1] for i in starts])
            loss = plain_loss(plain, inputs, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()

    generator = torch.Generator()
    rates: tuple[list[float], list[float]] = [], []
    for number in range(options.rounds + 1):
        pair = (ours, theirs) if number % 2 else (theirs, ours)
        for program in pair:
            seconds = timed(program, number * options.steps)
            if number:  # the first round warms up
                rates[program is theirs].append(options.steps * options.batch_size * options.width / seconds)
    ratios = sorted(ours / theirs for ours, theirs in zip(*rates, strict=True))
    print(
        f"| {name} | {sum(p.numel() for p in plain.parameters()):,} | {statistics.median(rates[0]):,.0f} "
        f"| {statistics.median(rates[1]):,.0f} | {statistics.median(ratios):.2f} "
        f"| {ratios[0]:.2f} to {ratios[-1]:.2f} |",
        flush=True,
    )


def check(plain: nn.Module, trainee: Any, description: Any, pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Both give the same loss and gradients for a batch."""
    batch = trainee.batch(description)
    assert bool(batch["scored"].all())
    loss = trainee.loss(batch, step=0, generator=torch.Generator())
    ours = torch.autograd.grad(loss.total / loss.count, [other for _, other in pairs])
    other = plain_loss(plain, batch["inputs"], batch["targets"])
    theirs = torch.autograd.grad(other, [own for own, _ in pairs])
    torch.testing.assert_close(other, loss.total / loss.count, rtol=1e-5, atol=1e-5)
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-5)


def timed(program: Callable[[int], None], start: int) -> float:
    """Seconds of CPU time."""
    before = time.process_time()
    program(start)
    return time.process_time() - before


if __name__ == "__main__":
    main()
