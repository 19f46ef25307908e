"""Goldens of TensorFlow Addons' seq2seq attention.

Program: tensorflow-addons 0.23.0 (`tfa.seq2seq`) on tensorflow-cpu 2.15.1 with numpy 1.26.4.

    python3.11 -m venv tfa
    tfa/bin/pip install tensorflow-cpu==2.15.1 tensorflow-addons==0.23.0 numpy==1.26.4
    OMP_NUM_THREADS=1 tfa/bin/python tests/golden/tensorflow_addons/make.py

A mechanism is asked step by step with the state it returned before; the context is what AttentionWrapper makes of it
without an attention layer. Recursive monotonic attention writes float32 zeros and ones whatever its input, so for
float64 `tf.zeros` and `tf.ones` give float64. `parallel_long` keeps what the parallel form does to 200 positions.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow_addons import seq2seq
from tensorflow_addons.seq2seq.attention_wrapper import _compute_attention

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, PRECISIONS, QUERY, STEPS, decoder_inputs, draw, draw_probes, draw_weights, save

SIZE, INPUT = 4, 3


def weights_of(mechanism):
    layers = {"query_layer": mechanism.query_layer, "memory_layer": mechanism.memory_layer}
    found = {f"{name}.kernel": layer.kernel for name, layer in layers.items() if layer is not None}
    for name in ("attention_v", "attention_g", "attention_b", "attention_score_bias", "scale_weight"):
        if (value := getattr(mechanism, name, None)) is not None:
            found[name] = value
    return found


def attend(mechanism, queries, memory, lengths):
    """Contexts and alignments of a mechanism alone."""
    mechanism([memory, lengths], setup_memory=True)
    state = mechanism.initial_state(BATCH, memory.dtype)
    contexts, alignments = [], []
    for query in tf.unstack(queries, axis=1):
        context, alignment, state = _compute_attention(mechanism, query, state, None)
        contexts.append(context)
        alignments.append(alignment)
    return {"context": tf.stack(contexts, 1), "alignment": tf.stack(alignments, 1)[:, None]}


def record(path, build, run, inputs, collect=weights_of, changed=None):
    """The same numbers through float32 and float64."""
    weights, probes, outputs, gradients = {}, {}, {}, {}
    before = tf.ones, tf.zeros
    for precision in PRECISIONS:
        dtype = tf.as_dtype(precision)
        if precision == "float64":
            tf.ones, tf.zeros = (lambda shape, dtype=dtype, make=make: make(shape, dtype) for make in before)
        tf.keras.backend.set_floatx(precision)
        given = {
            name: tf.constant(value, dtype if value.dtype == np.float32 else tf.int32) for name, value in inputs.items()
        }
        original = build(precision)
        run(original, **given)
        kept = collect(original)
        weights = draw_weights({name: tuple(value.shape) for name, value in kept.items()}) | (changed or {})
        for name, value in kept.items():
            value.assign(weights[name].astype(precision))
        leaves = {name: value for name, value in given.items() if value.dtype == dtype} | kept
        with tf.GradientTape() as tape:
            for value in leaves.values():
                tape.watch(value)
            got = run(original, **given)
            probes = probes or draw_probes({name: value.numpy() for name, value in got.items()})
            probe = tf.add_n([tf.reduce_sum(got[name] * tf.constant(r, dtype)) for name, r in probes.items()])
        found = tape.gradient(probe, list(leaves.values()), unconnected_gradients="zero")
        outputs[precision] = {name: value.numpy() for name, value in got.items()}
        gradients[precision] = {
            name: tf.convert_to_tensor(value).numpy() for name, value in zip(leaves, found, strict=True)
        }
        tf.ones, tf.zeros = before
    save(f"tensorflow_addons/{path}", inputs, weights, probes, outputs, gradients)


def wrapped(wrapper, inputs, memory, lengths):
    """AttentionWrapper for some steps from its initial state: the cell, then attention, then the attention layer.

    `output` is what the wrapper gives out: the attention layer's output, or the cell's with `output_attention=False`.
    """
    wrapper._attention_mechanisms[0]([memory, lengths], setup_memory=True)
    state = wrapper.get_initial_state(batch_size=BATCH, dtype=memory.dtype)
    kept = {"output": [], "alignment": [], "state": []}
    for step in tf.unstack(inputs, axis=1):
        output, state = wrapper(step, state)
        kept["output"].append(output)
        kept["alignment"].append(state.alignments)
        kept["state"].append(tf.nest.flatten(state.cell_state)[0])
    stacked = {name: tf.stack(values, 1) for name, values in kept.items()}
    stacked["alignment"] = stacked["alignment"][:, None]
    return stacked


def wrapper_weights(wrapper):
    found = {f"mechanism.{name}": value for name, value in weights_of(wrapper._attention_mechanisms[0]).items()}
    cell = wrapper._cell
    found |= {f"cell.{name}": getattr(cell, name) for name in ("kernel", "recurrent_kernel", "bias")}
    if wrapper._attention_layers:
        found["attention_layer.kernel"] = wrapper._attention_layers[0].kernel
    return found


def monotonic_long() -> None:
    """The parallel form against the recursion on 200 positions, from the first step on: sums and largest difference."""
    choose = np.random.default_rng(0).uniform(0.1, 0.9, (4, 200)).astype(np.float32)
    previous = np.full((4, 200), 1 / 200, np.float32)
    outputs = {}
    for precision in PRECISIONS:
        p, before = tf.constant(choose.astype(precision)), tf.constant(previous.astype(precision))
        exact = np.zeros_like(p.numpy(), dtype=np.float64)
        carried = np.zeros(4)
        for j in range(200):
            stay = 1.0 if j == 0 else 1.0 - choose[:, j - 1].astype(np.float64)
            carried = stay * carried + previous[:, j].astype(np.float64)
            exact[:, j] = choose[:, j].astype(np.float64) * carried
        parallel = seq2seq.monotonic_attention(p, before, "parallel").numpy()
        outputs[precision] = {
            "mass_parallel": parallel.sum(1),
            "mass_exact": exact.sum(1).astype(precision),
            "largest_difference": np.abs(parallel - exact).max(1).astype(precision),
        }
    inputs = {"choose": choose, "previous": previous}
    save("tensorflow_addons/parallel_long", inputs, {}, {}, outputs, {precision: {} for precision in PRECISIONS})


def main() -> None:
    inputs = decoder_inputs()

    def luong(**options):
        return lambda dtype: seq2seq.LuongAttention(QUERY, dtype=dtype, **options)

    def bahdanau(**options):
        return lambda dtype: seq2seq.BahdanauAttention(SIZE, dtype=dtype, **options)

    record("luong", luong(), attend, inputs)
    record("luong_scale", luong(scale=True), attend, inputs)
    record("luong_hardmax", luong(probability_fn="hardmax"), attend, inputs)
    record("bahdanau", bahdanau(), attend, inputs)
    record("bahdanau_normalize", bahdanau(normalize=True), attend, inputs)
    bias = {"attention_score_bias": np.asarray(-0.4, np.float32)}
    for mode in ("recursive", "parallel", "hard"):
        options = {"mode": mode, "score_bias_init": -0.4, "sigmoid_noise": 0.0}
        record(
            f"bahdanau_monotonic_{mode}",
            lambda dtype, options=options: seq2seq.BahdanauMonotonicAttention(
                SIZE, normalize=True, dtype=dtype, **options
            ),
            attend,
            inputs,
            changed=bias,
        )
        record(
            f"luong_monotonic_{mode}",
            lambda dtype, options=options: seq2seq.LuongMonotonicAttention(QUERY, scale=True, dtype=dtype, **options),
            attend,
            inputs,
            changed=bias,
        )
    monotonic_long()
    fed = {"inputs": draw(7, BATCH, STEPS, INPUT), "memory": inputs["memory"], "lengths": inputs["lengths"]}

    def wrapper(mechanism, cell, layer, **options):
        def build(dtype):
            if layer is not None:
                options["attention_layer"] = tf.keras.layers.Dense(QUERY, layer, use_bias=False, dtype=dtype)
            return seq2seq.AttentionWrapper(cell(QUERY, dtype=dtype), mechanism(dtype), dtype=dtype, **options)

        return build

    cells = tf.keras.layers
    for name, build in {
        "wrapper_luong_lstm": wrapper(luong(), cells.LSTMCell, "linear"),
        "wrapper_luong_lstm_tanh": wrapper(luong(), cells.LSTMCell, "tanh"),
        "wrapper_bahdanau_gru": wrapper(bahdanau(), cells.GRUCell, None, output_attention=False),
    }.items():
        record(name, build, wrapped, fed, wrapper_weights)


if __name__ == "__main__":
    main()
