"""TensorFlow Addons 0.23: `AttentionWrapper` with input feeding, `BasicDecoder` and `BeamSearchDecoder`, as graphs.

XLA compiles neither decoder, and the layer is no faster with it. Outputs of natural length are as long as the longest
source of their batch: it knows no limit for each.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
import tensorflow_addons as tfa
from sizes import CLIP_NORM, LEARNING_RATE, NATURAL, ids, natural, numbers
from tensorflow_addons import seq2seq

BOS = 1


class Model(tf.keras.Model):
    def __init__(self, size):
        super().__init__()
        width = size["D"]
        self.width, self.length = width, size["T"]
        self.source = tf.keras.layers.Embedding(size["N"], size["E"])
        self.target = tf.keras.layers.Embedding(size["N"], size["E"])
        forward = tf.keras.layers.LSTM(width, return_sequences=True, return_state=True)
        self.encoder = tf.keras.layers.Bidirectional(forward)
        self.h, self.c = tf.keras.layers.Dense(width, "tanh"), tf.keras.layers.Dense(width)
        self.mechanism = seq2seq.BahdanauAttention(width)
        cell = tf.keras.layers.LSTMCell(width)
        self.cell = seq2seq.AttentionWrapper(cell, self.mechanism, attention_layer_size=width)
        self.output_layer = tf.keras.layers.Dense(size["N"])

    def encode(self, source, mask=None):
        memory, h, c, h2, c2 = self.encoder(self.source(source), mask=mask)
        return memory, [self.h(tf.concat([h, h2], -1)), self.c(tf.concat([c, c2], -1))]

    def first(self, memory, state, rows, lengths=None):
        self.mechanism.setup_memory(memory, memory_sequence_length=lengths)
        return self.cell.get_initial_state(batch_size=rows, dtype=tf.float32).clone(cell_state=state)

    def logits(self, source, inputs):
        memory, state = self.encode(source)
        rows = tf.shape(inputs)[0]
        decoder = seq2seq.BasicDecoder(self.cell, seq2seq.sampler.TrainingSampler(), self.output_layer)
        found, _, _ = decoder(
            self.target(inputs),
            initial_state=self.first(memory, state, rows),
            sequence_length=tf.fill([rows], self.length),
        )
        return found.rnn_output

    def beam(self, source, width, lengths=None):
        """Outputs of the common length or, where there are lengths of sources, of the longest source's."""
        memory, state = self.encode(source, None if lengths is None else tf.sequence_mask(lengths))
        tiled = seq2seq.tile_batch(memory, width)
        seen = None if lengths is None else seq2seq.tile_batch(lengths, width)
        rows = tf.shape(source)[0]
        decoder = seq2seq.BeamSearchDecoder(
            self.cell,
            width,
            output_layer=self.output_layer,
            maximum_iterations=self.length if lengths is None else tf.shape(source)[1],
        )
        first = self.first(tiled, [seq2seq.tile_batch(x, width) for x in state], rows * width, seen)
        return decoder(self.target.embeddings, start_tokens=tf.fill([rows], BOS), end_token=-1, initial_state=first)[0]


def jobs(size, layer, threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(1)
    model = Model(size)
    optimizer = tf.keras.optimizers.legacy.Adam(LEARNING_RATE)
    source = tf.constant(ids(size["B"], size["S"], size["N"], 1))
    target = ids(size["B"], size["T"] + 1, size["N"], 2)
    inputs, outputs = tf.constant(target[:, :-1]), tf.constant(target[:, 1:])

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            said = model.logits(source, inputs)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(outputs, said))
        weights = model.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), CLIP_NORM)
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    @tf.function
    def beam():
        return model.beam(source, size["K"]).predicted_ids

    def natural_beam(kind):
        own = Model({**size, "N": NATURAL[kind]["N"]})
        own.target.build(None)
        batches = [tuple(map(tf.constant, batch)) for batch in natural(kind, size, 0)]

        @tf.function(reduce_retracing=True)
        def search(source, lengths):
            return own.beam(source, size["K"], lengths).predicted_ids

        return lambda: [search(*batch).numpy() for batch in batches]

    mechanism = seq2seq.BahdanauAttention(layer["D"])
    shapes = ((layer["B"], layer["T"], layer["D"]), (layer["B"], layer["S"], layer["D"]))
    queries, memory = (tf.Variable(numbers(*shape, seed=i)) for i, shape in enumerate(shapes))

    @tf.function
    def attend():
        with tf.GradientTape() as tape:
            mechanism.setup_memory(memory)
            state = mechanism.initial_state(layer["B"], tf.float32)
            contexts = []
            for query in tf.unstack(queries, axis=1):
                weights, state = mechanism([query, state])
                contexts.append(tf.matmul(weights[:, None], memory))
            total = tf.reduce_sum(tf.concat(contexts, 1))
        return tape.gradient(total, [queries, memory, *mechanism.trainable_variables])

    assert float(train()) > 0
    assert beam().shape[1] == size["T"]
    return tfa.__version__, {
        "training": lambda: train().numpy(),
        "beam": lambda: beam().numpy(),
        "layer": lambda: attend()[0].numpy(),
        **{kind: natural_beam(kind) for kind in NATURAL},
    }
