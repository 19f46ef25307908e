"""Snippets of a tutorial on `tf.contrib.seq2seq`, ported to `regard.interop.tfa`, beside loops in torch's operations.

As in `test_compat_notes.py`, numbers in comments are those of the faults on the page "Migration".
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.interop import tfa
from regard.layers import Prenet

B, S, T, N, E, D = 3, 6, 5, 10, 4, 5
LENGTHS, TARGETS = torch.tensor([6, 4, 2]), torch.tensor([5, 3, 4])
GO, EOS = 1, 2


@pytest.fixture(autouse=True)
def in_double_precision():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def close(ours, theirs, atol=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def lstm(cell, x, state):
    """A step by the cell's weights: gates in the order i, f, g, o; the state is (c, h)."""
    c, h = state
    gates = x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), (c, o.sigmoid() * c.tanh())


def gru(cell, x, h):
    """A step of TensorFlow 1's unit: the reset gate multiplies the state before the product."""
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (w.chunk(3) for w in (cell.weight_ih, cell.weight_hh))
    b_r, b_z, b_n = cell.bias.chunk(3)
    r = (x @ r_x.T + h @ r_h.T + b_r).sigmoid()
    z = (x @ z_x.T + h @ z_h.T + b_z).sigmoid()
    return (1 - z) * torch.tanh(x @ n_x.T + (r * h) @ n_h.T + b_n) + z * h


def additive(mechanism, query, memory, mask):
    """Weights and context of a `BahdanauAttention`."""
    w = {name.rpartition("score.")[2]: value for name, value in mechanism.named_parameters()}
    hidden = torch.tanh((query @ w["query_projection.weight"].T)[:, None] + memory @ w["key_projection.weight"].T)
    weights = (hidden @ w["v"][0]).masked_fill(~mask, -torch.inf).softmax(-1)
    return weights, torch.einsum("bs,bsm->bm", weights, memory)


def test_a_bidirectional_encoder_and_a_decoder_in_dynamic_rnn():
    table = nn.Embedding(N, E)
    source, target = torch.randint(N, (S, B)), torch.randint(N, (T, B))
    forward, backward = tfa.LSTMCell(D), tfa.LSTMCell(D)  # 17: two cells
    (fw, bw), (fw_state, bw_state) = tfa.bidirectional_dynamic_rnn(
        cell_fw=forward, cell_bw=backward, inputs=table(source), sequence_length=LENGTHS, time_major=True
    )
    with pytest.raises(UnsupportedError, match="make two cells"):
        tfa.bidirectional_dynamic_rnn(forward, forward, table(source), time_major=True)
    outputs = torch.cat([fw, bw], 2)
    state = tfa.LSTMStateTuple(
        c=torch.cat([fw_state.c, bw_state.c], 1),
        h=torch.cat([fw_state.h, bw_state.h], 1),
    )
    network = nn.LSTM(E, D, bidirectional=True)
    with torch.no_grad():
        for cell, suffix in ((forward, ""), (backward, "_reverse")):
            getattr(network, f"weight_ih_l0{suffix}").copy_(cell.weight_ih)
            getattr(network, f"weight_hh_l0{suffix}").copy_(cell.weight_hh)
            getattr(network, f"bias_ih_l0{suffix}").copy_(cell.bias)
            getattr(network, f"bias_hh_l0{suffix}").zero_()
    packed, (h, c) = network(pack_padded_sequence(table(source), LENGTHS, enforce_sorted=False))
    close(outputs, pad_packed_sequence(packed, total_length=S)[0])
    close(state.h, torch.cat([h[0], h[1]], 1))
    close(state.c, torch.cat([c[0], c[1]], 1))
    decoder, linear = tfa.LSTMCell(2 * D), tfa.Dense(N)
    said, final = tfa.dynamic_rnn(decoder, table(target), initial_state=state, time_major=True, scope="plain_decoder")
    prediction = linear(said).argmax(2)
    carried, steps = (state.c, state.h), []
    for x in table(target).unbind(0):
        step, carried = lstm(decoder, x, carried)
        steps.append(step)
    close(said, torch.stack(steps))
    close(final.c, carried[0])
    assert prediction.shape == (T, B)


class Writer:
    """The example's decoder: stacked LSTMs with dropout, additive attention, an attention layer, an output layer."""

    def __init__(self, layers=2, keep=0.7, history=False):
        def single():
            return tfa.DropoutWrapper(tfa.LSTMCell(D), output_keep_prob=keep)

        self.table = nn.Embedding(N, E)
        self.memory = torch.randn(B, S, D)
        stack = tfa.MultiRNNCell([single() for _ in range(layers)]).eval()
        self.attention = tfa.BahdanauAttention(num_units=D, memory=self.memory, memory_sequence_length=LENGTHS)  # 19
        self.cell = tfa.AttentionWrapper(stack, self.attention, attention_layer_size=D, alignment_history=history)
        self.output_layer = tfa.Dense(N)  # 23: made once, for training and for every search
        self.encoded = tuple(tfa.LSTMStateTuple(*torch.randn(2, B, D)) for _ in range(layers))

    def initial_state(self, times=1):
        """Of so many hypotheses of each sentence: memory, lengths and state are all repeated (21)."""
        self.attention.setup_memory(
            tfa.tile_batch(self.memory, times), memory_sequence_length=tfa.tile_batch(LENGTHS, times)
        )
        zeros = self.cell.zero_state(B * times, torch.float64)
        return zeros.clone(cell_state=tfa.tile_batch(self.encoded, times))  # 19

    def train(self, ids, lengths):
        helper = tfa.TrainingHelper(inputs=self.table(ids), sequence_length=lengths, time_major=False)  # 18
        decoder = tfa.BasicDecoder(
            cell=self.cell, helper=helper, initial_state=self.initial_state(), output_layer=self.output_layer
        )
        return tfa.dynamic_decode(decoder, impute_finished=True, maximum_iterations=ids.shape[1])

    def loop(self, ids):
        """The same steps: (B, T, N) logits and (B, T, S) weights."""
        mask, layer = torch.arange(S) < LENGTHS[:, None], self.cell.attention_layers[0]
        states, attention, logits, looks = list(self.encoded), torch.zeros(B, D), [], []
        for x in self.table(ids).unbind(1):
            x = torch.cat([x, attention], -1)
            for number, wrapped in enumerate(self.cell.cell.cells):
                x, states[number] = lstm(wrapped.cell, x, states[number])
            weights, context = additive(self.attention, x, self.memory, mask)
            attention = torch.cat([x, context], -1) @ layer.weight.T
            logits.append(self.output_layer(attention))
            looks.append(weights)
        return torch.stack(logits, 1), torch.stack(looks, 1)


def test_a_decoder_with_attention_is_trained():
    writer, ids = Writer(history=True), torch.randint(N, (B, T))
    (logits, sample_id), state, lengths = writer.train(ids, TARGETS)
    assert lengths.tolist() == TARGETS.tolist()
    expected, weights = writer.loop(ids)
    real = torch.arange(T) < TARGETS[:, None]
    close(logits, expected.masked_fill(~real[..., None], 0))
    assert sample_id.shape == (B, T)  # 20
    assert torch.equal(sample_id, logits.argmax(-1))
    looks = state.alignment_history.stack().transpose(0, 1)
    close(looks[real], weights[real])
    assert not looks[1][:, 4:].any()
    loss = tfa.sequence_loss(logits, ids, real.to(logits))
    negative = -expected.log_softmax(-1).gather(2, ids[..., None])[..., 0][real].mean()
    close(loss, negative)


def test_the_constructors_of_the_overview_take_every_argument_that_it_lists():
    memory = torch.randn(B, S, D)
    mechanism = tfa.BahdanauAttention(
        num_units=D,
        memory=memory,
        memory_sequence_length=LENGTHS,
        normalize=True,
        probability_fn=lambda scores: scores.softmax(-1),
        score_mask_value=-torch.inf,
        dtype="float64",
        name="BahdanauAttention",
    )
    wrapper = tfa.AttentionWrapper(
        cell=tfa.GRUCell(D),
        attention_mechanism=[mechanism],
        attention_layer_size=None,
        alignment_history=True,
        cell_input_fn=lambda inputs, attention: torch.cat([inputs, attention], -1),
        output_attention=False,
        initial_cell_state=torch.zeros(B, D),
        name=None,
        attention_layer=[tfa.Dense(D)],
    )
    output, state = wrapper(torch.randn(B, E), wrapper.zero_state(B, torch.float64))
    assert output.shape == state.attention.shape == (B, D)
    assert not state.alignments[0][torch.arange(S) >= LENGTHS[:, None]].any()
    attention, weights = mechanism.mechanism.score, state.alignments[0]
    query = torch.tanh(attention.query_projection(output)[:, None] + attention.key_projection(memory))
    v = attention.gain[0] * attention.v[0] / attention.v[0].norm()
    close(weights, (query @ v).masked_fill(torch.arange(S) >= LENGTHS[:, None], -torch.inf).softmax(-1))


def test_dropout_of_the_example_draws_in_training_only():
    writer, ids = Writer(keep=0.5), torch.randint(N, (B, T))
    quiet = writer.train(ids, TARGETS)[0].rnn_output
    assert torch.equal(writer.train(ids, TARGETS)[0].rnn_output, quiet)
    writer.cell.train()
    assert not torch.equal(writer.train(ids, TARGETS)[0].rnn_output, quiet)


def test_the_trained_decoder_writes_greedily_with_the_same_weights():
    writer = Writer()
    writer.train(torch.randint(N, (B, T)), TARGETS)
    start = torch.full((B,), GO)  # 22: a start token for each sentence
    helper = tfa.GreedyEmbeddingHelper(writer.table.weight, start, EOS)
    decoder = tfa.BasicDecoder(writer.cell, helper, writer.initial_state(), output_layer=writer.output_layer)
    (_, ids), _, lengths = tfa.dynamic_decode(decoder, maximum_iterations=int(TARGETS.max()))  # 22
    fed = torch.cat([start[:, None], ids[:, :-1]], 1)
    expected = writer.loop(fed)[0].argmax(-1)
    for row, length in enumerate(lengths.tolist()):
        assert ids[row, :length].tolist() == expected[row, :length].tolist()
        assert EOS not in ids[row, : length - 1]
        assert length == ids.shape[1] or ids[row, length - 1] == EOS
    with pytest.raises(ShapeError):
        tfa.GreedyEmbeddingHelper(writer.table.weight, GO, EOS).initialize()


def test_a_beam_search_tiles_memory_lengths_and_state():
    writer, width = Writer(history=True), 4
    writer.train(torch.randint(N, (B, T)), TARGETS)
    decoder = tfa.BeamSearchDecoder(
        writer.cell,
        writer.table.weight,
        torch.full((B,), GO),
        EOS,
        writer.initial_state(width),
        beam_width=width,
        output_layer=writer.output_layer,
    )
    final, state, lengths = tfa.dynamic_decode(decoder, maximum_iterations=T)
    ids = final.predicted_ids
    assert ids.shape == (B, T, width)
    scores = state.log_probs
    assert scores.diff(dim=1).le(1e-12).all()
    history = state.cell_state.alignment_history  # (T, B · K, S)
    for rank in range(width):
        fed = torch.cat([torch.full((B, 1), GO), ids[:, :-1, rank]], 1)
        logits, weights = writer.loop(fed)
        said = logits.log_softmax(-1).gather(2, ids[:, :, rank, None])[..., 0]
        for row in range(B):
            length = int(lengths[row, rank])
            close(said[row, :length].sum(), scores[row, rank])
            looks = torch.as_tensor(history).unflatten(1, (B, width))[:length, row, rank]
            close(looks, weights[row, :length])
    writer.attention.setup_memory(writer.memory, memory_sequence_length=LENGTHS)
    small = writer.cell.zero_state(B, torch.float64).clone(cell_state=writer.encoded)
    again = tfa.BeamSearchDecoder(
        writer.cell,
        writer.table.weight,
        torch.full((B,), GO),
        EOS,
        small,
        beam_width=width,
        output_layer=writer.output_layer,
    )
    with pytest.raises(RegardError):  # 21: a state that was not tiled
        tfa.dynamic_decode(again, maximum_iterations=T)


# --- keithito's Tacotron ---------------------------------------------------------------------------------------------


class DecoderPrenetWrapper(tfa.RNNCell):
    """Inputs pass through a prenet before they reach the cell."""

    def __init__(self, cell, prenet):
        super().__init__()  # 24
        self.cell, self.prenet = cell, prenet

    @property
    def state_size(self):
        return self.cell.state_size

    @property
    def output_size(self):
        return self.cell.output_size

    def forward(self, inputs, state):
        return self.cell(self.prenet(inputs), state)

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return self.cell.get_initial_state(inputs=inputs, batch_size=batch_size, dtype=dtype)


class ConcatOutputAndAttentionWrapper(tfa.RNNCell):
    """The cell's output beside what it attended to."""

    def __init__(self, cell, attention_size):
        super().__init__()
        self.cell, self.attention_size = cell, attention_size

    @property
    def state_size(self):
        return self.cell.state_size

    @property
    def output_size(self):
        return self.cell.output_size + self.attention_size

    def forward(self, inputs, state):
        output, state = self.cell(inputs, state)
        return torch.cat([output, state.attention], -1), state

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return self.cell.get_initial_state(inputs=inputs, batch_size=batch_size, dtype=dtype)


MELS, R = 3, 2


def tacotron(memory):
    attention_cell = tfa.AttentionWrapper(
        tfa.GRUCell(D), tfa.BahdanauAttention(D, memory), alignment_history=True, output_attention=False
    )
    prenet = Prenet(MELS, (8, 4), dropout=0.5).eval()
    concat_cell = ConcatOutputAndAttentionWrapper(DecoderPrenetWrapper(attention_cell, prenet), memory.shape[-1])
    stack = tfa.MultiRNNCell(
        [
            tfa.OutputProjectionWrapper(concat_cell, D),
            tfa.ResidualWrapper(tfa.GRUCell(D)),
            tfa.ResidualWrapper(tfa.GRUCell(D)),
        ],
        state_is_tuple=True,
    )
    return tfa.OutputProjectionWrapper(stack, MELS * R)  # 25


def speak(cell, memory, steps, feed):
    """The same steps as a loop: (B, T, MELS · R) frames and (B, T, S) weights."""
    projection, *upper = cell.cell.cells
    concat = projection.cell
    wrapper = concat.cell.cell
    mask = torch.ones(memory.shape[:2], dtype=torch.bool)
    h, context = torch.zeros(B, D), torch.zeros(B, memory.shape[-1])
    states = [torch.zeros(B, D) for _ in upper]
    frames, looks, x = [], [], torch.zeros(B, MELS)
    for t in range(steps):
        h = gru(wrapper.cell, torch.cat([concat.cell.prenet(x), context], -1), h)
        weights, context = additive(wrapper.attention_mechanisms[0], h, memory, mask)
        layer = projection.projection
        y = torch.cat([h, context], -1) @ layer.weight.T + layer.bias
        for number, wrapped in enumerate(upper):
            states[number] = gru(wrapped.cell, y, states[number])
            y = y + states[number]
        frames.append(y @ cell.projection.weight.T + cell.projection.bias)
        looks.append(weights)
        x = feed(frames, t)
    return torch.stack(frames, 1), torch.stack(looks, 1)


@pytest.mark.parametrize("training", [True, False], ids=["TacoTrainingHelper", "TacoTestHelper"])
def test_tacotron_is_assembled_of_wrappers_and_decodes_r_frames_a_step(training):
    memory, targets = torch.randn(B, S, D), torch.randn(B, 8, MELS)
    cell = tacotron(memory)
    state = cell.zero_state(batch_size=B, dtype=torch.float64)
    if training:
        helper = tfa.TacoTrainingHelper(torch.zeros(B, S), targets, MELS, R)
    else:
        helper = tfa.TacoTestHelper(B, MELS, R)
    (outputs, _), final, _ = tfa.dynamic_decode(tfa.BasicDecoder(cell, helper, state), maximum_iterations=4)

    def feed(frames, t):
        return targets[:, R * t + R - 1] if training else frames[-1][:, -MELS:]

    expected, weights = speak(cell, memory, 4, feed)
    close(outputs, expected)
    mel = outputs.reshape(B, -1, MELS)  # 25: one frame a row
    assert mel.shape == (B, 8, MELS)
    close(mel[:, 1], expected[:, 0, MELS:])
    alignments = final[0].alignment_history.stack().permute(1, 2, 0)  # 25: (B, S, T)
    close(alignments, weights.transpose(1, 2))
