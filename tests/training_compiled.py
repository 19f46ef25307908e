"""A text-to-text training whose loss is compiled, beside the same without.

A program, as the shape checks of the tests would be compiled as well:

    python training_compiled.py KIND=BACKEND ...

The backend "eager" runs the graphs that torch found as they are, "aot_eager" those of the derivative as well, and
"inductor" compiles them.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend

from regard.config import from_preset
from regard.data import Pair, Pairs
from regard.data.text import Field
from regard.layers import TokenEmbedding, TokenHead
from regard.models import EncoderDecoder, transformer_decoder, transformer_encoder
from regard.tasks import compilation
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.trainee import PairTrainee

LETTERS = "abcdefghij"


class Words(Pairs):
    """Pairs of letters of the lengths that are asked for."""

    def __init__(self, lengths: list[tuple[int, int]]) -> None:
        draw = random.Random(1)
        self.texts = [["".join(draw.choices(LETTERS, k=n)) for n in pair] for pair in lengths]

    def __len__(self) -> int:
        return len(self.texts)

    def read(self, index: int) -> Pair:
        source, target = self.texts[index]
        return Pair(source, target, Path("drawn"), index + 1)


def transformer(num_tokens: int) -> EncoderDecoder:
    sizes: dict[str, Any] = {"num_layers": 1, "num_heads": 2, "feed_forward_size": 16, "dropout": 0.0}
    embedding = TokenEmbedding(num_tokens, 8)
    head = TokenHead(8, num_tokens, tied=embedding, never=(0, 1))
    encoder = transformer_encoder(TokenEmbedding(num_tokens, 8), **sizes)
    return EncoderDecoder(encoder, transformer_decoder(embedding, head, memory_size=8, **sizes))


def configuration(*changes: str) -> TextToTextConfig:
    wanted = [
        "data.train=none.tsv",
        "model.encoder={cell: gru, size: 8, embedding_size: 6, dropout: 0}",
        "model.decoder={cell: gru, size: 8, embedding_size: 6, dropout: 0, input_feeding: false}",
        "model.attention={recipe: bahdanau, size: 6}",
        "training.device=cpu",
        "training.compile=true",
        *changes,
    ]
    return from_preset("text-to-text", wanted).config


MODELS = {
    "transformer": [],
    "at once": [],
    "feeding": ["model.decoder.input_feeding=true"],
    "recurrent attention": ["model.attention={recipe: location_sensitive, size: 6, kernel_size: 3, num_filters: 2}"],
}


def build(kind: str, pairs: Pairs) -> PairTrainee:
    config = configuration(*MODELS[kind])
    field = Field.build(config.data.source, [LETTERS])
    torch.manual_seed(0)
    model = TextToText.build(config, field, field)
    if kind == "transformer":
        model.module = transformer(len(field.vocabulary))
    model.module.train()
    return PairTrainee(model, pairs, Words([(3, 3)]))


def learned(trainee: PairTrainee, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    trainee.module.zero_grad()
    loss = trainee.loss(batch, step=0, generator=torch.Generator())
    loss.total.backward()
    return loss.total.detach(), [p.grad for p in trainee.module.parameters()]


def main(kind: str, backend: str) -> dict[str, Any]:
    """What was found over batches of many shapes: graphs after each, how far loss and gradients are from plain ones."""
    graphs = 0

    def counting(graph: torch.fx.GraphModule, examples: Any) -> Any:
        nonlocal graphs
        compiled = lookup_backend(backend)(graph, examples)
        graphs += 1  # after it, as a compiler may ask for another graph instead
        return compiled

    compilation.BACKEND = counting
    torch.set_num_threads(1)
    draw = random.Random(2)
    shapes = [(5, 4, 4), (1, 3, 2), (2, 1, 5), (3, 6, 1), (2, 2, 2), (4, 1, 1), (9, 12, 12)]
    shapes += [(draw.randint(1, 9), draw.randint(1, 12), draw.randint(1, 12)) for _ in range(5)]
    trainee = build(kind, Words([lengths for count, *lengths in shapes for _ in range(count)]))
    plain = copy.deepcopy(trainee)
    plain._compiled_loss = None
    before = torch.get_rng_state()
    trainee.loss(trainee.batch(range(2)), step=0, generator=torch.Generator())
    found: dict[str, Any] = {
        "draws": not torch.equal(torch.get_rng_state(), before),
        "gradients": any(p.grad is not None for p in trainee.module.parameters()),
        "graphs": [graphs],
        "errors": [],
    }
    start = 0
    for count, source, target in shapes:
        batch = trainee.batch(range(start, start + count))
        assert batch["source"].shape == (count, source + 1)
        assert batch["targets"].shape == (count, target + 1)
        start += count
        (loss, gradients), (expected, wanted) = learned(trainee, batch), learned(plain, batch)
        pairs = [(loss, expected), *zip(gradients, wanted, strict=True)]
        found["errors"].append(max(((a - b).abs() / (1 + b.abs())).max().item() for a, b in pairs))
        found["graphs"].append(graphs)
    return found


if __name__ == "__main__":
    results = {}
    for argument in sys.argv[1:]:
        kind, _, backend = argument.partition("=")
        torch.compiler.reset()
        results[kind] = main(kind, backend)
    print(json.dumps(results))
