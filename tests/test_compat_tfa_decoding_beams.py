"""regard.interop.tfa's beam search and its functions, beside tensorflow-addons and the house's own search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from regard.decoding import Search, SearchSource, SimpleDecoder, search
from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.interop import tfa
from tfa_models import END, START, STEPS, Cell, attentive, case_of, close, first_state, golden, layer

torch.set_num_threads(1)
PENALTIES = {"none": (0.0, 0.0), "length": (1.0, 0.0), "both": (0.7, 0.4)}
BEAMS = {1: "decode_beam_1", 3: "decode_beam_3", 5: "decode_beam_5"}
CASES = [(BEAMS[width], width, name) for width, name in itertools.product(BEAMS, PENALTIES)]
CASES += [("decode_beam_early", width, "both") for width in (3, 5)]
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
ALL = pytest.mark.parametrize(("file", "width", "name"), CASES, ids=str)
RANKED_AGAIN = {("decode_beam_early", 3): [1], ("decode_beam_early", 5): [1]}
"""Sentences all of whose hypotheses finish before another sentence's, and change places after that."""


@torch.no_grad()
def run(kept, width, name, *, old=False, rows=slice(None), **options):
    """A search of our BeamSearchDecoder over the original's weights, in the form of either TensorFlow."""
    given, weights = kept.inputs, kept.weights
    wrapper = attentive(weights, given["memory"][rows], given["lengths"][rows], width)
    state = first_state(wrapper, given["state"][rows], width)
    starts = torch.full((len(given["state"][rows]),), START)
    penalties = dict(zip(("length_penalty_weight", "coverage_penalty_weight"), PENALTIES[name], strict=True))
    if old:
        decoder = tfa.BeamSearchDecoder(
            wrapper, weights["embedding"], starts, END, state, width, layer(weights), **penalties, **options
        )
        return tfa.dynamic_decode(decoder, maximum_iterations=STEPS)
    decoder = tfa.BeamSearchDecoder(
        wrapper, width, output_layer=layer(weights), maximum_iterations=STEPS, **penalties, **options
    )
    return decoder(weights["embedding"], start_tokens=starts, end_token=END, initial_state=state)


def real_length(ids):
    """The tokens up to the first end."""
    return ids.tolist().index(END) + 1 if END in ids.tolist() else len(ids)


@PRECISIONS
@ALL
def test_beam_search_is_that_of_the_original_with_both_penalties(file, width, name, dtype):
    """Every step's tokens, parents and scores, and the last state; whole hypotheses where the original is right."""
    kept = golden(file, dtype)
    expected = case_of(kept.outputs, f"w{width}_{name}")
    tolerance = 1e-5 if dtype == torch.float32 else 1e-6  # some of the original's penalties stay in float32
    outputs, state, lengths = run(kept, width, name)
    steps = outputs.beam_search_decoder_output
    assert torch.equal(steps.predicted_ids, expected["step_ids"].long())
    assert torch.equal(steps.parent_ids, expected["parents"].long())
    close(steps.scores, expected["scores"], tolerance)
    close(state.log_probs, expected["log_probs"], tolerance)
    assert torch.equal(state.finished, expected["finished"].bool())
    assert torch.equal(state.lengths, expected["lengths"])
    assert torch.equal(lengths, state.lengths)
    close(state.cell_state.cell_state, expected["cell"], tolerance)
    if "accumulated" in expected:
        close(state.accumulated_attention_probs, expected["accumulated"], tolerance)
    wrong = [b for b in range(4) if not torch.equal(outputs.predicted_ids[b], expected["ids"][b].long())]
    fits = [
        all(real_length(expected["ids"][b, :, k]) == int(expected["lengths"][b, k]) for k in range(width))
        for b in range(4)
    ]
    assert all(b not in wrong or not fits[b] for b in range(4)), (
        "ours differ only where the original contradicts itself"
    )
    for b, k in itertools.product(range(4), range(width)):
        assert real_length(outputs.predicted_ids[b, :, k]) == int(state.lengths[b, k])


def test_both_forms_of_the_beam_search_decoder_give_the_same():
    kept = golden("decode_beam_3")
    new, old = run(kept, 3, "both"), run(kept, 3, "both", old=True)
    assert torch.equal(new[0].predicted_ids, old[0].predicted_ids)
    assert torch.equal(new[1].log_probs, old[1].log_probs)
    module = nn.Embedding.from_pretrained(kept.weights["embedding"])
    wrapper = attentive(kept.weights, kept.inputs["memory"], kept.inputs["lengths"], 3)
    decoder = tfa.BeamSearchDecoder(
        wrapper,
        3,
        module,
        layer(kept.weights),
        0.7,
        0.4,
        maximum_iterations=torch.tensor(STEPS),
        output_time_major=True,
    )
    state = first_state(wrapper, kept.inputs["state"], 3)
    third = decoder(None, start_tokens=torch.full((4,), START), end_token=END, initial_state=state)
    assert torch.equal(third[0].predicted_ids, new[0].predicted_ids.transpose(0, 1))


@torch.no_grad()
def taught(kept, sentence, ids):
    """The alignments (T, S) of a hypothesis when its tokens are fed, and its log-probability."""
    given, weights = kept.inputs, kept.weights
    wrapper = attentive(weights, given["memory"][sentence : sentence + 1], given["lengths"][sentence : sentence + 1])
    state, rows, total = first_state(wrapper, given["state"][sentence : sentence + 1]), [], 0.0
    fed = [START, *ids.tolist()[:-1]]
    for token, following in zip(fed, ids.tolist(), strict=True):
        output, state = wrapper(weights["embedding"][[token]], state)
        rows.append(state.alignments[0])
        total += float(layer(weights)(output).log_softmax(-1)[0, following].detach())
    return torch.stack(rows).detach(), total


@ALL
def test_alignment_histories_are_those_of_the_hypotheses_where_the_original_is_one_choice_late(file, width, name):
    """Both numbers: ours are a forced pass's to 1e-5; the original's differ by up to 0.05 and more with a beam."""
    kept = golden(file)
    outputs, state, _ = run(kept, width, name)
    original = case_of(kept.outputs, f"w{width}_{name}")["history"]
    ours, theirs = state.cell_state.alignment_history, original.view(original.shape[0], 4, width, -1)
    assert ours.shape == original.shape
    ours, late = ours.view(theirs.shape), 0.0
    for b, k in itertools.product(range(4), range(width)):
        length = int(state.lengths[b, k])
        right, total = taught(kept, b, outputs.predicted_ids[b, :length, k])
        close(ours[:length, b, k], right)
        assert total == pytest.approx(float(state.log_probs[b, k]), rel=1e-5)
        if b not in RANKED_AGAIN.get((file, width), []):
            late = max(late, float((theirs[:length, b, k] - right).abs().max()))
    assert late < 1e-5 if width == 1 else late > 0.05, late


@pytest.mark.parametrize(("file", "width"), list(RANKED_AGAIN), ids=str)
def test_ids_and_lengths_of_a_sentence_that_finished_early_and_was_ranked_again_fit(file, width):
    """Both numbers: the original's tokens are those of another place than its lengths and log-probabilities."""
    kept = golden(file)
    outputs, state, _ = run(kept, width, "both")
    original = case_of(kept.outputs, f"w{width}_both")
    for b in RANKED_AGAIN[file, width]:
        theirs = [real_length(original["ids"][b, :, k]) for k in range(width)]
        assert theirs != original["lengths"][b].tolist()
        assert [real_length(outputs.predicted_ids[b, :, k]) for k in range(width)] == original["lengths"][b].tolist()
        for k in range(width):
            _, total = taught(kept, b, outputs.predicted_ids[b, : int(state.lengths[b, k]), k])
            assert total == pytest.approx(float(original["log_probs"][b, k]), rel=1e-5)
        same = {tuple(ids.tolist()) for ids in original["ids"][b].T}
        assert {tuple(ids.tolist()) for ids in outputs.predicted_ids[b].T} == same


def house(kept):
    """The same model as a decoder of the house."""

    def begin(source):
        memory, lengths, state = source
        wrapper = attentive(kept.weights, memory, lengths)
        values, keys = wrapper.attention_mechanisms[0].values, wrapper.attention_mechanisms[0].keys
        mask = torch.arange(values.shape[1]) < lengths[:, None]
        return (values, keys, mask), (state, torch.zeros(len(state), 5, dtype=state.dtype))

    w = kept.weights

    def step(ids, memory, state):
        values, keys, mask = (x.repeat_interleave(len(ids) // len(x), 0) for x in memory)
        cell, attention = state
        cell = torch.tanh(
            torch.cat([w["embedding"][ids], attention], 1) @ w["kernel"] + cell @ w["recurrent"] + w["bias"]
        )
        alignment = (keys @ cell[..., None])[..., 0].masked_fill(~mask, -torch.inf).softmax(1)
        attention = torch.cat([cell, (alignment[:, None] @ values)[:, 0]], 1) @ w["attention_layer"]
        return layer(w)(attention).log_softmax(-1), (cell, attention), alignment

    return SimpleDecoder(begin, step)


@ALL
def test_the_houses_search_that_keeps_finished_hypotheses_finds_what_the_original_finds(file, width, name):
    """Of each sentence alone; in a batch the original's results depend on the others, the house's do not."""
    kept = golden(file)
    alpha, beta = PENALTIES[name]
    options = Search(
        beam=width,
        num_best=width,
        keep_finished=True,
        **({"length_penalty": "gnmt", "alpha": alpha} if alpha else {"length_penalty": "none"}),
        **({"coverage_penalty": "tfa", "beta": beta} if beta else {}),
    )
    decoder, given = house(kept), kept.inputs
    memory = decoder.prepare((given["memory"], given["lengths"], given["state"]))
    mask = torch.arange(6) < given["lengths"][:, None]
    found = search(
        decoder, memory, options, bos=START, eos=END, max_length=STEPS, alignment=True, source=SearchSource(mask=mask)
    )
    for b, hypotheses in enumerate(found):
        expected = case_of(kept.outputs, f"w{width}_{name}.alone{b}")
        assert len(hypotheses) == width
        for k, h in enumerate(hypotheses):
            ids = expected["ids"][0, :, k]
            assert h.tokens.tolist() == ids[: real_length(ids)].tolist()
            assert (h.stop_reason == "eos") == bool(expected["finished"][0, k])
            assert h.score == pytest.approx(float(expected["scores"][0, k]), abs=1e-5)
            right, total = taught(kept, b, h.tokens)
            close(next(iter(h.alignments.values()))[0].to(right.dtype), right)
            assert h.log_probability == pytest.approx(total, rel=1e-5)


def test_a_beam_of_one_without_penalties_is_greedy_decoding():
    kept = golden("decode_beam_1")
    outputs, _, _ = run(kept, 1, "none")
    wrapper = attentive(kept.weights, kept.inputs["memory"], kept.inputs["lengths"])
    decoder = tfa.BasicDecoder(wrapper, tfa.GreedyEmbeddingSampler(), layer(kept.weights), maximum_iterations=STEPS)
    greedy, state, lengths = decoder(
        kept.weights["embedding"],
        start_tokens=torch.full((4,), START),
        end_token=END,
        initial_state=first_state(wrapper, kept.inputs["state"]),
    )
    for ids, other, length in zip(outputs.predicted_ids[..., 0], greedy.sample_id, lengths.tolist(), strict=True):
        assert ids[:length].tolist() == other[:length].tolist()
    assert state.alignment_history.size() == greedy.sample_id.shape[1]


def test_output_all_scores_has_the_scores_of_every_token_of_which_the_beam_takes_the_largest():
    kept = golden("decode_beam_3")
    outputs, _, _ = run(kept, 3, "both", output_all_scores=True)
    plain, _, _ = run(kept, 3, "both")
    steps, best = outputs.beam_search_decoder_output, plain.beam_search_decoder_output
    assert steps.scores.shape == (4, STEPS, 3, 9)
    assert torch.equal(steps.predicted_ids, best.predicted_ids)
    flat = steps.scores.flatten(2)
    close(flat.topk(3).values, best.scores)
    close(flat.gather(2, best.parent_ids * 9 + best.predicted_ids), best.scores)


def test_arrays_of_the_state_stay_as_they_were_written_without_reorder_tensor_arrays():
    kept = golden("decode_beam_3")
    _, state, _ = run(kept, 3, "both", reorder_tensor_arrays=False)
    outputs, ordered, _ = run(kept, 3, "both")
    array = state.cell_state.alignment_history
    assert isinstance(array, tfa.TensorArray)
    steps = outputs.beam_search_decoder_output
    rows = tfa.gather_tree(steps.parent_ids.transpose(0, 1), steps.parent_ids.transpose(0, 1), [STEPS] * 4, -1)
    expected = array.stack().view(STEPS, 4, 3, -1).gather(2, rows[..., None].expand(-1, -1, -1, 6))
    close(ordered.cell_state.alignment_history, expected.view(STEPS, 12, 6))


class Counter(nn.Module):
    """A cell without attention whose state is an array of another shape, a vector and a scalar."""

    state_size, output_size = (1, ()), 3

    def __init__(self, wide):
        super().__init__()
        self.wide = wide

    def forward(self, inputs, state):
        vector, array, scalar = state
        value = vector.new_zeros(self.wide) if self.wide else vector
        logits = torch.tensor([[0.0, 1.0, 2.0]]).expand(len(inputs), 3) + vector
        return logits, (vector + 1, array.write(array.size(), value), scalar)


@pytest.mark.parametrize(("wide", "ordered"), [(0, True), (5, False)])
def test_an_array_that_cannot_be_ordered_is_returned_with_a_warning(wide, ordered):
    state = (torch.zeros(4, 1), tfa.TensorArray(), torch.tensor(7))
    decoder = tfa.BeamSearchDecoder(Counter(wide), 2, maximum_iterations=3)

    def decode():
        return decoder(torch.eye(3), start_tokens=torch.tensor([0, 0]), end_token=1, initial_state=state)

    if ordered:
        _, last, _ = decode()
        assert last.cell_state[1].shape == (3, 4, 1)
    else:
        with pytest.warns(UserWarning, match="is returned unchanged: reordering needs"):
            _, last, _ = decode()
        assert isinstance(last.cell_state[1], tfa.TensorArray)
    assert int(last.cell_state[2]) == 7


def test_a_search_begins_with_one_living_hypothesis_of_each_sentence():
    kept = golden("decode_beam_3")
    wrapper = attentive(kept.weights, kept.inputs["memory"], kept.inputs["lengths"], 3)
    decoder = tfa.BeamSearchDecoder(wrapper, 3, output_layer=layer(kept.weights), coverage_penalty_weight=0.4)
    finished, inputs, state = decoder.initialize(
        kept.weights["embedding"], torch.full((4,), START), END, first_state(wrapper, kept.inputs["state"], 3)
    )
    assert finished.tolist() == [[False, True, True]] * 4
    assert inputs.shape == (4, 3, 4)
    assert state.log_probs.tolist() == [[0.0, -np.inf, -np.inf]] * 4
    assert (state.lengths.dtype, state.lengths.any()) == (torch.long, torch.tensor(False))
    assert state.cell_state.cell_state.shape == (4, 3, 5)
    assert state.accumulated_attention_probs.shape == (4, 3, 6)
    assert decoder.tracks_own_finished
    assert (decoder.batch_size, decoder.beam_width, decoder.output_size.scores) == (4, 3, (3,))
    assert decoder.output_dtype == (torch.float32, torch.long, torch.long)
    assert tfa.BeamSearchDecoder(wrapper, 3, output_all_scores=True).output_size.scores == (3, 5)
    ended = state._replace(finished=torch.ones_like(finished), log_probs=torch.zeros(4, 3))
    _, following, again, over = decoder.step(0, inputs, ended)
    assert again is decoder._start_inputs, "the first inputs once more when all have finished"
    assert over.all()
    assert not following.lengths.any()
    assert not following.accumulated_attention_probs.any()


def test_the_attention_of_several_mechanisms_and_cells_is_averaged_for_the_coverage_penalty():
    decoder = tfa.BeamSearchDecoder(Counter(0), 2, coverage_penalty_weight=0.1)

    def attending(*alignments):
        return tfa.AttentionWrapperState(None, None, alignments if len(alignments) > 1 else alignments[0], (), ())

    a, b, c = (torch.rand(4, 6) for _ in range(3))
    close(decoder._attention(attending(a)), a)
    close(decoder._attention(attending(a, b)), (a + b) / 2)
    close(decoder._attention((attending(a, b), torch.zeros(4, 1), attending(c))), ((a + b) / 2 + c) / 2)
    with pytest.raises(UnsupportedError, match="coverage_penalty_weight needs alignments"):
        decoder(
            torch.eye(3),
            start_tokens=torch.tensor([0, 0]),
            end_token=1,
            initial_state=(torch.zeros(4, 1), tfa.TensorArray(), torch.tensor(7)),
        )


START_ARGUMENTS = {
    "embedding": torch.eye(3),
    "start_tokens": torch.tensor([0, 0]),
    "end_token": 1,
    "initial_state": torch.zeros(4, 1),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding": None}, "Give an embedding"),
        ({"start_tokens": torch.tensor([[0, 0]])}, "start_tokens must be a vector"),
        ({"end_token": torch.tensor([1])}, "end_token must be a scalar"),
        ({"initial_state": torch.zeros(2, 1)}, r"2 rows, and the beam has B=2 sentences x K=2(.|\n)*tile_batch"),
        ({"initial_state": None}, "initial_state is missing"),
    ],
    ids=str,
)
def test_a_search_refuses_tokens_and_states_that_do_not_fit(change, message):
    with pytest.raises(RegardError, match=message):
        tfa.BeamSearchDecoder(Counter(0), 2).initialize(**{**START_ARGUMENTS, **change})


def test_a_beam_search_decoder_refuses_arguments_of_neither_form():
    with pytest.raises(ConfigError, match="beam_width is 0"):
        tfa.BeamSearchDecoder(Counter(0), 0)
    with pytest.raises(ConfigError, match="beam_width is None"):
        tfa.BeamSearchDecoder(Counter(0))
    with pytest.raises(TypeError, match="got beam_width twice"):
        tfa.BeamSearchDecoder(Counter(0), 2, beam_width=2)
    with pytest.raises(TypeError, match="got 8 arguments after cell"):
        tfa.BeamSearchDecoder(Counter(0), 2, None, None, 0.0, 0.0, True, False, None)
    with pytest.raises(TypeError, match="beam_size"):
        tfa.BeamSearchDecoder(Counter(0), 2, beam_size=3)
    with pytest.raises(UnsupportedError, match="impute_finished is not supported with BeamSearchDecoder"):
        tfa.BeamSearchDecoder(Counter(0), 2, impute_finished=True)(
            START_ARGUMENTS["embedding"], **{k: v for k, v in START_ARGUMENTS.items() if k != "embedding"}
        )


def test_gradients_pass_through_a_beam_search():
    """Those of the totals are those of forced passes."""
    kept = golden("decode_beam_3")
    weights = {name: value.clone().requires_grad_() for name, value in kept.weights.items()}
    cell = Cell({**weights, "kernel": weights["kernel"][:4]})
    decoder = tfa.BeamSearchDecoder(cell, 3, output_layer=layer(weights), maximum_iterations=4)
    state = tfa.tile_batch(kept.inputs["state"], 3)
    outputs, last, _ = decoder(
        weights["embedding"], start_tokens=torch.full((4,), START), end_token=END, initial_state=state
    )
    last.log_probs.sum().backward()
    found = {name: weights[name].grad.clone() for name in ("kernel", "output", "embedding")}
    for name in found:
        weights[name].grad = None
    total = torch.zeros(())
    for b, k in itertools.product(range(4), range(3)):
        hidden, token = kept.inputs["state"][b : b + 1], START
        for following in outputs.predicted_ids[b, : int(last.lengths[b, k]), k].tolist():
            output, hidden = cell(weights["embedding"][[token]], hidden)
            total = total + layer(weights)(output).log_softmax(-1)[0, following]
            token = following
    total.backward()
    for name, gradient in found.items():
        close(gradient, weights[name].grad)


def test_tile_batch_repeats_the_rows_of_every_tensor_of_a_structure():
    state = (torch.tensor([1, 2]), {"a": torch.zeros(2, 3)}, tfa.TensorArray((torch.tensor([3, 4]),)), None)
    tiled = tfa.tile_batch(state, multiplier=2)
    assert tiled[0].tolist() == [1, 1, 2, 2]
    assert tiled[1]["a"].shape == (4, 3)
    assert tiled[2].read(0).tolist() == [3, 3, 4, 4]
    assert tfa.tile_batch([3, 1], 2).tolist() == [3, 3, 1, 1]
    assert tfa.tile_batch(tfa.LSTMStateTuple(torch.zeros(2, 1), torch.ones(2, 1)), 3).h.shape == (6, 1)
    with pytest.raises(ShapeError, match="must have rows to repeat"):
        tfa.tile_batch(torch.tensor(1), 2)


def test_gather_tree_traces_hypotheses_back_as_the_original():
    kept = golden("gather_tree")
    given = kept.inputs
    ids = tfa.gather_tree(given["step_ids"], given["parent_ids"], given["max_lengths"], 4)
    assert torch.equal(ids, kept.outputs["ids"])
    one = tfa.gather_tree(
        torch.tensor([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[-1, -1, -1]]]),
        torch.tensor([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[-1, -1, -1]]]),
        [3],
        10,
    )
    assert one[:, 0].tolist() == [[2, 2, 2], [6, 5, 6], [7, 8, 9], [10, 10, 10]]


def test_gather_tree_has_only_end_tokens_after_the_first():
    ids = torch.tensor([[[7, 8]], [[9, 3]], [[4, 5]]])
    found = tfa.gather_tree(ids, torch.tensor([[[0, 0]], [[0, 1]], [[0, 1]]]), [3], 9)
    assert found[:, 0].tolist() == [[7, 8], [9, 3], [9, 5]]


def test_gather_tree_refuses_parents_that_are_no_places_unless_they_lie_behind_the_end():
    ids, parents = torch.zeros(3, 1, 2, dtype=torch.long), torch.zeros(3, 1, 2, dtype=torch.long)
    for wrong in (-1, 2):
        parents[2, 0, 1] = wrong
        with pytest.raises(RegardError, match=rf"parent_ids\[2, 0, 1\] is {wrong}, which is no place of a beam of 2"):
            tfa.gather_tree(ids, parents, [3], 9)
        assert tfa.gather_tree(ids, parents, [2], 9)[2].tolist() == [[9, 9]]
    with pytest.raises(ShapeError, match=r"must be \(T, B, K\)"):
        tfa.gather_tree(ids, parents[0], [3], 9)
    with pytest.raises(ShapeError, match=r"must be \(T, B, K\)"):
        tfa.gather_tree(ids, parents, [3, 3], 9)


@pytest.mark.parametrize("split", [False, True])
def test_gather_tree_from_array_orders_an_array_and_keeps_places_beyond_the_lengths(split):
    kept = golden("gather_tree")
    given = kept.inputs
    array = given["array"].view(7, 4, 3, 2) if split else given["array"]
    found = tfa.gather_tree_from_array(array, given["parent_ids"], given["lengths"])
    close(found.view(7, 12, 2), kept.outputs["gathered"])
    steps = tfa.TensorArray(array.unbind(0))
    assert torch.equal(tfa.gather_tree_from_array(steps, given["parent_ids"], given["lengths"]), found)
    with pytest.raises(ShapeError, match=r"The array must be \(T=7, B=4, K=3, …\)"):
        tfa.gather_tree_from_array(array[:, :3], given["parent_ids"], given["lengths"])


def test_a_beam_search_decoder_is_called_with_its_arguments_in_order():
    decoder = tfa.BeamSearchDecoder(nn.GRUCell(3, 1), 2, output_layer=nn.Linear(1, 3), maximum_iterations=3)
    by_name = decoder(START_ARGUMENTS["embedding"], **{k: v for k, v in START_ARGUMENTS.items() if k != "embedding"})
    in_order = decoder(*START_ARGUMENTS.values())
    assert torch.equal(in_order[0].predicted_ids, by_name[0].predicted_ids)
    assert torch.equal(in_order[1].log_probs, by_name[1].log_probs)


@pytest.mark.parametrize("end", [-1, 99])
def test_an_end_token_without_a_logit_is_an_error(end):
    decoder = tfa.BeamSearchDecoder(nn.GRUCell(3, 1), 2, output_layer=nn.Linear(1, 3), maximum_iterations=3)
    with pytest.raises(ConfigError, match=f"end_token={end} is none of the N="):
        decoder(*{**START_ARGUMENTS, "end_token": end}.values())


@pytest.mark.parametrize("wrong", [0, -1, 2.5])
def test_a_batch_is_tiled_by_a_whole_number_above_0(wrong):
    with pytest.raises(ConfigError, match="multiplier must be a whole number, 1 or more"):
        tfa.tile_batch(torch.zeros(2, 1), wrong)
