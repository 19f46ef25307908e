"""Time of a step of a Transformer's beam search as the output grows, with a cache and by the decoder's own `step`.

    OMP_NUM_THREADS=1 python benchmarks/transformer_searches/flat_time.py

6 layers of 512, 8 heads, 2,048 inside, 8,000 tokens, a source of 20; hypotheses take random parents. CPU time of the
thread, medians of 17 steps. `--weights int8` rounds the weights.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from regard import tree
from regard.layers import TokenEmbedding, TokenHead
from regard.models import Encoded
from regard.models.loop import for_search
from regard.models.transformer import transformer_decoder
from regard.ops.over_steps import Loop

TOKENS, SIZE, SOURCE, AROUND = 8000, 512, 20, 8


def main() -> None:
    """Prints a line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--weights", choices=["float32", "int8"], default="float32")
    parser.add_argument("--at", type=int, nargs="+", default=[32, 128, 512])
    options = parser.parse_args()
    torch.manual_seed(0)
    embedding = TokenEmbedding(TOKENS, SIZE)
    head = TokenHead(SIZE, TOKENS, tied=embedding)
    decoder = transformer_decoder(embedding, head, memory_size=SIZE, num_layers=6, num_heads=8).eval()
    rows = options.batch * options.beam
    with torch.inference_mode(), Loop(options.weights):
        prepared = decoder.prepare(Encoded(torch.randn(options.batch, SOURCE, SIZE)))
        for name in ("cached", "own"):
            begun = time.thread_time()
            taker, memory = for_search(decoder, prepared, rows) if name == "cached" else (decoder, prepared)
            state, loop = taker.initial_state(memory, options.beam), Loop(options.weights)
            making = time.thread_time() - begun
            draw, times = torch.Generator().manual_seed(1), []
            for _ in range(max(options.at) + AROUND):
                inputs = torch.randint(3, TOKENS, (rows,), generator=draw)
                parents = torch.randint(options.beam, (options.batch, options.beam), generator=draw)
                parents += options.beam * torch.arange(options.batch)[:, None]
                begun = time.thread_time()
                with loop:
                    _, state = taker.step(inputs, memory, state)
                state = tree.reorder(state, parents.flatten())
                times.append(1e3 * (time.thread_time() - begun))
            medians = [statistics.median(times[at - AROUND - 1 : at + AROUND]) for at in options.at]
            shown = ", ".join(f"{median:.2f} ms at {at}" for at, median in zip(options.at, medians, strict=True))
            print(f"{name}: {shown}: {medians[-1] / medians[0]:.2f} times; begun in {1e3 * making:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
