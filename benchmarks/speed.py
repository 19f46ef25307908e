"""Milliseconds of a training step and of searches, for a model of the preset `g2p` on random symbols.

    python benchmarks/speed.py --threads 1

Prints a Markdown table with the machine and the versions: a results file is this output and a sentence.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch

from regard import Search, __version__, search
from regard.config import from_preset
from regard.data import BOS, EOS
from regard.losses import cross_entropy
from regard.models import EncoderDecoder
from regard.tasks.build import build_model

NUM_SOURCE, NUM_TARGET = 32, 44
BATCH, SOURCE, TARGET = 64, 10, 9


def milliseconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and interquartile range of the time of a call, after two calls that do not count."""
    times = []
    for number in range(repeats + 2):
        start = time.perf_counter()
        call()
        if number >= 2:
            times.append(1000 * (time.perf_counter() - start))
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, high - low


def training_step(model: EncoderDecoder) -> Callable[[], object]:
    """Forward, backward and AdamW on one batch."""
    optimizer = torch.optim.AdamW(model.parameters())
    source = torch.randint(4, NUM_SOURCE, (BATCH, SOURCE))
    target = torch.randint(4, NUM_TARGET, (BATCH, TARGET))
    inputs = torch.cat([torch.full((BATCH, 1), BOS), target[:, :-1]], 1)

    def step() -> None:
        optimizer.zero_grad()
        said = model(source, inputs).log_probabilities
        total, _ = cross_entropy(said, target, torch.ones_like(target, dtype=torch.bool), smoothing=0.1)
        total.backward()
        optimizer.step()

    return step


def decoding(model: EncoderDecoder, beam: int, *, alignment: bool) -> Callable[[], object]:
    """A search over one batch, to TARGET tokens."""
    source = torch.randint(4, NUM_SOURCE, (BATCH, SOURCE))
    options = Search(beam=beam, length_penalty="none", min_length=TARGET)

    @torch.inference_mode()
    def decode() -> None:
        memory = model.prepare(source)
        search(model.decoder, memory, options, bos=BOS, eos=EOS, max_length=TARGET, alignment=alignment)

    return decode


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    config = from_preset("g2p", ["data.train=none.tsv"]).config.model
    model = build_model(config, num_source=NUM_SOURCE, num_target=NUM_TARGET)
    model.train()
    rows = {"training step": milliseconds(training_step(model), options.repeats)}
    model.eval()
    for name, beam, alignment in (
        ("greedy", 1, False),
        ("beam 5", 5, False),
        ("beam 5 with alignments", 5, True),
    ):
        rows[name] = milliseconds(decoding(model, beam, alignment=alignment), options.repeats)
    print(
        f"regard {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"threads {options.threads}, {platform.machine()}\n"
        f"preset g2p, {sum(p.numel() for p in model.parameters()):,} weights, float32; batches of {BATCH} sentences, "
        f"{SOURCE} symbols in, {TARGET} out; median of {options.repeats}\n\n"
        "| what | ms a batch | interquartile range |\n|---|---|---|"
    )
    for name, (middle, spread) in rows.items():
        print(f"| {name} | {middle:.1f} | {spread:.1f} |")


if __name__ == "__main__":
    main()
