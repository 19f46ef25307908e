"""regard.interop.tfa's decoders and dynamic_decode, beside the numbers of tensorflow-addons."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.interop import tfa
from tfa_models import END, START, STEPS, Cell, attentive, case_of, close, first_state, golden, layer

torch.set_num_threads(1)
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
CASES = {
    "plain": {},
    "imputed": {"impute_finished": True},
    "cut": {"maximum_iterations": 3, "impute_finished": True},
    "time_major": {"output_time_major": True, "impute_finished": True},
}


def tolerance(dtype):
    return 1e-5 if dtype == torch.float32 else 1e-11


def compare(kept, results, given, dtype):
    """Asserts outputs, states, lengths, and the gradients of the probe."""
    probe = torch.zeros((), dtype=dtype)
    for name, (outputs, state, lengths) in results.items():
        expected = case_of(kept.outputs, name)
        for key, value in {"rnn_output": outputs.rnn_output, "state": state}.items():
            close(value, expected[key], tolerance(dtype))
            probe = probe + (value * kept.probes[f"{name}.{key}"].to(dtype)).sum()
        assert torch.equal(outputs.sample_id, expected["sample_id"].long())
        assert torch.equal(lengths, expected["lengths"].long())
    probe.backward()
    for name, tensor in given.items():
        close(tensor.grad, kept.gradients[name], tolerance(dtype))


def leaves(kept, *names):
    return {
        name: value.clone().requires_grad_() for name, value in (kept.inputs | kept.weights).items() if name in names
    }


WEIGHTS = ("kernel", "recurrent", "bias", "output", "output_bias")


@PRECISIONS
def test_basic_decoder_trains_as_the_original_with_impute_finished_maximum_iterations_and_time_major(dtype):
    """Lengths 4, 0 and 2: outputs, sample ids, last states, lengths and every gradient."""
    kept = golden("decode_training", dtype)
    given, lengths = leaves(kept, "inputs", "state", *WEIGHTS), kept.inputs["lengths"]
    results = {}
    for name, options in CASES.items():
        by_time = name == "time_major"
        decoder = tfa.BasicDecoder(Cell(given), tfa.TrainingSampler(by_time), layer(given), **options)
        fed = given["inputs"].transpose(0, 1) if by_time else given["inputs"]
        results[name] = decoder(fed, initial_state=given["state"], sequence_length=lengths)
    compare(kept, results, given, dtype)
    assert results["plain"][2].tolist() == [4, 0, 2]
    assert results["cut"][0].rnn_output.shape[1] == 3


@PRECISIONS
def test_basic_decoder_in_the_form_of_tensorflow_1_gives_the_same(dtype):
    kept = golden("decode_training", dtype)
    given, lengths = leaves(kept, "inputs", "state", *WEIGHTS), kept.inputs["lengths"]
    results = {}
    for name, options in CASES.items():
        by_time = name == "time_major"
        fed = given["inputs"].transpose(0, 1) if by_time else given["inputs"]
        helper = tfa.TrainingHelper(inputs=fed, sequence_length=lengths, time_major=by_time)
        decoder = tfa.BasicDecoder(Cell(given), helper, given["state"], layer(given))
        results[name] = tfa.dynamic_decode(decoder, swap_memory=True, scope="decoder", **options)
    compare(kept, results, given, dtype)
    named = tfa.BasicDecoder(cell=Cell(given), helper=helper, initial_state=given["state"], output_layer=layer(given))
    close(tfa.dynamic_decode(decoder=named)[1], results["plain"][1], tolerance(dtype))


@PRECISIONS
def test_greedy_decoding_ends_as_the_original_and_the_step_of_the_end_token_counts(dtype):
    kept = golden("decode_greedy", dtype)
    given = leaves(kept, "state", "embedding", *WEIGHTS)
    starts, results = torch.full((4,), START), {}
    for name, options in {"plain": {}, "imputed": {"impute_finished": True}}.items():
        decoder = tfa.BasicDecoder(
            Cell(given), tfa.GreedyEmbeddingSampler(), layer(given), maximum_iterations=STEPS, **options
        )
        results[name] = decoder(given["embedding"], start_tokens=starts, end_token=END, initial_state=given["state"])
    compare(kept, results, given, dtype)
    outputs, _, lengths = results["imputed"]
    for ids, said, length in zip(outputs.sample_id, outputs.rnn_output, lengths.tolist(), strict=True):
        assert length == STEPS or int(ids[length - 1]) == END
        assert not said[length:].any()
        assert not ids[length:].any()
    helper = tfa.GreedyEmbeddingHelper(given["embedding"], starts, END)
    decoder = tfa.BasicDecoder(Cell(given), helper, given["state"], output_layer=layer(given))
    again = tfa.dynamic_decode(decoder, maximum_iterations=torch.tensor(STEPS))
    close(again[0].rnn_output, results["plain"][0].rnn_output, tolerance(dtype))


def small(**options):
    torch.manual_seed(0)
    return tfa.BasicDecoder(nn.GRUCell(2, 3), tfa.TrainingSampler(), nn.Linear(3, 5), **options)


def test_items_that_had_finished_before_the_first_step_give_no_steps():
    """Their outputs are empty, of the sizes and types that the decoder says; the state is the first one."""
    state = torch.randn(2, 3)
    outputs, last, lengths = small()(torch.zeros(2, 4, 2), initial_state=state, sequence_length=[0, 0])
    assert outputs.rnn_output.shape == (2, 0, 5)
    assert (outputs.sample_id.shape, outputs.sample_id.dtype) == ((2, 0), torch.long)
    assert last is state
    assert lengths.tolist() == [0, 0]
    by_time, _, _ = small(output_time_major=True)(torch.zeros(2, 4, 2), initial_state=state, sequence_length=[0, 0])
    assert by_time.rnn_output.shape == (0, 2, 5)


def test_output_sizes_and_types_are_those_of_cell_layer_state_and_sampler():
    decoder = small()
    decoder.initialize(torch.zeros(2, 4, 2), torch.zeros(2, 3, dtype=torch.float64))
    assert decoder.output_size == ((5,), ())
    assert decoder.output_dtype == (torch.float64, torch.long)
    assert decoder.batch_size == 2
    bare = tfa.BasicDecoder(nn.GRUCell(2, 3), tfa.TrainingSampler())
    assert bare.output_size.rnn_output == (3,)
    asked = tfa.BasicDecoder(nn.GRUCell(2, 3), tfa.TrainingSampler(), nn.Sequential(nn.Linear(3, 6), nn.Tanh()))
    assert asked.output_size.rnn_output == (6,)
    units = tfa.BasicDecoder(nn.GRUCell(2, 3), tfa.TrainingSampler(), tfa.Dense(7))
    assert units.output_size.rnn_output == (7,)


@pytest.mark.parametrize(
    ("maximum", "error", "message"),
    [
        (0, ConfigError, "maximum_iterations is 0; give a number of steps above 0"),
        (-1, ConfigError, "above 0"),
        (torch.tensor([3]), ShapeError, "maximum_iterations must be a scalar"),
    ],
)
def test_maximum_iterations_is_a_scalar_above_0(maximum, error, message):
    with pytest.raises(error, match=message):
        small(maximum_iterations=maximum)(torch.zeros(2, 4, 2), initial_state=torch.zeros(2, 3))


def test_a_decoder_without_a_state_or_sampler_is_refused():
    with pytest.raises(RegardError, match="needs the cell's first state"):
        small()(torch.zeros(2, 4, 2))
    with pytest.raises(UnsupportedError, match="sampler must be a Sampler, or a Helper; got NoneType"):
        tfa.BasicDecoder(nn.GRUCell(2, 3))


class Counting(tfa.Decoder):
    """Counts to each item's number; its state has a scalar and an array of steps."""

    def __init__(self, numbers, own=False, finalizing=False):
        self.numbers, self.own, self.finalizing = numbers, own, finalizing

    @property
    def tracks_own_finished(self):
        return self.own

    def initialize(self, name=None):
        count = len(self.numbers)
        state = {"scalar": torch.tensor(0), "row": torch.zeros(count, 1), "array": tfa.TensorArray(), "none": None}
        return self.numbers == 0, torch.zeros(count), state

    def step(self, time, inputs, state, name=None):
        new = {
            "scalar": state["scalar"] + 1,
            "row": state["row"] + 1,
            "array": state["array"].write(time, inputs),
            "none": None,
        }
        finished = (inputs + 1 == self.numbers) if not self.own else inputs + 1 >= self.numbers
        return (inputs + 1, [torch.ones(len(inputs), 2, 2)]), new, inputs + 1, finished

    def finalize(self, outputs, final_state, sequence_lengths):
        if not self.finalizing:
            raise NotImplementedError
        return (outputs[0], sequence_lengths), final_state


def test_a_decoder_of_ones_own_runs_with_nested_outputs_and_states():
    """Finished stays finished; scalars and arrays pass impute_finished, rows stay as they were."""
    numbers = torch.tensor([1, 3, 0])
    (counts, (ones,)), state, lengths = tfa.dynamic_decode(Counting(numbers), impute_finished=True)
    assert counts.tolist() == [[1, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert ones.shape == (3, 3, 2, 2)
    assert ones.sum((2, 3)).tolist() == [[4, 0, 0], [4, 4, 4], [0, 0, 0]]
    assert int(state["scalar"]) == 3
    assert state["row"].tolist() == [[1], [3], [0]]
    assert state["array"].stack().tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert lengths.tolist() == [1, 3, 0]
    (counts, _), state, lengths = tfa.dynamic_decode(Counting(numbers), output_time_major=True)
    assert counts.tolist() == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]
    assert state["row"].tolist() == [[3], [3], [3]]


def test_finalize_gets_time_major_outputs_and_its_results_are_turned():
    numbers = torch.tensor([1, 3])
    (counts, lengths), _, _ = tfa.dynamic_decode(Counting(numbers, finalizing=True))
    assert counts.tolist() == [[1, 2, 3], [1, 2, 3]]
    assert lengths.tolist() == [1, 3]


def test_a_decoder_that_tracks_its_own_finished_is_believed_and_refuses_impute_finished():
    class Wavering(Counting):
        def step(self, time, inputs, state, name=None):
            outputs, state, inputs, _ = super().step(time, inputs, state)
            return outputs, state, inputs, torch.tensor([time in (0, 2), time == 2])

    _, _, lengths = tfa.dynamic_decode(Wavering(torch.tensor([9, 9]), own=True))
    assert lengths.tolist() == [3, 3]
    _, _, lengths = tfa.dynamic_decode(Wavering(torch.tensor([9, 9])))
    assert lengths.tolist() == [1, 3]
    with pytest.raises(UnsupportedError, match="impute_finished is not supported with Wavering"):
        tfa.dynamic_decode(Wavering(torch.tensor([9, 9]), own=True), impute_finished=True)


def test_base_decoder_of_ones_own_is_called_with_inputs_and_further_arguments():
    class Doubling(tfa.BaseDecoder):
        def initialize(self, inputs, initial_state=None, *, steps=2):
            self.steps = steps
            return torch.zeros(len(inputs), dtype=torch.bool), inputs, initial_state

        def step(self, time, inputs, state, training):
            finished = torch.full((len(inputs),), time + 1 >= self.steps)
            return inputs * 2 + bool(training), state, inputs * 2, finished

    decoder = Doubling(maximum_iterations=5, parallel_iterations=1, swap_memory=True)
    outputs, _, lengths = decoder(torch.ones(1), initial_state=torch.zeros(1), steps=3)
    assert (outputs.tolist(), lengths.tolist()) == ([[2, 4, 8]], [3])
    again = tfa.dynamic_decode(
        decoder, decoder_init_input=torch.ones(1), decoder_init_kwargs={"steps": 2}, training=True
    )
    assert again[0].tolist() == [[3, 5]]
    for thing in (tfa.BaseDecoder(),):
        for name in ("batch_size", "output_size", "output_dtype"):
            with pytest.raises(NotImplementedError):
                getattr(thing, name)


def test_training_sets_the_modes_of_modules_for_the_call_and_puts_them_back():
    class Dropping(nn.Module):
        state_size = output_size = 2

        def forward(self, inputs, state):
            return nn.functional.dropout(inputs, 0.5, self.training), state

    decoder = tfa.BasicDecoder(Dropping(), tfa.TrainingSampler())
    inputs = torch.ones(3, 50, 2)
    for training, drops in ((True, True), (False, False), (None, True)):
        outputs, _, _ = decoder(inputs, initial_state=torch.zeros(3, 2), training=training)
        assert bool((outputs.rnn_output == 0).any()) == drops
        assert decoder.training
        assert decoder.cell.training
    with pytest.raises(UnsupportedError, match="training is True, but Counting is no module"):
        tfa.dynamic_decode(Counting(torch.tensor([1])), training=True)


def test_arguments_of_tensorflows_loops_have_no_effect():
    inputs, state = torch.randn(2, 4, 2), torch.randn(2, 3)
    plain = small()(inputs, initial_state=state)
    told = {"decoder_init_input": inputs, "decoder_init_kwargs": {"initial_state": state}}
    same = tfa.dynamic_decode(
        small(), parallel_iterations=1, swap_memory=True, scope="x", enable_tflite_convertible=True, **told
    )
    assert torch.equal(plain[0].rnn_output, same[0].rnn_output)


def test_tacotron_decodes_r_frames_a_step_with_its_helpers():
    torch.manual_seed(1)
    cell, frames = tfa.OutputProjectionWrapper(tfa.GRUCell(4), 6), torch.randn(2, 9, 2)
    state = torch.randn(2, 4)
    helper = tfa.TacoTrainingHelper(torch.zeros(2, 5), frames, 2, 3)
    outputs, _, lengths = tfa.dynamic_decode(tfa.BasicDecoder(cell, helper, state), maximum_iterations=10)
    assert outputs.rnn_output.shape == (2, 3, 6)
    assert outputs.rnn_output.reshape(2, -1, 2).shape == frames.shape
    assert lengths.tolist() == [3, 3]
    test = tfa.TacoTestHelper(2, 2, 3)
    outputs, _, lengths = tfa.dynamic_decode(tfa.BasicDecoder(cell, test, state), maximum_iterations=10)
    assert (outputs.rnn_output.shape, lengths.tolist()) == ((2, 10, 6), [10, 10])
    silent = tfa.TacoTestHelper(2, 2, 3, silence=1e6)
    outputs, _, lengths = tfa.dynamic_decode(tfa.BasicDecoder(cell, silent, state), maximum_iterations=10)
    assert (outputs.rnn_output.shape, lengths.tolist()) == ((2, 1, 6), [1, 1])


@PRECISIONS
def test_impute_finished_copies_every_part_of_an_attention_state_and_passes_its_history(dtype):
    """Over steps of 5, 2, 0 and 4: outputs, the parts of the last state, histories, and every gradient."""
    kept = golden("decode_attention", dtype)
    given = leaves(kept, "memory", "state", "inputs", *kept.weights)
    wrapper, results = attentive(given, given["memory"], kept.inputs["lengths"]), {}
    for name, options in {"plain": {}, "imputed": {"impute_finished": True}}.items():
        decoder = tfa.BasicDecoder(wrapper, tfa.TrainingSampler(), layer(given), **options)
        outputs, state, lengths = decoder(
            given["inputs"], initial_state=first_state(wrapper, given["state"]), sequence_length=kept.inputs["steps"]
        )
        expected = case_of(kept.outputs, name)
        found = {"rnn_output": outputs.rnn_output, "history": state.alignment_history.stack()}
        found |= {key: getattr(state, key) for key in ("cell_state", "attention", "alignments")}
        for key, value in found.items():
            close(value, expected[key], tolerance(dtype))
        assert torch.equal(outputs.sample_id, expected["sample_id"].long())
        assert torch.equal(lengths, expected["lengths"].long())
        results |= {f"{name}.{key}": value for key, value in found.items()}
    sum((value * kept.probes[key].to(dtype)).sum() for key, value in results.items()).backward()
    gradients = {name: tensor.grad for name, tensor in given.items()}
    for name, parameter in wrapper.named_parameters():
        gradients["attention_layer" if "attention_layers" in name else "memory_layer"] = parameter.grad.T
    largest = max(float(value.abs().max()) for value in kept.gradients.values())
    for name, gradient in gradients.items():
        close(gradient / largest, kept.gradients[name] / largest, tolerance(dtype))


class SpokenHelper(tfa.Helper):
    """A helper as ports of TensorFlow 1 have them: properties of its own, `name` arguments, no call of the base."""

    def __init__(self, count):
        self.count = count

    @property
    def batch_size(self):
        return self.count

    def initialize(self, name=None):
        return torch.zeros(self.count, dtype=torch.bool), torch.zeros(self.count, 2)

    def sample(self, time, outputs, state, name=None):
        return torch.zeros(self.count, dtype=torch.long)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        return torch.tensor([time >= 1, time >= 2]), outputs[:, :2], state


def test_a_helper_of_ones_own_in_the_form_of_tensorflow_1_decodes():
    decoder = tfa.BasicDecoder(nn.GRUCell(2, 3), SpokenHelper(2), torch.zeros(2, 3))
    outputs, _, lengths = tfa.dynamic_decode(decoder, maximum_iterations=9)
    assert (outputs.rnn_output.shape, lengths.tolist()) == ((2, 3, 3), [2, 3])


def test_a_basic_decoder_refuses_what_it_would_not_use():
    cell, sampler, state, layer = nn.GRUCell(2, 3), tfa.TrainingSampler(), torch.zeros(2, 3), nn.Linear(3, 5)
    with pytest.raises(TypeError, match="got 5 arguments"):
        tfa.BasicDecoder(cell, sampler, state, layer, 3)
    with pytest.raises(TypeError, match="got initial_state twice"):
        tfa.BasicDecoder(cell, sampler, state, initial_state=state)
    with pytest.raises(TypeError, match="got output_layer twice"):
        tfa.BasicDecoder(cell, sampler, layer, output_layer=layer)
    with pytest.raises(UnsupportedError, match=r"output_layer must be a module or a function; got Tensor(.|\n)*helper"):
        tfa.BasicDecoder(cell, sampler, layer, state)
    with pytest.raises(UnsupportedError, match="two names of one argument"):
        tfa.BasicDecoder(cell, sampler, helper=sampler)


def test_dynamic_decode_refuses_cells_and_a_number_in_the_place_of_output_time_major():
    with pytest.raises(UnsupportedError, match=r"runs a Decoder(.|\n)*got GRUCell"):
        tfa.dynamic_decode(nn.GRUCell(2, 3))
    with pytest.raises(ConfigError, match=r"output_time_major is 5(.|\n)*maximum_iterations"):
        tfa.dynamic_decode(small(), 5)
