"""Free runs of decoders of values, and what the laws of free runs notice."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from regard import attention as a
from regard import plain, tree
from regard.decoding import SearchSource, free_run, search
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.layers import QuantileHead, RecurrentStack, TokenEmbedding, TokenHead, ValueEmbedding, ValueHead
from regard.losses import squared_error
from regard.models import (
    Bridge,
    ChangeDecoder,
    DecoderOutput,
    EncoderDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    TransformerDecoder,
)
from regard.ops.linear import PackedProduct
from regard.tasks.decoder_losses import forced_outputs
from regard.testing import check_decoder, draw_source, encode
from support import tiny

SIZES = {"query_size": tiny.QUERY_SIZE, "memory_size": tiny.MEMORY_SIZE}


def recurrent(**options):
    return tiny.recurrent(a.bahdanau(**SIZES, size=4), continuous=True, **options).eval()


def made(decoder):
    """The decoder, its memory of two sources, and first inputs."""
    return decoder, decoder.prepare(encode(tiny.sources())), torch.tensor([[0.5, -1.0], [2.0, 0.1]]).double()


class Sums:
    """Says the sum of its source plus its inputs, and the number of steps as `stop`; its state counts them.

    With a fault it does something wrong.
    """

    def __init__(self, fault=""):
        self.fault = fault

    def prepare(self, encoded):
        memory = encoded.memory.sum((1, 2))[:, None]
        return {"sums": memory - memory.mean(0) if self.fault == "batch" else memory}

    def initial_state(self, memory, num_hypotheses=1):
        return {"steps": torch.zeros(len(memory["sums"]) * num_hypotheses, dtype=torch.double)}

    def step(self, inputs, memory, state, *, alignment=False, generator=None):
        sums = memory["sums"].repeat_interleave(len(inputs) // len(memory["sums"]), 0)
        steps = state["steps"] + 1
        if self.fault == "order":
            sums = sums.flip(0) if len(sums) % 2 == 1 else sums
        values = torch.sin(inputs[:, :1] + sums) + steps[:, None]
        return DecoderOutput(values=values, auxiliary={"stop": steps[:, None]}), {"steps": steps}

    def forward(self, inputs, memory, *, alignment=False, generator=None):
        state, outputs = self.initial_state(memory), []
        for x in inputs.unbind(1):
            output, state = self.step(x, memory, state)
            outputs.append(output)
        return DecoderOutput(
            values=torch.stack([output.values for output in outputs], 1) * (2 if self.fault == "forward" else 1),
            auxiliary={"stop": torch.stack([output.auxiliary["stop"] for output in outputs], 1)},
        )


SOURCES = [draw_source(length, 6, seed=length) for length in (5, 2, 3)]


def test_a_users_own_decoder_of_values_can_prove_itself():
    check_decoder(Sums(), sources=SOURCES, num_features=1)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("forward", "free_run_is_teacher_forcing_with_its_values"),
        ("batch", "free_run_is_independent_of_batch_and_padding"),
        ("order", "free_run_ends_where_stop_is_true"),
    ],
)
def test_a_fault_in_it_is_named(fault, law):
    with pytest.raises(AssertionError, match=f"Sums breaks the law {law}"):
        check_decoder(Sums(fault), sources=SOURCES, num_features=1, only=[law])


def test_laws_of_searches_and_of_free_runs_leave_the_other_kind_alone():
    names = ["free_run_ends_where_stop_is_true", "beam_of_one_is_greedy"]
    check_decoder(tiny.recurrent(a.bahdanau(**SIZES, size=4)), sources=tiny.sources(), num_tokens=4, only=names)
    check_decoder(Sums(), sources=SOURCES, num_features=1, only=names)


def test_trajectories_say_why_they_ended_and_are_ordinary_tensors():
    decoder, memory, first = made(recurrent(levels=(0.1, 0.5, 0.9)))
    marks = free_run(decoder, memory, first, max_length=5)[0].values[2]
    short, long = free_run(
        decoder,
        memory,
        first,
        max_length=torch.tensor([5, 4]),
        stop=lambda output: (output.values - marks).abs().amax(1) < 1e-9,
        alignment=True,
    )
    assert (short.stop_reason, long.stop_reason) == ("stop", "length")
    assert (len(short.values), len(long.values)) == (3, 4)
    assert repr(short) == ("Trajectory(values (3, 2), stop_reason='stop', attention (1, 3, 5), quantiles (3, 2, 3))")
    torch.testing.assert_close(short.auxiliary["quantiles"][..., 1], short.values)
    torch.testing.assert_close(short.alignments["attention"].sum(2), torch.ones(1, 3).double())
    tensors = [short.values, *short.alignments.values(), *short.auxiliary.values()]
    assert not any(tensor.is_inference() for tensor in tensors)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_run_says_what_plain_steps_say(rows):
    decoder, memory, first = made(recurrent(order="attend_then_recur"))
    memory, first = tree.reorder(memory, torch.arange(rows)), first[:rows]
    for model in (decoder, ChangeDecoder(decoder)):
        found = free_run(model, memory, first, max_length=4)
        with plain():
            expected = free_run(model, memory, first, max_length=4)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours.values, theirs.values)


def test_a_run_takes_the_step_of_an_instance():
    decoder, memory, first = made(recurrent())
    own = decoder.step

    def step(*given, **options):
        output, state = own(*given, **options)
        return dataclasses.replace(output, values=output.values + 1), state

    before = free_run(decoder, memory, first, max_length=1)
    decoder.step = step
    for ours, theirs in zip(free_run(decoder, memory, first, max_length=1), before, strict=True):
        torch.testing.assert_close(ours.values, theirs.values + 1)


def test_weights_are_laid_out_once_a_run(monkeypatch):
    made_of, make = [], PackedProduct.__init__

    def watch(self, weight, **options):
        made_of.append(weight.data_ptr())
        make(self, weight, **options)

    monkeypatch.setattr(PackedProduct, "__init__", watch)
    decoder, memory, first = made(recurrent())
    free_run(decoder, memory, first, max_length=torch.tensor([6, 4]))
    assert made_of
    assert len(set(made_of)) == len(made_of)


def test_known_futures_are_fed_beside_the_values_of_the_rows_that_still_run():
    decoder = recurrent(further_inputs=1)
    memory = decoder.prepare(encode(tiny.sources()))
    known = torch.randn(2, 6, 1).double()
    seen = []

    def feed(values, rows, step):
        seen.append((rows.tolist(), step))
        return torch.cat([values, known[rows, step]], 1)

    first = torch.cat([torch.ones(2, 2).double(), known[:, 0]], 1)
    free_run(decoder, memory, first, max_length=torch.tensor([2, 4]), feed=feed)
    assert seen == [([0, 1], 1), ([1], 2), ([1], 3)]


def test_the_last_of_several_frames_can_be_fed():
    """Two frames of one value side by side are said at every step; the decoder reads one."""
    decoder = recurrent()
    decoder.embedding = ValueEmbedding(1, tiny.EMBEDDING_SIZE).double()
    memory = decoder.prepare(encode(tiny.sources()))
    runs = free_run(decoder, memory, torch.zeros(2, 1).double(), max_length=3, feed=lambda values, *_: values[:, 1:])
    assert [run.values.shape for run in runs] == [(3, 2), (3, 2)]


def test_of_nothing_there_are_no_runs():
    assert free_run(Sums(), {"sums": torch.zeros(0, 1)}, torch.zeros(0, 1), max_length=3) == []


@pytest.mark.parametrize(
    ("first", "options", "message"),
    [
        (torch.zeros(3, 2), {}, r"first must be \(B=2, I\) values"),
        (torch.zeros(2), {}, r"first must be \(B=2, I\) values"),
        (torch.zeros(2, 2).long(), {}, r"first must be \(B=2, I\) values"),
        (torch.zeros(2, 2), {"feed": lambda values, *_: values[:, :1]}, r"step 1 must be .* feed must return them"),
        (torch.zeros(2, 2), {"stop": lambda output: output.values[:, 0]}, r"stop must return \(R=2,\) bool"),
        (torch.zeros(2, 2), {"max_length": 2.5}, "max_length must be an int"),
    ],
)
def test_wrong_shapes_are_refused_with_what_came(first, options, message):
    decoder, memory, _ = made(recurrent())
    first = first.double() if first.is_floating_point() else first
    with pytest.raises(ShapeError, match=message):
        free_run(decoder, memory, first, **{"max_length": 3, **options})


def test_values_that_do_not_fit_the_inputs_want_a_feed():
    decoder = recurrent(further_inputs=1)
    with pytest.raises(ShapeError, match="give `feed`"):
        free_run(decoder, decoder.prepare(encode(tiny.sources())), torch.zeros(2, 3).double(), max_length=3)


def test_values_of_a_wrong_shape_are_refused():
    decoder = Sums()
    plain = decoder.step
    decoder.step = lambda *arguments, **_: (DecoderOutput(values=torch.zeros(3)), plain(*arguments)[1])
    with pytest.raises(ShapeError, match=r"A step must return values \(R=3, F\)"):
        free_run(decoder, decoder.prepare(encode(SOURCES)), torch.zeros(3, 1).double(), max_length=3)


def test_tokens_are_searched_and_values_are_run():
    tokens = tiny.recurrent(a.bahdanau(**SIZES, size=4))
    memory = tokens.prepare(encode(tiny.sources()))
    tokens.embedding = ValueEmbedding(2, tiny.EMBEDDING_SIZE).double()
    with pytest.raises(UnsupportedError, match="Use `search` for tokens"):
        free_run(tokens, memory, torch.zeros(2, 2).double(), max_length=3)
    decoder = recurrent()
    decoder.embedding = TokenEmbedding(4, tiny.EMBEDDING_SIZE).double()
    with pytest.raises(UnsupportedError, match="Use free_run"):
        search(decoder, memory, bos=0, eos=1, max_length=3)


def test_nan_is_an_error_that_says_where():
    decoder, memory, first = made(recurrent())
    with pytest.raises(RegardError, match="NaN at step 0, row 1"):
        free_run(decoder, memory, first.masked_fill(first == 2.0, torch.nan), max_length=3)


def test_values_change_by_what_the_core_says():
    core, memory, first = made(recurrent(levels=(0.2, 0.5)))
    inputs = torch.stack([first, 2 * first], 1)
    changes, output = core(inputs, memory), ChangeDecoder(core)(inputs, memory)
    torch.testing.assert_close(output.values, inputs + changes.values)
    torch.testing.assert_close(output.auxiliary["quantiles"], inputs[..., None] + changes.auxiliary["quantiles"])
    core.head = ValueHead(tiny.QUERY_SIZE, 2).double()
    for parameter in core.head.parameters():
        nn.init.zeros_(parameter)
    for row, run in enumerate(free_run(ChangeDecoder(core), memory, first, max_length=3)):
        assert torch.equal(run.values, first[row].expand(3, 2))


def test_a_core_of_tokens_does_not_change():
    with pytest.raises(UnsupportedError, match="must be continuous"):
        ChangeDecoder(tiny.recurrent(a.bahdanau(**SIZES, size=4)))


@pytest.mark.parametrize("make", [recurrent, lambda: tiny.transformer(continuous=True).eval()])
def test_training_in_free_running_mode_is_a_free_run(make):
    decoder, memory, first = made(make())
    inputs = torch.cat([first[:, None], torch.randn(2, 3, 2).double()], 1)
    feedback = torch.ones(2, 4, dtype=torch.bool)
    forced = forced_outputs(decoder, memory, inputs, feedback)
    for row, run in enumerate(free_run(decoder, memory, first, max_length=4)):
        torch.testing.assert_close(forced.values[row], run.values)
    mixed = forced_outputs(decoder, memory, inputs, feedback & torch.tensor([[True], [False]]))
    torch.testing.assert_close(mixed.values[0], forced.values[0])
    torch.testing.assert_close(mixed.values[1], decoder(inputs, memory).values[1])


def test_the_gradient_of_a_free_run_flows_through_what_is_fed_unless_feed_detaches_it():
    decoder, memory, first = made(recurrent(levels=(0.1, 0.5)))
    inputs = first[:, None].expand(2, 3, 2)
    feedback = torch.ones(2, 3, dtype=torch.bool)

    def gradient(feed=None):
        output = forced_outputs(decoder, memory, inputs, feedback, feed=feed)
        assert output.auxiliary["quantiles"].shape == (2, 3, 2, 2)
        loss = output.values[:, -1].square().sum()
        return torch.autograd.grad(loss, decoder.head.projection.weight, retain_graph=True)[0]

    detached = gradient(lambda values, rows, step: values.detach())
    assert not torch.allclose(gradient(), detached)
    torch.testing.assert_close(gradient(lambda values, rows, step: values), gradient())


def test_a_head_and_continuous_must_agree():
    with pytest.raises(UnsupportedError, match="but a TokenHead returns log-probabilities"):
        TransformerDecoder(ValueEmbedding(2, 4), tiny.transformer().layers, TokenHead(4, 4), continuous=True)
    decoder = recurrent()
    for head in (ValueHead(4, 2), QuantileHead(4, 2)):
        with pytest.raises(UnsupportedError, match="needs continuous=True"):
            RecurrentDecoder(decoder.embedding, decoder.stack, head, decoder.bridge, attention=decoder.attention)


def test_a_step_given_for_all_steps_is_refused_by_a_transformer_of_values():
    decoder, memory, first = made(tiny.transformer(continuous=True))
    with pytest.raises(ShapeError, match="forward takes the inputs of all steps"):
        decoder(first, memory)


def test_what_pads_values_may_be_anything_in_a_recurrent_encoder():
    encoder = RecurrentEncoder(ValueEmbedding(2, 3), RecurrentStack(3, 4, cell="gru", bidirectional=True)).double()
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    values = torch.randn(2, 4, 2).double()
    results = []
    for filler in (0.0, torch.nan):
        encoded = encoder.encode(values.masked_fill(~mask[..., None], filler), mask)
        loss = encoded.memory.sum()
        results.append((encoded.memory, *torch.autograd.grad(loss, list(encoder.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_forecast_that_has_learnt_is_far_better_than_repeating_the_last_observation():
    """Sines of any phase and level, trained by teacher forcing and forecast by free runs."""
    torch.manual_seed(0)
    size = 16

    def draw(rows):
        phase, level = 6.28 * torch.rand(rows, 1), 3 * torch.randn(rows, 1)
        series = (torch.sin(phase + 0.5 * torch.arange(30)) + level)[..., None]
        return series[:, :20], series[:, 20:]

    encoder = RecurrentEncoder(ValueEmbedding(1, size), RecurrentStack(size, size, cell="gru"))
    attention = a.bahdanau(query_size=size, memory_size=size, size=size)
    input_size = RecurrentDecoder.input_size(size, size, attention=attention)
    stack = RecurrentStack(input_size, size, cell="gru")
    bridge = Bridge(encoder.stack, stack)
    core = RecurrentDecoder(
        ValueEmbedding(1, size), stack, ValueHead(size, 1), bridge, attention=attention, continuous=True
    )
    model = EncoderDecoder(encoder, ChangeDecoder(core))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        past, future = draw(32)
        inputs = torch.cat([past[:, -1:], future[:, :-1]], 1)
        total, count = squared_error(model(past, inputs).values, future)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    past, future = draw(100)
    runs = free_run(model.decoder, model.eval().prepare(past), past[:, -1], max_length=10)
    error = squared_error(torch.stack([run.values for run in runs]), future)[0]
    repeated = squared_error(past[:, -1:].expand_as(future), future)[0]
    assert error < 0.15 * repeated


class Reader:
    """Reads its source from left to right, a position every `pace` steps, and stays at the last one."""

    main_attention = "reading"
    pace = 2

    def prepare(self, lengths):
        return {"lengths": lengths}

    def initial_state(self, memory, num_hypotheses=1):
        return {"steps": torch.zeros(len(memory["lengths"]), dtype=torch.long)}

    def step(self, inputs, memory, state, *, alignment=False, generator=None):
        place = torch.minimum(state["steps"] // self.pace, memory["lengths"] - 1)
        weights = nn.functional.one_hot(place, 5).double()[:, None]
        alignments = {"reading": weights, "other": weights.flip(2)} if alignment else {}
        return DecoderOutput(values=inputs + 1, alignments=alignments), {"steps": state["steps"] + 1}


def test_a_run_ends_after_so_many_steps_at_the_last_position_of_its_source():
    lengths = torch.tensor([2, 5, 1])
    mask = torch.arange(5) < lengths[:, None]
    decoder, first = Reader(), torch.zeros(3, 1, dtype=torch.double)
    told = {"max_length": 12, "source": SearchSource(mask=mask)}
    for steps in (1, 3):
        found = free_run(decoder, decoder.prepare(lengths), first, attention_stop=steps, alignment=True, **told)
        assert [len(one.values) for one in found] == [2 * (length - 1) + steps for length in lengths.tolist()]
        assert {one.stop_reason for one in found} == {"stop"}
        for b, one in enumerate(found):
            assert one.alignments["reading"][0].argmax(1).tolist()[-steps:] == [lengths[b] - 1] * steps
    silent = free_run(decoder, decoder.prepare(lengths), first, attention_stop=3, **told)
    assert [len(one.values) for one in silent] == [5, 11, 3]
    assert all(one.alignments == {} for one in silent)
    limited = free_run(decoder, decoder.prepare(lengths), first, attention_stop=3, **{**told, "max_length": 4})
    assert [one.stop_reason for one in limited] == ["length", "length", "stop"]
    free = free_run(decoder, decoder.prepare(lengths), first, max_length=12, attention_stop=3)
    assert [len(one.values) for one in free] == [12, 11, 12]


def test_a_stop_by_attention_needs_attention_and_a_number_of_steps():
    decoder, memory, first = made(recurrent())
    with pytest.raises(ConfigError, match="attention_stop=0: give a number of steps"):
        free_run(decoder, memory, first, max_length=3, attention_stop=0)
    with pytest.raises(ShapeError, match=r"source\.mask must be \(B=2, S\)"):
        free_run(decoder, memory, first, max_length=3, source=SearchSource(mask=torch.ones(3, 4).bool()))
    sums = Sums()
    with pytest.raises(UnsupportedError, match="attention_stop reads the attention, but the decoder returns no"):
        free_run(sums, {"sums": torch.zeros(2, 1).double()}, first[:, :1], max_length=3, attention_stop=1)
