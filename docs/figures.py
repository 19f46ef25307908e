"""Plots the attention of every mechanism on a small task that it has learned: docs/pictures/mechanisms/<recipe>.svg.

    python docs/figures.py [recipe …]
    python docs/figures.py captions

- Most mechanisms learn to repeat every symbol of the source a fixed number of times (a once, b twice, c three times):
  repeated symbols are equal, and only their position tells them apart. All models have the same GRU encoder and
  decoder and are trained for the same number of steps; the plot shows free-running decoding of an unseen source.
- Self-attention predicts the next symbol of a periodic sequence.
- Pooling finds the symbol after the only a.
- `captions` is no recipe: a small captioner of drawn pictures with two objects, whose maps are in docs/pictures.

Takes about 15 seconds per recipe on one core.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor, nn

from regard import plot_alignment
from regard.attention import RECIPES, Divided
from regard.data.pictures import synthetic_picture
from regard.decoding import Search, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.losses import cross_entropy
from regard.models import Bridge, Encoded, EncoderDecoder, RecurrentDecoder, RecurrentEncoder
from regard.viz import CaptionedImage, plot_captioned_image

FOLDER = Path(__file__).parent / "pictures" / "mechanisms"
PAD, BOS, EOS, FIRST = 0, 1, 2, 3
SYMBOLS = "abc"
NUM_TOKENS = FIRST + len(SYMBOLS)
SIZE = 48
STEPS = 400
POSITIONAL: dict[str, dict[str, Any]] = {"self_attention": {"causal": True}, "key_value_predict": {"reach": 6}}


def main(names: list[str]) -> None:
    """Plots the attention of these recipes."""
    torch.set_num_threads(1)
    for name in names or sorted(RECIPES):
        torch.manual_seed(0)
        run = predict_next if name in POSITIONAL else pool if name == "self_pooling" else repeat
        print(f"{name:24} {caption() if name == 'captions' else run(name)}", flush=True)


def repeat(name: str) -> str:
    """An encoder-decoder repeats the symbols of "abbcab"."""
    encoder = RecurrentStack(SIZE, SIZE // 2, cell="gru", bidirectional=True)
    decoder = RecurrentStack(SIZE, SIZE, cell="gru")
    recipe = RECIPES[name]
    sizes = {"query_size": SIZE, "memory_size": SIZE, "input_size": SIZE, "size": SIZE}
    parameters = inspect.signature(recipe).parameters
    arguments = {key: size for key, size in sizes.items() if key in parameters}
    if name in ("luong", "gmm"):
        del arguments["size"]
    model = EncoderDecoder(
        RecurrentEncoder(TokenEmbedding(NUM_TOKENS, SIZE), encoder),
        RecurrentDecoder(
            TokenEmbedding(NUM_TOKENS, SIZE),
            decoder,
            TokenHead(SIZE, NUM_TOKENS, never=(PAD, BOS)),
            Bridge(encoder, decoder, "dense"),
            attention=recipe(**arguments),
            input_feeding=False,
        ),
    )

    def loss(generator: Generator) -> Tensor:
        lengths = torch.randint(3, 10, (64,), generator=generator).tolist()
        sources = [torch.randint(FIRST, NUM_TOKENS, (n,), generator=generator).tolist() for n in lengths]
        source, target = padded([[*s, EOS] for s in sources]), padded([[*repeated(s), EOS] for s in sources])
        inputs = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        memory = model.decoder.prepare(model.encoder.encode(source, source != PAD))
        total, _ = cross_entropy(model.decoder(inputs, memory).log_probabilities, target, target != PAD)
        return total / (target != PAD).sum()

    last = train(model, loss)
    source = torch.tensor([[*map(number, "abbcab"), EOS]])
    memory = model.decoder.prepare(model.encoder.encode(source, source != PAD))
    best = search(model.decoder, memory, Search(beam=1), bos=BOS, eos=EOS, max_length=20, alignment=True)[0][0]
    weights = best.alignments[model.decoder.main_attention]
    text = ["</s>" if i == EOS else SYMBOLS[i - FIRST] for i in best.tokens.tolist()]
    picture(name, weights, [*"abbcab", "</s>"], text)
    return f"loss {last:.4f}  abbcab → {''.join(text)}"


def predict_next(name: str) -> str:
    """Self-attention continues "acbacbacbacb"."""
    attention = RECIPES[name](size=SIZE, **POSITIONAL[name])
    embedding, cells = nn.Embedding(NUM_TOKENS, SIZE), nn.GRU(SIZE, SIZE, batch_first=True)
    width = SIZE + attention.context_size
    model = nn.ModuleList([attention, embedding, cells, nn.Linear(width, NUM_TOKENS)])

    def run(ids: Tensor) -> tuple[Tensor, Tensor]:
        x = embedding(ids)
        h = torch.tanh(cells(x)[0]) if isinstance(attention, Divided) else x + cells(x)[0]
        attended, _ = attention(h, attention.prepare(h), alignment=True)
        return model[3](torch.cat([x, attended.context], -1)), attended.alignment

    def loss(generator: Generator) -> Tensor:
        periods = torch.randint(2, 5, (64,), generator=generator)
        patterns = torch.randint(FIRST, NUM_TOKENS, (64, 5), generator=generator)
        ids = patterns.gather(1, torch.arange(13)[None] % periods[:, None])
        logits, _ = run(ids[:, :-1])
        return nn.functional.cross_entropy(logits[:, 6:].flatten(0, 1), ids[:, 7:].flatten())

    last = train(model, loss)
    shown = "acbacbacbacb"
    logits, weights = run(torch.tensor([[*map(number, shown)]]))
    picture(name, weights[0], [*shown], [*shown])
    return f"loss {last:.4f}  {shown} → {SYMBOLS[int(logits[0, -1].argmax()) - FIRST]}"


def pool(name: str) -> str:
    """Pooling finds the symbol after the only a."""
    attention = RECIPES[name](memory_size=SIZE, size=SIZE)
    embedding, cells = nn.Embedding(NUM_TOKENS, SIZE), nn.GRU(SIZE, SIZE // 2, batch_first=True, bidirectional=True)
    model = nn.ModuleList([attention, embedding, cells, nn.Linear(SIZE, NUM_TOKENS)])

    def run(ids: Tensor) -> tuple[Tensor, Tensor]:
        pooled = attention.pool(attention.prepare(cells(embedding(ids))[0]))
        return model[3](pooled.context), pooled.alignment

    def loss(generator: Generator) -> Tensor:
        ids = torch.randint(FIRST + 1, NUM_TOKENS, (64, 10), generator=generator)
        position = torch.randint(0, 9, (64, 1), generator=generator)
        return nn.functional.cross_entropy(run(ids.scatter(1, position, FIRST))[0], ids.gather(1, position + 1)[:, 0])

    last = train(model, loss)
    shown = "bccbbacbcb"
    logits, weights = run(torch.tensor([[*map(number, shown)]]))
    answer = SYMBOLS[int(logits[0].argmax()) - FIRST]
    picture(name, weights[0][:, None], [*shown], [answer])
    return f"loss {last:.4f}  {shown} → {answer}"


class Cells(nn.Module):
    """Pictures of 64 × 64 pixels as 8 × 8 cells of 8 pixels, in rows, with where they are.

    A cell depends on 15 × 15 pixels only, so that maps show what was looked at, and not what lies near it.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        widths = (3, 32, 48, size)
        parts = [
            part
            for before, width in pairwise(widths)
            for part in (nn.Conv2d(before, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU())
        ]
        self.layers = nn.Sequential(*parts, nn.Conv2d(size, size, 1))
        self.places = nn.Parameter(0.1 * torch.randn(size, 8, 8))
        self.output_size = size

    def encode(self, images: Tensor, mask: Tensor | None = None) -> Encoded:
        """Cells (B, 64, size) of images (B, 3, 64, 64)."""
        cells = self.layers(images) + self.places
        return Encoded(cells.flatten(2).transpose(1, 2), None, None, grid=(8, 8))


def caption() -> str:
    """A captioner of pictures with two objects says their colours, shapes and order."""
    size, random = 64, np.random.default_rng(0)
    pictures = [synthetic_picture(random, num_objects=2) for _ in range(6000)]
    words = sorted({word for one in pictures for word in one.text.split()})
    ids = [[FIRST + words.index(word) for word in one.text.split()] + [EOS] for one in pictures]
    images = torch.stack([torch.from_numpy(one.image).permute(2, 0, 1) for one in pictures]).float() / 255
    decoder = RecurrentStack(size, size, cell="gru")
    model = EncoderDecoder(
        Cells(size),
        RecurrentDecoder(
            TokenEmbedding(FIRST + len(words), size),
            decoder,
            TokenHead(size, FIRST + len(words), never=(PAD, BOS)),
            Bridge(size, decoder, "dense"),
            attention=RECIPES["bahdanau"](query_size=size, memory_size=size, size=size),
            input_feeding=False,
        ),
    )

    def loss(generator: Generator) -> Tensor:
        chosen = torch.randint(len(images) - 1, (32,), generator=generator)
        target = padded([ids[i] for i in chosen.tolist()])
        inputs = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        memory = model.decoder.prepare(model.encoder.encode(images[chosen]))
        total, _ = cross_entropy(model.decoder(inputs, memory).log_probabilities, target, target != PAD)
        return total / (target != PAD).sum()

    last = train(model, loss, steps=2000, rate=2e-3)
    encoded = model.encoder.encode(images[-1:])
    memory = model.decoder.prepare(encoded)
    best = search(model.decoder, memory, Search(beam=1), bos=BOS, eos=EOS, max_length=12, alignment=True)[0][0]
    text = ["</s>" if i == EOS else words[i - FIRST] for i in best.tokens.tolist()]
    maps = best.alignments[model.decoder.main_attention][0]
    drawn = CaptionedImage(pictures[-1].image, text, maps, grid=encoded.grid, text=pictures[-1].text)
    path = plot_captioned_image(drawn, FOLDER.parent / "captions.png")
    Image.open(path).convert("RGB").quantize(160).save(path, optimize=True)  # a third of the size
    return f"loss {last:.4f}  {' '.join(text)}"


def train(model: nn.Module, loss: Callable[[Generator], Tensor], *, steps: int = STEPS, rate: float = 3e-3) -> float:
    """Trains for `steps` steps, then sets evaluation mode without gradients; returns the last loss in nats."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    value = torch.zeros(())
    for _ in range(steps):
        value = loss(generator)
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval().requires_grad_(False)
    return value.item()


def picture(name: str, weights: Tensor, source: list[str], target: list[str]) -> None:
    """Plots one alignment."""
    weights = weights[0] if len(weights) == 1 else weights
    plot_alignment(weights, FOLDER / f"{name}.svg", source, target, highest=max(1.0, float(weights.max())))


def repeated(source: list[int]) -> list[int]:
    """The target: a once, b twice, c three times."""
    return [symbol for symbol in source for _ in range(symbol - FIRST + 1)]


def number(symbol: str) -> int:
    """The id of a symbol."""
    return FIRST + SYMBOLS.index(symbol)


def padded(rows: list[list[int]]) -> Tensor:
    """Ids (B, T)."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


if __name__ == "__main__":
    main(sys.argv[1:])
