"""CPU time of training steps and searches of a model with a pointer, beside those of the same model without one.

    python benchmarks/pointer/pointer_rates.py [--tokens 8000] [--size 256] [--sentences 32] [--length 20] [--rounds 15]
                                               [--architecture transformer]

Both take turns on the same random sentences, a fifth of whose symbols the vocabulary lacks: the loss with label
smoothing 0.1 and its gradients; beam search (beam 5) and greedy search, with outputs of fixed length. Prints medians
and the median ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from regard.data.text import BOS, EOS
from regard.decoding import Search, search
from regard.models import EncoderDecoder
from regard.tasks.decoder_losses import forced_cross_entropy
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import ModelConfig, RecurrentConfig, TransformerConfig
from regard.training.allocator import keep_memory

FIRST = 4
"""The first id that is not a special symbol."""
UNKNOWN_SHARE = 0.2
WARMUP = 3
"""Rounds that are not timed."""


def model(architecture: str, size: int, tokens: int, *, pointer: bool) -> EncoderDecoder:
    """A recurrent model with additive attention and input feeding, or a Transformer of three layers and four heads."""
    config: ModelConfig
    if architecture == "transformer":
        side = {"size": size, "layers": 3, "heads": 4, "dropout": 0.0}
        config = TransformerConfig(encoder=side, decoder=side, pointer={} if pointer else None)
    else:
        sides = {"size": size, "embedding_size": size // 2, "dropout": 0.0}
        values = {"encoder": {**sides, "layers": 1}, "decoder": {**sides, "input_feeding": True}}
        attention = {"recipe": "bahdanau", "size": size}
        config = RecurrentConfig(**values, attention=attention, pointer={} if pointer else None)
    torch.manual_seed(0)
    built = build_model(config, num_source=tokens, num_target=tokens)
    with torch.no_grad():
        built.decoder.head.projection.bias[EOS] = -1e4  # outputs have the length of the limit
    return built


def main() -> None:
    """Prints a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in (("tokens", 8000), ("size", 256), ("sentences", 32), ("length", 20), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--architecture", choices=("recurrent", "transformer"), default="recurrent")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    shape = options.sentences, options.length
    source, targets = (torch.randint(FIRST, options.tokens, shape) for _ in range(2))
    lacking = torch.rand(shape) < UNKNOWN_SHARE
    source_ids = torch.where(lacking, options.tokens + lacking.cumsum(1) - 1, source)
    extension = torch.arange(int(lacking.sum(1).max())) < lacking.sum(1, keepdim=True)
    targets[:, ::5] = source_ids[:, ::5]
    plain_targets = targets.where(targets < options.tokens, 3)
    sizes = options.architecture, options.size, options.tokens
    models = [model(*sizes, pointer=pointer) for pointer in (False, True)]
    copying: list[dict[str, Tensor]] = [{}, {"source_ids": source_ids, "extension": extension}]

    def train(number: int) -> None:
        made, outputs = models[number], (plain_targets, targets)[number]
        inputs = torch.cat([torch.full((len(source), 1), BOS), plain_targets[:, :-1]], 1)
        memory = made.prepare(source, **copying[number])
        mask = torch.ones(shape, dtype=torch.bool)
        loss, _ = forced_cross_entropy(made.decoder, memory, inputs, outputs, mask, smoothing=0.1)
        made.zero_grad(set_to_none=True)
        loss.backward()

    def decode(beam: int) -> Callable[[int], None]:
        def run(number: int) -> None:
            with torch.inference_mode():
                memory = models[number].prepare(source, **copying[number])
            found = Search(beam=beam)
            search(models[number].decoder, memory, found, bos=BOS, eos=EOS, max_length=options.length)

        return run

    for name, run in (("training step", train), ("beam search", decode(5)), ("greedy search", decode(1))):
        for made in models:
            made.train(name == "training step")
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(WARMUP + options.rounds):
            for which in (0, 1) if number % 2 else (1, 0):
                start = time.process_time()
                run(which)
                if number >= WARMUP:
                    times[which].append(time.process_time() - start)
        ratio = statistics.median(second / first for first, second in zip(*times, strict=True))
        plain, copied = (1000 * statistics.median(each) for each in times)
        print(f"{name}: {plain:,.1f} ms without, {copied:,.1f} ms with a pointer, median ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
