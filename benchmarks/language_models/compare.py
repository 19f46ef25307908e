"""Language models at equal numbers of parameters and steps: does the order of Daniluk et al. 2017 hold?

    python benchmarks/language_models/compare.py TEXT [--units character] [--parameters 800000] [--steps 2000]

Trains each model with AdamW on windows of the text and prints the figures of the whole held-out tenth, every token
scored once with its left context. The learning rate warms up, then falls as a cosine over the steps. `--seconds` ends a
training before its last step, for smoke tests.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import torch
from parameters import count, size_for

from regard.data.text import BOS, EOS, PAD, CharacterUnits, RunningText, TextSpan, TextWindows, WordUnits
from regard.decoding import Search, search
from regard.layers import TokenEmbedding, TokenHead
from regard.metrics import Likelihood
from regard.models import (
    AbstractLanguageModel,
    negative_log_likelihood,
    recurrent_language_model,
    transformer_language_model,
)

UNITS = {"character": CharacterUnits, "word": WordUnits}
NEVER = (PAD, BOS, EOS)
MODELS = {
    "lstm": ("state", 2),
    "attention": ("attention", 2),
    "key_value": ("key_value", 2),
    "key_value_predict": ("key_value_predict", 3),
    "ngram": ("ngram", 3),
    "transformer": ("", 32),
}
"""For each model what it does with its past, and what its size must be a multiple of."""


def maker(name: str, num_tokens: int, options: argparse.Namespace) -> Callable[[int], AbstractLanguageModel]:
    """A function from the size to the model."""
    past = MODELS[name][0]
    if name != "transformer":
        return lambda size: recurrent_language_model(
            num_tokens, size=size, past=past, reach=options.reach, order=4, dropout=options.dropout, never=NEVER
        )

    def transformer(size: int) -> AbstractLanguageModel:
        embedding = TokenEmbedding(num_tokens, size, padding=None)
        return transformer_language_model(
            embedding,
            TokenHead(size, num_tokens, tied=embedding, never=NEVER),
            num_layers=options.layers,
            num_heads=4,
            feed_forward_size=4 * size,
            positions="rotary",
            dropout=options.dropout,
        )

    return transformer


def learning_rate(step: int, options: argparse.Namespace) -> float:
    """Linear warm-up over a twentieth of the steps, then a cosine to a tenth."""
    warm_up = max(options.steps // 20, 1)
    if step < warm_up:
        return options.learning_rate * (step + 1) / warm_up
    progress = (step - warm_up) / max(options.steps - warm_up, 1)
    return options.learning_rate * (0.55 + 0.45 * math.cos(math.pi * progress))


def train(model: AbstractLanguageModel, windows: TextWindows, options: argparse.Namespace) -> tuple[int, float]:
    """The number of steps, and the seconds that they took."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.1)
    start, step, epoch = time.perf_counter(), 0, 0
    model.train()
    while step < options.steps:
        for rows in windows.shuffled(options.batch_size, seed=options.seed, epoch=epoch):
            if step == options.steps or time.perf_counter() - start > options.seconds:
                return step, time.perf_counter() - start
            inputs, targets, scored = (torch.as_tensor(part) for part in windows.batch(rows))
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, options)
            loss, _ = model.cross_entropy(inputs.long(), None, targets.long(), scored)
            optimizer.zero_grad()
            (loss / scored.sum()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
        epoch += 1
    return step, time.perf_counter() - start


def main() -> None:
    """Trains and evaluates the models, a line of the table each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="+")
    parser.add_argument("--units", choices=UNITS, default="character")
    parser.add_argument("--min-count", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--parameters", type=int, default=800_000)
    parser.add_argument("--size", type=int, help="instead of a number of parameters")
    parser.add_argument("--layers", type=int, default=4, help="of the Transformer")
    parser.add_argument("--reach", type=int, default=10, help="of attention over past outputs")
    parser.add_argument("--width", type=int, default=64, help="tokens that a window reads")
    parser.add_argument("--context", type=int, default=49, help="tokens that each held-out one sees at least")
    parser.add_argument("--train-context", type=int, default=1, help="the same in training")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0, help="tokens to print after training")
    options = parser.parse_args()
    text = RunningText.read(options.text, units=UNITS[options.units](), min_count=options.min_count)
    num_tokens = len(text.field.vocabulary)
    print(f"{len(text.ids):,} tokens, N={num_tokens}, held out: {text.held_out}\n")
    print("| model | size | parameters | steps | seconds | nats per token | perplexity | bits per character |")
    print("|---|---|---|---|---|---|---|---|")

    def windows(part: TextSpan, context: int) -> TextWindows:
        return TextWindows(text, part, length=options.width + 1 - context, context=context)

    for name in options.models:
        torch.manual_seed(options.seed)
        make = maker(name, num_tokens, options)
        size = options.size or size_for(make, options.parameters, multiple=MODELS[name][1])
        model = make(size)
        steps, seconds = train(model, windows(text.train, options.train_context), options)
        model.eval()
        held_out = windows(text.held_out, options.context).in_order(options.batch_size * 4)
        figures = Likelihood.of(*negative_log_likelihood(model, held_out), text.held_out)
        print(
            f"| {name} | {size} | {count(model):,} | {steps} | {seconds:.0f} | {figures.nats_per_token:.4f} "
            f"| {figures.perplexity:.3f} | {figures.bits_per_character:.4f} |",
            flush=True,
        )
        if options.sample:
            memory = model.prepare(
                torch.as_tensor(text.ids[None, text.held_out.start : text.held_out.start + 64]).long()
            )
            sampled = search(
                model, memory, Search(method="sampling", seed=1), bos=BOS, eos=EOS, max_length=options.sample
            )
            print(text.decode(sampled[0][0].tokens.tolist()))


if __name__ == "__main__":
    main()
