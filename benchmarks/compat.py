"""What the calls of tensorflow-addons cost beside the house's own loop of steps, for the same mathematics.

python benchmarks/compat.py [--turns 15] [--only decoders]

`AttentionWrapper` step by step beside `RecurrentDecoder` step by step, with the same weights: a linear attention layer
without bias whose output is fed back, additive and multiplicative attention, GRU and LSTM. Both are called in turns in
one process; the outputs have to be equal to 1e-5 before anything is timed. The ratio is that of the medians.

`dynamic_decode` beside a loop of `RecurrentDecoder.step` with the same weights, fed with given tokens (where it also
chooses sample ids, which the loop does not) or with its own. `BeamSearchDecoder` beside the house's `search` with
`keep_finished`, which lays the weights out once.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import bahdanau, luong
from regard.decoding import Search, search
from regard.interop import tfa
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, Encoded, RecurrentDecoder

STEPS, VOCABULARY, BEAM, START, END = 30, 2000, 5, 0, 1


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


def speaker(attention: str, cell: str, size: int) -> RecurrentDecoder:
    """The decoder of `house` with ids and log-probabilities, whose end symbol is never chosen."""
    mechanism = luong if attention == "luong" else bahdanau
    options = {} if attention == "luong" else {"size": size}
    stack, head = RecurrentStack(2 * size, size, cell="gru" if cell == "gru" else "lstm"), TokenHead(size, VOCABULARY)
    with torch.no_grad():
        head.projection.bias[END] = -1000.0
    return RecurrentDecoder(
        TokenEmbedding(VOCABULARY, size),
        stack,
        head,
        Bridge(stack, stack, "zero"),
        attention=mechanism(query_size=size, memory_size=size, **options),
        readout="linear",
        layer_bias=False,
    )


Loops = dict[str, Callable[[], Tensor]]


def taught(decoder: RecurrentDecoder, wrapper: tfa.AttentionWrapper, size: Size) -> Loops:
    """Teacher forcing, from the memory to the log-probabilities of all steps."""
    ids = torch.randint(2, VOCABULARY, (size.batch, size.steps))
    source, mask = sources(size)
    compat = tfa.BasicDecoder(wrapper, tfa.TrainingSampler(), decoder.head)

    def in_house() -> Tensor:
        memory = decoder.prepare(Encoded(source, mask, ()))
        state, outputs = decoder.initial_state(memory), []
        for t in range(size.steps):
            output, state = decoder.step(ids[:, t], memory, state)
            assert output.log_probabilities is not None
            outputs.append(output.log_probabilities)
        return torch.stack(outputs, 1)

    def in_compat() -> Tensor:
        wrapper.attention_mechanisms[0].setup_memory(source, memory_mask=mask)
        state = wrapper.get_initial_state(batch_size=size.batch)
        outputs, _, _ = compat(decoder.embedding(ids), initial_state=state)
        result: Tensor = outputs.rnn_output
        return result

    return {"house": in_house, "compat": in_compat}


def greedy(decoder: RecurrentDecoder, wrapper: tfa.AttentionWrapper, size: Size) -> Loops:
    """Greedy decoding, from the memory to the log-probabilities of all steps."""
    source, mask = sources(size)
    compat = tfa.BasicDecoder(
        wrapper, tfa.GreedyEmbeddingSampler(decoder.embedding), decoder.head, maximum_iterations=size.steps
    )
    starts = torch.full((size.batch,), START)

    def in_house() -> Tensor:
        memory = decoder.prepare(Encoded(source, mask, ()))
        state, outputs, ids = decoder.initial_state(memory), [], starts
        for _ in range(size.steps):
            output, state = decoder.step(ids, memory, state)
            assert output.log_probabilities is not None
            outputs.append(output.log_probabilities)
            ids = output.log_probabilities.argmax(1)
            if bool((ids == END).all()):
                break
        return torch.stack(outputs, 1)

    def in_compat() -> Tensor:
        wrapper.attention_mechanisms[0].setup_memory(source, memory_mask=mask)
        state = wrapper.get_initial_state(batch_size=size.batch)
        outputs, _, _ = compat(None, start_tokens=starts, end_token=END, initial_state=state)
        result: Tensor = outputs.rnn_output
        return result

    return {"house": in_house, "compat": in_compat}


def beams(decoder: RecurrentDecoder, wrapper: tfa.AttentionWrapper, size: Size) -> Loops:
    """Beam search, from the memory to the scores of the last beam."""
    source, mask = sources(size)
    compat = tfa.BeamSearchDecoder(
        wrapper,
        BEAM,
        decoder.embedding,
        decoder.head.projection,
        length_penalty_weight=1.0,
        maximum_iterations=size.steps,
    )
    starts = torch.full((size.batch,), START)
    options = Search(beam=BEAM, num_best=BEAM, alpha=1.0, keep_finished=True)

    def in_house() -> Tensor:
        memory = decoder.prepare(Encoded(source, mask, ()))
        found = search(decoder, memory, options, bos=START, eos=END, max_length=size.steps)
        return torch.tensor([[each.score for each in row] for row in found])

    def in_compat() -> Tensor:
        wrapper.attention_mechanisms[0].setup_memory(
            tfa.tile_batch(source, BEAM), memory_mask=tfa.tile_batch(mask, BEAM)
        )
        state = wrapper.get_initial_state(batch_size=size.batch * BEAM)
        outputs, _, _ = compat(None, start_tokens=starts, end_token=END, initial_state=state)
        result: Tensor = outputs.beam_search_decoder_output.scores[:, -1]
        return result

    return {"house": in_house, "compat": in_compat}


def sources(size: Size) -> tuple[Tensor, Tensor]:
    """A memory and its mask."""
    lengths = torch.randint(1, size.source + 1, (size.batch,))
    return torch.randn(size.batch, size.source, size.size), torch.arange(size.source) < lengths[:, None]


def require_agreement(make: Callable[..., Loops], attention: str, cell: str, size: Size) -> None:
    """Compares the outputs of all loops in float64.

    In float32 near ties of an untrained model's beam fall either way, among the house's own two loops too.
    """
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        decoder, wrapper = speaker(attention, cell, size.size), ported(attention, cell, size.size)
        share(decoder, wrapper)
        with torch.no_grad():
            results = {name: run() for name, run in make(decoder, wrapper, size).items()}
        for result in results.values():
            torch.testing.assert_close(result.double(), results["house"].double(), rtol=1e-10, atol=1e-10)
    finally:
        torch.set_default_dtype(torch.float32)


def decoders(turns: int) -> None:
    """The table of decoders."""
    print("| decoder | sizes | pass | house | compat | ratio |\n|---|---|---|---|---|---|")
    for attention, cell, size in itertools.product(("bahdanau", "luong"), ("gru", "lstm"), SIZES):
        torch.manual_seed(0)
        decoder, wrapper = speaker(attention, cell, size.size), ported(attention, cell, size.size)
        share(decoder, wrapper)
        found, makers = (
            {},
            {"dynamic_decode, training": taught, "dynamic_decode, greedy": greedy, f"beam {BEAM}": beams},
        )
        for kind, make in makers.items():
            require_agreement(make, attention, cell, size)
            loops = make(decoder, wrapper, size)
            with torch.no_grad():
                found[f"{kind} | {size} | forward"] = timed(loops, turns)
            if kind.endswith("training"):
                both = {name: backward(run) for name, run in loops.items()}
                found[f"{kind} | {size} | forward and backward"] = timed(both, turns)
        for name, seconds in found.items():
            print(
                f"| {attention}, {cell}, {name} | {1e3 * seconds['house']:.1f} ms | "
                f"{1e3 * seconds['compat']:.1f} ms | {seconds['compat'] / seconds['house']:.2f} |",
                flush=True,
            )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15, help="of each loop")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=("wrappers", "decoders"), help="one of the tables")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, table in {"wrappers": wrappers, "decoders": decoders}.items():
        if options.only in (None, name):
            table(options.turns)


if __name__ == "__main__":
    main()
