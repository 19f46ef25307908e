"""The cells of TensorFlow 1 and of Keras, what is put around them, and sequences of their steps."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from regard import tree
from regard.errors import ConfigError, DataError, ShapeError, UnsupportedError
from regard.interop import tfa

CELLS = {
    "rnn": tfa.BasicRNNCell,
    "gru": tfa.GRUCell,
    "lstm": tfa.LSTMCell,
    "basic lstm": tfa.BasicLSTMCell,
    "keras lstm": tfa.KerasLSTMCell,
    "keras gru": tfa.KerasGRUCell,
}
EVERY = pytest.mark.parametrize("name", CELLS)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- cells


@EVERY
def test_a_cell_learns_the_width_of_its_inputs_from_the_first_call(name):
    cell = CELLS[name](5)
    assert not cell.built
    before = list(cell.parameters())  # an optimiser may hold them
    state = cell.get_initial_state(batch_size=2)
    output, after = cell(draw(2, 3), state)
    assert cell.built
    assert all(old is new and type(new) is nn.Parameter for old, new in zip(before, cell.parameters(), strict=True))
    assert cell.input_size == 3
    assert output.shape == (2, cell.output_size) == (2, 5)
    assert type(after) is type(state)
    with pytest.raises(ShapeError, match=r"was built for inputs \(R, F=3\)"):
        cell(draw(2, 4), state)
    again = CELLS[name](5)
    again.load_state_dict(cell.state_dict())  # before its first call
    assert torch.equal(again(draw(2, 3), state)[0], output)
    assert list(CELLS[name](5, input_size=3).state_dict()) == list(cell.state_dict())


@EVERY
def test_states_of_zeros_have_the_rows_and_the_type_that_were_asked_for(name):
    cell = CELLS[name](5, input_size=3)
    for state, dtype in (
        (cell.zero_state(2, "float64"), torch.float64),
        (cell.zero_state(2, torch.float32), torch.float32),
        (cell.get_initial_state(draw(2, 3).double()), torch.float64),
        (cell.double().get_initial_state(batch_size=2), torch.float64),
    ):
        assert all(leaf.shape == (2, 5) and leaf.dtype == dtype and not leaf.any() for leaf in tree.leaves(state))
    with pytest.raises(ShapeError, match="Give inputs or batch_size"):
        cell.get_initial_state()


def test_states_of_lstms_have_the_order_of_their_originals():
    state = tfa.LSTMCell(5).zero_state(2)
    assert isinstance(state, tfa.LSTMStateTuple)
    assert state._fields == ("c", "h")
    output, state = tfa.LSTMCell(5)(draw(2, 3), state)
    assert torch.equal(state.h, output)
    output, (h, _c) = tfa.KerasLSTMCell(5)(draw(2, 3), [torch.zeros(2, 5), torch.zeros(2, 5)])
    assert torch.equal(h, output)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm", "keras lstm"])
@pytest.mark.parametrize("activation", ["relu", "linear", torch.sin], ids=["relu", "linear", "function"])
def test_another_activation_takes_the_place_of_tanh(name, activation):
    """tanh by the general path is tanh by the fused one, and another activation changes the output."""
    cell = CELLS[name](5, input_size=3)
    general = CELLS[name](5, activation=lambda x: x.tanh(), input_size=3)
    other = CELLS[name](5, activation=activation, input_size=3)
    for made in (general, other):
        made.load_state_dict(cell.state_dict())
    state = tree.map(lambda leaf: draw(2, 5, seed=1), cell.zero_state(2))
    expected = cell(draw(2, 3), state)[0]
    torch.testing.assert_close(general(draw(2, 3), state)[0], expected)
    assert not torch.allclose(other(draw(2, 3), state)[0], expected)
    assert torch.equal(CELLS[name](5, activation="tanh", input_size=3).weights[2], cell.weights[2])
    with pytest.raises(ConfigError, match="Unknown activation 'swoosh'"):
        CELLS[name](5, activation="swoosh")


def test_weights_begin_as_those_of_the_originals():
    torch.manual_seed(0)
    gru = tfa.GRUCell(100, input_size=50)
    assert torch.equal(gru.bias, torch.cat([torch.ones(200), torch.zeros(100)]))
    for rows, outputs in ((slice(0, 200), 200), (slice(200, None), 100)):
        limit = math.sqrt(6 / (150 + outputs))
        for weight in (gru.weight_ih, gru.weight_hh):
            assert 0.97 * limit < weight[rows].abs().max() <= limit
    lstm = tfa.LSTMCell(10, forget_bias=2.5, input_size=4)
    assert torch.equal(lstm.bias.view(4, 10), torch.tensor([0, 2.5, 0, 0])[:, None].expand(4, 10))
    keras = tfa.KerasLSTMCell(10, input_size=4)
    assert torch.equal(keras.bias.view(4, 10)[:, 0], torch.tensor([0.0, 1, 0, 0]))
    torch.testing.assert_close(keras.weight_hh.T @ keras.weight_hh, torch.eye(10))
    assert not tfa.KerasLSTMCell(10, unit_forget_bias=False, input_size=4).bias.any()
    assert set(tfa.KerasGRUCell(10, reset_after=False, input_size=4).state_dict()) == {"weight_ih", "weight_hh", "bias"}
    ones = tfa.GRUCell(2, kernel_initializer="zeros", bias_initializer="ones", input_size=1)
    assert torch.equal(ones.bias, torch.ones(6))
    assert not ones.weight_ih.any()


def test_the_reset_gate_of_a_gru_multiplies_the_state_before_the_product():
    cell, x, h = tfa.GRUCell(4, input_size=3), draw(2, 3), draw(2, 4, seed=1)
    weight_ih, weight_hh, bias = cell.weights
    r_x, z_x, n_x = (x @ weight_ih.T + bias).chunk(3, 1)
    r_h, z_h, n_h = weight_hh.chunk(3, 0)
    r, z = (r_x + h @ r_h.T).sigmoid(), (z_x + h @ z_h.T).sigmoid()
    expected = (1 - z) * torch.tanh(n_x + (r * h) @ n_h.T) + z * h
    torch.testing.assert_close(cell(x, h)[0], expected)


def test_options_that_cells_do_not_have_are_refused_by_name():
    for name, value in (("use_peepholes", True), ("num_proj", 3), ("cell_clip", 1.0), ("proj_clip", 1.0)):
        with pytest.raises(UnsupportedError, match=f"{name}={value} is not supported"):
            tfa.LSTMCell(4, **{name: value})
    for cell in (tfa.LSTMCell, tfa.BasicLSTMCell):
        with pytest.raises(UnsupportedError, match="state_is_tuple=False"):
            cell(4, state_is_tuple=False)
    for cell in (tfa.KerasLSTMCell, tfa.KerasGRUCell):
        for name, value in (
            ("recurrent_activation", "hard_sigmoid"),
            ("use_bias", False),
            ("dropout", 0.5),
            ("recurrent_dropout", 0.5),
        ):
            with pytest.raises(UnsupportedError, match=name):
                cell(4, **{name: value})
    with pytest.raises(UnsupportedError, match="activation='relu' is not supported: a KerasGRUCell has tanh"):
        tfa.KerasGRUCell(4, "relu")


def test_a_dense_layer_is_that_of_keras():
    layer = tfa.Dense(4, "relu", kernel_initializer="ones", bias_initializer=lambda bias: nn.init.constant_(bias, -1))
    x = draw(2, 5, 3)
    torch.testing.assert_close(layer(x), (x.sum(-1, keepdim=True) - 1).relu().expand(2, 5, 4))
    assert (layer.out_features, layer.built) == (4, True)
    with pytest.raises(ShapeError, match="dense was built for 3 inputs"):
        layer(draw(2, 4))
    plain = tfa.Dense(4, use_bias=False, dtype="float64", input_size=3)
    assert list(plain.state_dict()) == ["weight"]
    assert plain.weight.dtype == torch.float64
    other = tfa.Dense(4, use_bias=False)
    other.load_state_dict(plain.state_dict())
    torch.testing.assert_close(other.weight.double(), plain.weight.float().double())


@pytest.mark.parametrize(
    "name",
    ["glorot_normal", "he_uniform", "he_normal", "lecun_uniform", "lecun_normal", "random_uniform", "random_normal"],
)
def test_initialisers_have_the_variance_of_keras(name):
    torch.manual_seed(0)
    weight = tfa.Dense(300, kernel_initializer=name, input_size=200).weight
    variance = {"glorot": 2 / 500, "he": 2 / 200, "lecun": 1 / 200, "random": 0.05**2}[name.partition("_")[0]]
    if name == "random_uniform":
        variance /= 3
    assert weight.var().item() == pytest.approx(variance, rel=0.03)


# --- what is put around cells


def test_cells_one_above_the_other_feed_each_other():
    low, high = tfa.GRUCell(4, input_size=3), tfa.LSTMCell(5, input_size=4)
    stack = tfa.MultiRNNCell([low, high])
    assert tfa.StackedRNNCells is tfa.MultiRNNCell
    assert (stack.state_size, stack.output_size) == ((4, tfa.LSTMStateTuple(5, 5)), 5)
    state = stack.zero_state(2, torch.float32)
    output, after = stack(draw(2, 3), state)
    between, first = low(draw(2, 3), state[0])
    expected, second = high(between, state[1])
    assert torch.equal(output, expected)
    assert torch.equal(after[0], first)
    assert torch.equal(after[1].c, second.c)
    with pytest.raises(UnsupportedError, match="in the stack more than once"):
        tfa.MultiRNNCell([low, low])
    with pytest.raises(UnsupportedError, match="needs one or more cells"):
        tfa.MultiRNNCell([])
    with pytest.raises(UnsupportedError, match="state_is_tuple=False"):
        tfa.MultiRNNCell([low, high], state_is_tuple=False)
    with pytest.raises(ShapeError, match="3 entries for 2 cells"):
        stack(draw(2, 3), (*state, state[0]))


def test_a_residual_cell_adds_its_input():
    cell = tfa.GRUCell(3, input_size=3)
    x, state = draw(2, 3), draw(2, 3, seed=1)
    output, after = tfa.ResidualWrapper(cell)(x, state)
    assert torch.equal(output, x + after)
    doubled, _ = tfa.ResidualWrapper(cell, lambda inputs, outputs: outputs - 2 * inputs)(x, state)
    assert torch.equal(doubled, after - 2 * x)
    with pytest.raises(ShapeError, match=r"\(2, 4\) and \(2, 3\) must be equal"):
        tfa.ResidualWrapper(tfa.GRUCell(3))(draw(2, 4), state)


def test_projections_are_linear_layers_with_bias_before_and_after_the_cell():
    cell = tfa.LSTMCell(4, input_size=2)
    state = cell.zero_state(3)
    after = tfa.OutputProjectionWrapper(cell, 5, torch.tanh)
    assert (after.output_size, after.state_size) == (5, tfa.LSTMStateTuple(4, 4))
    output, new = after(draw(3, 2), state)
    torch.testing.assert_close(output, torch.tanh(new.h @ after.projection.weight.T + after.projection.bias))
    before = tfa.InputProjectionWrapper(cell, 2)
    output, _ = before(draw(3, 7), state)
    projected = draw(3, 7) @ before.projection.weight.T + before.projection.bias
    torch.testing.assert_close(output, cell(projected, state)[0])
    assert before.output_size == 4
    assert tfa.InputProjectionWrapper(cell, 2, input_size=7).projection.built


def test_dropout_keeps_numbers_with_its_probabilities_in_training():
    torch.manual_seed(0)
    ones = torch.ones(400, 50)

    class Through(tfa.RNNCell):
        state_size, output_size = tfa.LSTMStateTuple(50, 50), 50

        def forward(self, inputs, state):
            return inputs, tfa.LSTMStateTuple(state.c + 1, state.h + 1)

    state = Through().zero_state(400)
    wrapped = tfa.DropoutWrapper(Through(), 0.8, 0.5, 0.9)
    output, new = wrapped(ones, state)
    assert (output != 0).float().mean().item() == pytest.approx(0.4, abs=0.01)
    torch.testing.assert_close(output[output != 0], torch.full_like(output[output != 0], 1 / 0.4))
    assert torch.equal(new.c, ones)  # c of an LSTM is not dropped
    assert (new.h != 0).float().mean().item() == pytest.approx(0.9, abs=0.01)
    wrapped.eval()
    output, new = wrapped(ones, state)
    assert torch.equal(output, ones)
    assert torch.equal(new.h, ones)


def test_dropout_asks_a_function_of_ones_own_which_states_it_drops():
    torch.manual_seed(0)
    cell = tfa.MultiRNNCell([tfa.LSTMCell(40, input_size=3), tfa.GRUCell(40, input_size=40)])
    state = cell.zero_state(30)
    for visitor, expected in (
        (None, [False, True, True]),
        (lambda node: True, [True, True, True]),
        (lambda node: not isinstance(node, tfa.LSTMStateTuple), [False, False, True]),
    ):
        wrapped = tfa.DropoutWrapper(cell, state_keep_prob=0.5, dropout_state_filter_visitor=visitor)
        _, new = wrapped(draw(30, 3), state)
        assert [bool((leaf == 0).any()) for leaf in tree.leaves(new)] == expected


def test_a_seed_tells_what_is_dropped():
    cells = [tfa.DropoutWrapper(tfa.GRUCell(40, input_size=3), output_keep_prob=0.5, seed=4) for _ in range(2)]
    cells[1].load_state_dict(cells[0].state_dict())
    state = torch.zeros(5, 40)
    first, second = (cell(draw(5, 3), state)[0] for cell in cells)
    assert torch.equal(first, second)
    third = cells[0](draw(5, 3), state)[0]
    assert not torch.equal(first == 0, third == 0)
    assert torch.equal(copy.deepcopy(cells[0]).eval()(draw(5, 3), state)[0], cells[0].eval()(draw(5, 3), state)[0])


def test_wrong_dropout_is_refused():
    with pytest.raises(ConfigError, match="output_keep_prob=0 must be a probability"):
        tfa.DropoutWrapper(tfa.GRUCell(4), output_keep_prob=0)
    with pytest.raises(UnsupportedError, match="variational_recurrent=True"):
        tfa.DropoutWrapper(tfa.GRUCell(4), variational_recurrent=True)


# --- sequences


@EVERY
def test_outputs_are_zero_and_states_are_kept_beyond_the_end_of_a_sequence(name):
    cell = CELLS[name](5)
    inputs, lengths = draw(4, 6, 3), torch.tensor([5, 0, 2, 4])
    outputs, last = tfa.dynamic_rnn(cell, inputs, lengths, dtype=torch.float32)
    assert outputs.shape == (4, 6, 5)
    for row, length in enumerate(lengths.tolist()):
        state = cell.zero_state(1)
        for t in range(length):
            output, state = cell(inputs[row : row + 1, t], state)
            torch.testing.assert_close(outputs[row, t], output[0])
        assert not outputs[row, length:].any()
        for ours, alone in zip(tree.leaves(last), tree.leaves(state), strict=True):
            torch.testing.assert_close(ours[row], alone[0])


@EVERY
def test_padding_changes_no_output_state_or_gradient(name):
    cell = CELLS[name](5, input_size=3)
    results = []
    for filled in (0.0, math.nan):
        inputs = draw(2, 4, 3)
        inputs[1, 2:] = filled
        inputs.requires_grad_()
        outputs, last = tfa.dynamic_rnn(cell, inputs, [4, 2])
        total = outputs.square().sum() + sum(leaf.sum() for leaf in tree.leaves(last))
        results.append((outputs, *tree.leaves(last), torch.autograd.grad(total, inputs)[0][:, :2]))
    for clean, dirty in zip(*results, strict=True):
        assert torch.equal(clean, dirty)


def test_time_may_come_first_and_the_first_state_may_be_given():
    cell = tfa.LSTMCell(5, input_size=3)
    inputs = draw(2, 4, 3)
    first = tfa.LSTMStateTuple(draw(2, 5, seed=1), draw(2, 5, seed=2))
    outputs, last = tfa.dynamic_rnn(cell, inputs, [4, 3], initial_state=first)
    turned, same = tfa.dynamic_rnn(cell, inputs.transpose(0, 1), [4, 3], first, time_major=True)
    assert torch.equal(turned.transpose(0, 1), outputs)
    assert torch.equal(same.c, last.c)
    assert not torch.allclose(outputs, tfa.dynamic_rnn(cell, inputs, [4, 3])[0])


def test_torchs_cells_run_over_sequences_as_torchs_layers():
    layer = nn.LSTM(3, 5, batch_first=True)
    cell = nn.LSTMCell(3, 5)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    inputs = draw(2, 4, 3)
    outputs, (h, c) = tfa.dynamic_rnn(cell, inputs)
    expected, (h_n, c_n) = layer(inputs)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(h, h_n[0])
    torch.testing.assert_close(c, c_n[0])


def test_sequences_of_no_steps_or_no_rows_give_nothing():
    cell = tfa.GRUCell(5, input_size=3)
    outputs, last = tfa.dynamic_rnn(cell, draw(2, 0, 3))
    assert outputs.shape == (2, 0, 5)
    assert torch.equal(last, torch.zeros(2, 5))
    outputs, _ = tfa.dynamic_rnn(cell, draw(2, 3, 3), [0, 0])
    assert torch.equal(outputs, torch.zeros(2, 3, 5))
    assert tfa.dynamic_rnn(cell, draw(0, 3, 3))[0].shape == (0, 3, 5)
    assert tfa.dynamic_rnn(cell, draw(0, 2, 3), time_major=True)[0].shape == (0, 2, 5)


def test_wrong_inputs_of_dynamic_rnn_are_errors():
    cell = tfa.GRUCell(5, input_size=3)
    with pytest.raises(ShapeError, match=r"sequence_length must be \(B=2,\) integers"):
        tfa.dynamic_rnn(cell, draw(2, 4, 3), [4, 3, 2])
    with pytest.raises(ShapeError, match="between 0 and T=4; got 3 to 5"):
        tfa.dynamic_rnn(cell, draw(2, 4, 3), [5, 3])
    with pytest.raises(ShapeError, match=r"inputs must be \(B, T, F\)"):
        tfa.dynamic_rnn(cell, draw(2))
    with pytest.raises(ShapeError, match="disagree on T"):
        tfa.dynamic_rnn(cell, (draw(2, 4, 3), draw(2, 5, 3)))
    with pytest.raises(UnsupportedError, match="cell must be a cell"):
        tfa.dynamic_rnn(nn.GRU(3, 5), draw(2, 4, 3))


def test_two_cells_run_in_both_directions_and_one_object_is_refused():
    there, back = tfa.GRUCell(5, input_size=3), tfa.GRUCell(5, input_size=3)
    inputs, lengths = draw(2, 4, 3), [4, 2]
    outputs, states = tfa.bidirectional_dynamic_rnn(there, back, inputs, lengths, dtype=torch.float32)
    assert torch.equal(outputs[0], tfa.dynamic_rnn(there, inputs, lengths)[0])
    alone, last = tfa.dynamic_rnn(back, inputs[1:, :2].flip(1))
    torch.testing.assert_close(outputs[1][1:, :2], alone.flip(1))
    torch.testing.assert_close(states[1][1:], last)
    turned, _ = tfa.bidirectional_dynamic_rnn(there, back, inputs.transpose(0, 1), lengths, time_major=True)
    assert torch.equal(turned[1].transpose(0, 1), outputs[1])
    whole, _ = tfa.bidirectional_dynamic_rnn(there, back, inputs)
    torch.testing.assert_close(whole[1], tfa.dynamic_rnn(back, inputs.flip(1))[0].flip(1))
    with pytest.raises(UnsupportedError, match="the same object, so both directions would share their weights"):
        tfa.bidirectional_dynamic_rnn(there, there, inputs)


def test_a_sequence_is_turned_round_within_its_length():
    x = torch.arange(12).view(2, 3, 2)
    assert torch.equal(tfa.reverse_sequence(x), x.flip(1))
    turned = tfa.reverse_sequence(x, [3, 2])
    assert torch.equal(turned[0], x[0].flip(0))
    assert torch.equal(turned[1], x[1][[1, 0, 2]])
    assert torch.equal(tfa.reverse_sequence(turned, [3, 2]), x)
    assert torch.equal(tfa.reverse_sequence(x.transpose(0, 1), [3, 2], time_major=True), turned.transpose(0, 1))


@EVERY
def test_a_state_of_other_rows_or_widths_is_an_error_and_never_broadcast(name):
    cell = CELLS[name](4, input_size=3)
    for wrong in (draw(2, 5), draw(3, 4), draw(4), (draw(2, 4), draw(4)), (draw(2, 4),) * 3, None):
        with pytest.raises(ShapeError, match="The state of"):
            cell(draw(2, 3), wrong)


def test_a_stack_refuses_a_tensor_whose_rows_are_as_many_as_its_cells():
    stack = tfa.MultiRNNCell([tfa.GRUCell(4), tfa.GRUCell(4)])
    with pytest.raises(ShapeError, match="has the type Tensor for 2 cells: give a tuple"):
        stack(draw(2, 3), draw(2, 4))
    with pytest.raises(ShapeError, match="has 1 entries for 2 cells"):
        stack(draw(2, 3), (draw(2, 4),))
    with pytest.raises(UnsupportedError, match="must be a list of cells; got GRUCell"):
        tfa.MultiRNNCell(tfa.GRUCell(4))


@pytest.mark.parametrize("name", [*CELLS, "dense"])
def test_arrays_of_an_original_are_named_where_they_are_missing_or_left_over(name):
    layer = tfa.Dense(4) if name == "dense" else CELLS[name](4)
    with pytest.raises(DataError, match=r"missing: (.|\n)*others: w_f_diag"):
        layer.from_tensorflow({"w_f_diag": torch.zeros(4)})


def test_arrays_of_an_original_may_be_of_numpy():
    arrays = {"kernel": draw(8, 20), "bias": draw(20)}
    ours = tfa.LSTMCell(5).from_tensorflow({name: array.numpy() for name, array in arrays.items()})
    for name, array in tfa.LSTMCell(5).from_tensorflow(arrays).items():
        assert torch.equal(ours[name], array)
    with pytest.raises(DataError, match="others: w_f_diag"):
        tfa.LSTMCell(5).from_tensorflow(arrays | {"w_f_diag": draw(5)})


@pytest.mark.parametrize("name", [*CELLS, "dense"])
def test_widths_and_types_that_do_not_fit_are_errors(name):
    kind = tfa.Dense if name == "dense" else CELLS[name]
    for wrong in (0, -4, 4.0, "4"):
        with pytest.raises(ConfigError, match="units must be a whole number, 1 or more"):
            kind(wrong)
    layer = kind(4, input_size=3)
    with pytest.raises(ShapeError, match="inputs has the type float64, but the weights are float32"):
        layer(draw(2, 3).double(), *([] if name == "dense" else [layer.zero_state(2)]))
    if name != "dense":
        with pytest.raises(ShapeError, match="The state has the type float64, but the weights are float32"):
            layer(draw(2, 3), layer.zero_state(2, torch.float64))
