"""Goldens of TensorFlow Addons' decoders, samplers, beam search and sequence loss.

Program: tensorflow-addons 0.23.0 (`tfa.seq2seq`) on tensorflow-cpu 2.15.1 with numpy 1.26.4.

    python3.11 -m venv tfa
    tfa/bin/pip install tensorflow-cpu==2.15.1 tensorflow-addons==0.23.0 numpy==1.26.4
    OMP_NUM_THREADS=1 tfa/bin/python tests/golden/tensorflow_addons/make_decoding.py

The cell is a plain tanh RNN, alone or in an AttentionWrapper (Luong, an attention layer), so that a test can say its
mathematics in a few lines. Beam search asks for float32 outright, so for float64 `tf.float32` is `tf.float64`. The name
of an output is the case, then what it is: `w3_both.scores`.

Beams have a batch and, as `alone`, each of its sentences by itself: the original goes on to rank a finished sentence
while others go on, as in `decode_beam_early`. Alignment histories are kept as the original returns them, one choice
late, and ids as it traces them, from the last step that its lengths say: `regard.interop.tfa` differs there on purpose.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow_addons import seq2seq

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import PRECISIONS, draw, draw_probes, save

BATCH, SOURCE, TOKENS, EMBEDDED, SIZE, MEMORY, ATTENTION = 4, 6, 9, 4, 5, 6, 5
START, END = 0, 1
LENGTHS = np.array([6, 5, 3, 6])
WIDTHS = (1, 3, 5)
PENALTIES = {"none": (0.0, 0.0), "length": (1.0, 0.0), "both": (0.7, 0.4)}
STEPS = 7


def both(path, inputs, weights, run, differentiable=()):
    """Runs in both precisions; gradients of the probe with respect to the named inputs and weights."""
    probes, outputs, gradients, single = {}, {}, {}, tf.float32
    for precision in PRECISIONS:
        dtype = tf.as_dtype(precision)
        tf.float32 = dtype
        tf.keras.backend.set_floatx(precision)
        given = {
            name: tf.Variable(value.astype(precision)) if value.dtype == np.float32 else value
            for name, value in (inputs | weights).items()
        }
        with tf.GradientTape(persistent=True) as tape:
            got = run(dtype, **given)
            floats = {name: value for name, value in got.items() if value.dtype == dtype} if differentiable else {}
            probes = probes or draw_probes({name: value.numpy() for name, value in floats.items()})
            terms = [tf.reduce_sum(floats[name] * tf.constant(r, dtype)) for name, r in probes.items()]
            probe = tf.add_n(terms or [tf.zeros([], dtype)])
        found = tape.gradient(probe, [given[name] for name in differentiable], unconnected_gradients="zero")
        arrays = {name: np.asarray(value) for name, value in got.items()}
        outputs[precision] = {
            n: value.astype(np.int32) if value.dtype == bool else value for n, value in arrays.items()
        }
        gradients[precision] = {
            name: tf.convert_to_tensor(value).numpy() for name, value in zip(differentiable, found, strict=True)
        }
        tf.float32 = single
    save(f"tensorflow_addons/{path}", inputs, weights, probes, outputs, gradients)


class Cell(tf.keras.layers.Layer):
    """h' = tanh(x W + h U + b), which is its output."""

    def __init__(self, kernel, recurrent, bias):
        super().__init__()
        self.matrices = (kernel, recurrent, bias)
        self.state_size = self.output_size = SIZE

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return tf.zeros([batch_size, SIZE], dtype)

    def call(self, inputs, state, training=None):
        kernel, recurrent, bias = self.matrices
        new = tf.tanh(inputs @ kernel + state @ recurrent + bias)
        return new, new


class Linear(tf.keras.layers.Layer):
    """x W + b."""

    def __init__(self, kernel, bias=0.0):
        super().__init__()
        self.matrices = (kernel, bias)

    def call(self, inputs):
        return tf.tensordot(inputs, self.matrices[0], 1) + self.matrices[1]

    def compute_output_shape(self, shape):
        return tf.TensorShape(shape[:-1]).concatenate(self.matrices[0].shape[1])


def cell_weights(inputs):
    return {
        "kernel": draw(11, inputs, SIZE, scale=0.6),
        "recurrent": draw(12, SIZE, SIZE, scale=0.6),
        "bias": draw(13, SIZE, scale=0.6),
        "output": draw(14, SIZE, TOKENS),
        "output_bias": draw(15, TOKENS, scale=0.6),
    }


CELL = ("kernel", "recurrent", "bias")


def training():
    """Teacher forcing: lengths with a 0 among them, with and without impute_finished, cut, and time-major."""
    inputs = {"inputs": draw(1, 3, 5, EMBEDDED), "state": draw(2, 3, SIZE), "lengths": np.array([4, 0, 2], np.int32)}

    def run(dtype, inputs, state, lengths, kernel, recurrent, bias, output, output_bias):
        cases = {
            "plain": {},
            "imputed": {"impute_finished": True},
            "cut": {"maximum_iterations": 3, "impute_finished": True},
            "time_major": {"output_time_major": True, "impute_finished": True},
        }
        got = {}
        for name, options in cases.items():
            by_time = name == "time_major"
            decoder = seq2seq.BasicDecoder(
                Cell(kernel, recurrent, bias), seq2seq.TrainingSampler(by_time), Linear(output, output_bias), **options
            )
            fed = tf.transpose(inputs, [1, 0, 2]) if by_time else inputs
            said, last, reached = decoder(
                tf.convert_to_tensor(fed), initial_state=tf.convert_to_tensor(state), sequence_length=lengths
            )
            got |= {f"{name}.rnn_output": said.rnn_output, f"{name}.sample_id": said.sample_id}
            got |= {f"{name}.state": last, f"{name}.lengths": reached}
        return got

    weights = cell_weights(EMBEDDED)
    both("decode_training", inputs, weights, run, ("inputs", "state", *weights))


def greedy():
    """Greedy decoding from start tokens, with and without impute_finished."""
    inputs = {"state": draw(22, BATCH, SIZE), "embedding": draw(23, TOKENS, EMBEDDED)}
    weights = cell_weights(EMBEDDED)
    weights["output_bias"][END] += 0.3

    def run(dtype, state, embedding, kernel, recurrent, bias, output, output_bias):
        got = {}
        for name, options in {"plain": {}, "imputed": {"impute_finished": True}}.items():
            decoder = seq2seq.BasicDecoder(
                Cell(kernel, recurrent, bias),
                seq2seq.GreedyEmbeddingSampler(),
                Linear(output, output_bias),
                maximum_iterations=STEPS,
                **options,
            )
            start = {"start_tokens": tf.fill([BATCH], START), "end_token": END}
            said, last, reached = decoder(embedding, initial_state=tf.convert_to_tensor(state), **start)
            got |= {f"{name}.rnn_output": said.rnn_output, f"{name}.sample_id": said.sample_id}
            got |= {f"{name}.state": last, f"{name}.lengths": reached}
        return got

    both("decode_greedy", inputs, weights, run, ("state", "embedding", *weights))


def wrapper(memory, lengths, weights):
    mechanism = seq2seq.LuongAttention(SIZE, dtype=memory.dtype)
    mechanism.memory_layer = Linear(weights["memory_layer"])
    mechanism([memory, lengths], setup_memory=True)
    return seq2seq.AttentionWrapper(
        Cell(*(weights[name] for name in CELL)),
        mechanism,
        attention_layer=Linear(weights["attention_layer"]),
        alignment_history=True,
        dtype=memory.dtype,
    )


def attention_weights():
    return cell_weights(EMBEDDED + ATTENTION) | {
        "memory_layer": draw(16, MEMORY, SIZE, scale=0.8),
        "attention_layer": draw(17, SIZE + MEMORY, ATTENTION, scale=0.6),
        "embedding": draw(18, TOKENS, EMBEDDED),
    }


def attended():
    """Teacher forcing with attention and impute_finished: every part of the wrapper's state is copied through."""
    weights = attention_weights()
    del weights["embedding"]
    inputs = {
        "memory": draw(61, BATCH, SOURCE, MEMORY),
        "state": draw(62, BATCH, SIZE),
        "inputs": draw(63, BATCH, 5, EMBEDDED),
        "lengths": LENGTHS,
        "steps": np.array([5, 2, 0, 4], np.int32),
    }

    def run(dtype, memory, state, inputs, lengths, steps, **weights):
        cell = wrapper(tf.convert_to_tensor(memory), lengths, weights)
        got = {}
        for name, options in {"plain": {}, "imputed": {"impute_finished": True}}.items():
            initial = cell.get_initial_state(batch_size=BATCH, dtype=dtype)  # its TensorArray is written in place
            initial = initial.clone(cell_state=tf.convert_to_tensor(state))
            layer = Linear(weights["output"], weights["output_bias"])
            decoder = seq2seq.BasicDecoder(cell, seq2seq.TrainingSampler(), layer, **options)
            said, last, reached = decoder(tf.convert_to_tensor(inputs), initial_state=initial, sequence_length=steps)
            got |= {f"{name}.rnn_output": said.rnn_output, f"{name}.sample_id": said.sample_id}
            got |= {f"{name}.{key}": getattr(last, key) for key in ("cell_state", "attention", "alignments")}
            got |= {f"{name}.history": last.alignment_history.stack(), f"{name}.lengths": reached}
        return got

    both("decode_attention", inputs, weights, run, ("memory", "state", "inputs", *weights))


def beam(path, seed, ends, widths, penalties):
    """Beams of some widths and penalties, of a batch and of each sentence alone."""
    weights = attention_weights()
    weights["output_bias"][END] += ends
    inputs = {"memory": draw(seed, BATCH, SOURCE, MEMORY), "state": draw(seed + 1, BATCH, SIZE), "lengths": LENGTHS}

    def search(memory, state, lengths, width, penalties, weights, **options):
        rows = memory.shape[0]
        cell = wrapper(seq2seq.tile_batch(memory, width), seq2seq.tile_batch(lengths, width), weights)
        initial = cell.get_initial_state(batch_size=rows * width, dtype=memory.dtype)
        initial = initial.clone(cell_state=seq2seq.tile_batch(state, width))
        decoder = seq2seq.BeamSearchDecoder(
            cell,
            width,
            output_layer=Linear(weights["output"], weights["output_bias"]),
            length_penalty_weight=tf.constant(penalties[0], memory.dtype),
            coverage_penalty_weight=tf.constant(penalties[1], memory.dtype),
            maximum_iterations=STEPS,
            **options,
        )
        return decoder(weights["embedding"], start_tokens=tf.fill([rows], START), end_token=END, initial_state=initial)

    def run(dtype, memory, state, lengths, **weights):
        got = {}
        for width, name in itertools.product(widths, penalties):
            said, last, _ = search(memory, state, lengths, width, PENALTIES[name], weights)
            steps = said.beam_search_decoder_output
            kept = {
                "ids": said.predicted_ids,
                "scores": steps.scores,
                "step_ids": steps.predicted_ids,
                "parents": steps.parent_ids,
                "log_probs": last.log_probs,
                "finished": last.finished,
                "lengths": last.lengths,
                "history": last.cell_state.alignment_history,
                "cell": last.cell_state.cell_state,
            }
            if PENALTIES[name][1]:
                kept["accumulated"] = last.accumulated_attention_probs
            got |= {f"w{width}_{name}.{key}": tf.convert_to_tensor(value) for key, value in kept.items()}
            for b in range(BATCH):
                alone, last, _ = search(
                    memory[b : b + 1], state[b : b + 1], lengths[b : b + 1], width, PENALTIES[name], weights
                )
                got[f"w{width}_{name}.alone{b}.ids"] = alone.predicted_ids
                got[f"w{width}_{name}.alone{b}.scores"] = alone.beam_search_decoder_output.scores[:, -1]
                got[f"w{width}_{name}.alone{b}.finished"] = last.finished
        return got

    both(path, inputs, weights, run)


def gathering():
    """gather_tree and gather_tree_from_array on drawn beams, with lengths that end early."""
    generator = np.random.default_rng(5)
    inputs = {
        "step_ids": generator.integers(0, 6, (7, 4, 3)).astype(np.int32),
        "parent_ids": generator.integers(0, 3, (7, 4, 3)).astype(np.int32),
        "max_lengths": np.array([7, 5, 2, 9], np.int32),
        "lengths": np.array([[7, 5, 3], [5, 1, 2], [2, 2, 0], [6, 7, 7]], np.int32),
        "array": draw(6, 7, 12, 2),
    }

    def run(dtype, step_ids, parent_ids, max_lengths, lengths, array):
        return {
            "ids": seq2seq.gather_tree(step_ids, parent_ids, max_lengths, 4),
            "gathered": seq2seq.gather_tree_from_array(array, parent_ids, lengths),
        }

    both("gather_tree", inputs, {}, run)


MODES = {
    "mean": (True, True, False, False),
    "mean_time": (True, False, False, False),
    "mean_batch": (False, True, False, False),
    "sum": (False, False, True, True),
    "sum_time": (False, False, True, False),
    "sum_batch": (False, False, False, True),
    "none": (False, False, False, False),
}


def loss():
    """sequence_loss in all modes: targets as ids and as distributions, the softmax of `soft`; weights are 0 in a row
    and a column. (The original's gradient takes distributions to sum to 1.)"""
    generator = np.random.default_rng(7)
    weights = generator.uniform(0.2, 2.0, (3, 4)).astype(np.float32)
    weights[1, 2:] = weights[2] = weights[:, 3] = 0
    inputs = {
        "logits": draw(31, 3, 4, 5),
        "targets": generator.integers(0, 5, (3, 4)).astype(np.int32),
        "weights": weights,
        "soft": draw(32, 3, 4, 5),
    }

    def run(dtype, logits, targets, weights, soft):
        got = {}
        for name, flags in MODES.items():
            for kind, labels in {"ids": targets, "soft": tf.nn.softmax(soft)}.items():
                got[f"{name}.{kind}"] = seq2seq.sequence_loss(
                    tf.convert_to_tensor(logits), tf.convert_to_tensor(labels), tf.convert_to_tensor(weights), *flags
                )
        got["class"] = seq2seq.SequenceLoss()(targets, tf.convert_to_tensor(logits), tf.convert_to_tensor(weights))
        return got

    both("sequence_loss", inputs, {}, run, ("logits", "weights", "soft"))


def samplers():
    """What the samplers feed next, with drawn and with certain samples."""
    inputs = {
        "inputs": draw(41, 3, 4, 2),
        "auxiliary": draw(42, 3, 4, 3),
        "outputs": draw(43, 3, 5),
        "narrow": draw(44, 3, 2),
        "embedding": draw(45, 5, 2),
        "ids": np.array([3, -1, 2], np.int32),
        "chosen": np.array([1, 0, 1], np.int32),
        "lengths": np.array([4, 0, 2], np.int32),
        "mask": np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]], bool),
    }

    def run(dtype, inputs, auxiliary, outputs, narrow, embedding, ids, chosen, lengths, mask):
        fed, more, said, short, table = map(tf.convert_to_tensor, (inputs, auxiliary, outputs, narrow, embedding))
        got = {}

        def follow(name, sampler, arguments, steps, outputs, samples):
            first = sampler.initialize(**arguments)
            finished, following, said = [first[0]], [first[1]], []
            for time in steps:
                said.append(sampler.sample(time, outputs, None) if samples is None else samples)
                over, fed, _ = sampler.next_inputs(time, outputs, None, said[-1])
                finished.append(over)
                following.append(fed)
            got[f"{name}.finished"], got[f"{name}.inputs"] = tf.stack(finished), tf.stack(following)
            got[f"{name}.samples"] = tf.stack(said)

        given = {"inputs": fed, "sequence_length": lengths}
        follow("training", seq2seq.TrainingSampler(), given, range(4), said, None)
        follow("masked", seq2seq.TrainingSampler(), {"inputs": fed, "mask": mask}, range(2), said, None)
        follow("whole", seq2seq.TrainingSampler(), {"inputs": fed}, range(4), said, None)
        by_time = {"inputs": tf.transpose(fed, [1, 0, 2]), "sequence_length": lengths}
        follow("time_major", seq2seq.TrainingSampler(True), by_time, range(2), said, None)
        certain = said * 1e4
        for name, probability, samples in (("drawn", 0.5, ids), ("always", 1.0, None), ("never", 0.0, None)):
            sampler = seq2seq.ScheduledEmbeddingTrainingSampler(tf.constant(probability, dtype))
            follow(f"embedded_{name}", sampler, given | {"embedding": table}, range(4), certain, samples)
        for name, probability, samples in (("drawn", 0.5, chosen), ("always", 1.0, None), ("never", 0.0, None)):
            sampler = seq2seq.ScheduledOutputTrainingSampler(tf.constant(probability, dtype))
            follow(f"output_{name}", sampler, given, range(4), short, samples)
            sampler = seq2seq.ScheduledOutputTrainingSampler(tf.constant(probability, dtype), next_inputs_fn=tf.tanh)
            follow(f"function_{name}", sampler, given | {"auxiliary_inputs": more}, range(3), short, samples)
            sampler = seq2seq.ScheduledOutputTrainingSampler(tf.constant(probability, dtype))
            follow(f"auxiliary_{name}", sampler, given | {"auxiliary_inputs": more}, range(3), short, samples)
        start = {"embedding": table, "start_tokens": tf.constant([0, 1, 2]), "end_token": 3}
        follow("greedy", seq2seq.GreedyEmbeddingSampler(), start, range(2), said, None)
        follow("sampled", seq2seq.SampleEmbeddingSampler(softmax_temperature=1e-3), start, range(2), said, None)
        follow("all_ended", seq2seq.GreedyEmbeddingSampler(), start, range(1), said, tf.constant([3, 3, 3]))
        inference = seq2seq.InferenceSampler(
            lambda outputs: outputs * 2, [2], dtype, lambda ids: tf.reduce_sum(ids, 1) > 0, lambda ids: ids + 1
        )
        follow("inference", inference, {"start_inputs": short}, range(2), short, None)
        return {name: tf.convert_to_tensor(value) for name, value in got.items()}

    both("samplers", inputs, {}, run)


def main() -> None:
    training()
    greedy()
    attended()
    for width in WIDTHS:
        beam(f"decode_beam_{width}", 51, 1.6, [width], PENALTIES)
    beam("decode_beam_early", 81, 2.4, (3, 5), ("both",))
    gathering()
    loss()
    samplers()


if __name__ == "__main__":
    main()
