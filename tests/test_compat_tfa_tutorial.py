"""The tutorial of tensorflow-addons, "Neural machine translation with attention", line by line beside its numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import ConfigError, DataError, ShapeError, UnsupportedError
from regard.interop import tfa

GOLDEN = Path(__file__).parent / "golden" / "tensorflow_addons" / "tutorial"
KINDS = pytest.mark.parametrize("kind", ["luong", "bahdanau"])
SOURCE_TOKENS, TARGET_TOKENS, EMBEDDING, UNITS, BATCH, SOURCE, TARGET, STEPS = 11, 9, 6, 8, 4, 5, 6, 4
START, END = 1, 2


class Encoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, enc_units):
        super().__init__()
        self.embedding = tfa.Embedding(vocab_size, embedding_dim)
        self.lstm_layer = tfa.KerasLSTM(
            enc_units, return_sequences=True, return_state=True, recurrent_initializer="glorot_uniform"
        )

    def forward(self, x, hidden):
        x = self.embedding(x)
        output, h, c = self.lstm_layer(x, initial_state=hidden)
        return output, h, c


class Decoder(nn.Module):
    def __init__(self, vocab_size, embedding_dim, dec_units, batch_sz, attention_type="luong"):
        super().__init__()
        self.batch_sz = batch_sz
        self.embedding = tfa.Embedding(vocab_size, embedding_dim)
        self.fc = tfa.Dense(vocab_size)
        self.decoder_rnn_cell = tfa.KerasLSTMCell(dec_units)
        self.sampler = tfa.TrainingSampler()
        self.attention_mechanism = self.build_attention_mechanism(dec_units, None, batch_sz * [SOURCE], attention_type)
        self.rnn_cell = tfa.AttentionWrapper(
            self.decoder_rnn_cell, self.attention_mechanism, attention_layer_size=dec_units
        )
        self.decoder = tfa.BasicDecoder(self.rnn_cell, sampler=self.sampler, output_layer=self.fc)

    def build_attention_mechanism(self, dec_units, memory, memory_sequence_length, attention_type="luong"):
        if attention_type == "bahdanau":
            return tfa.BahdanauAttention(units=dec_units, memory=memory, memory_sequence_length=memory_sequence_length)
        return tfa.LuongAttention(units=dec_units, memory=memory, memory_sequence_length=memory_sequence_length)

    def build_initial_state(self, batch_sz, encoder_state, Dtype):
        decoder_initial_state = self.rnn_cell.get_initial_state(batch_size=batch_sz, dtype=Dtype)
        return decoder_initial_state.clone(cell_state=encoder_state)

    def forward(self, inputs, initial_state):
        x = self.embedding(inputs)
        outputs, _, _ = self.decoder(x, initial_state=initial_state, sequence_length=self.batch_sz * [TARGET - 1])
        return outputs


def models(kind):
    encoder = Encoder(SOURCE_TOKENS, EMBEDDING, UNITS)
    with pytest.warns(UserWarning, match="memory_sequence_length without memory has no effect"):
        decoder = Decoder(TARGET_TOKENS, EMBEDDING, UNITS, BATCH, kind)
    return encoder, decoder


def zeros():
    return [torch.zeros((BATCH, UNITS)), torch.zeros((BATCH, UNITS))]


def loss_function(real, pred):
    loss = nn.functional.cross_entropy(pred.transpose(1, 2), torch.as_tensor(real), reduction="none")
    return (loss * torch.as_tensor(real != 0)).mean()


def loss_of(encoder, decoder, inp, targ):
    enc_output, enc_h, enc_c = encoder(inp, zeros())
    decoder.attention_mechanism.setup_memory(enc_output)
    decoder_initial_state = decoder.build_initial_state(BATCH, [enc_h, enc_c], torch.float32)
    pred = decoder(targ[:, :-1], decoder_initial_state)
    return loss_function(targ[:, 1:], pred.rnn_output)


def train(encoder, decoder, optimizer, inp, targ):
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(encoder, decoder, inp, targ)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def load(encoder, decoder, golden):
    """Gives both the weights of the original, by the names that TensorFlow gives them."""
    weights = {name.removeprefix("weight/"): golden[name] for name in golden.files if name.startswith("weight/")}
    parts = {
        encoder.embedding: lambda name: "encoder" in name and "embedding" in name,
        encoder.lstm_layer: lambda name: "encoder" in name and "embedding" not in name,
        decoder.embedding: lambda name: "encoder" not in name and "embedding" in name,
        decoder.decoder: lambda name: "encoder" not in name and "embedding" not in name,
    }
    for layer, belongs in parts.items():
        own = {name: array for name, array in weights.items() if belongs(name)}
        layer.load_state_dict(layer.from_tensorflow(own))


@KINDS
def test_the_program_with_its_optimiser_made_first_has_the_losses_and_the_outputs_of_the_original(kind):
    golden = np.load(GOLDEN / f"{kind}.npz")
    encoder, decoder = models(kind)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.5)  # Adam's epsilons differ
    load(encoder, decoder, golden)
    losses = train(encoder, decoder, optimizer, golden["sources"], golden["targets"])
    np.testing.assert_allclose(losses, golden["losses"], rtol=1e-5)

    with torch.no_grad():
        enc_out, enc_h, enc_c = encoder(golden["sources"], zeros())
        start_tokens = torch.full([BATCH], START)
        greedy_sampler = tfa.GreedyEmbeddingSampler()
        decoder_instance = tfa.BasicDecoder(
            cell=decoder.rnn_cell, sampler=greedy_sampler, output_layer=decoder.fc, maximum_iterations=TARGET
        )
        decoder.attention_mechanism.setup_memory(enc_out)
        state = decoder.build_initial_state(BATCH, [enc_h, enc_c], torch.float32)
        table = decoder.embedding.weight
        outputs, _, _ = decoder_instance(table, start_tokens=start_tokens, end_token=END, initial_state=state)
        assert outputs.sample_id.tolist() == golden["greedy"].tolist()

        enc_out = tfa.tile_batch(enc_out, multiplier=3)
        decoder.attention_mechanism.setup_memory(enc_out)
        hidden_state = tfa.tile_batch([enc_h, enc_c], multiplier=3)
        state = decoder.rnn_cell.get_initial_state(batch_size=3 * BATCH, dtype=torch.float32)
        state = state.clone(cell_state=hidden_state)
        decoder_instance = tfa.BeamSearchDecoder(
            decoder.rnn_cell, beam_width=3, output_layer=decoder.fc, maximum_iterations=TARGET
        )
        outputs, _, _ = decoder_instance(table, start_tokens=start_tokens, end_token=END, initial_state=state)
        assert outputs.predicted_ids.tolist() == golden["beam"].tolist()
        scores = outputs.beam_search_decoder_output.scores.numpy()
        np.testing.assert_allclose(scores, golden["scores"], atol=1e-4)


@KINDS
def test_an_optimiser_made_first_trains_as_one_made_after_a_first_batch(kind):
    golden = np.load(GOLDEN / f"{kind}.npz")
    losses = []
    for early in (True, False):
        torch.manual_seed(0)
        encoder, decoder = models(kind)
        if not early:
            loss_of(encoder, decoder, golden["sources"], golden["targets"])
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)
        losses.append(train(encoder, decoder, optimizer, golden["sources"], golden["targets"]))
    assert losses[0] == losses[1]
    assert losses[0][-1] < 0.8 * losses[0][0]


# --- the arrays of the original


@KINDS
def test_arrays_have_their_places_by_the_names_of_variables_of_a_checkpoint_and_of_get_weights(kind):
    golden = np.load(GOLDEN / f"{kind}.npz")
    encoder, decoder = models(kind)
    load(encoder, decoder, golden)
    expected = decoder.rnn_cell.state_dict()
    arrays = {
        name.removeprefix("weight/"): golden[name]
        for name in golden.files
        if "attention_wrapper" in name or "Attention/" in name
    }
    assert len(arrays) == 5 + 2 * (kind == "bahdanau")

    class Variable:
        def __init__(self, name, array):
            self.name, self.array = name, array

        def numpy(self):
            return self.array

    ends = {
        "attention_layer/kernel": "decoder/rnn_cell/_attention_layers/0/kernel",
        "lstm_cell/kernel": "decoder/decoder_rnn_cell/kernel",
        "recurrent_kernel": "decoder/decoder_rnn_cell/recurrent_kernel",
        "bias": "decoder/decoder_rnn_cell/bias",
        "attention_v": "decoder/attention_mechanism/attention_v",
        "BahdanauAttention/kernel": "decoder/attention_mechanism/query_layer/kernel",
        "memory_layer/kernel": "decoder/attention_mechanism/memory_layer/kernel",
    }
    by_end = {end: array for end in ends for name, array in arrays.items() if name.endswith(f"{end}:0")}
    assert len(by_end) == len(arrays)
    forms = (
        arrays,
        {f"{ends[end]}/.ATTRIBUTES/VARIABLE_VALUE": array for end, array in by_end.items()},
        [Variable(name, array) for name, array in arrays.items()],
        list(by_end.values()),  # in the order of the original's get_weights()
        dict(sorted(arrays.items())),
    )
    for form in forms:
        state = decoder.rnn_cell.from_tensorflow(form)
        assert state.keys() == expected.keys()
        for name, tensor in state.items():
            assert torch.equal(tensor, expected[name]), name


def test_a_memory_that_came_first_leaves_the_kernels_of_a_mechanism_without_a_layers_name():
    mechanism = tfa.BahdanauAttention(2, normalize=True, query_size=3, memory_size=4)
    named = {
        "BahdanauAttention/attention_v:0": torch.rand(2),
        "BahdanauAttention/attention_g:0": torch.rand(()),
        "BahdanauAttention/attention_b:0": torch.rand(2),
        "attention_wrapper_1/BahdanauAttention/kernel:0": torch.rand(3, 2),
        "BahdanauAttention/kernel:0": torch.rand(4, 2),
    }
    mechanism.load_state_dict(mechanism.from_tensorflow(named))
    assert torch.equal(mechanism.query_layer.weight.T, named["attention_wrapper_1/BahdanauAttention/kernel:0"])
    assert torch.equal(mechanism.memory_layer.weight.T, named["BahdanauAttention/kernel:0"])
    luong = tfa.LuongAttention(2)
    kernel = torch.rand(4, 2)
    for name in ("kernel", "LuongAttention/kernel:0", "LuongAttention/memory_layer/kernel:0"):
        luong.load_state_dict(luong.from_tensorflow({name: kernel}))
        assert torch.equal(luong.memory_layer.weight.T, kernel)
    both = {"BahdanauAttention/attention_v": torch.rand(2), "a/kernel": torch.rand(3, 2), "b/kernel": torch.rand(3, 2)}
    with pytest.raises(DataError, match=r"a/kernel and b/kernel could each be the projection of queries"):
        tfa.BahdanauAttention(2).from_tensorflow(both)


def draw(*shape):
    return torch.rand(shape)


def lstm(scope, inputs, units):
    shapes = {"kernel": (inputs, 4 * units), "recurrent_kernel": (units, 4 * units), "bias": (4 * units,)}
    return {f"{scope}/{name}:0": draw(*shape) for name, shape in shapes.items()}


def gru(scope, inputs, units):
    shapes = {"kernel": (inputs, 3 * units), "recurrent_kernel": (units, 3 * units), "bias": (2, 3 * units)}
    return {f"{scope}/{name}:0": draw(*shape) for name, shape in shapes.items()}


def test_stacks_and_several_mechanisms_take_their_arrays_by_scope():
    wrapper = tfa.AttentionWrapper(
        tfa.StackedRNNCells([tfa.KerasLSTMCell(3), tfa.ResidualWrapper(tfa.KerasGRUCell(3))]),
        [tfa.LuongAttention(3, draw(2, 4, 5), scale=True), tfa.BahdanauAttention(2, draw(2, 4, 5))],
        attention_layer=[tfa.Dense(2, name="dense"), tfa.Dense(4, use_bias=False, name="dense")],
    )
    w = "decoder/attention_wrapper_6"
    arrays = {
        f"{w}/dense/kernel:0": draw(8, 2),
        f"{w}/dense/bias:0": draw(2),
        f"{w}/dense_1/kernel:0": draw(8, 4),
        **lstm(f"{w}/stacked_rnn_cells/lstm_cell_9", 7, 3),
        **gru(f"{w}/stacked_rnn_cells/gru_cell_2", 3, 3),
        "LuongAttention/attention_g:0": draw(),
        "LuongAttention/kernel:0": draw(5, 3),
        "BahdanauAttention/attention_v:0": draw(2),
        f"{w}/BahdanauAttention/kernel:0": draw(3, 2),
        "BahdanauAttention/kernel:0": draw(5, 2),
    }
    state = wrapper.from_tensorflow(arrays)
    wrapper.load_state_dict(state)
    places = {
        "attention_layers.1.weight": f"{w}/dense_1/kernel:0",
        "cell.cells.0.weight_ih": f"{w}/stacked_rnn_cells/lstm_cell_9/kernel:0",
        "attention_mechanisms.0.mechanism.score.key_projection.weight": "LuongAttention/kernel:0",
        "attention_mechanisms.1.mechanism.score.key_projection.weight": "BahdanauAttention/kernel:0",
        "attention_mechanisms.1.mechanism.score.query_projection.weight": f"{w}/BahdanauAttention/kernel:0",
    }
    for ours, theirs in places.items():
        assert torch.equal(wrapper.get_parameter(ours), arrays[theirs].T), ours
    again = wrapper.from_tensorflow(list(arrays.values()))  # get_weights()
    assert all(torch.equal(again[name], tensor) for name, tensor in state.items())


def test_cells_of_a_stack_are_told_apart_by_number_where_the_order_is_alphabetical():
    stack = tfa.StackedRNNCells([tfa.KerasLSTMCell(3), tfa.KerasLSTMCell(3)])
    arrays = lstm("stacked_rnn_cells/lstm_cell_9", 3, 3) | lstm("stacked_rnn_cells/lstm_cell_10", 3, 3)
    state = stack.from_tensorflow(arrays)
    assert torch.equal(state["cells.0.bias"], arrays["stacked_rnn_cells/lstm_cell_9/bias:0"])
    alphabetical = stack.from_tensorflow(dict(sorted(arrays.items())))
    assert all(torch.equal(alphabetical[name], tensor) for name, tensor in state.items())
    old = tfa.MultiRNNCell([tfa.LSTMCell(3), tfa.GRUCell(2)])
    arrays = {
        "decoder/multi_rnn_cell/cell_1/gru_cell/gates/kernel": draw(5, 4),
        "decoder/multi_rnn_cell/cell_1/gru_cell/gates/bias": draw(4),
        "decoder/multi_rnn_cell/cell_1/gru_cell/candidate/kernel": draw(5, 2),
        "decoder/multi_rnn_cell/cell_1/gru_cell/candidate/bias": draw(2),
        "decoder/multi_rnn_cell/cell_0/lstm_cell/kernel": draw(7, 12),
        "decoder/multi_rnn_cell/cell_0/lstm_cell/bias": draw(12),
    }
    old.load_state_dict(old.from_tensorflow(dict(sorted(arrays.items()))))
    assert torch.equal(old.cells[1].weight_ih, torch.cat([arrays[n][:3].T for n in arrays if "1" in n and "ke" in n]))
    with pytest.raises(DataError, match=r"those of 1 cells, lstm_cell, and the stack has 2"):
        stack.from_tensorflow(lstm("lstm_cell", 3, 3))


def test_arrays_that_are_missing_left_over_of_another_shape_or_no_arrays_are_named():
    wrapper = tfa.AttentionWrapper(tfa.KerasLSTMCell(3), tfa.LuongAttention(3), attention_layer_size=2)
    arrays = {"attention_layer/kernel": draw(8, 2), **lstm("lstm_cell", 5, 3), "LuongAttention/kernel:0": draw(5, 3)}
    wrapper.from_tensorflow(arrays)
    for change, message in (
        ({"w_f_diag": draw(3)}, r"others: w_f_diag"),
        ({"lstm_cell/kernel:0": draw(5, 9)}, r"lstm_cell/kernel:0 has the shape \(5, 9\); the kernel of .*\(F, 12\)"),
        ({"attention_layer/kernel": draw(8, 3)}, r"attention_layer/kernel has the shape \(8, 3\); .*\(F, 2\)"),
        ({"LuongAttention/kernel:0": draw(5, 4)}, r"LuongAttention/kernel:0 has .*\(5, 4\); .*\(M, 3\)"),
        ({"lstm_cell_1/kernel": draw(5, 12)}, r"others: lstm_cell_1/kernel"),
        ({"lstm_cell/bias:0": "three"}, r"lstm_cell/bias:0 must be an array; got str"),
    ):
        with pytest.raises(DataError, match=message):
            wrapper.from_tensorflow(arrays | change)
    with pytest.raises(DataError, match=r"missing: recurrent_kernel"):
        wrapper.from_tensorflow({n: a for n, a in arrays.items() if "recurrent" not in n})
    with pytest.raises(DataError, match=r"get_weights\(\) of a AttentionWrapper has 5 arrays.*got 4"):
        wrapper.from_tensorflow(list(arrays.values())[1:])
    with pytest.raises(DataError, match=r"given by name.*got str"):
        wrapper.from_tensorflow("model.npz")
    with pytest.raises(UnsupportedError, match=r"cell is a TorchCell, which has no from_tensorflow"):
        tfa.AttentionWrapper(nn.LSTMCell(5, 3), tfa.LuongAttention(3)).from_tensorflow({})


# --- Keras' layers


LAYERS = {
    "lstm": lambda **options: tfa.KerasLSTM(3, return_sequences=True, return_state=True, **options),
    "lstm_last": lambda **options: tfa.KerasLSTM(3, **options),
    "gru": lambda **options: tfa.KerasGRU(3, return_sequences=True, return_state=True, **options),
    "gru_reset_before": lambda **options: tfa.KerasGRU(
        3, reset_after=False, go_backwards=True, return_sequences=True, return_state=True, **options
    ),
    "stack": lambda: tfa.KerasRNN([tfa.KerasLSTMCell(3), tfa.KerasGRUCell(2)], return_sequences=True),
    "bidirectional": lambda: tfa.Bidirectional(tfa.KerasLSTM(3, return_sequences=True, return_state=True)),
    "bidirectional_sum": lambda: tfa.Bidirectional(tfa.KerasGRU(3), merge_mode="sum"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_returns_what_that_of_keras_returns_with_and_without_a_mask(name):
    golden = np.load(GOLDEN / "layers.npz")
    count = sum(key.startswith(f"{name}/weight/") for key in golden.files)
    arrays = [golden[f"{name}/weight/{n}"] for n in range(count)]
    names = [str(golden[f"{name}/name/{n}"]) for n in range(count)]
    layer = LAYERS[name]()
    state = layer.from_tensorflow(arrays)
    for key, tensor in layer.from_tensorflow(dict(zip(names, arrays, strict=True))).items():
        assert torch.equal(tensor, state[key]), key
    layer.load_state_dict(state)
    for form in ("plain", "masked"):
        returned = layer(golden["x"], mask=golden["mask"] if form == "masked" else None)
        parts = returned if isinstance(returned, tuple) else (returned,)
        assert len(parts) == sum(key.startswith(f"{name}/{form}/") for key in golden.files)
        for n, part in enumerate(parts):
            np.testing.assert_allclose(part.detach().numpy(), golden[f"{name}/{form}/{n}"], atol=1e-6)


def test_layers_have_the_rest_of_keras_calls():
    x = torch.ones(2, 4, 3)
    layer = tfa.KerasLSTM(5, dropout=0.5)
    assert torch.equal(layer.eval()(x), layer(x, training=False))
    assert not torch.equal(layer(x, training=True), layer(x))
    gru = tfa.KerasGRU(5, input_size=3)
    assert torch.equal(gru(x, [torch.ones(2, 5)]), gru(x, torch.ones(2, 5)))
    both = tfa.Bidirectional(gru, merge_mode=None)
    assert both.forward_layer is gru
    assert not torch.equal(both.backward_layer.cell.weight_ih, gru.cell.weight_ih)
    ahead, back = both(x, [torch.ones(2, 5), torch.zeros(2, 5)])
    assert torch.equal(ahead, gru(x, torch.ones(2, 5)))
    assert torch.equal(back, both.backward_layer(x))
    for wrong, error, message in (
        (lambda: tfa.KerasLSTM(5, stateful=True), UnsupportedError, "stateful=True.*initial_state"),
        (lambda: tfa.KerasLSTM(5, time_major=True), UnsupportedError, "time_major=True"),
        (lambda: tfa.KerasLSTM(5, recurrent_dropout=0.1), UnsupportedError, "recurrent_dropout=0.1"),
        (lambda: tfa.KerasLSTM(5)(torch.ones(2, 3)), ShapeError, r"\(B, T, F\).*\(2, 3\)"),
        (lambda: tfa.KerasLSTM(5)(x, mask=torch.ones(2, 4)), ShapeError, "mask must be bool"),
        (lambda: tfa.KerasLSTM(5)(x, torch.zeros(2, 5)), ShapeError, "pair of tensors"),
        (lambda: tfa.Bidirectional(nn.LSTM(3, 4)), UnsupportedError, "KerasLSTM.*got LSTM"),
        (lambda: tfa.Bidirectional(gru, "add"), ValueError, "merge_mode='add'"),
        (lambda: tfa.Bidirectional(gru, backward_layer=tfa.KerasGRU(5)), UnsupportedError, "go_backwards=True"),
        (lambda: both(x, [torch.zeros(2, 5)]), ShapeError, "initial_state has 1 entries"),
        (lambda: tfa.Embedding(4, 2, mask_zero=True), UnsupportedError, "mask_zero=True.*mask=ids != 0"),
        (lambda: tfa.Embedding(4, 2)(torch.tensor([4])), DataError, "ids 0 to 3; got ids from 4 to 4"),
        (lambda: tfa.Embedding(4, 2)(torch.rand(3)), ShapeError, "whole numbers"),
    ):
        with pytest.raises(error, match=message):
            wrong()


# --- states in both orders


def test_a_state_in_the_other_order_is_refused_wherever_it_can_be_given():
    h, c = torch.zeros(2, 4), torch.ones(2, 4)
    named = tfa.LSTMStateTuple(c, h)

    def mechanism():
        return tfa.LuongAttention(4, torch.ones(2, 3, 4))

    old = r"is a (list|tuple) of 2 without names.*LSTMStateTuple\(c=…, h=…\)"
    new = r"is a LSTMStateTuple\(c, h\), but this cell's state has h first.*\(state\.h, state\.c\)"
    for make, wrong, right, message in (
        (lambda: tfa.LSTMCell(4), [h, c], named, old),
        (lambda: tfa.BasicLSTMCell(4), (h, c), named, old),
        (lambda: tfa.DropoutWrapper(tfa.ResidualWrapper(tfa.LSTMCell(4))), [h, c], named, old),
        (lambda: tfa.KerasLSTMCell(4), named, [h, c], new),
        (lambda: nn.LSTMCell(8, 4), named, (h, c), new),
        (lambda: tfa.MultiRNNCell([tfa.GRUCell(4), tfa.LSTMCell(4)]), (h, [h, c]), (h, named), old),
        (lambda: tfa.StackedRNNCells([tfa.KerasLSTMCell(4), tfa.KerasGRUCell(4)]), (named, h), ((h, c), h), new),
    ):
        with pytest.raises(ShapeError, match=message):
            tfa.AttentionWrapper(make(), mechanism(), initial_cell_state=wrong)
        tfa.AttentionWrapper(make(), mechanism(), initial_cell_state=right)
        width = 8 if isinstance(make(), nn.LSTMCell) else 4
        with pytest.raises(ShapeError, match=message):
            tfa.dynamic_rnn(make(), torch.ones(2, 3, width), initial_state=wrong)
        tfa.dynamic_rnn(make(), torch.ones(2, 3, width), initial_state=right)
        first = tfa.AttentionWrapper(make(), mechanism()).get_initial_state(batch_size=2)
        with pytest.raises(ShapeError, match=message):
            first.clone(cell_state=wrong)
        first.clone(cell_state=right)


# --- arrays of NumPy


def test_arrays_of_numpy_and_lists_are_taken_as_keras_takes_them():
    draws = np.random.default_rng(0)
    memory, inputs = draws.normal(size=(2, 5, 4)), draws.normal(size=(2, 3, 6))  # float64
    lengths = np.array([5, 2], np.int32)
    mechanism = tfa.LuongAttention(units=4, memory=memory, memory_sequence_length=lengths, dtype=np.float32)
    assert mechanism.values.dtype == torch.float32
    wrapper = tfa.AttentionWrapper(tfa.KerasLSTMCell(4), mechanism, attention_layer_size=4, name="decoder")
    state = wrapper.get_initial_state(batch_size=np.int64(2), dtype="float32")
    state = state.clone(cell_state=[np.zeros((2, 4)), np.ones((2, 4))])
    outputs, _ = tfa.dynamic_rnn(wrapper, inputs, sequence_length=[3, 1], initial_state=state)
    expected = tfa.dynamic_rnn(wrapper, torch.as_tensor(inputs).float(), torch.tensor([3, 1]), initial_state=state)[0]
    assert torch.equal(outputs, expected)
    fc = tfa.Dense(7)
    decoder = tfa.BasicDecoder(wrapper, tfa.TrainingSampler(), fc)
    said, _, _ = decoder(inputs, initial_state=state, sequence_length=np.array([3, 1]))
    assert torch.equal(said.rnn_output[0], fc(outputs[0].detach().numpy().astype("float64")))
    table = draws.normal(size=(7, 6))
    greedy = tfa.BasicDecoder(wrapper, tfa.GreedyEmbeddingSampler(), fc, maximum_iterations=4)
    ids = greedy(table, start_tokens=np.array([1, 1]), end_token=np.int64(2), initial_state=state)[0].sample_id
    mechanism.setup_memory(tfa.tile_batch(memory, 2), tfa.tile_batch(lengths, 2))
    assert tfa.tile_batch((lengths, {"a": [3, 1]}), 2)[1]["a"].tolist() == [3, 3, 1, 1]
    beam = tfa.BeamSearchDecoder(wrapper, beam_width=2, output_layer=fc, maximum_iterations=4)
    first = wrapper.get_initial_state(batch_size=4, dtype=torch.float32)
    found, _, _ = beam(table, start_tokens=[1, 1], end_token=2, initial_state=first)
    assert found.predicted_ids.shape[0] == ids.shape[0] == 2
    mechanism.setup_memory(memory, memory_mask=np.arange(5) < lengths[:, None])
    weights = (np.arange(3) < np.array([3, 1])[:, None]).astype("float32")
    loss = tfa.sequence_loss(said.rnn_output, np.zeros((2, 3), np.int32), weights)
    assert torch.equal(loss, tfa.sequence_loss(said.rnn_output, torch.zeros(2, 3).long(), torch.as_tensor(weights)))
    double = tfa.LuongAttention(4, memory, lengths, dtype="float64")
    assert double.values.dtype == torch.float64
    with pytest.raises(ShapeError, match=r"takes a tensor \(R, F\); got ndarray.*torch\.as_tensor"):
        tfa.GRUCell(3)(inputs[:, 0], torch.zeros(2, 3))
    with pytest.raises(ShapeError, match="memory must be a tensor"):
        tfa.LuongAttention(4, memory.tolist())
    with pytest.raises(ConfigError, match="units, the first argument, must be a whole number, 1 or more; got ndarray"):
        tfa.LuongAttention(memory, 4)
