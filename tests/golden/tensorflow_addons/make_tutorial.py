"""Goldens of tensorflow-addons' tutorial "Neural machine translation with attention", and of Keras' recurrent layers.

Program: tensorflow-addons 0.23.0 (`tfa.seq2seq`) on tensorflow-cpu 2.15.1 (`tf.keras`) with numpy 1.26.4, in the
environment of `make.py`.

    OMP_NUM_THREADS=1 tfa/bin/python tests/golden/tensorflow_addons/make_tutorial.py

The model of the tutorial is trained for a few steps on numbers that are drawn; by SGD, since Adam's epsilon stands in
another place in Keras than in torch. Kept are the weights before the first step by the names that TensorFlow gives
them, the loss of every step, and what the trained model then writes greedily and with a beam. Of a layer are kept the
arrays of `get_weights()` in their order, and what it returns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa

FOLDER = Path(__file__).parent / "tutorial"
SOURCE_TOKENS, TARGET_TOKENS, EMBEDDING, UNITS, BATCH, SOURCE, TARGET, STEPS = 11, 9, 6, 8, 4, 5, 6, 4
START, END = 1, 2
layers = tf.keras.layers


class Encoder(tf.keras.Model):
    """An embedding and an LSTM."""

    def __init__(self):
        super().__init__()
        self.embedding = layers.Embedding(SOURCE_TOKENS, EMBEDDING)
        self.lstm_layer = layers.LSTM(
            UNITS, return_sequences=True, return_state=True, recurrent_initializer="glorot_uniform"
        )

    def call(self, x, hidden):
        """Outputs, h and c."""
        return self.lstm_layer(self.embedding(x), initial_state=hidden)


class Decoder(tf.keras.Model):
    """An LSTM with attention and a layer of logits."""

    def __init__(self, attention):
        super().__init__()
        self.embedding = layers.Embedding(TARGET_TOKENS, EMBEDDING)
        self.fc = layers.Dense(TARGET_TOKENS)
        self.decoder_rnn_cell = layers.LSTMCell(UNITS)
        self.sampler = tfa.seq2seq.sampler.TrainingSampler()
        self.attention_mechanism = attention(units=UNITS, memory=None, memory_sequence_length=BATCH * [SOURCE])
        self.rnn_cell = tfa.seq2seq.AttentionWrapper(
            self.decoder_rnn_cell, self.attention_mechanism, attention_layer_size=UNITS
        )
        self.decoder = tfa.seq2seq.BasicDecoder(self.rnn_cell, sampler=self.sampler, output_layer=self.fc)

    def first_state(self, rows, encoder_state):
        """The wrapper's, with the encoder's state."""
        state = self.rnn_cell.get_initial_state(batch_size=rows, dtype=tf.float32)
        return state.clone(cell_state=encoder_state)

    def call(self, inputs, initial_state):
        """What the decoder says of given tokens."""
        x = self.embedding(inputs)
        outputs, _, _ = self.decoder(x, initial_state=initial_state, sequence_length=BATCH * [TARGET - 1])
        return outputs


def train(attention) -> dict[str, np.ndarray]:
    """Weights, losses and outputs of the tutorial's program."""
    tf.keras.backend.clear_session()  # names without numbers
    draws = np.random.default_rng(0)
    sources = draws.integers(1, SOURCE_TOKENS, (BATCH, SOURCE))
    targets = draws.integers(3, TARGET_TOKENS, (BATCH, TARGET))
    targets[:, 0], targets[:, -1] = START, END
    targets[1, 3:] = [END, 0, 0]
    encoder, decoder = Encoder(), Decoder(attention)
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.5)
    zeros = [tf.zeros((BATCH, UNITS)), tf.zeros((BATCH, UNITS))]
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def loss_of() -> tf.Tensor:
        outputs, h, c = encoder(sources, zeros)
        decoder.attention_mechanism.setup_memory(outputs)
        said = decoder(targets[:, :-1], decoder.first_state(BATCH, [h, c]))
        real = targets[:, 1:]
        loss = cross_entropy(y_true=real, y_pred=said.rnn_output)
        return tf.reduce_mean(loss * tf.cast(real != 0, loss.dtype))

    loss_of()  # makes the weights
    variables = encoder.trainable_variables + decoder.trainable_variables
    for number, variable in enumerate(variables):
        variable.assign(np.random.default_rng(number).normal(0, 0.4, variable.shape))
    kept = {f"weight/{variable.name}": variable.numpy() for variable in variables}
    losses = []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = loss_of()
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        losses.append(float(loss))

    outputs, h, c = encoder(sources, zeros)
    table, start_tokens = decoder.embedding.variables[0], tf.fill([BATCH], START)
    greedy = tfa.seq2seq.BasicDecoder(
        cell=decoder.rnn_cell,
        sampler=tfa.seq2seq.GreedyEmbeddingSampler(),
        output_layer=decoder.fc,
        maximum_iterations=TARGET,
    )
    decoder.attention_mechanism.setup_memory(outputs)
    state = decoder.first_state(BATCH, [h, c])
    said, _, _ = greedy(table, start_tokens=start_tokens, end_token=END, initial_state=state)
    beam = tfa.seq2seq.BeamSearchDecoder(
        decoder.rnn_cell, beam_width=3, output_layer=decoder.fc, maximum_iterations=TARGET
    )
    decoder.attention_mechanism.setup_memory(tfa.seq2seq.tile_batch(outputs, multiplier=3))
    state = decoder.first_state(BATCH * 3, tfa.seq2seq.tile_batch([h, c], multiplier=3))
    found, _, _ = beam(table, start_tokens=start_tokens, end_token=END, initial_state=state)
    return kept | {
        "sources": sources,
        "targets": targets,
        "losses": np.array(losses),
        "greedy": said.sample_id.numpy(),
        "beam": found.predicted_ids.numpy(),
        "scores": found.beam_search_decoder_output.scores.numpy(),
    }


def run_layers() -> dict[str, np.ndarray]:
    """What Keras' layers return."""
    tf.keras.backend.clear_session()
    draws = np.random.default_rng(1)
    x = draws.normal(size=(3, 5, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 0]], bool)
    both = {"return_sequences": True, "return_state": True}
    cases = {
        "lstm": layers.LSTM(3, **both),
        "lstm_last": layers.LSTM(3),
        "gru": layers.GRU(3, **both),
        "gru_reset_before": layers.GRU(3, reset_after=False, go_backwards=True, **both),
        "stack": layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], return_sequences=True),
        "bidirectional": layers.Bidirectional(layers.LSTM(3, **both)),
        "bidirectional_sum": layers.Bidirectional(layers.GRU(3), merge_mode="sum"),
    }
    kept = {"x": x, "mask": mask}
    for name, layer in cases.items():
        for masked in (False, True):
            returned = layer(x, mask=mask if masked else None)
            if not masked:
                layer.set_weights([draws.normal(0, 0.5, weight.shape) for weight in layer.get_weights()])
                returned = layer(x)
            parts = returned if isinstance(returned, (list, tuple)) else [returned]
            kept |= {f"{name}/{'masked' if masked else 'plain'}/{n}": part.numpy() for n, part in enumerate(parts)}
        kept |= {f"{name}/weight/{n}": weight for n, weight in enumerate(layer.get_weights())}
        kept |= {f"{name}/name/{n}": np.array(weight.name) for n, weight in enumerate(layer.weights)}
    return kept


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / "luong.npz", **train(tfa.seq2seq.LuongAttention))
    np.savez_compressed(FOLDER / "bahdanau.npz", **train(tfa.seq2seq.BahdanauAttention))
    np.savez_compressed(FOLDER / "layers.npz", **run_layers())
