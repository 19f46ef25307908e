"""What recording attention costs: a pass of torch's encoder without and with a recorder, and a look for one.

python benchmarks/recording.py
"""

from __future__ import annotations

import time

import torch
from torch import nn

from regard import record_attention
from regard.attention import multi_head
from regard.layers import recorders

SIZE, HEADS, LAYERS, BATCH, LENGTH, TURNS = 512, 8, 6, 8, 64, 15


def main() -> None:
    """Prints the medians."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, 2048, batch_first=True)
    model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).eval()
    x = torch.randn(BATCH, LENGTH, SIZE)
    times: dict[str, list[float]] = {"without": [], "recorded": [], "after": []}
    with torch.inference_mode():
        for _ in range(TURNS):
            for name in times:
                start = time.process_time()
                if name == "recorded":
                    with record_attention(model):
                        model(x)
                else:
                    model(x)
                times[name].append(time.process_time() - start)
    plain = sorted(times["without"])[TURNS // 2]
    for name, seconds in times.items():
        median = sorted(seconds)[TURNS // 2]
        print(f"{name:9} {1e3 * median:7.1f} ms  {median / plain:.3f}")
    mechanism = multi_head(query_size=8, memory_size=8, size=8, num_heads=2)
    start, count = time.process_time(), 1_000_000
    for _ in range(count):
        recorders.wanted(mechanism)
    print(f"a look for a recorder in a mechanism: {1e9 * (time.process_time() - start) / count:.0f} ns")


if __name__ == "__main__":
    main()
