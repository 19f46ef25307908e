"""regard.interop.tfa beside the numbers of tensorflow-addons' AttentionWrapper and of TensorFlow 1's cells."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call

from golden.archive import load, mechanisms
from golden.parity import TOLERANCE, compare, leaves
from regard import tree
from regard.interop import tfa

PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def assert_same(original, name, module, weights, dtype):
    """The module's outputs and the gradients of the probe, with respect to inputs and the original's weights.

    Args:
        module: from inputs by name to outputs by name; its weights have been made.
        weights: from the original's weights to the module's.
    """
    golden = load(original, name, dtype)
    given, own = leaves(golden.inputs), leaves(golden.weights)
    outputs = functional_call(module, dict(weights(own)), (given,), strict=True)
    found = compare(golden, outputs, given | own)
    assert set(golden.outputs) <= set(outputs)
    assert {key: value for key, value in found.items() if not value <= TOLERANCE[dtype]} == {}


def part(weights, prefix):
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def cell_weights(cell, weights):
    """A state dict of a cell, of a stack or of a wrapped one."""
    if isinstance(cell, tfa.MultiRNNCell):
        return {
            f"cells.{n}.{name}": value
            for n, inner in enumerate(cell.cells)
            for name, value in cell_weights(inner, part(weights, f"{n}.")).items()
        }
    if isinstance(cell, tfa.ResidualWrapper):
        return {f"cell.{name}": value for name, value in cell_weights(cell.cell, weights).items()}
    return cell.from_tensorflow(weights)


def wrapper_weights(wrapper, weights):
    """A state dict of an AttentionWrapper, from the weights of the original by part."""
    found = {f"cell.{name}": value for name, value in cell_weights(wrapper.cell, part(weights, "cell.")).items()}
    for n, mechanism in enumerate(wrapper.attention_mechanisms):
        ours = mechanism.from_tensorflow(part(weights, f"mechanism.{n}."))
        found |= {f"attention_mechanisms.{n}.{name}": value for name, value in ours.items()}
    for n, layer in enumerate(wrapper.attention_layers or ()):
        own = part(weights, f"layer.{n}.")
        width = own["kernel"].shape[1]
        dense = layer if isinstance(layer, tfa.Dense) else tfa.Dense(width, use_bias="bias" in own)
        inner = "0." if isinstance(layer, nn.Sequential) else ""
        found |= {f"attention_layers.{n}.{inner}{name}": value for name, value in dense.from_tensorflow(own).items()}
    return found


class Steps(nn.Module):
    """A wrapper step by step: outputs, and the whole state after every step."""

    def __init__(self, wrapper):
        super().__init__()
        self.wrapper = wrapper

    def set_up(self, given):
        first, *rest = self.wrapper.attention_mechanisms
        first.setup_memory(given["memory"], given["lengths"])
        for mechanism in rest:
            mechanism.setup_memory(given["other_memory"], given["other_lengths"])

    def first_state(self, given):
        if "h2" in given:
            return [given["h"], given["c"]], given["h2"]
        return [given["h"], given["c"]] if "c" in given else given.get("h")

    def forward(self, given):
        self.set_up(given)
        batch, dtype = len(given["inputs"]), given["inputs"].dtype
        state = self.wrapper.get_initial_state(batch_size=batch, dtype=dtype)
        if (cell_state := self.first_state(given)) is not None:
            state = state.clone(cell_state=cell_state)
        kept = []
        for x in given["inputs"].unbind(1):
            output, state = self.wrapper(x, state)
            found = {"output": output, "attention": state.attention}
            for name, value in (
                ("alignment", state.alignments),
                ("attention_state", state.attention_state),
                ("cell", state.cell_state),
            ):
                found |= {f"{name}.{n}": leaf for n, leaf in enumerate(tree.leaves(value))}
            kept.append(found)
        assert state.time.tolist() == [given["inputs"].shape[1]] * batch
        outputs = {name: torch.stack([found[name] for found in kept], 1) for name in kept[0]}
        histories = state.alignment_history if self.wrapper.is_multi else (state.alignment_history,)
        return outputs | {f"history.{n}": history.stack() for n, history in enumerate(histories) if history != ()}


def tanh_of_both(inputs, attention):
    return torch.tanh(torch.cat([attention, 2.0 * inputs], -1))


def sharpened(mechanism, cell_output, state, layer):
    alignments, state = mechanism([cell_output, state])
    context = torch.einsum("bs,bsm->bm", alignments**2, mechanism.values)
    return layer(torch.cat([context, cell_output], 1)), alignments, state


def dense(size, units, *activation, bias=True):
    layer = nn.Linear(size, units, bias=bias)
    return nn.Sequential(layer, *activation) if activation else layer


def luong(**options):
    return tfa.LuongAttention(5, **options)


def bahdanau(**options):
    return tfa.BahdanauAttention(4, **options)


def lstm():
    return tfa.KerasLSTMCell(5)


def gru(units=5):
    return tfa.KerasGRUCell(units)


WRAPPERS = {
    "no_layer": lambda: tfa.AttentionWrapper(lstm(), luong(), alignment_history=True),
    "layer_size": lambda: tfa.AttentionWrapper(gru(), bahdanau(normalize=True), 4, alignment_history=True),
    "layer_size_cell_output": lambda: tfa.AttentionWrapper(lstm(), bahdanau(), 7, output_attention=False),
    "layer_module": lambda: tfa.AttentionWrapper(
        lstm(), luong(scale=True), attention_layer=dense(11, 3, nn.Tanh()), output_attention=False
    ),
    "layer_linear": lambda: tfa.AttentionWrapper(gru(), luong(), attention_layer=dense(11, 5, bias=False)),
    "several_sizes": lambda: tfa.AttentionWrapper(lstm(), [luong(), bahdanau()], [4, 3], alignment_history=True),
    "several_no_layers": lambda: tfa.AttentionWrapper(
        gru(), [bahdanau(), luong()], output_attention=False, alignment_history=True
    ),
    "several_modules": lambda: tfa.AttentionWrapper(
        gru(),
        [luong(), tfa.LuongMonotonicAttention(5, mode="recursive")],
        attention_layer=[dense(11, 3), tfa.Dense(2, torch.tanh)],
    ),
    "stacked": lambda: tfa.AttentionWrapper(tfa.StackedRNNCells([lstm(), gru(4)]), bahdanau(), 6),
    "initial_cell_state": lambda: tfa.AttentionWrapper(lstm(), luong(), 4),
    "cell_input_fn": lambda: tfa.AttentionWrapper(gru(), bahdanau(), 4, cell_input_fn=tanh_of_both),
    "attention_fn": lambda: tfa.AttentionWrapper(lstm(), luong(), 4, attention_fn=sharpened),
    "hardmax": lambda: tfa.AttentionWrapper(lstm(), bahdanau(probability_fn="hardmax"), 4),
}
for mode in ("recursive", "parallel", "hard"):
    WRAPPERS[f"bahdanau_monotonic_{mode}"] = lambda mode=mode: tfa.AttentionWrapper(
        lstm(), tfa.BahdanauMonotonicAttention(4, normalize=True, mode=mode), 4, alignment_history=True
    )
    WRAPPERS[f"luong_monotonic_{mode}"] = lambda mode=mode: tfa.AttentionWrapper(
        gru(), tfa.LuongMonotonicAttention(5, scale=True, mode=mode), output_attention=False
    )


@PRECISIONS
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_has_outputs_states_and_gradients_of_tensorflow_addons(name, dtype):
    steps = Steps(WRAPPERS[name]()).to(dtype)
    with torch.no_grad():
        steps(load("tensorflow_addons/wrapper", name, dtype).inputs)  # the weights are made in the first call

    def weights(own):
        return {f"wrapper.{key}": value for key, value in wrapper_weights(steps.wrapper, own).items()}

    assert_same("tensorflow_addons/wrapper", name, steps, weights, dtype)


def test_a_wrapper_begins_with_the_cell_state_that_its_constructor_was_given():
    golden = load("tensorflow_addons/wrapper", "initial_cell_state")
    mechanism = luong(memory=golden.inputs["memory"], memory_sequence_length=golden.inputs["lengths"])
    first = [golden.inputs["h"], golden.inputs["c"]]
    wrapper = tfa.AttentionWrapper(lstm(), mechanism, 4, initial_cell_state=first)
    wrapper.load_state_dict(wrapper_weights(wrapper, golden.weights))
    wrapper.double()
    steps = Steps(wrapper)
    steps.first_state = lambda given: None
    outputs = steps(golden.inputs)
    for name, value in golden.outputs.items():
        torch.testing.assert_close(outputs[name], value, rtol=0, atol=1e-11)


class Unrolled(nn.Module):
    """A cell in dynamic_rnn."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, given):
        outputs, state = tfa.dynamic_rnn(self.cell, given["inputs"], given["lengths"])
        return {"output": outputs} | {f"state.{n}": value for n, value in enumerate(tree.leaves(state))}


CELLS = {
    "rnn": lambda: tfa.BasicRNNCell(5, input_size=3),
    "gru": lambda: tfa.GRUCell(5, input_size=3),
    "lstm": lambda: tfa.LSTMCell(5, input_size=3),
    "basic_lstm": lambda: tfa.BasicLSTMCell(5, forget_bias=0.5, input_size=3),
    "keras_lstm": lambda: tfa.KerasLSTMCell(5, input_size=3),
    "keras_gru": lambda: tfa.KerasGRUCell(5, input_size=3),
    "keras_gru_reset_before": lambda: tfa.KerasGRUCell(5, reset_after=False, input_size=3),
    "multi_residual": lambda: tfa.MultiRNNCell(
        [tfa.GRUCell(3, input_size=3), tfa.ResidualWrapper(tfa.LSTMCell(3, input_size=3))]
    ),
}


@PRECISIONS
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_in_dynamic_rnn_has_outputs_states_and_gradients_of_tensorflow(name, dtype):
    module = Unrolled(CELLS[name]()).to(dtype)

    def weights(own):
        return {f"cell.{key}": value for key, value in cell_weights(module.cell, own).items()}

    assert_same("tensorflow_addons/cells", name, module, weights, dtype)


class BothWays(nn.Module):
    """Two cells in bidirectional_dynamic_rnn."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([tfa.GRUCell(5, input_size=3), tfa.LSTMCell(4, input_size=3)])

    def forward(self, given):
        outputs, states = tfa.bidirectional_dynamic_rnn(*self.cells, given["inputs"], given["lengths"])
        found = {f"output.{n}": value for n, value in enumerate(outputs)}
        return found | {f"state.{n}": value for n, value in enumerate(tree.leaves(states))}


@PRECISIONS
def test_two_cells_in_bidirectional_dynamic_rnn_have_outputs_states_and_gradients_of_tensorflow(dtype):
    module = BothWays().to(dtype)

    def weights(own):
        return {
            f"cells.{n}.{key}": value
            for n, cell in enumerate(module.cells)
            for key, value in cell.from_tensorflow(part(own, f"{n}.")).items()
        }

    assert_same("tensorflow_addons/cells", "bidirectional", module, weights, dtype)


class UnrolledWrapper(nn.Module):
    """A wrapper in dynamic_rnn."""

    def __init__(self):
        super().__init__()
        self.wrapper = tfa.AttentionWrapper(lstm(), luong(), 4)

    def forward(self, given):
        self.wrapper.attention_mechanisms[0].setup_memory(given["memory"], given["lengths"])
        outputs, state = tfa.dynamic_rnn(
            self.wrapper,
            given["inputs"],
            sequence_length=given["steps"],
            initial_state=self.wrapper.get_initial_state(batch_size=3, dtype=given["inputs"].dtype),
        )
        h, c = state.cell_state
        return {
            "output": outputs,
            "attention": state.attention,
            "alignment": state.alignments,
            "cell.0": h,
            "cell.1": c,
        }


@PRECISIONS
def test_a_wrapper_in_dynamic_rnn_with_lengths_has_outputs_states_and_gradients_of_tensorflow_addons(dtype):
    module = UnrolledWrapper().to(dtype)
    with torch.no_grad():
        module(load("tensorflow_addons/wrapper", "unrolled", dtype).inputs)

    def weights(own):
        return {f"wrapper.{key}": value for key, value in wrapper_weights(module.wrapper, own).items()}

    assert_same("tensorflow_addons/wrapper", "unrolled", module, weights, dtype)


class Attend(nn.Module):
    """A mechanism by its own calls, step by step."""

    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(self, given):
        self.mechanism.setup_memory(given["memory"], given["lengths"])
        state = self.mechanism.initial_state(len(given["memory"]), given["memory"].dtype)
        contexts, alignments = [], []
        for query in given["queries"].unbind(1):
            context, alignment, state = tfa.compute_attention(self.mechanism, query, state, None)
            contexts.append(context)
            alignments.append(alignment)
        return {"context": torch.stack(contexts, 1), "alignment": torch.stack(alignments, 1)[:, None]}


MECHANISMS = {
    "luong": lambda: luong(memory_size=6),
    "luong_scale": lambda: luong(scale=True, memory_size=6),
    "luong_hardmax": lambda: luong(probability_fn="hardmax", memory_size=6),
    "bahdanau": lambda: bahdanau(query_size=5, memory_size=6),
    "bahdanau_normalize": lambda: bahdanau(normalize=True, query_size=5, memory_size=6),
}
for mode in ("recursive", "parallel", "hard"):
    MECHANISMS[f"bahdanau_monotonic_{mode}"] = lambda mode=mode: tfa.BahdanauMonotonicAttention(
        4, normalize=True, mode=mode, query_size=5, memory_size=6
    )
    MECHANISMS[f"luong_monotonic_{mode}"] = lambda mode=mode: tfa.LuongMonotonicAttention(
        5, scale=True, mode=mode, memory_size=6
    )


@PRECISIONS
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_has_contexts_alignments_and_gradients_of_tensorflow_addons(name, dtype):
    module = Attend(MECHANISMS[name]()).to(dtype)

    def weights(own):
        renamed = {key.replace(".", "/").replace("scale_weight", "attention_g"): value for key, value in own.items()}
        return {f"mechanism.{key}": value for key, value in module.mechanism.from_tensorflow(renamed).items()}

    assert_same("tensorflow_addons", name, module, weights, dtype)


def test_every_golden_is_compared():
    assert set(mechanisms("tensorflow_addons/wrapper")) == {*WRAPPERS, "unrolled"}
    assert set(mechanisms("tensorflow_addons/cells")) == {*CELLS, "bidirectional"}
