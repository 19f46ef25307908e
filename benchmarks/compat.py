"""What the calls of tensorflow-addons cost beside the house's own loop of steps, for the same mathematics.

python benchmarks/compat.py [--turns 15]

`AttentionWrapper` step by step beside `RecurrentDecoder` step by step, with the same weights: a linear attention layer
without bias whose output is fed back, additive and multiplicative attention, GRU and LSTM. Both are called in turns in
one process; the outputs have to be equal to 1e-5 before anything is timed. The ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import bahdanau, luong
from regard.compat import tfa
from regard.layers import RecurrentStack
from regard.models import Bridge, Encoded, RecurrentDecoder

STEPS = 30


@dataclass(frozen=True)
class Size:
    """B, S, D, and T steps."""

    batch: int
    source: int
    size: int
    steps: int = STEPS

    def __str__(self) -> str:
        return f"B {self.batch} S {self.source} D {self.size} T {self.steps}"


SIZES = (Size(32, 50, 256), Size(4, 10, 32))


class Values(nn.Identity):
    """Inputs that are embedded already."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def house(attention: str, cell: str, size: int) -> RecurrentDecoder:
    """The decoder: recur, attend, a linear layer without bias whose output is fed back."""
    mechanism = luong if attention == "luong" else bahdanau
    options = {} if attention == "luong" else {"size": size}
    stack = RecurrentStack(2 * size, size, cell="gru" if cell == "gru" else "lstm")
    return RecurrentDecoder(
        Values(size),
        stack,
        nn.Identity(),
        Bridge(stack, stack, "zero"),
        attention=mechanism(query_size=size, memory_size=size, **options),
        continuous=True,
        readout="linear",
        layer_bias=False,
    )


def ported(attention: str, cell: str, size: int) -> tfa.AttentionWrapper:
    """The wrapper."""
    mechanism: tfa.AttentionMechanism
    if attention == "luong":
        mechanism = tfa.LuongAttention(size, memory_size=size)
    else:
        mechanism = tfa.BahdanauAttention(size, query_size=size, memory_size=size)
    made = tfa.KerasGRUCell if cell == "gru" else tfa.KerasLSTMCell
    return tfa.AttentionWrapper(
        made(size, input_size=2 * size), mechanism, attention_layer=tfa.Dense(size, use_bias=False, input_size=2 * size)
    )


def share(decoder: RecurrentDecoder, wrapper: tfa.AttentionWrapper) -> None:
    """Gives the wrapper the decoder's weights."""
    own = decoder.state_dict()
    layer = {name.removeprefix("stack.layers.0."): value for name, value in own.items() if name.startswith("stack.")}
    bias, of_state = layer["bias_ih_l0"], layer["bias_hh_l0"]
    biases = {"cell.bias": bias, "cell.bias_hh": of_state} if "GRU" in type(wrapper.cell).__name__ else {}
    wrapper.load_state_dict(
        (biases or {"cell.bias": bias + of_state})
        | {"cell.weight_ih": layer["weight_ih_l0"], "cell.weight_hh": layer["weight_hh_l0"]}
        | {"attention_layers.0.weight": own["readout.weight"]}
        | {
            name.replace("attention.", "attention_mechanisms.0.mechanism.", 1): value
            for name, value in own.items()
            if name.startswith("attention.")
        }
    )


def runs(decoder: RecurrentDecoder, wrapper: tfa.AttentionWrapper, size: Size) -> dict[str, Callable[[], Tensor]]:
    """Both loops, from the memory to the outputs of all steps."""
    inputs = torch.randn(size.batch, size.steps, size.size)
    source = torch.randn(size.batch, size.source, size.size)
    lengths = torch.randint(1, size.source + 1, (size.batch,))
    mask = torch.arange(size.source) < lengths[:, None]

    def in_house() -> Tensor:
        memory = decoder.prepare(Encoded(source, mask, ()))
        state, outputs = decoder.initial_state(memory), []
        for t in range(size.steps):
            output, state = decoder.step(inputs[:, t], memory, state)
            assert output.values is not None
            outputs.append(output.values)
        return torch.stack(outputs, 1)

    def in_compat() -> Tensor:
        wrapper.attention_mechanisms[0].setup_memory(source, memory_mask=mask)
        state, outputs = wrapper.get_initial_state(batch_size=size.batch), []
        for t in range(size.steps):
            output, state = wrapper(inputs[:, t], state)
            outputs.append(output)
        return torch.stack(outputs, 1)

    return {"house": in_house, "compat": in_compat}


def backward(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Forward and backward."""

    def both() -> Tensor:
        output = run()
        output.square().mean().backward()
        return output

    return both


def timed(loops: dict[str, Callable[[], Tensor]], turns: int) -> dict[str, float]:
    """Median seconds of CPU time of each, called in turns."""
    times: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(turns + 2):
        for name, run in loops.items():
            start = time.process_time()
            run()
            if turn >= 2:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def wrappers(turns: int) -> None:
    """The table of AttentionWrapper."""
    print("| AttentionWrapper | sizes | pass | house | compat | ratio |\n|---|---|---|---|---|---|")
    for attention in ("bahdanau", "luong"):
        for cell in ("gru", "lstm"):
            for size in SIZES:
                torch.manual_seed(0)
                decoder, wrapper = house(attention, cell, size.size), ported(attention, cell, size.size)
                share(decoder, wrapper)
                loops = runs(decoder, wrapper, size)
                with torch.no_grad():
                    difference = float((loops["house"]() - loops["compat"]()).abs().max())
                    assert difference < 1e-5, difference
                    found = {"forward": timed(loops, turns)}
                found["forward and backward"] = timed({name: backward(run) for name, run in loops.items()}, turns)
                for name, seconds in found.items():
                    print(
                        f"| {attention}, {cell} | {size} | {name} | {1e3 * seconds['house']:.1f} ms | "
                        f"{1e3 * seconds['compat']:.1f} ms | {seconds['compat'] / seconds['house']:.2f} |",
                        flush=True,
                    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15, help="of each loop")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    wrappers(options.turns)


if __name__ == "__main__":
    main()
