"""Goldens of tensorflow-addons' AttentionWrapper with its options, and of TensorFlow 1's cells over sequences.

Program: tensorflow-addons 0.23.0 (`tfa.seq2seq`) on tensorflow-cpu 2.15.1 (`tf.keras.layers`, `tf.compat.v1.nn`) with
numpy 1.26.4, in the environment of `make.py`.

    OMP_NUM_THREADS=1 tfa/bin/python tests/golden/tensorflow_addons/make_wrappers.py

A wrapper is called step by step. Kept are its outputs and its whole state after every step: attention, alignments, all
tensors of the cell's state, and the history at the end. `tf.random.normal` plays no part.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from make import record, weights_of  # sets TensorFlow up
from record import BATCH, LENGTHS, MEMORY, SOURCE, draw
from tensorflow_addons import seq2seq

SIZE, INPUT, UNITS, STEPS = 5, 3, 4, 4
OTHER_SOURCE, OTHER_LENGTHS = 4, np.array([2, 4, 3])
layers = tf.keras.layers
v1 = tf.compat.v1.nn


def inputs_of(*further: str) -> dict[str, np.ndarray]:
    """What a wrapper gets: inputs, a memory with lengths, and what is named."""
    found = {"inputs": draw(7, BATCH, STEPS, INPUT), "memory": draw(2, BATCH, SOURCE, MEMORY), "lengths": LENGTHS}
    more = {
        "other_memory": draw(3, BATCH, OTHER_SOURCE, SIZE),
        "other_lengths": OTHER_LENGTHS,
        "h": draw(8, BATCH, SIZE, scale=0.5),
        "c": draw(9, BATCH, SIZE, scale=0.5),
        "h2": draw(10, BATCH, UNITS, scale=0.5),
    }
    return found | {name: more[name] for name in further}


def cell_weights(cell, prefix="cell"):
    """The weights of a cell of Keras, or of a stack of them."""
    if hasattr(cell, "cells"):
        return {
            name: value
            for number, inner in enumerate(cell.cells)
            for name, value in cell_weights(inner, f"{prefix}.{number}").items()
        }
    return {f"{prefix}.{name}": getattr(cell, name) for name in ("kernel", "recurrent_kernel", "bias")}


def wrapper_weights(wrapper):
    found = {}
    for number, mechanism in enumerate(wrapper._attention_mechanisms):
        kept = weights_of(mechanism)
        found |= {f"mechanism.{number}.{name.replace('.', '/')}": value for name, value in kept.items()}
    found |= cell_weights(wrapper._cell)
    for number, layer in enumerate(wrapper._attention_layers or []):
        found[f"layer.{number}.kernel"] = layer.kernel
        if layer.bias is not None:
            found[f"layer.{number}.bias"] = layer.bias
    return {name.replace("scale_weight", "attention_g"): value for name, value in found.items()}


def steps_of(wrapper, inputs, memory, lengths, other_memory=None, other_lengths=None, **first):
    """Outputs and states of all steps, and the history."""
    mechanisms = wrapper._attention_mechanisms
    mechanisms[0].setup_memory(memory, lengths)
    for mechanism in mechanisms[1:]:
        mechanism.setup_memory(other_memory, other_lengths)
    if first:
        names = {"h", "c"} & set(first)
        cell_state = [first["h"], first["c"]] if len(names) == 2 else first["h"]
        wrapper._initial_cell_state = ([first["h"], first["c"]], first["h2"]) if "h2" in first else cell_state
    state = wrapper.get_initial_state(batch_size=BATCH, dtype=memory.dtype)
    kept = []
    for step in tf.unstack(inputs, axis=1):
        output, state = wrapper(step, state)
        found = {"output": output, "attention": state.attention}
        found |= {f"alignment.{n}": value for n, value in enumerate(tf.nest.flatten(state.alignments))}
        found |= {f"attention_state.{n}": value for n, value in enumerate(tf.nest.flatten(state.attention_state))}
        found |= {f"cell.{n}": value for n, value in enumerate(tf.nest.flatten(state.cell_state))}
        kept.append(found)
    outputs = {name: tf.stack([found[name] for found in kept], 1) for name in kept[0]}
    if wrapper._alignment_history:
        histories = state.alignment_history if wrapper._is_multi else (state.alignment_history,)
        outputs |= {f"history.{n}": history.stack() for n, history in enumerate(histories)}
    return outputs


def tanh_of_both(inputs, attention):
    return tf.tanh(tf.concat([attention, 2.0 * inputs], -1))


def sharpened(mechanism, cell_output, state, layer):
    """An attention function of one's own: the layer sees the context first, and the state is kept."""
    alignments, state = mechanism([cell_output, state])
    context = tf.einsum("bs,bsm->bm", alignments**2, mechanism.values)
    return layer(tf.concat([context, cell_output], 1)), alignments, state


def wrappers():
    def luong(dtype, **options):
        return seq2seq.LuongAttention(SIZE, dtype=dtype, **options)

    def bahdanau(dtype, **options):
        return seq2seq.BahdanauAttention(UNITS, dtype=dtype, **options)

    def lstm(dtype, size=SIZE):
        return layers.LSTMCell(size, dtype=dtype)

    def gru(dtype, size=SIZE):
        return layers.GRUCell(size, dtype=dtype)

    def dense(dtype, units, activation=None, bias=True):
        return layers.Dense(units, activation, use_bias=bias, dtype=dtype)

    def wrapper(dtype, cell, mechanism, **options):
        return seq2seq.AttentionWrapper(cell, mechanism, dtype=dtype, **options)

    yield "no_layer", (), lambda d: wrapper(d, lstm(d), luong(d), alignment_history=True)
    yield (
        "layer_size",
        (),
        lambda d: wrapper(d, gru(d), bahdanau(d, normalize=True), attention_layer_size=UNITS, alignment_history=True),
    )
    yield (
        "layer_size_cell_output",
        (),
        lambda d: wrapper(d, lstm(d), bahdanau(d), attention_layer_size=7, output_attention=False),
    )
    yield (
        "layer_module",
        (),
        lambda d: wrapper(
            d, lstm(d), luong(d, scale=True), attention_layer=dense(d, 3, "tanh"), output_attention=False
        ),
    )
    yield "layer_linear", (), lambda d: wrapper(d, gru(d), luong(d), attention_layer=dense(d, SIZE, None, False))
    several = ("other_memory", "other_lengths")
    yield (
        "several_sizes",
        several,
        lambda d: wrapper(d, lstm(d), [luong(d), bahdanau(d)], attention_layer_size=[UNITS, 3], alignment_history=True),
    )
    yield (
        "several_no_layers",
        several,
        lambda d: wrapper(d, gru(d), [bahdanau(d), luong(d)], output_attention=False, alignment_history=True),
    )
    yield (
        "several_modules",
        several,
        lambda d: wrapper(
            d,
            gru(d),
            [luong(d), seq2seq.LuongMonotonicAttention(SIZE, mode="recursive", dtype=d)],
            attention_layer=[dense(d, 3), dense(d, 2, "tanh")],
        ),
    )
    yield (
        "stacked",
        ("h", "c", "h2"),
        lambda d: wrapper(
            d, layers.StackedRNNCells([lstm(d), gru(d, UNITS)], dtype=d), bahdanau(d), attention_layer_size=6
        ),
    )
    yield "initial_cell_state", ("h", "c"), lambda d: wrapper(d, lstm(d), luong(d), attention_layer_size=UNITS)
    yield (
        "cell_input_fn",
        ("h",),
        lambda d: wrapper(d, gru(d), bahdanau(d), attention_layer_size=UNITS, cell_input_fn=tanh_of_both),
    )
    yield (
        "attention_fn",
        (),
        lambda d: wrapper(d, lstm(d), luong(d), attention_layer_size=UNITS, attention_fn=sharpened),
    )
    yield (
        "hardmax",
        (),
        lambda d: wrapper(d, lstm(d), bahdanau(d, probability_fn="hardmax"), attention_layer_size=UNITS),
    )
    for mode in ("recursive", "parallel", "hard"):
        yield (
            f"bahdanau_monotonic_{mode}",
            (),
            lambda d, mode=mode: wrapper(
                d,
                lstm(d),
                seq2seq.BahdanauMonotonicAttention(UNITS, normalize=True, mode=mode, dtype=d),
                attention_layer_size=UNITS,
                alignment_history=True,
            ),
        )
        yield (
            f"luong_monotonic_{mode}",
            (),
            lambda d, mode=mode: wrapper(
                d, gru(d), seq2seq.LuongMonotonicAttention(SIZE, scale=True, mode=mode, dtype=d), output_attention=False
            ),
        )


def cells():
    """Cells of TensorFlow 1 and of Keras, over sequences."""
    rnn = v1.rnn_cell
    yield "rnn", lambda d: rnn.BasicRNNCell(SIZE, dtype=d)
    yield "gru", lambda d: rnn.GRUCell(SIZE, dtype=d)
    yield "lstm", lambda d: rnn.LSTMCell(SIZE, dtype=d)
    yield "basic_lstm", lambda d: rnn.BasicLSTMCell(SIZE, forget_bias=0.5, dtype=d)
    yield "keras_lstm", lambda d: layers.LSTMCell(SIZE, dtype=d)
    yield "keras_gru", lambda d: layers.GRUCell(SIZE, dtype=d)
    yield "keras_gru_reset_before", lambda d: layers.GRUCell(SIZE, reset_after=False, dtype=d)
    yield (
        "multi_residual",
        lambda d: rnn.MultiRNNCell(
            [
                rnn.GRUCell(INPUT, dtype=d, name="cell_0"),
                rnn.ResidualWrapper(rnn.LSTMCell(INPUT, dtype=d, name="cell_1")),
            ]
        ),
    )


def unrolled(cell, inputs, lengths):
    outputs, state = v1.dynamic_rnn(cell, inputs, sequence_length=lengths, dtype=inputs.dtype)
    return {"output": outputs} | {f"state.{n}": value for n, value in enumerate(tf.nest.flatten(state))}


def of_cell(cell):
    """Weights by a cell's own names."""
    inner = getattr(cell, "_cells", None)
    if inner is not None:
        return {f"{n}.{name}": value for n, part in enumerate(inner) for name, value in of_cell(part).items()}
    if hasattr(cell, "cell"):  # a wrapper
        return of_cell(cell.cell)
    if hasattr(cell, "_gate_kernel"):
        return {
            "gates/kernel": cell._gate_kernel,
            "gates/bias": cell._gate_bias,
            "candidate/kernel": cell._candidate_kernel,
            "candidate/bias": cell._candidate_bias,
        }
    if hasattr(cell, "_kernel"):
        return {"kernel": cell._kernel, "bias": cell._bias}
    return {name: getattr(cell, name) for name in ("kernel", "recurrent_kernel", "bias")}


def both_ways(pair, inputs, lengths):
    outputs, states = v1.bidirectional_dynamic_rnn(*pair, inputs, sequence_length=lengths, dtype=inputs.dtype)
    found = {f"output.{n}": value for n, value in enumerate(outputs)}
    return found | {f"state.{n}": value for n, value in enumerate(tf.nest.flatten(states))}


def wrapper_unrolled(wrapper, inputs, memory, lengths, steps):
    """A wrapper in dynamic_rnn, with sequences of different lengths."""
    wrapper._attention_mechanisms[0].setup_memory(memory, lengths)
    outputs, state = v1.dynamic_rnn(
        wrapper,
        inputs,
        sequence_length=steps,
        initial_state=wrapper.get_initial_state(batch_size=BATCH, dtype=memory.dtype),
    )
    return {
        "output": outputs,
        "attention": state.attention,
        "alignment": state.alignments,
        "cell.0": state.cell_state[0],
        "cell.1": state.cell_state[1],
    }


def main() -> None:
    for name, further, build in wrappers():
        changed = {}
        if "monotonic" in name:
            changed = {"mechanism.0.attention_score_bias": np.asarray(-0.4, np.float32)}
        record(f"wrapper/{name}", build, steps_of, inputs_of(*further), wrapper_weights, changed)
    sequences = {"inputs": draw(7, BATCH, STEPS, INPUT), "lengths": np.array([4, 2, 0])}
    for name, build in cells():
        record(f"cells/{name}", build, unrolled, sequences, of_cell)
    record(
        "cells/bidirectional",
        lambda d: (v1.rnn_cell.GRUCell(SIZE, dtype=d), v1.rnn_cell.LSTMCell(UNITS, dtype=d)),
        both_ways,
        sequences,
        lambda pair: {f"{n}.{name}": value for n, cell in enumerate(pair) for name, value in of_cell(cell).items()},
    )
    record(
        "wrapper/unrolled",
        lambda d: seq2seq.AttentionWrapper(
            layers.LSTMCell(SIZE, dtype=d), seq2seq.LuongAttention(SIZE, dtype=d), attention_layer_size=UNITS, dtype=d
        ),
        wrapper_unrolled,
        inputs_of() | {"steps": np.array([4, 1, 0])},
        wrapper_weights,
    )


if __name__ == "__main__":
    main()
