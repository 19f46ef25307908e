"""What the calls of pytorch-seq2seq and of `legacy_seq2seq` cost beside the house's own, for the same mathematics.

python benchmarks/compat_older.py [--turns 15]

`DecoderRNN` beside `RecurrentDecoder` with the same weights, over a given target (one call each) and step by step with
the most probable symbol fed; `AttentionDecoder` beside a loop of its cell, its mechanism and its two layers, as one
would write it here. Both return their weights of attention. They are called in turns in one process; outputs have to be
equal to 1e-5 before anything is timed. The ratio is that of the medians of CPU time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from compat import SIZES, Size, backward, timed
from torch import Tensor, nn

from regard.attention import luong
from regard.interop import ibm, legacy_seq2seq
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, Encoded, RecurrentDecoder

SYMBOLS = 1000

Loops = dict[str, Callable[[], Tensor]]


def house_of(decoder: ibm.DecoderRNN, cell: str) -> RecurrentDecoder:
    """The house's decoder with the same weights: recur, attend, tanh; nothing is fed back."""
    size = decoder.hidden_size
    stack = RecurrentStack(size, size, cell="lstm" if cell == "lstm" else "gru")
    mine = RecurrentDecoder(
        TokenEmbedding(SYMBOLS, size, padding=None),
        stack,
        TokenHead(size, SYMBOLS),
        Bridge(stack, stack, "copy"),
        attention=luong(query_size=size, memory_size=size, score="dot"),
        input_feeding=False,
    )
    own = decoder.state_dict()
    context, state = own["attention.linear_out.weight"].chunk(2, 1)
    mine.load_state_dict(
        {f"stack.layers.0.{name[4:]}": value for name, value in own.items() if name.startswith("rnn.")}
        | {"embedding.table.weight": own["embedding.weight"]}
        | {"readout.weight": torch.cat([state, context], 1), "readout.bias": own["attention.linear_out.bias"]}
        | {"head.projection.weight": own["out.weight"], "head.projection.bias": own["out.bias"]}
    )
    return mine


def ibm_loops(cell: str, size: Size) -> dict[str, Loops]:
    """A forced pass and a free run."""
    decoder = ibm.DecoderRNN(SYMBOLS, size.steps, size.size, 1, 2, rnn_cell=cell, use_attention=True)
    mine = house_of(decoder, cell)
    source, first = torch.randn(size.batch, size.source, size.size), torch.randn(2, size.batch, size.size)
    mask = torch.arange(size.source) < torch.randint(1, size.source + 1, (size.batch,))[:, None]
    states = (first[0], first[1]) if cell == "lstm" else (first[0],)
    encoded = Encoded(source, mask, (states,))
    hidden = (first[:1], first[1:]) if cell == "lstm" else first[:1]
    ids = torch.randint(3, SYMBOLS, (size.batch, size.steps + 1))

    def forced_in_house() -> Tensor:
        output = mine(ids[:, :-1], mine.prepare(encoded), alignment=True)
        assert output.log_probabilities is not None
        return output.log_probabilities

    def forced_in_compat() -> Tensor:
        outputs, _, _ = decoder(ids, hidden, source, teacher_forcing_ratio=1, mask=mask)
        return torch.stack(outputs, 1)

    def free_in_house() -> Tensor:
        memory = mine.prepare(encoded)
        state, fed, outputs = mine.initial_state(memory), ids[:, 0], []
        for _ in range(size.steps):
            output, state = mine.step(fed, memory, state, alignment=True)
            assert output.log_probabilities is not None
            outputs.append(output.log_probabilities)
            fed = outputs[-1].argmax(-1)
        return torch.stack(outputs, 1)

    def free_in_compat() -> Tensor:
        outputs, _, _ = decoder(ids, hidden, source, mask=mask)
        return torch.stack(outputs, 1)

    return {
        f"DecoderRNN, {cell}, given target": {"house": forced_in_house, "compat": forced_in_compat},
        f"DecoderRNN, {cell}, free run": {"house": free_in_house, "compat": free_in_compat},
    }


def legacy_loops(num_heads: int, size: Size) -> dict[str, Loops]:
    """`attention_decoder`."""
    width = size.size
    cell = nn.LSTMCell(width, width)
    decoder = legacy_seq2seq.AttentionDecoder(cell, num_heads=num_heads, input_size=width, attention_size=width)
    source, inputs = torch.randn(size.batch, size.source, width), torch.randn(size.steps, size.batch, width)
    mask = torch.arange(size.source) < torch.randint(1, size.source + 1, (size.batch,))[:, None]
    first = (torch.randn(size.batch, width), torch.randn(size.batch, width))
    attention, enter, leave = decoder.attention, decoder.input_layer, decoder.output_layer

    def in_house() -> Tensor:
        memory = attention.prepare(source, mask=mask)
        state, hidden, outputs = attention.initial_state(memory), first, []
        context = source.new_zeros(size.batch, attention.context_size)
        for x in inputs:
            hidden = cell(enter(torch.cat([x, context], -1)), hidden)
            attended, state = attention.step(torch.cat(hidden, -1), memory, state, alignment=True)
            context = attended.context
            outputs.append(leave(torch.cat([hidden[0], context], -1)))
        return torch.stack(outputs, 1)

    def in_compat() -> Tensor:
        outputs, _, _ = decoder(list(inputs), first, source, mask=mask)
        return torch.stack(outputs, 1)

    return {f"AttentionDecoder, {num_heads} heads": {"house": in_house, "compat": in_compat}}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15, help="of each loop")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| call | sizes | pass | house | compat | ratio |\n|---|---|---|---|---|---|")
    for size in SIZES:
        torch.manual_seed(0)
        cases = ibm_loops("gru", size) | ibm_loops("lstm", size) | legacy_loops(1, size) | legacy_loops(3, size)
        for name, loops in cases.items():
            with torch.no_grad():
                difference = float((loops["house"]() - loops["compat"]()).abs().max())
                assert difference < 1e-5, (name, difference)
                found = {"forward": timed(loops, options.turns)}
            found["forward and backward"] = timed({key: backward(run) for key, run in loops.items()}, options.turns)
            for kind, seconds in found.items():
                print(
                    f"| {name} | {size} | {kind} | {1e3 * seconds['house']:.1f} ms | "
                    f"{1e3 * seconds['compat']:.1f} ms | {seconds['compat'] / seconds['house']:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
